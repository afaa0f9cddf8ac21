// The time of every pass grows in step with the program. Each shape of program is compiled at a size and at four times
// that size. A pass whose time grows with the square takes 16 times as long, and fails here.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <map>

#include "frontend/nabla.h"
#include "ir/ops/all_ops.h"
#include "ir/target.h"
#include "passes/pass_manager.h"

namespace nabla::lower_tests {
namespace {

using Build = std::function<void(Program&, int)>;

struct Shape {
  std::string name;
  int size;  ///< of the small program; large enough that its passes take milliseconds
  Build build;
};

Spec vector_input() { return {"x", f32, {64}}; }
Spec scalar_input() { return {"x", f32, {}}; }

const std::vector<Shape> kShapes = {
    {"gradient of a chain of scalars", 40,
     [](Program& p, int n) {
       p.entry("f", {scalar_input()}, [n](Tensor x) -> Outputs {
         auto chain = [n](Tensor v) {
           for (int i = 0; i < n; ++i) v = v + 0.001 * sin(v);
           return v;
         };
         return {{"y", grad(chain)(x)}};
       });
     }},
    {"chain of elementwise ops", 500,
     [](Program& p, int n) {
       p.entry("f", {vector_input()}, [n](Tensor x) -> Outputs {
         for (int i = 0; i < n; ++i) x = sin(x) + x;
         return {{"y", x}};
       });
     }},
    {"doublings", 250,
     [](Program& p, int n) {
       p.entry("f", {vector_input()}, [n](Tensor x) -> Outputs {
         for (int i = 0; i < n; ++i) x = (x + x) * 0.5;
         return {{"y", x}};
       });
     }},
    {"many outputs of one input", 500,
     [](Program& p, int n) {
       p.entry("f", {vector_input()}, [n](Tensor x) -> Outputs {
         Outputs out;
         for (int i = 0; i < n; ++i) out.push_back({"y" + std::to_string(i), x + i});
         return out;
       });
     }},
    {"scalars that all rows read", 200,
     [](Program& p, int n) {
       p.entry("f", {vector_input()}, [n](Tensor x) -> Outputs {
         Tensor scale = sum(x);
         Outputs out;
         for (int i = 0; i < n; ++i) {
           scale = scale * 0.5 + cos(scale);
           x = x * scale;
         }
         return {{"y", x}};
       });
     }},
    {"layers with a gradient step", 20,
     [](Program& p, int n) {
       std::vector<State> weights;
       for (int i = 0; i < n; ++i) weights.push_back(p.state("w" + std::to_string(i), f32, {16, 16}));
       p.entry("step", {{"x", f32, {8, 16}}}, [=](Tensor x) -> Outputs {
         auto loss = [=](std::vector<Tensor> w) {
           Tensor h = x;
           for (const Tensor& layer : w) h = tanh(matmul(h, layer)) + h;
           return mean(h * h);
         };
         std::vector<Tensor> now;
         for (const State& w : weights) now.push_back(w.get());
         auto [value, gradients] = value_and_grad(loss)(now);
         for (size_t i = 0; i < weights.size(); ++i) weights[i].set(now[i] - 0.1 * gradients[i]);
         return {{"loss", value}};
       });
     }},
    {"reductions and what they scale", 120,
     [](Program& p, int n) {
       p.entry("f", {vector_input()}, [n](Tensor x) -> Outputs {
         for (int i = 0; i < n; ++i) x = x / sum(exp(x - amax(x)));
         return {{"y", x}};
       });
     }},
};

// Seconds of processor time of each pass, by name: the least of several runs, as other processes share the machine.
std::map<std::string, double> seconds_of_passes(const Shape& shape, int size) {
  Program program;
  shape.build(program, size);
  const ir::Target target = *ir::find_target("cpu:x86-64-v3");
  std::map<std::string, double> least;
  for (int run = 0; run < 2; ++run) {
    ir::Module module = program.module();
    std::map<std::string, double> sum;
    for (const passes::Step& step : passes::default_steps(ir::Stage::kTraced)) {
      std::clock_t start = std::clock();
      auto result = passes::run_passes(module, {step}, ops::all_ops(), target);
      sum[step.pass] += static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
      EXPECT_TRUE(result.ok()) << to_string(result.errors());
      if (!result.ok()) return {};
      module = std::move(result->module);
    }
    for (auto [pass, seconds] : sum) {
      auto [it, first] = least.emplace(pass, seconds);
      it->second = std::min(it->second, seconds);
    }
  }
  return least;
}

void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

class Growth : public testing::TestWithParam<Shape> {};

TEST_P(Growth, OfEveryPassIsLinear) {
  constexpr int kTimes = 4;
  constexpr double kMost = 8;       // times as long; 4 is linear, 16 is quadratic
  constexpr double kNoise = 0.05;   // seconds that a busy machine may add
  std::map<std::string, double> small = seconds_of_passes(GetParam(), GetParam().size);
  for (auto [pass, seconds] : seconds_of_passes(GetParam(), GetParam().size * kTimes))
    EXPECT_LT(seconds, kMost * small[pass] + kNoise)
        << pass << " took " << small[pass] << " s for the small program and " << seconds << " s for one " << kTimes
        << " times as large";
}

std::string test_name(const testing::TestParamInfo<Shape>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Programs, Growth, testing::ValuesIn(kShapes), test_name);

}  // namespace
}  // namespace nabla::lower_tests
