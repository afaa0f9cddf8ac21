// Do the other descriptions of an op's values agree with its reference: access, decomposition, batch, factors?
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

bool is_narrow(const Case& c) {
  return std::any_of(c.operands.begin(), c.operands.end(),
                     [](const auto& o) { return is_float(o.type.dtype) && bytes_of(o.type.dtype) < 4; });
}

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

// ---- factors

/// A half-open range of one factor's coordinate.
struct Piece {
  int factor;
  int64_t begin, end;
};

/// The part of a node in which some factors' coordinates are within pieces.
class Splitter {
 public:
  Splitter(const ir::TypedOp& op, const ir::Factors& factors, std::vector<Piece> pieces)
      : factors_(factors),
        pieces_(std::move(pieces)),
        shard_(whole_shard(op, factors)) {
    for (const Piece& p : pieces_) shard_.begins[p.factor] = p.begin, shard_.sizes[p.factor] = p.end - p.begin;
  }

  const ir::Shard& shard() const { return shard_; }
  /// Calls f(position in the whole, position in the part) for every element of the part.
  template <class F>
  void for_each(const ir::Type& whole, const ir::Factors::Tensor& dims, F f) const {
    std::vector<int64_t> shape = whole.extents();
    int64_t count = count_of(shape), next = 0;
    for (int64_t i = 0; i < count; ++i)
      if (inside(i, shape, dims)) f(i, next++);
  }
  /// Are results of this part combined with those of an earlier one?
  bool combines(const ir::Factors::Tensor& result) const {
    return std::any_of(pieces_.begin(), pieces_.end(), [&](const Piece& p) {
      bool reduced = factors_.factors[p.factor].kind == ir::Factors::Kind::kReduce && !splits(result, p.factor);
      return reduced && p.begin > 0;
    });
  }

 private:
  static bool contains(const std::vector<int>& ids, int factor) {
    return std::find(ids.begin(), ids.end(), factor) != ids.end();
  }
  static bool splits(const ir::Factors::Tensor& dims, int factor) {
    return std::any_of(dims.begin(), dims.end(), [&](const auto& d) { return contains(d, factor); });
  }
  // Is the coordinate of every piece's factor, in every dimension that it is part of, within the piece?
  bool inside(int64_t i, const std::vector<int64_t>& shape, const ir::Factors::Tensor& dims) const {
    for (size_t d = shape.size(); d-- > 0;) {
      int64_t at = i % shape[d];
      i /= shape[d];
      for (const Piece& p : pieces_) {
        if (!contains(dims[d], p.factor)) continue;
        int64_t x = at;
        for (size_t k = dims[d].size(); dims[d][--k] != p.factor;) x /= factors_.factors[dims[d][k]].size.value();
        x %= factors_.factors[p.factor].size.value();
        if (x < p.begin || x >= p.end) return false;
      }
    }
    return true;
  }

  const ir::Factors& factors_;
  std::vector<Piece> pieces_;
  ir::Shard shard_;
};

void copy_element(Literal& to, int64_t i, const Literal& from, int64_t j) {
  if (is_float(from.dtype()))
    to.set(i, from.get(j));
  else
    to.set_i(i, from.get_i(j));
}

/// Every combination of one half of each of the factors, the first halves first.
std::vector<std::vector<Piece>> halves(const ir::Factors& factors, const std::vector<int>& split) {
  std::vector<std::vector<Piece>> out = {{}};
  for (int f : split) {
    int64_t size = factors.factors[f].size.value(), middle = (size + 1) / 2;
    std::vector<std::vector<Piece>> longer;
    for (const std::vector<Piece>& pieces : out)
      for (Piece piece : {Piece{f, 0, middle}, Piece{f, middle, size}}) {
        longer.push_back(pieces);
        longer.back().push_back(piece);
      }
    out = std::move(longer);
  }
  return out;
}

