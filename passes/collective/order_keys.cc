// Extremes of floats over ranks, as extremes of integers.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "passes/collective/collectives.h"
#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

using ir::Node;
using ir::Val;

bool is_extreme(const ir::Function& f, const Node& n) {
  if (!ir::combines_ranks(n) || !is_float(f.type(n.operands[0]).dtype)) return false;
  const std::string& combiner = n.attrs.get_string("combiner");
  return (combiner == "max" || combiner == "min") && n.attrs.get_int("shards") > 1;
}

Val number(Val like, int64_t value) {
  return ir::broadcast_in_dim(like.b->constant(Literal::scalar_int(like.dtype(), value)), like.shape(), {});
}

// The bits of negative numbers count downwards: all but the sign are inverted, which its own inverse undoes.
Val with_order(Val bits) {
  Val sign = bits.b->op("shift_right", {bits, number(bits, 8 * bytes_of(bits.dtype()) - 1)});
  int64_t most = bits.dtype() == DType::kI64 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int32_t>::max();
  return bits.b->op("xor", {bits, bits.b->op("and", {sign, number(bits, most)})});
}

// An integer for each float, in their order. NaN is larger than all others for a maximum, and smaller for a minimum.
Val key_of(Val x, bool max) {
  DType integer = x.dtype() == DType::kF64 ? DType::kI64 : DType::kI32;
  Val key = with_order(x.b->op("bitcast", {x}, {{"dtype", integer}}));
  bool wide = integer == DType::kI64;
  int64_t most = wide ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int32_t>::max();
  int64_t least = wide ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int32_t>::min();
  return ir::select(x.b->op("is_nan", {x}), number(key, max ? most : least), key);
}

}  // namespace

Result<ir::Module> order_keys(const ir::Module& module, PassContext& context) {
  if (!context.options.keep_order && !context.target.is_cuda()) return module;
  ir::Module out = module;
  for (ir::FunctionPtr& f : out.functions) {
    if (std::none_of(f->nodes.begin(), f->nodes.end(), [&](const Node& n) { return is_extreme(*f, n); })) continue;
    FunctionCopy copy(*f, context.ops, &module);
    for (const Node& n : f->nodes) {
      copy.builder().set_location(n.location);
      if (!is_extreme(*f, n)) {
        copy.copy(n);
        continue;
      }
      Val x = copy.at(n.operands[0]);
      DType dtype = x.dtype(), wide = accumulation_type(dtype);  // which has the narrow floats and their order
      Val key = key_of(ir::convert(x, wide), n.attrs.get_string("combiner") == "max");
      Val bits = with_order(copy.builder().op(n.op->name, {key}, n.attrs));
      copy.set(n.results[0], ir::convert(copy.builder().op("bitcast", {bits}, {{"dtype", wide}}), dtype));
    }
    f = copy.finish();
  }
  return out;
}

}  // namespace nabla::passes
