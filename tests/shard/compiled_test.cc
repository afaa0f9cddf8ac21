// Programs of several ranks, compiled and run on threads: whole arrays in, whole arrays out, and the numbers are those
// of one rank.
#include <gtest/gtest.h>

#include "cli/driver/compile.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"
#include "tests/pass_options.h"
#include "tests/property/compare.h"
#include "tests/shard/sharded_run.h"
#include "tests/transforms/random_function.h"
#include "tests/transforms/random_program.h"

namespace nabla::shard_tests {
namespace {

using Options = OptionTexts;

Result<std::unique_ptr<exec::Session>> compiled(const ir::Module& m, exec::SessionOptions options = {.threads = 1},
                                                const Options& schedule = {{"overlap-bytes", "1MiB"}}) {
  driver::CompiledBundle bundle = NABLA_TRY(driver::compile(
      m, {.target = "cpu", .library = false, .pass_options = options_of("schedule-collectives", schedule), .jobs = 2}));
  return exec::Session::create(
      NABLA_TRY(format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(bundle.bytes)), "test")),
      options);
}

void add_entry(ir::Module& m, const std::string& function) {
  const ir::Function& f = *m.find(function);
  ir::Entry e{function, function, {}, {}, {}, {}};
  for (size_t i = 0; i < f.params.size(); ++i) e.inputs.push_back(fmt::format("a{}", i));
  for (size_t i = 0; i < f.results.size(); ++i) e.outputs.push_back(fmt::format("r{}", i));
  m.entries.push_back(std::move(e));
}

// False: the random layouts contradict each other.
bool expect_same(const ir::Module& flat, const std::vector<std::string>& functions, uint64_t seed,
                 const std::string& what) {
  const Options ahead = {{"prefetch", std::to_string(seed / 4 % 3)}};
  auto session = seed % 4 == 3 ? compiled(flat, {.threads = 1}, ahead) : compiled(flat);
  if (!session.ok() && session.errors()[0].code == Code::kBadSharding) return false;
  EXPECT_TRUE(session.ok()) << what << to_string(session.errors()) << print(flat);
  for (const std::string& name : functions) {
    if (!session.ok()) break;
    std::vector<Literal> args = transforms::random_args(*flat.find(name), seed);
    std::vector<Literal> expected = transforms::run(flat, name, args);
    auto got = (*session)->call((*session)->find_entry(name), args);
    EXPECT_TRUE(got.ok()) << what << (got.ok() ? "" : to_string(got.errors()));
    if (!got.ok()) break;
    auto text = property::difference(expected, *got, property::Tolerance{1e-9});
    EXPECT_FALSE(text) << what << " @" << name << ": " << *text << "\n" << print(flat);
  }
  return true;
}

const ir::Mesh kMeshes[] = {
    {"pair", {{"a", 2}}, nullptr}, {"square", {{"a", 2}, {"b", 2}}, nullptr}, {"six", {{"a", 2}, {"b", 3}}, nullptr}};

TEST(Compiled, RandomFunctionsAndTheirGradients) {
  for (uint64_t seed = 1; seed <= samples(12); ++seed) {
    ir::Module m;
    transforms::add(m, transforms::random_function("f", seed, 4 + static_cast<int>(seed % 12)));
    transforms::add_wrapper(m, "g", "grad", "f", {{"wrt", ir::Ints{0, 1, 2}}});
    m = transforms::flattened(m);
    m.meshes = {kMeshes[seed % 3]};
    ir::Rng rng(seed);
    for (const char* name : {"f", "g"}) {
      m.set(std::make_shared<const ir::Function>(laid_out(*m.find(name), m.meshes[0], rng, seed % 2 == 0)));
      add_entry(m, name);
    }
    EXPECT_TRUE(expect_same(m, {"f", "g"}, seed, fmt::format("seed {} on {}", seed, m.meshes[0].name)));
  }
}

