// cond and switch: one of several functions runs.
#include <algorithm>

#include "ir/ops/all_ops.h"
#include "ir/ops/control/control_flow.h"

namespace nabla::ops {

std::vector<std::string> branches_of(const Attrs& attrs) {
  if (attrs.find("then")) return {attrs.get_function("then"), attrs.get_function("else")};
  std::vector<std::string> out;
  for (const FunctionRef& f : attrs.get_functions("branches")) out.push_back(f.name);
  return out;
}

Attrs with_branches(const Attrs& attrs, const std::vector<std::string>& branches) {
  Attrs out = attrs;
  if (attrs.find("then")) {
    out.set("then", FunctionRef{branches[0]});
    out.set("else", FunctionRef{branches[1]});
    return out;
  }
  ir::FunctionRefs list;
  for (const std::string& f : branches) list.push_back({f});
  out.set("branches", std::move(list));
  return out;
}

namespace {

constexpr const char* kNoElements = "which function runs is known only at run time";

// Operand 0 chooses; the others are those of every branch.
InferResult infer_branches(const InferContext& ctx, const Type& selector) {
  if (ctx.operands[0] != selector)
    return ctx.fail(Code::kDTypeMismatch, "C2", "the first operand is {}, expected {}", ctx.operands[0].str(),
                    selector.str());
  std::vector<std::string> names = branches_of(ctx.attrs);
  if (names.empty()) return ctx.fail(Code::kBadAttribute, "C5", "there is no branch");
  const ir::Function* first = nullptr;
  for (const std::string& name : names) {
    const ir::Function* f = NABLA_TRY(find_function(ctx, name));
    if (ctx.operands.size() != f->params.size() + 1)
      return ctx.fail(Code::kOperandCount, "C3", "@{} takes {} operands, got {}", f->name, f->params.size(),
                      ctx.operands.size() - 1);
    NABLA_TRY(require_types(ctx, ctx.operands.subspan(1), param_types(*f), "operand", *f, "C3"));
    if (!first) first = f;
    if (f->results.size() != first->results.size())
      return ctx.fail(Code::kOperandCount, "C4", "@{} has {} results, @{} has {}", first->name, first->results.size(),
                      f->name, f->results.size());
    Types results = result_types(*f);
    NABLA_TRY(require_types(ctx, results, result_types(*first), fmt::format("@{}: result", f->name), *first, "C4"));
  }
  return result_types(*first);
}

Literals run_branch(const EvalContext& ctx, size_t branch) {
  return ctx.call(branches_of(ctx.attrs())[branch], {ctx.operands.begin() + 1, ctx.operands.end()});
}

Literals run_switch(const EvalContext& ctx) {
  auto count = static_cast<int64_t>(ctx.attrs().get_functions("branches").size());
  return run_branch(ctx, static_cast<size_t>(std::clamp<int64_t>(ctx.operands[0].get_i(0), 0, count - 1)));
}

OpDef branch_op(std::string name, std::string doc, OperandDef selector, std::vector<AttrDef> attrs,
                decltype(OpDef::infer) infer, decltype(OpDef::reference) reference) {
  return {
      .name = std::move(name),
      .version = 1,
      .category = "control flow",
      .doc = std::move(doc),
      .operands = {std::move(selector), {"operands", "the branches' parameters", true, true}},
      .attrs = std::move(attrs),
      .results = {{"results", "those of the branch that ran"}},
      .constraints = {{"C1", "every branch exists"},
                      {"C2", "the first operand is a scalar of the dtype that the op names"},
                      {"C3", "the other operands have the types of the parameters of every branch"},
                      {"C4", "all branches have the same result types"}},
      .traits = {},
      .stages = ir::kAllStages,
      .infer = std::move(infer),
      .reference = std::move(reference),
      .fold = ir::no_rule("functions are not run by the compiler"),
      .decompose = ir::no_rule("a branch is no composition of ops"),
      .vjp = branches_vjp,
      .vjp_forward = branches_vjp_forward,
      .jvp = branches_jvp,
      .batch = branches_batch,
      .factors = control_factors,
      .access = ir::no_rule(kNoElements),
      .linearity = ir::not_linear(),
      .lower = Lowering::kControl,
      .cost = call_cost,
      .dtypes = DTypes::kFloats,
      .examples = {},
      .draw = nullptr,
      .rejects = {},
  };
}

// Functions of (x of this type, y a scalar) with results (x's type, a scalar).
std::string random_branches(const Type& x) {
  constexpr const char* kText = R"(
func @scaled(%x: {0}, %y: f32[]) {{
  %s = broadcast_in_dim(%y) {{shape={1}, dims=[]}}
  %p = mul(%x, %s)
  return %p, %y
}}
func @waves(%x: {0}, %y: f32[]) {{
  %s = sin(%x)
  %t = reduce_sum(%s) {{axes={2}}}
  %u = mul(%t, %y)
  return %s, %u
}}
func @constants(%x: {0}, %y: f32[]) {{
  %z = exp(%y)
  return %x, %z
}}
)";
  return fmt::format(fmt::runtime(kText), x.str(), ir::str(x.shape), shape_str(ir::iota_ints(x.rank())));
}

FunctionRef random_branch(Rng& rng) {
  constexpr const char* kNames[] = {"scaled", "waves", "constants"};
  return {kNames[rng() % 3]};
}

const char* const kHalves = R"(
func @double(%x: f32[3]) { %y = add(%x, %x)  return %y }
func @square(%x: f32[3]) { %y = mul(%x, %x)  return %y }
func @scalar(%x: f32[3]) { %y = reduce_sum(%x) {axes=[0]}  return %y }
func @two(%x: f32[3]) { return %x, %x }
func @integer(%x: f32[3]) { %y = convert(%x) {dtype=i32}  return %y }
)";

