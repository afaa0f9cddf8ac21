#include "passes/transform/batch.h"

#include <algorithm>
#include <memory>

#include "ir/verifier.h"
#include "passes/rewrite.h"

namespace nabla::passes {

using ir::Function;
using ir::FunctionBuilder;
using ir::Node;
using ir::Val;
using ir::ValueId;

namespace {

// What batch rules of higher-order ops ask for.
class BatchFunctions : public ir::Functions {
 public:
  BatchFunctions(Batcher& batcher, const Batch& batch, const Function& f, const Node& node)
      : batcher_(batcher), batch_(batch), f_(f), node_(node) {}
  std::string derive(std::string_view function, ir::Transform, std::vector<bool>) override {
    NABLA_CHECK(false, "a batch rule asks for a derivative of @{}", function);
  }
  std::vector<bool> depends(std::string_view function, const std::vector<bool>&) override {
    NABLA_CHECK(false, "a batch rule asks for the activity of @{}", function);
  }
  ir::BatchedFunction batch(std::string_view function, std::vector<bool> params, std::vector<bool> forced) override {
    return batcher_.batch(function, params, forced, batch_);
  }
  std::string define(Function f) override { return batcher_.define(std::move(f)); }
  const Function& get(std::string_view function) const override { return *batcher_.module().find(function); }
  void refuse(std::string_view reason) override { batcher_.refuse(f_, node_, reason); }

