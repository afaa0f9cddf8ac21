// Forward mode and batching of while and scan.
#include "ir/ops/control/control_flow.h"

namespace nabla::ops {
namespace {

// Which operands carry a tangent in some iteration: a carry does as soon as the body makes it depend on one that does.
std::vector<bool> active_in_loop(ir::Functions& functions, const TypedOp& op, std::vector<bool> active) {
  LoopParts parts = loop_parts(op);
  for (bool grown = true; grown;) {
    grown = false;
    std::vector<bool> results = functions.depends(op.attrs.get_function("body"), active);
    for (size_t c = 0; c < parts.carries; ++c)
      if (results[c] && !active[parts.consts + c]) grown = active[parts.consts + c] = true;
  }
  return active;
}

// The operands of the differentiated loop are those of the loop, with the tangents of each part after it.
struct Doubled {
  std::vector<Val> params;    // of the wrapped function, in its order
  std::vector<Val> tangents;  // of the active ones

  Doubled(FunctionBuilder& w, const Types& types, const LoopParts& parts, const std::vector<bool>& active) {
    size_t part_begin = 0;
    for (size_t part_size : {parts.consts, parts.carries, parts.xs}) {
      size_t end = part_begin + part_size;
      for (size_t i = part_begin; i < end; ++i) params.push_back(w.param("", types[i]));
      for (size_t i = part_begin; i < end; ++i)
        if (active[i]) tangents.push_back(w.param("", types[i]));
      part_begin = end;
    }
  }
};

std::vector<MaybeVal> loop_jvp(JvpContext& ctx, Attrs attrs) {
  LoopParts parts = loop_parts(ctx.op);
  std::string body = ctx.attrs().get_function("body");
  std::vector<bool> active;
  for (const MaybeVal& t : ctx.tangents) active.push_back(t.has_value());
  active = active_in_loop(*ctx.functions, ctx.op, active);
  std::vector<bool> moving = ctx.functions->depends(body, active);
  for (size_t c = 0; c < parts.carries; ++c) moving[c] = active[parts.consts + c];
  std::string derived = ctx.functions->derive(body, ir::Transform::kJvp, active);
  const ir::Function& f = ctx.functions->get(body);
  Types params = param_types(f);
  size_t results = f.results.size();

  FunctionBuilder w(derived + ".step", ctx.b.ops(), ctx.b.module());
  w.set_location(ctx.b.location());
  Doubled inside(w, params, parts, active);
  std::vector<Val> args = inside.params, out;
  append(args, inside.tangents);
  std::vector<Val> made = call_function(w, derived, args);
  for (auto [begin, end] : {std::pair{size_t{0}, parts.carries}, {parts.carries, results}}) {
    for (size_t r = begin; r < end; ++r) out.push_back(made[r]);
    for (size_t r = begin; r < end; ++r)
      if (moving[r]) out.push_back(made[results + r]);
  }
  attrs.set("body", FunctionRef{ctx.functions->define(w.finish(out))});

  std::vector<Val> operands;
  size_t begin = 0, carries = parts.carries;
  for (size_t size : {parts.consts, parts.carries, parts.xs}) {
    for (size_t i = begin; i < begin + size; ++i) operands.push_back(ctx.operands[i]);
    for (size_t i = begin; i < begin + size; ++i)
      if (active[i]) operands.push_back(ctx.tangent(static_cast<int>(i)));
    begin += size;
    if (begin == parts.consts) attrs.set("consts", static_cast<int64_t>(operands.size()));
    if (begin == parts.first_x()) carries = operands.size() - static_cast<size_t>(attrs.get_int("consts"));
  }
  if (attrs.find("carries")) attrs.set("carries", static_cast<int64_t>(carries));
  std::vector<Val> all = ctx.b.add(ctx.op.op.name, operands, attrs);
  std::vector<MaybeVal> tangents(results);
  size_t next = 0;
  for (auto [first, end] : {std::pair{size_t{0}, parts.carries}, {parts.carries, results}}) {
    for (size_t r = first; r < end; ++r) ctx.results[r] = all[next++];
    for (size_t r = first; r < end; ++r)
      if (moving[r]) tangents[r] = all[next++];
  }
  return tangents;
}

}  // namespace

std::vector<MaybeVal> scan_jvp(JvpContext& ctx) { return loop_jvp(ctx, ctx.attrs()); }

std::vector<MaybeVal> while_jvp(JvpContext& ctx) {
  std::vector<bool> active;
  for (const MaybeVal& t : ctx.tangents) active.push_back(t.has_value());
  active = active_in_loop(*ctx.functions, ctx.op, active);
  const std::string& cond = ctx.attrs().get_function("cond");
  FunctionBuilder w(cond + ".jvp", ctx.b.ops(), ctx.b.module());
  Doubled inside(w, ctx.op.operands, loop_parts(ctx.op), active);
  std::vector<Val> go = call_function(w, cond, inside.params);
  Attrs attrs = ctx.attrs();
  attrs.set("cond", FunctionRef{ctx.functions->define(w.finish(go))});
  return loop_jvp(ctx, attrs);
}

// ---- Batching

namespace {

// Which operands carry the batch in some iteration, and the body under it.
struct BatchedLoop {
  std::vector<bool> operands;
  ir::BatchedFunction body;

