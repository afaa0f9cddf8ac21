// Rules about movement, reductions and products. They move or drop data movement and change no number.
#include <algorithm>

#include "passes/simplify/rules.h"

namespace nabla::passes {
namespace {

using ir::Ints;
using ir::Node;
using ir::Val;
using Vals = std::vector<Val>;

bool all_are(const Ints& list, int64_t value) {
  return std::all_of(list.begin(), list.end(), [&](int64_t v) { return v == value; });
}

Replacement transpose_identity(const Candidate& c) {
  if (c.attrs.get_ints("permutation") != ir::iota_ints(c.operand(0).rank())) return std::nullopt;
  return Vals{c.operand(0)};
}

Replacement transpose_transpose(const Candidate& c) {
  const Node* inner = c.made_by(c.operand(0), "transpose");
  if (!inner) return std::nullopt;
  Ints joined = c.attrs.get_ints("permutation");
  for (int64_t& p : joined) p = inner->attrs.get_ints("permutation")[p];
  return Vals{transpose(c.operand_of(*inner), joined)};
}

Replacement reshape_identity(const Candidate& c) {
  if (c.operand(0).shape() != c.attrs.get_shape("shape")) return std::nullopt;
  return Vals{c.operand(0)};
}

Replacement reshape_reshape(const Candidate& c) {
  const Node* inner = c.made_by(c.operand(0), "reshape");
  if (!inner) return std::nullopt;
  return Vals{reshape(c.operand_of(*inner), c.attrs.get_shape("shape"))};
}

Replacement broadcast_identity(const Candidate& c) {
  Val x = c.operand(0);
  if (x.shape() != c.attrs.get_shape("shape") || c.attrs.get_ints("dims") != ir::iota_ints(x.rank()))
    return std::nullopt;
  return Vals{x};
}

Replacement broadcast_broadcast(const Candidate& c) {
  const Node* inner = c.made_by(c.operand(0), "broadcast_in_dim");
  if (!inner) return std::nullopt;
  Ints dims = inner->attrs.get_ints("dims");
  for (int64_t& d : dims) d = c.attrs.get_ints("dims")[d];
  return Vals{broadcast_in_dim(c.operand_of(*inner), c.attrs.get_shape("shape"), dims)};
}

// However a repeated scalar is moved, it stays repeated.
Replacement movement_of_scalar(const Candidate& c) {
  std::optional<Val> scalar = c.repeated_scalar(c.operand(0));
  if (!scalar || c.operand(0).rank() == 0) return std::nullopt;
  std::vector<ir::Type> types = {c.operand(0).type()};
  std::vector<ir::Type> results = ir::infer_types(c.op, types, c.attrs, nullptr).value();
  return Vals{broadcast_in_dim(*scalar, results[0].shape, {})};
}

Replacement slice_whole(const Candidate& c) {
  const Ints& limits = c.attrs.get_ints("limits");
  if (!all_are(c.attrs.get_ints("starts"), 0) || !all_are(c.attrs.get_ints("strides"), 1)) return std::nullopt;
  for (size_t d = 0; d < limits.size(); ++d)
    if (limits[d] != -1 && !c.operand(0).shape()[d].is(limits[d])) return std::nullopt;
  return Vals{c.operand(0)};
}

Replacement pad_nothing(const Candidate& c) {
  for (const char* name : {"low", "high", "interior"})
    if (!all_are(c.attrs.get_ints(name), 0)) return std::nullopt;
  return Vals{c.operand(0)};
}

Replacement reduce_nothing(const Candidate& c) {
  if (!c.attrs.get_ints("axes").empty()) return std::nullopt;
  return Vals{c.operand(0)};
}

Replacement concatenate_one(const Candidate& c) {
  if (c.operands.size() != 1) return std::nullopt;
  return Vals{c.operand(0)};
}

Replacement reverse_reverse(const Candidate& c) {
  const Node* inner = c.made_by(c.operand(0), "reverse");
  if (!inner) return std::nullopt;
  auto sorted = [](Ints axes) {
    std::sort(axes.begin(), axes.end());
    return axes;
  };
  if (sorted(inner->attrs.get_ints("axes")) != sorted(c.attrs.get_ints("axes"))) return std::nullopt;
  return Vals{c.operand_of(*inner)};
}

// A product reads its operand in any order of dimensions; the free ones must stay in order, for they order the
// result. 8-bit floats are read through their conversion, as kernels read them.
Replacement dot_of_transpose(const Candidate& c, int side) {
  const Node* inner = c.made_by(c.operand(side), "transpose");
  const Node* widening = inner ? nullptr : c.made_by(c.operand(side), "convert");
  const DType narrow = widening ? c.operand_of(*widening).dtype() : DType::kF32;
  if (is_float(narrow) && bytes_of(narrow) == 1) inner = c.made_by(c.operand_of(*widening), "transpose");
  if (!inner) return std::nullopt;
  const Ints& permutation = inner->attrs.get_ints("permutation");
  std::string prefix = side == 0 ? "lhs_" : "rhs_";
  Ints used = c.attrs.get_ints(prefix + "batch");
  const Ints& contract = c.attrs.get_ints(prefix + "contract");
  used.insert(used.end(), contract.begin(), contract.end());
  int64_t last = -1;
  for (size_t d = 0; d < permutation.size(); ++d) {
    if (std::find(used.begin(), used.end(), static_cast<int64_t>(d)) != used.end()) continue;
    if (permutation[d] < last) return std::nullopt;
    last = permutation[d];
  }
  ir::Attrs attrs = c.attrs;
  for (const char* part : {"batch", "contract"}) {
    Ints dims = c.attrs.get_ints(prefix + part);
    for (int64_t& d : dims) d = permutation[d];
    attrs.set(prefix + part, dims);
  }
  Vals operands = c.operands;
  operands[side] = widening ? convert(c.operand_of(*inner), c.operand(side).dtype()) : c.operand_of(*inner);
  return Vals{c.b.op(c.op.name, operands, attrs)};
}

// (batch, rows, columns) with rows and columns swapped is the product of the swapped operands.
Replacement transpose_of_dot(const Candidate& c) {
  const Node* dot = c.made_by(c.operand(0), "dot_general");
  if (!dot || !c.is_only_user(0)) return std::nullopt;
  auto dims = [&](const char* name) { return dot->attrs.get_ints(name); };
  Val lhs = c.operand_of(*dot, 0), rhs = c.operand_of(*dot, 1);
  auto batch = static_cast<int64_t>(dims("lhs_batch").size()),
       contract = static_cast<int64_t>(dims("lhs_contract").size());
  int64_t rows = lhs.rank() - batch - contract, columns = rhs.rank() - batch - contract;
  Ints swapped = ir::iota_ints(static_cast<int>(batch));
  for (int64_t i = 0; i < columns; ++i) swapped.push_back(batch + rows + i);
  for (int64_t i = 0; i < rows; ++i) swapped.push_back(batch + i);
  if (c.attrs.get_ints("permutation") != swapped) return std::nullopt;
  return Vals{c.b.op("dot_general", {rhs, lhs},
                     {{"lhs_contract", dims("rhs_contract")},
                      {"rhs_contract", dims("lhs_contract")},
                      {"lhs_batch", dims("rhs_batch")},
                      {"rhs_batch", dims("lhs_batch")}})};
}

Replacement dot_of_transposed_lhs(const Candidate& c) { return dot_of_transpose(c, 0); }
Replacement dot_of_transposed_rhs(const Candidate& c) { return dot_of_transpose(c, 1); }

// Bytes that an element has after a convert, less those before.
int bytes_gained(const Val& from, DType to) { return bytes_of(to) - bytes_of(from.dtype()); }

// Fewer bytes are moved; dtypes of as many bytes stay where they are.
Replacement movement_of_widened(const Candidate& c) {
  const Node* inner = c.made_by(c.operand(0), "convert");
  if (!inner) return std::nullopt;
  Val narrow = c.operand_of(*inner);
  DType wide = c.operand(0).dtype();
  if (bytes_gained(narrow, wide) <= 0) return std::nullopt;
  return Vals{convert(c.b.op(c.op.name, {narrow}, c.attrs), wide)};
}

Replacement narrowing_of_movement(const Candidate& c) {
  DType narrow = c.attrs.get_dtype("dtype");
  if (!c.is_only_user(0) || bytes_gained(c.operand(0), narrow) >= 0) return std::nullopt;
  for (const char* op : {"transpose", "reshape"})
    if (const Node* inner = c.made_by(c.operand(0), op))
      return Vals{c.b.op(op, {convert(c.operand_of(*inner), narrow)}, inner->attrs)};
  return std::nullopt;
}

}  // namespace

std::vector<Rule> movement_rules() {
  return {
      {"transpose-identity", "transpose(x) in x's own order -> x", {"transpose"}, transpose_identity},
      {"transpose-transpose", "transpose(transpose(x)) -> transpose(x)", {"transpose"}, transpose_transpose},
      {"reshape-identity", "reshape(x) to x's own shape -> x", {"reshape"}, reshape_identity},
      {"reshape-reshape", "reshape(reshape(x)) -> reshape(x)", {"reshape"}, reshape_reshape},
      {"broadcast-identity", "broadcast_in_dim(x) to x's own shape -> x", {"broadcast_in_dim"}, broadcast_identity},
      {"broadcast-broadcast",
       "broadcast_in_dim(broadcast_in_dim(x)) -> broadcast_in_dim(x)",
       {"broadcast_in_dim"},
       broadcast_broadcast},
      {"movement-of-scalar",
       "a repeated scalar moved -> the scalar repeated over the new shape",
       {"transpose", "reshape", "slice", "reverse"},
       movement_of_scalar},
      {"movement-of-widened",
       "transpose or reshape of convert(x) to more bytes -> the convert of x moved",
       {"transpose", "reshape"},
       movement_of_widened},
      {"narrowing-of-movement",
       "convert of a transpose or reshape of x to fewer bytes, where nobody else uses what is moved -> convert(x) moved",
       {"convert"},
       narrowing_of_movement},
      {"slice-whole", "slice(x) of everything -> x", {"slice"}, slice_whole},
      {"pad-nothing", "pad(x) by nothing -> x", {"pad"}, pad_nothing},
      {"reduce-nothing",
       "a reduction over no axes -> x",
       {"reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or"},
       reduce_nothing},
      {"concatenate-one", "concatenate(x) -> x", {"concatenate"}, concatenate_one},
      {"reverse-reverse", "reverse(reverse(x)) along the same axes -> x", {"reverse"}, reverse_reverse},
      {"transpose-of-dot",
       "transpose(dot_general(x, y)) -> dot_general(y, x), where it swaps rows and columns and nobody else uses the "
       "product",
       {"transpose"},
       transpose_of_dot},
      {"dot-of-transposed-lhs",
       "dot_general(transpose(x), y) -> dot_general(x, y) with other dimension numbers, where "
       "the free dimensions keep their order; also of convert(transpose(x)) where x has 8-bit floats",
       {"dot_general"},
       dot_of_transposed_lhs},
      {"dot-of-transposed-rhs",
       "dot_general(x, transpose(y)) -> dot_general(x, y), likewise",
       {"dot_general"},
       dot_of_transposed_rhs},
  };
}

}  // namespace nabla::passes
