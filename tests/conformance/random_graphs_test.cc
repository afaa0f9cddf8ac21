// Random functions, compiled and run, against the interpreter; and what fusion must reach on them: how many kernels,
// and how many bytes between them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>

#include "ir/ops/all_ops.h"
#include "ir/plan.h"
#include "ir/reference/interpreter.h"
#include "ir/text.h"
#include "tests/conformance/cpu_run.h"
#include "tests/nightly.h"
#include "tests/property/compare.h"

namespace nabla {
namespace {

using ir::Val;

enum class Family { kElementwise, kMixed };

// Sizes of the graphs: drawn ones, or symbols that every run chooses.
struct GraphShape {
  ir::Dim rows, columns;
};
GraphShape symbolic_shape(uint64_t seed) {
  auto symbol = [](const char* name, int64_t max) {
    return ir::Dim::symbol(std::make_shared<const ir::Symbol>(ir::Symbol{name, 1, max, 1}));
  };
  ir::Dim n = symbol("n", 33), m = symbol("m", 40);
  GraphShape shapes[] = {{n, 24}, {n, m}, {7, m}, {n * 2, m}, {n, n}};
  return shapes[seed % std::size(shapes)];
}

// Draws a function over matrices. `barriers` counts the nodes whose operands or results must be in memory: products,
// reductions (their readers may follow in the same kernel), and moves that change an element's place.
class GraphDrawer {
 public:
  GraphDrawer(uint64_t seed, Family family, std::optional<GraphShape> shape = {}) : rng_(seed), family_(family) {
    if (shape) rows_ = shape->rows, columns_ = shape->columns;
  }

  ir::Function draw(const std::string& name, int nodes) {
    ir::FunctionBuilder b(name, ops::all_ops());
    for (int i = 0; i < 3; ++i) pool_.push_back(b.param("x" + std::to_string(i), ir::Type(DType::kF32, shape())));
    for (int i = 0; i < nodes; ++i) pool_.push_back(step(b));
    return b.finish({pool_.back(), pool_[pool_.size() - 2]});
  }
  int barriers() const { return barriers_; }

 private:
  int pick(int n) { return static_cast<int>(rng_() % n); }
  Val any() { return pool_[pool_.size() - 1 - pick(std::min<int>(static_cast<int>(pool_.size()), 4))]; }
  ir::Shape shape() {
    if (rows_.is(0)) rows_ = 1 + pick(20), columns_ = 1 + pick(40);
    return {rows_, columns_};
  }
  Val step(ir::FunctionBuilder& b) {
    Val x = any(), y = any();
    int kind = pick(family_ == Family::kElementwise ? 6 : 13);
    switch (kind) {
      case 0:
        return x + y;
      case 1:
        return x * b.op("tanh", {y});
      case 2:
        return b.op("maximum", {x, -y});
      case 3:
        return ir::select(b.op("gt", {x, y}), x * 0.5, y + 1.0);
      case 4:
        return b.op("exp", {b.op("tanh", {x})});
      case 5:
        return b.op("abs", {x - y * 0.25});
      case 6:
        return ++barriers_, x - ir::broadcast_along(ir::reduce_max(x, {1}), x.shape(), {1});
      case 7:
        return ++barriers_, x * ir::broadcast_along(ir::reduce_sum(y, {0}) * 0.01, x.shape(), {0});
      case 8:
        return ++barriers_, b.op("softmax", {x}, {{"axis", int64_t{1}}});
      case 9: {
        barriers_ += 3;  // the transpose is stored too: a product reads memory
        Val square = b.op("dot_general", {x, ir::transpose(y, {1, 0})},
                          {{"lhs_contract", ir::Ints{1}}, {"rhs_contract", ir::Ints{0}}});
        return b.op("dot_general", {b.op("tanh", {square}), x},
                    {{"lhs_contract", ir::Ints{1}}, {"rhs_contract", ir::Ints{0}}}) *
               0.1;
      }
      case 10:
        return barriers_ += 2, ir::transpose(ir::reshape(x, {columns_, rows_}), {1, 0}) + y;
      case 11:
        return ++barriers_, b.op("reverse", {x}, {{"axes", ir::Ints{1}}}) + y;
      default:
        return ++barriers_, ir::reshape(ir::reshape(x, {rows_ * columns_}) * 2.0, x.shape());
    }
  }

