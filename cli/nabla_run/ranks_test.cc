// A bundle for ranks of two classes that have nothing in common: compiled, verified, inspected, run class by class and
// all together.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "cli/driver/compile.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "runtime/format/file.h"
#include "runtime/format/test_programs.h"

namespace nabla::cli {
namespace {

constexpr const char* kTrainer = R"(nabla 1 traced
state w: f32[3]
entry init calls @init {
  writes w
  inputs start
}
entry step calls @step {
  reads w
  writes w
  outputs total
}
func @init(%start: f32[]) {
  %w = broadcast_in_dim(%start) {shape=[3], dims=[]}
  return %w
}
func @step(%w: f32[3]) {
  %one = constant() {value=f32[3] {1, 2, 3}}
  %new = add(%w, %one)
  %total = reduce_sum(%new) {axes=[0]}
  return %new, %total
}
)";
constexpr const char* kScorer = R"(nabla 1 traced
entry score calls @score {
  inputs a, b
  outputs best
}
func @score(%a: i32[], %b: i32[]) {
  %best = maximum(%a, %b)
  return %best
}
)";

ir::WholeTensor whole(std::string entry, std::string name, DType dtype, std::vector<int64_t> shape, int of_class,
                      int index) {
  return {std::move(entry), std::move(name), dtype, std::move(shape), {}, {{of_class, index, {}}}};
}

// Four ranks: two train, two score.
ir::ProgramSet set_of_two(ir::Module trainer, ir::Module scorer) {
  ir::ProgramSet out;
  out.ranks = 4;
  out.classes.push_back({"trainer", 0, {{1, 2}}, {}, std::move(trainer)});
  out.classes.push_back({"scorer", 2, {{1, 2}}, {}, std::move(scorer)});
  out.state = {whole("", "w", DType::kF32, {3}, 0, 0)};
  out.inputs = {whole("init", "start", DType::kF32, {}, 0, 0), whole("score", "a", DType::kI32, {}, 1, 0),
                whole("score", "b", DType::kI32, {}, 1, 1)};
  out.outputs = {whole("step", "total", DType::kF32, {}, 0, 0), whole("score", "best", DType::kI32, {}, 1, 0)};
  return out;
}

struct Outcome {
  int code;
  std::string text;  // both streams
};

Outcome shell(const std::string& line) {
  std::string log = testing::TempDir() + "/log";
  int status = std::system(fmt::format("{} >'{}' 2>&1", line, log).c_str());
  std::ifstream file(log, std::ios::binary);
  return {WEXITSTATUS(status), std::string((std::istreambuf_iterator<char>(file)), {})};
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

class RanksBundle : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ir::Module trainer = ir::parse_module(kTrainer, "trainer.nbl", ops::all_ops()).value();
    ir::Module scorer = ir::parse_module(kScorer, "scorer.nbl", ops::all_ops()).value();
    auto bundle = driver::compile_set(set_of_two(trainer, scorer), {.target = "cpu"});
    ASSERT_TRUE(bundle.ok()) << to_string(bundle.errors());
    ASSERT_TRUE(format::write_file(path(), bundle->bytes).ok());
  }
  static std::string path() { return testing::TempDir() + "/two.nbundle"; }
};

// What the set says of all ranks, against itself and against the programs; what a pass says of a class, with its name.
TEST_F(RanksBundle, ASetThatContradictsItselfIsRefused) {
  ir::Module trainer = ir::parse_module(kTrainer, "trainer.nbl", ops::all_ops()).value();
  ir::Module scorer = ir::parse_module(kScorer, "scorer.nbl", ops::all_ops()).value();
  auto refusal = [&](auto change, driver::CompileOptions options = {.target = "cpu"}) {
    ir::ProgramSet set = set_of_two(trainer, scorer);
    change(set);
    auto bundle = driver::compile_set(set, options);
    return bundle.ok() ? std::string("accepted") : bundle.errors()[0].str();
  };
  EXPECT_EQ(refusal([](ir::ProgramSet&) {}), "accepted");
  EXPECT_HAS(refusal([](ir::ProgramSet& s) { s.classes[1].first = 0; }),
             "error[E0104]: the program: damaged rank table: rank 0 is of the classes `trainer` and `scorer`");
  EXPECT_HAS(refusal([](ir::ProgramSet& s) { s.state[0].placements[0].of_class = 1; }), "error[E0104]");
  EXPECT_HAS(refusal([](ir::ProgramSet& s) { s.inputs.pop_back(); }),
             "input `b` of class `scorer` has no place in a whole");
  std::string budget = refusal([](ir::ProgramSet&) {}, {.target = "cpu", .max_bytes = passes::Bytes{1}});
  EXPECT_HAS(budget, "error[E0402]");
  EXPECT_HAS(budget, "in class `trainer`");
}

