// Do parts of a node give the whole, as its factors, its places and its linearity say? Parts are computed by the
// reference.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/kernel_ir/eval.h"
#include "ir/linearity.h"
#include "ir/ops/all_ops.h"
#include "tests/property/compare.h"
#include "tests/property/driver.h"
#include "tests/property/fixture.h"

namespace nabla::property {
namespace {

class ShardRules : public OpProperty {};

constexpr int kDraws = 100;

// ---- factors

/// A half-open range of one factor's coordinate.
struct Piece {
  int factor;
  int64_t begin, end;
};

bool contains(const std::vector<int>& ids, int factor) {
  return std::find(ids.begin(), ids.end(), factor) != ids.end();
}
/// Does the factor stand in one of the dimensions?
bool splits(const ir::Factors::Tensor& dims, int factor) {
  return std::any_of(dims.begin(), dims.end(), [&](const auto& d) { return contains(d, factor); });
}

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
  /// The part's elements of the operands, or of the results.
  std::vector<Literal> take(const std::vector<Literal>& whole) const { return take(whole, factors_.operands); }
  std::vector<Literal> take_results(const std::vector<Literal>& whole) const { return take(whole, factors_.results); }
  /// Writes a result of the part into that of the whole.
  void put(Literal& whole, int r, const Literal& part) const {
    for_each(shard_.op.results[r], factors_.results[r],
             [&](int64_t i, int64_t j) { copy_element(whole, i, part, j); });
  }
  /// Are results of this part combined with those of an earlier one?
  bool combines(const ir::Factors::Tensor& result) const {
    return std::any_of(pieces_.begin(), pieces_.end(), [&](const Piece& p) {
      bool reduced = factors_.factors[p.factor].kind == ir::Factors::Kind::kReduce && !splits(result, p.factor);
      return reduced && p.begin > 0;
    });
  }

