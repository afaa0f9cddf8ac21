#include "tests/cuda/fake_gpu.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "runtime/device/cuda_driver.h"
#include "runtime/format/bundle_reader.h"
#include "runtime/format/program_generated.h"
#include "runtime/format/sha256.h"
#include "tests/cuda/emulator/object.h"

namespace nabla::emulator {
namespace {

constexpr int kMaxDynamicShared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


/// Loads every kernel of the program on a GPU of every capability that its code runs on, as the runtime does: a chip with less shared
/// memory than the one that the program was compiled for must not refuse it.
Status load_everywhere(const format::Bundle& bundle, const format::Program& program) {
  const char* before = std::getenv("NABLA_FAKE_CUDA_CAPABILITY");
  const std::string kept = before != nullptr ? before : "";
  device::CudaDevice gpu = NABLA_TRY(device::CudaDevice::open());
  const device::CudaDriver& cuda = *gpu.driver;
  device::CudaContext context = nullptr;
  NABLA_TRY(cuda.check("opening the GPU", cuda.context_retain(&context, gpu.device)));
  NABLA_TRY(cuda.check("entering the context", cuda.context_set(context)));
  Status loaded = Ok{};
  for (int capability : {80, 86, 87, 89, 90, 100, 103, 120, 121}) {
    const int made_for = program.compute();
    const bool same_major = capability / 10 == made_for / 10 && capability >= made_for;
    if (program.ptx() ? capability < made_for : program.specific() ? capability != made_for : !same_major) continue;
    setenv("NABLA_FAKE_CUDA_CAPABILITY", fmt::format("{}.{}", capability / 10, capability % 10).c_str(), 1);
    std::map<std::string, device::CudaModule> modules;
    for (const format::Kernel* kernel : *program.kernels()) {
      const std::string object = kernel->object()->str();
      if (!modules.contains(object) && loaded.ok())
        loaded = cuda.check("loading " + object, cuda.module_load(&modules[object], bundle.member(object).data()));
      for (const format::Grid* grid : *kernel->grids()) {
        if (!loaded.ok()) break;
        const std::string what = fmt::format("{} with {} bytes of shared memory, for {}, on a GPU of capability {}", grid->symbol()->str(),
                                             grid->shared_bytes(), program.target()->str(), capability);
        device::CudaFunction function = nullptr;
        loaded = cuda.check(what, cuda.module_function(&function, modules[object], grid->symbol()->c_str()));
        if (loaded.ok())
          loaded = cuda.check(what, cuda.function_set(function, kMaxDynamicShared, static_cast<int>(grid->shared_bytes())));
      }
    }
    for (auto& [name, module] : modules) (void)cuda.module_unload(module);
  }
  (void)cuda.context_release(gpu.device);
  before != nullptr ? setenv("NABLA_FAKE_CUDA_CAPABILITY", kept.c_str(), 1) : unsetenv("NABLA_FAKE_CUDA_CAPABILITY");
  return loaded;
}

}  // namespace

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
  for (const auto& [of, program] : programs)
    if (program->compute() > 0 && program->kernels() != nullptr) NABLA_TRY(load_everywhere(bundle, *program));
  return Ok{};
}

}  // namespace nabla::emulator
