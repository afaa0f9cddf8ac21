// The programs that a check of a GPU runs: one entry per kind of kernel, and what the ceilings are measured by.
#pragma once

#include <string>
#include <vector>

#include "frontend/nabla.h"

namespace nabla::gpu_check {

/// How large everything is: `small` is for the emulator, whose numbers mean nothing.
struct Scale {
  bool small = false;
  int64_t of(int64_t full, int64_t tiny) const { return small ? tiny : full; }
};

/// An entry of the kinds' program, and how its results may differ from the CPU's.
struct Kind {
  std::string name;
  double tolerance = 2e-5;  ///< |got - want| <= tolerance (1 + |want|)
  int64_t integers = 8;     ///< integer inputs are drawn from [0, integers)
};
/// Declares an entry per kind of kernel.
std::vector<Kind> add_kinds(Program& program, const Scale& scale);
/// Declares entries for NVIDIA's libraries: products, and convolutions with both gradients.
std::vector<Kind> add_library_kinds(Program& program, const Scale& scale);

/// A product whose time is measured: operands and result are state.
struct Product {
  std::string entry;
  DType dtype;
  double flops = 0;
};
struct Speed {
  std::vector<Product> products;
  double copy_bytes = 0;  ///< read and written by entry `copy`
  int64_t chain = 0;      ///< kernels of entry `chain`, each of which needs the one before; `one` is one of them
};
/// Entries `fill`, `copy`, `one`, `chain` and one per product.
Speed add_speed(Program& program, const Scale& scale);

}  // namespace nabla::gpu_check