TEST(Compiled, LoopsAndBranches) {
  int contradictions = 0;
  for (uint64_t seed = 1; seed <= samples(12); ++seed) {
    ir::Module m = transforms::flattened(transforms::random_program("f", seed, 5, true));
    m.meshes = {kMeshes[seed % 3]};
    ir::Rng rng(seed);
    m.set(std::make_shared<const ir::Function>(laid_out(*m.find("f"), m.meshes[0], rng, seed % 2 == 0)));
    add_entry(m, "f");
    contradictions += !expect_same(m, {"f"}, seed, fmt::format("seed {} on {}", seed, m.meshes[0].name));
  }
  EXPECT_LE(contradictions, samples(6));
}

ir::Module parsed(const std::string& text) { return ir::parse_module(text, "test.nbl", ops::all_ops()).value(); }

constexpr const char* kTraining = R"(nabla 1 flat
mesh pod = {MESH}
symbol n in [4, 64] multiple 4
state w: f32[16,8@{tp}]
state m: f32[16@dp,8]
entry init calls @init {
  writes w, m
  inputs seed
}
entry step calls @step {
  reads w, m
  writes w, m
  inputs x, y
  outputs loss, rows
}

func @init(%seed: u32[2]) {
  %u = rng_uniform(%seed) {shape=[16, 8], dtype=f32}
  %z = constant() {value=f32[16,8] {splat 0}}
  return %u, %z
}
func @step(%w: f32[16,8], %m: f32[16,8], %x: f32[n@dp,16], %y: f32[n,8]) {
  %p = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  %d = sub(%p, %y)
  %s = mul(%d, %d)
  %loss = reduce_sum(%s) {axes=[0, 1]}
  %rows = reduce_sum(%s) {axes=[1]}
  %gw = dot_general(%x, %d) {lhs_contract=[0], rhs_contract=[0]}
  %rate = constant() {value=f32[16,8] {splat 0.01}}
  %scaled = mul(%gw, %rate)
  %m1 = add(%m, %scaled)
  %w1 = sub(%w, %m1)
  return %w1, %m1, %loss, %rows
}
)";

ir::Module training(const std::string& mesh) {
  std::string text = kTraining;
  text.replace(text.find("MESH"), 4, mesh);
  return parsed(text);
}

// State and sizes of the whole, whatever the ranks: draws are the same bits, sums differ in their order.
TEST(Compiled, TrainingOnAnyMeshIsTheSame) {
  std::vector<std::vector<Literal>> of_mesh;
  for (const char* mesh : {"dp=1, tp=1", "dp=2, tp=1", "dp=2, tp=2", "dp=1, tp=4", "dp=4, tp=2"}) {
    auto session = compiled(training(mesh));
    ASSERT_TRUE(session.ok()) << to_string(session.errors());
    exec::Session& s = **session;
    EXPECT_EQ(s.state_leaves()[1].type_str(), "f32[16,8]");
    EXPECT_EQ(s.entries()[1].inputs[0].type_str(), "f32[n,16]");
    Literal seed(DType::kU32, {2});
    ASSERT_TRUE(s.call(0, {seed}).ok());
    std::vector<Literal> out;
    for (int64_t n : {8, 4, 64}) {
      Literal x = transforms::random_literal({DType::kF32, {n, 16}}, 3),
              y = transforms::random_literal({DType::kF32, {n, 8}}, 4);
      auto got = s.call(1, {x, y});
      ASSERT_TRUE(got.ok()) << mesh << to_string(got.errors());
      EXPECT_EQ((*got)[1].shape(), (std::vector<int64_t>{n}));
      for (Literal& l : *got) out.push_back(std::move(l));
    }
    for (int leaf : {0, 1}) {
      Literal value(DType::kF32, {16, 8});
      ASSERT_TRUE(s.get_state(leaf, value.mutable_data()).ok());
      out.push_back(std::move(value));
    }
    of_mesh.push_back(std::move(out));
    auto text = property::difference(of_mesh[0], of_mesh.back(), property::Tolerance{1e-5});
    EXPECT_FALSE(text) << mesh << ": " << *text;
  }
}