 private:
  std::vector<Literal> take(const std::vector<Literal>& whole, const std::vector<ir::Factors::Tensor>& dims) const {
    std::vector<Literal> out;
    for (size_t k = 0; k < whole.size(); ++k) {
      ir::Type type(whole[k].dtype(), ir::static_shape(whole[k].shape()));
      out.emplace_back(type.dtype, ir::Type(type.dtype, shard_.shape(type.shape, dims[k])).extents());
      for_each(type, dims[k], [&](int64_t i, int64_t j) { copy_element(out[k], j, whole[k], i); });
    }
    return out;
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

/// The part by itself, with these functions.
void run_part(const Case& c, const Splitter& part, const std::vector<Literal>& operands, const ir::Module& functions,
              std::vector<Literal>& got) {
  std::vector<ir::Type> types;
  for (size_t k = 0; k < operands.size(); ++k) types.push_back(part.shard().operand(static_cast<int>(k)));
  ir::Attrs attrs = part.shard().attrs();
  Result<std::vector<ir::Type>> results = ir::infer_types(*c.op, types, attrs, lookup_in(functions));
  ASSERT_TRUE(results.ok()) << to_string(results.errors());
  for (size_t r = 0; r < results->size(); ++r)
    ASSERT_EQ((*results)[r], part.shard().result(static_cast<int>(r))) << "result " << r;
  got = run_reference({*c.op, types, attrs, *results}, operands, functions);
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
    std::vector<Literal> got;
    ASSERT_NO_FATAL_FAILURE(run_part(c, part, part.take(operands), c.module, got)) << what;
    for (size_t r = 0; r < got.size(); ++r) {
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
    if ((reduce || factor.kind == ir::Factors::Kind::kPass) && factor.size.value() >= 2) out.push_back(f);
  }
  return out;
}

bool combine_alike(const ir::Factors& factors, int f, int g) {
  const ir::Factors::Factor &a = factors.factors[f], &b = factors.factors[g];
  return a.kind != ir::Factors::Kind::kReduce || b.kind != ir::Factors::Kind::kReduce || a.combiner == b.combiner;
}

TEST_P(ShardRules, FactorsMayBeSplitAndRecombined) {
  if (!op().factors.exists()) return;
  for (const Case& c : cases_of(op(), kDraws, Precision::kAll)) {
    ir::Factors factors = op().factors(c.typed());
    check_shapes(c, factors);
    if (!c.module.functions.empty()) continue;
    std::vector<int> fs = divisible(c, factors);
    for (size_t i = 0; i < fs.size() && !HasFatalFailure(); ++i) {
      check_split(c, factors, {fs[i]});
      for (size_t j = i + 1; j < fs.size() && !HasFatalFailure(); ++j)
        if (combine_alike(factors, fs[i], fs[j])) check_split(c, factors, {fs[i], fs[j]});
    }
    if (HasFatalFailure()) return;
  }
}

// ---- control flow

/// An op whose functions are elementwise, so that one part of all its operands gives that part of all its results. Its
/// text has {0} in the place of the type of a value; `sequences` of the last operands have 3 such values.
struct Elementwise {
  const char* op;
  std::vector<ir::Operand> selectors;
  int values, sequences;
  ir::Attrs attrs;
};

constexpr const char* kElementwise = R"(
func @product(%x: {0}, %y: {0}) {{ %z = mul(%x, %y)  return %z, %x }}
func @sum(%x: {0}, %y: {0}) {{ %z = add(%x, %y)  return %z, %y }}
func @cell(%c: {0}, %h: {0}, %x: {0}) {{ %a = mul(%h, %c)  %b = add(%a, %x)  return %b, %a }}
func @step(%c: {0}, %x: {0}) {{ %s = sin(%x)  %y = mul(%s, %c)  return %y }}
func @never(%c: {0}, %x: {0}) {{ %no = constant() {{value=bool[] {{false}}}}  return %no }}
)";

std::vector<Elementwise> elementwise_functions() {
  auto f = [](const char* name) { return ir::FunctionRef{name}; };
  ir::Operand yes{{DType::kBool, {}}, {1, 1}}, second{{DType::kI32, {}}, {1, 1}};
  return {{"call", {}, 2, 0, {{"callee", f("product")}}},
          {"cond", {yes}, 2, 0, {{"then", f("product")}, {"else", f("sum")}}},
          {"switch", {second}, 2, 0, {{"branches", ir::FunctionRefs{f("product"), f("sum")}}}},
          {"while",
           {},
           2,
           0,
           {{"cond", f("never")}, {"body", f("step")}, {"consts", int64_t{1}}, {"trip_count", int64_t{3}}}},
          {"scan",
           {},
           2,
           1,
           {{"body", f("cell")}, {"consts", int64_t{1}}, {"carries", int64_t{1}}, {"length", ir::Shape{3}}}}};
}

// Where the functions are elementwise, all factors of one size are one that passes.
TEST(ControlFactors, PassWhereFunctionsAreElementwise) {
  ir::Type value{DType::kF32, {5, 4}};
  for (const Elementwise& e : elementwise_functions()) {
    const ir::OpDef& op = ops::all_ops().get(e.op);
    Case c{&op, e.op, e.selectors, ir::complete_attrs(op, e.attrs).value(), {}, {}, 7};
    for (int i = 0; i < e.values; ++i) c.operands.push_back({value, {}});
    for (int i = 0; i < e.sequences; ++i) c.operands.push_back({{DType::kF32, {3, 5, 4}}, {}});
    auto functions = [&](const ir::Type& t) { return module_of(fmt::format(fmt::runtime(kElementwise), t.str())); };
    c.module = functions(value);
    c.results = ir::infer_types(op, c.types(), c.attrs, lookup_in(c.module)).value();
    ir::TypedOp whole = c.typed();
    ir::Factors factors = op.factors(whole);
    check_shapes(c, factors);
    std::vector<Literal> operands = c.values(false), expected = run_reference(whole, operands, c.module), joined;
    for (const Literal& x : expected) joined.emplace_back(x.dtype(), x.shape());
    for (auto [begin, end] : {std::pair<int64_t, int64_t>{0, 3}, {3, 5}}) {
      std::vector<Piece> pieces;
      for (int f = 0; f < static_cast<int>(factors.factors.size()); ++f)
        if (factors.factors[f].size.is(5)) pieces.push_back({f, begin, end});
      Splitter part(whole, factors, pieces);
      std::vector<Literal> got;
      ir::Module module = functions({DType::kF32, {ir::Dim(end - begin), 4}});
      ASSERT_NO_FATAL_FAILURE(run_part(c, part, part.take(operands), module, got)) << c.str() << factors.str();
      for (size_t r = 0; r < got.size(); ++r) part.put(joined[r], static_cast<int>(r), got[r]);
    }
    auto text = difference(expected, joined);
    EXPECT_FALSE(text) << c.str() << " " << factors.str() << ": " << *text;
  }
}

// The ties are those of ControlFlow, and there are no others.
TEST_P(ShardRules, CarriesAreTiedToTheirResults) {
  if (!op().control) return;
  for (const Case& c : cases_of(op(), 20, Precision::kAll)) {
    ir::TypedOp whole = c.typed();
    ir::Factors factors = op().factors(whole);
    ir::ControlFlow flow = op().control(whole);
    bool loop = flow.kind != ir::ControlFlow::Kind::kBranch;
    int first = loop ? flow.consts : static_cast<int>(c.operands.size());
    std::vector<int> uses(factors.factors.size(), 0);
    for (const auto& tensors : {factors.operands, factors.results})
      for (const ir::Factors::Tensor& dims : tensors)
        for (const std::vector<int>& ids : dims) {
          ASSERT_EQ(ids.size(), 1u) << c.str() << " " << factors.str();
          ++uses[ids[0]];
        }
    for (int k = 0; k < flow.carries; ++k) {
      EXPECT_EQ(factors.operands[first + k], factors.results[k]) << c.str() << " " << factors.str();
      for (const std::vector<int>& ids : factors.results[k]) EXPECT_EQ(uses[ids[0]]--, 2) << factors.str();
    }
    int sequences = 0, trips = -1;
    auto sliced = [&](const ir::Factors::Tensor& dims) {
      ASSERT_FALSE(dims.empty());
      if (trips < 0) trips = dims[0][0];
      ++sequences;
      EXPECT_EQ(dims[0][0], trips) << c.str() << " " << factors.str();
      EXPECT_EQ(factors.factors[trips].kind, ir::Factors::Kind::kOrdered);
    };
    if (flow.kind == ir::ControlFlow::Kind::kLoop) {
      for (size_t k = first + flow.carries; k < c.operands.size(); ++k) sliced(factors.operands[k]);
      for (size_t r = flow.carries; r < c.results.size(); ++r) sliced(factors.results[r]);
    }
    for (int f = 0; f < static_cast<int>(uses.size()); ++f) {
      EXPECT_EQ(uses[f], f == trips ? sequences : 1) << c.str() << " " << factors.str();
      EXPECT_TRUE(f == trips || factors.factors[f].kind == ir::Factors::Kind::kFunctions) << factors.str();
    }
  }
}

// ---- factors whose parts need each other

// The piece that the op comes to first, and the rest.
std::pair<Piece, Piece> in_order(const Case& c, const ir::Factors& factors, int f) {
  int64_t size = factors.factors[f].size.value(), middle = (size + 1) / 2;
  Piece low{f, 0, middle}, high{f, middle, size};
  bool reverse = c.attrs.find("reverse") && c.attrs.get_bool("reverse");
  return reverse ? std::pair(high, low) : std::pair(low, high);
}

// The first part of an ordered factor needs nothing of the others. The later ones do, or the factor would pass.
TEST_P(ShardRules, OrderedFactorsBeginAlone) {
  if (!op().factors.exists()) return;
  int checked = 0, later_differs = 0;
  for (const Case& c : cases_of(op(), kDraws, Precision::kAll)) {
    ir::TypedOp whole = c.typed();
    ir::Factors factors = op().factors(whole);
    std::vector<Literal> operands = c.values(false), expected = run_reference(whole, operands, c.module);
    for (int f = 0; f < static_cast<int>(factors.factors.size()); ++f) {
      if (factors.factors[f].kind != ir::Factors::Kind::kOrdered || factors.factors[f].size.value() < 2) continue;
      auto [first, rest] = in_order(c, factors, f);
      for (const Piece& piece : {first, rest}) {
        Splitter part(whole, factors, {piece});
        std::vector<Literal> got, of_whole = part.take_results(expected);
        ASSERT_NO_FATAL_FAILURE(run_part(c, part, part.take(operands), c.module, got)) << c.str();
        for (size_t r = 0; r < got.size(); ++r) {
          if (!splits(factors.results[r], f)) continue;  // a carry is the last part's
          auto text = difference(of_whole[r], got[r]);
          if (piece.begin == rest.begin)
            later_differs += text.has_value();
          else
            ASSERT_FALSE(text) << c.str() << " " << factors.str() << ", result " << r << ": " << *text;
          ++checked;
        }
      }
    }
  }
  EXPECT_TRUE(checked == 0 || later_differs > 0) << "parts of an ordered factor do not need each other";
}

// The trips of a scan in two parts: the second one begins with the carries of the first.
TEST(ControlFactors, TripsGoOnWithTheCarries) {
  int checked = 0;
  for (const Case& c : cases_of(ops::all_ops().get("scan"), kDraws, Precision::kAll)) {
    ir::TypedOp whole = c.typed();
    ir::Factors factors = c.op->factors(whole);
    int f = factors.operands.back()[0][0];
    if (factors.factors[f].size.value() < 2) continue;
    std::vector<Literal> operands = c.values(false), expected = run_reference(whole, operands, c.module), joined;
    for (const Literal& x : expected) joined.emplace_back(x.dtype(), x.shape());
    auto [first, rest] = in_order(c, factors, f);
    ir::ControlFlow flow = c.op->control(whole);
    for (const Piece& piece : {first, rest}) {
      Splitter part(whole, factors, {piece});
      std::vector<Literal> got;
      ASSERT_NO_FATAL_FAILURE(run_part(c, part, part.take(operands), c.module, got)) << c.str();
      for (size_t r = 0; r < got.size(); ++r) part.put(joined[r], static_cast<int>(r), got[r]);
      for (int k = 0; k < flow.carries; ++k) operands[flow.consts + k] = got[k];
    }
    auto text = difference(expected, joined);
    ASSERT_FALSE(text) << c.str() << ": " << *text;
    ++checked;
  }
  EXPECT_GT(checked, 20);
}

/// Where an element stands along the factors that pass.
using Line = std::map<int, int64_t>;

Line line_of(int64_t i, const std::vector<int64_t>& shape, const ir::Factors& factors,
             const ir::Factors::Tensor& dims) {
  Line out;
  for (size_t d = shape.size(); d-- > 0; i /= shape[d]) {
    int64_t at = i % shape[d];
    for (size_t k = dims[d].size(); k-- > 0;) {
      const ir::Factors::Factor& factor = factors.factors[dims[d][k]];
      if (factor.kind == ir::Factors::Kind::kPass) out[dims[d][k]] = at % factor.size.value();
      at /= factor.size.value();
    }
  }
  return out;
}

// Along a permuted factor a result holds elements of an operand, each at most once, and the scalar that fills.
TEST_P(ShardRules, PermutedFactorsMoveElements) {
  if (!op().factors.exists()) return;
  for (const Case& c : cases_of(op(), kDraws, Precision::kAll)) {
    ir::Factors factors = op().factors(c.typed());
    bool permutes = std::any_of(factors.factors.begin(), factors.factors.end(),
                                [](const auto& f) { return f.kind == ir::Factors::Kind::kPermute; });
    if (!permutes) continue;
    std::vector<Literal> operands = c.values(false), results = run_reference(c.typed(), operands, c.module);
    auto number = [](const Literal& x, int64_t i) { return x.get(i); };
    std::map<Line, std::map<double, int64_t>> elements;
    std::vector<double> fills;
    for (size_t k = 0; k < operands.size(); ++k)
      for (int64_t i = 0; i < operands[k].size(); ++i) {
        if (operands[k].rank() == 0 && operands.size() > 1)
          fills.push_back(number(operands[k], i));
        else
          ++elements[line_of(i, operands[k].shape(), factors, factors.operands[k])][number(operands[k], i)];
      }
    for (size_t r = 0; r < results.size(); ++r)
      for (int64_t i = 0; i < results[r].size(); ++i) {
        double v = number(results[r], i);
        if (std::find(fills.begin(), fills.end(), v) != fills.end()) continue;
        int64_t left = elements[line_of(i, results[r].shape(), factors, factors.results[r])][v]--;
        ASSERT_GT(left, 0) << c.str() << " " << factors.str() << ": element " << i << " is " << v;
      }
  }
}

// ---- linearity

bool applies(const ir::Linearity::Claim& claim, const Case& c) {
  using kernel_ir::Combiner;
  bool bits = claim.combiner == Combiner::kAnd || claim.combiner == Combiner::kOr;
  bool rounds = claim.combiner == Combiner::kSum || claim.combiner == Combiner::kProd;
  return std::all_of(claim.operands.begin(), claim.operands.end(), [&](int k) {
    DType dtype = c.operands[k].type.dtype;
    bool number = claim.floats_only ? is_float(dtype) : dtype != DType::kBool;
    return (bits ? !is_float(dtype) : number) && !(rounds && is_narrow(c));
  });
}

Literal combined(kernel_ir::Combiner combiner, const Literal& x, const Literal& y) {
  Literal out(x.dtype(), x.shape());
  for (int64_t i = 0; i < out.size(); ++i)
    kernel_ir::set(out, i, kernel_ir::combine(combiner, x.dtype(), kernel_ir::get(x, i), kernel_ir::get(y, i)));
  return out;
}

double largest(const Literal& x) {
  double out = 0;
  for (int64_t i = 0; is_float(x.dtype()) && i < x.size(); ++i)
    if (std::isfinite(x.get(i))) out = std::max(out, std::abs(x.get(i)));
  return out;
}

void check_claim(const Case& c, kernel_ir::Combiner combiner, const std::vector<int>& pending) {
  std::vector<Literal> x = c.values(false), y = x, both = x;
  ir::Rng rng(c.seed + 1);
  for (int k : pending) {
    y[k] = draw_literal(c.operands[k], rng, false);
    both[k] = combined(combiner, x[k], y[k]);
  }
  auto f = [&](const std::vector<Literal>& operands) { return run_reference(c.typed(), operands, c.module); };
  std::vector<Literal> of_x = f(x), of_y = f(y), of_both = f(both);
  for (size_t r = 0; r < of_x.size(); ++r) {
    Tolerance tolerance = default_tolerance(of_x[r].dtype());
    tolerance.least_scale = std::max(largest(of_x[r]), largest(of_y[r]));  // these may cancel
    auto text = difference(combined(combiner, of_x[r], of_y[r]), of_both[r], tolerance);
    ASSERT_FALSE(text) << c.str() << ", " << kernel_ir::name_of(combiner) << " pending in operand " << pending[0]
                       << (pending.size() > 1 ? " and others" : "") << ", result " << r << ": " << *text;
  }
}

TEST_P(ShardRules, PendingValuesMayBeCombinedAfterwards) {
  for (const ir::Linearity::Claim& claim : op().linearity.claims) {
    int checked = 0;
    for (const Case& c : cases_of(op(), 40, Precision::kAll)) {
      if (!applies(claim, c)) continue;
      ++checked;
      std::vector<int> all = ir::operands_of(op(), claim, c.operands.size());
      if (claim.kind == ir::Linearity::Kind::kJointly)
        check_claim(c, claim.combiner, all);
      else
        for (int k : all) check_claim(c, claim.combiner, {k});
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(checked, 0) << kernel_ir::name_of(claim.combiner) << ": no example is of a dtype that it combines";
  }
}

// ---- positions

// argmax and argmin of parts along the axis: the better value's position in the whole, the first one where they tie.
TEST(Positions, OfPartsAreThoseInTheWhole) {
  for (const char* name : {"argmax", "argmin"}) {
    int checked = 0;
    for (const Case& c : cases_of(ops::all_ops().get(name), kDraws, Precision::kAll)) {
      ir::TypedOp whole = c.typed();
      ir::Factors factors = c.op->factors(whole);
      int64_t axis = c.attrs.get_int("axis");
      int f = factors.operands[0][axis][0];
      if (factors.factors[f].size.value() < 2) continue;
      std::vector<Literal> operands = c.values(false), expected = run_reference(whole, operands, c.module);
      const Literal& x = operands[0];
      int64_t inner = 1, extent = x.shape()[axis];
      for (int d = static_cast<int>(axis) + 1; d < x.rank(); ++d) inner *= x.shape()[d];
      const ir::Shape& offset = c.attrs.get_shape("offset");
      int64_t begin = offset.empty() ? 0 : offset[axis].value();
      auto value = [&](int64_t j, int64_t position) {
        return x.get((j / inner * extent + position - begin) * inner + j % inner);
      };
      std::vector<Literal> best, got;
      for (const std::vector<Piece>& pieces : halves(factors, {f})) {
        Splitter part(whole, factors, pieces);
        ASSERT_NO_FATAL_FAILURE(run_part(c, part, part.take(operands), c.module, got)) << c.str();
        for (int64_t j = 0; j < got[0].size(); ++j) {
          int64_t at = got[0].get_i(j), least = begin + pieces[0].begin;
          ASSERT_TRUE(at >= least && at < begin + pieces[0].end) << c.str() << ": " << at;
          if (best.empty()) continue;
          double a = value(j, best[0].get_i(j)), b = value(j, at);
          bool wins = c.op->name == "argmax" ? b > a : b < a;
          if (wins || (std::isnan(b) && !std::isnan(a))) best[0].set_i(j, at);
        }
        if (best.empty()) best = got;
      }
      auto text = difference(expected, best);
      ASSERT_FALSE(text) << c.str() << ": " << *text;
      ++checked;
    }
    EXPECT_GT(checked, 20) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, ShardRules, ::testing::ValuesIn(covered_ops()), param_name);

}  // namespace
}  // namespace nabla::property