TEST_F(RanksBundle, EachClassIsRunByItself) {
  Outcome score = shell(fmt::format("cli/nabla-run {} --class scorer --entry score --input a=3 --input b=8", path()));
  EXPECT_EQ(score.code, 0);
  EXPECT_HAS(score.text, "best 8");
  Outcome train = shell(
      fmt::format("cli/nabla-run {} --class trainer --entry init --input start=1 --entry step --steps 2", path()));
  EXPECT_EQ(train.code, 0);
  EXPECT_HAS(train.text, "15");  // 3 * 1 + 2 * (1 + 2 + 3)
  Outcome other = shell(fmt::format("cli/nabla-run {} --class trainer --entry score", path()));
  EXPECT_EQ(other.code, 1);
  EXPECT_HAS(other.text, "error[E0603]");
}

TEST_F(RanksBundle, AllRanksRunTogether) {
  Outcome all = shell(
      fmt::format("cli/nabla-run {} --entry init --input start=1 --entry step --steps 2 --entry score --input a=3 "
                  "--input b=8",
                  path()));
  EXPECT_EQ(all.code, 0) << all.text;
  EXPECT_HAS(all.text, "4 ranks on this machine, ");
  EXPECT_HAS(all.text, "15");
  EXPECT_HAS(all.text, "best 8");
  Outcome typo = shell(fmt::format("cli/nabla-run {} --class trainr --entry step", path()));
  EXPECT_HAS(typo.text, "has no class `trainr`; it has trainer, scorer; did you mean `trainer`?");
}

TEST_F(RanksBundle, AClassThatCommunicatesDoesNotRunAlone) {
  std::string file = testing::TempDir() + "/talks.nbundle";
  ASSERT_TRUE(format::write_file(file, *format::two_classes().bytes()).ok());
  Outcome front = shell(fmt::format("cli/nabla-run {} --class front --entry step --input x=x.npy", file));
  EXPECT_EQ(front.code, 1);
  EXPECT_HAS(front.text, "error[E0608]: " + file + ": ranks of class `front` communicate with others: `send`\n");
  format::TwoClasses variants = format::two_classes();
  format::move_to_variant(*variants.front.entries[0]);
  format::move_to_variant(*variants.back.entries[1]);
  std::string other = testing::TempDir() + "/talks_in_variants.nbundle";
  ASSERT_TRUE(format::write_file(other, *variants.bytes()).ok());
  EXPECT_HAS(shell(fmt::format("cli/nabla-run {} --class front --entry step --input x=x.npy", other)).text,
             "error[E0608]: " + other + ": ranks of class `front` communicate with others: `send`\n");
  Outcome all = shell("cli/nablac inspect " + file);
  EXPECT_HAS(all.text, "bundle for 4 ranks of 2 classes\nmesh pod: pp=2, dp=2\n");
  EXPECT_HAS(all.text, "groups   dp of 2\n  channel  to rank +2, 16 bytes at most\n");
}

TEST_F(RanksBundle, IsVerifiedAndInspected) {
  Outcome verified = shell("cli/nablac verify " + path());
  EXPECT_EQ(verified.code, 0);
  EXPECT_HAS(verified.text, "class trainer: ");
  EXPECT_HAS(verified.text, "class scorer: ");
  Outcome all = shell("cli/nablac inspect " + path());
  EXPECT_EQ(all.code, 0);
  EXPECT_HAS(all.text, "bundle for 4 ranks of 2 classes\n");
  EXPECT_HAS(all.text, "class trainer: 2 ranks from rank 0 on\n");
  EXPECT_HAS(all.text, "entries  init, step\n");
  EXPECT_HAS(all.text, "class scorer: 2 ranks from rank 2 on\n");
  Outcome one = shell("cli/nablac inspect --class scorer " + path());
  EXPECT_EQ(one.code, 0);
  EXPECT_HAS(one.text, "score");
  EXPECT_EQ(one.text.find("step"), std::string::npos) << one.text;
  Outcome source = shell("cli/nablac inspect --source --class scorer " + path());
  EXPECT_HAS(source.text, "class/scorer/source/");
  EXPECT_EQ(source.text.find("class/trainer/"), std::string::npos);
  Outcome json = shell("cli/nablac inspect --json " + path());
  EXPECT_EQ(json.code, 1);
  EXPECT_HAS(json.text, "name one of them with --class");
}

