// simplify-loops: what leaves a body, what a loop no longer hands on, and that loops compute what they did.
#include <gtest/gtest.h>

#include "frontend/cpp/control_flow.h"
#include "frontend/cpp/convenience.h"
#include "frontend/cpp/transforms.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "passes/simplify/simplify.h"
#include "passes/transform/inline_calls.h"
#include "tests/property/compare.h"
#include "tests/transforms/random_program.h"

namespace nabla::transforms {
namespace {

using ir::Module;

Module with_entry(Module m, const std::string& name) {
  const ir::Function& f = *m.find(name);
  ir::Entry e{name, name, {}, {}, {}, {}};
  for (size_t i = 0; i < f.params.size(); ++i) e.inputs.push_back("x" + std::to_string(i));
  for (size_t i = 0; i < f.results.size(); ++i) e.outputs.push_back("y" + std::to_string(i));
  m.entries = {e};
  return m;
}

Module pipeline(Module m) {
  for (auto pass : {passes::eliminate_dead_code, passes::canonicalize, passes::fold_constants, passes::simplify_loops,
                    passes::canonicalize, passes::merge_common_subexpressions, passes::eliminate_dead_code})
    m = apply(pass, m);
  return m;
}

int count_everywhere(const Module& m, std::string_view op) {
  int count = 0;
  for (const ir::FunctionPtr& f : m.functions) count += count_ops(m, f->name, op);
  return count;
}

std::vector<const ir::Node*> loops(const Module& m) {
  std::vector<const ir::Node*> out;
  for (const ir::FunctionPtr& f : m.functions)
    for (const ir::Node& n : f->nodes)
      if (n.op->name == "scan") out.push_back(&n);
  return out;
}

Module parsed(const char* text) {
  Result<Module> m = ir::parse_module(text, "test.nbl", ops::all_ops());
  EXPECT_TRUE(m.ok()) << (m.ok() ? "" : to_string(m.errors()));
  return m.ok() ? std::move(*m) : Module{};
}

// Loops in every place that random programs have them, under both derivatives; with the module's functions shared (no
// entries) and with an entry, whose unreached functions go.
TEST(SimplifyLoops, RandomProgramsKeepTheirValues) {
  int smaller = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Module m = random_program("f", seed, 5, seed % 4 == 0);
    const char* transform = seed % 4 == 0 ? "" : "value_and_grad";
    std::string outer = "f";
    if (*transform) add_wrapper(m, outer = "g", transform, "f", {{"wrt", ir::Ints{0, 1}}});
    Module flat = flattened(m);
    auto args = random_args(*flat.find(outer), seed);
    std::vector<Literal> want = run(flat, outer, args);
    for (const Module& before : {flat, with_entry(flat, outer)}) {
      Module after = apply(passes::simplify_loops, before);
      EXPECT_EQ(property::difference(want, run(after, outer, args)), std::nullopt) << "seed " << seed;
      Module again = apply(passes::simplify_loops, after);
      EXPECT_EQ(ir::print(again), ir::print(after)) << "seed " << seed << ": a second run finds more";
      EXPECT_EQ(property::difference(want, run(pipeline(before), outer, args), property::Tolerance{1e-9}), std::nullopt)
          << "seed " << seed;
      for (const ir::FunctionPtr& f : after.functions)
        smaller += !before.find(f->name) || ir::print(*f) != ir::print(*before.find(f->name));
    }
  }
  EXPECT_GT(smaller, 20) << "the programs have loops that can be made smaller";
}

TEST(SimplifyLoops, WhatDependsOnConstantsIsComputedOnceForwardAndBackward) {
  auto traced = trace(
      "f",
      [](Tensor w, Tensor xs) {
        auto loss = [&](Tensor p) {
          auto step = [&](Tensor h, Tensor x) {
            Tensor next = tanh(exp(p) * h + x);
            return std::pair(next, next);
          };
          return sum(scan(step, w, xs).second);
        };
        return grad(loss)(w);
      },
      Spec("w", f64, {3}), Spec("xs", f64, {5, 3}));
  Module flat = with_entry(flattened(traced.module()), "f"), after = pipeline(flat);
  EXPECT_EQ(count_everywhere(after, "exp"), 1) << ir::print(after);
  EXPECT_EQ(count_ops(after, "f", "exp"), 1) << "outside of the loops";
  auto args = random_args(*flat.find("f"), 1);
  EXPECT_EQ(property::difference(run(flat, "f", args), run(after, "f", args), property::Tolerance{1e-12}),
            std::nullopt);
}

// The loss reads the last state alone: of the sequences of an LSTM's forward loop only what the way back reads stays.
TEST(SimplifyLoops, TheForwardLoopOfAnLstmStacksWhatTheWayBackReads) {
  auto traced = trace(
      "f",
      [](Tensor w, Tensor u, Tensor h0, Tensor c0, Tensor xs) {
        auto loss = [&](Tensor p, Tensor q) {
          auto cell = [&](std::pair<Tensor, Tensor> s, Tensor x) {
            Tensor z = matmul(x, p) + matmul(s.first, q);
            auto gate = [&](int64_t at) { return slice(z, {0, at}, {2, at + 3}, {1, 1}); };
            Tensor c = logistic(gate(0)) * s.second + logistic(gate(3)) * tanh(gate(6));
            Tensor h = logistic(gate(9)) * tanh(c);
            return std::pair(std::pair(h, c), h);
          };
          return sum(scan(cell, std::pair(h0, c0), xs).first.first);
        };
        auto [value, g] = value_and_grad(loss, Wrt<0, 1>{})(w, u);
        return std::tuple(value, std::get<0>(g), std::get<1>(g));
      },
      Spec("w", f64, {4, 12}), Spec("u", f64, {3, 12}), Spec("h0", f64, {2, 3}), Spec("c0", f64, {2, 3}),
      Spec("xs", f64, {6, 2, 4}));
  Module flat = with_entry(flattened(traced.module()), "f");
  flat =
      apply(passes::eliminate_dead_code, apply(passes::inline_calls, flat));  // without functions that nobody reaches
  Module after = pipeline(flat);
  auto stacked = [](const Module& m) {
    std::vector<const ir::Node*> all = loops(m);
    EXPECT_EQ(all.size(), 2u);
    std::vector<size_t> out;
    for (const ir::Node* n : all) out.push_back(n->results.size() - static_cast<size_t>(n->attrs.get_int("carries")));
    std::sort(out.begin(), out.end());
    return out;
  };
  std::vector<size_t> before_counts = stacked(flat), counts = stacked(after);
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_EQ(counts[0], 0u) << "the way back stacks nothing: nobody asks for gradients of xs";
  EXPECT_LT(counts[1], before_counts[1]) << "the stacked h that the loss does not read";
  auto args = random_args(*flat.find("f"), 2);
  EXPECT_EQ(property::difference(run(flat, "f", args), run(after, "f", args), property::Tolerance{1e-12}),
            std::nullopt);
}

// In a loop that may not run, a loop that may not end stays inside.
TEST(SimplifyLoops, AnInnerLoopLeavesOnlyABodyThatRuns) {
  constexpr const char* kText = R"(nabla 1 flat
symbol len in [{}, 8]
func @go(%x: f32[]) {{ %c = constant() {{value=f32[] {{1}}}}  %b = gt(%x, %c)  return %b }}
func @half(%x: f32[]) {{ %c = constant() {{value=f32[] {{2}}}}  %y = div(%x, %c)  return %y }}
func @body(%w: f32[], %h: f32[], %x: f32[]) {{
  %l = while(%w) {{cond=@go, body=@half}}
  %a = add(%h, %l)
  %n = add(%a, %x)
  return %n
}}
func @f(%w: f32[], %h: f32[], %xs: f32[len]) {{
  %y = scan(%w, %h, %xs) {{body=@body, consts=1, carries=1, length=[len]}}
  return %y
}}
)";
  EXPECT_EQ(count_ops(apply(passes::simplify_loops, parsed(fmt::format(fmt::runtime(kText), 0).c_str())), "f", "while"),
            0);
  EXPECT_EQ(count_ops(apply(passes::simplify_loops, parsed(fmt::format(fmt::runtime(kText), 1).c_str())), "f", "while"),
            1);
}

TEST(SimplifyLoops, WithControlIsTheInverseOfControl) {
  int checked = 0;
  for (const ir::OpDef& op : ops::all_ops().all()) {
    if (!op.with_control) continue;
    for (const ir::Example& e : op.examples) {
      std::vector<ir::Type> types;
      for (const ir::Operand& o : e.operands) types.push_back(o.type);
      ir::Attrs attrs = ir::complete_attrs(op, e.attrs).value();
      ir::TypedOp node{op, types, attrs, {}};
      EXPECT_EQ(op.with_control(attrs, op.control(node)), attrs) << op.name;
      ++checked;
    }
  }
  EXPECT_GE(checked, 6);
}

}  // namespace
}  // namespace nabla::transforms
