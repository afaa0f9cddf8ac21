#include "tests/cuda/fake_driver/kernels.h"

#include <dlfcn.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "tests/cuda/emulator/engine.h"
#include "tests/cuda/emulator/object.h"

namespace nabla::fake_cuda {
namespace {

int run_emulated(const emulator::Object& object, const NbEmuKernel& kernel, unsigned blocks, unsigned threads,
                 unsigned shared_bytes, void** args) {
  emulator::Report report;
  emulator::Engine::get().run(
      {&object.table(), &kernel, blocks, threads, shared_bytes, args}, {},
      [&](const void* pc) { return object.lines(pc); }, nullptr, report);
  if (!report.clean()) std::fprintf(stderr, "fake libcuda: %s: %s\n", kernel.symbol, report.str().c_str());
  return report.clean() ? 0 : 1;
}

}  // namespace

std::vector<LoadedKernel> load_kernels(const std::string& path, std::shared_ptr<void>& owner) {
  std::vector<LoadedKernel> out;
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    std::fprintf(stderr, "fake libcuda: %s\n", ::dlerror());
    return out;
  }
  owner = std::shared_ptr<void>(handle, [](void* h) { ::dlclose(h); });
  const auto* rows = static_cast<const nb_emu_kernel*>(::dlsym(handle, "nb_emu_kernels"));
  auto launch = reinterpret_cast<nb_emu_launch_function>(::dlsym(handle, "nb_emu_launch"));
  if (rows != nullptr && launch != nullptr) {
    for (; rows->symbol != nullptr; ++rows)
      out.push_back({rows->symbol, rows->arg_count,
                     [=](unsigned b, unsigned t, unsigned s, void** args) { return launch(rows, b, t, s, args); }});
    return out;
  }
  auto object = emulator::Object::load(bytes.str(), "");
  if (!object.ok()) {
    std::fprintf(stderr, "fake libcuda: %s: %s\n", path.c_str(), to_string(object.errors()).c_str());
    return out;
  }
  std::shared_ptr<emulator::Object> emulated = *object;
  owner = emulated;
  for (int i = 0; i < emulated->table().count; ++i) {
    const NbEmuKernel& kernel = emulated->table().kernels[i];
    out.push_back(
        {kernel.symbol, kernel.args, [&kernel, o = emulated.get()](unsigned b, unsigned t, unsigned s, void** args) {
           return run_emulated(*o, kernel, b, t, s, args);
         }});
  }
  return out;
}

}  // namespace nabla::fake_cuda
