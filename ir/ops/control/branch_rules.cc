// Derivatives and batching of cond and switch.
#include <algorithm>

#include "ir/ops/control/control_flow.h"

namespace nabla::ops {
namespace {

// The op on other branches: operand 0 chooses as before.
std::vector<Val> choose(FunctionBuilder& b, const TypedOp& op, const std::vector<std::string>& branches,
                        std::vector<Val> operands) {
  return b.add(op.op.name, std::move(operands), with_branches(op.attrs, branches));
}

// Where the residuals of the branches are. A residual that is a parameter is an operand of the node and is not returned
// again. The others share slots by their types: only one branch runs.
struct Residuals {
  struct Place {
    bool is_operand;
    size_t index;  // of the branch's parameter, or of the slot
  };
  std::vector<std::string> forward;        // per branch: the derived function
  std::vector<std::vector<Place>> places;  // per branch and residual
  Types slots;

  Residuals(ir::Functions& functions, const TypedOp& op, const std::vector<bool>& active) {
    size_t results = op.results.size();
    for (const std::string& branch : branches_of(op.attrs)) {
      forward.push_back(functions.derive(branch, ir::Transform::kVjpForward, active));
      const ir::Function& f = functions.get(forward.back());
      places.emplace_back();
      std::vector<bool> taken(slots.size(), false);
      for (size_t r = results; r < f.results.size(); ++r) places.back().push_back(place(f, f.results[r], taken));
    }
  }

