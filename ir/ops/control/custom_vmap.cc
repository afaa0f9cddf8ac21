// custom_vmap: a call with a batch rule of the user's.
#include <algorithm>
#include <map>

#include "ir/ops/all_ops.h"
#include "ir/ops/control/call.h"

namespace nabla::ops {
namespace {

Types with_leading(const Dim& size, Types types) {
  for (Type& t : types) t.shape = prepend(size, t.shape);
  return types;
}

InferResult infer_custom_vmap(const InferContext& ctx) {
  const ir::Function* f = NABLA_TRY(find_callee(ctx));
  const ir::Function* rule = NABLA_TRY(find_function(ctx, ctx.attrs.get_function("rule")));
  NABLA_TRY(require_count(ctx, f->params.size(), *f));
  NABLA_TRY(require_types(ctx, ctx.operands, param_types(*f), "operand", *f));
  const Shape& size = ctx.attrs.get_shape("size");
  bool symbol = size.size() == 1 && size[0].symbols().size() == 1 && size[0] == Dim::symbol(size[0].symbols()[0]);
  if (!symbol) return ctx.fail(Code::kBadAttribute, "C3", "size is {}, expected one symbol", ir::str(size));
  int64_t consts = ctx.attrs.get_int("consts");
  if (consts < 0 || consts > static_cast<int64_t>(f->params.size()))
    return ctx.fail(Code::kBadAttribute, "C5", "consts is {}, @{} has {} parameters", consts, f->name,
                    f->params.size());
  size_t mapped = f->params.size() - static_cast<size_t>(consts);
  Types all = param_types(*f), params = with_leading(size[0], slice(all, 0, mapped));
  append(params, slice(all, mapped, all.size()));
  Types results = with_leading(size[0], result_types(*f));
  if (rule->params.size() != params.size() || rule->results.size() != results.size())
    return ctx.fail(Code::kOperandCount, "C4", "@{} has {} parameters and {} results, expected {} and {}", rule->name,
                    rule->params.size(), rule->results.size(), params.size(), results.size());
  NABLA_TRY(require_types(ctx, params, param_types(*rule), "parameter", *rule, "C4"));
  NABLA_TRY(require_types(ctx, results, result_types(*rule), "result", *rule, "C4"));
  return result_types(*f);
}

// Functions with an extent in the place of a symbol.
class Instances {
 public:
  Instances(BatchContext& ctx, ir::SymbolRef symbol) : ctx_(ctx), symbol_(std::move(symbol)) {}

  std::string make(const std::string& name) {
    if (auto known = made_.find(name); known != made_.end()) return known->second;
    const ir::Function& f = ctx_.functions->get(name);
    FunctionBuilder b(name + ".sized", ctx_.b.ops(), ctx_.b.module());
    std::vector<Val> values(f.values.size()), out;
    for (ir::ValueId id : f.params)
      values[id] = b.param(f.values[id].name, {f.type(id).dtype, sized(f.type(id).shape)});
    for (const ir::Node& node : f.nodes) {
      std::vector<Val> operands;
      for (ir::ValueId id : node.operands) operands.push_back(values[id]);
      b.set_location(node.location);
      std::vector<Val> results = b.add(node.op->name, operands, sized(node.attrs));
      for (size_t i = 0; i < results.size(); ++i) values[node.results[i]] = results[i];
    }
    for (ir::ValueId id : f.results) out.push_back(values[id]);
    return made_[name] = ctx_.functions->define(b.finish(out));
  }

 private:
  Shape sized(const Shape& shape) const {
    Shape out;
    for (const Dim& d : shape)
      out.push_back(
          d.substitute([&](const ir::SymbolRef& s) { return s->name == symbol_->name ? ctx_.size : Dim::symbol(s); }));
    return out;
  }
  Attrs sized(const Attrs& attrs) {
    Attrs out = with_functions(attrs, [&](const std::string& f) { return make(f); });
    for (const auto& [name, attr] : attrs)
      if (const Shape* shape = std::get_if<Shape>(&attr)) out.set(name, sized(*shape));
    return out;
  }

