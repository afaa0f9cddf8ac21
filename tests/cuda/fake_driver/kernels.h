// How the fake driver runs kernels: the only place where it and whatever executes them meet. An object of kernels is a
// shared object of one of two kinds: one of the emulator's (tests/cuda/emulator), made of a CUDA source; or a
// hand-written one with a table (sequential.h), for tests that need neither a compiler nor barriers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace nabla::emulator {
class Machine;
}
namespace nabla::fake_cuda {

extern "C" {

/// One row of a hand-written object's `nb_fake_kernels`, whose last row has no symbol.
struct nb_fake_kernel {
  const char* symbol;
  void (*trampoline)(void** args);  ///< the kernel, for the thread that runs; args[i] points to parameter i
  int arg_count;                    ///< pointers all of them
  unsigned static_shared;           ///< bytes of shared memory that it declares
};

/// Its `nb_fake_launch`: runs `blocks` blocks of `threads`.
using nb_fake_launch_function = void (*)(const struct nb_fake_kernel* kernel, unsigned blocks, unsigned threads,
                                         void** args);
}

class Kernels {
 public:
  virtual ~Kernels() = default;
  /// Null: the file is no such object; the reason goes to stderr.
  static std::unique_ptr<Kernels> open(const std::string& file);
  /// Bytes of each parameter of a kernel; nothing: there is none of this name.
  virtual std::optional<std::vector<size_t>> parameters(const std::string& symbol) const = 0;
  /// Bytes of shared memory that a kernel declares. The emulator knows those of an object: exact where it has one
  /// kernel, otherwise 0.
  virtual unsigned static_shared(const std::string& symbol) const = 0;
  /// args[i] points to parameter i. False: the kernel did what a GPU would refuse, or what the machine's checker found;
  /// stderr says what. Hand-written kernels need no machine.
  virtual bool launch(const std::string& symbol, unsigned blocks, unsigned threads, unsigned shared_bytes,
                      std::vector<void*> args, emulator::Machine& machine) const = 0;
};

}  // namespace nabla::fake_cuda
