// Deterministic programs: the same bits whatever ranks, microbatches and threads share the work.
#include <gtest/gtest.h>

#include "cli/driver/compile.h"
#include "examples/charlm/charlm.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"
#include "tests/pass_options.h"
#include "tests/property/compare.h"
#include "tests/transforms/random_function.h"

namespace nabla::shard_tests {
namespace {

ir::Module parsed(const std::string& text) { return ir::parse_module(text, "test.nbl", ops::all_ops()).value(); }

// Two layers with a bias, a normalisation of rows and a cross-entropy, and a step of gradient descent.
constexpr const char* kTraining = R"(nabla 1 traced
mesh pod = {dp=1, mb=1 temporal}
state w1: f32[24,40]
state b1: f32[40]
state w2: f32[40,10]
entry step calls @step {
  reads w1, b1, w2
  writes w1, b1, w2
  inputs x, ids
  outputs loss
}

func @loss(%w1: f32[24,40], %b1: f32[40], %w2: f32[40,10], %x: f32[64,24], %ids: i32[64]) {
  %p = dot_general(%x, %w1) {lhs_contract=[1], rhs_contract=[0]}
  %b = broadcast_in_dim(%b1) {dims=[1], shape=[64, 40]}
  %h = add(%p, %b)
  %r = gelu(%h)
  %sq = mul(%r, %r)
  %mean = reduce_sum(%sq) {axes=[1]}
  %one = constant() {value=f32[64] {splat 1}}
  %some = add(%mean, %one)
  %scale = rsqrt(%some)
  %wide = broadcast_in_dim(%scale) {dims=[0], shape=[64, 40]}
  %n = mul(%r, %wide)
  %logits = dot_general(%n, %w2) {lhs_contract=[1], rhs_contract=[0]}
  %each, %lse = cross_entropy(%logits, %ids)
  %all = reduce_sum(%each) {axes=[0]}
  %share = constant() {value=f32[] {0.015625}}
  %l = mul(%all, %share)
  return %l
}
func @step(%w1: f32[24,40], %b1: f32[40], %w2: f32[40,10], %x: f32[64@{dp, mb},24], %ids: i32[64]) {
  %l, %g1, %gb, %g2 = value_and_grad(%w1, %b1, %w2, %x, %ids) {callee=@loss, wrt=[0, 1, 2]}
  %r1 = constant() {value=f32[24,40] {splat 0.3}}
  %s1 = mul(%g1, %r1)
  %n1 = sub(%w1, %s1)
  %rb = constant() {value=f32[40] {splat 0.3}}
  %sb = mul(%gb, %rb)
  %nb = sub(%b1, %sb)
  %r2 = constant() {value=f32[40,10] {splat 0.3}}
  %s2 = mul(%g2, %r2)
  %n2 = sub(%w2, %s2)
  return %n1, %nb, %n2, %l
}
)";

// A table of rows, of which every id trains one, and a projection onto the same rows.
constexpr const char* kTokens = R"(nabla 1 traced
mesh pod = {dp=1, mb=1 temporal}
state table: f32[12,24]
state w: f32[24,12]
entry step calls @step {
  reads table, w
  writes table, w
  inputs ids, next
  outputs loss
}

func @loss(%table: f32[12,24], %w: f32[24,12], %ids: i32[64], %next: i32[64]) {
  %e = embedding(%table, %ids)
  %h = gelu(%e)
  %logits = dot_general(%h, %w) {lhs_contract=[1], rhs_contract=[0]}
  %each, %lse = cross_entropy(%logits, %next)
  %all = reduce_sum(%each) {axes=[0]}
  %share = constant() {value=f32[] {0.015625}}
  %l = mul(%all, %share)
  return %l
}
func @step(%table: f32[12,24], %w: f32[24,12], %ids: i32[64@{dp, mb}], %next: i32[64@{dp, mb}]) {
  %l, %g1, %g2 = value_and_grad(%table, %w, %ids, %next) {callee=@loss, wrt=[0, 1]}
  %r1 = constant() {value=f32[12,24] {splat 0.3}}
  %s1 = mul(%g1, %r1)
  %n1 = sub(%table, %s1)
  %r2 = constant() {value=f32[24,12] {splat 0.3}}
  %s2 = mul(%g2, %r2)
  %n2 = sub(%w, %s2)
  return %n1, %n2, %l
}
)";

