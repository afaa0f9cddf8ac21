#include "passes/shard/rules/halo.h"

#include <algorithm>

namespace nabla::passes {
namespace {

using ir::Axes;
using ir::Dim;
using ir::Ints;
using ir::Shape;
using ir::Val;

/// What rank r gets of rank r + distance.
struct Piece {
  int64_t distance, size;
  Ints pairs;
};

std::vector<Piece> pieces_of(int64_t ranks, int64_t extent, const Window& w) {
  std::vector<Piece> out;
  for (int64_t k = 1 - ranks; k < ranks; ++k) {
    Piece piece{k, 0, {}};
    for (int64_t to = std::max<int64_t>(0, -k); to < std::min(ranks, ranks - k); ++to) {
      int64_t from = to + k, first = w.step * to + w.first;
      int64_t shared = std::min(first + w.count, extent * (from + 1)) - std::max(first, extent * from);
      if (shared <= 0) continue;
      piece.size = std::max(piece.size, shared);
      piece.pairs.insert(piece.pairs.end(), {from, to});
    }
    if (piece.size > 0) out.push_back(std::move(piece));
  }
  return out;
}

// Borders stay: what a rank gets of another depends on their distance alone, and the pieces stand side by side.
Val halo(const RuleContext& c, Val part, int64_t dim, const Axes& axes, const Window& w) {
  int64_t extent = part.shape()[dim].value(), ranks = shards(c.mesh, axes), end = w.first + w.count;
  std::vector<Piece> pieces = pieces_of(ranks, extent, w);
  std::vector<Val> side_by_side;
  auto outside = [&](int64_t count) {
    Shape shape = part.shape();
    shape[dim] = count;
    side_by_side.push_back(c.b.fill(part.dtype(), shape, 0));
  };
  int64_t at = w.first;
  for (const Piece& piece : pieces) {
    int64_t begin = std::max(w.first, piece.distance * extent);
    if (at < begin) outside(begin - at);
    Val mine = section(part, dim, begin - piece.distance * extent, piece.size);
    side_by_side.push_back(piece.distance == 0 ? mine : permuted(c, mine, axes, piece.pairs));
    at = begin + piece.size;
  }
  if (at < end) outside(end - at);
  return side_by_side.size() == 1 ? side_by_side[0] : c.b.op("concatenate", side_by_side, {{"axis", dim}});
}

// Borders move: what a pair shares begins elsewhere on every rank.
Val moved(const RuleContext& c, Val part, int64_t dim, const Axes& axes, const Window& w) {
  int64_t extent = part.shape()[dim].value(), ranks = shards(c.mesh, axes);
  Dim rank = c.rank.coordinate(axes), first = rank * w.step + w.first;
  Shape shape = part.shape();
  shape[dim] = w.count;
  Val out = c.b.fill(part.dtype(), shape, 0);
  for (const Piece& piece : pieces_of(ranks, extent, w)) {
    int64_t k = piece.distance, most = extent - piece.size;
    Val mine = section(part, dim, clamped((rank - k) * w.step + w.first - rank * extent, 0, most), piece.size);
    if (k != 0) mine = permuted(c, mine, axes, piece.pairs);
    Dim source = (rank + k) * extent, from = source + clamped(first - source, 0, most);
    Val there = within(c.b, shape, dim, first - source, 0, extent);
    out = ir::select(there, placed(mine, dim, from - first, w.count), out);
  }
  return out;
}

}  // namespace

int64_t elements_sent(int64_t ranks, int64_t extent, const Window& w) {
  int64_t out = 0;
  for (const Piece& piece : pieces_of(ranks, extent, w))
    if (piece.distance != 0) out += piece.size;
  return out;
}

Val permuted(const RuleContext& c, Val value, const Axes& axes, Ints pairs) {
  ir::Attrs attrs = group_attrs(c.mesh, axes);
  attrs.set("pairs", std::move(pairs));
  return value.b->op("permute", {value}, attrs);
}

Val placed(Val x, int64_t dim, const Dim& at, int64_t count) {
  int64_t size = x.shape()[dim].value();
  if (at.is(0) && size == count) return x;
  Ints both(static_cast<size_t>(x.rank()), 0), none = both;
  both[static_cast<size_t>(dim)] = count;
  Val zero = x.b->constant(Literal::scalar(x.dtype(), -0.0));  // no_addend, where the result is part of a sum
  Val padded = x.b->op("pad", {x, zero}, {{"low", both}, {"high", both}, {"interior", none}});
  return section(padded, dim, clamped(Dim(count) - at, 0, size + count), count);
}

Val within(ir::FunctionBuilder& b, const Shape& shape, int64_t dim, const Dim& first, int64_t begin, int64_t end) {
  Val at = positions_along(b, shape, dim, first);
  Val reached = b.op("ge", {at, b.like(at, static_cast<double>(begin))});
  return b.op("and", {reached, b.op("lt", {at, b.like(at, static_cast<double>(end))})});
}

Val window(const RuleContext& c, Val part, int64_t dim, const Axes& axes, const Window& w) {
  bool stays = w.step == part.shape()[dim].value();
  return stays ? halo(c, part, dim, axes, w) : moved(c, part, dim, axes, w);
}

Val window(const RuleContext& c, Val part, int64_t dim, const Axes& axes, const Window& w, Val fill) {
  int64_t ranks = shards(c.mesh, axes), whole = part.shape()[dim].value() * ranks;
  Val out = window(c, part, dim, axes, w);
  if (w.first >= 0 && w.step * (ranks - 1) + w.first + w.count <= whole) return out;
  Dim first = c.rank.coordinate(axes) * w.step + w.first;
  return ir::select(within(c.b, out.shape(), dim, first, 0, whole), out, spread(fill, out.shape()));
}

}  // namespace nabla::passes