TEST_F(RanksBundle, RunsOnlySignedWhereThatIsAskedFor) {
  std::string dir = testing::TempDir() + "/keys-", signed_path = dir + "signed.nbundle";
  for (const char* who : {"mine", "other"}) EXPECT_EQ(shell("cli/nablac keys " + dir + who).code, 0);
  Outcome again = shell("cli/nablac keys " + dir + "mine");
  EXPECT_EQ(again.code, 1);
  EXPECT_HAS(again.text, "keys-mine.secret`: File exists\n   = help: give these keys another name; a key that has signed bundles is not "
             "replaced\n");
  auto with = [&](const std::string& bundle, const std::string& key) {
    return shell(fmt::format("cli/nabla-run {} --class scorer --input a=1 --input b=2 --require-signature {}", bundle, dir + key));
  };
  EXPECT_HAS(with(path(), "mine.public").text, "error[E0109]: " + path() + " is not signed\n");
  Outcome made = shell(fmt::format("cli/nablac sign {} --key {}mine.secret -o {}", path(), dir, signed_path));
  EXPECT_EQ(made.code, 0) << made.text;
  EXPECT_EQ(with(signed_path, "mine.public").code, 0) << with(signed_path, "mine.public").text;
  EXPECT_HAS(with(signed_path, "other.public").text, ", and asked for is ");
  EXPECT_HAS(with(signed_path, "mine.secret").text, "mine.secret holds a secret key; a public key is needed here\n");
  EXPECT_EQ(shell("cli/nablac verify " + signed_path).code, 0);
}

// The digits MLP, with layouts in its program: how many ranks there are is a word of the command line.
TEST(DigitsOnRanks, TrainAlikeOnAnyMesh) {
  std::string dir = testing::TempDir(), data = "examples/digits/digits.npz";
  ASSERT_EQ(shell(fmt::format("examples/digits/mlp_ranks {}/m.nir", dir)).code, 0);
  std::vector<std::string> losses;
  for (const char* mesh : {"dp=1,tp=1", "dp=2,tp=2", "dp=4", "tp=8"}) {
    Outcome compiled =
        shell(fmt::format("cli/nablac compile {0}/m.nir --no-library --mesh {1} -o {0}/m.nbundle", dir, mesh));
    ASSERT_EQ(compiled.code, 0) << compiled.text;
    if (std::string_view(mesh) == "dp=2,tp=2") {
      Outcome parts = shell(fmt::format("cli/nablac inspect {}/m.nbundle", dir));
      EXPECT_HAS(parts.text, "entry step(x: u8[32,8,8], y: i32[32])");
      EXPECT_HAS(parts.text, "bundle for 4 ranks of 1 class");
      EXPECT_HAS(parts.text, "mesh pod: dp=2, tp=2\n");
      EXPECT_HAS(parts.text, "what one rank does:\n");
      EXPECT_EQ(parts.text.find("size dp.index"), std::string::npos) << parts.text;
      EXPECT_HAS(parts.text, "f32[64,64]");
      EXPECT_HAS(parts.text, "all_reduce");
    }
    Outcome run = shell(fmt::format(
        "cli/nabla-run {0}/m.nbundle --seed 0 --threads 1 --entry step --data {1} --map x=x_train --map y=y_train "
        "--epochs 2 --save-state {0}/m.safetensors --entry eval --data {1} --map x=x_test --map y=y_test",
        dir, data));
    ASSERT_EQ(run.code, 0) << run.text;
    if (std::string_view(mesh) == "dp=2,tp=2") {
      EXPECT_HAS(run.text, "4 ranks of mesh pod (dp=2, tp=2) on this machine, 1 thread each\n");
    }
    size_t at = run.text.rfind("eval: loss ");
    ASSERT_NE(at, std::string::npos) << run.text;
    losses.push_back(run.text.substr(at, 16));  // four digits
    if (losses.size() == 1) continue;
    EXPECT_EQ(losses.back(), losses[0]) << mesh;
    // What ranks saved one rank reads.
    ASSERT_EQ(shell(fmt::format("cli/nablac compile {0}/m.nir --no-library -o {0}/one.nbundle", dir)).code, 0);
    Outcome one = shell(fmt::format(
        "cli/nabla-run {0}/one.nbundle --state {0}/m.safetensors --entry eval --data {1} --map x=x_test --map "
        "y=y_test",
        dir, data));
    EXPECT_EQ(one.text.substr(one.text.rfind("eval: loss "), 16), losses.back()) << one.text;
  }
}

