// For hand-written kernels of tests that need no barrier: every thread is a call, one after another. Include it in one
// file per object, which ends with NB_KERNELS({"name", nb_call<name>, 3}, ...).
#pragma once

#include <utility>

#include "tests/cuda/fake_driver/kernels.h"

namespace nabla::fake_cuda {

struct Index {
  unsigned x = 0;
};
inline Index thread_index, block_index, block_size, grid_size;

template <class... T, std::size_t... I>
void call_with(void (*kernel)(T*...), void** args, std::index_sequence<I...>) {
  kernel(*static_cast<T**>(args[I])...);
}
template <class... T>
void call_with(void (*kernel)(T*...), void** args) {
  call_with(kernel, args, std::index_sequence_for<T...>());
}
/// The trampoline of a kernel.
template <auto kernel>
void nb_call(void** args) {
  call_with(kernel, args);
}

inline void launch(const nb_fake_kernel* kernel, unsigned blocks, unsigned threads, void** args) {
  grid_size.x = blocks, block_size.x = threads;
  for (block_index.x = 0; block_index.x < blocks; ++block_index.x)
    for (thread_index.x = 0; thread_index.x < threads; ++thread_index.x) kernel->trampoline(args);
}

}  // namespace nabla::fake_cuda

#define NB_KERNELS(...)                                                                                      \
  extern "C" {                                                                                               \
  extern const nabla::fake_cuda::nb_fake_kernel nb_fake_kernels[] = {__VA_ARGS__, {nullptr, nullptr, 0, 0}}; \
  void nb_fake_launch(const nabla::fake_cuda::nb_fake_kernel* kernel, unsigned blocks, unsigned threads,     \
                      void** args) {                                                                         \
    nabla::fake_cuda::launch(kernel, blocks, threads, args);                                                 \
  }                                                                                                          \
  }