  BatchedLoop(BatchContext& ctx, const LoopParts& parts, std::vector<bool> batched) : operands(std::move(batched)) {
    const std::string& name = ctx.attrs().get_function("body");
    for (bool grown = true; grown;) {
      grown = false;
      std::vector<bool> forced(ctx.functions->get(name).results.size(), false);
      for (size_t c = 0; c < parts.carries; ++c) forced[c] = operands[parts.consts + c];
      body = ctx.functions->batch(name, operands, forced);
      for (size_t c = 0; c < parts.carries; ++c)
        if (body.results[c] && !operands[parts.consts + c]) grown = operands[parts.consts + c] = true;
    }
  }
  /// The operand, with the batch in front where the loop wants it.
  Val operand(const BatchContext& ctx, size_t i) const {
    return operands[i] ? ctx.batched_operand(static_cast<int>(i)) : ctx.operands[i];
  }
};

// Dimensions 0 and 1 change places.
Val swapped(Val v) {
  Ints order = ir::iota_ints(v.rank());
  std::swap(order[0], order[1]);
  return transpose(v, order);
}

}  // namespace

std::vector<Val> scan_batch(BatchContext& ctx) {
  LoopParts parts = loop_parts(ctx.op);
  BatchedLoop loop(ctx, parts, ctx.batched);
  std::vector<Val> operands;
  for (size_t i = 0; i < ctx.operands.size(); ++i) {
    bool moved = i >= parts.first_x() && ctx.batched[i];
    operands.push_back(moved ? swapped(ctx.operands[i]) : loop.operand(ctx, i));
  }
  Attrs attrs = ctx.attrs();
  attrs.set("body", FunctionRef{loop.body.name});
  std::vector<Val> out = ctx.b.add("scan", operands, attrs);
  for (size_t r = parts.carries; r < out.size(); ++r)
    if (loop.body.results[r]) out[r] = swapped(out[r]);
  ctx.results_batched = loop.body.results;
  return out;
}

std::vector<Val> while_batch(BatchContext& ctx) {
  LoopParts parts = loop_parts(ctx.op);
  const std::string& cond = ctx.attrs().get_function("cond");
  bool counted = ctx.attrs().get_int("trip_count") >= 0;
  BatchedLoop loop(ctx, parts, ctx.batched);
  ir::BatchedFunction go = ctx.functions->batch(cond, loop.operands, {false});
  Attrs attrs = ctx.attrs();
  if (go.results[0]) {
    // Each example has its own end. The loop runs until the last one is done; those that are done stay as they are.
    if (!counted) {
      std::vector<bool> all(ctx.batched.begin(), ctx.batched.end());
      for (size_t c = 0; c < parts.carries; ++c) all[parts.consts + c] = true;
      loop = BatchedLoop(ctx, parts, all);
      go = ctx.functions->batch(cond, loop.operands, {true});
    }
    const ir::Function& f = ctx.functions->get(go.name);
    auto parameters = [&](FunctionBuilder& w) {
      std::vector<Val> params;
      for (const Type& t : param_types(f)) params.push_back(w.param("", t));
      return params;
    };
    FunctionBuilder any(go.name + ".any", ctx.b.ops(), ctx.b.module());
    Val each = call_function(any, go.name, parameters(any))[0];
    attrs.set("cond",
              FunctionRef{ctx.functions->define(any.finish({any.op("reduce_or", {each}, {{"axes", Ints{0}}})}))});
    if (!counted) {
      FunctionBuilder w(loop.body.name + ".masked", ctx.b.ops(), ctx.b.module());
      std::vector<Val> params = parameters(w), next = call_function(w, loop.body.name, params);
      Val running = call_function(w, go.name, params)[0];
      for (size_t c = 0; c < next.size(); ++c)
        next[c] = select(broadcast_in_dim(running, next[c].shape(), {0}), next[c], params[parts.consts + c]);
      loop.body.name = ctx.functions->define(w.finish(next));
    }
  } else {
    attrs.set("cond", FunctionRef{go.name});
  }
  attrs.set("body", FunctionRef{loop.body.name});
  std::vector<Val> operands;
  for (size_t i = 0; i < ctx.operands.size(); ++i) operands.push_back(loop.operand(ctx, i));
  ctx.results_batched = slice(loop.operands, parts.consts, loop.operands.size());
  return ctx.b.add("while", operands, attrs);
}

}  // namespace nabla::ops
