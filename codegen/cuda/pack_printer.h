// Pointwise kernels by packs: 16 bytes a thread and access.
#pragma once

#include "codegen/cuda/team_printer.h"

namespace nabla::codegen {

/// The flat offset of an access to a tensor of this shape; nothing where it is not affine with static coefficients.
std::optional<kernel_ir::Affine> flat_offset(const std::vector<kernel_ir::Expr>& at, const ir::Shape& shape);
/// Do packs of `width` along `lane` start at multiples of their width, wherever the other axes stand?
bool packs_divide(const kernel_ir::Affine& offset, int lane, int64_t width);

/// How a pointwise body moves through memory.
struct Packs {
  int width = 1;             ///< elements of one pack; 1: not by packs
  std::vector<int> buffers;  ///< those that are moved in packs, whose addresses must be multiples of 16
};

/// By packs along the last of `axes`, where every access either walks that axis element by element, from places that
/// packs divide, or does not move with it. Guarded accesses and those by formula go one by one beside the packs.
Packs find_packs(const kernel_ir::Kernel& kernel, const std::vector<int>& axes, const kernel_ir::Body& body);

/// The body for all positions of `axes`, shared out to the threads of the grid, a pack each. The numbers at the
/// kernel's head are printed already.
void print_packs(const kernel_ir::Kernel& kernel, const Packs& packs, const std::vector<int>& axes,
                 const kernel_ir::Body& body, CppWriter& out, int& next_temp);

}  // namespace nabla::codegen