  std::mt19937_64 rng_;
  Family family_;
  std::vector<Val> pool_;
  ir::Dim rows_ = 0, columns_ = 0;
  int barriers_ = 0;
};

struct Drawn {
  ir::Module module;
  std::vector<int> barriers;
};

Drawn draw_module(uint64_t seed, Family family, int functions, bool symbolic = false) {
  Drawn out;
  out.module.stage = ir::Stage::kFlat;
  for (int i = 0; i < functions; ++i) {
    GraphDrawer drawer(seed * 100 + i, family, symbolic ? std::optional(symbolic_shape(seed + i)) : std::nullopt);
    std::string name = "g" + std::to_string(i);
    out.module.functions.push_back(std::make_shared<ir::Function>(drawer.draw(name, 4 + i)));
    out.module.entries.push_back({name, name, {}, {}, {"x0", "x1", "x2"}, {"y0", "y1"}});
    out.barriers.push_back(drawer.barriers());
  }
  return out;
}

std::vector<Literal> draw_inputs(const ir::Function& f, uint64_t seed, std::map<std::string, int64_t> sizes = {}) {
  std::mt19937_64 rng(seed);
  std::vector<Literal> out;
  for (ir::ValueId p : f.params) {
    std::vector<int64_t> shape;
    for (const ir::Dim& d : f.type(p).shape)
      shape.push_back(d.eval([&](const ir::Symbol& s) { return sizes.at(s.name); }));
    Literal x(DType::kF32, std::move(shape));
    for (int64_t i = 0; i < x.size(); ++i) x.set(i, std::uniform_real_distribution<double>(-1, 1)(rng));
    out.push_back(std::move(x));
  }
  return out;
}

int launches(const ir::Function& f) {
  return static_cast<int>(
      std::count_if(f.nodes.begin(), f.nodes.end(), [](const ir::Node& n) { return n.op->name == "launch"; }));
}

class RandomGraphs : public testing::TestWithParam<int> {
 protected:
  void check_values(const Drawn& drawn, const conformance::Compiled& compiled) {
    for (size_t i = 0; i < drawn.module.functions.size(); ++i) {
      const ir::Function& f = *drawn.module.functions[i];
      std::vector<Literal> inputs = draw_inputs(f, i);
      std::vector<Literal> want = ir::interpret(drawn.module, f.name, inputs).value();
      std::vector<Literal> got = compiled.session->call(static_cast<int>(i), inputs).value();
      property::Tolerance tolerance{3e-5};  // sums of products of sums
      EXPECT_EQ(property::difference(want, got, tolerance).value_or(""), "") << f.name << " of seed " << GetParam();
    }
  }
};

TEST_P(RandomGraphs, ElementwiseGraphsAreOneKernelPerResultAndMoveOnlyInputsAndOutputs) {
  Drawn drawn = draw_module(GetParam(), Family::kElementwise, 8);
  conformance::Compiled compiled = conformance::compile_for_cpu(drawn.module).value();
  check_values(drawn, compiled);
  for (const ir::FunctionPtr& f : compiled.planned.functions) {
    EXPECT_LE(launches(*f), 2) << f->name;
    EXPECT_EQ(compiled.planned.plan->functions.at(f->name).temporary_bytes, 0) << f->name;
  }
}

TEST_P(RandomGraphs, MixedGraphsNeedNoMoreKernelsThanBarriersAndResults) {
  Drawn drawn = draw_module(GetParam() + 50, Family::kMixed, 8);
  conformance::Compiled compiled = conformance::compile_for_cpu(drawn.module).value();
  check_values(drawn, compiled);
  for (size_t i = 0; i < drawn.module.functions.size(); ++i) {
    const ir::Function& f = *compiled.planned.functions[i];
    EXPECT_LE(launches(f), drawn.barriers[i] + 2) << f.name;
    // Between kernels: at most what each barrier stores and reads again, as matrices.
    int64_t matrix = drawn.module.functions[i]->type(0).bytes().value(), moved = 0;
    for (const ir::Node& n : f.nodes)
      for (ir::ValueId id : n.results) moved += f.type(id).bytes().value();
    int64_t square = drawn.module.functions[i]->type(0).shape[0].value();
    EXPECT_LE(moved, (drawn.barriers[i] + 2) * std::max(matrix, square * square * 4) * 5 / 4) << f.name;  // and vectors
  }
}

// One bundle, every size: the smallest, the bounds, primes, and sizes around a vector's; back and forth, so that a
// tuple that was bound before is used again.
TEST_P(RandomGraphs, OneBundleRunsEverySize) {
  Drawn drawn = draw_module(GetParam() + 90, Family::kMixed, 8, true);
  conformance::Compiled compiled =
      conformance::compile_for_cpu(drawn.module, "cpu:native", GetParam() % 2 == 0).value();
  const std::pair<int64_t, int64_t> sizes[] = {{33, 40}, {1, 1}, {7, 13}, {16, 40}, {1, 1}, {33, 17}, {2, 31}};
  for (size_t i = 0; i < drawn.module.functions.size(); ++i) {
    const ir::Function& f = *drawn.module.functions[i];
    for (auto [n, m] : sizes) {
      std::vector<Literal> inputs = draw_inputs(f, i, {{"n", n}, {"m", m}});
      std::vector<Literal> want = ir::interpret(drawn.module, f.name, inputs).value();
      std::vector<Literal> got = compiled.session->call(static_cast<int>(i), inputs).value();
      property::Tolerance tolerance{3e-5};
      EXPECT_EQ(property::difference(want, got, tolerance).value_or(""), "")
          << f.name << " of seed " << GetParam() << " at n=" << n << " m=" << m << "\n"
          << ir::print(f);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphs, testing::Range(1, is_nightly() ? 6 : 3));

}  // namespace
}  // namespace nabla
