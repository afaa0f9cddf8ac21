// dot_general: the product of two tensors, summed over the contracted dimensions. Every matrix product is one.
#include "ir/ops/contraction/dot.h"

#include <algorithm>

#include "ir/ops/all_ops.h"

namespace nabla::ops {
namespace {

using kernel_ir::Combiner;
using kernel_ir::Expr;
using kernel_ir::Fragment;

/// The dimensions of one operand by their part.
struct Side {
  Ints batch, free, contract;
};

Side side_of(int rank, const Ints& batch, const Ints& contract) {
  Ints used = batch;
  used.insert(used.end(), contract.begin(), contract.end());
  return {batch, other_axes(rank, used), contract};
}
Side lhs_side(const TypedOp& op) {
  return side_of(op.operands[0].rank(), op.attrs.get_ints("lhs_batch"), op.attrs.get_ints("lhs_contract"));
}
Side rhs_side(const TypedOp& op) {
  return side_of(op.operands[1].rank(), op.attrs.get_ints("rhs_batch"), op.attrs.get_ints("rhs_contract"));
}

Attrs dot_attrs(Ints lhs_contract, Ints rhs_contract, Ints lhs_batch, Ints rhs_batch) {
  return {{"lhs_contract", std::move(lhs_contract)},
          {"rhs_contract", std::move(rhs_contract)},
          {"lhs_batch", std::move(lhs_batch)},
          {"rhs_batch", std::move(rhs_batch)}};
}

Ints range(int64_t first, int64_t count) {
  Ints out(count);
  for (int64_t i = 0; i < count; ++i) out[i] = first + i;
  return out;
}

/// Positions of the elements that every index over `dims` names, the other indices being 0.
std::vector<int64_t> offsets_over(const Literal& x, const Ints& dims) {
  std::vector<int64_t> strides = strides_of(x.shape()), out;
  Extents extents;
  for (int64_t d : dims) extents.push_back(x.shape()[d]);
  for_each_index(extents, [&](const Extents& index, int64_t) {
    int64_t offset = 0;
    for (size_t i = 0; i < dims.size(); ++i) offset += index[i] * strides[dims[i]];
    out.push_back(offset);
  });
  return out;
}

Literals reference_dot(const EvalContext& ctx) {
  const Literal &l = ctx.operands[0], &r = ctx.operands[1];
  Side ls = lhs_side(ctx.op), rs = rhs_side(ctx.op);
  auto lb = offsets_over(l, ls.batch), rb = offsets_over(r, rs.batch);
  auto lf = offsets_over(l, ls.free), rf = offsets_over(r, rs.free);
  auto lc = offsets_over(l, ls.contract), rc = offsets_over(r, rs.contract);
  Literal out = zeros(ctx.op.results[0]);
  int64_t at = 0;
  bool floating = is_float(l.dtype());
  for (size_t b = 0; b < lb.size(); ++b)
    for (int64_t m : lf)
      for (int64_t n : rf) {
        double sum = 0;
        uint64_t whole = 0;
        for (size_t k = 0; k < lc.size(); ++k) {
          int64_t i = lb[b] + m + lc[k], j = rb[b] + n + rc[k];
          if (floating)
            sum += l.get(i) * r.get(j);
          else
            whole += static_cast<uint64_t>(l.get_i(i)) * static_cast<uint64_t>(r.get_i(j));
        }
        floating ? out.set(at++, sum) : out.set_i(at++, static_cast<int64_t>(whole));
      }
  return {out};
}

Fragment access_dot(const TypedOp& op) {
  Fragment f;
  Side ls = lhs_side(op), rs = rhs_side(op);
  std::vector<Expr> li(op.operands[0].rank()), ri(op.operands[1].rank());
  std::vector<int> own, over;
  for (size_t i = 0; i < ls.batch.size(); ++i) {
    own.push_back(f.add_axis("b" + std::to_string(i), op.operands[0].shape[ls.batch[i]]));
    li[ls.batch[i]] = ri[rs.batch[i]] = kernel_ir::axis(own.back());
  }
  for (size_t i = 0; i < ls.free.size(); ++i) {
    own.push_back(f.add_axis("m" + std::to_string(i), op.operands[0].shape[ls.free[i]]));
    li[ls.free[i]] = kernel_ir::axis(own.back());
  }
  for (size_t i = 0; i < rs.free.size(); ++i) {
    own.push_back(f.add_axis("n" + std::to_string(i), op.operands[1].shape[rs.free[i]]));
    ri[rs.free[i]] = kernel_ir::axis(own.back());
  }
  for (size_t i = 0; i < ls.contract.size(); ++i) {
    over.push_back(f.add_axis("k" + std::to_string(i), op.operands[0].shape[ls.contract[i]]));
    li[ls.contract[i]] = ri[rs.contract[i]] = kernel_ir::axis(over.back());
  }
  Expr product = load_wide(op, 0, li) * load_wide(op, 1, ri);
  DType dtype = op.operands[0].dtype;
  int sum = over.empty() ? f.map("dot", accumulation_type(dtype), own, product)
                         : f.reduce("dot", accumulation_type(dtype), own, Combiner::kSum, over, product);
  f.results = {round_definition(f, sum, dtype, "out")};
  return f;
}

/// The gradient of one operand: `ct` times the other operand, laid out like the operand again. The product is taken
/// in the order that gives this layout without a transpose where one of the two does: for matrices always.
Val operand_gradient(Val ct, Val other, const Side& mine, const Side& theirs, int64_t theirs_free_at) {
  int64_t batches = static_cast<int64_t>(mine.batch.size());
  Ints ct_batch = range(0, batches), ct_contract = range(theirs_free_at, theirs.free.size());
  bool other_first = !mine.contract.empty() && !mine.free.empty() &&
                     *std::min_element(mine.contract.begin(), mine.contract.end()) < mine.free.front();
  Val d = other_first
              ? ct.b->op("dot_general", {other, ct}, dot_attrs(theirs.free, ct_contract, theirs.batch, ct_batch))
              : ct.b->op("dot_general", {ct, other}, dot_attrs(ct_contract, theirs.free, ct_batch, theirs.batch));
  // d is batch, then my free dimensions and the contracted ones (in the order of their dimensions in `other`), or
  // these two the other way round.
  Ints rest = theirs.contract;
  std::sort(rest.begin(), rest.end());
  int64_t free_at = batches + (other_first ? static_cast<int64_t>(rest.size()) : 0);
  int64_t rest_at = batches + (other_first ? 0 : static_cast<int64_t>(mine.free.size()));
  Ints permutation(mine.batch.size() + mine.free.size() + mine.contract.size());
  for (size_t i = 0; i < mine.batch.size(); ++i) permutation[mine.batch[i]] = static_cast<int64_t>(i);
  for (size_t i = 0; i < mine.free.size(); ++i) permutation[mine.free[i]] = free_at + static_cast<int64_t>(i);
  for (size_t i = 0; i < mine.contract.size(); ++i) {
    int64_t place = std::find(rest.begin(), rest.end(), theirs.contract[i]) - rest.begin();
    permutation[mine.contract[i]] = rest_at + place;
  }
  return transpose(d, permutation);
}

std::vector<MaybeVal> vjp_dot(VjpContext& ctx) {
  Side ls = lhs_side(ctx.op), rs = rhs_side(ctx.op);
  int64_t batches = static_cast<int64_t>(ls.batch.size());
  std::vector<MaybeVal> out(2);
  if (ctx.active[0])
    out[0] = operand_gradient(ctx.ct(), ctx.operand(1), ls, rs, batches + static_cast<int64_t>(ls.free.size()));
  if (ctx.active[1]) out[1] = operand_gradient(ctx.ct(), ctx.operand(0), rs, ls, batches);
  return out;
}

std::vector<Val> batch_dot(BatchContext& ctx) {
  Ints lc = ctx.attrs().get_ints("lhs_contract"), rc = ctx.attrs().get_ints("rhs_contract");
  Ints lb = ctx.attrs().get_ints("lhs_batch"), rb = ctx.attrs().get_ints("rhs_batch");
  int64_t place = 0;  // of the new dimension in the result
  Side ls = lhs_side(ctx.op);
  if (ctx.batched[0]) lc = shifted(lc), lb = shifted(lb);
  if (ctx.batched[1]) rc = shifted(rc), rb = shifted(rb);
  if (ctx.batched[0] && ctx.batched[1]) {
    lb.insert(lb.begin(), 0);
    rb.insert(rb.begin(), 0);
  } else {
    // A free dimension of one side: the first of its free dimensions.
    place = static_cast<int64_t>(ls.batch.size() + (ctx.batched[1] ? ls.free.size() : 0));
  }
  Val out = ctx.b.op("dot_general", ctx.operands, dot_attrs(lc, rc, lb, rb));
  Ints permutation = {place};
  for (int64_t i = 0; i < out.rank(); ++i)
    if (i != place) permutation.push_back(i);
  return {transpose(out, permutation)};
}

Factors factors_dot(const TypedOp& op) {
  Factors f;
  Side ls = lhs_side(op), rs = rhs_side(op);
  Factors::Tensor l(op.operands[0].rank()), r(op.operands[1].rank()), out;
  auto name = [&](char c) { return std::string(1, static_cast<char>(c + f.factors.size())); };
  for (size_t i = 0; i < ls.batch.size(); ++i) {
    int id = f.add(name('a'), op.operands[0].shape[ls.batch[i]]);
    l[ls.batch[i]] = r[rs.batch[i]] = {id};
    out.push_back({id});
  }
  for (int64_t d : ls.free) out.push_back(l[d] = {f.add(name('a'), op.operands[0].shape[d])});
  for (int64_t d : rs.free) out.push_back(r[d] = {f.add(name('a'), op.operands[1].shape[d])});
  for (size_t i = 0; i < ls.contract.size(); ++i)
    l[ls.contract[i]] = r[rs.contract[i]] = {
        f.add(name('a'), op.operands[0].shape[ls.contract[i]], Factors::Kind::kReduce, Combiner::kSum)};
  f.operands = {l, r};
  f.results = {out};
  return f;
}

Example dot_example(Shape lhs, Shape rhs, Attrs attrs) {
  return {{operand(f32(std::move(lhs))), operand(f32(std::move(rhs)))}, std::move(attrs)};
}

Example draw_dot(Rng& rng) {
  // Sizes are drawn per part, then both operands are shuffled.
  Extents batch = random_extents(rng, static_cast<int>(random_int(rng, 0, 1)), 3);
  Extents m = random_extents(rng, static_cast<int>(random_int(rng, 0, 2)), 20);
  Extents n = random_extents(rng, static_cast<int>(random_int(rng, 0, 2)), 20);
  Extents k = random_extents(rng, static_cast<int>(random_int(rng, 0, 2)), 20);
  auto layout = [&](const Extents& free, Ints& batch_dims, Ints& contract_dims) {
    Extents parts = batch;
    parts.insert(parts.end(), free.begin(), free.end());
    parts.insert(parts.end(), k.begin(), k.end());
    Ints to = random_permutation(rng, static_cast<int>(parts.size()));
    Shape shape(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      shape[to[i]] = parts[i];
      if (i < batch.size()) batch_dims.push_back(to[i]);
      if (i >= batch.size() + free.size()) contract_dims.push_back(to[i]);
    }
    return shape;
  };
  Ints lb, rb, lc, rc;
  Shape lhs = layout(m, lb, lc), rhs = layout(n, rb, rc);
  return dot_example(lhs, rhs, dot_attrs(lc, rc, lb, rb));
}

}  // namespace

InferResult infer_dot(const InferContext& ctx) {
  NABLA_TRY(ctx.require_same_dtype(0, 1, "C1"));
  if (ctx.operands[0].dtype == DType::kBool)
    return ctx.fail(Code::kDTypeMismatch, "C1", "operands are bool; convert them to a number first");
  const Ints &lc = ctx.attrs.get_ints("lhs_contract"), &rc = ctx.attrs.get_ints("rhs_contract");
  const Ints &lb = ctx.attrs.get_ints("lhs_batch"), &rb = ctx.attrs.get_ints("rhs_batch");
  if (lc.size() != rc.size())
    return ctx.fail(Code::kBadAttribute, "C2", "lhs contracts {} dimensions, rhs {}", lc.size(), rc.size());
  if (lb.size() != rb.size())
    return ctx.fail(Code::kBadAttribute, "C3", "lhs has {} batch dimensions, rhs {}", lb.size(), rb.size());
  auto joined = [](Ints a, const Ints& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  NABLA_TRY(require_axes(ctx, joined(lb, lc), ctx.rank(0), "C4"));
  NABLA_TRY(require_axes(ctx, joined(rb, rc), ctx.rank(1), "C4"));
  for (size_t i = 0; i < lc.size(); ++i)
    NABLA_TRY(ctx.require_equal(ctx.shape(0)[lc[i]], ctx.shape(1)[rc[i]], "C2", "contracted sizes"));
  for (size_t i = 0; i < lb.size(); ++i)
    NABLA_TRY(ctx.require_equal(ctx.shape(0)[lb[i]], ctx.shape(1)[rb[i]], "C3", "batch sizes"));
  Shape shape;
  for (int64_t d : lb) shape.push_back(ctx.shape(0)[d]);
  for (int64_t d : side_of(ctx.rank(0), lb, lc).free) shape.push_back(ctx.shape(0)[d]);
  for (int64_t d : side_of(ctx.rank(1), rb, rc).free) shape.push_back(ctx.shape(1)[d]);
  return Types{Type(ctx.operands[0].dtype, std::move(shape))};
}

Cost cost_dot(const TypedOp& op) {
  Dim contracted = 1;
  for (int64_t d : lhs_side(op).contract) contracted = contracted * op.operands[0].shape[d];
  Cost cost = pointwise_cost(op, 2);
  cost.flops = cost.flops * contracted;
  return cost;
}

std::vector<OpDef> dot_ops() {
  return {{
      .name = "dot_general",
      .version = 1,
      .category = "contraction",
      .doc = "Sums products over the contracted dimensions, once per index of the batch dimensions.\n"
             "Result dimensions: batch (in the order of `lhs_batch`), free ones of lhs, free ones of rhs (both in the "
             "order in which the operand has them). Without contracted dimensions it is an outer product; a sum over "
             "an empty dimension is 0. 8- and 16-bit floats are multiplied and summed in f32 and rounded once; "
             "integers wrap. Same meaning as dot_general of XLA and StableHLO.",
      .operands = {{"lhs", "left factor"}, {"rhs", "right factor"}},
      .attrs = {required("lhs_contract", AttrKind::kInts, "dimensions of lhs that are summed over"),
                required("rhs_contract", AttrKind::kInts, "their counterparts in rhs, in the same order"),
                optional("lhs_batch", "batch dimensions of lhs", Ints{}),
                optional("rhs_batch", "their counterparts in rhs, in the same order", Ints{})},
      .results = {{"out", "products summed"}},
      .constraints = {{"C1", "the operands have one dtype, and it is not bool"},
                      {"C2", "as many dimensions of lhs as of rhs are contracted, and their sizes are equal"},
                      {"C3", "lhs and rhs have equally many batch dimensions, and their sizes are equal"},
                      {"C4", "the dimensions named exist, and each is named once"}},
      .traits = {},
      .stages = ir::kAllStages,
      .infer = infer_dot,
      .reference = reference_dot,
      .fold = fold_by_reference(),
      .decompose = ir::no_rule("a primitive: loops follow from its access"),
      .vjp = vjp_dot,
      .jvp = jvp_linear_in_each({0, 1}),
      .batch = batch_dot,
      .factors = factors_dot,
      .access = access_dot,
      .linearity = ir::linear_in_each({0, 1}),
      .lower = Lowering::kContraction,
      .cost = cost_dot,
      .dtypes = DTypes::kNumeric,
      .examples = {dot_example({2, 3}, {3, 4}, dot_attrs({1}, {0}, {}, {})),
                   dot_example({2, 3, 4}, {5, 4, 2}, dot_attrs({2}, {1}, {0}, {2})),
                   dot_example({3, 2, 4}, {4, 3, 5}, dot_attrs({0, 2}, {1, 0}, {}, {})),
                   dot_example({3}, {2}, dot_attrs({}, {}, {}, {}))},
      .draw = draw_dot,
      .rejects = {{"C1", {f32({2, 3}), i32({3, 4})}, dot_attrs({1}, {0}, {}, {})},
                  {"C1", {boolean({2, 3}), boolean({3, 4})}, dot_attrs({1}, {0}, {}, {})},
                  {"C2", {f32({2, 3}), f32({4, 5})}, dot_attrs({1}, {0}, {}, {})},
                  {"C2", {f32({2, 3}), f32({4, 5})}, dot_attrs({0, 1}, {0}, {}, {})},
                  {"C3", {f32({2, 3, 4}), f32({3, 4, 5})}, dot_attrs({2}, {1}, {0}, {0})},
                  {"C3", {f32({2, 3, 4}), f32({3, 4, 5})}, dot_attrs({2}, {1}, {0}, {})},
                  {"C4", {f32({2, 3}), f32({3, 4})}, dot_attrs({2}, {0}, {}, {})},
                  {"C4", {f32({2, 3, 3}), f32({2, 3, 4})}, dot_attrs({0}, {0}, {0}, {0})}},
  }};
}

}  // namespace nabla::ops
