// Bytes that ranks exchange and keep (reference: the formulas of data parallelism and ZeRO).
#include <gtest/gtest.h>

#include "ir/text.h"
#include "tests/strategy/applied.h"
#include "tests/strategy/chain.h"
#include "tests/strategy/transformer.h"

namespace nabla::strategy_tests {
namespace {

using Payload = std::map<std::string, int64_t>;

TEST(StrategyBytes, AreThoseOfTheFormulas) {
  const int64_t p = kElements * kF32, loss = kF32, layer = kWidth * kWidth * kF32, n = 4;
  ir::Module m = chain("dp=4");
  Exchanged plain = exchanged(m, {{"data-axes", "dp"}});
  EXPECT_EQ(plain.payload, (Payload{{"all_reduce{dp}", p + loss}}));
  EXPECT_EQ(plain.state, 2 * p);
  for (const char* level : {"1", "2"}) {
    Exchanged zero = exchanged(m, {{"data-axes", "dp"}, {"zero", level}});
    EXPECT_EQ(zero.payload, (Payload{{"all_gather{dp}", p}, {"reduce_scatter{dp}", p}, {"all_reduce{dp}", loss}}));
    EXPECT_EQ(zero.state, p + p / n);
  }
  // Every parameter is gathered on the way forward and again on the way back, but the last, which is there still, and the
  // first, on which no gradient waits.
  Exchanged three = exchanged(m, {{"data-axes", "dp"}, {"zero", "3"}});
  EXPECT_EQ(three.payload, (Payload{{"all_gather{dp}", 2 * p - 2 * layer}, {"reduce_scatter{dp}", p}, {"all_reduce{dp}", loss}}));
  EXPECT_EQ(three.state, 2 * p / n);
}

TEST(StrategyBytes, HybridReducesShardsOverCopies) {
  const int64_t p = kElements * kF32, loss = kF32, layer = kWidth * kWidth * kF32, n = 2;
  Exchanged hybrid = exchanged(chain("rep=2, dp=2"), {{"data-axes", "rep,dp"}, {"zero", "3"}, {"zero-axes", "dp"}});
  EXPECT_EQ(hybrid.payload, (Payload{{"all_gather{dp}", 2 * p - 2 * layer},
                                     {"reduce_scatter{dp}", p},
                                     {"all_reduce{rep}", p / n},
                                     {"all_reduce{rep, dp}", loss}}));
  EXPECT_EQ(hybrid.state, 2 * p / n);
}

// Propagation shards the rows of a weight over tp if the weight before it has sharded columns. ZeRO would have sharded the rows over dp,
// and shards the columns instead: these leaves are in four parts. Weights behind such a pair are sharded over dp alone, in two parts.
TEST(StrategyBytes, ShardsGiveWayToTensorParallelWeightsAndStay) {
  const int64_t p = kElements * kF32, ranks = 4;
  auto state = [](const char* layouts) {
    return exchanged(chain("dp=2, tp=2"), {{"data-axes", "dp"}, {"zero", "3"}, {"layouts", layouts}}).state;
  };
  EXPECT_EQ(state("w0=,tp;w2=,tp"), 2 * p / ranks);
  EXPECT_EQ(state("w0=,tp"), p / ranks + p / 2);
}

ir::Module blocks(int layers, const char* axis) {
  ir::Module m = transformer({.layers = layers, .batch = 64, .length = 64, .width = 64});
  m.meshes = {{"pod", {{axis, 4}}, nullptr}};
  return m;
}
// In units of a buffer: an all_reduce sends it twice.
int64_t sent(const Exchanged& e) {
  int64_t out = 0;
  for (const auto& [op, bytes] : e.payload) out += op.starts_with("all_reduce") ? 2 * bytes : bytes;
  return out;
}

// Layouts alone: some leaves are sharded over the axis of the batch, in either dimension. Activations stay with the batch. A sharded
// leaf is gathered twice and its gradient scattered once, in place of an all_reduce.
TEST(StrategyBytes, ShardedLeavesDoNotPullActivationsOffTheBatch) {
  const ir::Module m = blocks(2, "dp");
  const std::string batch = "input step.x=dp,,";
  const int64_t whole = sent(exchanged(m, {{"layouts", batch}}));
  int64_t all = 0;
  for (const ir::StateLeaf& leaf : m.state) all += leaf.type.bytes().value();
  EXPECT_EQ(whole, 2 * (all + kF32));
  for (const char* rule : {".*norm1=dp", ".*norm2=dp", ".*q=dp,", ".*q=,dp", ".*out=dp,", ".*out=,dp", ".*up=dp,", ".*up=,dp",
                           ".*down=dp,", ".*down=,dp", "block0.*[12]=dp;block0.*=,dp", ".*[12]=dp;.*=dp,", ".*[12]=dp;.*=,dp"}) {
    const Exchanged made = exchanged(m, {{"layouts", batch + ";" + rule}});
    EXPECT_LE(sent(made), whole + all) << rule;
    EXPECT_FALSE(made.payload.contains("all_to_all{dp}")) << rule;
  }
}

// The chain with the names that Python gives to {"p": parameters, "opt": optimizer's state}.
ir::Module tree_of(const std::string& mesh) {
  ir::Module m = chain(mesh);
  for (ir::StateLeaf& leaf : m.state) leaf.name = (leaf.name[0] == 'w' ? "p." : "opt.") + leaf.name;
  return m;
}

// Slots lie as the parameters that a rule lays out, whatever propagation would do: no update exchanges anything.
TEST(StrategyBytes, SlotsLieAsTheParametersOfRulesDo) {
  const int64_t p = kElements * kF32, loss = kF32, layer = kWidth * kWidth * kF32, ranks = 4;
  Exchanged made = exchanged(tree_of("dp=4"), {{"data-axes", "dp"}, {"layouts", "p.w.*=dp,"}});
  EXPECT_EQ(made.payload, (Payload{{"all_gather{dp}", 2 * p - 2 * layer}, {"reduce_scatter{dp}", p}, {"all_reduce{dp}", loss}}));
  EXPECT_EQ(made.state, 2 * p / ranks);
}

// Two layers with momentum, and the names that Python gives them.
ir::Module two_layers(const std::string& mesh, int64_t width, int64_t outputs) {
  const std::string w0 = fmt::format("f32[16,{}]", width), w1 = fmt::format("f32[{},{}]", width, outputs);
  return parsed(fmt::format(R"(nabla 1 traced
mesh pod = {{{0}}}
state p.w0: {1}
state p.w1: {2}
state opt.w0: {1}
state opt.w1: {2}
entry step calls @step {{
  reads p.w0, p.w1, opt.w0, opt.w1
  writes p.w0, p.w1, opt.w0, opt.w1
  inputs x
}}
func @loss(%w0: {1}, %w1: {2}, %x: f32[32,16]) {{
  %p = dot_general(%x, %w0) {{lhs_contract=[1], rhs_contract=[0]}}
  %h = tanh(%p)
  %y = dot_general(%h, %w1) {{lhs_contract=[1], rhs_contract=[0]}}
  %q = mul(%y, %y)
  %l = reduce_sum(%q) {{axes=[0, 1]}}
  return %l
}}
func @step(%w0: {1}, %w1: {2}, %m0: {1}, %m1: {2}, %x: f32[32,16]) {{
  %g0, %g1 = grad(%w0, %w1, %x) {{callee=@loss, wrt=[0, 1]}}
  %n0 = add(%m0, %g0)
  %n1 = add(%m1, %g1)
  %v0 = sub(%w0, %n0)
  %v1 = sub(%w1, %n1)
  return %v0, %v1, %n0, %n1
}}
)", mesh, w0, w1));
}

// Uneven shards of Megatron's two layouts: 7 and 6 of 13.
TEST(StrategyBytes, SlotsArePaddedAsTheirParametersAre) {
  Exchanged made = exchanged(two_layers("tp=2", 13, 8), {{"layouts", "p.w0=,tp allow_padding;p.w1=tp, allow_padding"}});
  EXPECT_EQ(made.payload, (Payload{{"all_reduce{tp}", 32 * 8 * kF32}}));
  EXPECT_EQ(made.state, 2 * (16 * 7 + 7 * 8) * kF32);
}

// The bias beside them stays whole, since no rule says that it may be padded. Its gradient comes in parts, 7 and 6: it is gathered, and
// not what is made of it, the parameter and both slots.
TEST(StrategyBytes, AWholeBiasBesideAnUnevenWeightGathersItsGradient) {
  ir::Module m = parsed(R"(nabla 1 traced
mesh pod = {tp=2}
state p.w: f32[16,13]
state p.b: f32[13]
state m.w: f32[16,13]
state m.b: f32[13]
state v.w: f32[16,13]
state v.b: f32[13]
entry step calls @step {
  reads p.w, p.b, m.w, m.b, v.w, v.b
  writes p.w, p.b, m.w, m.b, v.w, v.b
  inputs x
}
func @loss(%w: f32[16,13], %b: f32[13], %x: f32[32,16]) {
  %y = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  %c = broadcast_in_dim(%b) {dims=[1], shape=[32, 13]}
  %z = add(%y, %c)
  %h = tanh(%z)
  %l = reduce_sum(%h) {axes=[0, 1]}
  return %l
}
func @step(%w: f32[16,13], %b: f32[13], %mw: f32[16,13], %mb: f32[13], %vw: f32[16,13], %vb: f32[13], %x: f32[32,16]) {
  %gw, %gb = grad(%w, %b, %x) {callee=@loss, wrt=[0, 1]}
  %t = constant() {value=i32[] {1}}
  %r = constant() {value=f32[] {0.1}}
  %w1, %mw1, %vw1 = adamw_update(%w, %gw, %mw, %vw, %t, %r)
  %b1, %mb1, %vb1 = adamw_update(%b, %gb, %mb, %vb, %t, %r)
  return %w1, %b1, %mw1, %mb1, %vw1, %vb1
}
)");
  Exchanged made = exchanged(m, {{"layouts", "p.w=,tp allow_padding"}});
  EXPECT_EQ(made.payload, (Payload{{"all_gather{tp}", 14 * kF32}}));
  EXPECT_EQ(made.state, 3 * (16 * 7 + 13) * kF32);
}

// Where no other dimension divides, the optimizer's state is cut further along that of tp: the update computes with its parts.
TEST(StrategyBytes, StateThatSharesTheDimensionOfTensorParallelismStays) {
  const int64_t w = 64 * 33 * kF32, part = w / 2;
  ir::Module m = parsed(R"(nabla 1 traced
mesh pod = {dp=2, tp=2}
state w: f32[64@tp,33]
state m.w: f32[64,33]
entry step calls @step {
  reads w, m.w
  writes w, m.w
  inputs x
  outputs loss
}
func @loss(%w: f32[64,33], %x: f32[512,64]) {
  %y = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  %q = mul(%y, %y)
  %l = reduce_sum(%q) {axes=[0, 1]}
  return %l
}
func @step(%w: f32[64,33], %m: f32[64,33], %x: f32[512,64]) {
  %loss, %g = value_and_grad(%w, %x) {callee=@loss, wrt=[0]}
  %rate = constant() {value=f32[] {0.1}}
  %v, %n = sgd_momentum_update(%w, %g, %m, %rate)
  return %v, %n, %loss
}
)");
  Exchanged made = exchanged(m, {{"data-axes", "dp"}, {"zero", "1"}});
  EXPECT_EQ(made.payload, (Payload{{"all_reduce{tp}", 256 * 33 * kF32},
                                   {"reduce_scatter{dp}", part},
                                   {"all_gather{dp}", part},
                                   {"all_reduce{dp}", kF32}}));
  EXPECT_EQ(made.state, w / 2 + w / 4);
}

// Nine columns have no two halves, whatever padding the rule allows: ZeRO takes the rows beside tp, of parameter and slot alike.
TEST(StrategyBytes, ZeroCutsEvenlyWhereRulesMayPad) {
  Exchanged made = exchanged(two_layers("dp=2, tp=2", 12, 9),
                             {{"data-axes", "dp"}, {"zero", "3"}, {"layouts", "p.w1=tp, allow_padding"}});
  const int64_t w0 = int64_t{16} * 6 * kF32, w1 = int64_t{6} * 9 * kF32;  // of the ranks along dp
  EXPECT_EQ(made.state, 2 * (w0 + w1) / 2);
  EXPECT_EQ(made.payload, (Payload{{"all_gather{dp}", w0 + w1}, {"reduce_scatter{dp}", w0 + w1}, {"all_reduce{tp}", 16 * 9 * kF32}}));
}

// Gradients of microbatches are exchanged once after the last, or for each; parameters with them.
TEST(StrategyBytes, MicrobatchesExchangeLastOrEach) {
  const int64_t p = kElements * kF32, loss = kF32, layer = kWidth * kWidth * kF32, m = 4;
  ir::Module module = chain("dp=2, mb=4 temporal");
  auto payload = [&](const char* level, const char* sync) {
    return exchanged(module, {{"data-axes", "dp,mb"}, {"zero", level}}, sync).payload;
  };
  const Payload once = {{"all_gather{dp}", p}, {"reduce_scatter{dp}", p}, {"all_reduce{dp}", loss}};
  EXPECT_EQ(payload("0", ""), (Payload{{"all_reduce{dp}", p + loss}}));
  EXPECT_EQ(payload("0", "each"), (Payload{{"all_reduce{dp}", m * p + loss}}));
  EXPECT_EQ(payload("1", ""), once);
  EXPECT_EQ(payload("2", ""), (Payload{{"all_gather{dp}", p}, {"reduce_scatter{dp}", m * p}, {"all_reduce{dp}", loss}}));
  EXPECT_EQ(payload("2", "last"), once);
  EXPECT_EQ(payload("3", "last"), once);
  EXPECT_EQ(payload("3", ""),
            (Payload{{"all_gather{dp}", m * (2 * p - 2 * layer)}, {"reduce_scatter{dp}", m * p}, {"all_reduce{dp}", loss}}));
}

// Gradients of which no rank keeps a share are exchanged once: all of an optimizer without state, and those that ranks do not divide.
TEST(StrategyBytes, MicrobatchesExchangeOnceWhatStaysWhole) {
  auto module = [](bool momentum) {
    const std::string slots = momentum ? ", m.w, m.b" : "", params = momentum ? ", %m: f32[64,64], %mb: f32[3]" : "";
    const std::string update = momentum ? "%n = add(%m, %g)\n  %nb = add(%mb, %gb)\n  %v = sub(%w, %n)\n  %vb = sub(%b, %nb)"
                                        : "%v = sub(%w, %g)\n  %vb = sub(%b, %gb)";
    return parsed(fmt::format(R"(nabla 1 traced
mesh pod = {{dp=2, mb=4 temporal}}
state w: f32[64,64]
state b: f32[3]
{0}entry step calls @step {{
  reads w, b{1}
  writes w, b{1}
  inputs x
  outputs loss
}}
func @loss(%w: f32[64,64], %b: f32[3], %x: f32[512,64]) {{
  %h = dot_general(%x, %w) {{lhs_contract=[1], rhs_contract=[0]}}
  %t = tanh(%h)
  %s = slice(%t) {{starts=[0, 0], limits=[-1, 3], strides=[1, 1]}}
  %all = broadcast_in_dim(%b) {{dims=[1], shape=[512, 3]}}
  %y = mul(%s, %all)
  %l = reduce_sum(%y) {{axes=[0, 1]}}
  return %l
}}
func @step(%w: f32[64,64], %b: f32[3]{2}, %x: f32[512,64]) {{
  %l, %g, %gb = value_and_grad(%w, %b, %x) {{callee=@loss, wrt=[0, 1]}}
  {3}
  return %v, %vb{4}, %l
}}
)", momentum ? "state m.w: f32[64,64]\nstate m.b: f32[3]\n" : "", slots, params, update, momentum ? ", %n, %nb" : ""));
  };
  const int64_t p = int64_t{64} * 64 * kF32, bias = 3 * kF32, loss = kF32, m = 4;
  auto payload = [&](bool momentum, const char* level, const char* sync) {
    return exchanged(module(momentum), {{"data-axes", "dp,mb"}, {"zero", level}}, sync).payload;
  };
  const Payload once = {{"all_reduce{dp}", p + bias + loss}};
  for (const char* level : {"0", "1", "2"}) EXPECT_EQ(payload(false, level, ""), once) << level;
  EXPECT_EQ(payload(false, "2", "each"), (Payload{{"all_reduce{dp}", m * (p + bias) + loss}}));
  const Payload shares = {{"all_gather{dp}", p}, {"reduce_scatter{dp}", m * p}, {"all_reduce{dp}", bias + loss}};
  EXPECT_EQ(payload(true, "2", ""), shares);
}

// An optimizer of one's own reads a gradient more than once: linear ops of it and others. It is exchanged once all the same, and
// `each` acts as for any other.
TEST(StrategyBytes, GradientsThatAreReadTwiceAreExchangedOnce) {
  const int64_t p = kElements * kF32, loss = kF32, m = 4;
  for (Update update : {Update::kClipped, Update::kSquares}) {
    const int64_t norm = update == Update::kClipped ? kF32 : 0;  // shards add their squares up
    EXPECT_EQ(exchanged(chain("dp=4", update), {{"data-axes", "dp"}}).payload, (Payload{{"all_reduce{dp}", p + loss}}));
    EXPECT_EQ(exchanged(chain("dp=4", update), {{"data-axes", "dp"}, {"zero", "2"}}).payload,
              (Payload{{"all_gather{dp}", p}, {"reduce_scatter{dp}", p}, {"all_reduce{dp}", loss + norm}}));
    EXPECT_EQ(exchanged(chain("dp=2, mb=4 temporal", update), {{"data-axes", "dp,mb"}, {"zero", "2"}}, "each").payload,
              (Payload{{"all_gather{dp}", p}, {"reduce_scatter{dp}", m * p}, {"all_reduce{dp}", loss + norm}}));
  }
}

// A weight that two products read, such as a table of words that also gives the logits, has two gradients, of which one sum is exchanged.
TEST(StrategyBytes, GradientsOfAWeightThatIsReadTwiceAreExchangedOnce) {
  const std::string text = R"(nabla 1 traced
mesh pod = {dp=4}
state w: f32[64,64]
state m.w: f32[64,64]
entry step calls @step {
  reads w, m.w
  writes w, m.w
  inputs x
  outputs loss
}
func @loss(%w: f32[64,64], %x: f32[512,64]) {
  %h = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  %t = tanh(%h)
  %y = dot_general(%t, %w) {lhs_contract=[1], rhs_contract=[1]}
  %q = mul(%y, %y)
  %l = reduce_sum(%q) {axes=[0, 1]}
  return %l
}
func @step(%w: f32[64,64], %m: f32[64,64], %x: f32[512,64]) {
  %l, %g = value_and_grad(%w, %x) {callee=@loss, wrt=[0]}
  %n = add(%m, %g)
  %v = sub(%w, %n)
  return %v, %n, %l
}
)";
  const int64_t p = int64_t{64} * 64 * kF32, loss = kF32;
  ir::Module m = parsed(text);
  EXPECT_EQ(exchanged(m, {{"data-axes", "dp"}}).payload, (Payload{{"all_reduce{dp}", p + loss}}));
  for (const char* level : {"1", "3"})
    EXPECT_EQ(exchanged(m, {{"data-axes", "dp"}, {"zero", level}}).payload,
              (Payload{{"all_gather{dp}", p}, {"reduce_scatter{dp}", p}, {"all_reduce{dp}", loss}}));
}

// Sums of bfloat16 are exchanged in f32, or as they are if the user asks: on shards, of microbatches, and what is read twice.
TEST(StrategyBytes, NarrowSumsAreCombinedInF32) {
  std::string text = ir::print(chain("dp=2, mb=2 temporal", Update::kSquares));
  for (size_t at; (at = text.find("f32[")) != std::string::npos;) text.replace(at, 3, "bf16");
  ir::Module m = parsed(text);
  const int64_t p = kElements * 2, loss = 2;
  auto payload = [&](const char* level, const char* dtype) {
    return exchanged(m, {{"data-axes", "dp,mb"}, {"zero", level}}, {{"reduce-dtype", dtype}, {"grad-sync", "last"}}).payload;
  };
  EXPECT_EQ(payload("0", "bf16"), (Payload{{"all_reduce{dp}", p + loss}}));
  EXPECT_EQ(payload("1", "bf16"), (Payload{{"all_gather{dp}", p}, {"reduce_scatter{dp}", p}, {"all_reduce{dp}", loss}}));
  for (const char* wide : {"", "f32", "f16"}) {
    EXPECT_EQ(payload("0", wide), (Payload{{"all_reduce{dp}", 2 * (p + loss)}}));
    EXPECT_EQ(payload("1", wide), (Payload{{"all_gather{dp}", p}, {"reduce_scatter{dp}", 2 * p}, {"all_reduce{dp}", 2 * loss}}));
  }
}

// Gradients of layers that a loop runs are summed after it, all at once, and microbatches add them up.
TEST(StrategyBytes, LayersOfALoopAreExchangedAfterIt) {
  const int64_t p = kElements * kF32, loss = kF32;
  EXPECT_EQ(exchanged(stacked("dp=4"), {{"data-axes", "dp"}}).payload, (Payload{{"all_reduce{dp}", p + loss}}));
  const Payload shared = {{"all_gather{dp}", p}, {"reduce_scatter{dp}", p}, {"all_reduce{dp}", loss}};
  EXPECT_EQ(exchanged(stacked("dp=4"), {{"data-axes", "dp"}, {"zero", "1"}}).payload, shared);
  EXPECT_EQ(exchanged(stacked("dp=2, mb=4 temporal"), {{"data-axes", "dp,mb"}, {"zero", "1"}}).payload, shared);
}

// Shards of layers that a loop runs are parts of each: a trip gathers its own. Where ranks do not divide a layer they have layers.
TEST(StrategyBytes, LayersOfALoopAreCutInThemselves) {
  const int64_t p = kElements * kF32, loss = kF32;
  ir::Module m = stacked("dp=4");
  EXPECT_EQ(applied(m, {{"data-axes", "dp"}, {"zero", "3"}}).layouts,
            "w <{?}, {dp, ?}p1, {?}>\nm.w <{?}, {dp, ?}p1, {?}>\nstep(x) <dp, {?}>\n");
  EXPECT_EQ(exchanged(m, {{"data-axes", "dp"}, {"zero", "3"}}).payload,
            (Payload{{"all_gather{dp}", 2 * p}, {"reduce_scatter{dp}", p}, {"all_reduce{dp}", loss}}));
  std::string text = ir::print(m);
  for (size_t at; (at = text.find("m.w")) != std::string::npos;) text.replace(at, 3, "slot");
  EXPECT_EQ(applied(parsed(text), {{"data-axes", "dp"}, {"zero", "3"}}).layouts,
            "w <{?}, {dp, ?}p1, {?}>\nslot <{?}, {dp, ?}p1, {?}>\nstep(x) <dp, {?}>\n");
  const int64_t n = 4;
  ir::Module micro = stacked("dp=2, mb=4 temporal");
  const Options zero3 = {{"data-axes", "dp,mb"}, {"zero", "3"}};
  EXPECT_EQ(exchanged(micro, zero3, "each").payload,
            (Payload{{"all_gather{dp}", n * 2 * p}, {"reduce_scatter{dp}", n * p}, {"all_reduce{dp}", loss}}));
  EXPECT_EQ(exchanged(micro, zero3, "last").payload["reduce_scatter{dp}"], p);
}

}  // namespace
}  // namespace nabla::strategy_tests
