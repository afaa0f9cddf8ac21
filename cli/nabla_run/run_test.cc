// nabla-run end to end over the toy bundle, as a function and as an executable.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/nabla_run/curve.h"
#include "cli/nabla_run/data.h"
#include "cli/nabla_run/run.h"
#include "cli/nabla_run/options.h"
#include "runtime/exec/test_bundle.h"
#include "runtime/format/file.h"
#include "runtime/format/npy.h"
#include "runtime/format/program_generated.h"
#include "runtime/format/safetensors.h"

namespace nabla::cli {
namespace {

struct Outcome {
  int code = 0;
  std::string out, err;
};

Outcome run(std::vector<std::string> args) {
  args.insert(args.begin(), "nabla-run");
  std::vector<const char*> argv;
  for (const std::string& arg : args) argv.push_back(arg.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = nabla_run_main(static_cast<int>(argv.size()), argv.data());
  std::fflush(stdout);
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

std::string temporary(const std::string& name) { return testing::TempDir() + "/" + name; }

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

class NablaRun : public testing::Test {
 protected:
  void SetUp() override {
    bundle_ = exec::write_toy_bundle("toy.nbundle");
    // Five samples x[s] = {s, 1, 1, 1}: two batches of 2 and one left over.
    Literal x(DType::kU8, {5, 4});
    for (int64_t i = 0; i < 20; ++i) x.set_i(i, i % 4 == 0 ? i / 4 : 1);
    data_ = temporary("data.npz");
    ASSERT_TRUE(format::write_npz(data_, {{"x", x}, {"other", x.reshaped({4, 5})}}).ok());
  }
  std::string bundle_, data_;
};

TEST_F(NablaRun, TrainsEvaluatesAndSavesInOneProcess) {
  std::string state = temporary("w.safetensors"), metrics = temporary("m.jsonl"), curve = temporary("c.svg");
  Outcome o = run({bundle_, "--seed", "7", "--entry", "step", "--data", data_, "--epochs", "3", "--entry", "eval",
                   "--data", data_, "--save-state", state, "--metrics", metrics, "--loss-curve", curve});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_HAS(o.err, "note: array `x` of " + data_ + " is converted from u8 to f32 for input `x`");
  // The mean of 0..4 over all five samples; a batch counts by its real samples.
  EXPECT_HAS(o.out, "eval: mean 2  (5 samples in 3 runs)");
  Literal w = (*format::read_safetensors(state))[0].second;
  // init made 7, 8, 9, 10; 3 epochs of 2 batches of 2 samples add 12 to the columns of ones.
  EXPECT_EQ(w.get(1), 20);
  EXPECT_EQ(w.get(3), 22);
  std::istringstream lines(read_text(metrics));
  std::vector<nlohmann::json> records;
  for (std::string line; std::getline(lines, line);) records.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(records.size(), 7u);
  EXPECT_EQ(records[5]["entry"], "step");
  EXPECT_EQ(records[5]["step"], 6);
  EXPECT_EQ(records[5]["epoch"], 3);
  EXPECT_EQ(records[5]["loss"].get<double>(), w.get(0) + w.get(1) + w.get(2) + w.get(3));
  EXPECT_EQ(records[6], (nlohmann::json{{"entry", "eval"}, {"step", 6}, {"epoch", 3}, {"mean", 2}}));
  EXPECT_HAS(read_text(curve), "</svg>");
}

TEST_F(NablaRun, TheSameSeedGivesTheSameRunAndAnotherSeedAnotherOrder) {
  auto metrics = [&](const char* seed) {
    std::string path = temporary("seed.jsonl");
    EXPECT_EQ(
        run({bundle_, "--seed", seed, "--entry", "step", "--data", data_, "--epochs", "5", "--metrics", path}).code, 0);
    return read_text(path);
  };
  EXPECT_EQ(metrics("1"), metrics("1"));
  EXPECT_NE(metrics("1"), metrics("2"));
}

// Batches of another order, or steps that are counted otherwise, would give other sums of the first column.
TEST_F(NablaRun, TrainingInPartsIsTrainingInOnePiece) {
  auto train = [&](std::vector<std::string> args, const char* to) {
    std::string state = temporary(to), metrics = temporary("parts.jsonl");
    args.insert(args.begin(), bundle_);
    for (const char* arg :
         {"--entry", "step", "--data", data_.c_str(), "--metrics", metrics.c_str(), "--save-state", state.c_str()})
      args.push_back(arg);
    Outcome o = run(args);
    EXPECT_EQ(o.code, 0) << o.err;
    return read_text(state) + read_text(metrics).substr(read_text(metrics).rfind("{\"entry\""));
  };
  std::string half = temporary("half.safetensors"), plain = temporary("plain.safetensors");
  for (const char* unit : {"--steps", "--epochs"}) {
    std::string whole = train({"--seed", "5", unit, "10"}, "whole.safetensors");
    train({"--seed", "5", unit, "3"}, "half.safetensors");
    EXPECT_EQ(train({"--state", half, unit, "7"}, "second.safetensors"), whole) << unit;
    // Without the texts beside the arrays, as options.
    ASSERT_TRUE(format::write_safetensors(plain, *format::read_safetensors(half)).ok());
    std::string next = unit == std::string("--steps") ? "4" : "7";
    EXPECT_EQ(train({"--state", plain, "--seed", "5", "--start-step", next, unit, "7"}, "third.safetensors"), whole);
    EXPECT_NE(train({"--state", plain, "--seed", "5", "--start-step", next, "--skip", "0", unit, "7"}, "x.safetensors"),
              whole);
    EXPECT_NE(train({"--state", half, "--start-step", "1", unit, "7"}, "x.safetensors"), whole);
  }
  // Also in one process, with something else between.
  std::string whole = train({"--seed", "5", "--epochs", "3"}, "whole.safetensors");
  EXPECT_EQ(
      train({"--seed", "5", "--entry", "step", "--data", data_, "--epochs", "2", "--entry", "eval", "--data", data_},
            "parts.safetensors"),
      whole);
}

TEST_F(NablaRun, WhereTrainingGoesOnIsChecked) {
  auto fails = [&](std::vector<std::string> args, const char* message) {
    args.insert(args.begin(), bundle_);
    Outcome o = run(args);
    EXPECT_NE(o.code, 0);
    EXPECT_HAS(o.err, message);
  };
  fails({"--entry", "step", "--skip", "1"}, "--skip needs --data (of --entry step)\n"
                                            "   = help: name the samples: --data FILE.npz or FILE.safetensors\n");
  fails({"--entry", "step", "--batch", "1"}, "--batch needs --data (of --entry step)");
  fails({"--entry", "eval", "--data", data_, "--start-step", "2"},
        "entry `eval` writes no state: there is nothing that --start-step could continue\n   = help: leave --start-step out\n");
  fails({"--entry", "step", "--data", data_, "--bench", "1", "--skip", "1"},
        "--bench excludes --start-step and --skip");
  std::string path = temporary("bad.safetensors");
  Literal w(DType::kF32, {4});
  for (const char* text : {"{}", "[", "1", R"({"seed":0,"step":-1,"epoch":0,"position":0,"samples":5,"batch":2})",
                           R"({"seed":0,"step":1,"epoch":0,"position":3,"samples":5,"batch":2})",
                           R"({"seed":0,"step":1,"epoch":9223372036854775807,"position":0,"samples":5,"batch":2})"}) {
    ASSERT_TRUE(format::write_safetensors(path, {{"w", w}}, {{"nabla.progress.step", text}}).ok());
    fails({"--state", path, "--entry", "step", "--data", data_}, "`nabla.progress.step` of its metadata is damaged");
  }
  // What is not ours is left alone; other data begin anew, and it is said.
  ASSERT_TRUE(format::write_safetensors(
                  path, {{"w", w}},
                  {{"format", "pt"},
                   {"nabla.progress.step", R"({"seed":3,"step":9,"epoch":1,"position":2,"samples":70,"batch":7})"}})
                  .ok());
  Outcome o = run({bundle_, "--state", path, "--entry", "step", "--data", data_});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_HAS(o.err, "goes on after step 9, but its data had 70 samples in batches of 7; their order begins anew");
}

TEST_F(NablaRun, PredictionsOfAllSamplesAreJoined) {
  std::string state = temporary("ones.safetensors"), y = temporary("y.npy");
  ASSERT_TRUE(format::write_safetensors(
                  state, {{"w", Literal::from_bytes(DType::kF32, {4}, std::vector<float>{1, 2, 3, 4}.data())}})
                  .ok());
  Outcome o = run({bundle_, "--state", state, "--entry", "predict", "--data", data_, "--output", "y=" + y});
  ASSERT_EQ(o.code, 0) << o.err;
  Literal joined = *format::read_npy(y);
  ASSERT_EQ(joined.shape(), (std::vector<int64_t>{5, 4}));
  EXPECT_EQ(joined.get(16), 4);
  EXPECT_EQ(joined.get(19), 4);
}

TEST_F(NablaRun, ASingleRunTakesFilesAndNumbersAndPrintsItsOutputs) {
  std::string x = temporary("x.npy");
  Literal ones(DType::kF32, {2, 4});
  for (int64_t i = 0; i < 8; ++i) ones.set(i, 1);
  ASSERT_TRUE(format::write_npy(x, ones).ok());
  Outcome o = run({bundle_, "--entry", "init", "--input", "seed=3", "--entry", "predict", "--input", "x=" + x});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_HAS(o.out, "y = f32[2,4] {3, 4, 5, 6, 3, 4, 5, 6}");
}

TEST_F(NablaRun, WeightsGoOverStateAndAreReported) {
  std::string file = temporary("pretrained.safetensors"), state = temporary("loaded.safetensors");
  Literal half(DType::kF16, {2, 2}), spare(DType::kF32, {3});
  for (int64_t i = 0; i < 4; ++i) half.set(i, static_cast<double>(10 + i));
  ASSERT_TRUE(format::write_safetensors(file, {{"model.w", half}, {"spare", spare}}).ok());
  std::string x = temporary("ones.npy");
  Literal ones(DType::kF32, {2, 4});
  for (int64_t i = 0; i < 8; ++i) ones.set(i, 1);
  ASSERT_TRUE(format::write_npy(x, ones).ok());
  std::vector<std::string> line = {
      bundle_,        "--entry", "predict",   "--input", "x=" + x, "--output", "y=" + temporary("y.npy"),
      "--save-state", state,     "--weights", file};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), line.begin(), line.end());
    return run(more);
  };
  Outcome o = with({"--weights-map", "model.*=*:reshape"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_HAS(o.err, "weights: 1 of 1 leaves from " + file + " (16 B)\n  converted   1 leaves f16 -> f32\n");
  EXPECT_HAS(o.err, "  not used    `spare` (f32[3])");
  EXPECT_EQ((*format::read_npy(temporary("y.npy"))).get(3), 13);
  EXPECT_EQ((*format::read_safetensors(state))[0].second.get(2), 12);

  o = with({"--weights-map", "model.*=*"});
  EXPECT_EQ(o.code, 1);
  EXPECT_HAS(o.err, "1 of 1 leaves do not fit: `w` is f32[4], `model.w` in the file is f16[2,2]");
  o = with({});
  EXPECT_EQ(o.code, 1);
  EXPECT_HAS(o.err, "no tensor for 1 of 1 leaves: `w` (f32[4])");
  EXPECT_HAS(o.err, "the file also has `model.w` (f16[2,2]), `spare` (f32[3])");
  // Left to init, and left to --state.
  o = with({"--weights-partial", "--seed", "5"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_HAS(o.err, "weights: 0 of 1 leaves");
  EXPECT_HAS(o.err, "  kept        `w` (f32[4])");
  EXPECT_EQ((*format::read_npy(temporary("y.npy"))).get(1), 6);
  o = with({"--state", state});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ((*format::read_npy(temporary("y.npy"))).get(1), 6);
  o = with({"--state", state, "--weights-map", "model.w=w:reshape"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ((*format::read_npy(temporary("y.npy"))).get(1), 11);

  o = with({"--weights-map", "model.w"});
  EXPECT_EQ(o.code, 2);
  EXPECT_HAS(o.err, "--weights-map takes PATTERN=TARGET, not `model.w`\n   = help: such as h.*.attn.w=layers.*.attn.w");
  EXPECT_EQ(run({bundle_, "--entry", "init", "--weights", file}).code, 2);
  EXPECT_EQ(run({bundle_, "--entry", "init", "--weights-partial"}).code, 2);
}

TEST_F(NablaRun, BenchPrintsJson) {
  Outcome o = run({bundle_, "--entry", "step", "--bench", "5", "--json", "--threads", "1"});
  ASSERT_EQ(o.code, 0) << o.err;
  auto record = nlohmann::json::parse(o.out);  // of the init before it stderr tells
  EXPECT_EQ(record["runs"], 5);
  EXPECT_LE(record["min_us"].get<double>(), record["median_us"].get<double>());
}

TEST_F(NablaRun, MistakesAreDiagnosticsWithCodesAndNames) {
  auto fails = [&](std::vector<std::string> args, int code, const std::string& part) {
    args.insert(args.begin(), bundle_);
    Outcome o = run(args);
    EXPECT_EQ(o.code, code) << o.err;
    EXPECT_HAS(o.err, part);
  };
  fails({"--entry", "stop"}, 1, "error[E0603]");
  fails({"--entry", "stop"}, 1, "did you mean `step`?");
  fails({}, 1, "which entry?");
  fails({"--entry", "eval"}, 1, "input `x` (f32[2,4]) of entry `eval` has no value");
  fails({"--entry", "eval", "--input", "z=1"}, 1, "error[E0701]: entry `eval` has no input `z`");
  fails({"--entry", "eval", "--input", "x=" + data_ + ":other"}, 1, "error[E0703]: input `x` is f32[2,4]; ");
  fails({"--entry", "eval", "--data", temporary("none.npz")}, 1, "error[E0801]");
  fails({"--entry", "eval", "--data", data_, "--map", "x=xx"}, 1, "has no array `xx`; its arrays are `x`, `other`; did you mean `x`?");
  fails({"--entry", "eval", "--data", data_, "--map", "x=other"}, 1, "samples of another shape: [4,5]");
  fails({"--entry", "eval", "--data", data_, "--epochs", "2"}, 2, "without --epochs");
  fails({"--entry", "predict", "--data", data_}, 1, "error[E0705]: entry `predict` reads state `w`");
  fails({"--entry", "predict", "--data", data_, "--output", "q=y.npy"}, 1, "has no output `q`");
  fails({"--entry", "init", "--input", "seed=-1"}, 1, "error[E0704]");
  fails({"--entry", "init", "--seed", "99999999999"}, 2, "--seed 99999999999 does not fit input `seed`");
  fails({"--entry", "init", "--state", data_}, 1, "error[E0105]");
  fails({"--entry", "eval", "--input", "x=a.npy:bogus"}, 2,
        "--input x=a.npy:bogus: `:bogus` names no array: a .npy file holds one, without a name");
  fails({"--entry", "eval", "--input", "mask=a.npy", "--input", "mask=b.npy"}, 2, "--input names `mask` twice");
  fails({"--entry", "init", "--metrics", "/dev/full"}, 0, "");
  fails({"--entry", "init", "--save-state", "/dev/full"}, 1, "error[E0803]");
  fails({"--entry", "init", "--loss-curve", "x.svg"}, 2, "--loss-curve: no entry");
  fails({"--entry", "init", "--comm-timeout", "5"}, 2, "--comm-timeout: one rank runs, and waits for no other");
}

TEST_F(NablaRun, AMetricsFileOnAFullDiskIsAnError) {
  Outcome o = run({bundle_, "--entry", "step", "--data", data_, "--metrics", "/dev/full"});
  EXPECT_EQ(o.code, 1);
  EXPECT_HAS(o.err, "error[E0803]: cannot write `/dev/full`: No space left on device\n   = help: free space there");
  // At the first step, not after the last; what was trained is kept.
  std::string state = temporary("full.safetensors");
  o = run({bundle_, "--entry", "step", "--data", data_, "--epochs", "1000000000", "--metrics", "/dev/full", "--save-state", state});
  EXPECT_EQ(o.code, 1);
  EXPECT_HAS(o.err, "error[E0803]: cannot write `/dev/full`: No space left on device");
  EXPECT_TRUE(std::filesystem::exists(state));
}

TEST_F(NablaRun, NamesDoNotReachTheTerminalRaw) {
  std::string path = exec::write_toy_bundle("names.nbundle", [](format::ProgramT& p) {
    for (auto& entry : p.entries)
      if (entry->name == "predict") entry->outputs[0]->name = "y\x1b[2J";
  });
  std::string x = temporary("raw.npy");
  ASSERT_TRUE(format::write_npy(x, Literal(DType::kF32, {2, 4})).ok());
  Outcome o = run({path, "--entry", "init", "--input", "seed=3", "--entry", "predict", "--input", "x=" + x});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_HAS(o.out, "y\\x1b[2J = f32[2,4]");
  Outcome missing = run({temporary("no\nsuch\x1b[31m")});
  EXPECT_HAS(missing.err, "no\\nsuch\\x1b[31m`");
}

TEST_F(NablaRun, NamesMayHoldTheSignThatEndsThem) {
  std::string path = exec::write_toy_bundle("equals.nbundle", [](format::ProgramT& p) {
    for (auto& entry : p.entries)
      if (entry->name == "predict") entry->inputs[0]->name = "x=0", entry->outputs[0]->name = "y=1";
  });
  std::string x = temporary("equals.npy"), y = temporary("equals_y.npy");
  ASSERT_TRUE(format::write_npy(x, Literal(DType::kF32, {2, 4})).ok());
  std::vector<std::string> line = {path, "--entry", "init", "--input", "seed=3", "--entry", "predict"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), line.begin(), line.end());
    return run(more);
  };
  Outcome o = with({"--input", "x=0=" + x, "--output", "y=1=" + y});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_TRUE(format::read_npy(y).ok());
  o = with({"--data", data_, "--map", "x=0=x"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_HAS(with({"--data", data_, "--map", "x=1=x"}).err, "--map: entry `predict` has no input `x`");
  EXPECT_HAS(with({"--input", "x=0=" + x, "--input", "x=0=" + x}).err, "--input names `x=0` twice");
}

// Only those who ask for an array are told that it cannot be taken.
TEST_F(NablaRun, ArraysThatCannotBeTakenAreRefusedWhenTheyAreUsed) {
  Literal x(DType::kU8, {4, 4}), bools(DType::kBool, {4, 4});
  static_cast<uint8_t*>(bools.mutable_data())[6] = 7;
  std::string file = temporary("mixed.npz");
  ASSERT_TRUE(format::write_npz(file, {{"x", x}, {"odd", bools}}).ok());
  EXPECT_EQ(run({bundle_, "--entry", "eval", "--data", file}).code, 0);
  Outcome o = run({bundle_, "--entry", "eval", "--data", file, "--map", "x=odd"});
  EXPECT_EQ(o.code, 1);
  EXPECT_HAS(o.err,
             "error[E0704]: " + file + ": array `odd`: element 6 of the bools in the file is 7, expected 0 or 1");
  EXPECT_HAS(o.err, "help: write bools as 0 and 1, or save the array as u8");
}

TEST_F(NablaRun, AProgramWithoutStateSaysSo) {
  std::string path = exec::write_toy_bundle("stateless.nbundle", [](format::ProgramT& p) {
    std::erase_if(p.entries, [](const auto& e) { return e->name != "eval"; });
    for (auto& entry : p.entries) entry->reads.clear(), entry->writes.clear();
    p.state.clear();
  });
  std::string file = temporary("nothing.safetensors");
  ASSERT_TRUE(format::write_safetensors(file, {{"w", Literal(DType::kF32, {4})}}).ok());
  for (const char* option : {"--state", "--weights"}) {
    Outcome o = run({path, "--entry", "eval", "--data", data_, option, file});
    EXPECT_EQ(o.code, 1);
    EXPECT_HAS(o.err, "error[E0706]: " + file + ": the program has no state that it could go to");
    EXPECT_HAS(o.err, fmt::format("help: run the program without {}\n", option));
  }
}

TEST_F(NablaRun, AProfileTellsEveryEntryThatRan) {
  std::string trace = temporary("profile.json");
  Outcome o = run({bundle_, "--entry", "step", "--data", data_, "--epochs", "3", "--profile", "--trace", trace});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_HAS(o.out, "init: ");
  EXPECT_HAS(o.out, " us a run, the median of 5; ");
  EXPECT_HAS(o.out, "GFLOP/s     GB/s  of peak  what");
  EXPECT_HAS(o.out, "toy.cc:12\n");
  EXPECT_HAS(o.out, " GB/s; measured now\n");
  auto profile = nlohmann::json::parse(read_text(trace))["profile"];
  ASSERT_EQ(profile.size(), 2u);
  EXPECT_EQ(profile[1]["runs"], 5) << "six, of which the first warms up";
  EXPECT_EQ(run({bundle_, "--entry", "init"}).out.find("of peak"), std::string::npos);
  std::istringstream lines(run({bundle_, "--entry", "init", "--bench", "2", "--json", "--profile"}).out);
  std::string line;
  for (const char* field : {"median_us", "profile"}) {
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_TRUE(nlohmann::json::parse(line).contains(field)) << line;
  }
}

// The compiler knows what a kernel reads of its operands.
TEST_F(NablaRun, AProfileCountsTheBytesThatALaunchSays) {
  std::string path = exec::write_toy_bundle("moved.nbundle", [](format::ProgramT& p) {
    for (auto& i : p.entries[0]->instructions)
      if (format::LaunchT* launch = i->action.AsLaunch()) launch->bytes = 7;
  });
  std::istringstream lines(run({path, "--entry", "init", "--bench", "2", "--json", "--profile"}).out);
  std::string line;
  std::getline(lines, line), std::getline(lines, line);
  auto rows = nlohmann::json::parse(line)["profile"][0]["rows"];
  int launches = 0;
  for (const auto& row : rows) {
    if (row["kind"] != "kernel") continue;
    EXPECT_EQ(row["bytes"], 7 * row["calls"].get<double>());
    ++launches;
  }
  EXPECT_GT(launches, 0) << line;
}

TEST_F(NablaRun, AnEvaluationWithARestNeedsAMask) {
  std::string path =
      exec::write_toy_bundle("nomask.nbundle", [](format::ProgramT& p) { p.entries[2]->inputs[1]->name = "weights"; });
  Outcome o = run({path, "--entry", "eval", "--data", data_});
  EXPECT_EQ(o.code, 1);
  EXPECT_HAS(o.err, "has 5 samples, which is no multiple of the batch of 2: entry `eval` needs an input `mask` f32[2]");
}

TEST_F(NablaRun, WrongCommandLinesExitWith2) {
  EXPECT_EQ(run({}).code, 2);
  EXPECT_EQ(run({bundle_, "--nonsense"}).code, 2);
  EXPECT_EQ(run({bundle_, "--entry", "step", "--epochs", "2"}).code, 2);
  EXPECT_EQ(run({bundle_, "--entry", "step", "--steps", "0"}).code, 2);
  EXPECT_EQ(run({bundle_, "--seed", "1", "--entry", "step", "--seed", "2"}).code, 2);
  EXPECT_EQ(run({bundle_, "--data", data_, "--entry", "step", "--entry", "eval"}).code, 2);
  EXPECT_EQ(run({bundle_, "--input", "x"}).code, 2);
  Outcome help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_HAS(help.out, "once per input");
  EXPECT_EQ(help.out.find("TEXT ..."), std::string::npos) << help.out;
  EXPECT_EQ(run({"--version"}).out, "nabla-run 0.1.0 (IR version 1, bundle version 2)\n");
  EXPECT_EQ(run({bundle_, "--input", "a=1", "b=2"}).code, 2);
  for (const char* option : {"--trace", "--metrics", "--loss-curve", "--save-state", "--state", "--data"}) {
    Outcome empty = run({bundle_, "--entry", "init", option, ""});
    EXPECT_EQ(empty.code, 2) << option;
    EXPECT_HAS(empty.err, fmt::format("error[E0901]: {}: the file name is empty", option));
  }
  for (const char* option : {"--entry", "--target", "--class"}) {
    Outcome empty = run({bundle_, option, ""});
    EXPECT_EQ(empty.code, 2) << option;
    EXPECT_HAS(empty.err, fmt::format("error[E0901]: {}: the name is empty", option));
  }
  // `--option=$UNSET` leaves the value empty. The next option must not be taken as the value.
  Outcome unset = run({bundle_, "--entry", "init", "--save-state=", "--profile"});
  EXPECT_EQ(unset.code, 2);
  EXPECT_HAS(unset.err, "error[E0901]: --save-state: nothing stands after the `=`");
  Outcome unnamed = run({bundle_, "--rendezvous", ""});
  EXPECT_EQ(unnamed.code, 2);
  EXPECT_HAS(unnamed.err, "error[E0901]: --rendezvous: it is empty, not HOST:PORT");
  for (const char* flag : {"--profile", "--json", "--check-nan", "--check-messages"}) {
    Outcome counted = run({bundle_, "--entry", "init", fmt::format("{}=7", flag)});
    EXPECT_EQ(counted.code, 2) << flag;
    EXPECT_HAS(counted.err, fmt::format("error[E0901]: {}: `7` is not true, false, yes, no, on, off, 1 or 0; the flag", flag));
  }
  Outcome asked = run({bundle_, "--entry", "init", "--profile=yes", "--json=false"});
  EXPECT_EQ(asked.code, 0) << asked.err;
  Outcome nowhere = run({bundle_, "--entry", "init", "--trace", "/nonexistent/t.json"});
  EXPECT_HAS(nowhere.err, "error[E0803]: --trace: cannot write `/nonexistent/t.json`");
  EXPECT_EQ(nowhere.err.find("error"), nowhere.err.rfind("error")) << nowhere.err;  // it is said once
  Outcome none = run({temporary("missing.nbundle")});
  EXPECT_EQ(none.code, 1);
  EXPECT_HAS(none.err, "error[E0801]");
}

TEST_F(NablaRun, AProgramIsChosenByItsTarget) {
  EXPECT_EQ(run({bundle_, "--target", "cpu:x86-64", "--entry", "init"}).code, 0);
  Outcome other = run({bundle_, "--target", "sm_90a", "--entry", "init"});
  EXPECT_EQ(other.code, 1);
  EXPECT_HAS(other.err, "error[E0404]: ");
  EXPECT_HAS(other.err, "has no program for `sm_90a`; it has cpu:x86-64");
  Outcome debug = run({bundle_, "--sync-debug", "--entry", "init"});
  EXPECT_EQ(debug.code, 2);
  EXPECT_HAS(debug.err, "error[E0901]: sync-debug is for GPUs; the program for cpu:x86-64 runs");
}

TEST(CommandLine, OptionsOfTheOnlyEntryMayStandBeforeIt) {
  auto line = parse_command_line(
      {"--data", "d.npz", "--map", "x=a", "b.nbundle", "--entry", "step", "--epochs", "2", "--threads", "3"}, false);
  ASSERT_TRUE(line.ok()) << to_string(line.errors());
  ASSERT_EQ(line->options.jobs.size(), 1u);
  EXPECT_EQ(line->options.jobs[0].entry, "step");
  EXPECT_EQ(line->options.jobs[0].data, "d.npz");
  EXPECT_EQ(line->options.bundle, "b.nbundle");
  EXPECT_EQ(line->options.threads, 3);
}

// On both sides of where the table ends.
TEST(Dataset, AnEpochIsAPermutation) {
  for (int64_t samples : {1, 2, 100, 65536, 65537, 70000, 131073, 300000}) {
    auto all = [&](const Order& order) {
      std::vector<int64_t> out;
      for (int64_t i = 0; i < samples; ++i) out.push_back(order[i]);
      return out;
    };
    std::vector<int64_t> first = all(Order(samples, 1, 0)), sorted = all(Order(samples));
    EXPECT_EQ(all(Order(samples, 1, 0)), first);
    if (samples > 2) {
      EXPECT_NE(first, all(Order(samples, 1, 1)));
      EXPECT_NE(first, all(Order(samples, 2, 0)));
      EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
      // In a random order half of the neighbours ascend, and half of the first half of the places have samples of the first half.
      int64_t ascend = 0, low = 0;
      for (int64_t i = 0; i + 1 < samples; ++i) ascend += first[i] < first[i + 1];
      for (int64_t i = 0; i < samples / 2; ++i) low += first[i] < samples / 2;
      EXPECT_NEAR(static_cast<double>(ascend) / static_cast<double>(samples), 0.5, samples > 1000 ? 0.01 : 0.2) << samples;
      EXPECT_NEAR(static_cast<double>(low) / static_cast<double>(samples / 2), 0.5, samples > 1000 ? 0.01 : 0.2) << samples;
    }
    std::sort(first.begin(), first.end());
    EXPECT_EQ(first, sorted);
  }
}

// The order of 2^40 samples would take 8 TB as a list.
TEST(Dataset, TheOrderOfManySamplesTakesNoMemory) {
  constexpr int64_t kSamples = int64_t{1} << 40;
  Order order(kSamples, 3, 0);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 10000; ++i) {
    EXPECT_TRUE(seen.insert(order[i * 109951162]).second) << i;
    EXPECT_TRUE(order[i] >= 0 && order[i] < kSamples) << i;
  }
}

// A process fills the rows of its own ranks, into an array of these rows.
TEST(Dataset, ABatchIsFilledByTheRowsThatAreAskedFor) {
  exec::EntryInfo entry;
  entry.inputs.push_back({"x", DType::kF32, {8, 2}, {}});
  std::string path = temporary("rows.npz");
  Literal all(DType::kF32, {20, 2});
  for (int64_t i = 0; i < all.size(); ++i) all.set(i, static_cast<double>(i));
  ASSERT_TRUE(format::write_npz(path, {{"x", all}}).ok());
  std::vector<std::string> notes;
  ArrayFiles files;
  auto data = Dataset::load({.data = path}, entry, {false}, files, notes);
  ASSERT_TRUE(data.ok()) << to_string(data.errors());
  Order order(20, 7, 0);
  std::vector<Literal> whole{Literal(DType::kF32, {8, 2})};
  data->fill(order, 16, {{0, 8}}, whole);  // the last 4 samples, then the first 4
  for (int64_t row = 0; row < 8; ++row) EXPECT_EQ(whole[0].get(2 * row), static_cast<double>(2 * order[(16 + row) % 20]));
  for (int64_t begin = 0; begin < 8; begin += 2) {
    std::vector<Literal> own{Literal(DType::kF32, data->batch_shape(0, 2))};
    data->fill(order, 16, {{begin, begin + 2}}, own);
    for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(own[0].get(i), whole[0].get(2 * begin + i)) << begin;
  }
}

TEST(ArrayFiles, AFileIsReadOnceAndItsArraysAreShared) {
  exec::TensorInfo x{"x", DType::kF32, {8}, {}};
  exec::EntryInfo entry;
  entry.inputs.push_back({"x", DType::kF32, {4}, {}});
  std::string npz = temporary("once.npz"), npy = temporary("once.npy");
  ASSERT_TRUE(format::write_npz(npz, {{"x", Literal(DType::kF32, {8})}}).ok());
  ASSERT_TRUE(format::write_npy(npy, Literal(DType::kF32, {8})).ok());
  ArrayFiles files;
  Result<Literal> first = read_input({"x", npz}, x, files), whole = read_input({"x", npy}, x, files);
  ASSERT_TRUE(first.ok() && whole.ok());
  std::filesystem::remove(npz);
  std::filesystem::remove(npy);
  Result<Literal> second = read_input({"x", npz + ":x"}, x, files), again = read_input({"x", npy}, x, files);
  ASSERT_TRUE(second.ok() && again.ok());
  EXPECT_EQ(first->data(), second->data());
  EXPECT_EQ(whole->data(), again->data());
  std::vector<std::string> notes;
  EXPECT_TRUE(Dataset::load({.data = npz}, entry, {false}, files, notes).ok());
}

TEST(Dataset, TheBatchIsTheCallersWhereTheProgramLeavesItOpen) {
  exec::EntryInfo open, closed;
  open.inputs.push_back({"x", DType::kF32, {64, 3}, {"batch", ""}});
  closed.inputs.push_back({"x", DType::kF32, {64, 3}, {}});
  std::string path = temporary("batches.npz");
  ASSERT_TRUE(format::write_npz(path, {{"x", Literal(DType::kF32, {50, 3})}}).ok());
  std::vector<std::string> notes;
  ArrayFiles files;
  auto batch = [&](const exec::EntryInfo& entry, std::optional<int64_t> wanted) -> Result<int64_t> {
    return NABLA_TRY(Dataset::load({.data = path, .batch = wanted}, entry, {false}, files, notes)).batch();
  };
  EXPECT_EQ(*batch(open, std::nullopt), 50);  // all that there is
  EXPECT_EQ(*batch(open, 8), 8);
  EXPECT_EQ(*batch(open, 60), 50);
  EXPECT_EQ(*batch(closed, 64), 64);
  EXPECT_HAS(to_string(batch(open, 65).errors()), "--batch 65: input `x` is f32[batch,3], which takes at most 64");
  EXPECT_HAS(to_string(batch(closed, 8).errors()), "--batch 8: input `x` is f32[64,3], which takes 64 samples a run");
}

TEST(Curve, GapsAndConstantsAndNothingAreDrawn) {
  for (std::vector<double> values : {std::vector<double>{}, {1}, {0, 0, 0}, {1, NAN, 2}, {1e-9, 1e9}, {-5, -5}}) {
    std::string svg = curve_svg({"loss <a>", values, 0}, "t & u");
    EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
    EXPECT_EQ(svg.find("inf"), std::string::npos) << svg;
    EXPECT_HAS(svg, "loss &lt;a&gt;");
    EXPECT_HAS(svg, "t &amp; u");
  }
}

}  // namespace
}  // namespace nabla::cli