// The same with ten classes and fifteen rows, which two, three, four and eight ranks cannot share evenly: state of one mesh is
// that of all others, and batches are whole arrays.
constexpr const char* kUneven = R"(nabla 1 flat
mesh pod = {MESH}
state w: f32[15@dp,10@tp] allow_padding
state b: f32[10@tp] allow_padding
entry init calls @init {
  writes w, b
  inputs seed
}
entry step calls @step {
  reads w, b
  writes w, b
  inputs x, labels
  outputs loss, guess
}

func @init(%seed: u32[2]) {
  %u = rng_uniform(%seed) {shape=[15, 10], dtype=f32}
  %z = constant() {value=f32[10] {splat 0}}
  return %u, %z
}
func @step(%w: f32[15,10], %b: f32[10], %x: f32[6@dp,15] allow_padding, %labels: i32[6]) {
  %h = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  %bb = broadcast_in_dim(%b) {shape=[6, 10], dims=[1]}
  %p = add(%h, %bb)
  %l, %lse = cross_entropy(%p, %labels)
  %loss = reduce_sum(%l) {axes=[0]}
  %guess = argmax(%p) {axis=1}
  %s = softmax(%p) {axis=1}
  %i = iota() {shape=[6, 10], axis=1}
  %lb = broadcast_in_dim(%labels) {shape=[6, 10], dims=[0]}
  %eq = eq(%i, %lb)
  %hot = convert(%eq) {dtype=f32}
  %d = sub(%s, %hot)
  %gw = dot_general(%x, %d) {lhs_contract=[0], rhs_contract=[0]}
  %gb = reduce_sum(%d) {axes=[0]}
  %rate = constant() {value=f32[15,10] {splat 0.1}}
  %rateb = constant() {value=f32[10] {splat 0.1}}
  %sw = mul(%gw, %rate)
  %sb = mul(%gb, %rateb)
  %w1 = sub(%w, %sw)
  %b1 = sub(%b, %sb)
  return %w1, %b1, %loss, %guess
}
)";

TEST(Compiled, TrainingWithUnevenShardsIsTheSame) {
  std::vector<Literal> first;
  std::string file = testing::TempDir() + "/uneven.safetensors";
  for (const char* mesh : {"dp=1, tp=1", "dp=2, tp=1", "dp=1, tp=3", "dp=2, tp=4", "dp=4, tp=3", "dp=1, tp=12"}) {
    std::string text = kUneven;
    text.replace(text.find("MESH"), 4, mesh);
    auto session = compiled(parsed(text));
    ASSERT_TRUE(session.ok()) << mesh << to_string(session.errors());
    exec::Session& s = **session;
    EXPECT_EQ(s.state_leaves()[0].type_str(), "f32[15,10]");
    EXPECT_EQ(s.entries()[1].inputs[0].type_str(), "f32[6,15]");
    if (first.empty()) {
      ASSERT_TRUE(s.call(0, {Literal(DType::kU32, {2})}).ok());
      ASSERT_TRUE(s.save_state(file).ok());
    } else {
      ASSERT_TRUE(s.load_state(file).ok());
    }
    std::vector<Literal> out;
    Literal x = transforms::random_literal({DType::kF32, {6, 15}}, 3), labels(DType::kI32, {6});
    for (int i = 0; i < 6; ++i) labels.set_i(i, i * 7 % 10);
    for (int step = 0; step < 5; ++step) {
      auto got = s.call(1, {x, labels});
      ASSERT_TRUE(got.ok()) << mesh << to_string(got.errors());
      for (Literal& l : *got) out.push_back(std::move(l));
    }
    for (int leaf : {0, 1}) {
      Literal value(DType::kF32, leaf == 0 ? std::vector<int64_t>{15, 10} : std::vector<int64_t>{10});
      ASSERT_TRUE(s.get_state(leaf, value.mutable_data()).ok());
      out.push_back(std::move(value));
    }
    if (first.empty()) first = out;
    auto text_of = property::difference(first, out, property::Tolerance{1e-5});
    EXPECT_FALSE(text_of) << mesh << ": " << *text_of;
  }
}

