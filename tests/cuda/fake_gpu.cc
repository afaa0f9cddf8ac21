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

Status use_fake_gpu(const std::string& bundle_bytes, const std::string& driver) {
  format::Bundle bundle =
      NABLA_TRY(format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(bundle_bytes)), "bundle"));
  std::filesystem::path folder = std::filesystem::path(std::getenv("TEST_TMPDIR")) / "emulated";
  std::filesystem::create_directories(folder);
  for (const format::Program* program : bundle.programs()) {
    if (program->compute() == 0 || program->ptx() || program->kernels() == nullptr) continue;
    std::set<std::string> objects;
    for (const format::Kernel* kernel : *program->kernels()) objects.insert(kernel->object()->str());
    for (const std::string& object : objects) {
      std::filesystem::path file = folder / (format::sha256_hex(bundle.member(object)) + ".so");
      if (std::filesystem::exists(file)) continue;
      std::string source = "source/" + std::filesystem::path(object).stem().string() + ".cu";
      std::string bytes = NABLA_TRY(compile_object(std::string(format::as_text(bundle.member(source))), false));
      std::ofstream(file, std::ios::binary) << bytes;
    }
  }
  setenv("NABLA_CUDA_DRIVER", driver.c_str(), 1);
  setenv("NABLA_FAKE_CUDA", folder.c_str(), 1);
  std::filesystem::path library =
      std::filesystem::path(driver).parent_path().parent_path() / "fake_cublaslt/libfake_cublaslt.so";
  setenv("NABLA_CUBLASLT", library.c_str(), 1);
  return Ok{};
}

}  // namespace nabla::emulator
