// Random programs under random layouts on small meshes: their results are those of one rank.
#include <gtest/gtest.h>

#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "tests/property/compare.h"
#include "tests/shard/sharded_run.h"
#include "tests/transforms/random_function.h"
#include "tests/transforms/random_program.h"

namespace nabla::shard_tests {
namespace {

const ir::Mesh kMeshes[] = {{"pair", {{"a", 2}}, nullptr},
                            {"three", {{"a", 3}}, nullptr},
                            {"square", {{"a", 2}, {"b", 2}}, nullptr},
                            {"six", {{"a", 2}, {"b", 3}}, nullptr}};

uint64_t contradictions = 0;

// f64 throughout: only the order of sums differs.
void expect_same(const ir::Module& flat, const std::string& function, const std::vector<Literal>& args,
                 const std::string& what) {
  std::vector<Literal> expected = transforms::run(flat, function, args);
  Result<ShardedRun> got = run_sharded(flat, function, args);
  // The random layouts of a loop's carries may contradict each other.
  if (!got.ok() && got.errors()[0].code == Code::kBadSharding) return void(++contradictions);
  ASSERT_TRUE(got.ok()) << what << to_string(got.errors()) << print(flat);
  auto text = property::difference(expected, got->results, property::Tolerance{1e-9});
  ASSERT_FALSE(text) << what << ": " << *text << "\n" << print(got->sharded) << print(got->local);
}

TEST(Sharding, RandomFunctionsAndTheirGradientsAreTheSame) {
  for (uint64_t seed = 1; seed <= samples(120); ++seed) {
    ir::Module m;
    transforms::add(m, transforms::random_function("f", seed, 4 + static_cast<int>(seed % 12)));
    transforms::add_wrapper(m, "g", "grad", "f", {{"wrt", ir::Ints{0, 1, 2}}});
    m = transforms::flattened(m);
    const ir::Mesh& mesh = kMeshes[seed % 4];
    m.meshes = {mesh};
    ir::Rng rng(seed);
    for (const char* name : {"f", "g"}) {
      m.set(std::make_shared<const ir::Function>(laid_out(*m.find(name), mesh, rng)));
      expect_same(m, name, transforms::random_args(*m.find(name), seed),
                  fmt::format("seed {} @{} on {}", seed, name, mesh.name));
    }
  }
}

TEST(Sharding, LoopsAndBranchesAreTheSame) {
  for (uint64_t seed = 1; seed <= samples(60); ++seed) {
    ir::Module m = transforms::flattened(transforms::random_program("f", seed, 5, true));
    const ir::Mesh& mesh = kMeshes[seed % 2 == 0 ? 1 : 3];
    m.meshes = {mesh};
    ir::Rng rng(seed);
    m.set(std::make_shared<const ir::Function>(laid_out(*m.find("f"), mesh, rng)));
    expect_same(m, "f", transforms::random_args(*m.find("f"), seed), fmt::format("seed {} on {}", seed, mesh.name));
  }
  EXPECT_LE(contradictions, samples(15));
}

// ---- Sums of narrow floats. Elements are large, those of the first and the second half of the rows cancel but for small
// numbers: the sums are exact in f32, and in the narrow type too, which has no room for a rank's share of them.
constexpr int64_t kRows = 24, kColumns = 6;

Literal cancelling(DType dtype, uint64_t seed, int64_t slices) {
  ir::Rng rng(seed);
  Literal out(dtype, slices == 1 ? std::vector<int64_t>{kRows, kColumns} : std::vector<int64_t>{slices, kRows, kColumns});
  const double large = dtype == DType::kF16 ? 30000 : 1024;
  for (int64_t slice = 0; slice < slices; ++slice)
    for (int64_t row = 0; row < kRows / 2; ++row)
      for (int64_t column = 0; column < kColumns; ++column) {
        bool small = rng() % 3 == 0;
        auto at = [&](int64_t r) { return (slice * kRows + r) * kColumns + column; };
        out.set(at(row), small ? static_cast<double>(rng() % 3) : large);
        out.set(at(kRows - 1 - row), small ? static_cast<double>(rng() % 3) : -large);
      }
  return out;
}

// Programs over %x: [24,6] and %w: [5,24], whose elements are 1: sums, what is made of them, and running sums.
const std::pair<const char*, const char*> kNarrowPrograms[] = {
    {"sum", "  %s = reduce_sum(%x) {axes=[0,1]}\n  return %s\n"},
    {"sums of columns and what is linear in them",
     "  %s = reduce_sum(%x) {axes=[0]}\n  %n = neg(%s)\n  %t = add(%s, %n)\n  %u = sub(%t, %n)\n"
     "  %r = reduce_sum(%n) {axes=[0]}\n  return %u, %r\n"},
    {"a product", "  %p = dot_general(%w, %x) {lhs_contract=[1], rhs_contract=[0]}\n  return %p\n"},
    {"two products that are added",
     "  %p = dot_general(%w, %x) {lhs_contract=[1], rhs_contract=[0]}\n"
     "  %r = dot_general(%x, %w) {lhs_contract=[0], rhs_contract=[1]}\n  %t = transpose(%r) {permutation=[1,0]}\n"
     "  %y = add(%p, %t)\n  %s = reduce_sum(%y) {axes=[1]}\n  return %y, %s\n"},
    {"a sum in f32 that is narrowed",
     "  %f = convert(%x) {dtype=f32}\n  %s = reduce_sum(%f) {axes=[0]}\n  %c = convert(%s) {dtype=$}\n  %n = neg(%c)\n"
     "  return %c, %n\n"},
    {"a running sum",
     "  %c = cumsum(%x) {axis=0}\n  %y = slice(%c) {starts=[23,0], limits=[24,6], strides=[1,1]}\n  return %y\n"},
    {"a running sum from the end",
     "  %c = cumsum(%x) {axis=0, reverse=true}\n  %y = slice(%c) {starts=[0,0], limits=[1,6], strides=[1,1]}\n  return %y\n"},
    {"a product of elements", "  %v = reduce_prod(%q) {axes=[0]}\n  return %v\n"},
    {"a running product",
     "  %c = cumprod(%q) {axis=0}\n  %y = slice(%c) {starts=[23,0], limits=[24,6], strides=[1,1]}\n  return %y\n"},
    {"what a loop adds up", "  %y = scan(%z, %x3) {body=@body, carries=1, length=[3]}\n  return %y\n"},
};

// The factors of products are 16 in the first half of the rows and 1/16 in the second.
std::vector<Literal> narrow_args(DType dtype, uint64_t seed) {
  std::vector<Literal> out = {cancelling(dtype, seed, 1), Literal(dtype, {5, kRows}), Literal(dtype, {kRows, kColumns}),
                              cancelling(dtype, seed + 1, 3), Literal(dtype, {kColumns})};
  for (int64_t i = 0; i < out[1].size(); ++i) out[1].set(i, 1);
  for (int64_t i = 0; i < out[2].size(); ++i) out[2].set(i, i < out[2].size() / 2 ? 16 : 0.0625);
  return out;
}

ir::Module narrow_program(DType dtype, const std::string& body) {
  std::string text =
      "nabla 1 flat\n"
      "func @body(%c: $[6], %x: $[24,6]) {\n  %s = reduce_sum(%x) {axes=[0]}\n  %n = add(%c, %s)\n  return %n\n}\n"
      "func @f(%x: $[24,6], %w: $[5,24], %q: $[24,6], %x3: $[3,24,6], %z: $[6]) {\n" +
      body + "}\n";
  for (size_t at; (at = text.find('$')) != std::string::npos;) text.replace(at, 1, name_of(dtype));
  Result<ir::Module> m = ir::parse_module(text, "test.nbl", ops::all_ops());
  EXPECT_TRUE(m.ok()) << to_string(m.errors());
  return m.ok() ? *m : ir::Module();
}

TEST(NarrowSums, OverRanksAreRoundedOnceAsOnOneDevice) {
  for (DType dtype : {DType::kF16, DType::kBF16})
    for (const auto& [what, body] : kNarrowPrograms)
      for (uint64_t seed = 1; seed <= samples(6); ++seed) {
        ir::Module m = narrow_program(dtype, body);
        const ir::Mesh& mesh = meshes()[seed % meshes().size()];
        m.meshes = {mesh};
        ir::Rng rng(seed);
        m.set(std::make_shared<const ir::Function>(laid_out(*m.find("f"), mesh, rng)));
        std::vector<Literal> args = narrow_args(dtype, seed), expected = transforms::run(m, "f", args);
        Result<ShardedRun> got = run_sharded(m, "f", args);
        // The layouts that are drawn for a loop's first value and for its result may contradict each other.
        const bool loops = std::string_view(body).find("scan") != std::string_view::npos;
        if (loops && !got.ok() && got.errors()[0].code == Code::kBadSharding) continue;
        ASSERT_TRUE(got.ok()) << what << to_string(got.errors());
        auto difference = property::difference(expected, got->results, property::Tolerance{0});
        ASSERT_FALSE(difference) << name_of(dtype) << " " << what << " seed " << seed << ": " << *difference << "\n"
                                 << print(got->sharded) << print(got->local);
      }
}

}  // namespace
}  // namespace nabla::shard_tests
