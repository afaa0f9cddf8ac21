#include "tests/cuda/fake_gpu.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "runtime/format/bundle_reader.h"
#include "runtime/format/program_generated.h"
#include "runtime/format/sha256.h"
#include "tests/cuda/emulator/object.h"

namespace nabla::emulator {

Status use_fake_gpu(const std::string& bundle_bytes, const std::string& driver, const FakeGpuOptions& options) {
  format::Bundle bundle =
      NABLA_TRY(format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(bundle_bytes)), "bundle"));
  static int folders = 0;  // sources may have been changed: no object serves another call
  if (!options.beside || folders == 0) ++folders;
  std::filesystem::path folder =
      std::filesystem::path(std::getenv("TEST_TMPDIR")) / fmt::format("emulated_{}", folders);
  std::filesystem::create_directories(folder);
  std::vector<std::pair<std::string, const format::Program*>> programs;  // with their class's folder
  for (const format::BundleClass& of : bundle.classes())
    for (const format::Program* program : of.programs) programs.emplace_back(of.folder, program);
  for (const auto& [of, program] : programs) {
    if (program->compute() == 0 || program->kernels() == nullptr) continue;
    std::set<std::string> objects;
    for (const format::Kernel* kernel : *program->kernels()) objects.insert(kernel->object()->str());
    for (const std::string& object : objects) {
      format::Bytes bytes = bundle.member(object);
      if (program->ptx()) bytes = bytes.first(bytes.size() - 1);  // the driver sees text up to its final 0
      std::filesystem::path file = folder / (format::sha256_hex(bytes) + ".so");
      std::string source = of + "source/" + std::filesystem::path(object).stem().string() + ".cu";
      std::string text(format::as_text(bundle.member(source)));
      if (options.change) text = options.change(std::move(text));
      std::string compiled = NABLA_TRY(compile_object(text, options.checked));
      std::ofstream(file, std::ios::binary) << compiled;
    }
  }
  setenv("NABLA_CUDA_DRIVER", driver.c_str(), 1);
  setenv("NABLA_FAKE_CUDA", folder.c_str(), 1);
  std::filesystem::path fakes = std::filesystem::path(driver).parent_path().parent_path();
  setenv("NABLA_CUBLASLT", (fakes / "fake_cublaslt/libfake_cublaslt.so").c_str(), 1);
  setenv("NABLA_CUDNN", (fakes / "fake_cudnn/libfake_cudnn.so").c_str(), 1);
  setenv("NABLA_NCCL", (fakes / "fake_nccl/libfake_nccl.so").c_str(), 1);
  options.checked ? setenv("NABLA_FAKE_CUDA_CHECKED", "1", 1) : unsetenv("NABLA_FAKE_CUDA_CHECKED");
  return Ok{};
}

}  // namespace nabla::emulator
