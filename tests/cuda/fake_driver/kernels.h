// What the fake driver needs of an object with kernels: a table that says which there are, and a function that runs
// one. The only place where the driver and whatever executes kernels meet.
#pragma once

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

}  // namespace nabla::fake_cuda
