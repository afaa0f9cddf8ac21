// debug: what a program shows while it runs. It computes nothing and keeps its place among others of its kind.
#include "runtime/base/debug.h"

#include "ir/ops/all_ops.h"
#include "ir/ops/common.h"

namespace nabla::ops {
namespace {

InferResult infer_debug(const InferContext& ctx) {
  std::vector<DType> dtypes;
  for (const Type& t : ctx.operands) dtypes.push_back(t.dtype);
  if (!ctx.attrs.get_string("callback").empty()) return Types{};
  Status text = check_debug_text(ctx.attrs.get_string("text"), dtypes);
  if (!text.ok()) return ctx.fail(Code::kBadAttribute, "C1", "{}", text.errors()[0].message);
  return Types{};
}

Literals show(const EvalContext& ctx) {
  const Attrs& attrs = ctx.attrs();
  Status shown = debug({attrs.get_string("text"), attrs.get_string("callback"), ctx.operands});
  if (!shown.ok() && ctx.fail) ctx.fail(shown.errors());
  return {};
}

Factors whole(const TypedOp& op) {
  Factors out;
  for (const Type& t : op.operands) {
    Factors::Tensor tensor;
    for (const Dim& d : t.shape) tensor.push_back({out.add("k", d, Factors::Kind::kReplicate)});
    out.operands.push_back(std::move(tensor));
  }
  return out;
}

Example draw_debug(Rng& rng) {
  return {{operand(f32(random_shape(rng, static_cast<int>(random_int(rng, 0, 2)), 20)))}, {{"text", "x {}"}}};
}

}  // namespace

std::vector<OpDef> debug_ops() {
  return {{
      .name = "debug",
      .version = 1,
      .category = "debugging",
      .doc =
          "Hands its operands to the process that runs the program, which prints the text with them or calls the "
          "callback. Events come in the order of the program, once per iteration of a loop and per example of a batch; "
          "a derivative's way back hands out nothing.",
      .operands = {{"operands", "what is shown", true, true}},
      .attrs = {optional("text", "`{}` or `{:SPEC}` per operand, `{{` and `}}` for braces", std::string()),
                optional("callback", "the name of a function that the process knows; empty: print the text",
                         std::string())},
      .results = {},
      .constraints = {{"C1", "without a callback the text has a field for every operand, which formats its dtype"}},
      .traits = {.side_effect = true},
      .stages = ir::kAllStages,
      .infer = infer_debug,
      .reference = show,
      .fold = ir::no_rule("it has no results"),
      .decompose = ir::no_rule("primitive"),
      .vjp = ir::not_differentiable("it has no results"),
      .jvp = ir::not_differentiable("it has no results"),
      .batch = batch_in_loop,
      .factors = whole,
      .access = ir::no_rule("the process that runs the program does it, between kernels"),
      .linearity = ir::not_linear(),
      .lower = Lowering::kHost,
      .cost =
          [](const TypedOp& op) {
            Cost cost{Dim(0), Dim(0)};
            for (const Type& t : op.operands) cost.bytes = cost.bytes + t.bytes();
            return cost;
          },
      .dtypes = DTypes::kAll,
      .examples = {{{operand(f32({2, 3}))}, {{"text", "x {}"}}},
                   {{operand(f32()), operand(f32({4}))}, {{"callback", "watch"}}}},
      .draw = draw_debug,
      .rejects = {{"C1", {f32({2})}, {{"text", "no field"}}}, {"C1", {f32()}, {{"text", "{:d}"}}}},
  }};
}

}  // namespace nabla::ops
