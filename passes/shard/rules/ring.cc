#include "passes/shard/rules/ring.h"

#include <algorithm>

#include "passes/shard/rules/attended.h"
#include "passes/shard/rules/halo.h"

namespace nabla::passes {
namespace {

using ir::Dim;
using ir::FunctionBuilder;
using ir::Val;
using Values = std::vector<Val>;


/// Whether a causal mask hides blocks as wholes: those of the ranks after a rank's own.
bool hides_blocks(const Ring& ring) {
  const RuleContext& c = ring.c;
  const ir::Shape &q = c.op.operands[kQ].shape, &k = c.op.operands[kK].shape;
  return c.n.attrs.get_bool("causal") && c.n.attrs.get_shape("offset").empty() && q[kPositions] == k[kPositions];
}
/// Whether the blocks need not know their places: nothing is masked or dropped by position, but for whole blocks and
/// within a rank's own, where queries and keys begin at the same position.
bool placeless(const Ring& ring) {
  bool extras = ring.c.op.operands.size() > static_cast<size_t>(ring.first_extra);
  return !extras && (!ring.c.n.attrs.get_bool("causal") || hides_blocks(ring));
}

struct Block {
  std::optional<int64_t> distance;  ///< nothing in a loop over blocks, none of which is the rank's own
  std::optional<Val> visible;       ///< bool[]; nothing: it is
};
const Block kOwn = {0, std::nullopt};

/// bool: which of `count` blocks from a distance on are visible to the rank.
Val visible(const Ring& ring, FunctionBuilder& b, int64_t distance, int64_t count) {
  Val at = positions_along(b, {count}, 0, ring.c.rank.coordinate(ring.axes) + distance);
  return b.op("ge", {at, b.like(at, static_cast<double>(ring.ranks))});
}
Block block_at(const Ring& ring, FunctionBuilder& b, int64_t distance) {
  if (!hides_blocks(ring)) return {distance, std::nullopt};
  return {distance, ir::reshape(visible(ring, b, distance, 1), {})};
}

/// The node with the keys of one block.
Values of_block(const Ring& ring, Values operands, const Block& block) {
  ir::Attrs attrs = ring.attrs;
  if (placeless(ring)) {
    for (const char* name : {"offset", "whole"}) attrs.set(name, ir::Shape{});
    if (block.distance != 0) attrs.set("causal", false);
  } else {
    Dim first = Dim::mod(ring.c.rank.coordinate(ring.axes) + *block.distance, ring.ranks) * ring.own;
    for (size_t i = static_cast<size_t>(ring.first_extra); i < operands.size(); ++i)
      if (operands[i].dtype() != DType::kU32) operands[i] = section(operands[i], 3, first, ring.own);
    ir::Shape offset = attrs.get_shape("offset");
    if (!offset.empty()) offset[3] = offset[3] + first, attrs.set("offset", offset);
  }
  return operands[kQ].b->add(ring.c.n.op->name, operands, attrs);
}

Values with_keys(Values others, Val k, Val v) {
  others.insert(others.begin() + kK, {k, v});
  return others;
}
Values without_keys(Values operands) {
  operands.erase(operands.begin() + kK, operands.begin() + kV + 1);
  return operands;
}

/// To the next rank: what is there belongs to the rank after.
Val passed_on(const Ring& ring, Val v) {
  ir::Ints pairs;
  for (int64_t r = 0; r < ring.ranks; ++r) pairs.insert(pairs.end(), {r, (r + ring.ranks - 1) % ring.ranks});
  return permuted(ring.c, v, ring.axes, pairs);
}

std::vector<ir::Type> types_of(const Values& values) {
  std::vector<ir::Type> out;
  for (const Val& v : values) out.push_back(v.type());
  return out;
}
/// A function of the local module.
ir::FunctionRef function_of(const Ring& ring, const std::vector<ir::Type>& params, const std::function<Values(Values)>& make) {
  const RuleContext& c = ring.c;
  FunctionBuilder b("", c.b.ops(), c.b.module());
  b.set_location(c.n.location);
  Values in;
  for (const ir::Type& type : params) in.push_back(b.param("", type));
  return c.define(b.finish(make(in)));
}

using Add = std::function<Values(const Values& operands, const Values& sums, const Block&)>;
/// `sums` with what a block adds to them; only they where the block is hidden from the rank.
Values added(const Ring& ring, const Block& block, Values operands, const Values& sums, const Add& add) {
  if (!block.visible) return add(operands, sums, block);
  size_t count = operands.size();
  operands.insert(operands.end(), sums.begin(), sums.end());
  auto branch = [&](bool adds) {
    return function_of(ring, types_of(operands), [&](Values in) {
      Values so_far(in.begin() + static_cast<int64_t>(count), in.end());
      in.resize(count);
      return adds ? add(in, so_far, block) : so_far;
    });
  };
  ir::FunctionRef then = branch(true), otherwise = branch(false);
  operands.insert(operands.begin(), *block.visible);
  return block.visible->b->add("cond", operands, {{"then", then}, {"else", otherwise}});
}

using Step = std::function<Values(const Block&, const Values& consts, const Values& carries)>;
/// The steps for the blocks at the distances `first` to `last` - 1, as one loop if that may be.
Values steps(const Ring& ring, int64_t first, int64_t last, const Values& consts, Values carries, const Step& step) {
  FunctionBuilder& outer = ring.c.b;
  int64_t count = last - first;
  if (!placeless(ring) || count < 2) {
    for (int64_t d = first; d < last; ++d) carries = step(block_at(ring, outer, d), consts, carries);
    return carries;
  }
  bool hides = hides_blocks(ring);
  Values operands = consts;
  operands.insert(operands.end(), carries.begin(), carries.end());
  std::vector<ir::Type> params = types_of(operands);
  if (hides) params.emplace_back(DType::kBool, ir::Shape{}), operands.push_back(visible(ring, outer, first, count));
  ir::FunctionRef body = function_of(ring, params, [&](const Values& in) {
    auto at = in.begin() + static_cast<int64_t>(consts.size()), end = at + static_cast<int64_t>(carries.size());
    Block block;
    if (hides) block.visible = in.back();
    return step(block, Values(in.begin(), at), Values(at, end));
  });
  return outer.add("scan", operands,
                   {{"body", body},
                    {"consts", static_cast<int64_t>(consts.size())},
                    {"carries", static_cast<int64_t>(carries.size())},
                    {"length", ir::Shape{count}}});
}

}  // namespace

// While a block is attended to, the next one is on its way.
Values ring_forward(const Ring& ring, const Values& operands) {
  FunctionBuilder& b = ring.c.b;
  Add add = [&](const Values& in, const Values& so_far, const Block& block) {
    Attended both = combined({so_far[0], so_far[1]}, attended(of_block(ring, in, block)));
    return Values{both.out, both.logsumexp};
  };
  Values others = without_keys(operands);
  Attended own = attended(of_block(ring, operands, kOwn));
  Values sums = {own.out, own.logsumexp};
  if (ring.ranks > 1) {
    Values carries = {passed_on(ring, operands[kK]), passed_on(ring, operands[kV]), own.out, own.logsumexp};
    carries = steps(ring, 1, ring.ranks - 1, others, carries, [&](const Block& block, const Values& consts, const Values& now) {
      Val k = passed_on(ring, now[0]), v = passed_on(ring, now[1]);
      Values both = added(ring, block, with_keys(consts, now[0], now[1]), {now[2], now[3]}, add);
      return Values{k, v, both[0], both[1]};
    });
    sums = added(ring, block_at(ring, b, ring.ranks - 1), with_keys(others, carries[0], carries[1]),
                 {carries[2], carries[3]}, add);
  }
  return {ir::convert(sums[0], ring.c.op.results[0].dtype), sums[1]};
}

// The sums of a block arrive from the rank before while the rank computes what it adds to them; the next block is on
// its way at the same time.
Values ring_backward(const Ring& ring, const Values& operands) {
  FunctionBuilder& b = ring.c.b;
  DType wide = ring.c.op.operands[3].dtype;
  Add add = [&](const Values& in, const Values& so_far, const Block& block) {
    Values out = of_block(ring, in, block);
    for (size_t i : {kQ, kK, kV}) {
      DType to = i == kQ ? wide : out[i].dtype();
      if (!so_far.empty()) out[i] = ir::convert(so_far[i], wide) + ir::convert(out[i], wide);
      out[i] = ir::convert(out[i], to);
    }
    return out;
  };
  Values others = without_keys(operands), sums;
  auto at = [&](int64_t distance, Val k, Val v) {
    sums = added(ring, block_at(ring, b, distance), with_keys(others, k, v), sums, add);
  };
  auto arrive = [&](Values of) {
    for (size_t i : {kK, kV}) of[i] = passed_on(ring, of[i]);
    return of;
  };
  for (size_t i = 0; hides_blocks(ring) && i < 3; ++i)
    sums.push_back(b.fill(i == kQ ? wide : operands[i].dtype(), operands[i].shape(), 0));
  if (ring.ranks > 1) {
    Val k = passed_on(ring, operands[kK]), v = passed_on(ring, operands[kV]);
    at(1, k, v);
    if (ring.ranks > 2) {
      Values carries = {passed_on(ring, k), passed_on(ring, v), sums[0], sums[1], sums[2]};
      carries = steps(ring, 2, ring.ranks - 1, others, carries, [&](const Block& block, const Values& consts, const Values& now) {
        Values arrived = arrive({now[2], now[3], now[4]});
        Val next_k = passed_on(ring, now[0]), next_v = passed_on(ring, now[1]);
        Values all = added(ring, block, with_keys(consts, now[0], now[1]), arrived, add);
        return Values{next_k, next_v, all[0], all[1], all[2]};
      });
      sums = arrive({carries[2], carries[3], carries[4]});
      at(ring.ranks - 1, carries[0], carries[1]);
    }
    sums = arrive(sums);
  }
  sums = added(ring, kOwn, operands, sums, add);
  sums[kQ] = ir::convert(sums[kQ], ring.c.op.results[0].dtype);
  return sums;
}

}  // namespace nabla::passes
