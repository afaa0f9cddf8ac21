// Megatron's layouts of a transformer, given by the user: what ranks along tp exchange in a training step.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/strategy/applied.h"
#include "tests/strategy/transformer.h"

namespace nabla::strategy_tests {
namespace {

using Packed = TransformerSizes::Packed;

constexpr int64_t kF32 = 4;

// Columns of the first weights, rows of the second (Shoeybi et al., "Megatron-LM", 2019).
const char* const kMegatron = R"(.*\.(q|k|v|qkv|up)=,tp;.*\.(out|down)=tp,)";

ir::Module on_mesh(const TransformerSizes& sizes, std::vector<ir::MeshAxis> axes) {
  ir::Module m = transformer(sizes);
  m.meshes = {{"pod", std::move(axes), nullptr}};
  return m;
}

// One all_reduce of activations per half of a block and direction. Nobody asks for the gradient of the input: of the last one a sum of
// the first norm's weights is left.
TEST(Megatron, ExchangesActivationsFourTimesALayerAndNothingElse) {
  for (int layers : {1, 2, 4})
    for (bool momentum : {false, true})
      for (int64_t width : {64, 256})
        for (Packed packed : {Packed::kApart, Packed::kByHeads}) {
          const TransformerSizes sizes{.layers = layers, .batch = 2, .length = 32, .width = width, .momentum = momentum, .packed = packed};
          const Exchanged made = exchanged(on_mesh(sizes, {{"tp", 4}}), {{"layouts", kMegatron}});
          const std::string what =
              fmt::format("{} layers of {}, momentum {}, packed {}", layers, width, momentum, packed != Packed::kApart);
          const int64_t activations = sizes.batch * sizes.length * width * kF32;
          EXPECT_EQ(made.calls, (std::map<std::string, int64_t>{{"all_reduce{tp}", 4 * layers}})) << what;
          EXPECT_EQ(made.payload.at("all_reduce{tp}"), (4 * layers - 1) * activations + width * kF32) << what;
        }
}

// Beside a batch over dp ranks along tp exchange as before, each for its part of the batch.
TEST(Megatron, ExchangesTheSameBesideDataParallelism) {
  for (const char* zero : {"0", "1"})
    for (bool momentum : {false, true}) {
      const TransformerSizes sizes{.layers = 2, .batch = 4, .length = 32, .momentum = momentum};
      const Exchanged made =
          exchanged(on_mesh(sizes, {{"dp", 2}, {"tp", 2}}), {{"layouts", kMegatron}, {"data-axes", "dp"}, {"zero", zero}});
      int64_t along_tp = 0;
      for (const auto& [op, calls] : made.calls) {
        if (op.find("tp") == op.npos) continue;
        EXPECT_TRUE(op.starts_with("all_reduce")) << op << ", zero " << zero << momentum;
        along_tp += calls;
      }
      EXPECT_EQ(along_tp, 4 * sizes.layers) << zero << momentum;
    }
}

// One broadcast number scales the gradients of two weights whose layouts differ. It carries neither layout to the other weight.
TEST(Megatron, ValuesMadeOfScalarsCarryNoLayouts) {
  const ir::Module m = parsed(R"(nabla 1 traced
mesh pod = {tp=2}
state a: f32[8,8@tp]
state b: f32[8@tp,8]
entry step calls @step {
  reads a, b
  writes a, b
  inputs x, y
}
func @step(%a: f32[8,8], %b: f32[8,8], %x: f32[4,8], %y: f32[4,8]) {
  %r = constant() {value=f32[] {0.1}}
  %s = broadcast_in_dim(%r) {dims=[], shape=[8, 8]}
  %h = dot_general(%x, %y) {lhs_contract=[0], rhs_contract=[0]}
  %g = dot_general(%y, %x) {lhs_contract=[0], rhs_contract=[0]}
  %hs = mul(%h, %s)
  %gs = mul(%g, %s)
  %a1 = sub(%a, %hs)
  %b1 = sub(%b, %gs)
  return %a1, %b1
}
)");
  EXPECT_EQ(exchanged(m, {}).calls, (std::map<std::string, int64_t>{}));
}

// The zeros with which moments of equal shapes begin are one value. It carries the layout of one weight neither to the moments of
// another weight nor, through these, to that weight and its activations.
TEST(Megatron, EqualInitialValuesCarryNoLayouts) {
  const ir::Module m = parsed(R"(nabla 1 traced
mesh pod = {tp=2}
state a: f32[8,8@tp]
state b: f32[8@tp,8]
state c: f32[8,8]
state m.a: f32[8,8]
state m.b: f32[8,8]
state m.c: f32[8,8]
entry init calls @init {
  writes a, b, c, m.c, m.a, m.b
}
entry step calls @step {
  reads a, b, c, m.a, m.b, m.c
  writes a, b, c, m.a, m.b, m.c
  inputs u, v, w
}
func @init() {
  %0 = constant() {value=f32[] {0}}
  %z = broadcast_in_dim(%0) {dims=[], shape=[8, 8]}
  return %z, %z, %z, %z, %z, %z
}
func @step(%a: f32[8,8], %b: f32[8,8], %c: f32[8,8], %ma: f32[8,8], %mb: f32[8,8], %mc: f32[8,8],
           %u: f32[8,8], %v: f32[8,8], %w: f32[8,8]) {
  %ma1 = add(%ma, %u)
  %mb1 = add(%mb, %v)
  %mc1 = add(%mc, %w)
  %a1 = add(%a, %ma1)
  %b1 = add(%b, %mb1)
  %c1 = add(%c, %mc1)
  return %a1, %b1, %c1, %ma1, %mb1, %mc1
}
)");
  const Exchanged made = exchanged(m, {});
  const int64_t leaf = 8 * 8 * kF32;
  EXPECT_EQ(made.calls, (std::map<std::string, int64_t>{}));
  EXPECT_EQ(made.state, 2 * (leaf / 2 + leaf / 2 + leaf)) << "two halves and one whole weight, and their moments";
}

}  // namespace
}  // namespace nabla::strategy_tests
