// What nodes and kernels have to do at least: floating-point operations, bytes, arithmetic. One meaning for passes and
// reports; what it takes on a target is in time.h.
#pragma once

#include <map>
#include <string>

#include "ir/kernel_ir/kernel.h"
#include "ir/module.h"

namespace nabla::ir {

/// What must be moved and multiplied at least, at the sizes of a run.
struct Work {
  Dim bytes = 0;                ///< of the arrays that are read and written, each once
  Dim flops = 0;                ///< of products and of attention, a multiply-add counted as two; 0: there are none
  DType factors = DType::kF32;  ///< of the products: the wider one
};

/// Floating-point operations of a node, by its op's record.
Dim node_flops(const Function& f, const Node& node);

/// Floating-point operations that a launch runs: those of the nodes of the `flat` function that it computes. One node may have become
/// several kernels: its products count only in the kernel that multiplies, and at most as many as that kernel has. For example, a
/// kernel that transposes a factor of a product adds nothing. `flat` and `kernel` may be null: then they are unknown.
Dim launch_flops(const Node& launch, const Function* flat, const kernel_ir::Kernel* kernel);

/// Of a node's results and operands, an array that stands there twice once.
Dim operand_bytes(const Function& f, const Node& node);

/// What the statements of a kernel read, write and multiply. An operand from which it gathers counts as far as it can
/// be read. Scratch memory may stay in caches and does not count.
Work kernel_work(const kernel_ir::Kernel& kernel);

/// Bytes that a node of a module of kernels reads and writes: what its kernel touches of the arrays, where it runs one, and else the
/// arrays. Reports, profiles and predictions count these.
class MovedBytes {
 public:
  explicit MovedBytes(const Module& module);
  Dim of(const Function& f, const Node& node) const;

 private:
  std::map<std::string, Dim> kernels_;
};

/// Arithmetic of one evaluation: the costs of its scalar functions (kernel_ir/scalar.h), of which those of addresses
/// are free beside the data.
int64_t arithmetic(const kernel_ir::Expr& e);

/// Returns the upper bound of a symbolic size, or the size itself if it is static.
inline double largest_size(const Dim& d) { return static_cast<double>(d.bounds().max); }

}  // namespace nabla::ir