// Opens a session of the program; null, and a failure of the test, where it is refused.
std::unique_ptr<exec::Session> opened(const ir::Module& m, const std::string& what, const driver::CompileOptions& how, int threads) {
  auto bundle = driver::compile(m, how);
  if (!bundle.ok()) ADD_FAILURE() << what << to_string(bundle.errors());
  if (!bundle.ok()) return nullptr;
  auto session = exec::Session::create(
      format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(bundle->bytes)), "test").value(), {.threads = threads});
  EXPECT_TRUE(session.ok());
  return std::move(*session);
}

// The results of runs of an entry, then leaves, as bits.
std::vector<Literal> after_runs(exec::Session& s, int entry, const std::vector<Literal>& inputs, int runs,
                                const std::vector<ir::Type>& leaves) {
  std::vector<Literal> out;
  for (int k = 0; k < runs; ++k) {
    auto got = s.call(entry, inputs);
    EXPECT_TRUE(got.ok()) << (got.ok() ? "" : to_string(got.errors()));
    if (got.ok()) out.insert(out.end(), got->begin(), got->end());
  }
  for (size_t i = 0; i < leaves.size(); ++i) {
    Literal value(leaves[i].dtype, leaves[i].extents());
    EXPECT_TRUE(s.get_state(static_cast<int>(i), value.mutable_data()).ok());
    out.push_back(std::move(value));
  }
  return out;
}

// State and losses of three steps from drawn leaves.
std::vector<Literal> trained(const char* program, const std::vector<ir::Type>& leaves, const std::vector<Literal>& inputs,
                             const std::string& mesh, int threads, bool deterministic) {
  auto s = opened(parsed(program), mesh,
                  {.target = "cpu", .library = false, .deterministic = deterministic, .mesh = {mesh}, .jobs = 2}, threads);
  if (!s) return {};
  for (size_t i = 0; i < leaves.size(); ++i)
    EXPECT_TRUE(s->set_state(static_cast<int>(i), transforms::random_literal(leaves[i], i + 1).data()).ok());
  return after_runs(*s, 0, inputs, 3, leaves);
}

std::vector<Literal> trained_rows(const std::string& mesh, int threads) {
  Literal ids(DType::kI32, {64}), next = ids;
  for (int64_t i = 0; i < 64; ++i) ids.set_i(i, i * i % 13 - 1), next.set_i(i, i * 7 % 12);  // also out of range
  return trained(kTokens, {{DType::kF32, {12, 24}}, {DType::kF32, {24, 12}}}, {ids, next}, mesh, threads, true);
}

TEST(Deterministic, SoAreTheGradientsOfTables) {
  std::vector<Literal> one = trained_rows("dp=1,mb=1", 1);
  ASSERT_EQ(one.size(), 5u);
  EXPECT_EQ(trained_rows("dp=1,mb=1", 3), one) << "threads";
  for (const char* mesh : {"dp=2,mb=1", "dp=4,mb=1", "dp=8,mb=1", "dp=1,mb=4", "dp=2,mb=2"})
    EXPECT_EQ(trained_rows(mesh, 1), one) << mesh;
}

std::vector<Literal> trained_layers(const std::string& mesh, int threads, bool deterministic = true) {
  Literal x = transforms::random_literal({DType::kF32, {64, 24}}, 9), ids(DType::kI32, {64});
  for (int64_t i = 0; i < 64; ++i) ids.set(i, static_cast<double>(i * 7 % 10));
  return trained(kTraining, {{DType::kF32, {24, 40}}, {DType::kF32, {40}}, {DType::kF32, {40, 10}}}, {x, ids}, mesh, threads,
                 deterministic);
}