 private:
  Place place(const ir::Function& f, ir::ValueId id, std::vector<bool>& taken) {
    auto param = std::find(f.params.begin(), f.params.end(), id);
    if (param != f.params.end()) return {true, static_cast<size_t>(param - f.params.begin())};
    size_t slot = 0;
    while (slot < slots.size() && (taken[slot] || slots[slot] != f.type(id))) ++slot;
    if (slot == slots.size()) {
      slots.push_back(f.type(id));
      taken.push_back(false);
    }
    taken[slot] = true;
    return {false, slot};
  }
};

}  // namespace

std::vector<MaybeVal> branches_jvp(JvpContext& ctx) {
  std::vector<bool> active;
  std::vector<Val> operands = ctx.operands;
  for (size_t i = 1; i < ctx.tangents.size(); ++i) {
    active.push_back(ctx.tangents[i].has_value());
    if (ctx.tangents[i]) operands.push_back(*ctx.tangents[i]);
  }
  std::vector<std::string> derived;
  for (const std::string& f : branches_of(ctx.attrs()))
    derived.push_back(ctx.functions->derive(f, ir::Transform::kJvp, active));
  std::vector<Val> all = choose(ctx.b, ctx.op, derived, operands);
  size_t n = ctx.results.size();
  ctx.results = slice(all, 0, n);
  return {all.begin() + static_cast<std::ptrdiff_t>(n), all.end()};
}

ir::VjpForward branches_vjp_forward(ir::VjpForwardContext& ctx) {
  std::vector<bool> active(ctx.active.begin() + 1, ctx.active.end());
  Residuals residuals(*ctx.functions, ctx.op, active);
  std::vector<std::string> wrappers;
  size_t results = ctx.op.results.size();
  for (size_t k = 0; k < residuals.forward.size(); ++k) {
    FunctionBuilder w(residuals.forward[k] + ".slots", ctx.b.ops(), ctx.b.module());
    w.set_location(ctx.b.location());
    std::vector<Val> params;
    for (size_t i = 1; i < ctx.op.operands.size(); ++i) params.push_back(w.param("", ctx.op.operands[i]));
    std::vector<Val> made = call_function(w, residuals.forward[k], params), out = slice(made, 0, results);
    std::vector<MaybeVal> slots(residuals.slots.size());
    for (size_t r = 0; r < residuals.places[k].size(); ++r)
      if (!residuals.places[k][r].is_operand) slots[residuals.places[k][r].index] = made[results + r];
    for (size_t s = 0; s < slots.size(); ++s)
      out.push_back(slots[s] ? *slots[s] : w.fill(residuals.slots[s].dtype, residuals.slots[s].shape, 0));
    wrappers.push_back(ctx.functions->define(w.finish(out)));
  }
  std::vector<Val> all = choose(ctx.b, ctx.op, wrappers, ctx.operands);
  return {slice(all, 0, results), slice(all, results, all.size())};
}

std::vector<MaybeVal> branches_vjp(VjpContext& ctx) {
  std::vector<bool> active(ctx.active.begin() + 1, ctx.active.end());
  Residuals residuals(*ctx.functions, ctx.op, active);
  std::vector<std::string> branches = branches_of(ctx.attrs()), wrappers;
  std::vector<Val> operands = ctx.operands;
  append(operands, ctx.residuals);
  for (const MaybeVal& ct : ctx.cotangents)
    if (ct) operands.push_back(*ct);
  for (size_t k = 0; k < branches.size(); ++k) {
    std::string backward = ctx.functions->derive(branches[k], ir::Transform::kVjpBackward, active);
    FunctionBuilder w(backward + ".slots", ctx.b.ops(), ctx.b.module());
    w.set_location(ctx.b.location());
    std::vector<Val> params, slots, args;
    for (size_t i = 1; i < ctx.op.operands.size(); ++i) params.push_back(w.param("", ctx.op.operands[i]));
    for (const Type& t : residuals.slots) slots.push_back(w.param("", t));
    for (const Residuals::Place& p : residuals.places[k])
      args.push_back(p.is_operand ? params[p.index] : slots[p.index]);
    for (size_t r = 0; r < ctx.cotangents.size(); ++r) {
      const Type& type = ctx.op.results[r];
      args.push_back(ctx.cotangents[r] ? w.param("", type) : w.fill(type.dtype, type.shape, 0));
    }
    std::vector<Val> gradients = call_function(w, backward, args);
    wrappers.push_back(ctx.functions->define(w.finish(gradients)));
  }
  std::vector<Val> gradients = choose(ctx.b, ctx.op, wrappers, operands);
  std::vector<MaybeVal> out(ctx.operands.size());
  size_t next = 0;
  for (size_t i = 0; i < active.size(); ++i)
    if (active[i]) out[i + 1] = gradients[next++];
  return out;
}

namespace {

// Which examples run branch k of n.
Val takes(Val selector, size_t k, size_t n) {
  if (selector.dtype() == DType::kBool) return k == 0 ? selector : selector.b->op("not", {selector});
  const char* op = k == 0 ? "le" : k + 1 == n ? "ge" : "eq";  // a number beyond the branches means the nearest
  return selector.b->op(op, {selector, selector.b->like(selector, static_cast<double>(k))});
}

// The largest floating value that belongs to one example, in elements at the sizes' upper bounds.
int64_t largest_of_an_example(const BatchContext& ctx) {
  int64_t out = 1;
  auto add = [&](const Type& t) {
    if (is_float(t.dtype)) out = std::max(out, t.count().bounds().max);
  };
  for (size_t i = 1; i < ctx.operands.size(); ++i)
    if (ctx.batched[i]) add(ctx.op.operands[i]);
  for (const Type& t : ctx.op.results) add(t);
  return out;
}

// Does it factor matrices? That costs more than asking whether anybody wants it.
bool is_costly(const BatchContext& ctx, const std::string& function) {
  for (const ir::Node& n : ctx.functions->get(function).nodes) {
    if (n.op->category == "linear algebra") return true;
    if (n.op->name == "call" && is_costly(ctx, n.attrs.get_function("callee"))) return true;
  }
  return false;
}

// The batched branch where at least one example takes it, else zeros, which nobody selects.
std::vector<Val> run_for_somebody(BatchContext& ctx, Val taken, const std::string& branch, std::vector<Val> operands) {
  FunctionBuilder w(branch + ".nobody", ctx.b.ops(), ctx.b.module());
  w.set_location(ctx.b.location());
  const ir::Function& f = ctx.functions->get(branch);
  for (const Type& t : param_types(f)) w.param("", t);
  std::vector<Val> zeros;
  for (const Type& t : result_types(f)) zeros.push_back(w.fill(t.dtype, t.shape, 0));
  operands.insert(operands.begin(), ctx.b.op("reduce_or", {taken}, {{"axes", Ints{0}}}));
  return ctx.b.add("cond", std::move(operands),
                   {{"then", FunctionRef{branch}}, {"else", FunctionRef{ctx.functions->define(w.finish(zeros))}}});
}

// Every example chooses for itself: all branches run, but for costly ones that nobody takes, and their results are
// selected.
std::vector<Val> select_branches(BatchContext& ctx) {
  std::vector<bool> all(ctx.op.results.size(), true), params;
  std::vector<Val> operands;
  int64_t largest = largest_of_an_example(ctx);
  // A derivative of what was not chosen is 0 times anything, infinity too: it must not leave the branch. So floating
  // operands belong to the examples, and are theirs where they run the branch, else the same as constants. One that all
  // examples share and that is larger than what they have of their own, such as a layer's weights, stays shared: a copy
  // for each of them would cost more than the branches.
  for (size_t i = 1; i < ctx.operands.size(); ++i) {
    const Type& type = ctx.op.operands[i];
    bool own = is_float(type.dtype) && (ctx.batched[i] || type.count().bounds().max <= largest);
    params.push_back(own || ctx.batched[i]);
    operands.push_back(own ? ctx.batched_operand(static_cast<int>(i)) : ctx.operands[i]);
  }
  std::vector<std::string> branches = branches_of(ctx.attrs());
  std::vector<std::vector<Val>> made;
  Val selector = ctx.operands[0];
  for (size_t k = 0; k < branches.size(); ++k) {
    std::vector<Val> theirs = operands;
    Val taken = takes(selector, k, branches.size());
    for (size_t i = 0; i < theirs.size(); ++i)
      if (Val& x = theirs[i]; params[i] && is_float(x.dtype()))
        x = select(broadcast_in_dim(taken, x.shape(), {0}), x, ctx.b.op("stop_gradient", {x}));
    std::string batched = ctx.functions->batch(branches[k], params, all).name;
    made.push_back(is_costly(ctx, batched) ? run_for_somebody(ctx, taken, batched, theirs)
                                           : call_function(ctx.b, batched, theirs));
  }
  bool flag = selector.dtype() == DType::kBool;
  // then / else: the first holds where the flag does. Of a switch, branch k and those after it take over from k on.
  if (flag) std::reverse(made.begin(), made.end());
  std::vector<Val> out = made[0];
  for (size_t k = 1; k < made.size(); ++k) {
    Val here = flag ? selector : ctx.b.op("ge", {selector, ctx.b.like(selector, static_cast<double>(k))});
    for (size_t r = 0; r < out.size(); ++r)
      out[r] = select(broadcast_in_dim(here, out[r].shape(), {0}), made[k][r], out[r]);
  }
  return out;
}

}  // namespace

std::vector<Val> branches_batch(BatchContext& ctx) {
  std::vector<bool> params(ctx.batched.begin() + 1, ctx.batched.end());
  if (ctx.batched[0]) return select_branches(ctx);
  std::vector<bool> results(ctx.op.results.size(), false);
  std::vector<std::string> branches = branches_of(ctx.attrs()), batched;
  for (const std::string& branch : branches) {
    std::vector<bool> own = ctx.functions->batch(branch, params, results).results;
    for (size_t r = 0; r < own.size(); ++r) results[r] = results[r] || own[r];
  }
  for (const std::string& branch : branches) batched.push_back(ctx.functions->batch(branch, params, results).name);
  ctx.results_batched = results;
  return choose(ctx.b, ctx.op, batched, ctx.operands);
}

}  // namespace nabla::ops
