#include "ir/ops/movement/placed.h"

namespace nabla::ops {

std::vector<AttrDef> with_place(std::vector<AttrDef> attrs) {
  attrs.push_back(optional("offset", "of a part: where it begins in the whole, per dimension", Shape{}));
  attrs.push_back(optional("whole", "of a part: the shape of the whole", Shape{}));
  return attrs;
}

ir::Constraint place_constraint(const char* id) {
  return {id, "offset and whole are empty, or have an entry per dimension, and the part lies within the whole"};
}

Status require_place(const InferContext& ctx, const Shape& part, const char* id) {
  const Shape &offset = ctx.attrs.get_shape("offset"), &whole = ctx.attrs.get_shape("whole");
  auto outside = [&](size_t d) {
    return offset[d].bounds().min < 0 || Dim::less_equal(offset[d] + part[d], whole[d]) == std::optional(false);
  };
  bool fits = offset.size() == whole.size() && (offset.empty() || offset.size() == part.size());
  for (size_t d = 0; fits && d < offset.size(); ++d) fits = !outside(d);
  if (fits) return Ok{};
  return ctx.fail(Code::kBadAttribute, id, "a part {} at {} of {}", ir::str(part), ir::str(offset), ir::str(whole));
}

Place place_in(const Attrs& attrs, const Shape& part) {
  const Shape& offset = attrs.get_shape("offset");
  if (offset.empty()) return {Shape(part.size(), Dim(0)), part};
  return {offset, attrs.get_shape("whole")};
}
Place place_of(const TypedOp& op) { return place_in(op.attrs, op.results[0].shape); }

Factors placed_factors(const TypedOp& op, bool keyed) {
  Factors out;
  Factors::Tensor result;
  for (const Dim& d : op.results[0].shape)
    result.push_back({out.add(std::string(1, static_cast<char>('a' + result.size())), d)});
  for (const Type& t : op.operands) {
    Factors::Tensor tensor;
    if (keyed && out.operands.empty()) tensor.push_back(result[0]);
    while (tensor.size() < t.shape.size())
      tensor.push_back({out.add("k", t.shape[tensor.size()], Factors::Kind::kReplicate)});
    out.operands.push_back(tensor);
  }
  out.results = {result};
  return out;
}

Attrs localise_place(const ir::Shard& shard) {
  Place place = place_of(shard.op);
  const Factors::Tensor& dims = shard.factors.results[0];
  for (size_t d = 0; d < place.offset.size(); ++d) place.offset[d] = place.offset[d] + shard.begins[dims[d][0]];
  Attrs attrs = localise_shape(shard);
  attrs.set("offset", place.offset);
  attrs.set("whole", place.whole);
  return attrs;
}

}  // namespace nabla::ops