// The digits MLP as it was written for one rank: how it is spread is said to the compiler alone.
TEST(DigitsOnRanks, AProgramOfOneRankIsSpread) {
  std::string dir = testing::TempDir(), data = "examples/digits/digits.npz", first;
  ASSERT_EQ(shell(fmt::format("examples/digits/mlp {}/plain.nir", dir)).code, 0);
  for (const char* spread : {"", "--mesh dp=4 --data-axes dp", "--mesh dp=2 --data-axes dp --zero 1",
                             "--mesh dp=2 --data-axes dp --zero 3 --microbatches 4", "--microbatches 8",
                             "--mesh dp=2,tp=2 --data-axes dp --zero 1 --layout fc1.w=,tp --layout fc2.w=tp,",
                             "--mesh dp=4 --data-axes dp --zero 3"}) {
    Outcome compiled =
        shell(fmt::format("cli/nablac compile {0}/plain.nir --no-library {1} -o {0}/plain.nbundle", dir, spread));
    ASSERT_EQ(compiled.code, 0) << compiled.text;
    if (std::string_view(spread).ends_with("zero 3")) {
      EXPECT_HAS(compiled.text, "note: --zero 3: along {dp}, 4 ranks, lie 5 parameters and 10 leaves of the optimizer's state\n");
      EXPECT_HAS(compiled.text, "note: --zero 3: fc3.b: f32[10] stays whole, as 4 ranks divide none of its dimensions "
                                "(the first of 3 notes of this kind)\n");
      EXPECT_EQ(compiled.text.find("is not laid out along"), std::string::npos) << compiled.text;
    }
    Outcome run = shell(fmt::format(
        "cli/nabla-run {0}/plain.nbundle --seed 0 --threads 1 --entry step --data {1} --map x=x_train --map y=y_train "
        "--epochs 2 --entry eval --data {1} --map x=x_test --map y=y_test",
        dir, data));
    ASSERT_EQ(run.code, 0) << run.text;
    size_t at = run.text.rfind("eval: loss ");
    ASSERT_NE(at, std::string::npos) << run.text;
    if (first.empty()) first = run.text.substr(at, 16);  // four digits
    EXPECT_EQ(run.text.substr(at, 16), first) << spread;
  }
}

TEST(DigitsOnRanks, AMeshThatDoesNotFitIsRefused) {
  std::string dir = testing::TempDir();
  ASSERT_EQ(shell(fmt::format("examples/digits/mlp_ranks {}/m.nir", dir)).code, 0);
  auto refusal = [&](const char* mesh) {
    return shell(fmt::format("cli/nablac compile {0}/m.nir --mesh {1} -o {0}/m.nbundle", dir, mesh)).text;
  };
  EXPECT_HAS(refusal("dp=3"), "dimension 0 of u8[64,8,8] has 64 elements, which 3 shards along {dp} do not divide");
  EXPECT_HAS(refusal("dq=2"), "error[E0210]: --mesh: mesh pod (dp=1, tp=1) has no axis `dq`; did you mean `dp`?");
  EXPECT_HAS(refusal("dp"), "error[E0901]: --mesh takes a size for every axis, not `dp`");
  EXPECT_HAS(refusal("dp=2,4"), "error[E0901]: --mesh takes a size for every axis, not `dp=2,4`");
  EXPECT_HAS(refusal("dp=0"), "axis dp has 0 ranks, expected 1 or more");
}

}  // namespace
}  // namespace nabla::cli
