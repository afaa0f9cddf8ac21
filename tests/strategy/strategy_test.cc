// Data parallelism, ZeRO and rules of layouts as options of a compile: what lies how.
#include <gtest/gtest.h>

#include "ir/ops/all_ops.h"
#include "passes/strategy/apply_strategy.h"
#include "passes/strategy/name_pattern.h"
#include "passes/strategy/state_roles.h"
#include "tests/pass_options.h"
#include "tests/strategy/applied.h"

namespace nabla::strategy_tests {
namespace {

using passes::LeafRole;

// Two layers with momentum, a leaf that no number of ranks divides, a running mean, a counter and a key.
constexpr const char* kModel = R"(nabla 1 traced
symbol batch in [1, 64]
mesh pod = {dp=4, tp=2}
state w0: f32[64,32]
state w1: f32[32,16]
state bias: f32[3]
state momentum.w0: f32[64,32]
state momentum.w1: f32[32,16]
state momentum.bias: f32[3]
state mean: f32[32]
state count: i32[]
entry step calls @step {
  reads w0, w1, bias, momentum.w0, momentum.w1, momentum.bias, mean, count
  writes w0, w1, bias, momentum.w0, momentum.w1, momentum.bias, mean, count
  inputs x, key
  outputs loss
}
entry predict calls @predict {
  reads w0
  inputs x
  outputs y
}
func @loss(%w0: f32[64,32], %w1: f32[32,16], %bias: f32[3], %x: f32[16,64]) {
  %p = dot_general(%x, %w0) {lhs_contract=[1], rhs_contract=[0]}
  %h = tanh(%p)
  %o = dot_general(%h, %w1) {lhs_contract=[1], rhs_contract=[0]}
  %q = mul(%o, %o)
  %l = reduce_sum(%q) {axes=[0, 1]}
  %b = reduce_sum(%bias) {axes=[0]}
  %sum = add(%l, %b)
  %mean = reduce_sum(%h) {axes=[0]}
  return %sum, %mean
}
func @step(%w0: f32[64,32], %w1: f32[32,16], %bias: f32[3], %m0: f32[64,32], %m1: f32[32,16], %mb: f32[3],
           %mean: f32[32], %count: i32[], %x: f32[16,64], %key: u32[2]) {
  %l, %mu, %g0, %g1, %gb = value_and_grad(%w0, %w1, %bias, %x) {callee=@loss, wrt=[0, 1, 2]}
  %n0 = add(%m0, %g0)
  %n1 = add(%m1, %g1)
  %nb = add(%mb, %gb)
  %v0 = sub(%w0, %n0)
  %v1 = sub(%w1, %n1)
  %vb = sub(%bias, %nb)
  %avg = add(%mean, %mu)
  %one = constant() {value=i32[] {1}}
  %next = add(%count, %one)
  return %v0, %v1, %vb, %n0, %n1, %nb, %avg, %next, %l
}
func @predict(%w0: f32[64,32], %x: f32[batch,64]) {
  %y = dot_general(%x, %w0) {lhs_contract=[1], rhs_contract=[0]}
  return %y
}
)";

TEST(StateRoles, FollowFromGradients) {
  passes::StateRoles found = passes::roles_of_state(parsed(kModel)).value();
  std::vector<LeafRole> roles = found.leaves;
  EXPECT_EQ(found.trains, (std::vector<bool>{true, false}));
  std::string kinds, owners;
  for (const LeafRole& r : roles)
    kinds += "opm"[static_cast<int>(r.kind)], owners += r.parameter < 0 ? '-' : static_cast<char>('0' + r.parameter);
  EXPECT_EQ(kinds, "pppmmmoo");
  EXPECT_EQ(owners, "---012--");
}

// Of trees that begin differently the ends of names tell: those that have the most parts in common, of a shape.
TEST(StateRoles, SlotsAreThoseOfTheNameWithTheLongestCommonEnd) {
  auto owner = [](std::vector<std::string> names, size_t slot) {
    ir::Module m = parsed(kModel);
    for (size_t i = 0; i < names.size(); ++i) m.state[i].name = names[i];
    for (size_t i : {1, 4}) m.state[i].type = m.state[0].type;  // w1 and its momentum
    return passes::roles_of_state(m).value().leaves[slot].parameter;
  };
  EXPECT_EQ(owner({"p.w0", "p.w1", "p.bias", "opt.m.w0", "opt.m.w1", "opt.m.bias"}, 4), 1);
  EXPECT_EQ(owner({"p.a.w", "p.b.w", "p.bias", "opt.m.a.w", "opt.m.b.w", "opt.m.bias"}, 4), 1);
  EXPECT_EQ(owner({"w", "p.b.w", "p.bias", "opt.m.w", "opt.m.b.w", "opt.m.bias"}, 3), 0);  // its whole name
  EXPECT_EQ(owner({"w", "p.b.w", "p.bias", "opt.m.w", "opt.m.b.w", "opt.m.bias"}, 4), 1);
  EXPECT_EQ(owner({"p.a.w", "p.b.w", "p.bias", "opt.m.w", "opt.m.v", "opt.m.bias"}, 3), -1);  // of either
  EXPECT_EQ(owner({"p.a.w", "p.b.w", "p.bias", "opt.m.w", "opt.m.v", "opt.m.bias"}, 4), -1);  // of none
  EXPECT_EQ(owner({"p.w0", "p.xw0", "p.bias", "opt.m.w", "opt.m.xw0", "opt.m.bias"}, 3), -1);  // parts are whole
  EXPECT_EQ(owner({"p.w0", "p.xw0", "p.bias", "opt.m.w", "opt.m.xw0", "opt.m.bias"}, 4), 1);
}

// Gradients that a loop adds up, and those of a pullback.
TEST(StateRoles, LookIntoFunctionsAndPullbacks) {
  ir::Module m = parsed(R"(nabla 1 traced
state w: f32[4]
state v: f32[4]
state sum.w: f32[4]
entry step calls @step {
  reads w, v, sum.w
  writes w, v, sum.w
  inputs xs
}
func @loss(%w: f32[4], %x: f32[4]) {
  %p = mul(%w, %x)
  %l = reduce_sum(%p) {axes=[0]}
  return %l
}
func @micro(%w: f32[4], %sum: f32[4], %x: f32[4]) {
  %g = grad(%w, %x) {callee=@loss, wrt=[0]}
  %next = add(%sum, %g)
  return %next
}
func @step(%w: f32[4], %v: f32[4], %s: f32[4], %xs: f32[3,4]) {
  %zero = sub(%w, %w)
  %sum = scan(%w, %zero, %xs) {body=@micro, consts=1, carries=1, length=[3]}
  %t = add(%s, %sum)
  %new = sub(%w, %t)
  %x = reduce_sum(%xs) {axes=[0]}
  %l, %r = vjp_forward(%v, %x) {callee=@loss}
  %gv, %gx = vjp_backward(%r, %l) {callee=@loss}
  %nv = sub(%v, %gv)
  return %new, %nv, %t
}
)");
  std::vector<LeafRole> roles = passes::roles_of_state(m).value().leaves;
  EXPECT_EQ(roles[0].kind, LeafRole::Kind::kParameter);
  EXPECT_EQ(roles[1].kind, LeafRole::Kind::kParameter);
  EXPECT_EQ(roles[2].kind, LeafRole::Kind::kOptimizer);
  EXPECT_EQ(roles[2].parameter, 0);
}

TEST(Strategy, WithoutDataAxesNothingIsLaidOut) { EXPECT_EQ(applied(parsed(kModel), {}).layouts, ""); }

TEST(Strategy, DataParallelKeepsTheStateWhole) {
  Applied made = applied(parsed(kModel), {{"data-axes", "dp"}});
  EXPECT_EQ(made.layouts,
            "w0 <{?}, {?}> replicated {dp}\nw1 <{?}, {?}> replicated {dp}\nbias <{?}> replicated {dp}\n"
            "momentum.w0 <{?}, {?}> replicated {dp}\nmomentum.w1 <{?}, {?}> replicated {dp}\n"
            "momentum.bias <{?}> replicated {dp}\nstep(x) <dp, {?}>\n");
  ASSERT_EQ(made.remarks.size(), 1u);
  EXPECT_EQ(made.remarks[0].text,
            "input x of entry predict, f32[batch,64], is not cut along {dp}: 4 parts do not divide batch, whose symbol has no such "
            "multiple");
}

TEST(Strategy, OneRankCutsNoSizeThatSeveralCouldNot) {
  std::string text = kModel;
  text.replace(text.find("dp=4"), 4, "dp=1");
  Applied made = applied(parsed(text), {{"data-axes", "dp"}});
  EXPECT_NE(made.layouts.find("step(x) <dp, {?}>"), std::string::npos) << made.layouts;
  EXPECT_EQ(made.layouts.find("predict"), std::string::npos) << made.layouts;
}

TEST(Strategy, ZeroSharesTheOptimizersState) {
  for (const char* level : {"1", "2"}) {
    Applied made = applied(parsed(kModel), {{"data-axes", "dp"}, {"zero", level}});
    EXPECT_EQ(made.layouts,
              "w0 <{?}, {?}> replicated {dp}\nw1 <{?}, {?}> replicated {dp}\nbias <{?}> replicated {dp}\n"
              "momentum.w0 <{dp, ?}p1, {?}>\nmomentum.w1 <{dp, ?}p1, {?}>\n"
              "momentum.bias <{?}> replicated {dp}\nstep(x) <dp, {?}>\n");
    ASSERT_EQ(made.remarks.size(), 3u);
    EXPECT_EQ(made.remarks[1].text, std::string("--zero ") + level + ": along {dp}, 4 ranks, lie 2 leaves of the optimizer's state");
    EXPECT_EQ(made.remarks[2].text,
              std::string("--zero ") + level + ": momentum.bias: f32[3] stays whole, as 4 ranks divide none of its dimensions");
  }
}

// Tensor parallelism that the program states: ZeRO takes the first dimension that is free, else shares it.
TEST(Strategy, ZeroGoesBesideOtherAxes) {
  std::string text = kModel;
  text.replace(text.find("state w0: f32[64,32]"), 20, "state w0: f32[64@tp,32@{}]");
  text.replace(text.find("state w1: f32[32,16]"), 20, "state w1: f32[32@tp,16] replicated {dp}");
  Applied made = applied(parsed(text), {{"data-axes", "dp"}, {"zero", "3"}});
  EXPECT_EQ(made.layouts.substr(0, made.layouts.find("bias")),
            "w0 <tp, {dp}p1>\nw1 <tp, {?}> replicated {dp}\n");
  EXPECT_NE(made.layouts.find("momentum.w0 <tp, {dp}p1>\n"), std::string::npos) << made.layouts;
  text = kModel;
  text.replace(text.find("state bias: f32[3]"), 18, "state bias: f32[3@tp]");
  for (size_t at; (at = text.find("f32[3]")) != std::string::npos;) text.replace(at, 6, "f32[8]");
  text.replace(text.find("f32[3@tp]"), 9, "f32[8@tp]");
  made = applied(parsed(text), {{"data-axes", "dp"}, {"zero", "3"}});
  EXPECT_NE(made.layouts.find("\nbias <{tp, dp}p1>\n"), std::string::npos) << made.layouts;
}

// Padding is for the axes of the rule: ZeRO divides evenly, a free dimension first, of slots as of their parameters.
TEST(Strategy, ZeroDividesEvenlyWhereRulesMayPad) {
  auto laid_out = [](int64_t columns, int tp) {
    std::string text = kModel;
    text.replace(text.find("tp=2"), 4, fmt::format("tp={}", tp));
    for (size_t at = 0; (at = text.find("f32[32,16]", at)) != std::string::npos; ++at)
      text.replace(at, 10, fmt::format("f32[32,{}]", columns));
    return applied(parsed(text), {{"data-axes", "dp"}, {"zero", "3"}, {"layouts", "w1=tp, allow_padding"}});
  };
  for (const std::string leaf : {"\nw1 ", "\nmomentum.w1 "}) {
    const auto lies = [&](int64_t columns, int tp, const std::string& layout) {
      const std::string found = laid_out(columns, tp).layouts;
      EXPECT_NE(found.find(leaf + layout + "\n"), std::string::npos) << leaf << columns << ", tp=" << tp << ": " << found;
    };
    lies(16, 5, "<tp, {dp}p1> allow_padding");
    lies(9, 2, "<{tp, dp}p1, {}> allow_padding");
    lies(9, 5, "<tp, {}> replicated {dp} allow_padding");
  }
  const std::vector<std::string> remarks = ir::texts_of(laid_out(9, 5).remarks);
  const std::string expected = "--zero 3: w1: f32[32,9] stays cut as <tp, {}> alone, as 4 ranks divide none of the dimensions of a part";
  EXPECT_EQ(std::count(remarks.begin(), remarks.end(), expected), 1) << remarks.back();
}

// What is not shared is said as it is: of what another axis cuts already, and where one rank has all.
TEST(Strategy, ZeroSaysWhatItDoesNotShare) {
  std::string text = kModel;
  for (size_t at; (at = text.find("f32[3]")) != std::string::npos;) text.replace(at, 6, "f32[6]");
  auto said = [](const std::string& text, const Options& options, const std::string& remark) {
    const std::vector<std::string> all = ir::texts_of(applied(parsed(text), options).remarks);
    return std::find(all.begin(), all.end(), remark) != all.end();
  };
  const Options zero3 = {{"data-axes", "dp"}, {"zero", "3"}, {"layouts", "bias=tp"}};
  EXPECT_TRUE(said(text, zero3, "--zero 3: bias: f32[6] stays cut as <tp> alone, as 4 ranks divide none of the dimensions of a part"));
  std::string stateless = kModel;
  for (const std::string k : {"0", "1", "b"}) {
    stateless.replace(stateless.find("add(%m" + k + ", %g"), 11, "add(%m" + k + ", %m");
    stateless.replace(stateless.find(", %n" + k + ")"), 4, ", %g");
  }
  for (const char* level : {"1", "2"})
    EXPECT_TRUE(said(stateless, {{"data-axes", "dp"}, {"zero", level}},
                     fmt::format("--zero {}: the optimizer has no state that ranks could share: they keep gradients whole, and exchange "
                                 "them as with zero=0", level)));
  text.replace(text.find("dp=4"), 4, "dp=1");
  EXPECT_TRUE(said(text, zero3, "--zero 3: one rank lies along {dp}, which has all of the state"));
}

TEST(NamePattern, MatchesWholeNames) {
  auto matches = [](const std::string& pattern, const std::string& name) {
    std::string why;
    std::optional<passes::NamePattern> parsed = passes::NamePattern::parse(pattern, why);
    EXPECT_TRUE(parsed) << pattern << ": " << why;
    return parsed && parsed->matches(name);
  };
  EXPECT_TRUE(matches("attn.*\\.w", "attn.0.w"));
  EXPECT_FALSE(matches("attn.*\\.w", "attn.0.wx"));
  EXPECT_FALSE(matches("attn.*\\.w", "my.attn.0.w"));
  EXPECT_TRUE(matches("(a|ab)(c|bcd)", "abcd"));
  EXPECT_TRUE(matches("fc\\d{1,2}\\.[\\w.]+", "fc12.w_0.x"));
  EXPECT_TRUE(matches("(?:a|b)[^\\d]", "bc"));
  EXPECT_TRUE(matches("a\\<b\\'\\/", "a<b'/"));
  EXPECT_FALSE(matches("(?:a|b)[^\\d]", "b7"));
  // Expressions that take a search with backtracking longer than anybody waits.
  EXPECT_FALSE(matches("(a+)+b", std::string(1000, 'a')));
  EXPECT_FALSE(matches("(.*)*(.*)*(.*)*x", std::string(1000, 'a')));
}

TEST(NamePattern, SaysWhatItDoesNotKnow) {
  auto refusal = [](const std::string& pattern) {
    std::string why;
    return passes::NamePattern::parse(pattern, why) ? "parsed" : why;
  };
  EXPECT_EQ(refusal("(a)\\1"), "`\\1` is not known here; \\d, \\w, \\s, \\b and signs are");
  EXPECT_EQ(refusal("(?=a)"), "`(?` begins what is not known here");
  EXPECT_EQ(refusal("a\\"), "`\\` at the end stands before nothing");
  EXPECT_EQ(refusal("[a"), "`[` has no `]`");
  EXPECT_EQ(refusal("[a\\]]"), "`\\]` in brackets is not known here: `]` stands first in them, `-` last, `^` anywhere but first");
  EXPECT_EQ(refusal("a{x}"), "`{x}` is no count of repetitions; a brace of a name is `\\{`");
  EXPECT_EQ(refusal("((a{10}){10}){11}"), "its counts repeat something more than 1000 times");
  EXPECT_EQ(refusal(std::string(501, 'a')), "it has 501 characters, more than 500");
  EXPECT_EQ(refusal("a)|(b"), "Unmatched ( or \\(");
}

// Sequence parallelism that the program states, and data parallelism of the options.
TEST(Strategy, InputsThatLeaveTheirFirstDimensionOpenAreCut) {
  auto laid_out = [](bool open) {
    ir::Module m = parsed(kModel);
    ir::Function f = *m.find(m.entries[0].function);
    f.values[f.params[m.entries[0].reads.size()]].sharding =
        std::make_shared<const ir::Sharding>(ir::Sharding{{{{}, open}, {{{"tp"}}}}, {}});
    m.set(std::make_shared<const ir::Function>(std::move(f)));
    return m;
  };
  EXPECT_NE(applied(laid_out(true), {{"data-axes", "dp"}}).layouts.find("step(x) <dp, tp>\n"), std::string::npos);
  // Where it is said to be whole it stays so.
  Applied closed = applied(laid_out(false), {{"data-axes", "dp"}});
  EXPECT_NE(closed.layouts.find("step(x) <{}, tp>\n"), std::string::npos) << closed.layouts;
  ASSERT_FALSE(closed.remarks.empty());
  EXPECT_TRUE(closed.remarks[0].text.ends_with(" is not cut along {dp}: it lies as <{}, tp>, which leaves its first dimension not open"))
      << closed.remarks[0].text;
}

// An open first dimension that begins with data axes goes on with the others.
TEST(Strategy, InputsThatBeginWithDataAxesAreCutFurther) {
  auto first = [](ir::DimSharding dim, const std::string& data) {
    ir::Module m = parsed(kModel);
    m.meshes[0].axes.push_back({"mb", 2, true});
    ir::Function f = *m.find(m.entries[0].function);
    f.values[f.params[m.entries[0].reads.size()]].sharding = std::make_shared<const ir::Sharding>(ir::Sharding{{std::move(dim), {}}, {}});
    m.set(std::make_shared<const ir::Function>(std::move(f)));
    const std::string layouts = applied(m, {{"data-axes", data}}).layouts, before = "step(x) <";
    const size_t at = layouts.find(before) + before.size();
    return layouts.substr(at, layouts.find(", {}>", at) - at);
  };
  EXPECT_EQ(first({{{"dp"}}, true}, "dp;mb"), "{dp, mb}");
  EXPECT_EQ(first({{{"dp"}}, true}, "dp;tp"), "{dp, tp}");
  EXPECT_EQ(first({{{"dp"}}, false}, "dp;tp"), "dp");
  EXPECT_EQ(first({{{"dp"}}, true}, "dp"), "{dp, ?}");
  EXPECT_EQ(first({{{"tp"}}, true}, "dp;tp"), "{tp, ?}");
}

TEST(Strategy, ScalarsHaveNoWordsInRules) {
  EXPECT_EQ(applied(parsed(kModel), {{"layouts", "count="}}).layouts, "count <>\n");
  EXPECT_EQ(applied(parsed(kModel), {{"layouts", "count|mean="}}).layouts, "mean <{}>\ncount <>\n");
}

TEST(Strategy, RulesLayOutLeavesByTheirNames) {
  Applied made = applied(parsed(kModel), {{"layouts", "w0=,tp;w[01]=tp,?"}});
  EXPECT_EQ(made.layouts, "w0 <{}, tp>\nw1 <tp, {?}>\nmomentum.w0 <{}, tp>\nmomentum.w1 <tp, {?}>\n");
  made = applied(parsed(kModel), {{"layouts", "w0=,tp allow_padding"}});
  EXPECT_EQ(made.layouts, "w0 <{}, tp> allow_padding\nmomentum.w0 <{}, tp> allow_padding\n");
  made = applied(parsed(kModel), {{"layouts", "w0=,tp;w1=tp,"}, {"data-axes", "dp"}, {"zero", "1"}});
  EXPECT_NE(made.layouts.find("w0 <{}, tp> replicated {dp}\nw1 <tp, {}> replicated {dp}\n"), std::string::npos) << made.layouts;
  EXPECT_NE(made.layouts.find("momentum.w0 <{dp}p1, tp>\nmomentum.w1 <tp, {dp}p1>\n"), std::string::npos) << made.layouts;
  // What waits for the batch can come after other axes, never before them.
  made = applied(parsed(kModel), {{"layouts", "w0=dp+tp,;w1=tp+dp,"}, {"data-axes", "dp"}});
  EXPECT_EQ(made.layouts.find("w0 <{dp, tp}, {}>\nw1 <{tp, dp}p1, {}>\n"), 0u) << made.layouts;
}

// What an optimizer remembers lies as its parameter does, where nothing else is said of it: by the program, or by a rule.
TEST(Strategy, SlotsLieAsTheirParametersDo) {
  std::string text = kModel;
  auto replace = [&](const std::string& from, const std::string& to) { text.replace(text.find(from), from.size(), to); };
  replace("state w0: f32[64,32]", "state w0: f32[64@tp,32@{}]");
  EXPECT_EQ(applied(parsed(text), {}).layouts, "w0 <tp, {}>\nmomentum.w0 <tp, {}>\n");
  EXPECT_EQ(applied(parsed(text), {{"layouts", "momentum.w0=,tp"}}).layouts, "w0 <tp, {}>\nmomentum.w0 <{}, tp>\n");
  replace("state momentum.w0: f32[64,32]", "state momentum.w0: f32[64@{},32@{}]");
  EXPECT_EQ(applied(parsed(text), {}).layouts, "w0 <tp, {}>\nmomentum.w0 <{}, {}>\n");
  // Sums of a gradient's rows have another shape: propagation lays them out.
  text = kModel;
  replace("state momentum.w0: f32[64,32]", "state momentum.w0: f32[64]");
  replace("%m0: f32[64,32]", "%m0: f32[64]");
  replace("  %n0 = add(%m0, %g0)\n", "  %r0 = reduce_sum(%g0) {axes=[1]}\n  %n0 = add(%m0, %r0)\n");
  replace("  %v0 = sub(%w0, %n0)\n", "  %s0 = broadcast_in_dim(%n0) {dims=[0], shape=[64, 32]}\n  %v0 = sub(%w0, %s0)\n");
  EXPECT_EQ(applied(parsed(text), {{"layouts", "w0=tp,"}}).layouts, "w0 <tp, {}>\n");
}

// Shards along one axis, copies along the other.
TEST(Strategy, HybridShardsKeepCopies) {
  std::string text = kModel;
  text.replace(text.find("tp=2"), 4, "rep=2");
  Applied made = applied(parsed(text), {{"data-axes", "rep,dp"}, {"zero", "3"}, {"zero-axes", "dp"}});
  EXPECT_EQ(made.layouts.substr(0, made.layouts.find('\n')), "w0 <{dp, ?}p1, {?}>");
  EXPECT_NE(made.layouts.find("step(x) <{rep, dp}, {?}>"), std::string::npos) << made.layouts;
}

TEST(Strategy, ALayoutThatDoesNotDivideNamesTheRuleThatPads) {
  std::string text = kModel;
  text.replace(text.find("tp=2"), 4, "tp=5");
  ir::Target target;
  passes::PassContext context{ops::all_ops(), target, options_of("apply-strategy", {{"layouts", "w0=,tp"}})};
  Result<ir::Module> made = passes::apply_strategy(parsed(text), context);
  ASSERT_FALSE(made.ok());
  EXPECT_TRUE(made.errors()[0].help.starts_with("say `w0=,tp allow_padding`: shards have ")) << made.errors()[0].help;
}

TEST(Strategy, OptionsThatContradictEachOtherAreRefused) {
  auto refusal = [](const std::string& text, const Options& options) {
    ir::Target target;
    passes::PassContext context{ops::all_ops(), target, options_of("apply-strategy", options)};
    Result<ir::Module> made = passes::apply_strategy(parsed(text), context);
    return made.ok() ? "ok" : made.errors()[0].message;
  };
  std::string stateless = "nabla 1 traced\nmesh pod = {dp=4, mb=2 temporal}\nfunc @f(%x: f32[8]) {\n  return %x\n}\n";
  EXPECT_EQ(refusal(kModel, {{"layouts", "w0"}}), "layout `w0`: it has no `=`, and no word for a dimension after it");
  EXPECT_EQ(refusal(kModel, {{"layouts", "w0=" + std::string(32, ',')}}).substr(0, 12), "layout `w0=,");
  EXPECT_TRUE(refusal(kModel, {{"layouts", "w0=" + std::string(1000, ',')}})
                  .ends_with(",...`: it has 1001 words, and tensors have 32 dimensions at most"));
  EXPECT_EQ(refusal(kModel, {{"layouts", "=,tp"}}), "layout `=,tp`: it has no name before `=`");
  EXPECT_EQ(refusal(kModel, {{"layouts", "w0=,tp padded"}}),
            "layout `w0=,tp padded`: `,tp padded` has a space: words stand between commas");
  EXPECT_EQ(refusal(kModel, {{"layouts", "w(=tp"}}), "layout `w(=tp`: w( is no regular expression: Unmatched ( or \\(");
  EXPECT_EQ(refusal(kModel, {{"layouts", "w0=tp,;w1=tp,;w0=,tp"}}),
            "layout `w0=,tp`: `w0=tp,` is a rule of the same names, and the first one counts: say one of them");
  EXPECT_EQ(refusal(kModel, {{"layouts", "v0=,tp"}}),
            "layout `v0=,tp`: no leaf of the state has such a name; did you mean `w0`?");
  EXPECT_EQ(refusal(kModel, {{"layouts", "w.*=,tp;w0=tp,"}}),
            "layout `w0=tp,`: an earlier rule, `w.*=,tp`, lays out w0, and the first one counts");
  EXPECT_EQ(refusal(kModel, {{"layouts", "w0=tp"}}),
            "layout `w0=tp` of state leaf w0: <tp> is the layout of 1 dimensions, f32[64,32] has 2");
  EXPECT_EQ(refusal(kModel, {{"layouts", "bias=tp"}}).substr(0, 37), "layout `bias=tp` of state leaf bias: ");
  EXPECT_EQ(refusal("nabla 1 traced\nfunc @f(%x: f32[8]) {\n  return %x\n}\n", {{"layouts", "w=tp"}}),
            "layout `w=tp`: the module has no mesh");
  EXPECT_EQ(refusal(kModel, {{"zero", "3"}}), "--zero 3 needs --data-axes: the axes of the mesh along which the batch lies");
  ir::Target target;
  passes::PassContext no_axes{ops::all_ops(), target, options_of("apply-strategy", {{"zero", "3"}})};
  EXPECT_EQ(passes::apply_strategy(parsed(kModel), no_axes).errors()[0].help,
            "say which they are, such as --data-axes dp: the mesh has dp=4, tp=2");
  EXPECT_EQ(refusal(kModel, {{"data-axes", "pd"}}), "--data-axes: mesh pod (dp=4, tp=2) has no axis `pd`; did you mean `dp`?");
  EXPECT_EQ(refusal(kModel, {{"data-axes", "dp"}, {"zero-axes", "dp"}}), "--zero-axes dp is given, and zero is 0");
  EXPECT_EQ(refusal(kModel, {{"data-axes", "dp"}, {"zero", "1"}, {"zero-axes", "tp"}}),
            "--zero-axes: tp is no data axis; those are {dp}");
  EXPECT_EQ(refusal(stateless, {{"data-axes", "dp"}, {"zero", "1"}}), "--zero 1: no entry differentiates with respect to the state");
  EXPECT_EQ(refusal(stateless, {{"data-axes", "mb"}, {"zero", "1"}}),
            "--zero 1 needs a data axis along which ranks lie, and {mb} is none");
  EXPECT_EQ(refusal(stateless, {{"data-axes", "dp,mb"}}), "2 microbatches: no entry computes gradients that they could add up");
  EXPECT_EQ(refusal(stateless, {{"data-axes", "dp,mb"}, {"zero", "1"}, {"zero-axes", "mb"}}),
            "--zero-axes: mb is temporal: no ranks lie along it that could share state");
  std::string odd = kModel;
  odd.replace(odd.find("tp=2"), 4, "mb=3 temporal");
  EXPECT_EQ(refusal(odd, {{"data-axes", "dp,mb"}}),
            "3 microbatches: no input is cut along {dp, mb}, in 12 parts (x of entry step, f32[16,64]; key of entry step, u32[2])");
  odd = kModel;
  odd.replace(odd.find("dp=4"), 4, "dp=3");
  EXPECT_EQ(refusal(odd, {{"data-axes", "dp"}}),
            "--data-axes: no input is cut along {dp}, in 3 parts (x of entry step, f32[16,64]; key of entry step, u32[2])");
  std::string flat = "nabla 1 flat\nmesh pod = {dp=4}\nfunc @f(%x: f32[8]) {\n  return %x\n}\n";
  EXPECT_EQ(refusal(flat, {{"data-axes", "dp"}}),
            "--data-axes dp: at stage flat gradients are no calls any more; layouts are said in the program");
  EXPECT_EQ(refusal("nabla 1 traced\nfunc @f(%x: f32[8]) {\n  return %x\n}\n", {{"data-axes", "dp"}}),
            "--data-axes dp: the module has no mesh");
}

TEST(Strategy, RefusalsSayWhatToGive) {
  auto help = [](const std::string& text, const Options& options) {
    ir::Target target;
    passes::PassContext context{ops::all_ops(), target, options_of("apply-strategy", options)};
    Result<ir::Module> made = passes::apply_strategy(parsed(text), context);
    return made.ok() ? "" : made.errors()[0].help;
  };
  const std::string meshless = "nabla 1 traced\nfunc @f(%x: f32[8]) {\n  return %x\n}\n";
  const std::string ranks = "say how many ranks there are, and along which axes the batch lies: --mesh dp=4 --data-axes dp";
  EXPECT_EQ(help(meshless, {{"data-axes", "dp"}}), ranks);
  EXPECT_EQ(help(meshless, {{"zero", "3"}}), ranks);
  EXPECT_EQ(help(meshless, {{"layouts", "w=tp"}}), "give one: --mesh dp=2,tp=4");
  EXPECT_EQ(help(kModel, {{"layouts", "zz=,tp"}}).substr(0, 13), "names are w0,");
  EXPECT_EQ(help(kModel, {{"layouts", "w.*=,tp;w0=tp,"}}), "put this one before it, or leave it out");
  for (const Options& options : {Options{{"zero-axes", "dp"}}, Options{{"zero-axes", "dp"}, {"data-axes", "dp"}}})
    EXPECT_EQ(help(kModel, options), "say what is shared along them: --zero 1, 2 or 3; or leave --zero-axes out");
  EXPECT_EQ(help(kModel, {{"data-axes", "dp"}, {"zero", "1"}, {"zero-axes", "tp"}}), "name some of these, or add it to --data-axes");
  std::string temporal = kModel;
  temporal.replace(temporal.find("tp=2"), 4, "mb=2 temporal");
  EXPECT_EQ(help(temporal, {{"data-axes", "mb"}, {"zero", "1"}}), "add one to --data-axes: ranks lie along dp");
  EXPECT_EQ(help(temporal, {{"data-axes", "dp,mb"}, {"zero", "1"}, {"zero-axes", "mb"}}),
            "leave it out of --zero-axes: ranks lie along dp");
}

}  // namespace
}  // namespace nabla::strategy_tests