  BatchContext& ctx_;
  ir::SymbolRef symbol_;
  std::map<std::string, std::string> made_;
};

std::vector<Val> custom_vmap_batch(BatchContext& ctx) {
  size_t mapped = ctx.operands.size() - static_cast<size_t>(ctx.attrs().get_int("consts"));
  // The rule takes one value of a constant: what has one per example is batched as the callee is.
  if (std::find(ctx.batched.begin() + static_cast<std::ptrdiff_t>(mapped), ctx.batched.end(), true) !=
      ctx.batched.end()) {
    std::vector<bool> forced(ctx.op.results.size(), true);
    ir::BatchedFunction callee = ctx.functions->batch(ctx.attrs().get_function("callee"), ctx.batched, forced);
    return call_function(ctx.b, callee.name, ctx.operands);
  }
  ir::SymbolRef symbol = ctx.attrs().get_shape("size")[0].symbols()[0];
  ir::Interval range = ctx.size.bounds();
  if (range.min < symbol->min || range.max > symbol->max) {
    ctx.functions->refuse(fmt::format("its rule is written for {} examples, from {} to {}, and the batch has {}",
                                      symbol->name, symbol->min, symbol->max, ctx.size.str()));
    std::vector<Val> none;
    for (const Type& t : ctx.op.results) none.push_back(ctx.b.fill(t.dtype, prepend(ctx.size, t.shape), 0));
    return none;
  }
  std::vector<Val> operands;
  for (size_t i = 0; i < ctx.operands.size(); ++i)
    operands.push_back(i < mapped ? ctx.batched_operand(static_cast<int>(i)) : ctx.operands[i]);
  return call_function(ctx.b, Instances(ctx, symbol).make(ctx.attrs().get_function("rule")), operands);
}

const char* const kFunctions = R"(symbol many in [0, 4096]
func @f(%x: f32[3], %y: f32[]) {
  %s = sin(%x)
  %t = broadcast_in_dim(%y) {shape=[3], dims=[]}
  %p = mul(%s, %t)
  return %p
}
func @rule(%x: f32[many,3], %y: f32[many]) {
  %s = sin(%x)
  %t = broadcast_in_dim(%y) {shape=[many,3], dims=[0]}
  %p = call(%s, %t) {callee=@product}
  return %p
}
func @product(%x: f32[many,3], %y: f32[many,3]) { %p = mul(%x, %y)  return %p }
func @shared(%x: f32[many,3], %y: f32[]) {
  %s = sin(%x)
  %t = broadcast_in_dim(%y) {shape=[many,3], dims=[]}
  %p = mul(%s, %t)
  return %p
}
)";

}  // namespace

std::vector<OpDef> custom_vmap_ops() {
  OpDef op = call_record(
      "custom_vmap",
      "The callee, with a batch rule of the user's: `rule` is the callee on a batch of any size, a symbol, for which "
      "vmap puts the size that it has. Operands that all examples share are repeated for it, but for the constants; "
      "where one of these has a value per example, the callee is batched instead. Derivatives are those of the callee, "
      "or of the rule where vmap comes first.",
      {required("rule", AttrKind::kFunction, "the same with dimension `size` in front of everything"),
       required("size", AttrKind::kShape, "one extent: the symbol in the rule's types"),
       optional("consts", "how many operands, the last ones, the rule takes as they are", int64_t{0})},
      {{"C1", "both functions exist"},
       {"C2", "the operands fit the callee"},
       {"C3", "size is a symbol"},
       {"C4", "the rule has the callee's parameters and results, with size in front of all but the constants"},
       {"C5", "there are as many constants as the callee has parameters, or fewer"}});
  op.infer = infer_custom_vmap;
  op.batch = custom_vmap_batch;
  op.dtypes = DTypes::kFloats;
  auto many = std::make_shared<ir::Symbol>(ir::Symbol{"many", 0, 4096, 1});
  auto attrs = [&](const char* f, const char* rule, Shape size) {
    return Attrs{{"callee", FunctionRef{f}}, {"rule", FunctionRef{rule}}, {"size", std::move(size)}};
  };
  Shape size = {Dim::symbol(many)};
  op.examples = {{{operand(f32({3})), operand(f32())}, attrs("f", "rule", size), kFunctions}};
  auto shared = [&](int64_t consts) {
    Attrs out = attrs("f", "shared", size);
    out.set("consts", consts);
    return out;
  };
  op.examples.push_back({{operand(f32({3})), operand(f32())}, shared(1), kFunctions});
  op.draw = [examples = op.examples](Rng& rng) { return examples[rng() % examples.size()]; };
  op.rejects = {{"C1", {f32({3}), f32()}, attrs("f", "missing", size), kFunctions},
                {"C2", {f32({3})}, attrs("f", "rule", size), kFunctions},
                {"C3", {f32({3}), f32()}, attrs("f", "rule", {4}), kFunctions},
                {"C4", {f32({3}), f32()}, attrs("f", "f", size), kFunctions},
                {"C5", {f32({3}), f32()}, shared(3), kFunctions}};
  return {op};
}

}  // namespace nabla::ops
