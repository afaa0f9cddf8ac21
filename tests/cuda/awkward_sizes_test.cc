// GPU kernels at sizes that fill no block, warp, tile or pack: each program (size_programs.cc) at static sizes in every
// dtype, and once over symbols at many sizes below their bounds; thread by thread, against the reference interpreter.
#include <gtest/gtest.h>

#include <random>

#include "cli/driver/compile.h"
#include "ir/reference/interpreter.h"
#include "tests/cuda/emulated_module.h"
#include "tests/cuda/size_programs.h"
#include "tests/property/compare.h"

namespace nabla {
namespace {

using conformance::Sizes;
using emulator::EmulatedModule;
using emulator::RowsColumns;
using emulator::SizeProgram;

constexpr const char* kTarget = "sm_90a";

// Results of several ops in a row: as far apart as the order of sums and the rounding between ops may bring them.
property::Tolerance tolerance(DType dtype) {
  if (dtype == DType::kF64) return {1e-11};
  if (dtype == DType::kF32) return {3e-5};
  return {8 * epsilon_of(dtype)};
}

Literal draw(const std::string& name, const ir::Type& type, const Sizes& sizes, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<int64_t> shape;
  for (const ir::Dim& d : type.shape) shape.push_back(d.eval([&](const ir::Symbol& s) { return sizes.at(s.name); }));
  int64_t below = name.starts_with("row") ? sizes.at("rows") : name.starts_with("column") ? sizes.at("columns") : 5;
  Literal x(type.dtype, std::move(shape));
  for (int64_t i = 0; i < x.size(); ++i)
    is_float(x.dtype()) ? x.set(i, std::uniform_real_distribution<double>(-1, 1)(rng))
                        : x.set_i(i, static_cast<int64_t>(rng() % static_cast<uint64_t>(std::max<int64_t>(1, below))));
  return x;
}

// One entry of `flat` at one size.
void check(const EmulatedModule& module, const ir::Module& flat, const ir::Entry& entry, const Sizes& sizes) {
  const ir::Function& f = *flat.find(entry.function);
  std::vector<Literal> args, inputs, state;
  for (size_t i = 0; i < flat.state.size(); ++i) state.push_back(draw("state", flat.state[i].type, sizes, 100 + i));
  for (int leaf : entry.reads) args.push_back(state[leaf]);
  for (size_t i = 0; i < entry.inputs.size(); ++i) {
    inputs.push_back(draw(entry.inputs[i], f.type(f.params[entry.reads.size() + i]), sizes, i + 1));
    args.push_back(inputs.back());
  }
  auto results = ir::interpret(flat, f.name, args);
  ASSERT_TRUE(results.ok()) << to_string(results.errors());
  std::vector<Literal> want = state;
  for (size_t i = 0; i < results->size(); ++i)
    if (i < entry.writes.size())
      want[entry.writes[i]] = (*results)[i];
    else
      want.push_back((*results)[i]);
  expect_in_every_way(module, entry.name, inputs, state, sizes, want, [](const Literal& w, const Literal& g) {
    return property::difference(w, g, tolerance(w.dtype())).value_or("");
  });
}

void check(const Program& program, const std::function<std::vector<Sizes>(const std::string& entry)>& sizes) {
  ir::Target target = ir::find_target(kTarget).value();
  auto flat = driver::simplify_module(program.module(), target);
  ASSERT_TRUE(flat.ok()) << to_string(flat.errors());
  auto lowered = driver::lower_module(program.module(), {.target = kTarget, .library = false});
  ASSERT_TRUE(lowered.ok()) << to_string(lowered.errors());
  auto module = EmulatedModule::create(std::move(lowered->planned));
  ASSERT_TRUE(module.ok()) << to_string(module.errors());
  for (const ir::Entry& entry : flat->entries)
    for (const Sizes& at : sizes(entry.name)) {
      SCOPED_TRACE(fmt::format("{} of {} rows and {} columns", entry.name, at.at("rows"), at.at("columns")));
      check(*module, *flat, entry, at);
      if (testing::Test::HasFailure()) return;
    }
}

// awkward_sizes_long_test runs every size. Every run skips sorts of many elements, which took half of the time of this test.
bool is_run(const SizeProgram& row, const RowsColumns& at) {
  return NABLA_STEP == 1 || std::string_view(row.name) != "order" || at.rows * at.columns < 2000;
}

Sizes sizes_of(const RowsColumns& at) { return {{"rows", at.rows}, {"columns", at.columns}}; }

class AwkwardSizes : public testing::TestWithParam<SizeProgram> {};

// f32 at every size, the other dtypes at every third.
TEST_P(AwkwardSizes, KnownWhenCompiled) {
  const SizeProgram& row = GetParam();
  Program program;
  std::map<std::string, Sizes> at;
  for (size_t d = 0; d < row.dtypes.size(); ++d)
    for (size_t i = 0; i < row.sizes.size(); ++i) {
      if (d > 0 && i % NABLA_STEP != d % NABLA_STEP) continue;
      const RowsColumns& size = row.sizes[i];
      if (!is_run(row, size)) continue;
      std::string name = fmt::format("{}_{}_{}x{}", row.name, name_of(row.dtypes[d]), size.rows, size.columns);
      row.declare(program, name, size.rows, size.columns, row.dtypes[d]);
      at[name] = sizes_of(size);
    }
  check(program, [&](const std::string& entry) { return std::vector<Sizes>{at.at(entry)}; });
}

// No rows, no columns, or neither. What needs an element, such as argmax, says so while it is traced.
TEST_P(AwkwardSizes, Nothing) {
  const SizeProgram& row = GetParam();
  Program program;
  std::map<std::string, Sizes> at;
  for (const RowsColumns& size : {RowsColumns{0, 5}, RowsColumns{5, 0}, RowsColumns{0, 0}}) {
    std::string name = fmt::format("{}_{}x{}", row.name, size.rows, size.columns);
    try {
      row.declare(program, name, size.rows, size.columns, row.dtypes[0]);
      at[name] = sizes_of(size);
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()).find("error[E020"), 0u) << e.what();
    }
  }
  if (!at.empty()) check(program, [&](const std::string& entry) { return std::vector<Sizes>{at.at(entry)}; });
}

