// What the fake driver needs of an object with kernels: which there are, and a function that runs one. Objects of the
// emulator (compiled CUDA text, tests/cuda/emulator) run on its fibers; others, of hand-written kernels that need no
// barrier, bring a table and a function of their own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace nabla::fake_cuda {

extern "C" {

/// One row of the object's table `nb_emu_kernels`, whose last row has no symbol.
struct nb_emu_kernel {
  const char* symbol;
  void (*trampoline)(void** args);  ///< the kernel, for the thread that runs; args[i] points to parameter i
  int arg_count;                    ///< pointers all of them
};

/// The object's `nb_emu_launch`: runs `blocks` blocks of `threads`. Not 0: the kernel did what a GPU would refuse.
using nb_emu_launch_function = int (*)(const struct nb_emu_kernel* kernel, unsigned blocks, unsigned threads,
                                       unsigned shared_bytes, void** args);
}

/// Runs `blocks` blocks of `threads`; args[i] points to argument i, a pointer. Not 0: what a GPU would refuse.
using Launch = std::function<int(unsigned blocks, unsigned threads, unsigned shared_bytes, void** args)>;

struct LoadedKernel {
  std::string symbol;
  int arg_count = 0;
  Launch launch;
};
/// The kernels of a shared object, for as long as `owner` lives; none, and a line on stderr, where it is unusable.
std::vector<LoadedKernel> load_kernels(const std::string& path, std::shared_ptr<void>& owner);

}  // namespace nabla::fake_cuda
