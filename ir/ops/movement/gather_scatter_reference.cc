// What gather and scatter mean: windows are found once each and copied in runs.
#include <algorithm>
#include <array>
#include <cstring>

#include "ir/kernel_ir/rows.h"
#include "ir/ops/movement/gather_scatter.h"
#include "ir/ops/movement/strided.h"

namespace nabla::ops {
namespace {

using kernel_ir::Combiner;

Extents batch_extents(const IndexedDims& dims, const Literal& indices) {
  Extents out;
  for (int64_t d : dims.indices_dims) out.push_back(indices.shape()[d]);
  return out;
}
constexpr int64_t kOutside = -1, kPartly = -2;

/// Positions in the operand where windows begin, by batch index in row-major order; kOutside for a window that is
/// wholly outside, kPartly for one of which a part is: `operand_position` tells which.
std::vector<int64_t> window_starts(const IndexedDims& dims, const Extents& operand, const Literal& indices,
                                   const Extents& window) {
  Extents batch = batch_extents(dims, indices), own = strides_of(batch), strides = strides_of(operand);
  Extents all = strides_of(indices.shape()), of_indices;
  for (int64_t d : dims.indices_dims) of_indices.push_back(all[d]);
  std::vector<int64_t> starts(count_of(batch), 0);
  for (size_t i = 0; i < dims.operand_batching.size(); ++i) {
    Extents along(batch.size(), 0);
    size_t place = std::find(dims.indices_dims.begin(), dims.indices_dims.end(), dims.indices_batching[i]) -
                   dims.indices_dims.begin();
    along[place] = strides[dims.operand_batching[i]];
    for_each_row<2>({batch, {own, along}, {}}, [&](const auto& at, int64_t count, const auto& step) {
      for (int64_t j = 0; j < count; ++j) starts[at[0] + j * step[0]] += at[1] + j * step[1];
    });
  }
  std::vector<int64_t> row(kRowBlock);
  for (size_t k = 0; k < dims.start_map.size(); ++k) {
    int64_t d = dims.start_map[k], last = operand[d] - window[d];
    int64_t first = dims.vector_dim < indices.rank() ? static_cast<int64_t>(k) * all[dims.vector_dim] : 0;
    auto add = [&](int64_t& to, int64_t start) {
      if (dims.clamp)
        to += std::max<int64_t>(0, std::min(start, last)) * strides[d];
      else if (to == kOutside || start <= -window[d] || start >= operand[d])
        to = kOutside;
      else if (to == kPartly || start < 0 || start > last)
        to = kPartly;
      else
        to += start * strides[d];
    };
    for_each_row<2>({batch, {own, of_indices}, {0, first}}, [&](const auto& at, int64_t count, const auto& step) {
      for (int64_t begin = 0; begin < count; begin += kRowBlock) {
        int64_t block = std::min(kRowBlock, count - begin), to = at[0] + begin * step[0];
        read_row(indices, at[1] + begin * step[1], step[1], block, row.data());
        for (int64_t j = 0; j < block; ++j) add(starts[to + j * step[0]], row[j]);
      }
    });
  }
  return starts;
}

/// Walks the window tensor; arrays are itself, the windows' batch indices, and the distance from the window's start.
Nest<3> window_nest(const IndexedDims& dims, const Extents& operand, const Literal& indices, const Extents& at) {
  Extents by_batch(at.size(), 0), inside(at.size(), 0);
  Extents batch = strides_of(batch_extents(dims, indices)), strides = strides_of(operand);
  for (size_t i = 0; i < batch.size(); ++i) by_batch[dims.batch_dims[i]] = batch[i];
  for (size_t i = 0; i < dims.window_dims.size(); ++i) inside[dims.window_dims[i]] = strides[dims.operand_window[i]];
  return {at, {strides_of(at), std::move(by_batch), std::move(inside)}, {}};
}

/// f(position in the window tensor, position in the operand, step of either, count) for all elements of windows that
/// the operand has, in row-major order of the window tensor.
template <class F>
void for_each_run(const IndexedDims& dims, const Extents& operand, const Literal& indices, const Extents& window,
                  const Extents& shape, F f) {
  if (count_of(shape) == 0) return;
  std::vector<int64_t> starts = window_starts(dims, operand, indices, window);
  auto one_by_one = [&](int64_t at, int64_t step, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      if (auto there = operand_position(dims, operand, indices, window, index_of(at + i * step, shape)))
        f(at + i * step, *there, 0, 0, 1);
  };
  for_each_row(window_nest(dims, operand, indices, shape), [&](const auto& at, int64_t count, const auto& step) {
    if (step[1] == 0) {
      int64_t start = starts[at[1]];
      if (start >= 0) f(at[0], start + at[2], step[0], step[2], count);
      if (start == kPartly) one_by_one(at[0], step[0], count);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      int64_t start = starts[at[1] + i * step[1]];
      if (start >= 0) f(at[0] + i * step[0], start + at[2] + i * step[2], 0, 0, 1);
      if (start == kPartly) one_by_one(at[0] + i * step[0], 0, 1);
    }
  });
}

/// Copies a run of elements of type T.
template <class T>
void copy_run(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t count) {
  constexpr int64_t kBytes = sizeof(T);
  if (to_step == 1 && from_step == 1) {
    std::memcpy(to, from, static_cast<size_t>(count * kBytes));
    return;
  }
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_step * kBytes, from + i * from_step * kBytes, kBytes);
}

/// f(position in the updates, position in x, step of either, count) for the updates that x takes.
template <class F>
void for_each_update(const EvalContext& ctx, F f) {
  const Literal& x = ctx.operands[0];
  IndexedDims dims = scatter_dims_of(ctx.op);
  Extents window = Type(x.dtype(), scatter_window(dims, ctx.op)).extents();
  for_each_run(dims, x.shape(), ctx.operands[1], window, ctx.operands[2].shape(), f);
}

/// x with updates in the places of its elements.
Literal replaced(const EvalContext& ctx) {
  Literal out = ctx.operands[0];
  char* target = static_cast<char*>(out.mutable_data());
  const char* source = static_cast<const char*>(ctx.operands[2].data());
  with_size(bytes_of(out.dtype()), [&]<class T>(T) {
    constexpr int64_t kBytes = sizeof(T);
    for_each_update(ctx, [&](int64_t from, int64_t to, int64_t from_step, int64_t to_step, int64_t count) {
      copy_run<T>(target + to * kBytes, to_step, source + from * kBytes, from_step, count);
    });
  });
  return out;
}

/// x with updates combined into it; not rounded until the end.
template <class Wide, class F>
Literal combined(const EvalContext& ctx, F combine) {
  const Literal& x = ctx.operands[0];
  std::vector<Wide> values(x.size()), updates(ctx.operands[2].size());
  read_row(x, 0, 1, x.size(), values.data());
  read_row(ctx.operands[2], 0, 1, ctx.operands[2].size(), updates.data());
  for_each_update(ctx, [&](int64_t from, int64_t to, int64_t from_step, int64_t to_step, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      values[to + i * to_step] = combine(values[to + i * to_step], updates[from + i * from_step]);
  });
  Literal out = zeros(ctx.op.results[0]);
  write_row(out, 0, 1, out.size(), values.data());
  return out;
}

}  // namespace

