// Is every record complete, and does `infer` take what it should and refuse what it should, with the promised text?
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "tests/property/compare.h"
#include "tests/property/driver.h"
#include "tests/property/fixture.h"

namespace nabla::property {
namespace {

class RecordRules : public OpProperty {};

TEST_P(RecordRules, IsComplete) {
  EXPECT_GE(op().doc.size(), 2u);
  EXPECT_TRUE(op().doc.ends_with('.')) << op().doc;
  EXPECT_EQ(op().version, 1 + static_cast<int>(op().upgrades.size()));
  EXPECT_TRUE(!op().results.empty() || op().traits.side_effect);
  EXPECT_TRUE(op().infer && op().cost);
  for (const auto& o : op().operands) EXPECT_FALSE(o.doc.empty()) << o.name;
  for (const auto& a : op().attrs) EXPECT_FALSE(a.doc.empty()) << a.name;
  for (const auto& r : op().results) EXPECT_FALSE(r.doc.empty()) << r.name;
  EXPECT_TRUE(!op().traits.composite || op().decompose.exists()) << "a composite has a decomposition";
  bool derived = op().vjp.by_decomposition() || op().jvp.by_decomposition() || op().batch.by_decomposition() ||
                 op().factors.by_decomposition() || op().access.by_decomposition() || op().reference.by_decomposition();
  derived |= op().lower == ir::Lowering::kDecompose;
  EXPECT_TRUE(!derived || op().decompose.exists()) << "a rule is by decomposition";
  if (is_call(op())) return;
  EXPECT_FALSE(op().examples.empty());
  EXPECT_TRUE(op().draw != nullptr);
}

// Every rule that is refused says why; the list is printed for the reader of the log.
TEST_P(RecordRules, SaysWhyARuleDoesNotExist) {
  auto check = [&](std::string_view rule, const auto& r) {
    if (!r.refused()) return;
    EXPECT_GE(r.reason().size(), 5u) << rule;
    std::printf("%s.%s: %s\n", op().name.c_str(), std::string(rule).c_str(), r.reason().c_str());
  };
  check("reference", op().reference);
  check("fold", op().fold);
  check("decompose", op().decompose);
  check("vjp", op().vjp);
  check("jvp", op().jvp);
  check("batch", op().batch);
  check("factors", op().factors);
  check("access", op().access);
}

TEST_P(RecordRules, RefusesOneBadInputPerConstraint) {
  std::set<std::string> ids, rejected;
  for (const ir::Constraint& c : op().constraints) EXPECT_TRUE(ids.insert(c.id).second) << c.id << " is there twice";
  for (const ir::Reject& reject : op().rejects) {
    rejected.insert(reject.constraint);
    std::string what = reject.constraint;
    for (const ir::Type& t : reject.operands) what += " " + t.str();
    what += describe(reject.attrs);
    EXPECT_TRUE(ids.count(reject.constraint)) << what << ": no such constraint";
    Result<ir::Attrs> attrs = ir::complete_attrs(op(), reject.attrs);
    ASSERT_TRUE(attrs.ok()) << what << ": " << to_string(attrs.errors());
    ir::Module module = module_of(reject.functions);
    Result<std::vector<ir::Type>> types = ir::infer_types(op(), reject.operands, *attrs, lookup_in(module));
    ASSERT_FALSE(types.ok()) << what << " was accepted";
    const Diagnostic& d = types.errors()[0];
    EXPECT_NE(d.message.find("(" + reject.constraint + ")"), std::string::npos) << what << ": " << d.message;
    int number = std::stoi(code_name(d.code).substr(1));
    EXPECT_TRUE((number >= 200 && number < 400) || d.code == Code::kUnknownName) << what << ": " << code_name(d.code);
  }
  if (is_call(op())) return;
  for (const std::string& id : ids) EXPECT_TRUE(rejected.count(id)) << "nothing is refused by " << id;
}

TEST_P(RecordRules, RefusesWrongOperandCountsAndAttributes) {
  if (op().examples.empty()) return;
  ir::Example e = op().examples[0];
  std::vector<ir::Type> types;
  for (const ir::Operand& o : e.operands) types.push_back(o.type);
  bool variadic = !op().operands.empty() && op().operands.back().variadic;
  ir::Attrs complete = ir::complete_attrs(op(), e.attrs).value();
  if (!variadic) {
    types.push_back({DType::kF32, {}});
    auto result = ir::infer_types(op(), types, complete, {});
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.errors()[0].code, Code::kOperandCount);
  }
  ir::Attrs attrs = e.attrs;
  attrs.set("surplus", true);
  EXPECT_FALSE(ir::complete_attrs(op(), attrs).ok());
  for (const ir::AttrDef& def : op().attrs) {
    if (def.default_value) continue;
    attrs = e.attrs;
    attrs.erase(def.name);
    EXPECT_FALSE(ir::complete_attrs(op(), attrs).ok()) << def.name << " is required";
  }
}

TEST_P(RecordRules, ReferenceMakesTheInferredTypes) {
  if (op().reference.refused()) return;  // the refusal is checked above
  for (const Case& c : cases_of(op(), 40, Precision::kAll)) {
    std::vector<Literal> got = run_reference(c.typed(), c.values(true), c.module);
    ASSERT_EQ(got.size(), c.results.size()) << c.str();
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(ir::Type(got[i].dtype(), ir::static_shape(got[i].shape())), c.results[i]) << c.str();
  }
}

// Whatever passes through or is reduced may have a symbolic size: types, formula and cost follow.
TEST_P(RecordRules, InfersSymbolicSizesWhereAFactorAllowsThem) {
  if (!op().factors.exists()) return;
  for (const Case& c : cases_of(op(), 40, Precision::kAll)) {
    ir::Factors factors = op().factors(c.typed());
    for (int f = 0; f < static_cast<int>(factors.factors.size()); ++f) {
      const ir::Factors::Factor& factor = factors.factors[f];
      bool divisible = factor.kind == ir::Factors::Kind::kPass || factor.kind == ir::Factors::Kind::kReduce;
      if (!divisible || factor.size.value() < 2) continue;
      int64_t size = factor.size.value();
      ir::Dim n = ir::Dim::symbol(std::make_shared<ir::Symbol>(ir::Symbol{"n", 1, 1000, 1}));
      ir::TypedOp whole = c.typed();
      ir::Shard shard = whole_shard(whole, factors);
      shard.sizes[f] = n;
      std::vector<ir::Type> types, expected;
      for (size_t k = 0; k < c.operands.size(); ++k) types.push_back(shard.operand(static_cast<int>(k)));
      for (size_t k = 0; k < c.results.size(); ++k) expected.push_back(shard.result(static_cast<int>(k)));
      ir::Attrs attrs = shard.attrs();
      for (const auto& [name, attr] : c.attrs)  // these have fixed types
        if (std::holds_alternative<ir::FunctionRefs>(attr)) attrs.set(name, ir::FunctionRefs{});
      std::string what = fmt::format("{} with factor {} of {} symbolic", c.str(), factor.name, factors.str());
      Result<std::vector<ir::Type>> got = ir::infer_types(op(), types, attrs, {});
      ASSERT_TRUE(got.ok()) << what << ": " << to_string(got.errors());
      for (size_t k = 0; k < expected.size(); ++k)
        for (int d = 0; d < expected[k].rank(); ++d) {
          ir::Dim dim = (*got)[k].shape[d].substitute([&](const ir::SymbolRef&) { return ir::Dim(size); });
          EXPECT_EQ(dim.str(), c.results[k].shape[d].str()) << what << ", result " << k;
        }
      ir::TypedOp typed{op(), types, attrs, *got};
      EXPECT_TRUE(!op().access.exists() || op().access(typed).results.size() == expected.size()) << what;
      EXPECT_EQ(op().factors(typed).factors.size(), factors.factors.size()) << what;
      op().cost(typed);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, RecordRules, ::testing::ValuesIn(all_op_names()), param_name);

}  // namespace
}  // namespace nabla::property
