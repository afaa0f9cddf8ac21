// Reverse mode of loops. The way back of a scan is a scan in the other direction: over what the forward one stacked,
// over the sequences themselves, and beside values that are the same in every iteration, which nobody stacks. A while
// with a trip_count goes backward as the scan that it is.
#include <algorithm>

#include "ir/ops/control/control_flow.h"

namespace nabla::ops {
namespace {

// A loop with a known number of iterations.
struct Counted {
  const TypedOp& op;
  LoopParts parts;
  std::string body;
  Dim length;
  bool reverse;

  explicit Counted(const TypedOp& typed)
      : op(typed), parts(loop_parts(typed)), body(typed.attrs.get_function("body")), reverse(false) {
    if (const Attr* trips = typed.attrs.find("trip_count")) {
      length = std::get<int64_t>(*trips);
      return;
    }
    length = scan_length(typed.attrs);
    reverse = typed.attrs.get_bool("reverse");
  }
  std::vector<Val> run(FunctionBuilder& b, const std::string& f, std::vector<Val> operands, size_t consts,
                       size_t carries, bool backward) const {
    return b.add("scan", std::move(operands),
                 {{"body", FunctionRef{f}},
                  {"consts", static_cast<int64_t>(consts)},
                  {"carries", static_cast<int64_t>(carries)},
                  {"length", Shape{length}},
                  {"reverse", reverse != backward}});
  }
};

// What the way back of the body reads, and where it comes from.
struct LoopResiduals {
  enum class From : uint8_t { kConst, kSequence, kInvariant, kStacked };
  struct Place {
    From from;
    size_t index;  // of the operand, of the invariant value or of the stacked one
  };
  std::vector<bool> active;  // per parameter of the body
  std::string forward;       // the derived body
  std::vector<Place> places;
  std::vector<size_t> stacked;         // results of `forward`
  std::vector<ir::ValueId> invariant;  // values of `forward` that follow from the constants alone

  LoopResiduals(ir::Functions& functions, const Counted& loop, std::vector<bool> wanted) : active(std::move(wanted)) {
    for (bool grown = true; grown;) {
      grown = false;
      std::vector<bool> results = functions.depends(loop.body, active);
      for (size_t c = 0; c < loop.parts.carries; ++c)
        if (results[c] && !active[loop.parts.consts + c]) grown = active[loop.parts.consts + c] = true;
    }
    forward = functions.derive(loop.body, ir::Transform::kVjpForward, active);
    const ir::Function& f = functions.get(forward);
    std::vector<bool> varies = varying(f, loop.parts);
    for (size_t r = functions.get(loop.body).results.size(); r < f.results.size(); ++r)
      places.push_back(place(f, r, loop.parts, varies));
  }