class SymbolicSizes : public testing::TestWithParam<SizeProgram> {};

TEST_P(SymbolicSizes, KnownAtTheRunOnly) {
  const SizeProgram& row = GetParam();
  Program program;
  ir::Dim rows = program.symbol("rows", 1, 1025), columns = program.symbol("columns", 1, 1025);
  row.declare(program, row.name, rows, columns, row.dtypes[0]);
  std::vector<Sizes> all;
  for (const RowsColumns& size : row.symbolic)
    if (is_run(row, size)) all.push_back(sizes_of(size));
  check(program, [&](const std::string&) { return all; });
}

// Rows that shared memory does not hold at their largest.
TEST(LongRows, KnownAtTheRunOnly) {
  Program program;
  ir::Dim rows = program.symbol("rows", 1, 3), columns = program.symbol("columns", 1, 10000);
  program.entry("long_rows", {{"x", DType::kF32, {rows, columns}}}, [](const std::vector<Tensor>& in) -> Outputs {
    return {{"places", argsort({in[0]}, 1)}, {"sums", cumsum(in[0], 1)}};
  });
  check(program, [](const std::string&) {
    return std::vector<Sizes>{{{"rows", 3}, {"columns", 70}}, {{"rows", 1}, {"columns", 9001}}};
  });
}

std::vector<SizeProgram> symbolic(const std::vector<SizeProgram>& all) {
  std::vector<SizeProgram> out;
  for (const SizeProgram& p : all)
    if (!p.symbolic.empty()) out.push_back(p);
  return out;
}
auto name_of_row = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Rows, AwkwardSizes, testing::ValuesIn(emulator::row_programs()), name_of_row);
INSTANTIATE_TEST_SUITE_P(Products, AwkwardSizes, testing::ValuesIn(emulator::product_programs()), name_of_row);
INSTANTIATE_TEST_SUITE_P(Rows, SymbolicSizes, testing::ValuesIn(symbolic(emulator::row_programs())), name_of_row);
INSTANTIATE_TEST_SUITE_P(Products, SymbolicSizes, testing::ValuesIn(symbolic(emulator::product_programs())),
                         name_of_row);

}  // namespace
}  // namespace nabla
