// Products with an array of any other dtype in the same kernel: its elements are as wide as vectors of the product's, or not.
#include <gtest/gtest.h>

#include <random>

#include "cli/driver/compile.h"
#include "frontend/nabla.h"
#include "ir/reference/interpreter.h"
#include "tests/conformance/cpu_run.h"
#include "tests/nightly.h"
#include "tests/property/compare.h"

namespace nabla {
namespace {

struct Size {
  int64_t m, k, n;
};
// Every size compiles 26 kernels for each dtype: a run of all tests takes an awkward size and one of whole tiles.
std::vector<Size> sizes() { return some_of<Size>({{5, 7, 9}, {64, 64, 64}, {4, 4, 16}, {24, 30, 61}}, 2); }
constexpr DType kOthers[] = {boolean, i8, u8, i16, u16, i32, u32, i64, u64, bf16, f16, f32, f64};

class Products : public testing::TestWithParam<DType> {};

TEST_P(Products, AreRightBesideEveryDType) {
  const DType dtype = GetParam();
  Program program;
  for (const Size& s : sizes())
    for (DType other : kOthers) {
      std::string name = fmt::format("{}_{}", s.n, name_of(other));
      program.entry(name, {{"a", dtype, {s.m, s.k}}, {"b", dtype, {s.k, s.n}}, {"x", other, {s.m, s.n}}},
                    [&](const std::vector<Tensor>& in) -> Outputs {
                      Tensor y = matmul(in[0], in[1]);
                      Tensor chosen = other == boolean ? in[2] : in[2] < 2;
                      return {{"sum", y + convert(in[2], dtype)}, {"chosen", select(chosen, y, zeros({s.m, s.n}, dtype))}};
                    });
    }
  ir::Module flat = driver::simplify_module(program.module(), ir::find_target("cpu:native").value(), {}, ir::Stage::kFlat).value();
  conformance::Compiled compiled = conformance::compile_for_cpu(flat).value();
  std::mt19937_64 random(7);
  for (size_t e = 0; e < flat.entries.size(); ++e) {
    const ir::Function& f = *flat.find(flat.entries[e].function);
    std::vector<Literal> inputs;
    for (ir::ValueId p : f.params) {
      const ir::Type& type = f.values[p].type;
      Literal x(type.dtype, type.extents());
      for (int64_t i = 0; i < x.size(); ++i) x.set(i, static_cast<double>(random() % (type.dtype == boolean ? 2 : 4)));
      inputs.push_back(std::move(x));
    }
    std::vector<Literal> want = ir::interpret(flat, f.name, inputs).value();
    Result<std::vector<Literal>> got = compiled.session->call(static_cast<int>(e), inputs);
    ASSERT_TRUE(got.ok()) << to_string(got.errors());
    EXPECT_EQ(property::difference(want, *got, property::Tolerance{1e-2}).value_or(""), "") << flat.entries[e].name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Products, testing::Values(f32, f64, bf16, f16, i32), [](const auto& info) {
  return std::string(name_of(info.param));
});

}  // namespace
}  // namespace nabla