TEST(Deterministic, BitsDoNotDependOnTheMesh) {
  std::vector<Literal> one = trained_layers("dp=1,mb=1", 1);
  ASSERT_EQ(one.size(), 6u);
  EXPECT_EQ(trained_layers("dp=1,mb=1", 3), one) << "threads";
  for (const char* mesh : {"dp=2,mb=1", "dp=4,mb=1", "dp=8,mb=1", "dp=1,mb=4", "dp=2,mb=2"})
    EXPECT_EQ(trained_layers(mesh, 1), one) << mesh;
  // It is the same training.
  auto text = property::difference(trained_layers("dp=1,mb=1", 1, false), one, property::Tolerance{1e-4});
  EXPECT_FALSE(text) << *text;
}

// The language model of examples/charlm with its clipped gradients and AdamW: losses and a leaf after two steps.
std::vector<Literal> trained_text(int64_t ranks) {
  ir::Module m = charlm::make_program({}).module();
  std::erase_if(m.entries, [](const ir::Entry& e) { return e.name != "init" && e.name != "step"; });
  m.meshes = {{"pod", {{"dp", ranks}}, nullptr}};
  const ir::Entry& step = *m.find_entry("step");
  ir::Function f = *m.find(step.function);
  f.values[f.params.back()].sharding = std::make_shared<const ir::Sharding>(ir::Sharding{{{{{"dp"}}}, {{}, true}}, {}});
  m.set(std::make_shared<const ir::Function>(std::move(f)));
  auto s = opened(m, fmt::format("{} ranks", ranks), {.target = "cpu", .library = false, .deterministic = true, .jobs = 2}, 1);
  if (!s) return {};
  EXPECT_TRUE(s->call(s->find_entry("init"), {Literal(DType::kU32, {2})}).ok());
  Literal tokens(DType::kU8, {charlm::kBatch, charlm::kContext + 1});
  for (int64_t i = 0; i < tokens.size(); ++i) tokens.set_i(i, i * i % 97);
  EXPECT_EQ(s->state_leaves()[0].type_str(), "f32[256,128]");
  return after_runs(*s, s->find_entry("step"), {tokens}, 2, {{DType::kF32, {charlm::kVocabulary, charlm::kWidth}}});
}

TEST(Deterministic, ALanguageModelTrainsToTheSameBits) {
  std::vector<Literal> one = trained_text(1);
  ASSERT_EQ(one.size(), 5u);
  for (int64_t ranks : {2, 8}) EXPECT_EQ(trained_text(ranks), one) << ranks << " ranks";
}

// Of so few rows on each of eight ranks that other kernels would suit them, and a product with a vector.
const std::string kThinLoss = R"(func @loss(%w: f32[6,8], %v: f32[8], %x: f32[16,6]) {
  %p = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
)";
const std::string kThin = R"(nabla 1 traced
mesh pod = {dp=1, mb=1 temporal}
state w: f32[6,8]
state v: f32[8]
entry step calls @step {
  reads w, v
  writes w, v
  inputs x
  outputs loss
}

func @loss(%w: f32[6,8], %v: f32[8], %x: f32[16,6]) {
  %p = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  %h = tanh(%p)
  %y = dot_general(%h, %v) {lhs_contract=[1], rhs_contract=[0]}
  %e = mul(%y, %y)
  %all = reduce_sum(%e) {axes=[0]}
  return %all
}
func @step(%w: f32[6,8], %v: f32[8], %x: f32[16@{dp, mb},6]) {
  %l, %g1, %g2 = value_and_grad(%w, %v, %x) {callee=@loss, wrt=[0, 1]}
  %n1 = sub(%w, %g1)
  %n2 = sub(%v, %g2)
  return %n1, %n2, %l
}
)";

