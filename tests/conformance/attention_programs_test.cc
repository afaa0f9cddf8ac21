// Attention that a GPU computes whole: under vmap, with a scale of its own, with dropout, there and back. No kernel of
// the program writes scores, and its values are those of the CPU's program.
#include <gtest/gtest.h>

#include <cmath>

#include "cli/driver/compile.h"
#include "frontend/nabla.h"
#include "ir/kernel_ir/kernel.h"
#include "tests/conformance/interpret_planned.h"
#include "tests/transforms/random_function.h"

namespace nabla {
namespace {

constexpr int64_t kExamples = 3, kBatch = 2, kHeads = 2, kQueries = 21, kKeys = 22, kWidth = 4;
using In = std::vector<Tensor>;

enum Operand { kQ, kK, kV, kKey, kMask, kAdded };
struct Case {
  const char* name;
  std::vector<Operand> operands;  ///< after q, k, v
  std::vector<Operand> mapped;    ///< those that vmap maps; none: no vmap
  bool back = false;              ///< gradients of q, k and v instead of the result
  bool back_of_all = false;       ///< of the sum over all examples, instead of each example's own
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

Spec spec_of(Operand x, bool mapped) {
  const int64_t rows = x == kQ ? kQueries : kKeys, heads = x == kQ ? kHeads : 1;
  Spec s("x", f32, {kBatch, heads, rows, kWidth});
  if (x == kKey) s = {"key", u32, {2}};
  if (x == kMask) s = {"mask", boolean, {kBatch, 1, kQueries, kKeys}};
  if (x == kAdded) s = {"added", f32, {1, kHeads, kQueries, kKeys}};
  if (mapped) s.shape.insert(s.shape.begin(), kExamples);
  s.name = std::string("x") + std::to_string(x);
  return s;
}

Tensor attended(const Case& c, const In& x) {
  std::vector<Arg> extras;
  bool drops = false;
  for (Operand o : c.operands) drops |= o == kKey;
  for (size_t i = 3; i < x.size(); ++i) extras.emplace_back(x[i]);
  return attention(x[kQ], x[kK], x[kV], extras, /*causal=*/true, /*scale=*/0.3, drops ? 0.25 : 0.0);
}
In result(const Case& c, const In& x) {
  if (!c.back) return {attended(c, x)};
  auto loss = [&](Tensor q, Tensor k, Tensor v) {
    In all = {q, k, v};
    all.insert(all.end(), x.begin() + 3, x.end());
    Tensor y = attended(c, all);
    return sum(y * y);
  };
  auto [dq, dk, dv] = grad(loss, wrt<0, 1, 2>)(x[kQ], x[kK], x[kV]);
  return {dq, dk, dv};
}
// f of every example; what is not mapped is the same for all.
template <class F>
In of_examples(const Case& c, const In& x, F f) {
  if (c.mapped.empty()) return f(x);
  std::vector<Operand> names = {kQ, kK, kV};
  names.insert(names.end(), c.operands.begin(), c.operands.end());
  auto is_mapped = [&](size_t i) { return std::count(c.mapped.begin(), c.mapped.end(), names[i]) > 0; };
  In given;
  for (size_t i = 0; i < x.size(); ++i)
    if (is_mapped(i)) given.push_back(x[i]);
  return vmap([&](In some) {
    In all = x;
    for (size_t i = 0, next = 0; i < x.size(); ++i)
      if (is_mapped(i)) all[i] = some[next++];
    return f(all);
  })(given);
}

ir::Module traced(const Case& c, std::vector<Literal>& inputs) {
  Program program;
  std::vector<Spec> specs;
  std::vector<Operand> names = {kQ, kK, kV};
  names.insert(names.end(), c.operands.begin(), c.operands.end());
  for (Operand o : names) {
    specs.push_back(spec_of(o, std::count(c.mapped.begin(), c.mapped.end(), o) > 0));
    inputs.push_back(transforms::random_literal({specs.back().dtype, specs.back().shape}, o + 1));
    for (int64_t i = 0; specs.back().dtype != f32 && i < inputs.back().size(); ++i)
      inputs.back().set_i(i, o == kKey ? 77 * i + 5 : (i * 7 + i / 11) % 5 > 0);
  }
  program.entry("f", specs, [&](const In& x) -> Outputs {
    In out;
    if (c.back_of_all) {
      auto loss = [&](Tensor q, Tensor k, Tensor v) {
        In all = {q, k, v};
        all.insert(all.end(), x.begin() + 3, x.end());
        Tensor y = of_examples(c, all, [&](const In& one) { return In{attended(c, one)}; })[0];
        return sum(y * y);
      };
      auto [dq, dk, dv] = grad(loss, wrt<0, 1, 2>)(x[kQ], x[kK], x[kV]);
      out = {dq, dk, dv};
    } else {
      out = of_examples(c, x, [&](const In& one) { return result(c, one); });
    }
    Outputs named;
    for (const Tensor& t : out) named.push_back({"y" + std::to_string(named.size()), t});
    return named;
  });
  return program.module();
}

class AttentionPrograms : public testing::TestWithParam<Case> {};

TEST_P(AttentionPrograms, StayWholeOnGpus) {
  std::vector<Literal> inputs;
  ir::Module module = traced(GetParam(), inputs);
  ir::Module gpu = driver::lower_module(module, {.target = "sm_90a", .library = false}).value().planned;
  ir::Module cpu = driver::lower_module(module, {.target = "cpu:x86-64-v3", .library = false}).value().planned;
  int whole = 0;
  for (const auto& kernel : gpu.kernels) {
    whole += kernel->procedure.has_value();
    for (const kernel_ir::Buffer& b : kernel->buffers) {
      if (b.dtype == DType::kBool || b.role == kernel_ir::BufferRole::kIn) continue;
      int64_t elements = 1;
      for (const ir::Dim& d : b.shape) elements *= d.value();
      EXPECT_LT(elements, kBatch * kHeads * kQueries * kKeys) << print(*kernel);
    }
  }
  bool back = GetParam().back || GetParam().back_of_all;
  EXPECT_EQ(whole, back ? 2 : 1);
  std::vector<Literal> state, got = conformance::interpret_planned(gpu, "f", inputs, state).value(),
                              want = conformance::interpret_planned(cpu, "f", inputs, state).value();
  ASSERT_EQ(got.size(), want.size());
  for (size_t r = 0; r < got.size(); ++r) {
    ASSERT_EQ(got[r].shape(), want[r].shape());
    double largest = 0;
    for (int64_t i = 0; i < got[r].size(); ++i) {
      ASSERT_NEAR(got[r].get(i), want[r].get(i), 2e-5) << "result " << r << " at " << i;
      largest = std::max(largest, std::fabs(want[r].get(i)));
    }
    EXPECT_GT(largest, 0.01);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, AttentionPrograms,
    testing::Values(Case{"Scaled", {}, {}}, Case{"ScaledBack", {}, {}, true}, Case{"Dropout", {kKey}, {}},
                    Case{"DropoutBack", {kKey}, {}, true}, Case{"MaskAndDropoutBack", {kMask, kKey}, {}, true},
                    Case{"Examples", {}, {kQ, kK, kV}}, Case{"ExamplesOfQueries", {}, {kQ}},
                    Case{"ExamplesOfKeys", {}, {kK, kV}}, Case{"ExamplesOfValues", {}, {kV}},
                    Case{"ExamplesOfQueriesBehindAMask", {kMask}, {kQ}}, Case{"ExamplesOfMasks", {kMask}, {kQ, kMask}},
                    Case{"ExamplesBack", {kMask}, {kQ, kK, kV}, true}, Case{"ExamplesOfQueriesBack", {}, {kQ}, true},
                    Case{"BackOfExamples", {}, {kQ, kK, kV}, false, true},
                    Case{"BackOfExamplesOfQueries", {}, {kQ}, false, true},
                    Case{"BackOfExamplesOfKeys", {}, {kK, kV}, false, true},
                    Case{"ExamplesWithOneKey", {kKey}, {kQ, kK, kV}, true},
                    Case{"ExamplesWithAKeyEach", {kMask, kKey}, {kQ, kK, kV, kKey}, true},
                    Case{"ExamplesOfKeysForDropout", {kKey}, {kKey}}, Case{"Added", {kAdded}, {}},
                    Case{"AddedBack", {kAdded}, {}, true}, Case{"AddedAndDropoutBack", {kAdded, kKey}, {}, true},
                    Case{"ExamplesBehindWhatIsAdded", {kAdded}, {kQ, kK, kV}, true}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace nabla
