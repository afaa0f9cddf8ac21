// Copies between the memory of a GPU and the host's, which stream-host-state makes around leaves that live there.
#include "ir/ops/all_ops.h"
#include "ir/ops/common.h"

namespace nabla::ops {
namespace {

constexpr const char* kPlaced = "made by stream-host-state, after every transform";

InferResult infer_same(const InferContext& ctx) {
  if (!ctx.operands[0].is_static())
    return ctx.fail(Code::kBadState, "C1", "{}: state keeps one size in all runs", ctx.operands[0].str());
  return Types{ctx.operands[0]};
}

Type of_a_run() { return f32({Dim::symbol(std::make_shared<const ir::Symbol>(ir::Symbol{.name = "n", .min = 1, .max = 8}))}); }

ir::Example draw_transfer(ir::Rng& rng) { return {{operand(f32(random_shape(rng, static_cast<int>(random_int(rng, 0, 3)), 20)))}, {}}; }

OpDef transfer(const char* name, const char* doc, const char* operand_doc, const char* result_doc) {
  return {
      .name = name,
      .version = 1,
      .category = "lowered",
      .doc = doc,
      .operands = {{"x", operand_doc}},
      .attrs = {},
      .results = {{"y", result_doc}},
      .constraints = {{"C1", "the size of x is known when it is compiled"}},
      .traits = {},
      .stages = ir::stages(ir::Stage::kKernels, ir::Stage::kPlanned),
      .infer = infer_same,
      .reference = ir::no_rule(kPlaced),
      .fold = ir::no_rule(kPlaced),
      .decompose = ir::no_rule(kPlaced),
      .vjp = ir::not_differentiable(kPlaced),
      .jvp = ir::not_differentiable(kPlaced),
      .batch = ir::no_rule(kPlaced),
      .factors = ir::no_rule(kPlaced),
      .access = ir::no_rule("the GPU's copy engines do it, beside kernels"),
      .linearity = ir::not_linear(),
      .lower = Lowering::kTransfer,
      .cost =
          [](const TypedOp& op) {
            return Cost{Dim(0), op.operands[0].bytes() * Dim(2)};
          },
      .dtypes = DTypes::kAll,
      .examples = {{{operand(f32({2, 3}))}, {}}},
      .draw = draw_transfer,
      .rejects = {{"C1", {of_a_run()}, {}}},
  };
}

}  // namespace

std::vector<OpDef> transfer_ops() {
  return {transfer("to_device",
                   "A state leaf that lives in the host's memory, copied to the GPU's. It starts where the node stands, and is "
                   "awaited where its result is read.",
                   "a leaf whose memory is the host's", "the same value in the GPU's memory"),
          transfer("to_host",
                   "The new value of a state leaf that lives in the host's memory, copied there. It starts where the node stands, "
                   "and is awaited before its operand's memory is used anew.",
                   "the new value in the GPU's memory", "the same value in the host's memory")};
}

}  // namespace nabla::ops