// State that one mesh has written another one reads.
TEST(Compiled, StateGoesFromMeshToMesh) {
  std::string file = testing::TempDir() + "/state.safetensors";
  auto from = compiled(training("dp=2, tp=2")), to = compiled(training("dp=4, tp=1"));
  ASSERT_TRUE(from.ok() && to.ok());
  Literal seed(DType::kU32, {2});
  ASSERT_TRUE((*from)->call(0, {seed}).ok());
  ASSERT_TRUE((*from)->save_state(file).ok());
  ASSERT_TRUE((*to)->load_state(file).ok());
  Literal a(DType::kF32, {16, 8}), b = a;
  ASSERT_TRUE((*from)->get_state(0, a.mutable_data()).ok());
  ASSERT_TRUE((*to)->get_state(0, b.mutable_data()).ok());
  EXPECT_EQ(a, b);
  EXPECT_NE(a.get(127), 0);
}

TEST(Compiled, SizesThatRanksCannotShareAreRefused) {
  auto session = compiled(training("dp=4, tp=1"));
  ASSERT_TRUE(session.ok());
  Literal seed(DType::kU32, {2});
  ASSERT_TRUE((*session)->call(0, {seed}).ok());
  auto refusal = [&](int64_t n, int64_t rows) {
    auto got = (*session)->call(1, {Literal(DType::kF32, {n, 16}), Literal(DType::kF32, {rows, 8})});
    return got.ok() ? "ok" : got.errors()[0].message;
  };
  EXPECT_EQ(refusal(6, 6), "entry `step`: dimension 0 of input `x` is 6, which 4 ranks cannot share evenly");
  EXPECT_EQ(refusal(128, 128), "entry `step`: dimension 0 of input `x` gives n.local = 32, which is not in [1, 16]");
  EXPECT_EQ(refusal(8, 4),
            "entry `step`: dimension 0 of input `y` is n.local = 2 (n.local = 2 from dimension 0 of input `x`), got 1");
  auto got = (*session)->call(1, {Literal(DType::kF32, {128, 16}), Literal(DType::kF32, {128, 8})});
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.errors()[0].notes.back(),
            "these are sizes of what rank 0 has of the inputs: `x` is [32,16] of [128,16], `y` is [32,8] of [128,8]");
  EXPECT_EQ(refusal(8, 8), "ok");
}

TEST(Compiled, AFailureOfOneRankIsThatOfAll) {
  auto session =
      compiled(parsed("nabla 1 flat\nmesh pod = {a=4}\nentry f calls @f {\n inputs x\n outputs y\n}\n"
                      "func @f(%x: f32[8@a]) {\n %l = log(%x)\n %y = reduce_sum(%l) {axes=[0]}\n return %y\n}\n"),
               {.threads = 1, .check_nan = true});
  ASSERT_TRUE(session.ok()) << to_string(session.errors());
  Literal x(DType::kF32, {8});
  for (int i = 0; i < 8; ++i) x.set(i, i == 5 ? -1 : 1);
  auto bad = (*session)->call(0, {x});
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.errors()[0].code, Code::kNotFinite);
  EXPECT_EQ(bad.errors()[0].notes.back(), "on rank 2");
  x.set(5, 1);
  auto good = (*session)->call(0, {x});
  ASSERT_TRUE(good.ok()) << to_string(good.errors());
  EXPECT_EQ((*good)[0].get(0), 0);
}

}  // namespace
}  // namespace nabla::shard_tests
