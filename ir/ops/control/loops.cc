// while and scan: a function runs again and again on its own results.
#include "ir/ops/all_ops.h"
#include "ir/ops/control/control_flow.h"

namespace nabla::ops {

LoopParts loop_parts(const TypedOp& op) {
  auto consts = static_cast<size_t>(op.attrs.get_int("consts"));
  size_t carries =
      op.attrs.find("carries") ? static_cast<size_t>(op.attrs.get_int("carries")) : op.operands.size() - consts;
  return {consts, carries, op.operands.size() - consts - carries};
}

const Dim& scan_length(const Attrs& attrs) { return attrs.get_shape("length")[0]; }

namespace {

constexpr const char* kLoop = "iterations depend on each other";

/// Those that differ between the loops. None has a default.
struct LoopRules {
  decltype(OpDef::infer) infer;
  decltype(OpDef::reference) reference;
  decltype(OpDef::vjp) vjp;
  decltype(OpDef::vjp_forward) vjp_forward;
  decltype(OpDef::jvp) jvp;
  decltype(OpDef::batch) batch;
};

OpDef loop_op(std::string name, std::string doc, std::vector<OperandDef> operands, std::vector<AttrDef> attrs,
              ResultDef results, std::vector<ir::Constraint> constraints, LoopRules rules) {
  return {
      .name = std::move(name),
      .version = 1,
      .category = "control flow",
      .doc = std::move(doc),
      .operands = std::move(operands),
      .attrs = std::move(attrs),
      .results = {std::move(results)},
      .constraints = std::move(constraints),
      .traits = {},
      .stages = ir::kAllStages,
      .infer = std::move(rules.infer),
      .reference = std::move(rules.reference),
      .fold = ir::no_rule("functions are not run by the compiler"),
      .decompose = ir::no_rule("a loop is no composition of ops"),
      .vjp = std::move(rules.vjp),
      .vjp_forward = std::move(rules.vjp_forward),
      .jvp = std::move(rules.jvp),
      .batch = std::move(rules.batch),
      .factors = control_factors,
      .access = ir::no_rule(kLoop),
      .linearity = ir::not_linear(),
      .lower = Lowering::kControl,
      .cost = call_cost,
      .dtypes = DTypes::kFloats,
      .examples = {},
      .draw = nullptr,
      .rejects = {},
  };
}

// E0204 unless the attribute is in [0, limit].
Status require_part(const InferContext& ctx, const char* attr, int64_t limit) {
  int64_t n = ctx.attrs.get_int(attr);
  if (n >= 0 && n <= limit) return Ok{};
  return ctx.fail(Code::kBadAttribute, "C2", "{} is {}, expected 0 to {}", attr, n, limit);
}

// E0201, E0202 or E0203 with C4 unless @body's first results have the types of the carries.
Status require_carries(const InferContext& ctx, const ir::Function& body, std::span<const Type> carries,
                       bool more_results) {
  if (body.results.size() < carries.size() || (!more_results && body.results.size() > carries.size()))
    return ctx.fail(Code::kOperandCount, "C4", "@{} has {} results for {} carries", body.name, body.results.size(),
                    carries.size());
  Types expected(carries.begin(), carries.end()), got = result_types(body);
  return require_types(ctx, got, expected, "the carry that follows result", body, "C4");
}

// ---- while

InferResult infer_while(const InferContext& ctx) {
  const ir::Function* cond = NABLA_TRY(find_function(ctx, ctx.attrs.get_function("cond")));
  const ir::Function* body = NABLA_TRY(find_function(ctx, ctx.attrs.get_function("body")));
  NABLA_TRY(require_part(ctx, "consts", static_cast<int64_t>(ctx.operands.size())));
  for (const ir::Function* f : {cond, body}) {
    if (f->params.size() != ctx.operands.size())
      return ctx.fail(Code::kOperandCount, "C3", "@{} takes {} operands, got {}", f->name, f->params.size(),
                      ctx.operands.size());
    NABLA_TRY(require_types(ctx, ctx.operands, param_types(*f), "operand", *f, "C3"));
  }
  auto carries = ctx.operands.subspan(static_cast<size_t>(ctx.attrs.get_int("consts")));
  NABLA_TRY(require_carries(ctx, *body, carries, false));
  if (result_types(*cond) != Types{boolean()})
    return ctx.fail(Code::kDTypeMismatch, "C5", "@{} does not return one bool[]", cond->name);
  if (ctx.attrs.get_int("trip_count") < -1)
    return ctx.fail(Code::kBadAttribute, "C6", "trip_count is {}", ctx.attrs.get_int("trip_count"));
  return Types(carries.begin(), carries.end());
}

Literals run_while(const EvalContext& ctx) {
  LoopParts parts = loop_parts(ctx.op);
  Literals state(ctx.operands.begin(), ctx.operands.end());
  int64_t trips = ctx.attrs().get_int("trip_count");
  auto goes_on = [&](int64_t done) {
    return trips >= 0 ? done < trips : ctx.call(ctx.attrs().get_function("cond"), state)[0].get_i(0) != 0;
  };
  for (int64_t done = 0; goes_on(done); ++done) {
    Literals next = ctx.call(ctx.attrs().get_function("body"), state);
    std::copy(next.begin(), next.end(), state.begin() + static_cast<std::ptrdiff_t>(parts.consts));
  }
  return slice(state, parts.consts, state.size());
}

// Loops over (a constant of this type, a count, a value of the type) -> (count, value).
std::string while_functions(const Type& x) {
  constexpr const char* kText = R"(
func @below(%c: {0}, %n: i32[], %x: {0}) {{
  %limit = constant() {{value=i32[] {{3}}}}
  %go = lt(%n, %limit)
  return %go
}}
func @step(%c: {0}, %n: i32[], %x: {0}) {{
  %one = constant() {{value=i32[] {{1}}}}
  %m = add(%n, %one)
  %s = sin(%x)
  %y = mul(%s, %c)
  return %m, %y
}}
func @early(%c: {0}, %n: i32[], %x: {0}) {{
  %sum = reduce_sum(%x) {{axes={1}}}
  %bound = constant() {{value=f32[] {{1}}}}
  %small = lt(%sum, %bound)
  %limit = constant() {{value=i32[] {{5}}}}
  %few = lt(%n, %limit)
  %go = and(%small, %few)
  return %go
}}
func @three(%c: {0}, %n: i32[], %x: {0}) {{ return %n, %x, %x }}
func @other(%c: {0}, %n: i32[], %x: {0}) {{ return %n, %n }}
func @unary(%n: i32[]) {{ return %n }}
)";
  return fmt::format(fmt::runtime(kText), x.str(), shape_str(ir::iota_ints(x.rank())));
}

Example while_example(const Type& x, const char* cond, const char* body, int64_t trips) {
  return {{operand(x), operand(i32(), between(0, 4)), operand(x)},
          {{"cond", FunctionRef{cond}}, {"body", FunctionRef{body}}, {"consts", int64_t{1}}, {"trip_count", trips}},
          while_functions(x)};
}

Reject while_reject(const char* constraint, Example e, std::initializer_list<std::pair<const char*, Attr>> changes) {
  Reject out{constraint, {}, e.attrs, e.functions};
  for (const Operand& o : e.operands) out.operands.push_back(o.type);
  for (const auto& [name, value] : changes) out.attrs.set(name, value);
  return out;
}

OpDef while_op() {
  OpDef op = loop_op(
      "while",
      "Runs `body` on the carries as long as `cond` holds; its results are the next carries. With a trip_count >= 0 it "
      "runs exactly that often, `cond` is not asked, and the loop has a derivative in reverse mode: without one nobody "
      "knows how many steps there are to keep.",
      {{"operands", "constants of all iterations, then the first carries", true, true}},
      {required("cond", AttrKind::kFunction, "(constants, carries) -> bool[]"),
       required("body", AttrKind::kFunction, "(constants, carries) -> carries"),
       optional("consts", "how many operands are constants", int64_t{0}),
       optional("trip_count", "how often the body runs; -1: as long as `cond` holds", int64_t{-1})},
      {"results", "the last carries"},
      {{"C1", "`cond` and `body` exist"},
       {"C2", "consts is at most the number of operands"},
       {"C3", "the operands have the types of both functions' parameters"},
       {"C4", "`body` returns values of the types of the carries"},
       {"C5", "`cond` returns one bool[]"},
       {"C6", "trip_count is at least -1"}},
      {infer_while, run_while, while_vjp, while_vjp_forward, while_jvp, while_batch});
  op.control = [](const TypedOp& node) {
    LoopParts parts = loop_parts(node);
    ir::ControlFlow out{ir::ControlFlow::Kind::kWhile,
                        {node.attrs.get_function("cond"), node.attrs.get_function("body")}};
    out.consts = static_cast<int>(parts.consts), out.carries = static_cast<int>(parts.carries);
    if (int64_t trips = node.attrs.get_int("trip_count"); trips >= 0) {
      out.kind = ir::ControlFlow::Kind::kLoop;
      out.unasked = out.functions[0];
      out.functions.erase(out.functions.begin());
      out.trips = trips;
    }
    return out;
  };
  op.with_control = [](const Attrs& attrs, const ir::ControlFlow& flow) {
    Attrs out = attrs;
    out.set("cond", FunctionRef{flow.unasked.empty() ? flow.functions[0] : flow.unasked});
    out.set("body", FunctionRef{flow.functions.back()});
    out.set("consts", int64_t{flow.consts});
    return out;
  };
  op.examples = {while_example(f32({3}), "below", "step", 3), while_example(f32(), "early", "step", 2),
                 while_example(f32({2, 2}), "below", "step", 0)};
  op.draw = [](Rng& rng) {
    Type x = f32(random_shape(rng, static_cast<int>(random_int(rng, 0, 2)), 60));
    return while_example(x, random_bool(rng) ? "below" : "early", "step", random_int(rng, 0, 4));
  };
  Example e = while_example(f32({3}), "below", "step", -1);
  Reject short_operand = while_reject("C3", e, {});
  short_operand.operands[2] = f32({4});
  op.rejects = {while_reject("C1", e, {{"cond", FunctionRef{"missing"}}}),
                while_reject("C1", e, {{"body", FunctionRef{"missing"}}}),
                while_reject("C2", e, {{"consts", int64_t{4}}}),
                while_reject("C2", e, {{"consts", int64_t{-1}}}),
                short_operand,
                while_reject("C3", e, {{"body", FunctionRef{"unary"}}}),
                while_reject("C4", e, {{"body", FunctionRef{"three"}}}),
                while_reject("C4", e, {{"body", FunctionRef{"other"}}}),
                while_reject("C5", e, {{"cond", FunctionRef{"step"}}}),
                while_reject("C6", e, {{"trip_count", int64_t{-2}}})};
  return op;
}

// ---- scan

InferResult infer_scan(const InferContext& ctx) {
  const ir::Function* body = NABLA_TRY(find_function(ctx, ctx.attrs.get_function("body")));
  auto count = static_cast<int64_t>(ctx.operands.size());
  NABLA_TRY(require_part(ctx, "consts", count));
  NABLA_TRY(require_part(ctx, "carries", count - ctx.attrs.get_int("consts")));
  const Shape& length = ctx.attrs.get_shape("length");
  if (length.size() != 1 || length[0].bounds().min < 0)
    return ctx.fail(Code::kBadAttribute, "C5", "length is {}, expected one extent", ir::str(length));
  if (body->params.size() != ctx.operands.size())
    return ctx.fail(Code::kOperandCount, "C3", "@{} takes {} operands, got {}", body->name, body->params.size(), count);
  auto consts = static_cast<size_t>(ctx.attrs.get_int("consts"));
  auto carries = static_cast<size_t>(ctx.attrs.get_int("carries"));
  Types each(ctx.operands.begin(), ctx.operands.end());
  for (size_t i = consts + carries; i < each.size(); ++i) {
    if (each[i].rank() == 0)
      return ctx.fail(Code::kShapeMismatch, "C6", "sequence {} is {}", i - consts - carries, each[i].str());
    NABLA_TRY(ctx.require_equal(each[i].shape[0], length[0], "C6",
                                fmt::format("the extent of sequence {} and length", i - consts - carries)));
    each[i].shape.erase(each[i].shape.begin());
  }
  NABLA_TRY(require_types(ctx, each, param_types(*body), "operand", *body, "C3"));
  NABLA_TRY(require_carries(ctx, *body, ctx.operands.subspan(consts, carries), true));
  Types out = slice(each, consts, consts + carries), results = result_types(*body);
  for (size_t i = carries; i < results.size(); ++i)
    out.emplace_back(results[i].dtype, prepend(length[0], results[i].shape));
  return out;
}

Literal row_of(const Literal& x, int64_t row) {
  Extents shape(x.shape().begin() + 1, x.shape().end());
  int64_t bytes = count_of(shape) * bytes_of(x.dtype());
  return Literal::from_bytes(x.dtype(), shape, static_cast<const char*>(x.data()) + row * bytes);
}

Literals run_scan(const EvalContext& ctx) {
  LoopParts parts = loop_parts(ctx.op);
  int64_t length = scan_length(ctx.attrs()).value();
  Literals args(ctx.operands.begin(), ctx.operands.end()), out;
  for (const Type& t : ctx.op.results) out.push_back(zeros(t));
  for (int64_t i = 0; i < length; ++i) {
    int64_t row = ctx.attrs().get_bool("reverse") ? length - 1 - i : i;
    for (size_t x = parts.first_x(); x < args.size(); ++x) args[x] = row_of(ctx.operands[x], row);
    Literals next = ctx.call(ctx.attrs().get_function("body"), args);
    for (size_t c = 0; c < parts.carries; ++c) args[parts.consts + c] = next[c];
    for (size_t y = parts.carries; y < next.size(); ++y)
      for (int64_t k = 0; k < next[y].size(); ++k) copy_element(out[y], row * next[y].size() + k, next[y], k);
  }
  for (size_t c = 0; c < parts.carries; ++c) out[c] = args[parts.consts + c];
  return out;
}

// Bodies of (constant, carry, count, slice) -> (carry, count, two slices).
std::string scan_functions(const Type& x) {
  constexpr const char* kText = R"(
func @cell(%c: {0}, %h: {0}, %n: i32[], %x: {0}) {{
  %one = constant() {{value=i32[] {{1}}}}
  %m = add(%n, %one)
  %e = exp(%c)
  %a = mul(%h, %c)
  %b = add(%a, %x)
  %t = tanh(%b)
  %y = mul(%t, %e)
  %s = reduce_sum(%y) {{axes={1}}}
  return %t, %m, %y, %s
}}
func @shift(%c: {0}, %h: {0}, %n: i32[], %x: {0}) {{
  return %x, %n, %h, %c
}}
func @swapped(%c: {0}, %h: {0}, %n: i32[], %x: {0}) {{
  return %n, %h
}}
func @fewer(%c: {0}, %h: {0}, %n: i32[], %x: {0}) {{
  return %h
}}
)";
  return fmt::format(fmt::runtime(kText), x.str(), shape_str(ir::iota_ints(x.rank())));
}

