// Which dimensions of gather and scatter operands mean what.
#include <algorithm>

#include "ir/ops/movement/gather_scatter.h"

namespace nabla::ops {

using kernel_ir::Expr;

namespace {

IndexedDims complete(IndexedDims d, int operand_rank, int indices_rank, int window_rank) {
  Ints gone = d.operand_collapsed;
  gone.insert(gone.end(), d.operand_batching.begin(), d.operand_batching.end());
  d.operand_window = other_axes(operand_rank, gone);
  d.batch_dims = other_axes(window_rank, d.window_dims);
  d.indices_dims = other_axes(indices_rank, {d.vector_dim});
  return d;
}

Status require_ascending(const InferContext& ctx, const Ints& list, int rank, std::string_view what) {
  NABLA_TRY(require_axes(ctx, list, rank, "C2"));
  if (!std::is_sorted(list.begin(), list.end()))
    return ctx.fail(Code::kBadAttribute, "C2", "{} is not ascending: {}", what, shape_str(list));
  return Ok{};
}

/// Position in `dims.indices_dims`, and so among the batch dimensions, of a dimension of `indices`.
size_t batch_place(const IndexedDims& dims, int64_t indices_dim) {
  return std::find(dims.indices_dims.begin(), dims.indices_dims.end(), indices_dim) - dims.indices_dims.begin();
}

}  // namespace

IndexedDims gather_dims(const Attrs& attrs, int operand_rank, int indices_rank, int result_rank) {
  IndexedDims d;
  d.window_dims = attrs.get_ints("offset_dims");
  d.operand_collapsed = attrs.get_ints("collapsed_slice_dims");
  d.operand_batching = attrs.get_ints("operand_batching_dims");
  d.indices_batching = attrs.get_ints("start_indices_batching_dims");
  d.start_map = attrs.get_ints("start_index_map");
  d.vector_dim = attrs.get_int("index_vector_dim");
  d.clamp = attrs.get_string("out_of_range") == "clamp";
  return complete(d, operand_rank, indices_rank, result_rank);
}

IndexedDims scatter_dims(const Attrs& attrs, int operand_rank, int indices_rank, int updates_rank) {
  IndexedDims d;
  d.window_dims = attrs.get_ints("update_window_dims");
  d.operand_collapsed = attrs.get_ints("inserted_window_dims");
  d.operand_batching = attrs.get_ints("operand_batching_dims");
  d.indices_batching = attrs.get_ints("scatter_indices_batching_dims");
  d.start_map = attrs.get_ints("scatter_dims_to_operand_dims");
  d.vector_dim = attrs.get_int("index_vector_dim");
  d.clamp = attrs.get_string("out_of_range") == "clamp";
  return complete(d, operand_rank, indices_rank, updates_rank);
}

IndexedDims gather_dims_of(const TypedOp& op) {
  return gather_dims(op.attrs, op.operands[0].rank(), op.operands[1].rank(), op.results[0].rank());
}

Shape gather_window(const Attrs& attrs, const Shape& operand) {
  Shape window = operand;
  const Ints& sizes = attrs.get_ints("slice_sizes");
  for (size_t d = 0; d < operand.size(); ++d)
    if (sizes[d] >= 0) window[d] = sizes[d];
  return window;
}

IndexedDims scatter_dims_of(const TypedOp& op) {
  return scatter_dims(op.attrs, op.operands[0].rank(), op.operands[1].rank(), op.operands[2].rank());
}

Shape scatter_window(const IndexedDims& dims, const TypedOp& op) {
  Shape window(op.operands[0].rank(), Dim(1));
  for (size_t i = 0; i < dims.window_dims.size(); ++i)
    window[dims.operand_window[i]] = op.operands[2].shape[dims.window_dims[i]];
  return window;
}

Status check_indexed(const InferContext& ctx, const IndexedDims& d) {
  NABLA_TRY(require_integer(ctx, 1, "C1"));
  int operand_rank = ctx.rank(0), indices_rank = ctx.rank(1);
  if (d.vector_dim < 0 || d.vector_dim > indices_rank)
    return ctx.fail(Code::kBadAttribute, "C2", "index_vector_dim is {}, not in [0, {}]", d.vector_dim, indices_rank);
  NABLA_TRY(require_ascending(ctx, d.operand_collapsed, operand_rank, "the list of collapsed dimensions"));
  NABLA_TRY(require_ascending(ctx, d.operand_batching, operand_rank, "operand_batching_dims"));
  NABLA_TRY(require_axes(ctx, d.start_map, operand_rank, "C2"));
  NABLA_TRY(require_axes(ctx, d.indices_batching, indices_rank, "C2"));
  for (int64_t b : d.operand_batching)
    if (contains(d.operand_collapsed, b) || contains(d.start_map, b))
      return ctx.fail(Code::kBadAttribute, "C2", "operand dimension {} is batching and something else", b);
  if (contains(d.indices_batching, d.vector_dim))
    return ctx.fail(Code::kBadAttribute, "C2", "dimension {} of indices is batching and holds the vectors",
                    d.vector_dim);
  if (d.operand_batching.size() != d.indices_batching.size())
    return ctx.fail(Code::kBadAttribute, "C2", "the operand has {} batching dimensions, indices {}",
                    d.operand_batching.size(), d.indices_batching.size());
  Dim length = d.vector_dim == indices_rank ? Dim(1) : ctx.shape(1)[d.vector_dim];
  NABLA_TRY(ctx.require_equal(length, Dim(static_cast<int64_t>(d.start_map.size())), "C3",
                              "length of the index vectors and of the map to operand dimensions"));
  for (size_t i = 0; i < d.operand_batching.size(); ++i)
    NABLA_TRY(ctx.require_equal(ctx.shape(0)[d.operand_batching[i]], ctx.shape(1)[d.indices_batching[i]], "C4",
                                "batching sizes"));
  int window_rank = static_cast<int>(d.indices_dims.size() + d.operand_window.size());
  if (d.window_dims.size() != d.operand_window.size())
    return ctx.fail(Code::kBadAttribute, "C2", "{} window dimensions are named, the operand leaves {}",
                    d.window_dims.size(), d.operand_window.size());
  return require_ascending(ctx, d.window_dims, window_rank, "the list of window dimensions");
}

std::optional<int64_t> operand_position(const IndexedDims& dims, const Extents& operand, const Literal& indices,
                                        const Extents& window, const Extents& at) {
  Extents vector(indices.rank(), 0), position(operand.size(), 0);
  for (size_t i = 0; i < dims.batch_dims.size(); ++i) vector[dims.indices_dims[i]] = at[dims.batch_dims[i]];
  for (size_t i = 0; i < dims.operand_batching.size(); ++i)
    position[dims.operand_batching[i]] = vector[dims.indices_batching[i]];
  for (size_t k = 0; k < dims.start_map.size(); ++k) {
    if (dims.vector_dim < indices.rank()) vector[dims.vector_dim] = static_cast<int64_t>(k);
    int64_t d = dims.start_map[k], start = indices.get_i(position_of(vector, indices.shape()));
    position[d] = dims.clamp ? std::max<int64_t>(0, std::min(start, operand[d] - window[d])) : start;
    if (position[d] < -window[d] || position[d] >= operand[d])
      return std::nullopt;  // also keeps the sum below in range
  }
  for (size_t i = 0; i < dims.window_dims.size(); ++i) position[dims.operand_window[i]] += at[dims.window_dims[i]];
  for (size_t d = 0; d < operand.size(); ++d)
    if (position[d] < 0 || position[d] >= operand[d]) return std::nullopt;
  return position_of(position, operand);
}

IndexedAccess operand_indices(const IndexedDims& dims, const TypedOp& op, const Shape& window,
                              const std::vector<Expr>& at) {
  const Shape &operand = op.operands[0].shape, &indices = op.operands[1].shape;
  std::vector<Expr> vector(indices.size());
  IndexedAccess out;
  out.indices.assign(operand.size(), kernel_ir::index(0));
  for (size_t i = 0; i < dims.batch_dims.size(); ++i) vector[dims.indices_dims[i]] = at[dims.batch_dims[i]];
  for (size_t i = 0; i < dims.operand_batching.size(); ++i)
    out.indices[dims.operand_batching[i]] = vector[dims.indices_batching[i]];
  for (size_t k = 0; k < dims.start_map.size(); ++k) {
    if (dims.vector_dim < static_cast<int64_t>(indices.size()))
      vector[dims.vector_dim] = kernel_ir::index(static_cast<int64_t>(k));
    int64_t d = dims.start_map[k];
    Expr start = kernel_ir::convert(DType::kI64, load_operand(op, 1, vector));
    if (dims.clamp) {
      Expr last = kernel_ir::dim(operand[d] - window[d]);
      start = kernel_ir::call("maximum", {kernel_ir::call("minimum", {start, last}), kernel_ir::index(0)});
    }
    out.indices[d] = start;
  }
  for (size_t i = 0; i < dims.window_dims.size(); ++i)
    if (!window[dims.operand_window[i]].is(1))
      out.indices[dims.operand_window[i]] = out.indices[dims.operand_window[i]] + at[dims.window_dims[i]];
  if (dims.clamp) return out;
  for (int64_t d : dims.start_map) {
    Expr inside = kernel_ir::both(kernel_ir::ge(out.indices[d], kernel_ir::index(0)),
                                  kernel_ir::lt(out.indices[d], kernel_ir::dim(operand[d])));
    out.guard = out.guard ? kernel_ir::both(out.guard, inside) : inside;
  }
  return out;
}

BatchedLists batch_lists(const IndexedDims& d, bool operand, bool indices) {
  BatchedLists out{shifted(d.window_dims), d.operand_collapsed, d.operand_batching,
                   d.indices_batching,     d.start_map,         d.vector_dim};
  if (operand) {
    out.collapsed = shifted(out.collapsed);
    out.operand_batching = shifted(out.operand_batching);
    out.start_map = shifted(out.start_map);
  }
  if (indices) {
    out.indices_batching = shifted(out.indices_batching);
    ++out.vector_dim;
  }
  if (operand && indices) {
    out.operand_batching.insert(out.operand_batching.begin(), 0);
    out.indices_batching.insert(out.indices_batching.begin(), 0);
  } else if (operand) {
    out.window_dims.insert(out.window_dims.begin(), 0);
  }
  return out;
}

IndexedFactors indexed_factors(const IndexedDims& dims, const Type& operand, const Type& indices, const Type& window,
                               const std::vector<bool>& whole, Factors::Kind batch_kind) {
  using Kind = Factors::Kind;
  IndexedFactors out;
  out.operand.resize(operand.rank());
  out.indices.resize(indices.rank());
  out.window.resize(window.rank());
  auto add = [&](const Dim& size, Kind kind) {
    return std::vector{out.f.add(std::string(1, static_cast<char>('a' + out.f.factors.size())), size, kind)};
  };
  for (size_t i = 0; i < dims.batch_dims.size(); ++i) {
    bool batching = contains(dims.indices_batching, dims.indices_dims[i]);
    out.window[dims.batch_dims[i]] = out.indices[dims.indices_dims[i]] =
        add(window.shape[dims.batch_dims[i]], batching ? Kind::kPass : batch_kind);
  }
  if (dims.vector_dim < indices.rank())
    out.indices[dims.vector_dim] = add(indices.shape[dims.vector_dim], Kind::kReplicate);
  for (size_t i = 0; i < dims.operand_batching.size(); ++i)
    out.operand[dims.operand_batching[i]] = out.window[dims.batch_dims[batch_place(dims, dims.indices_batching[i])]];
  for (size_t i = 0; i < dims.window_dims.size(); ++i) {
    int64_t d = dims.operand_window[i], w = dims.window_dims[i];
    out.operand[d] = add(operand.shape[d], whole[d] ? Kind::kPass : Kind::kReplicate);
    out.window[w] = whole[d] ? out.operand[d] : add(window.shape[w], Kind::kReplicate);
  }
  for (int64_t d : dims.operand_collapsed) out.operand[d] = add(operand.shape[d], Kind::kReplicate);
  return out;
}

}  // namespace nabla::ops
