// Where the parts of a value lie, while passes work on it; and factors under axes.
#pragma once

#include <vector>

#include "ir/op_def.h"
#include "ir/sharding.h"

namespace nabla::passes {

/// The layout of a value: mesh axes per dimension, major first, and those over which its parts are still to be summed.
struct Layout {
  std::vector<ir::Axes> dims;
  ir::Axes pending;
  bool operator==(const Layout&) const = default;
};

/// Of a sharding, or of nothing said: whole on every rank.
Layout layout_of(const ir::ShardingRef& sharding, int rank);
/// Null where the layout is whole; uneven shards allow padding. Requires that nothing is pending.
ir::ShardingRef sharding_of(const Layout& layout, const ir::Mesh& mesh, const ir::Type& type);
/// Of so many dimensions, each of them whole on every rank; each left to propagation.
ir::Sharding whole_sharding(int rank);
ir::Sharding open_sharding(int rank);
/// How many parts a deterministic sum has: ranks and microbatches along it divide them.
inline constexpr int64_t kGranules = 8;
/// Whether the extent is eight equal parts. What a deterministic program lays out along axes has them whatever the axes' sizes, so
/// that one rank and eight share the same sums.
bool has_granules(const ir::Dim& extent);
/// The type of a part, with its padding.
ir::Type local_type(const ir::Mesh& mesh, const ir::Type& type, const Layout& layout);

/// The same axes with neighbouring parts of one axis as one.
ir::Axes joined(const ir::Mesh& mesh, const ir::Axes& axes);
/// Does one of the lists name a part of an axis that the other names too?
bool overlap(const ir::Mesh& mesh, const ir::Axes& a, const ir::Axes& b);
/// Is one of them the temporal axis, or a part of it?
bool is_temporal(const ir::Mesh& mesh, const ir::Axes& axes);
/// What is left of the axes without those that are taken.
ir::Axes without(ir::Axes axes, const ir::Axes& taken);
/// Is one of them this axis of the mesh, or a part of it?
bool names(const ir::Axes& axes, const std::string& axis);
bool is_prefix(const ir::Axes& part, const ir::Axes& whole);
/// Whether the shards along the axes divide the extent at every value of its symbols, as far as can be told.
bool divides(const ir::Mesh& mesh, const ir::Axes& axes, const ir::Dim& extent);

/// The axes of each factor of a dimension that has these, where they can be told apart: axes fill the major factor
/// first, and one that is larger than what is left of a factor is cut into parts. Nothing where the sizes do not allow
/// it.
std::optional<std::vector<ir::Axes>> axes_of_factors(const ir::Mesh& mesh, const ir::Axes& axes,
                                                     const std::vector<int>& dim, const ir::Factors& factors);
/// The axes of a dimension whose factors have these: those of a minor factor count only where the major ones are split
/// whole.
ir::Axes axes_of_dim(const ir::Mesh& mesh, const std::vector<int>& dim, const ir::Factors& factors,
                     const std::vector<ir::Axes>& of_factor);
/// Takes the axes of a minor factor away wherever the major ones of a dimension are not split whole: parts would be no blocks.
void drop_strided(const ir::Mesh& mesh, const ir::Factors& factors, std::vector<ir::Axes>& of_factor);
/// Whether partition can split the factor: what each part computes is joined, or combined.
bool can_split(const ir::Factors::Factor& factor);
/// Is the factor one of a dimension's?
bool has_factor(const ir::Factors::Tensor& dims, int factor);
/// Is it a product of matrices, or a composite of some: what computing takes its time for?
bool is_product(const ir::Node& node);
/// By value: is it made of nothing but scalars, so that every reader has it as it wants it (the zeros that sums begin with)?
std::vector<char> made_of_scalars(const ir::Function& f);
/// Do these attributes give the types of the part's results from those of its operands? `functions` has those that the
/// attributes name; null: none are known.
bool gives_types_of(const ir::Shard& part, const ir::Attrs& attrs, const ir::Module* functions = nullptr);

}  // namespace nabla::passes
