// State leaves that depend on each other's old values, compiled and run.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "cli/driver/compile.h"
#include "frontend/nabla.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"

namespace nabla {
namespace {

// Momentum over a vector and a scalar: both leaves of the scalar are read and written by several kernels.
TEST(State, SmallLeavesMayReplaceEachOther) {
  Program program;
  State a = program.state("a", f32, {3}), b = program.state("b", f32, {3}), c = program.state("c", f32, {});
  program.entry("init", {}, [&](const std::vector<Tensor>&) {
    a.set(ones({3}));
    b.set(ones({3}) * 2.0);
    c.set(ones({}) * 3.0);
  });
  program.entry("step", {}, [&](const std::vector<Tensor>&) -> Outputs {
    Tensor x = a.get(), y = b.get(), z = c.get();
    a.set(y + z);
    b.set(x * 2.0);
    c.set(sum(x) + z);
    return {{"a", a.get()}, {"b", b.get()}, {"c", c.get()}};
  });
  driver::CompiledBundle compiled = driver::compile(program.module(), {}).value();
  auto bundle =
      format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(compiled.bytes)), "test").value();
  auto session = exec::Session::create(std::move(bundle), {.threads = 1}).value();
  ASSERT_TRUE(session->call(session->need_entry("init").value(), {}).ok());
  double x = 1, y = 2, z = 3;
  for (int step = 0; step < 4; ++step) {
    std::vector<Literal> got = session->call(session->need_entry("step").value(), {}).value();
    double next_x = y + z, next_y = x * 2, next_z = 3 * x + z;
    x = next_x, y = next_y, z = next_z;
    EXPECT_EQ(got[0].get(1), x) << step;
    EXPECT_EQ(got[1].get(2), y) << step;
    EXPECT_EQ(got[2].get(0), z) << step;
  }
}

// Names of the user's that mean something in the generated code.
TEST(State, InputsMayHaveAnyName) {
  std::vector<Spec> inputs;
  for (const char* name :
       {"and", "and_", "template", "unix", "n", "begin", "args", "nb_exp", "s_x", "_", "__", "new", "i", "j", "r0"})
    inputs.push_back({name, f32, {5}});
  Program program;
  program.entry("f", inputs, [](const std::vector<Tensor>& x) -> Outputs {
    Tensor total = x[0];
    for (size_t i = 1; i < x.size(); ++i) total = exp(total * 0.25) + x[i];
    return {{"and", total}, {"switch", sum(total)}};
  });
  driver::CompiledBundle compiled = driver::compile(program.module(), {}).value();
  auto bundle =
      format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(compiled.bytes)), "test").value();
  auto session = exec::Session::create(std::move(bundle), {.threads = 1}).value();
  std::vector<Literal> args;
  double expected = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    args.emplace_back(f32, std::vector<int64_t>{5});
    for (int64_t k = 0; k < 5; ++k) args[i].set(k, 0.1 * static_cast<double>(i));
    expected = i == 0 ? 0 : std::exp(expected * 0.25) + 0.1 * static_cast<double>(i);
  }
  EXPECT_NEAR(session->call(session->need_entry("f").value(), args).value()[1].get(0), 5 * expected, 1e-4);
}

template <class T>
struct Net {
  nn::Affine<T> hidden, out;
  template <class V>
  void visit(V&& v) {
    v("hidden", hidden);
    v("out", out);
  }
};

// Compiled kernels in f16 and bf16 learn what f32 ones learn; the loss scale comes down to what f16 can hold.
TEST(State, SixteenBitProductsTrain) {
  auto final_loss = [](std::optional<DType> dtype) {
    Program program;
    Net<Spec> specs{nn::dense_spec(4, 16), nn::dense_spec(16, 1)};
    Net<State> parameters = program.states("", specs);
    nn::LossScale scale(program, {.initial = 16777216, .interval = 50});
    nn::Optimizer<Net> optimizer(program, specs, nn::adam());
    program.entry("init", {{"seed", u32, {2}}}, [&](Tensor seed) {
      nn::init_affine(parameters.hidden, seed);
      nn::init_affine(parameters.out, seed);
      scale.init();
      optimizer.init();
    });
    program.entry("step", {{"x", f32, {32, 4}}}, [&](Tensor x) -> Outputs {
      auto predict = [](Net<Tensor> p, Tensor v) { return nn::dense(tanh(nn::dense(v, p.hidden)), p.out); };
      Tensor wanted = reshape(sin(sum(x, {1})), {32, 1});
      auto loss = [&](Net<Tensor> p) {
        Tensor y = dtype ? autocast(predict, *dtype)(p, x) : predict(p, x);
        return scale.scaled(mean((y - wanted) * (y - wanted)));
      };
      Net<Tensor> values;
      auto from = leaves_of<State>(parameters);
      auto to = leaves_of<Tensor>(values);
      for (size_t i = 0; i < from.size(); ++i) *to[i].second = from[i].second->get();
      Tensor factor = scale.value();
      auto [scaled, g] = value_and_grad(loss)(values);
      auto [gradients, finite] = scale.unscaled(g);
      optimizer.apply(parameters, gradients, 0.01, finite);
      return {{"loss", scaled / factor}, {"scale", factor}};
    });
    driver::CompiledBundle compiled = driver::compile(program.module(), {}).value();
    auto bundle =
        format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(compiled.bytes)), "test").value();
    auto session = exec::Session::create(std::move(bundle), {.threads = 2}).value();
    Literal seed(u32, {2}), x(f32, {32, 4});
    for (int64_t i = 0; i < x.size(); ++i) x.set(i, std::sin(static_cast<double>(7 * i)) * 1.5);
    EXPECT_TRUE(session->call(session->need_entry("init").value(), {seed}).ok());
    std::vector<Literal> out;
    for (int i = 0; i < 300; ++i) out = session->call(session->need_entry("step").value(), {x}).value();
    if (dtype == f16) {
      EXPECT_LT(out[1].get(0), 16777216) << "a scale that overflowed came down";
    }
    return out[0].get(0);
  };
  double plain = final_loss({});
  EXPECT_LT(plain, 0.02);
  EXPECT_LT(final_loss(f16), 0.025);
  EXPECT_LT(final_loss(bf16), 0.03);
}

}  // namespace
}  // namespace nabla
