#include "ir/ops/procedure.h"

namespace nabla::ops {

using kernel_ir::Fragment;

Fragment procedure_fragment(const TypedOp& op, std::string_view procedure, int64_t axis, std::vector<Dim> numbers) {
  const Shape& shape = op.operands[0].shape;
  Dim outer(1), inner(1);
  for (int64_t d = 0; d < axis; ++d) outer = outer * shape[d];
  for (size_t d = axis + 1; d < shape.size(); ++d) inner = inner * shape[d];
  numbers.insert(numbers.begin(), {outer, shape[axis], inner});
  Fragment f;
  f.procedure = kernel_ir::procedure(procedure, std::move(numbers));
  for (size_t r = 0; r < op.results.size(); ++r) f.opaque(op.op.results[r].name, op.results[r]);
  return f;
}

Literals reference_by_procedure(const EvalContext& ctx) {
  Fragment f = ctx.op.op.access(ctx.op);
  Literals out;
  std::vector<const Literal*> operands;
  std::vector<Literal*> results;
  for (const Type& t : ctx.op.results) out.push_back(zeros(t));
  for (const Literal& x : ctx.operands) operands.push_back(&x);
  for (Literal& x : out) results.push_back(&x);
  f.procedure->def->run(f.procedure->values(), operands, results);
  return out;
}

Factors factors_along(const TypedOp& op, int64_t axis, Factors::Kind kind) {
  Factors f;
  const Shape& shape = op.operands[0].shape;
  Factors::Tensor full;
  for (int d = 0; d < op.operands[0].rank(); ++d)
    full.push_back(
        {f.add(std::string(1, static_cast<char>('a' + d)), shape[d], d == axis ? kind : Factors::Kind::kPass)});
  f.operands.assign(op.operands.size(), full);
  Factors::Tensor result = full;
  if (!(op.results[0].shape[axis] == shape[axis])) result[axis] = {f.add("k", op.results[0].shape[axis], kind)};
  f.results.assign(op.results.size(), result);
  return f;
}

Status require_position_dtype(const InferContext& ctx, std::string_view id, const Dim& extent) {
  DType dtype = ctx.attrs.get_dtype("dtype");
  if (!is_integer(dtype) || bytes_of(dtype) < 4)
    return ctx.fail(Code::kBadAttribute, id, "dtype is {}, expected i32, i64, u32 or u64", name_of(dtype));
  const int64_t held = int64_t{1} << (dtype == DType::kI32 ? 31 : 32);
  if (bytes_of(dtype) == 4 && extent.is_static() && extent.value() > held)
    return ctx.fail(Code::kBadAttribute, id, "dtype is {}, which holds the positions of {} elements; the axis has {}", name_of(dtype), held,
                    extent.value());
  return Ok{};
}

Val take_along(Val x, Val positions, int64_t axis) {
  int64_t rank = x.rank();
  Ints others = other_axes(x.rank(), {axis});
  return x.b->op("gather", {x, positions},
                 {{"offset_dims", Ints{}},
                  {"collapsed_slice_dims", Ints{axis}},
                  {"operand_batching_dims", others},
                  {"start_indices_batching_dims", others},
                  {"start_index_map", Ints{axis}},
                  {"index_vector_dim", rank},
                  {"slice_sizes", Ints(rank, 1)},
                  {"out_of_range", std::string("clamp")}});
}

Val add_along(const Shape& shape, Val positions, Val updates, int64_t axis) {
  int64_t rank = static_cast<int64_t>(shape.size());
  Ints others = other_axes(static_cast<int>(rank), {axis});
  FunctionBuilder& b = *updates.b;
  return b.op("scatter_add", {b.fill(updates.dtype(), shape, 0), positions, updates},
              {{"update_window_dims", Ints{}},
               {"inserted_window_dims", Ints{axis}},
               {"operand_batching_dims", others},
               {"scatter_indices_batching_dims", others},
               {"scatter_dims_to_operand_dims", Ints{axis}},
               {"index_vector_dim", rank},
               {"out_of_range", std::string("clamp")}});
}

}  // namespace nabla::ops
