// Kernels of the user's: C++ or CUDA source that is compiled into the bundle (docs/user-kernels.md).
//
//   auto swish = nabla::cpp_kernel("swish", "T[n] -> T[n]", R"(
//     #include <math.h>
//     void swish(const T* x, T* y, int64_t n) {
//       for (int64_t i = 0; i < n; ++i) y[i] = x[i] / (1 + exp(-x[i]));
//     })").cuda(R"(
//     __device__ void swish(const T* x, T* y, int64_t n) {
//       const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
//       if (i < n) y[i] = x[i] / (1 + exp(-x[i]));
//     })").reference([](nabla::Tensor x) { return x * nabla::logistic(x); }).factors("n->n");
//   nabla::Tensor y = swish(x);
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "frontend/cpp/trace.h"

namespace nabla {

/// How vmap runs a kernel.
enum class Batching : uint8_t { kSequential, kLeading };
/// One call per example, in a loop.
inline constexpr Batching sequential() { return Batching::kSequential; }
/// One call for all examples: the code takes their number as `int64_t batch` before the sizes of the signature, and
/// every buffer has that many examples, one after the other.
inline constexpr Batching leading() { return Batching::kLeading; }

/// The grid whose threads call a kernel's CUDA function.
struct CudaLaunch {
  int threads = 256;  ///< per block, 1 to 1024
  /// A size over the names of the signature, and `batch` with leading(): "ceildiv(n, 256)", "rows". At least 1 is
  /// taken. Empty: as many as make a thread per element of the first result.
  std::string blocks = {};
  int shared_bytes = 0;  ///< dynamic shared memory per block, which the source declares `extern __shared__`
};

/// A function of tensors with any number of parameters; what it is given and what it returns are flat.
using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// Calls f, whose parameters are tensors, with as many as there are, at most 12. Returns false where f does not take
/// so many.
template <class F, size_t... I>
bool call_with(F& f, const std::vector<Tensor>& args, std::vector<Tensor>& out, std::index_sequence<I...>) {
  if constexpr (std::is_invocable_v<F&, decltype(args[I])...>) {
    if (args.size() == sizeof...(I)) {
      out = tensors_of(f(args[I]...));
      return true;
    }
  }
  return false;
}
template <class F>
TensorFunction tensor_function(F f, std::string what) {
  return [f = std::move(f), what = std::move(what)](const std::vector<Tensor>& args) {
    F own = f;
    std::vector<Tensor> out;
    bool called = [&]<size_t... N>(std::index_sequence<N...>) {
      return (call_with(own, args, out, std::make_index_sequence<N>{}) || ...);
    }
    (std::make_index_sequence<13>{});
    if (!called) throw Error(error(Code::kOperandCount, "{} does not take {} tensors", what, args.size()));
    return out;
  };
}

/// Calls of a kernel with so many operands. The parameters capture the caller's place.
template <class Kernel, size_t... I>
struct KernelCall {
  Tensor operator()(const Argument<I>&... args) const {
    Site site;
    for (const Arg* a : {static_cast<const Arg*>(nullptr), &args...})
      if (a && site.line == 0) site = a->site();
    return static_cast<const Kernel&>(*this).one({args.tensor()...}, site);
  }
};

/// The result of a call, `kernel(x, y)` with up to 6 operands, is a Tensor; `results` takes any number and returns all.
/// Both throw Error where the operands do not fit the signature (E0203 and others).
class UserKernel : public KernelCall<UserKernel>,
                   public KernelCall<UserKernel, 0>,
                   public KernelCall<UserKernel, 0, 1>,
                   public KernelCall<UserKernel, 0, 1, 2>,
                   public KernelCall<UserKernel, 0, 1, 2, 3>,
                   public KernelCall<UserKernel, 0, 1, 2, 3, 4>,
                   public KernelCall<UserKernel, 0, 1, 2, 3, 4, 5> {
 public:
  using KernelCall<UserKernel>::operator();
  using KernelCall<UserKernel, 0>::operator();
  using KernelCall<UserKernel, 0, 1>::operator();
  using KernelCall<UserKernel, 0, 1, 2>::operator();
  using KernelCall<UserKernel, 0, 1, 2, 3>::operator();
  using KernelCall<UserKernel, 0, 1, 2, 3, 4>::operator();
  using KernelCall<UserKernel, 0, 1, 2, 3, 4, 5>::operator();

  /// The same kernel for GPUs: `source` defines the function with the same parameters, and every thread of the grid
  /// calls it. Line numbers of messages are those of the file that holds the source's text.
  UserKernel cuda(std::string source, CudaLaunch launch = {}, const Site& site = Site::here()) const;
  /// What the kernel computes, on tensors of the same types: for derivatives, the interpreter and tests.
  template <class F>
  UserKernel reference(F f) const {
    return with_reference(tensor_function(std::move(f), "the reference of " + name()));
  }
  /// Gradients of the floating operands, in order: f(operands..., results..., a cotangent per floating result).
  template <class F>
  UserKernel vjp(F f) const {
    return with_vjp(tensor_function(std::move(f), "the vjp of " + name()));
  }
  /// The same two for functions that are flat already.
  UserKernel with_reference(TensorFunction f) const;
  UserKernel with_vjp(TensorFunction f) const;
  /// How dimensions go together: "nd,d->nd". A dimension that results keep may be split, so that rows are shared out
  /// to threads. Without it nothing is split.
  UserKernel factors(std::string text) const;
  UserKernel batching(Batching batching) const;

  /// All results.
  std::vector<Tensor> results(const std::vector<Tensor>& operands, Site site = Site::here()) const;
  /// The only result; E0201 where there are several.
  Tensor one(const std::vector<Tensor>& operands, Site site = Site::here()) const;

  template <class... T>
  Tensor call_at(const Site& site, const T&... args) const {
    return one({args...}, site);
  }
  const std::string& name() const;

 private:
  struct Parts;
  explicit UserKernel(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  friend UserKernel cpp_kernel(std::string, std::string, std::string, Site);
  friend UserKernel cuda_kernel(std::string, std::string, std::string, CudaLaunch, Site);

  std::shared_ptr<const Parts> parts_;
};

/// A kernel of the name `name`, which `source` defines in C++, for CPUs; .cuda(source) adds GPUs. `signature` is its
/// shape rule: "T[n,d], f32[d] -> T[n,d]". Line numbers of the host compiler's messages are those of the file that
/// holds the source's text.
UserKernel cpp_kernel(std::string name, std::string signature, std::string source, Site site = Site::here());
/// A kernel for GPUs alone, as .cuda(source, launch) adds it. A program with it compiles for no CPU (E0403); the
/// interpreter runs its reference.
UserKernel cuda_kernel(std::string name, std::string signature, std::string source, CudaLaunch launch = {},
                       Site site = Site::here());

}  // namespace nabla
