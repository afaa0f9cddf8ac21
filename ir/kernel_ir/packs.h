// How accesses walk through memory, and pointwise bodies that move packs of neighbouring elements.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ir/kernel_ir/kernel.h"

namespace nabla::kernel_ir {

/// How many elements of a tensor of this shape lie between the places of neighbours on `axis`; nullopt where they do
/// not lie evenly, or where the distance is not known. `moves` says whether an expression depends on the axis.
std::optional<int64_t> stride_along(const std::vector<Expr>& indices, const ir::Shape& shape, int axis,
                                    const std::function<bool(const Expr&)>& moves);
/// The flat offset of an access to a tensor of this shape; nothing where it is not affine with static coefficients.
std::optional<Affine> flat_offset(const std::vector<Expr>& at, const ir::Shape& shape);
/// Does the access walk `lane` element by element?
bool walks(const Affine& offset, int lane);
/// Do packs of `width` along `lane` start at multiples of their width, wherever the other axes stand?
bool packs_divide(const Affine& offset, int lane, int64_t width);

/// Lets and stores of single elements, and nothing that depends on their order between elements.
bool is_pointwise(const Kernel& kernel, const Body& body);

/// How a pointwise body moves through memory.
struct Packs {
  int width = 1;             ///< elements of one pack; 1: not by packs
  std::vector<int> buffers;  ///< those that are moved in packs, whose addresses must be multiples of 16
};

/// By packs along the last of `axes`, where every access either walks that axis element by element, from places that
/// packs divide, or does not move with it. Guarded accesses and those by formula go one by one beside the packs.
Packs find_packs(const Kernel& kernel, const std::vector<int>& axes, const Body& body);

}  // namespace nabla::kernel_ir