OpDef cond_op() {
  auto both = [](const char* f, const char* g) { return Attrs{{"then", FunctionRef{f}}, {"else", FunctionRef{g}}}; };
  OpDef op = branch_op("cond", "The results of `then` where pred holds, else those of `else`. Only one of them runs.",
                       {"pred", "bool[]: which function runs"},
                       {required("then", AttrKind::kFunction, "runs when pred is true"),
                        required("else", AttrKind::kFunction, "runs when pred is false")},
                       [](const InferContext& ctx) { return infer_branches(ctx, boolean()); },
                       [](const EvalContext& ctx) { return run_branch(ctx, ctx.operands[0].get_i(0) ? 0 : 1); });
  op.control = [](const TypedOp& node) -> ir::ControlFlow {
    return {ir::ControlFlow::Kind::kBranch, {node.attrs.get_function("else"), node.attrs.get_function("then")}};
  };
  op.examples = {{{operand(boolean(), between(0, 1)), operand(f32({3}))}, both("double", "square"), kHalves},
                 {{operand(boolean(), between(1, 1)), operand(f32({3}))}, both("square", "double"), kHalves}};
  op.draw = [both](Rng& rng) -> Example {
    Type x = f32(random_shape(rng, static_cast<int>(random_int(rng, 0, 2)), 60));
    std::string f = random_branch(rng).name, g = random_branch(rng).name;
    return {{operand(boolean(), between(0, 1)), operand(x), operand(f32())},
            both(f.c_str(), g.c_str()),
            random_branches(x)};
  };
  op.rejects = {{"C1", {boolean(), f32({3})}, both("double", "missing"), kHalves},
                {"C2", {i32(), f32({3})}, both("double", "square"), kHalves},
                {"C2", {boolean({1}), f32({3})}, both("double", "square"), kHalves},
                {"C3", {boolean(), f32({4})}, both("double", "square"), kHalves},
                {"C3", {boolean()}, both("double", "square"), kHalves},
                {"C4", {boolean(), f32({3})}, both("double", "scalar"), kHalves},
                {"C4", {boolean(), f32({3})}, both("double", "two"), kHalves},
                {"C4", {boolean(), f32({3})}, both("double", "integer"), kHalves}};
  return op;
}

OpDef switch_op() {
  auto list = [](std::initializer_list<const char*> names) {
    ir::FunctionRefs refs;
    for (const char* name : names) refs.push_back({name});
    return Attrs{{"branches", refs}};
  };
  OpDef op =
      branch_op("switch",
                "The results of branch `index`. An index below 0 runs the first branch, one after the last runs "
                "the last.",
                {"index", "i32[]: which branch runs"},
                {required("branches", AttrKind::kFunctions, "the functions, at least one")},
                [](const InferContext& ctx) { return infer_branches(ctx, i32()); }, run_switch);
  op.constraints.push_back({"C5", "there is at least one branch"});
  op.control = [](const TypedOp& node) -> ir::ControlFlow {
    return {ir::ControlFlow::Kind::kBranch, branches_of(node.attrs)};
  };
  op.examples = {{{operand(i32(), between(-3, 5)), operand(f32({3}))}, list({"double", "square"}), kHalves},
                 {{operand(i32(), between(0, 0)), operand(f32({3}))}, list({"square"}), kHalves}};
  op.draw = [](Rng& rng) -> Example {
    Type x = f32(random_shape(rng, static_cast<int>(random_int(rng, 0, 2)), 60));
    ir::FunctionRefs refs;
    for (int64_t n = random_int(rng, 1, 4); n > 0; --n) refs.push_back(random_branch(rng));
    return {{operand(i32(), between(-1, 4)), operand(x), operand(f32())}, {{"branches", refs}}, random_branches(x)};
  };
  op.rejects = {{"C1", {i32(), f32({3})}, list({"missing"}), kHalves},
                {"C2", {boolean(), f32({3})}, list({"double"}), kHalves},
                {"C3", {i32(), f32({4})}, list({"double", "square"}), kHalves},
                {"C4", {i32(), f32({3})}, list({"double", "square", "scalar"}), kHalves},
                {"C5", {i32(), f32({3})}, list({}), kHalves}};
  return op;
}

}  // namespace

std::vector<OpDef> branch_ops() { return {cond_op(), switch_op()}; }

}  // namespace nabla::ops
