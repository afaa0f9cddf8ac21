// What tuning files hold, for which targets it is, and what they are refused for.
#include "cli/driver/tuning.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/driver/compile.h"
#include "cli/driver/machine.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"

namespace nabla::driver {
namespace {

constexpr const char* kRecord = "record NVIDIA H200 | 13.1.0 | gemm bf16 1x2x2x2 nn align 16 = 00ff1a";

std::string write(const std::string& text) {
  std::string path = fmt::format("{}/{}.tuning", std::getenv("TEST_TMPDIR"), std::hash<std::string>()(text));
  std::ofstream(path) << text;
  return path;
}
std::string refusal(const std::string& text) {
  auto read = read_tuning(write(text));
  return read.ok() ? "ok" : fmt::format("line {}: {}", read.errors()[0].location->line, read.errors()[0].message);
}
ir::Target target(const char* name) { return ir::find_target(name).value(); }

TEST(Tuning, ChoicesHoldForTheTargetAboveThem) {
  Tuning t = read_tuning(write("nabla-tuning 2  # measured here\n"
                               "gemm f32 1x8x8x8 nn = matmul\n"
                               "target cpu:x86-64-v4\ngemm f32 1x8x8x8 nn = sgemm  # 12.3\n\n"
                               "target sm_90a\ngemm = generated\n" +
                               std::string(kRecord) + "\n"))
                 .value();
  ir::Target v3 = target("cpu:x86-64-v3"), v4 = target("cpu:x86-64-v4"), sm80 = target("sm_80"),
             sm90 = target("sm_90a");
  for (ir::Target* one : {&v3, &v4, &sm80, &sm90}) {
    EXPECT_TRUE(t.concerns(*one)) << one->name;
    t.apply(*one);
  }
  using Choices = std::map<std::string, std::string>;
  EXPECT_EQ(v3.choices, (Choices{{"gemm f32 1x8x8x8 nn", "matmul"}}));
  EXPECT_EQ(v4.choices, (Choices{{"gemm f32 1x8x8x8 nn", "sgemm"}}));
  EXPECT_EQ(sm80.choices, Choices());
  EXPECT_EQ(sm90.choices, (Choices{{"gemm", "generated"}}));
  EXPECT_TRUE(v4.records.empty());
  ASSERT_EQ(sm80.records.size(), 1u);
  EXPECT_EQ(sm80.records[0],
            (GemmRecord{"NVIDIA H200", "13.1.0", "gemm bf16 1x2x2x2 nn align 16", std::string("\x00\xff\x1a", 3)}));
  EXPECT_EQ(sm80.records[0].str(), kRecord);
}

TEST(Tuning, AFileWithoutTargetsIsForEveryCpu) {
  Tuning t = read_tuning(write("nabla-tuning 1\ngemm f32 1x8x8x8 nn = sgemm\n")).value();
  EXPECT_TRUE(t.concerns(target("cpu:x86-64-v3")));
  EXPECT_TRUE(t.concerns(target("cpu:x86-64-v4")));
  EXPECT_FALSE(t.concerns(target("sm_90a")));
}

TEST(Tuning, RefusalsNameTheLine) {
  EXPECT_EQ(refusal("nabla-tuning 4\n"), "line 1: tuning file: the first line is not `nabla-tuning 3`");
  EXPECT_EQ(refusal("nabla-tuning 2\n\ngemm\n"), "line 3: tuning file: expected `PROBLEM = CHOICE`");
  EXPECT_EQ(refusal("nabla-tuning 2\ngemm = cublaslt\n"),
            "line 2: tuning file: `cublaslt` is a choice of GPUs, not of CPUs, which all above the first `target` is for; known there: "
            "generated, matmul, sgemm");
  EXPECT_EQ(refusal("nabla-tuning 2\ntarget cpu:x86-64-v4\ngemm = cublaslt\n"),
            "line 3: tuning file: `cublaslt` is a choice of GPUs, not of cpu:x86-64-v4; known there: generated, matmul, sgemm");
  EXPECT_EQ(read_tuning(write("nabla-tuning 2\ngemm = cublaslt\n")).errors()[0].help,
            "put it below a line `target sm_90a`, of what is compiled for");
  EXPECT_EQ(refusal("nabla-tuning 2\ntarget sm_90a:H200\ngemm = generated\n"),
            "line 2: tuning file: choices are for all GPUs of a target: `target sm_90a`");
  EXPECT_EQ(refusal("nabla-tuning 2\ntarget sm_90a\ngemm = fastest\n"),
            "line 3: tuning file: unknown choice `fastest`; known: generated, cublaslt");
  EXPECT_EQ(refusal("nabla-tuning 2\ntarget sm_90a\ngemm = sgemm\n"),
            "line 3: tuning file: `sgemm` is a choice of CPUs, not of sm_90a; known there: generated, cublaslt");
  EXPECT_EQ(refusal("nabla-tuning 2\ntarget sm_90a\nconvolution = cublaslt\n"),
            "line 3: tuning file: unknown choice `cublaslt`; known: generated, cudnn");
  EXPECT_EQ(refusal("nabla-tuning 2\nconvolution f32 forward 1x2x2x1 1x1x1x1 1x2x2x1 stride 1,1 pad 0,0 = cudnn\n"),
            "line 2: tuning file: `cudnn` is a choice of GPUs, not of CPUs, which all above the first `target` is for; known there: "
            "generated, direct");
  EXPECT_EQ(refusal("nabla-tuning 2\nrecord H200 | 13 | gemm = 0\n"),
            "line 2: tuning file: expected `record GPU | VERSION | PROBLEM = BYTES`");
  for (const char* nonsense : {"frobnicate f32", "gemm f32 1xax-3 nn", "gemm f32 1x2x3x4", "convolution f32 1x2"})
    EXPECT_EQ(refusal(fmt::format("nabla-tuning 2\n{} = generated\n", nonsense)),
              fmt::format("line 2: tuning file: `{}` is no problem", nonsense));
  EXPECT_EQ(refusal("nabla-tuning 2\nrecord H200 | 13 | nonsense = 00\n"),
            "line 2: tuning file: expected `record GPU | VERSION | PROBLEM = BYTES`");
  EXPECT_EQ(refusal("nabla-tuning 2\ngemm = matmul\ngemm = sgemm\n"),
            "line 3: tuning file: `gemm` stands twice for one target");
  EXPECT_TRUE(refusal("nabla-tuning 2\ntarget sm_91a\n").starts_with("line 2: tuning file: unknown target `sm_91a`"));
}

TEST(Tuning, LinesOfAnyLengthMakeShortMessages) {
  const std::string huge(3 << 20, 'x');
  for (const std::string& text : {huge, "nabla-tuning 3\n" + huge, "nabla-tuning 3\ntarget " + huge, "nabla-tuning 3\n" + huge + " = sgemm",
                                  "nabla-tuning 3\ngemm = " + huge, "nabla-tuning 3\nrecord " + huge, std::string(1 << 20, '\x01')}) {
    auto read = read_tuning(write(text));
    ASSERT_FALSE(read.ok());
    EXPECT_LT(read.errors()[0].str().size(), 1500u);
  }
}

// A choice for a problem that the program does not have is most likely one of before its sizes changed.
TEST(Tuning, ChoicesOfNoProductAreNoted) {
  auto notes = [](const std::string& choices) {
    ir::Module m = ir::parse_module("nabla 1 flat\nfunc @f(%x: f32[8,8]) {\n"
                                    "  %0 = dot_general(%x, %x) {lhs_contract=[1], rhs_contract=[0]}\n  return %0\n}\n",
                                    "f.nbl", ops::all_ops())
                       .value();
    CompileOptions options;
    options.tuning_file = write("nabla-tuning 3\n" + choices);
    return ir::texts_of(passes::remarks_of(lower_module(m, options).value().passes));
  };
  using Notes = std::vector<std::string>;
  EXPECT_EQ(notes("gemm f32 1x8x8x8 nn = sgemm\ngemm = generated\nconvolution = direct\n"), Notes());
  EXPECT_EQ(notes("gemm f32 1x8x8x9 nn = sgemm\n"),
            Notes{"tuning: `gemm f32 1x8x8x9 nn` is no product or convolution of the program for cpu:x86-64-v3, whose are "
                  "`gemm f32 1x8x8x8 nn`"});
}

constexpr const char* kMachine = R"(machine cpus = 2
machine arithmetic = 4.1
machine step = 0.09
machine copy 1 16384 = 81000
machine copy 2 16384 = 70000
machine product 8192 = 31000
machine product 33554432 = 110000
machine exchange 2 of 2 = 3.5 9000
machine exchange 2 of 4 = 13 4000
)";

TEST(Tuning, RatesOfAMachineAreReadAsTheyWereWritten) {
  std::string head = "nabla-tuning 3\ntarget cpu:x86-64-v3\n";
  Tuning t = read_tuning(write(head + kMachine)).value();
  ir::Target v3 = target("cpu:x86-64-v3"), v4 = target("cpu:x86-64-v4");
  t.apply(v3), t.apply(v4);
  EXPECT_EQ(rates_text(v3.rates), kMachine);
  EXPECT_EQ(v4.rates, ir::CpuRates()) << "they are of another target's code";
  EXPECT_EQ(refusal(std::string("nabla-tuning 3\n") + kMachine),
            "line 2: tuning file: what CPUs measured as stands below the `target` that they ran");
  EXPECT_EQ(refusal("nabla-tuning 3\ntarget sm_80\nmachine step = 1\n"),
            "line 3: tuning file: what CPUs measured as stands below the `target` that they ran");
  for (const char* nonsense :
       {"speed = 3", "step = -1", "step 4", "step = 1 2", "cpus = 0", "arithmetic = 0", "copy 0 100 = 5", "copy 1 100 = 0", "product 8 9",
        "product 4096 = 9\nmachine product 4096 = 9", "copy 2 9 = 9\nmachine copy 1 9 = 9", "exchange 2 in 4 = 13 4000",
        "exchange 4 of 2 = 13 4000", "exchange 1 of 2 = 13 4000", "exchange 2 of 2 = 13"})
    EXPECT_NE(refusal(head + "machine " + nonsense + "\n").find(": expected a rate such as `machine step = 0.09`"), std::string::npos)
        << nonsense;
}

// What is written is what was measured: rates that a machine can have, for two and four ranks.
TEST(Tuning, AMachineIsMeasured) {
  auto rates = measure_rates(target("cpu:x86-64-v3"));
  ASSERT_TRUE(rates.ok()) << to_string(rates.errors());
  EXPECT_GE(rates->cpus, 1);
  EXPECT_GT(rates->instructions_per_ns, 0);
  EXPECT_FALSE(rates->copies.empty());
  EXPECT_GT(rates->products.back().flops_per_us, rates->products.front().flops_per_us) << "large products reach more of the peak";
  ASSERT_EQ(rates->exchanges.size(), 3u);
  for (const auto& e : rates->exchanges) EXPECT_GT(e.us, 0) << e.members << " of " << e.ranks;
  EXPECT_EQ(refusal("nabla-tuning 3\ntarget cpu:x86-64-v3\n" + rates_text(*rates)), "ok");
}

// Where exchanges were measured ranks are threads, which compute them: nothing goes on beside them, and they take what they took.
TEST(Tuning, RatesDecideWhatIsPredicted) {
  ir::Module m = ir::parse_module("nabla 1 flat\nmesh m = {dp=2}\nentry f calls @f {\n  inputs x\n  outputs y, z\n}\n"
                                  "func @f(%x: f32[64@dp,64]) {\n  %y = reduce_sum(%x) {axes=[0]}\n  %z = exp(%x)\n  return %y, %z\n}\n",
                                  "f.nbl", ops::all_ops())
                     .value();
  CompileOptions options;
  auto timeline = [&] {
    auto lowered = lower_module(m, options);
    EXPECT_TRUE(lowered.ok()) << to_string(lowered.errors());
    return nlohmann::json::parse(lowered->report)["entries"][0]["timeline"];
  };
  nlohmann::json plain = timeline();
  options.tuning_file = write(std::string("nabla-tuning 3\ntarget cpu:x86-64-v3\n") + kMachine);
  nlohmann::json told = timeline();
  EXPECT_NE(told["compute_us"], plain["compute_us"]);
  EXPECT_NEAR(told["exchange_us"].get<double>(), 3.5 + 2 * 64 * 4 / 9000.0, 0.01) << told;
  EXPECT_NEAR(told["us"].get<double>(), told["compute_us"].get<double>() + told["exchange_us"].get<double>(), 0.01) << told;
}

TEST(Tuning, AFileForOtherTargetsIsRefused) {
  ir::Module m =
      ir::parse_module("nabla 1 flat\nfunc @f(%x: f32[8,8]) {\n  return %x\n}\n", "f.nbl", ops::all_ops()).value();
  CompileOptions options;
  options.tuning_file = write("nabla-tuning 2\ntarget cpu:x86-64-v4\ntarget sm_80\n");
  auto lowered = lower_module(m, options);
  ASSERT_FALSE(lowered.ok());
  EXPECT_EQ(lowered.errors()[0].str(), "error[E0503]: the tuning file " + options.tuning_file +
                                           " is for cpu:x86-64-v4, sm_80; nothing in it is for cpu:x86-64-v3\n"
                                           "   = help: measure with nablac tune --target of what is compiled for\n");
  options.target = "sm_90a";
  EXPECT_EQ(lower_module(m, options).errors()[0].help,
            "write what is to hold below `target sm_90a`; the runtime measures GPUs, and nablac tune --gpu-records takes over what it "
            "found");
  options.target = "sm_80";
  EXPECT_TRUE(lower_module(m, options).ok());
}

TEST(Tuning, CpusAreMeasuredGpusAreNot) {
  auto text = tune({}, ops::all_ops(), target("sm_90a"), 1, [](const std::string&) {});
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(
      text.errors()[0].str(),
      "error[E0901]: nablac tune measures CPUs; sm_90a is a GPU target\n"
      "   = help: the runtime measures on the GPU when it loads a bundle; nablac tune --gpu-records takes over what it found\n");
}

TEST(Tuning, RecordsReplaceThoseOfTheSameProblemAndMachine) {
  GemmRecord same = GemmRecord::parse(kRecord).value(), other = same;
  same.algorithm = "x", other.gpu = "B200";
  EXPECT_EQ(with_records("nabla-tuning 2\n# note\n" + std::string(kRecord) + "\n", {same, other}),
            "nabla-tuning 3\n# note\n" + same.str() + "\n" + other.str() + "\n");
}

}  // namespace
}  // namespace nabla::driver