 private:
  static std::vector<bool> varying(const ir::Function& f, const LoopParts& parts) {
    std::vector<bool> out(f.values.size(), false);
    for (size_t i = parts.consts; i < f.params.size(); ++i) out[f.params[i]] = true;
    for (const ir::Node& n : f.nodes) {
      bool any = n.op->traits.side_effect ||
                 std::any_of(n.operands.begin(), n.operands.end(), [&](ir::ValueId id) { return out[id]; });
      for (ir::ValueId id : n.results) out[id] = any;
    }
    return out;
  }
  Place place(const ir::Function& f, size_t result, const LoopParts& parts, const std::vector<bool>& varies) {
    ir::ValueId id = f.results[result];
    auto param = static_cast<size_t>(std::find(f.params.begin(), f.params.end(), id) - f.params.begin());
    if (param < parts.consts) return {From::kConst, param};
    if (param < f.params.size() && param >= parts.first_x()) return {From::kSequence, param};
    if (!varies[id]) {
      invariant.push_back(id);
      return {From::kInvariant, invariant.size() - 1};
    }
    stacked.push_back(result);
    return {From::kStacked, stacked.size() - 1};
  }
};

// The invariant residuals as a function of the constants.
ir::Function invariant_part(const ir::Function& f, const LoopResiduals& residuals, size_t consts,
                            const FunctionBuilder& outer) {
  std::vector<bool> needed(f.values.size(), false), live(f.nodes.size(), false);
  for (ir::ValueId id : residuals.invariant) needed[id] = true;
  for (size_t n = f.nodes.size(); n-- > 0;) {
    for (ir::ValueId id : f.nodes[n].results) live[n] = live[n] || needed[id];
    if (live[n])
      for (ir::ValueId id : f.nodes[n].operands) needed[id] = true;
  }
  FunctionBuilder b(f.name + ".invariant", outer.ops(), outer.module());
  std::vector<Val> values(f.values.size()), out;
  for (size_t i = 0; i < consts; ++i) values[f.params[i]] = b.param(f.values[f.params[i]].name, f.type(f.params[i]));
  for (size_t n = 0; n < f.nodes.size(); ++n) {
    if (!live[n]) continue;
    std::vector<Val> operands;
    for (ir::ValueId id : f.nodes[n].operands) operands.push_back(values[id]);
    std::vector<Val> made = b.clone(f.nodes[n], operands);
    for (size_t i = 0; i < made.size(); ++i) values[f.nodes[n].results[i]] = made[i];
  }
  for (ir::ValueId id : residuals.invariant) out.push_back(values[id]);
  return b.finish(out);
}

ir::VjpForward forward_loop(ir::VjpForwardContext& ctx) {
  Counted loop(ctx.op);
  LoopResiduals residuals(*ctx.functions, loop, ctx.active);
  const ir::Function& f = ctx.functions->get(residuals.forward);
  size_t results = ctx.op.results.size();
  FunctionBuilder w(f.name + ".step", ctx.b.ops(), ctx.b.module());
  w.set_location(ctx.b.location());
  std::vector<Val> params;
  for (const Type& t : param_types(f)) params.push_back(w.param("", t));
  std::vector<Val> made = call_function(w, f.name, params), out = slice(made, 0, results);
  for (size_t r : residuals.stacked) out.push_back(made[r]);
  std::string step = ctx.functions->define(w.finish(out));
  std::vector<Val> all = loop.run(ctx.b, step, ctx.operands, loop.parts.consts, loop.parts.carries, false);
  ir::VjpForward result{slice(all, 0, results), slice(all, results, all.size())};
  if (!residuals.invariant.empty()) {
    std::string once = ctx.functions->define(invariant_part(f, residuals, loop.parts.consts, ctx.b));
    append(result.residuals, call_function(ctx.b, once, slice(ctx.operands, 0, loop.parts.consts)));
  }
  return result;
}

// One step back: (invariant values, cotangents of the active carries, sums of the gradients of the active constants,
// stacked values, cotangents of the slices) -> (cotangents, sums, gradients of the active sequences).
class BackwardStep {
 public:
  BackwardStep(VjpContext& ctx, const Counted& loop, const LoopResiduals& residuals)
      : ctx_(ctx), loop_(loop), residuals_(residuals), types_(param_types(ctx.functions->get(loop.body))) {}

  std::string make() {
    std::string backward = ctx_.functions->derive(loop_.body, ir::Transform::kVjpBackward, residuals_.active);
    const ir::Function& derived = ctx_.functions->get(backward);
    FunctionBuilder w(backward + ".step", ctx_.b.ops(), ctx_.b.module());
    w.set_location(ctx_.b.location());
    std::vector<Val> args(residuals_.places.size());
    auto take = [&](bool invariant) {
      for (size_t r = 0; r < args.size(); ++r)
        if (is_invariant(r) == invariant) args[r] = w.param("", derived.type(derived.params[r]));
    };
    take(true);
    const LoopParts& parts = loop_.parts;
    Types results = result_types(ctx_.functions->get(loop_.body));
    std::vector<MaybeVal> cotangents(results.size());
    std::vector<Val> sums;
    for (size_t c = 0; c < parts.carries; ++c)
      if (residuals_.active[parts.consts + c]) cotangents[c] = w.param("", results[c]);
    for (size_t i = 0; i < parts.consts; ++i)
      if (residuals_.active[i]) sums.push_back(w.param("", types_[i]));
    take(false);
    for (size_t y = parts.carries; y < results.size(); ++y)
      if (ctx_.cotangents[y]) cotangents[y] = w.param("", results[y]);
    for (size_t r = 0; r < results.size(); ++r)
      args.push_back(cotangents[r] ? *cotangents[r] : w.fill(results[r].dtype, results[r].shape, 0));
    std::vector<Val> gradients = call_function(w, backward, args), carried, of_slices;
    size_t next = 0;
    for (Val& sum : sums) sum = sum + gradients[next++];
    for (size_t c = 0; c < parts.carries; ++c)
      if (residuals_.active[parts.consts + c]) carried.push_back(gradients[next++]);
    of_slices = slice(gradients, next, gradients.size());
    append(carried, sums);
    append(carried, of_slices);
    return ctx_.functions->define(w.finish(carried));
  }