void check_split(const Case& c, const ir::Factors& factors, const std::vector<int>& split) {
  std::string what = fmt::format("{}, factors", c.str());
  for (int f : split) what += " " + factors.factors[f].name;
  what += " of " + factors.str();
  std::vector<Literal> operands = c.values(false);
  ir::TypedOp whole = c.typed();
  std::vector<Literal> expected = run_reference(whole, operands, c.module);
  std::vector<Literal> joined;
  for (const Literal& e : expected) joined.emplace_back(e.dtype(), e.shape());
  for (const std::vector<Piece>& pieces : halves(factors, split)) {
    Splitter part(whole, factors, pieces);
    std::vector<Literal> values;
    std::vector<ir::Type> types;
    for (size_t k = 0; k < operands.size(); ++k) {
      types.push_back(part.shard().operand(static_cast<int>(k)));
      values.emplace_back(types[k].dtype, types[k].extents());
      part.for_each(c.operands[k].type, factors.operands[k],
                    [&](int64_t i, int64_t j) { copy_element(values[k], j, operands[k], i); });
    }
    ir::Attrs attrs = part.shard().attrs();
    Result<std::vector<ir::Type>> results = ir::infer_types(*c.op, types, attrs, {});
    ASSERT_TRUE(results.ok()) << what << ": " << to_string(results.errors());
    std::vector<Literal> got = run_reference({*c.op, types, attrs, *results}, values);
    for (size_t r = 0; r < got.size(); ++r) {
      ASSERT_EQ((*results)[r], part.shard().result(static_cast<int>(r))) << what;
      kernel_ir::Combiner combiner = kernel_ir::Combiner::kNone;
      for (int f : split)
        if (factors.factors[f].kind == ir::Factors::Kind::kReduce) combiner = factors.factors[f].combiner;
      bool combine = part.combines(factors.results[r]);
      part.for_each(c.results[r], factors.results[r], [&](int64_t i, int64_t j) {
        if (!combine) return copy_element(joined[r], i, got[r], j);
        kernel_ir::Scalar sum = kernel_ir::combine(combiner, got[r].dtype(), kernel_ir::get(joined[r], i),
                                                   kernel_ir::get(got[r], j));
        kernel_ir::set(joined[r], i, sum);
      });
    }
  }
  auto text = difference(expected, joined);
  ASSERT_FALSE(text) << what << ": " << *text;
}

void check_shapes(const Case& c, const ir::Factors& factors) {
  auto check = [&](const std::vector<ir::Type>& types, const std::vector<ir::Factors::Tensor>& tensors) {
    ASSERT_EQ(types.size(), tensors.size()) << c.str();
    for (size_t k = 0; k < types.size(); ++k) {
      ASSERT_EQ(types[k].rank(), static_cast<int>(tensors[k].size())) << c.str() << " " << factors.str();
      for (int d = 0; d < types[k].rank(); ++d) {
        int64_t product = 1;
        for (int f : tensors[k][d]) product *= factors.factors[f].size.value();
        bool fits = product == types[k].shape[d].value();
        // An operand that is repeated along a dimension has no factor there, or has extent 1.
        EXPECT_TRUE(fits || (tensors[k][d].empty() && types[k].shape[d].is(1))) << c.str() << " " << factors.str();
      }
    }
  };
  check(c.types(), factors.operands);
  check(c.results, factors.results);
}

/// Factors that may be cut anywhere: the parts are computed alone, and joined or combined.
std::vector<int> divisible(const Case& c, const ir::Factors& factors) {
  std::vector<int> out;
  for (int f = 0; f < static_cast<int>(factors.factors.size()); ++f) {
    const ir::Factors::Factor& factor = factors.factors[f];
    bool reduce = factor.kind == ir::Factors::Kind::kReduce && !is_narrow(c);
    if ((reduce || factor.kind == ir::Factors::Kind::kPass) && !factor.blocked && factor.size.value() >= 2)
      out.push_back(f);
  }
  return out;
}

bool combine_alike(const ir::Factors& factors, int f, int g) {
  const ir::Factors::Factor &a = factors.factors[f], &b = factors.factors[g];
  return a.kind != ir::Factors::Kind::kReduce || b.kind != ir::Factors::Kind::kReduce || a.combiner == b.combiner;
}

TEST_P(ValueRules, FactorsMayBeSplitAndRecombined) {
  if (!op().factors.exists()) return;
  for (const Case& c : cases_of(op(), kDraws, Precision::kAll)) {
    ir::Factors factors = op().factors(c.typed());
    check_shapes(c, factors);
    if (!c.module.functions.empty()) continue;  // functions have fixed types: tests/conformance splits the code
    std::vector<int> fs = divisible(c, factors);
    for (size_t i = 0; i < fs.size() && !HasFatalFailure(); ++i) {
      check_split(c, factors, {fs[i]});
      for (size_t j = i + 1; j < fs.size() && !HasFatalFailure(); ++j)
        if (combine_alike(factors, fs[i], fs[j])) check_split(c, factors, {fs[i], fs[j]});
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
