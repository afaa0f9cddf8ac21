// Neighbours exchange what lies at the borders of their shards, and no more.
#pragma once

#include "passes/shard/rules/split.h"

namespace nabla::passes {

inline int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }
inline int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

/// What the ranks get of a dimension of which rank r has the elements [extent * r, extent * (r + 1)): rank r gets
/// `count` elements from step * r + first on. A halo has a step of one extent; with another step the borders of the
/// shards move (a section of a dimension that is cut anew).
struct Window {
  int64_t step, first, count;
  bool operator==(const Window&) const = default;
};

/// How many elements of the dimension a rank sends for it, at most.
int64_t elements_sent(int64_t ranks, int64_t extent, const Window& w);
/// The window of the rank, from its part; zeros where it lies outside of the dimension. Each rank sends once to every
/// rank, of which the window holds something, what it holds (where borders move: the most that any such pair shares).
ir::Val window(const RuleContext& c, ir::Val part, int64_t dim, const ir::Axes& axes, const Window& w);
/// The same with the scalar `fill` outside of the dimension.
ir::Val window(const RuleContext& c, ir::Val part, int64_t dim, const ir::Axes& axes, const Window& w, ir::Val fill);

/// `count` elements of a dimension, of which x is what lies from `at` on; zeros elsewhere. Nothing is sent.
ir::Val placed(ir::Val x, int64_t dim, const ir::Dim& at, int64_t count);
/// Where positions along a dimension, counted from `first`, lie in [begin, end).
ir::Val within(ir::FunctionBuilder& b, const ir::Shape& shape, int64_t dim, const ir::Dim& first, int64_t begin,
               int64_t end);
/// Every rank of the axes gives its value to the rank that the pairs name; zeros to whom nobody does.
ir::Val permuted(const RuleContext& c, ir::Val value, const ir::Axes& axes, ir::Ints pairs);

}  // namespace nabla::passes