Example scan_example(const Type& x, const char* body, int64_t length, bool reverse) {
  Type xs(x.dtype, prepend(length, x.shape));
  return {{operand(x, between(-1, 1)), operand(x), operand(i32(), between(0, 4)), operand(xs)},
          {{"body", FunctionRef{body}},
           {"consts", int64_t{1}},
           {"carries", int64_t{2}},
           {"length", Shape{length}},
           {"reverse", reverse}},
          scan_functions(x)};
}

OpDef scan_op() {
  OpDef op = loop_op(
      "scan",
      "Runs `body` once for each slice of the sequences along their first dimension, from the front or, with reverse, "
      "from the back. Its first results are the next carries; the others are stacked in the place of their slice. A "
      "length of 0 returns the carries.",
      {{"operands", "constants of all iterations, then the first carries, then the sequences", true, true}},
      {required("body", AttrKind::kFunction, "(constants, carries, slices) -> (carries, slices)"),
       optional("consts", "how many operands are constants", int64_t{0}),
       optional("carries", "how many operands are carries", int64_t{0}),
       required("length", AttrKind::kShape, "one extent: the number of iterations, which may be symbolic"),
       optional("reverse", "begin with the last slice", false)},
      {"results", "the last carries, then the stacked slices"},
      {{"C1", "`body` exists"},
       {"C2", "consts + carries is at most the number of operands"},
       {"C3", "constants, carries and slices have the types of the body's parameters"},
       {"C4", "`body` returns values of the types of the carries first"},
       {"C5", "length is one extent >= 0"},
       {"C6", "the first dimension of every sequence is length"}},
      {infer_scan, run_scan, scan_vjp, scan_vjp_forward, scan_jvp, scan_batch});
  op.control = [](const TypedOp& node) {
    LoopParts parts = loop_parts(node);
    ir::ControlFlow out{ir::ControlFlow::Kind::kLoop, {node.attrs.get_function("body")}};
    out.consts = static_cast<int>(parts.consts), out.carries = static_cast<int>(parts.carries);
    out.trips = scan_length(node.attrs);
    out.reverse = node.attrs.get_bool("reverse");
    return out;
  };
  op.localise = localise_trips;
  op.with_control = [](const Attrs& attrs, const ir::ControlFlow& flow) {
    Attrs out = attrs;
    out.set("body", FunctionRef{flow.functions[0]});
    out.set("consts", int64_t{flow.consts});
    out.set("carries", int64_t{flow.carries});
    return out;
  };
  op.examples = {scan_example(f32({2}), "cell", 3, false), scan_example(f32({2}), "cell", 3, true),
                 scan_example(f32(), "shift", 4, false), scan_example(f32({2}), "cell", 0, false)};
  op.draw = [](Rng& rng) {
    Type x = f32(random_shape(rng, static_cast<int>(random_int(rng, 0, 2)), 40));
    return scan_example(x, random_bool(rng) ? "cell" : "shift", random_dim(rng, 7), random_bool(rng));
  };
  Example e = scan_example(f32({2}), "cell", 3, false);
  Reject other = while_reject("C3", e, {}), longer = while_reject("C6", e, {}), scalar = longer;
  other.operands[0] = f32({3});
  longer.operands[3] = f32({4, 2});
  scalar.operands[3] = f32();
  op.rejects = {while_reject("C1", e, {{"body", FunctionRef{"missing"}}}),
                while_reject("C2", e, {{"carries", int64_t{4}}}),
                while_reject("C2", e, {{"consts", int64_t{-1}}}),
                other,
                while_reject("C4", e, {{"body", FunctionRef{"swapped"}}}),
                while_reject("C4", e, {{"body", FunctionRef{"fewer"}}}),
                while_reject("C5", e, {{"length", Shape{3, 2}}}),
                longer,
                scalar};
  return op;
}

}  // namespace

std::vector<OpDef> loop_ops() { return {while_op(), scan_op()}; }

}  // namespace nabla::ops
