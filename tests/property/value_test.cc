// Do the other descriptions of an op's values agree with its reference: access, decomposition, batch?
#include <fmt/format.h>

#include <algorithm>

#include "ir/kernel_ir/eval.h"
#include "ir/target.h"
#include "passes/pass.h"
#include "passes/transform/lower_transforms.h"
#include "tests/property/compare.h"
#include "tests/property/dependence.h"
#include "tests/property/driver.h"
#include "tests/property/fixture.h"

namespace nabla::property {
namespace {

class ValueRules : public OpProperty {};

constexpr int kDraws = 100;

// A composite is several steps: what cancels between them leaves an error that its operands scale, not its result.
Tolerance tolerance_of(const Case& c, DType dtype) {
  Tolerance out = default_tolerance(dtype);
  bool primitive = c.op->traits.elementwise && !c.op->traits.composite;
  out.elementwise = primitive;
  out.zero_signs = primitive && c.operands.size() == 1;
  for (const ir::Operand& o : c.operands)
    if (c.op->traits.composite)
      out.least_scale = std::max(out.least_scale, 0.01 * std::max(-o.values.low, o.values.high));
  return out;
}

TEST_P(ValueRules, AccessGivesTheReferencesValues) {
  if (!op().access.exists()) return;
  for (const Case& c : cases_of(op(), kDraws, Precision::kAll)) {
    kernel_ir::Fragment fragment = op().access(c.typed());
    if (fragment.results.empty() && op().lower == ir::Lowering::kConstant) continue;
    if (fragment.procedure && fragment.procedure->user) continue;  // tests/conformance compiles it
    for (bool awkward : {false, true}) {
      std::vector<Literal> operands = c.values(awkward);
      std::vector<Literal> expected = run_reference(c.typed(), operands, c.module);
      std::vector<Literal> got = kernel_ir::interpret(fragment, operands);
      ASSERT_EQ(got.size(), expected.size()) << c.str();
      for (size_t i = 0; i < got.size(); ++i) {
        auto text = difference(expected[i], got[i], tolerance_of(c, expected[i].dtype()));
        ASSERT_FALSE(text) << c.str() << (awkward ? " awkward" : "") << ", result " << i << ": " << *text << "\n"
                           << fragment.str();
      }
    }
  }
}

// Where a backend may compute a composite as a whole, the procedure means what the record does.
TEST_P(ValueRules, WholeProceduresGiveTheReferencesValues) {
  if (!op().whole) return;
  int whole = 0;
  for (const Case& c : cases_of(op(), kDraws, Precision::kAll)) {
    std::optional<kernel_ir::Procedure> procedure = op().whole(c.typed());
    if (!procedure) continue;
    ++whole;
    std::vector<Literal> operands = c.values(false), expected = run_reference(c.typed(), operands, c.module), got;
    for (const Literal& e : expected) got.emplace_back(e.dtype(), e.shape());
    std::vector<const Literal*> in;
    std::vector<Literal*> out;
    for (const Literal& x : operands) in.push_back(&x);
    for (Literal& x : got) out.push_back(&x);
    procedure->def->run(procedure->values(), in, out);
    for (size_t i = 0; i < got.size(); ++i) {
      auto text = difference(expected[i], got[i], tolerance_of(c, expected[i].dtype()));
      ASSERT_FALSE(text) << c.str() << ", result " << i << ": " << *text;
    }
  }
  EXPECT_GT(whole, 10) << "too few cases are computed as a whole";
}

TEST_P(ValueRules, DecompositionGivesTheReferencesValues) {
  if (!op().decompose.exists()) return;
  for (const Case& c : cases_of(op(), kDraws, Precision::kAll)) {
    // Narrow floats are rounded at each step of a decomposition, but once by the reference.
    if (is_narrow(c)) continue;
    std::vector<Literal> operands = c.values(false);
    std::vector<Literal> expected = run_reference(c.typed(), operands, c.module), got = run(decomposed(c), operands);
    ASSERT_EQ(got.size(), expected.size()) << c.str();
    for (size_t i = 0; i < got.size(); ++i) {
      auto text = difference(expected[i], got[i], tolerance_of(c, expected[i].dtype()));
      ASSERT_FALSE(text) << c.str() << ", result " << i << ": " << *text;
    }
  }
}

// ---- batch

constexpr int64_t kBatch = 3;

Literal row(const Literal& batched, int64_t b) {
  std::vector<int64_t> shape(batched.shape().begin() + 1, batched.shape().end());
  Literal out(batched.dtype(), shape);
  int64_t bytes = out.size_bytes();
  return Literal::from_bytes(batched.dtype(), shape, static_cast<const char*>(batched.data()) + b * bytes);
}

// What rules define goes into the module; examples without functions give them nothing to derive or batch.
class Definitions : public ir::Functions {
 public:
  explicit Definitions(ir::Module& module) : module_(module) {}
  std::string define(ir::Function f) override {
    std::string name = f.name;
    module_.set(std::make_shared<const ir::Function>(std::move(f)));
    return name;
  }
  std::string derive(std::string_view, ir::Transform, std::vector<bool>) override { return refused(); }
  std::vector<bool> depends(std::string_view, const std::vector<bool>&) override { return {refused().empty()}; }
  ir::BatchedFunction batch(std::string_view, std::vector<bool>, std::vector<bool>) override { return {refused(), {}}; }
  const ir::Function& get(std::string_view f) const override { return *module_.find(f); }
  void refuse(std::string_view) override {}

