// Each rule of canonicalize by name: where it applies, what comes out, and where its guard holds it back. The values
// are compared under the interpreter, NaN and infinities among them.
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "ir/ops/all_ops.h"
#include "passes/simplify/rules.h"
#include "passes/simplify/simplify.h"
#include "tests/property/compare.h"
#include "tests/transforms/random_function.h"

namespace nabla::transforms {
namespace {

using ir::FunctionBuilder;
using ir::Ints;
using ir::Module;
using ir::Shape;
using ir::Val;
using passes::Candidate;
using passes::Rule;

using Build = std::vector<Val> (*)(FunctionBuilder& b);

// The rule is tried on the last node that `build` adds.
struct RuleCase {
  std::string rule;
  Build build;
  std::string ops;  ///< of the function after canonicalize, in order; the rule must apply
};
struct GuardCase {
  std::string rule, why;
  Build build;  ///< the rule must not apply to the last node
};

Val x23(FunctionBuilder& b) { return b.param("x", {DType::kF32, {2, 3}}); }
Val y23(FunctionBuilder& b) { return b.param("y", {DType::kF32, {2, 3}}); }
Val i23(FunctionBuilder& b) { return b.param("i", {DType::kI32, {2, 3}}); }
Val un(const char* op, Val x) { return x.b->op(op, {x}); }
Val bin(const char* op, Val a, Val c) { return a.b->op(op, {a, c}); }
// Builder sugar drops identities, so these are added plainly.
Val plain_transpose(Val x, Ints p) { return x.b->op("transpose", {x}, {{"permutation", std::move(p)}}); }
Val plain_reshape(Val x, Shape s) { return x.b->op("reshape", {x}, {{"shape", std::move(s)}}); }
Val plain_broadcast(Val x, Shape s, Ints d) {
  return x.b->op("broadcast_in_dim", {x}, {{"shape", std::move(s)}, {"dims", std::move(d)}});
}
Val plain_convert(Val x, DType t) { return x.b->op("convert", {x}, {{"dtype", t}}); }
Val slice(Val x, Ints starts, Ints limits) {
  Ints ones(starts.size(), 1);
  return x.b->op("slice", {x}, {{"starts", std::move(starts)}, {"limits", std::move(limits)}, {"strides", ones}});
}
Val pad(Val x, Ints low) {
  Ints none(low.size(), 0);
  return x.b->op("pad", {x, x.b->constant(Literal::scalar(x.dtype(), 0))},
                 {{"low", std::move(low)}, {"high", none}, {"interior", none}});
}
Val dot(Val l, Val r, Ints lc, Ints rc) {
  return l.b->op("dot_general", {l, r}, {{"lhs_contract", std::move(lc)}, {"rhs_contract", std::move(rc)}});
}
Val truth(FunctionBuilder& b, int value) { return b.constant(Literal::scalar_int(DType::kBool, value)); }

using B = FunctionBuilder;
using Vals = std::vector<Val>;

std::vector<RuleCase> arithmetic_cases() {
  return {
      {"add-zero",
       [](B& b) -> Vals {
         Val x = x23(b), i = i23(b);
         return {bin("add", b.like(x, -0.0), x), bin("add", b.like(i, 0), i)};
       },
       ""},
      {"sub-zero",
       [](B& b) -> Vals {
         Val x = x23(b);
         return {x - b.like(x, 0)};
       },
       ""},
      {"mul-one",
       [](B& b) -> Vals {
         Val x = x23(b);
         return {x * b.like(x, 1)};
       },
       ""},
      {"integer-mul-zero",
       [](B& b) -> Vals {
         Val i = i23(b);
         return {i * b.like(i, 0)};
       },
       "constant broadcast_in_dim"},
      {"mul-minus-one",
       [](B& b) -> Vals {
         Val x = x23(b);
         return {x * b.like(x, -1)};
       },
       "neg"},
      {"div-one",
       [](B& b) -> Vals {
         Val i = i23(b);
         return {i / b.like(i, 1)};
       },
       ""},
      {"div-power-of-two",
       [](B& b) -> Vals {
         Val x = x23(b);
         return {x / b.like(x, -4)};
       },
       "constant broadcast_in_dim mul"},
  };
}

std::vector<RuleCase> sign_and_select_cases() {
  return {
      {"add-negated",
       [](B& b) -> Vals {
         Val x = x23(b), y = y23(b);
         return {-x + y};
       },
       "sub"},
      {"sub-negated",
       [](B& b) -> Vals {
         Val x = x23(b), y = y23(b);
         return {x - (-y)};
       },
       "add"},
      {"double-negation",
       [](B& b) -> Vals {
         Val x = x23(b);
         return {-(-x)};
       },
       ""},
      {"small-power",
       [](B& b) -> Vals {
         Val x = x23(b);
         return {bin("pow", x, b.like(x, 3))};
       },
       "mul mul"},
      {"select-known",
       [](B& b) -> Vals {
         Val x = x23(b), y = y23(b);
         return {select(truth(b, 0), x, y)};
       },
       ""},
      {"select-same",
       [](B& b) -> Vals {
         Val x = x23(b);
         return {select(bin("lt", x, y23(b)), x, x)};
       },
       ""},
      {"convert-same", [](B& b) -> Vals { return {plain_convert(x23(b), DType::kF32)}; }, ""},
      {"convert-of-widening",
       [](B& b) -> Vals { return {plain_convert(plain_convert(x23(b), DType::kF64), DType::kBF16)}; }, "convert"},
      {"stop-gradient", [](B& b) -> Vals { return {un("stop_gradient", x23(b))}; }, ""},
      {"checkpoint-name",
       [](B& b) -> Vals {
         return {b.op("checkpoint_name", {x23(b)}, {{"name", std::string("a")}})};
       },
       ""},
      {"constant-to-the-right",
       [](B& b) -> Vals {
         Val x = x23(b);
         return {b.like(x, 3) * x};
       },
       "constant broadcast_in_dim mul"},
      {"scalar-elementwise",
       [](B& b) -> Vals {
         Val s = b.param("s", {DType::kF32, {}}), t = b.param("t", {DType::kF32, {}});
         return {broadcast_in_dim(s, {2, 3}, {}) * broadcast_in_dim(t, {2, 3}, {})};
       },
       "mul broadcast_in_dim"},
  };
}

std::vector<RuleCase> movement_cases() {
  return {
      {"transpose-identity",
       [](B& b) -> Vals {
         return {plain_transpose(x23(b), {0, 1})};
       },
       ""},
      {"transpose-transpose",
       [](B& b) -> Vals {
         Val x = b.param("x", {DType::kF32, {2, 3, 4}});
         return {plain_transpose(plain_transpose(x, {1, 2, 0}), {1, 0, 2})};
       },
       "transpose"},
      {"reshape-identity",
       [](B& b) -> Vals {
         return {plain_reshape(x23(b), {2, 3})};
       },
       ""},
      {"reshape-reshape",
       [](B& b) -> Vals {
         return {plain_reshape(plain_reshape(x23(b), {6}), {3, 2})};
       },
       "reshape"},
      {"broadcast-identity",
       [](B& b) -> Vals {
         return {plain_broadcast(x23(b), {2, 3}, {0, 1})};
       },
       ""},
      {"broadcast-broadcast",
       [](B& b) -> Vals {
         return {plain_broadcast(plain_broadcast(x23(b), {4, 2, 3}, {1, 2}), {4, 2, 5, 3}, {0, 1, 3})};
       },
       "broadcast_in_dim"},
      {"movement-of-scalar",
       [](B& b) -> Vals {
         Val s = b.param("s", {DType::kF32, {}});
         return {slice(plain_broadcast(s, {2, 3}, {}), {1, 0}, {-1, -1})};
       },
       "broadcast_in_dim"},
      {"movement-of-widened",
       [](B& b) -> Vals {
         Val x = b.param("x", {DType::kBF16, {2, 3}});
         return {plain_transpose(plain_convert(x, DType::kF32), {1, 0})};
       },
       "transpose convert"},
      {"narrowing-of-movement", [](B& b) -> Vals { return {plain_convert(plain_reshape(x23(b), {6}), DType::kBF16)}; },
       "convert reshape"},
  };
}

std::vector<RuleCase> cutting_cases() {
  return {
      {"slice-whole",
       [](B& b) -> Vals {
         return {slice(x23(b), {0, 0}, {-1, 3})};
       },
       ""},
      {"pad-nothing",
       [](B& b) -> Vals {
         return {pad(x23(b), {0, 0})};
       },
       ""},
      {"reduce-nothing",
       [](B& b) -> Vals {
         return {b.op("reduce_max", {x23(b)}, {{"axes", Ints{}}})};
       },
       ""},
      {"concatenate-one",
       [](B& b) -> Vals {
         return {b.op("concatenate", {x23(b)}, {{"axis", int64_t{0}}})};
       },
       ""},
      {"reverse-reverse",
       [](B& b) -> Vals {
         Val once = b.op("reverse", {x23(b)}, {{"axes", Ints{0, 1}}});
         return {b.op("reverse", {once}, {{"axes", Ints{1, 0}}})};
       },
       ""},
      {"transpose-of-dot",
       [](B& b) -> Vals {
         Val x = b.param("x", {DType::kF32, {5, 2, 3}}), y = b.param("y", {DType::kF32, {3, 5, 4}});
         Val product = b.op(
             "dot_general", {x, y},
             {{"lhs_contract", Ints{2}}, {"rhs_contract", Ints{0}}, {"lhs_batch", Ints{0}}, {"rhs_batch", Ints{1}}});
         return {plain_transpose(product, {0, 2, 1})};
       },
       "dot_general"},
      {"dot-of-transposed-lhs",
       [](B& b) -> Vals {
         return {dot(plain_transpose(x23(b), {1, 0}), y23(b), {1}, {0})};
       },
       "dot_general"},
      {"dot-of-transposed-rhs",
       [](B& b) -> Vals {
         return {dot(x23(b), plain_transpose(y23(b), {1, 0}), {1}, {0})};
       },
       "dot_general"},
  };
}

std::vector<RuleCase> rule_cases() {
  std::vector<RuleCase> all = arithmetic_cases();
  for (auto more : {sign_and_select_cases, movement_cases, cutting_cases})
    for (RuleCase& c : more()) all.push_back(std::move(c));
  return all;
}

std::vector<GuardCase> arithmetic_guards() {
  return {
      {"add-zero", "negative_zero",
       [](B& b) -> Vals {
         Val x = x23(b);
         return {bin("add", b.like(x, 0), x)};
       }},
      {"sub-zero", "negative_zero",
       [](B& b) -> Vals {
         Val x = x23(b);
         return {x - b.like(x, -0.0)};
       }},
      {"integer-mul-zero", "NaN",
       [](B& b) -> Vals {
         Val x = x23(b);
         return {x * b.like(x, 0)};
       }},
      {"mul-minus-one", "unsigned",
       [](B& b) -> Vals {
         Val u = b.param("u", {DType::kU8, {3}});
         return {u * b.constant(Literal::from_bytes(DType::kU8, {3}, "\xff\xff\xff"))};
       }},
      {"div-power-of-two", "inexact",
       [](B& b) -> Vals {
         Val x = x23(b);
         return {x / b.like(x, 3)};
       }},
      {"div-power-of-two", "integers",
       [](B& b) -> Vals {
         Val i = i23(b);
         return {i / b.like(i, 2)};
       }},
      {"div-power-of-two", "inverse_overflows",
       [](B& b) -> Vals {
         Val h = b.param("h", {DType::kF16, {3}});
         return {h / b.like(h, 5.9604644775390625e-08)};
       }},
      {"small-power", "rounds_twice",
       [](B& b) -> Vals {
         Val h = b.param("h", {DType::kBF16, {3}});
         return {bin("pow", h, b.like(h, 3))};
       }},
      {"small-power", "fraction",
       [](B& b) -> Vals {
         Val x = x23(b);
         return {bin("pow", x, b.like(x, 0.5))};
       }},
      {"convert-of-widening", "loses",
       [](B& b) -> Vals { return {plain_convert(plain_convert(x23(b), DType::kBF16), DType::kF64)}; }},
      {"convert-of-widening", "wraps_or_saturates",
       [](B& b) -> Vals {
         Val i = b.param("i", {DType::kI8, {3}});
         return {plain_convert(plain_convert(i, DType::kF32), DType::kU8)};
       }},
      {"convert-of-widening", "sign_lost",
       [](B& b) -> Vals {
         Val i = b.param("i", {DType::kI8, {3}});
         return {plain_convert(plain_convert(i, DType::kU32), DType::kI64)};
       }},
  };
}

std::vector<GuardCase> movement_guards() {
  return {
      {"constant-to-the-right", "both_constant",
       [](B& b) -> Vals {
         Val c = b.constant(Literal::scalar(DType::kF32, 2));
         return {c + c};
       }},
      {"scalar-elementwise", "not_repeated",
       [](B& b) -> Vals {
         Val x = x23(b);
         return {x + b.like(x, 2)};
       }},
      {"slice-whole", "cut",
       [](B& b) -> Vals {
         return {slice(x23(b), {0, 0}, {-1, 2})};
       }},
      {"pad-nothing", "padded",
       [](B& b) -> Vals {
         return {pad(x23(b), {0, 1})};
       }},
      {"reverse-reverse", "other_axes",
       [](B& b) -> Vals {
         Val once = b.op("reverse", {x23(b)}, {{"axes", Ints{0}}});
         return {b.op("reverse", {once}, {{"axes", Ints{1}}})};
       }},
      {"movement-of-widened", "as_many_bytes",
       [](B& b) -> Vals { return {plain_reshape(plain_convert(i23(b), DType::kF32), {6})}; }},
      {"narrowing-of-movement", "moved_value_used_again",
       [](B& b) -> Vals {
         Val moved = plain_transpose(x23(b), {1, 0});
         un("exp", moved);
         return {plain_convert(moved, DType::kBF16)};
       }},
      {"narrowing-of-movement", "to_more_bytes",
       [](B& b) -> Vals { return {plain_convert(plain_transpose(x23(b), {1, 0}), DType::kF64)}; }},
      {"transpose-of-dot", "product_used_again",
       [](B& b) -> Vals {
         Val product = dot(x23(b), b.param("w", {DType::kF32, {3, 3}}), {1}, {0});
         un("exp", product);
         return {plain_transpose(product, {1, 0})};
       }},
      {"dot-of-transposed-lhs", "free_dimensions_swap",
       [](B& b) -> Vals {
         Val x = b.param("x", {DType::kF32, {2, 3, 4}});
         return {dot(plain_transpose(x, {1, 0, 2}), b.param("w", {DType::kF32, {4, 5}}), {2}, {0})};
       }},
  };
}

const std::vector<GuardCase>& guard_cases() {
  static const std::vector<GuardCase> cases = [] {
    std::vector<GuardCase> all = arithmetic_guards();
    for (GuardCase& c : movement_guards()) all.push_back(std::move(c));
    return all;
  }();
  return cases;
}

const Rule& rule_named(const std::string& name) {
  for (const Rule& r : passes::canonicalization_rules())
    if (r.name == name) return r;
  ADD_FAILURE() << "no rule is named " << name;
  std::abort();
}

bool concerns(const Rule& r, const ir::Node& node) {
  return r.ops.empty() || std::find(r.ops.begin(), r.ops.end(), node.op->name) != r.ops.end();
}

// Whether the rule applies to the last node of a function under construction.
bool applies(const Rule& rule, FunctionBuilder& b) {
  ir::Node node = b.function().nodes.back();
  std::vector<int> producer = producers(b.function());
  std::vector<Val> operands;
  for (ir::ValueId id : node.operands) operands.push_back({&b, id});
  std::vector<bool> only_use;
  std::vector<int> uses = use_counts(b.function());
  for (ir::ValueId id : node.operands) only_use.push_back(uses[id] == 1);
  Candidate candidate(b, *node.op, operands, node.attrs, producer, only_use);
  return concerns(rule, node) && rule.apply(candidate).has_value();
}

std::string op_names(const ir::Function& f) {
  std::string out;
  for (const ir::Node& node : f.nodes) out += (out.empty() ? "" : " ") + node.op->name;
  return out;
}

class CanonicalizeRule : public testing::TestWithParam<RuleCase> {};

TEST_P(CanonicalizeRule, AppliesAndKeepsTheValues) {
  const RuleCase& c = GetParam();
  {
    FunctionBuilder probe("f", ops::all_ops());
    c.build(probe);
    EXPECT_TRUE(applies(rule_named(c.rule), probe));
  }
  FunctionBuilder b("f", ops::all_ops());
  std::vector<Val> results = c.build(b);
  Module m;
  m.stage = ir::Stage::kFlat;
  add(m, b.finish(results));
  Module after = apply(passes::canonicalize, m);
  EXPECT_EQ(op_names(*after.find("f")), c.ops);
  std::vector<Literal> args = random_args(*m.find("f"), 1);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(property::difference(run(m, "f", args), run(after, "f", args)), std::nullopt);
    for (Literal& a : args)  // the second round has NaN and infinities
      if (is_float(a.dtype()) && a.size() > 2) {
        a.set(0, std::numeric_limits<double>::quiet_NaN());
        a.set(1, std::numeric_limits<double>::infinity());
        a.set(2, -std::numeric_limits<double>::infinity());
      }
  }
}

std::string test_name(std::string rule) {
  std::replace(rule.begin(), rule.end(), '-', '_');
  return rule;
}

INSTANTIATE_TEST_SUITE_P(Rules, CanonicalizeRule, testing::ValuesIn(rule_cases()),
                         [](const auto& info) { return test_name(info.param.rule); });

class CanonicalizeGuard : public testing::TestWithParam<GuardCase> {};

TEST_P(CanonicalizeGuard, HoldsTheRuleBack) {
  FunctionBuilder b("f", ops::all_ops());
  GetParam().build(b);
  const Rule& rule = rule_named(GetParam().rule);
  EXPECT_TRUE(concerns(rule, b.function().nodes.back()));
  EXPECT_FALSE(applies(rule, b));
}

INSTANTIATE_TEST_SUITE_P(Rules, CanonicalizeGuard, testing::ValuesIn(guard_cases()),
                         [](const auto& info) { return test_name(info.param.rule) + "_" + info.param.why; });

TEST(Canonicalize, EveryRuleHasATestOfItsName) {
  std::multiset<std::string> tested, rules;
  for (const RuleCase& c : rule_cases()) tested.insert(c.rule);
  for (const Rule& r : passes::canonicalization_rules()) {
    rules.insert(r.name);
    EXPECT_FALSE(r.text.empty()) << r.name;
    for (const std::string& op : r.ops) EXPECT_TRUE(ops::all_ops().find(op)) << r.name << " names " << op;
  }
  EXPECT_EQ(tested, rules);
}

TEST(Canonicalize, RulesThatEnableEachOtherAllApply) {
  FunctionBuilder b("f", ops::all_ops());
  Val x = x23(b);
  Val t = plain_transpose(plain_transpose(-(-(x + b.like(x, -0.0))), {1, 0}), {1, 0});
  Module m;
  m.stage = ir::Stage::kFlat;
  add(m, b.finish({plain_reshape(plain_reshape(t, {6}), {2, 3})}));
  EXPECT_EQ(op_names(*apply(passes::canonicalize, m).find("f")), "");
}

}  // namespace
}  // namespace nabla::transforms
