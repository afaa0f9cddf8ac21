// How the threads of a team share out the rows of an iteration: elements, or packs of neighbouring ones, which of what they
// read they keep in registers.
#pragma once

#include <vector>

#include "ir/kernel_ir/kernel.h"

namespace nabla::kernel_ir {

/// The axes of a statement that the threads of a team of `team` share out; none: a thread runs it alone, or each for itself.
/// Of a row they are its own axes, or, where it has few elements, those that it sums along.
std::vector<int> shared_axes(const Kernel& kernel, const Let& let, int team);
std::vector<int> shared_axes(const Kernel& kernel, const Store& store);
/// Has a row fewer elements than make work for a team, so that the threads compute each of them together?
bool computed_together(const Kernel& kernel, const Let& row, int team);

bool reads(const Expr& e, const Expr& load);

/// An array's elements that several statements read, where every thread can keep its own in registers.
struct KeptLoad {
  Expr load;
  std::vector<int> axes;  ///< that are shared out
  int trips;              ///< packs of a thread
};

struct RowPacks {
  int width = 1;              ///< elements of a pack; 1: not by packs
  std::vector<int> buffers;   ///< those that are moved in packs, whose addresses must be multiples of 16
  std::vector<KeptLoad> kept;
};
/// Packs along the last of the axes that statements share out. Every access either walks that axis element by element, from
/// places that packs divide, or does not move with it, or is made element by element.
RowPacks find_row_packs(const Kernel& kernel, const Body& body, int team);
/// Does a thread take packs of `width` when these axes are shared out? It follows from the axes alone, so that an element is the
/// same thread's in every statement.
bool by_packs(const Kernel& kernel, const std::vector<int>& axes, int team, int width);

}  // namespace nabla::kernel_ir