  // The operands of the backward loop in the order of make's parameters, and how many are constants and carries.
  std::vector<Val> operands(size_t& consts, size_t& carries) const {
    std::vector<Val> out;
    for (size_t r = 0; r < residuals_.places.size(); ++r)
      if (is_invariant(r)) out.push_back(value(r));
    consts = out.size();
    const LoopParts& parts = loop_.parts;
    for (size_t c = 0; c < parts.carries; ++c)
      if (residuals_.active[parts.consts + c]) out.push_back(ctx_.ct(static_cast<int>(c)));
    for (size_t i = 0; i < parts.consts; ++i)
      if (residuals_.active[i]) out.push_back(ctx_.b.zeros_like(ctx_.operands[i]));
    carries = out.size() - consts;
    for (size_t r = 0; r < residuals_.places.size(); ++r)
      if (!is_invariant(r)) out.push_back(value(r));
    for (size_t y = parts.carries; y < ctx_.cotangents.size(); ++y)
      if (ctx_.cotangents[y]) out.push_back(*ctx_.cotangents[y]);
    return out;
  }

 private:
  using From = LoopResiduals::From;
  bool is_invariant(size_t r) const {
    return residuals_.places[r].from == From::kConst || residuals_.places[r].from == From::kInvariant;
  }
  Val value(size_t r) const {
    const LoopResiduals::Place& p = residuals_.places[r];
    if (p.from == From::kStacked) return ctx_.residuals[p.index];
    if (p.from == From::kInvariant) return ctx_.residuals[residuals_.stacked.size() + p.index];
    return ctx_.operands[p.index];
  }

  VjpContext& ctx_;
  const Counted& loop_;
  const LoopResiduals& residuals_;
  Types types_;
};

std::vector<MaybeVal> backward_loop(VjpContext& ctx) {
  Counted loop(ctx.op);
  LoopResiduals residuals(*ctx.functions, loop, ctx.active);
  BackwardStep step(ctx, loop, residuals);
  size_t consts = 0, carries = 0;
  std::vector<Val> operands = step.operands(consts, carries);
  std::vector<Val> made = loop.run(ctx.b, step.make(), operands, consts, carries, true);
  std::vector<MaybeVal> out(ctx.operands.size());
  const LoopParts& parts = loop.parts;
  size_t next = 0;
  auto take = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      if (residuals.active[i]) out[i] = made[next++];
  };
  take(parts.first_carry(), parts.first_x());
  take(0, parts.consts);
  take(parts.first_x(), parts.operands());
  return out;
}

bool is_counted(const Attrs& attrs) { return attrs.get_int("trip_count") >= 0; }

}  // namespace

ir::VjpForward scan_vjp_forward(ir::VjpForwardContext& ctx) { return forward_loop(ctx); }
std::vector<MaybeVal> scan_vjp(VjpContext& ctx) { return backward_loop(ctx); }

ir::VjpForward while_vjp_forward(ir::VjpForwardContext& ctx) {
  if (is_counted(ctx.attrs())) return forward_loop(ctx);
  return {ctx.b.add("while", ctx.operands, ctx.attrs()), {}};
}

std::vector<MaybeVal> while_vjp(VjpContext& ctx) {
  if (is_counted(ctx.attrs())) return backward_loop(ctx);
  ctx.functions->refuse(
      "reverse mode keeps values of every step, and the number of steps of this while is known only at run time; give "
      "it a trip_count, write it as scan or fori_loop, or differentiate it in forward mode (jvp)");
  return std::vector<MaybeVal>(ctx.operands.size());
}

}  // namespace nabla::ops