Literals reference_gather(const EvalContext& ctx) {
  const Literal& x = ctx.operands[0];
  Literal out = zeros(ctx.op.results[0]);
  Extents window = Type(x.dtype(), gather_window(ctx.attrs(), ctx.op.operands[0].shape)).extents();
  char* target = static_cast<char*>(out.mutable_data());
  const char* source = static_cast<const char*>(x.data());
  with_size(bytes_of(x.dtype()), [&]<class T>(T) {
    constexpr int64_t kBytes = sizeof(T);
    for_each_run(gather_dims_of(ctx.op), x.shape(), ctx.operands[1], window, out.shape(),
                 [&](int64_t to, int64_t from, int64_t to_step, int64_t from_step, int64_t count) {
                   if (count == 1)
                     std::memcpy(target + to * kBytes, source + from * kBytes, kBytes);
                   else
                     copy_run<T>(target + to * kBytes, to_step, source + from * kBytes, from_step, count);
                 });
  });
  return {out};
}

Literals reference_scatter(const EvalContext& ctx, Combiner combiner) {
  const Literal& x = ctx.operands[0];
  if (combiner == Combiner::kNone) return {replaced(ctx)};
  const kernel_ir::ScalarFn* fn = kernel_ir::find_scalar(kernel_ir::scalar_of(combiner));
  bool sum = combiner == Combiner::kSum;
  if (is_float(x.dtype()))
    return {combined<double>(ctx, [&](double a, double b) { return sum ? a + b : fn->eval_float(std::array{a, b}); })};
  if (sum)  // wraps
    return {combined<int64_t>(ctx, [](int64_t a, int64_t b) {
      return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    })};
  return {combined<int64_t>(ctx, [&](int64_t a, int64_t b) { return fn->eval_int(x.dtype(), std::array{a, b}); })};
}

}  // namespace nabla::ops