 private:
  static std::string refused() {
    ADD_FAILURE() << "a rule asks for a function that the example does not have";
    return "none";
  }
  ir::Module& module_;
};

// The op by its batch rule; where functions are called, by the product's vmap, since such a rule cannot work alone.
Program batched_program(const Case& c, const std::vector<ir::Type>& operands, const std::vector<bool>& batched) {
  ir::Module module = c.module;
  ir::FunctionBuilder b("batched", ops::all_ops(), &module);
  std::vector<ir::Val> params;
  for (const ir::Type& t : operands) params.push_back(b.param("x", t));
  ir::TypedOp typed = c.typed();
  if (module.functions.empty()) {
    Definitions definitions(module);
    ir::BatchContext ctx{b, typed, params, batched, ir::Dim(kBatch), "", &definitions};
    ir::Function function = b.finish(c.op->batch(ctx));
    return {std::move(function), std::move(module)};
  }
  module.stage = ir::Stage::kTraced;
  module.set(std::make_shared<const ir::Function>(single(c).function));
  ir::Ints in_axes, out_axes(c.results.size(), 0);
  for (bool flag : batched) in_axes.push_back(flag ? 0 : -1);
  ir::Attrs attrs{{"callee", ir::FunctionRef{"single"}}, {"in_axes", in_axes}, {"out_axes", out_axes}};
  module.set(std::make_shared<const ir::Function>(b.finish(b.add("vmap", params, attrs))));
  static const ir::Target target{};
  passes::PassContext context{ops::all_ops(), target};
  ir::Module lowered = passes::lower_transforms(module, context).value();
  return {*lowered.find("batched"), lowered};
}

void check_batch(const Case& c, const std::vector<bool>& batched) {
  ir::Rng rng(c.seed);
  std::vector<ir::Type> types;
  std::vector<Literal> values;
  for (size_t k = 0; k < batched.size(); ++k) {
    ir::Operand operand = c.operands[k];
    if (batched[k]) operand.type.shape.insert(operand.type.shape.begin(), ir::Dim(kBatch));
    types.push_back(operand.type);
    values.push_back(draw_literal(operand, rng, false));
  }
  ir::TypedOp typed = c.typed();
  std::vector<Literal> got = run(batched_program(c, types, batched), values);
  std::string what = c.str() + ", batched:";
  for (bool x : batched) what += x ? " yes" : " no";
  ASSERT_EQ(got.size(), c.results.size()) << what;
  for (int64_t i = 0; i < kBatch; ++i) {
    std::vector<Literal> one;
    for (size_t k = 0; k < batched.size(); ++k) one.push_back(batched[k] ? row(values[k], i) : values[k]);
    std::vector<Literal> expected = run_reference(typed, one, c.module);
    for (size_t r = 0; r < got.size(); ++r) {
      ASSERT_EQ(got[r].rank(), expected[r].rank() + 1) << what;
      ASSERT_EQ(got[r].shape()[0], kBatch) << what;
      auto text = difference(expected[r], row(got[r], i));
      ASSERT_FALSE(text) << what << ", example " << i << ", result " << r << ": " << *text;
    }
  }
}

TEST_P(ValueRules, BatchIsALoopOverExamples) {
  if (!op().batch.exists()) return;
  for (const Case& c : cases_of(op(), 20, Precision::kAll)) {
    size_t n = c.operands.size();
    if (n == 0) continue;
    check_batch(c, std::vector<bool>(n, true));
    for (size_t k = 0; n > 1 && k < n; ++k) {
      std::vector<bool> batched(n, false);
      batched[k] = true;
      check_batch(c, batched);
    }
    if (HasFatalFailure()) return;
  }
}

// ---- perturbation

TEST_P(ValueRules, AChangedElementChangesOnlyWhatAccessAdmits) {
  if (!op().access.exists()) return;
  for (const Case& c : cases_of(op(), 20, Precision::kF64Only)) {
    kernel_ir::Fragment fragment = op().access(c.typed());
    int64_t total = 0;
    for (const ir::Operand& o : c.operands) total += o.type.count().value();
    if (total == 0 || total > 300 || fragment.results.empty()) continue;
    std::vector<Literal> operands = c.values(false);
    std::vector<Literal> before = run_reference(c.typed(), operands, c.module);
    Dependence dependence(fragment, operands);
    ir::Rng rng(c.seed + 1);
    std::vector<Literal> others;
    for (const ir::Operand& o : c.operands) others.push_back(draw_literal(o, rng, false));
    for (int trial = 0; trial < 25; ++trial) {
      int64_t element = static_cast<int64_t>(rng() % static_cast<uint64_t>(total)), k = 0, i = element;
      for (; i >= operands[k].size(); ++k) i -= operands[k].size();
      std::vector<Literal> changed = operands;
      copy_element(changed[k], i, others[k], i);
      std::vector<Literal> after = run_reference(c.typed(), changed, c.module);
      for (size_t r = 0; r < after.size(); ++r)
        for (int64_t j = 0; j < after[r].size(); ++j) {
          kernel_ir::Scalar x = kernel_ir::get(before[r], j), y = kernel_ir::get(after[r], j);
          if (x.i == y.i && (x.f == y.f || (x.f != x.f && y.f != y.f))) continue;
          ASSERT_TRUE(dependence.depends(static_cast<int>(r), j, element))
              << c.str() << ": operand " << k << " element " << i << " changes result " << r << " element " << j << "\n"
              << fragment.str();
        }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, ValueRules, ::testing::ValuesIn(covered_ops()), param_name);

}  // namespace
}  // namespace nabla::property
