// embedding: rows of a table by id.
#include <algorithm>
#include <cstring>

#include "ir/ops/access.h"
#include "ir/ops/all_ops.h"

namespace nabla::ops {
namespace {

using kernel_ir::Expr;
using kernel_ir::Fragment;

InferResult infer_embedding(const InferContext& ctx) {
  NABLA_TRY(require_integer(ctx, 1, "C1"));
  NABLA_TRY(require_rank(ctx, 0, 2, "C2"));
  if (!Dim::less_equal(1, ctx.shape(0)[0]).value_or(false))
    return ctx.fail(Code::kShapeMismatch, "C2", "the table has {} rows, expected at least 1", ctx.shape(0)[0].str());
  Shape shape = ctx.shape(1);
  shape.push_back(ctx.shape(0)[1]);
  return Types{Type(ctx.operands[0].dtype, shape)};
}

Literals reference_embedding(const EvalContext& ctx) {
  const Literal &table = ctx.operands[0], &ids = ctx.operands[1];
  Literal out = zeros(ctx.op.results[0]);
  int64_t rows = table.shape()[0], width = table.shape()[1], bytes = width * bytes_of(table.dtype());
  char* to = static_cast<char*>(out.mutable_data());
  const char* from = static_cast<const char*>(table.data());
  for (int64_t i = 0; i < ids.size(); ++i) {
    int64_t id = std::clamp<int64_t>(ids.get_i(i), 0, rows - 1);
    if (width > 0) std::memcpy(to + i * bytes, from + id * bytes, static_cast<size_t>(bytes));
  }
  return {out};
}

/// The gather of which `embedding` is the name; also the scatter_add that is its transpose.
Attrs row_gather_attrs(int ids_rank) {
  int64_t rank = ids_rank;
  return {{"offset_dims", Ints{rank}}, {"collapsed_slice_dims", Ints{0}}, {"start_index_map", Ints{0}},
          {"index_vector_dim", rank},  {"slice_sizes", Ints{1, -1}},      {"out_of_range", std::string("clamp")}};
}
Attrs row_scatter_attrs(int ids_rank) {
  int64_t rank = ids_rank;
  return {{"update_window_dims", Ints{rank}},
          {"inserted_window_dims", Ints{0}},
          {"scatter_dims_to_operand_dims", Ints{0}},
          {"index_vector_dim", rank},
          {"out_of_range", std::string("clamp")}};
}

Fragment access_embedding(const TypedOp& op) {
  Fragment f;
  std::vector<int> own = f.add_axes("i", op.results[0].shape);
  std::vector<Expr> at = kernel_ir::axes_as_indices(own);
  Expr column = at.back();
  at.pop_back();
  Expr id = kernel_ir::convert(DType::kI64, load_operand(op, 1, at)),
       last = kernel_ir::dim(op.operands[0].shape[0] - 1);
  id = kernel_ir::call("maximum", {kernel_ir::call("minimum", {id, last}), kernel_ir::index(0)});
  f.results = {define(f, "out", own, load_operand(op, 0, {id, column}))};
  return f;
}

std::vector<MaybeVal> vjp_embedding(VjpContext& ctx) {
  if (!ctx.active[0]) return {std::nullopt, std::nullopt};
  Val ids = ctx.operand(1);
  return {ctx.b.op("scatter_add", {ctx.b.zeros_like(ctx.operand(0)), ids, ctx.ct()}, row_scatter_attrs(ids.rank())),
          std::nullopt};
}

std::vector<Val> batch_embedding(BatchContext& ctx) {
  if (!ctx.batched[0]) return ctx.b.add("embedding", ctx.operands);
  // A table per example: the batch rule of the gather knows how.
  Attrs attrs = ir::complete_attrs(ctx.b.ops().get("gather"), row_gather_attrs(ctx.op.operands[1].rank())).value();
  TypedOp gather{ctx.b.ops().get("gather"), ctx.op.operands, attrs, ctx.op.results};
  BatchContext inner{ctx.b, gather, ctx.operands, ctx.batched, ctx.size};
  return gather.op.batch(inner);
}

Factors factors_embedding(const TypedOp& op) {
  Factors f;
  int rows = f.add("v", op.operands[0].shape[0], Factors::Kind::kReplicate),
      width = f.add("w", op.operands[0].shape[1]);
  Factors::Tensor ids;
  for (int d = 0; d < op.operands[1].rank(); ++d)
    ids.push_back({f.add(std::string(1, static_cast<char>('a' + d)), op.operands[1].shape[d])});
  Factors::Tensor out = ids;
  out.push_back({width});
  f.operands = {{{rows}, {width}}, ids};
  f.results = {out};
  return f;
}

Example embedding_example(Shape table, Shape ids) {
  double rows = static_cast<double>(table[0].value());
  return {{operand(f32(std::move(table))), operand(i32(std::move(ids)), between(-1, rows))}, {}};
}

}  // namespace

std::vector<OpDef> embedding_ops() {
  return {{
      .name = "embedding",
      .version = 1,
      .category = "composite",
      .doc = "The rows of `table` that `ids` name. An id outside of the table is moved to its nearest row, as by "
             "gather. The "
             "gradient of the table adds up the cotangents of equal ids.",
      .operands = {{"table", "[rows, width]"}, {"ids", "integers of any shape"}},
      .attrs = {},
      .results = {{"out", "[ids..., width]"}},
      .constraints = {{"C1", "ids are integers"}, {"C2", "the table has rank 2 and at least one row"}},
      .traits = {.composite = true},
      .stages = ir::kTensorStages,
      .infer = infer_embedding,
      .reference = reference_embedding,
      .fold = fold_by_reference(),
      .decompose =
          [](DecomposeContext& ctx) { return ctx.b.add("gather", ctx.operands, row_gather_attrs(ctx.operand(1).rank())); },
      .vjp = vjp_embedding,
      .jvp = jvp_linear_in({0}),
      .batch = batch_embedding,
      .factors = factors_embedding,
      .rank_rule = ir::RankRule::kEmbedding,
      .access = access_embedding,
      .linearity = ir::moves({0}),
      .lower = Lowering::kAccess,
      .cost =
          [](const TypedOp& op) {
            Cost cost = pointwise_cost(op, 0);
            cost.bytes = op.results[0].bytes() * 2 + op.operands[1].bytes();
            return cost;
          },
      .dtypes = DTypes::kAll,
      .examples = {embedding_example({5, 3}, {4}), embedding_example({3, 2}, {2, 3}), embedding_example({4, 2}, {})},
      .draw =
          [](Rng& rng) {
            Shape table = {random_positive_dim(rng, 17), random_dim(rng, 7)};
            return embedding_example(table, random_shape(rng, static_cast<int>(random_int(rng, 0, 2)), 40));
          },
      .rejects = {{"C1", {f32({5, 3}), f32({4})}, {}},
                  {"C2", {f32({5}), i32({4})}, {}},
                  {"C2", {f32({0, 3}), i32({4})}, {}}},
  }};
}

}  // namespace nabla::ops