TEST(Deterministic, ThinPartsHaveTheKernelsOfThickOnes) {
  auto run = [](const std::string& program, const std::string& mesh) {
    return trained(program.c_str(), {{DType::kF32, {6, 8}}, {DType::kF32, {8}}},
                   {transforms::random_literal({DType::kF32, {16, 6}}, 9)}, mesh, 1, true);
  };
  std::vector<Literal> one = run(kThin, "dp=1,mb=1");
  ASSERT_EQ(one.size(), 5u);
  for (const char* mesh : {"dp=2,mb=1", "dp=4,mb=1", "dp=8,mb=1", "dp=1,mb=8", "dp=2,mb=4"}) EXPECT_EQ(run(kThin, mesh), one) << mesh;
  // One rank, whose mesh has but microbatches.
  std::string alone = kThin;
  alone.replace(alone.find("dp=1, "), 6, "");
  alone.replace(alone.find("{dp, mb}"), 8, "mb");
  for (const char* mesh : {"mb=2", "mb=4", "mb=8"}) EXPECT_EQ(run(alone, mesh), one) << mesh;
}

// The same with momentum of w, and without a word of ranks.
const std::string kMomentum = R"(nabla 1 traced
state w: f32[6,8]
state v: f32[8]
state m.w: f32[6,8]
entry step calls @step {
  reads w, v, m.w
  writes w, v, m.w
  inputs x
  outputs loss
}

func @loss(%w: f32[6,8], %v: f32[8], %x: f32[16,6]) {
  %p = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  %h = tanh(%p)
  %y = dot_general(%h, %v) {lhs_contract=[1], rhs_contract=[0]}
  %e = mul(%y, %y)
  %all = reduce_sum(%e) {axes=[0]}
  return %all
}
func @step(%w: f32[6,8], %v: f32[8], %m: f32[6,8], %x: f32[16,6]) {
  %l, %g1, %g2 = value_and_grad(%w, %v, %x) {callee=@loss, wrt=[0, 1]}
  %m1 = add(%m, %g1)
  %n1 = sub(%w, %m1)
  %n2 = sub(%v, %g2)
  return %n1, %n2, %m1, %l
}
)";

// What a leaf is laid out along does not spread to others while sums are made anew.
TEST(Deterministic, SoIsZero) {
  const std::vector<ir::Type> leaves = {{DType::kF32, {6, 8}}, {DType::kF32, {8}}, {DType::kF32, {6, 8}}};
  auto run = [&](const std::string& mesh, const char* zero) {
    driver::CompileOptions how{.target = "cpu", .library = false, .deterministic = true, .mesh = {mesh}, .jobs = 2};
    set_options(how.pass_options, "apply-strategy", {{"data-axes", "dp"}, {"zero", zero}});
    auto s = opened(parsed(kMomentum), mesh, how, 1);
    if (!s) return std::vector<Literal>();
    for (size_t i = 0; i < leaves.size(); ++i)
      EXPECT_TRUE(s->set_state(static_cast<int>(i), transforms::random_literal(leaves[i], i + 1).data()).ok());
    return after_runs(*s, 0, {transforms::random_literal({DType::kF32, {16, 6}}, 9)}, 3, leaves);
  };
  std::vector<Literal> one = run("dp=1", "0");
  ASSERT_EQ(one.size(), 6u);
  for (const char* mesh : {"dp=2", "dp=4", "dp=8"})
    for (const char* zero : {"0", "1", "3"}) EXPECT_EQ(run(mesh, zero), one) << mesh << " zero=" << zero;
}

// Two layers whose squares are added up over rows and columns at once, in the given type beside f32 masters.
std::string squares(const std::string& dtype) {
  std::string text = R"(nabla 1 traced
mesh pod = {dp=1, mb=1 temporal}
state w: f32[32,32]
state v: f32[32,32]
entry step calls @step {
  reads w, v
  writes w, v
  inputs x
  outputs loss
}

func @loss(%w: f32[32,32], %v: f32[32,32], %x: f32[64,32]) {
  %wb = convert(%w) {dtype=T}
  %vb = convert(%v) {dtype=T}
  %xb = convert(%x) {dtype=T}
  %p = dot_general(%xb, %wb) {lhs_contract=[1], rhs_contract=[0]}
  %h = tanh(%p)
  %q = dot_general(%h, %vb) {lhs_contract=[1], rhs_contract=[0]}
  %y = tanh(%q)
  %e = mul(%y, %y)
  %all = reduce_sum(%e) {axes=[0, 1]}
  %l = convert(%all) {dtype=f32}
  return %l
}
func @step(%w: f32[32,32], %v: f32[32,32], %x: f32[64@{dp, mb},32]) {
  %l, %g1, %g2 = value_and_grad(%w, %v, %x) {callee=@loss, wrt=[0, 1]}
  %r = constant() {value=f32[32,32] {splat 0.001}}
  %s1 = mul(%g1, %r)
  %s2 = mul(%g2, %r)
  %n1 = sub(%w, %s1)
  %n2 = sub(%v, %s2)
  return %n1, %n2, %l
}
)";
  for (size_t at; (at = text.find("=T}")) != std::string::npos;) text.replace(at + 1, 1, dtype);
  return text;
}