 private:
  Batcher& batcher_;
  const Batch& batch_;
  const Function& f_;
  const Node& node_;
};

ir::Shape with_batch(const ir::Shape& shape, const Batch& batch) {
  ir::Shape out = shape;
  out.insert(out.begin(), batch.size);
  return out;
}

bool includes(const std::vector<bool>& all, const std::vector<bool>& some) {
  for (size_t i = 0; i < some.size(); ++i)
    if (some[i] && !all[i]) return false;
  return true;
}

std::string flags_text(const std::vector<bool>& flags) {
  std::string out;
  for (bool f : flags) out += f ? '1' : '0';
  return out;
}

}  // namespace

std::string Batcher::define(Function f) {
  f.name = fresh_name(module_, f.name);
  std::string name = f.name;
  module_.functions.push_back(std::make_shared<const Function>(std::move(f)));
  return name;
}

ir::BatchedFunction Batcher::batch(std::string_view function, const std::vector<bool>& params,
                                   const std::vector<bool>& forced, const Batch& batch) {
  Key key{std::string(function), params, forced, batch.size.str(), batch.spmd_axis};
  if (auto known = made_.find(key); known != made_.end()) return known->second;
  // One that carries the batch there of its own accord will do.
  Key unforced = key;
  std::get<2>(unforced).assign(forced.size(), false);
  if (auto known = made_.find(unforced); known != made_.end())
    if (includes(known->second.results, forced)) return known->second;
  auto at = std::find_if(module_.functions.begin(), module_.functions.end(),
                         [&](const ir::FunctionPtr& f) { return f->name == function; });
  NABLA_CHECK(at != module_.functions.end(), "batch: no function @{}", function);
  ir::FunctionPtr f = *at;  // kept: the module's list grows
  NABLA_CHECK(params.size() == f->params.size() && forced.size() == f->results.size(), "batch: flags of @{}", function);
  bool every = std::find(params.begin(), params.end(), false) == params.end();
  FunctionBuilder b(f->name + ".vmap" + (every ? "" : "." + flags_text(params)), ops_, &module_);
  b.set_location(f->location);
  Values args;
  for (size_t i = 0; i < params.size(); ++i) {
    ir::Type type = f->type(f->params[i]);
    if (params[i]) type.shape = with_batch(type.shape, batch);
    args.push_back({b.param(f->values[f->params[i]].name, type), params[i]});
  }
  Values results = emit(b, *f, args, batch);
  ir::BatchedFunction made;
  std::vector<Val> values;
  for (size_t r = 0; r < results.size(); ++r) {
    Value& v = results[r];
    if (forced[r] && !v.batched) v = {broadcast_along(v.v, with_batch(v.v.shape(), batch), {0}), true};
    values.push_back(v.v);
    made.results.push_back(v.batched);
  }
  Function out = b.finish(values);
  out.location = f->location;
  made.name = define(std::move(out));
  return made_[key] = made;
}

Batcher::Values Batcher::emit(FunctionBuilder& b, const Function& f, const Values& args, const Batch& batch) {
  Values values(f.values.size());
  for (size_t i = 0; i < args.size(); ++i) values[f.params[i]] = args[i];
  for (const Node& node : f.nodes) {
    Values operands;
    for (ValueId id : node.operands) operands.push_back(values[id]);
    Values results = emit_node(b, f, node, operands, batch);
    NABLA_CHECK(results.size() == node.results.size(), "batch of {}: {} results", node.op->name, results.size());
    for (size_t i = 0; i < results.size(); ++i) values[node.results[i]] = results[i];
  }
  Values out;
  for (ValueId id : f.results) out.push_back(values[id]);
  return out;
}

Batcher::Values Batcher::emit_node(FunctionBuilder& b, const Function& f, const Node& node, const Values& operands,
                                   const Batch& batch) {
  std::vector<Val> vals;
  std::vector<bool> batched;
  for (const Value& v : operands) {
    vals.push_back(v.v);
    batched.push_back(v.batched);
  }
  Values out;
  if (std::find(batched.begin(), batched.end(), true) == batched.end()) {
    for (Val v : b.clone(node, vals)) out.push_back({v, false});
    return out;
  }
  ir::TypedOp op = typed(f, node);
  if (node.location) b.set_location(node.location);
  check_rank(f, node, operands);
  if (node.op->batch.by_decomposition())
    return emit(b, decomposition(op, node.location, ops_, &module_), operands, batch);
  if (!node.op->batch.exists()) {
    refuse(f, node, node.op->batch.reason());
    for (const ir::Type& t : op.results) out.push_back({b.fill(t.dtype, with_batch(t.shape, batch), 0), true});
    return out;
  }
  BatchFunctions functions(*this, batch, f, node);
  ir::BatchContext ctx{b, op, vals, batched, batch.size, batch.spmd_axis, &functions};
  std::vector<Val> results = node.op->batch(ctx);
  NABLA_CHECK(results.size() == op.results.size(), "batch of {}: {} results", node.op->name, results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    bool carries = ctx.results_batched.empty() || ctx.results_batched[i];
    ir::Type expected = op.results[i];
    if (carries) expected.shape = with_batch(expected.shape, batch);
    NABLA_CHECK(results[i].dtype() == expected.dtype && results[i].rank() == expected.rank(),
                "batch of {}: result {} is {}, expected {}", node.op->name, i, results[i].type().str(), expected.str());
    out.push_back({results[i], carries});
  }
  return out;
}

void Batcher::check_rank(const Function& f, const Node& node, const Values& operands) {
  int most = 0;
  for (const Value& v : operands) most = std::max(most, v.v.rank());
  for (ValueId id : node.results) most = std::max(most, f.type(id).rank() + 1);
  if (most <= ir::kMaxRank || too_deep_) return;
  too_deep_ = true;
  Diagnostic d = error(Code::kTooLarge, "vmap of @{}: with the dimensions of its batches, {} is of {} dimensions, at most {} are allowed",
                       f.name, node.op->name, most, ir::kMaxRank);
  d.location = node.location;
  d.help = "each vmap around a function adds a dimension: reshape several into one, and map over that";
  errors_.push_back(std::move(d));
}

void Batcher::refuse(const Function& f, const Node& node, std::string_view reason) {
  Diagnostic d = error(Code::kNoRule, "{} cannot be batched: {}", node.op->name, reason);
  d.help = fmt::format("`nablac doc op {}` lists what it has rules for", node.op->name);
  d.location = node.location;
  for (ValueId id : node.operands) d.notes.push_back(describe_value(f, id));
  d.notes.push_back(fmt::format("in vmap of @{}", f.name));
  auto same = [&](const Diagnostic& e) { return e.message == d.message && e.location == d.location; };
  if (std::none_of(errors_.begin(), errors_.end(), same)) errors_.push_back(std::move(d));
}

}  // namespace nabla::passes