// A rank with one granule has kernels with fewer axes; values of 16 bits are rounded wherever kernels begin and end.
TEST(Deterministic, SoAreSumsAlongSeveralAxesAndValuesOf16Bits) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    std::string program = squares(dtype);
    auto run = [&](const std::string& mesh, bool deterministic) {
      return trained(program.c_str(), {{DType::kF32, {32, 32}}, {DType::kF32, {32, 32}}},
                     {transforms::random_literal({DType::kF32, {64, 32}}, 9)}, mesh, 1, deterministic);
    };
    std::vector<Literal> one = run("dp=1,mb=1", true);
    ASSERT_EQ(one.size(), 5u);
    for (const char* mesh : {"dp=2,mb=1", "dp=4,mb=1", "dp=8,mb=1", "dp=1,mb=8", "dp=2,mb=2"})
      EXPECT_EQ(run(mesh, true), one) << dtype << " on " << mesh;
    auto text = property::difference(run("dp=1,mb=1", false), one, property::Tolerance{std::string(dtype) == "f32" ? 1e-4 : 0.03});
    EXPECT_FALSE(text) << dtype << *text;
  }
}

std::string refusal(std::string text, const std::string& mesh) {
  auto bundle =
      driver::compile(parsed(text), {.target = "cpu", .library = false, .deterministic = true, .mesh = {mesh}});
  return bundle.ok() ? "ok" : bundle.errors()[0].message;
}

TEST(Deterministic, WhatCannotBeIsRefused) {
  const std::string sum =
      "nabla 1 flat\nmesh pod = {dp=1}\nentry f calls @f {\n inputs x\n outputs y\n}\n"
      "func @f(%x: f32[12@dp]) {\n %y = reduce_sum(%x) {axes=[0]}\n return %y\n}\n";
  EXPECT_EQ(
      refusal(sum, "dp=2"),
      "reduce_sum cannot be made deterministic: it combines 12 elements along {dp}, which are not a multiple of 8");
  std::string more = sum;
  more.replace(more.find("12"), 2, "48");
  EXPECT_EQ(refusal(more, "dp=3"),
            "reduce_sum cannot be made deterministic: 3 ranks and microbatches lie along {dp}: they have to divide 8");
  EXPECT_EQ(refusal(more, "dp=4"), "ok");
  // Each part of the queries has a mask of its own.
  const std::string attention =
      "nabla 1 flat\nmesh pod = {dp=1}\nentry f calls @f {\n inputs q, k, l, d, g\n outputs dk\n}\n"
      "func @f(%q: f32[1,2,8@dp,4], %k: f32[1,2,8,4], %l: f32[1,2,8], %d: f32[1,2,8], %g: f32[1,2,8,4]) {\n"
      " %dq, %dk, %dv = attention_grad(%q, %k, %k, %l, %d, %g) {causal=CAUSAL}\n return %dk\n}\n";
  auto masked = [&](const char* causal) {
    std::string text = attention;
    return text.replace(text.find("CAUSAL"), 6, causal);
  };
  EXPECT_EQ(refusal(masked("true"), "dp=2").substr(0, 83),
            "attention_grad cannot be made deterministic: parts of it differ by where they stand");
  EXPECT_EQ(refusal(masked("false"), "dp=2"), "ok");
}

}  // namespace
}  // namespace nabla::shard_tests
