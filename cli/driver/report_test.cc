// What the report says of small programs: which nodes an instruction computes, how long buffers live, what loops cost.
#include "cli/driver/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "cli/driver/compile.h"
#include "cli/driver/page/page.h"
#include "cli/driver/report_json.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::ordered_json;

Json report_of(const std::string& text, const CompileOptions& options = {}) {
  ir::Module m = ir::parse_module("nabla 1 traced\n" + text, "test.nbl", ops::all_ops()).value();
  return Json::parse(lower_module(m, options).value().report);
}

const Json& function_of(const Json& report, const std::string& name) {
  for (const Json& f : report["functions"])
    if (f["name"] == name) return f;
  NABLA_CHECK(false, "no function {}", name);
  return report;
}

// The ops that each instruction computes, by what it runs.
std::map<std::string, std::vector<std::string>> computed(const Json& f) {
  std::map<std::string, std::vector<std::string>> out;
  for (const Json& i : f["instructions"]) {
    std::vector<std::string>& ops = out[i[0]];
    for (int n : i[3]) ops.push_back(f["nodes"][n][0]);
  }
  return out;
}

// What the iterations of a loop gather counts as often as there are; of what is summed, the product that is combined.
TEST(Report, WhatRanksExchange) {
  Json r = report_of(R"(mesh pod = {dp=2}
entry main calls @main {
  inputs x, w
  outputs y
}
func @body(%c: f32[4,8], %x: f32[4,8]) {
  %g = shard(%x) {sharding=<{}, {}>}
  %e = exp(%g)
  %y = add(%c, %e)
  return %y
}
func @main(%xs: f32[3,4@dp,8], %w: f32[4@{},8@{}]) {
  %sum = scan(%w, %xs) {body=@body, consts=0, carries=1, length=[3]}
  %s = reduce_sum(%xs) {axes=[0, 1]}
  %b = broadcast_in_dim(%s) {dims=[1], shape=[4, 8]}
  %y = mul(%sum, %b)
  return %y
}
)");
  const Json& e = r["entries"][0];
  int64_t sent = 0;
  std::map<std::string, int64_t> payload;
  for (const Json& c : e["collectives"]) {
    payload[c["op"]] += c["payload_bytes"].get<int64_t>() * c["times"].get<int64_t>();
    sent += c["sent_bytes"].get<int64_t>() * c["times"].get<int64_t>();
    EXPECT_EQ(c["axes"], "{dp}");
    EXPECT_EQ(c["ranks"], 2);
    EXPECT_EQ(c["dtype"], "f32");
    EXPECT_GT(c["us"].get<double>(), 0);
  }
  EXPECT_EQ(payload, (std::map<std::string, int64_t>{{"all_gather", 3 * 4 * 8 * 4}, {"all_reduce", 8 * 4}})) << e["collectives"];
  EXPECT_EQ(sent, 3 * 4 * 8 * 4 / 2 + 8 * 4);
  EXPECT_EQ(e["sent_bytes"], sent);
  std::string text = report_text(r.dump()).value();
  EXPECT_NE(text.find("  exchanged  224 B sent by a rank in 4 collectives, "), std::string::npos) << text;
  EXPECT_NE(text.find("all_gather x3"), std::string::npos) << text;
}

// Ten columns on four ranks are three each: of what is gathered two twelfths are padding, through ops that hand them on.
TEST(Report, PaddingOfUnevenPartsIsCounted) {
  const std::string program = R"(mesh pod = {tp=4}
state w: f32[16,10@tp] allow_padding
entry main calls @main {
  reads w
  inputs x
  outputs h, s
}
func @main(%w: f32[16,10], %x: f32[8,16]) {
  %h = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  %e = exp(%h)
  %t = transpose(%e) {permutation=[1, 0]}
  %s = reduce_sum(%t) {axes=[0]}
  return %t, %s
}
)";
  Json r = report_of(program);
  std::map<std::string, std::pair<int64_t, int64_t>> seen;
  for (const Json& c : r["entries"][0]["collectives"]) seen[c["op"]] = {c["payload_bytes"], c["padding_bytes"]};
  EXPECT_EQ(seen["all_gather"], (std::pair<int64_t, int64_t>(8 * 12 * 4, 8 * 2 * 4))) << r["entries"][0]["collectives"];
  EXPECT_EQ(seen["all_reduce"], (std::pair<int64_t, int64_t>(8 * 4, 0))) << r["entries"][0]["collectives"];
  std::string text = report_text(r.dump()).value();
  EXPECT_NE(text.find("; 96 f32 with 64 B of padding on average, "), std::string::npos) << text;
}

// A weight with momentum, and a batch along dp.
constexpr const char* kTraining = R"(mesh pod = {dp=2}
state w: f32[16,32]
state momentum.w: f32[16,32]
state steps: i32[]
entry step calls @step {
  reads w, momentum.w, steps
  writes w, momentum.w, steps
  inputs x
  outputs loss
}
func @loss(%w: f32[16,32], %x: f32[8,16]) {
  %h = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  %r = mul(%h, %h)
  %s = reduce_sum(%r) {axes=[0, 1]}
  return %s
}
func @step(%w: f32[16,32], %m: f32[16,32], %steps: i32[], %x: f32[8@dp,16]) {
  %loss, %g = value_and_grad(%w, %x) {callee=@loss, wrt=[0]}
  %n = add(%m, %g)
  %v = sub(%w, %n)
  %one = constant() {value=i32[] {1}}
  %next = add(%steps, %one)
  return %v, %n, %next, %loss
}
)";

// Every byte of an entry is in one class; state by its roles, the gradient by where it goes.
TEST(Report, MemoryByClassAddsUp) {
  Json r = report_of(kTraining, {.library = false});
  const Json &e = r["entries"][0], &memory = e["memory"];
  EXPECT_EQ(memory["parameters"], 16 * 32 * 4);
  EXPECT_EQ(memory["optimizer"], 16 * 32 * 4);
  EXPECT_EQ(memory["other_state"], 4);
  EXPECT_EQ(memory["inputs"], 4 * 16 * 4);
  EXPECT_EQ(memory["outputs"], 4);
  EXPECT_GE(memory["gradients"], 16 * 32 * 4) << memory << e["top_buffers"];
  EXPECT_GE(memory["gaps"], 0);
  int64_t all = 0;
  for (const auto& [key, bytes] : memory.items())
    if (key != "inputs" && key != "outputs") all += bytes.get<int64_t>();
  EXPECT_EQ(all, e["peak_bytes"]);
  EXPECT_EQ(r["state"][0]["role"], "parameter");
  EXPECT_EQ(r["state"][1]["role"], "optimizer");
  EXPECT_EQ(r["state"][2]["role"], "other");
  std::string text = report_text(r.dump()).value();
  EXPECT_NE(text.find("  of it      parameters 2048 B, optimizer's state 2048 B, other state 4 B, gradients "), std::string::npos) << text;
}

TEST(Report, WhereThePartsLieAndWhenARankComputes) {
  Json r = report_of(kTraining, {.library = false, .overlap = false});
  EXPECT_EQ(r["mesh"], Json::parse(R"({"name": "pod", "ranks": 2, "axes": [["dp", 2]]})"));
  for (const Json& w : r["wholes"]) {
    if (w["name"] != "x") continue;
    EXPECT_EQ(w["cuts"], Json::parse(R"([[0, [[1, 2, "dp"]]], [0, []]])"));
    EXPECT_EQ(w["type"], "f32[8,16]");
    EXPECT_EQ(w["copies"], 1);
  }
  const Json &e = r["entries"][0], &line = e["timeline"];
  double compute = 0, exchange = 0, end = 0;
  for (const char* which : {"compute", "exchange"})
    for (const Json& piece : line[which]) {
      (which[0] == 'c' ? compute : exchange) += piece[1].get<double>();
      EXPECT_LE(piece[0].get<double>() + piece[1].get<double>(), line["us"].get<double>() + 0.01);
      end = std::max(end, piece[0].get<double>() + piece[1].get<double>());
    }
  EXPECT_NEAR(end, line["us"], 0.01);
  EXPECT_NEAR(compute, e["compute_us"], 0.1);
  EXPECT_NEAR(exchange, e["exchange_us"], 0.1);
  EXPECT_NEAR(compute + exchange, line["us"], 0.1) << "nothing goes on beside an exchange that is awaited at once";
  EXPECT_EQ(line["exchange"].size(), e["collectives"].size());
  for (const Json& c : e["collectives"])
    EXPECT_NE(c["reason"].get<std::string>().find("each rank has a share of "), std::string::npos) << c;
  std::string text = report_text(r.dump()).value();
  EXPECT_NE(text.find("mesh pod: dp=2, 2 ranks; numbers are those of one\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  input      x: f32[8,16], cut as dp,\n"), std::string::npos) << text;
  EXPECT_FALSE(report_of("entry main calls @f {\n  inputs x\n  outputs y\n}\nfunc @f(%x: f32[4]) {\n  %y = exp(%x)\n  return %y\n}\n")
                   .contains("mesh"));
}

TEST(Report, MoreThanMayBeSentIsRefused) {
  const char* text = R"(mesh pod = {dp=2}
entry main calls @main {
  inputs x, y
  outputs s, t
}
func @main(%x: f32[4@dp,8], %y: f32[4@dp]) {
  %s = reduce_sum(%x) {axes=[0]}
  %t = reduce_sum(%y) {axes=[0]}
  return %s, %t
}
)";
  ir::Module m = ir::parse_module(std::string("nabla 1 traced\n") + text, "test.nbl", ops::all_ops()).value();
  CompileOptions options{.max_comm_bytes = passes::Bytes{36}};
  options.pass_options.bucket_collectives.bucket_bytes = {0};
  EXPECT_TRUE(lower_module(m, options).ok());
  options.max_comm_bytes = {35};
  auto made = lower_module(m, options);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.errors()[0].code, Code::kOverBudget);
  EXPECT_EQ(made.errors()[0].message, "in a run of entry main a rank sends 36 bytes, 35 are allowed");
  EXPECT_EQ(made.errors()[0].notes[0], "32 of them in all_reduce of reduce_sum along {dp}");
}

TEST(Report, AKernelNamesTheNodesInsideItAndNotWhatItReads) {
  Json r = report_of(R"(
entry main calls @main {
  inputs x, w, b
  outputs y, s
}
func @main(%x: f32[64,32], %w: f32[32,16], %b: f32[16]) {
  %e = exp(%x)
  %d = dot_general(%e, %w) {lhs_contract=[1], rhs_contract=[0]}
  %f = reshape(%d) {shape=[1024]}
  %n = neg(%f)
  %a = abs(%n)
  %s = reduce_sum(%a) {axes=[0]}
  return %a, %s
}
)");
  const Json& f = function_of(r, "main");
  std::vector<int> times(f["nodes"].size(), 0);
  for (const Json& i : f["instructions"])
    for (int n : i[3]) ++times[n];
  // A reshape is the same bytes; all others are computed in one place.
  EXPECT_EQ(times, (std::vector<int>{1, 1, 0, 1, 1, 1})) << f["instructions"];
  for (const auto& [what, ops] : computed(f))
    if (std::find(ops.begin(), ops.end(), "reduce_sum") != ops.end()) {
      EXPECT_EQ(std::count(ops.begin(), ops.end(), "exp"), 0) << what;
    }
}

TEST(Report, LoopsCountTheirTripsBranchesTheirCostlierSide) {
  Json r = report_of(R"(
entry main calls @main {
  inputs x, p
  outputs y
}
func @step(%x: f32[8]) { %y = mul(%x, %x)  return %y }
func @cheap(%x: f32[8]) { return %x }
func @dear(%x: f32[8]) { %y = add(%x, %x)  return %y }
func @main(%x: f32[8], %p: bool[]) {
  %l = scan(%x) {body=@step, consts=0, carries=1, length=[50]}
  %c = cond(%p, %l) {then=@cheap, else=@dear}
  return %c
}
)");
  EXPECT_EQ(r["entries"][0]["flops"], 50 * 8 + 8);
  EXPECT_FALSE(r["entries"][0].contains("at_least"));
  const Json& calls = function_of(r, "main")["calls"];
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0]["kind"], "loop");
  EXPECT_EQ(calls[0]["trips"], 50);
  EXPECT_EQ(calls[1]["kind"], "branch");
  EXPECT_EQ(calls[1]["functions"].size(), 2u);
  // A loop reads and writes its 32 bytes in each of its trips.
  EXPECT_GE(r["entries"][0]["bytes_moved"], 50 * 2 * 32);
}

// Of an array of which a kernel reads a part, the part.
TEST(Report, PartsOfArraysAreMovedAlone) {
  Json r = report_of(R"(
entry main calls @main {
  inputs x
  outputs y
}
func @main(%x: f32[1000]) {
  %p = section(%x) {axis=0, range=[20, 10]}
  %y = exp(%p)
  return %y
}
)");
  EXPECT_EQ(r["entries"][0]["bytes_moved"], 4 * (10 + 10));
  EXPECT_EQ(r["kernels"][0]["bytes_moved"], 4 * (10 + 10));
  EXPECT_EQ(r["kernels"][0]["buffer_bytes"], 4 * (1000 + 10));
}

// `levels` functions, each of which runs the next one twice; the last one adds 8 numbers.
std::string shared_bodies(int levels) {
  std::string text = "entry main calls @f0 {\n  inputs x, p\n  outputs y\n}\n";
  for (int i = 0; i < levels; ++i)
    text += fmt::format(
        "func @f{0}(%x: f32[8], %p: bool[]) {{\n  %a = cond(%p, %x, %p) {{then=@f{1}, else=@f{1}}}\n"
        "  %b = cond(%p, %a, %p) {{then=@f{1}, else=@f{1}}}\n  return %b\n}}\n",
        i, i + 1);
  return text + fmt::format("func @f{}(%x: f32[8], %p: bool[]) {{\n  %y = add(%x, %x)\n  return %y\n}}\n", levels);
}

TEST(Report, SharedBodiesAreCountedExactlyAndWalkedOnce) {
  Json r = report_of(shared_bodies(40))["entries"][0];
  EXPECT_EQ(r["flops"], int64_t{8} << 40);
  EXPECT_EQ(r["bytes_moved"], int64_t{8 * 4 * 2} << 40);
  EXPECT_FALSE(r.contains("at_least"));
}

TEST(Report, ATotalBeyondInt64IsALowerBound) {
  Json r = report_of(shared_bodies(70))["entries"][0];
  EXPECT_EQ(r["flops"], INT64_MAX);
  EXPECT_TRUE(r["at_least"]);
}

TEST(Report, AProgramOfTooManyInstructionsIsRefused) {
  ir::Module m = ir::parse_module("nabla 1 traced\n" + shared_bodies(40), "test.nbl", ops::all_ops()).value();
  Diagnostic d = compile(m, {}).errors().at(0);
  EXPECT_EQ(d.code, Code::kTooLarge);
  // Each level has two branches of two sides: n(i) = 2 + 4 n(i + 1), where the last function has 1.
  EXPECT_EQ(d.message,
            "entry `main` would have more than 9223372036854775807 instructions, at most 4194304 are allowed");
  EXPECT_EQ(d.help,
            "branches and loops repeat their functions' instructions wherever they stand: share them less deeply");
}

TEST(Report, BuffersOnOnePlaceFollowEachOther) {
  Json r = report_of(R"(
entry main calls @main {
  inputs x
  outputs y
}
func @main(%x: f32[256]) {
  %a = cumsum(%x) {axis=0}
  %b = cumsum(%a) {axis=0}
  %c = exp(%b)
  %d = cumsum(%c) {axis=0}
  %e = cumsum(%d) {axis=0}
  return %e
}
)");
  const Json& f = function_of(r, "main");
  ASSERT_GE(f["buffers"].size(), 3u);
  for (size_t i = 0; i < f["buffers"].size(); ++i)
    for (size_t k = 0; k < i; ++k) {
      const Json &a = f["buffers"][i], &b = f["buffers"][k];
      bool together = a[4] <= b[5] && b[4] <= a[5];
      bool apart = a[2].get<int>() + a[3].get<int>() <= b[2] || b[2].get<int>() + b[3].get<int>() <= a[2];
      EXPECT_TRUE(!together || apart) << a << " and " << b;
      EXPECT_LE(a[2].get<int>() + a[3].get<int>(), f["temporary_bytes"]);
    }
}

const Json& kernel_of(const Json& report, const std::string& name) {
  for (const Json& k : report["kernels"])
    if (k["name"] == name) return k;
  NABLA_CHECK(false, "no kernel {}", name);
  return report;
}

// What a GPU needs at least is the same for a product or a convolution by the library, for the kernel that stands in
// for it, and for the kernel of a compile without libraries.
TEST(GpuReport, GeneratedCodeAndTheLibraryHaveOneBound) {
  auto product = [](const std::string& dtype) {
    return fmt::format(R"(
entry main calls @main {{
  inputs a, b
  outputs y
}}
func @main(%a: {0}[512,1024], %b: {0}[1024,2048]) {{
  %y = dot_general(%a, %b) {{lhs_contract=[1], rhs_contract=[0]}}
  return %y
}}
)",
                       dtype);
  };
  // 32x28x28x256 by 3x3x256x256 with stride 2, and its gradients.
  auto convolution = [](const std::string& operands, const std::string& op, const std::string& more) {
    return fmt::format(R"(
entry main calls @main {{
  inputs a, b
  outputs y
}}
func @main({}) {{
  %y = {}(%a, %b) {{strides=[2, 2], padding_low=[1, 1], padding_high=[0, 0], dilation=[1, 1], groups=1{}}}
  return %y
}}
)",
                       operands, op, more);
  };
  const std::string x = "bf16[32,28,28,256]", w = "bf16[3,3,256,256]", y = "bf16[32,14,14,256]";
  // A100: 312 TFLOP/s on tensor cores, half of it in tf32, 19.5 in f32; 1400 GB/s.
  double flops = 2.0 * 512 * 1024 * 2048;
  double conv_flops = 2.0 * 32 * 14 * 14 * 256 * 9 * 256;
  struct Case {
    std::string text;
    bool tf32;
    double us;
  };
  double halves = 2.0 * (512 * 1024 + 1024 * 2048 + 512 * 2048) / 1400e3;
  for (const Case& c : {Case{product("bf16"), false, std::max(flops / 312e6, halves)},
                        Case{product("f16"), false, std::max(flops / 312e6, halves)},
                        Case{product("f32"), false, flops / 19.5e6}, Case{product("f32"), true, flops / 156e6},
                        Case{convolution("%a: " + x + ", %b: " + w, "convolution", ""), false, conv_flops / 312e6},
                        Case{convolution("%a: " + y + ", %b: " + w, "conv_input_grad", ", input_spatial=[28, 28]"),
                             false, conv_flops / 312e6},
                        Case{convolution("%a: " + x + ", %b: " + y, "conv_filter_grad", ", filter_spatial=[3, 3]"),
                             false, conv_flops / 312e6}}) {
    Json library = report_of(c.text, {.target = "sm_80", .tf32 = c.tf32});
    ASSERT_EQ(library["library_calls"].size(), 1u) << c.text;
    const Json& call = library["library_calls"][0];
    EXPECT_NEAR(call["least_us"].get<double>(), c.us, 1e-6 * c.us) << c.text;
    EXPECT_EQ(kernel_of(library, call["fallback"])["least_us"], call["least_us"]) << c.text;
    EXPECT_EQ(kernel_of(library, call["fallback"])["launches"], 0) << c.text;
    Json generated = report_of(c.text, {.target = "sm_80", .library = false, .tf32 = c.tf32});
    EXPECT_FALSE(generated.contains("library_calls"));
    EXPECT_NEAR(generated["entries"][0]["least_us"].get<double>(), c.us, 1e-6 * c.us) << c.text << generated["kernels"];
    for (const Json* r : {&library, &generated}) EXPECT_FALSE((*r)["machine"].contains("l2_bytes"));
  }
}

TEST(GpuReport, AnArrayTimesItselfIsReadOnce) {
  const std::string text = R"(
entry main calls @main {
  inputs x
  outputs y
}
func @main(%x: bf16[100000,32]) {
  %y = dot_general(%x, %x) {lhs_contract=[0], rhs_contract=[0]}
  return %y
}
)";
  Json library = report_of(text, {.target = "sm_80"});
  double us = 2.0 * (100000 * 32 + 32 * 32) / 1400e3;
  ASSERT_EQ(library["library_calls"].size(), 1u);
  const Json& call = library["library_calls"][0];
  EXPECT_NEAR(call["least_us"].get<double>(), us, 1e-6);
  EXPECT_NEAR(kernel_of(library, call["fallback"])["least_us"].get<double>(), us, 1e-6);
  Json generated = report_of(text, {.target = "sm_80", .library = false});
  EXPECT_NEAR(generated["entries"][0]["least_us"].get<double>(), us, 1e-6) << generated["kernels"];
}

TEST(GpuReport, WhatIsGatheredCountsAsFarAsItCanBeRead) {
  Json r = report_of(R"(
entry main calls @main {
  inputs table, ids
  outputs y
}
func @main(%table: f32[100000,64], %ids: i32[4]) {
  %y = embedding(%table, %ids)
  return %y
}
)",
                     {.target = "sm_80"});
  ASSERT_EQ(r["kernels"].size(), 1u);
  EXPECT_GT(r["kernels"][0]["buffer_bytes"], 25'000'000);
  EXPECT_NEAR(r["kernels"][0]["least_us"].get<double>(), (2 * 4 * 64 * 4 + 4 * 4) / 1400e3, 1e-9);
}

TEST(GpuReport, LeastTimesAddUpAndFollowSizes) {
  std::string text = R"(
symbol n in [1, 1000]
entry main calls @main {
  inputs x
  outputs y
}
func @step(%x: f32[n,64]) { %y = tanh(%x)  return %y }
func @main(%x: f32[n,64]) {
  %l = scan(%x) {body=@step, consts=0, carries=1, length=[50]}
  %y = cumsum(%l) {axis=0}
  return %y
}
)";
  Json r = report_of(text, {.target = "sm_80", .buckets = {"n=8,64"}});
  EXPECT_EQ(r["symbols"][0]["buckets"], Json::array({8, 64}));
  const Json& e = r["entries"][0];
  double one = 2 * 1000 * 64 * 4 / 1400e3;
  EXPECT_NEAR(e["least_us"].get<double>(), 51 * one, 1e-3 * one);
  EXPECT_FALSE(r["kernels"][0].contains("threads"));
  std::string shown = report_text(r.dump(), {{{"n", {10}}}}).value();
  EXPECT_NE(shown.find("size n in [1, 1000], launched up to 8, 64\n"), std::string::npos) << shown;
  EXPECT_NE(shown.find("  time       at least 18.7 us\n"), std::string::npos) << shown;
  EXPECT_NE(shown.find(" temporary, at least 187 ns\n"), std::string::npos) << shown;
}

TEST(GpuReport, AttentionCountsItsProducts) {
  auto least = [](const std::string& dtype, const std::string& causal) {
    Json r = report_of(fmt::format(R"(
entry main calls @main {{
  inputs q, k, v
  outputs y
}}
func @main(%q: {0}[2,4,1024,64], %k: {0}[2,4,2048,64], %v: {0}[2,4,2048,64]) {{
  %y, %lse = attention(%q, %k, %v) {{causal={1}}}
  return %y
}}
)",
                                   dtype, causal),
                       {.target = "sm_80"});
    return kernel_of(r, "attention")["least_us"].get<double>();
  };
  double flops = 2.0 * 8 * 1024 * 2048 * (64 + 64);
  EXPECT_NEAR(least("bf16", "false"), flops / 312e6, 1e-6);
  EXPECT_NEAR(least("f32", "false"), flops / 19.5e6, 1e-5);
  EXPECT_NEAR(least("f32", "true"), flops / 2 / 19.5e6, 1e-5);
}

// A formula of 2^40 terms is none; the number at the largest sizes stays.
TEST(GpuReport, AFormulaThatGrowsTooLongIsLeftOut) {
  std::string text = "symbol n in [1, 8]\nentry main calls @f0 {\n  inputs x, p\n  outputs y\n}\n";
  for (int i = 0; i < 40; ++i)
    text += fmt::format(
        "func @f{0}(%x: f32[n], %p: bool[]) {{\n  %a = cond(%p, %x, %p) {{then=@f{1}, else=@g{1}}}\n  return %a\n}}\n"
        "func @g{0}(%x: f32[n], %p: bool[]) {{\n  %a = cond(%p, %x, %p) {{then=@g{1}, else=@f{1}}}\n"
        "  %y = tanh(%a)\n  return %y\n}}\n",
        i, i + 1);
  text +=
      "func @f40(%x: f32[n], %p: bool[]) {\n  %y = exp(%x)\n  return %y\n}\n"
      "func @g40(%x: f32[n], %p: bool[]) {\n  %y = exp(%x)\n  %z = cumsum(%y) {axis=0}\n  return %z\n}\n";
  ir::Module m = ir::parse_module("nabla 1 traced\n" + text, "test.nbl", ops::all_ops()).value();
  Json e = Json::parse(lower_module(m, {.target = "sm_80"}).value().report)["entries"][0];
  EXPECT_GT(e["least_us"], 0);
  EXPECT_FALSE(e["formulas"].contains("least_us"));
}

TEST(Report, AnotherVersionIsRefused) {
  auto code = [](const std::string& text) { return parse_report(text).errors().at(0); };
  EXPECT_EQ(code("{}").code, Code::kCorrupt);
  EXPECT_EQ(code("[").code, Code::kCorrupt);
  EXPECT_EQ(code(R"({"report_version": "3"})").code, Code::kCorrupt);
  Diagnostic older = code(R"({"report_version": 4})"), newer = code(R"({"report_version": 6})");
  EXPECT_EQ(older.code, Code::kForeignFile);
  EXPECT_EQ(older.message, "report.json is of version 4; this nablac reads version 5");
  EXPECT_EQ(older.help, "compile the model again");
  EXPECT_EQ(newer.code, Code::kNewerVersion);
}

TEST(Page, BytesThatAreNoTextAreReplacedNotFatal) {
  ir::Module m = ir::parse_module(
                     "nabla 1 traced\nentry main calls @main {\n  inputs x\n  outputs y\n}\n"
                     "func @main(%x: f32[4]) {\n  %y = exp(%x) loc(\"a\\xffb.py\":3 \"f\" \"caf\xe9\")\n"
                     "  return %y\n}\n",
                     "test.nbl", ops::all_ops())
                     .value();
  PageInput input{"a<b>.nbl", lower_module(m, {}).value().report, {}};
  std::string page = make_page(input).value();
  EXPECT_NE(page.find("<title>a&lt;b>.nbl</title>"), std::string::npos);
  EXPECT_EQ(page.find("{{"), std::string::npos) << "a place of the template is left";
  EXPECT_EQ(page, make_page(input).value());
}

// Every member of every object: gone, and of other kinds.
void change_each(Json& report, Json& part, const std::function<void()>& see) {
  if (part.is_array())
    for (Json& item : part) change_each(report, item, see);
  if (!part.is_object()) return;
  std::vector<std::string> keys;
  for (const auto& [key, value] : part.items()) keys.push_back(key);
  for (const std::string& key : keys) {
    const Json kept = part;
    part.erase(key), see(), part = kept;
    for (const Json& other : {Json(nullptr), Json("text"), Json(-1), Json(0), Json::array({1}), Json::object()})
      part[key] = other, see(), part = kept;
    change_each(report, part[key], see);
  }
}

TEST(Report, WhateverIsDamagedIsRefusedOrShown) {
  const std::string program = R"(
symbol n in [2, 64] multiple 2
state w: f32[32,16]
entry main calls @main {
  reads w
  writes w
  inputs x
  outputs s
}
func @main(%w: f32[32,16], %x: f32[n,32]) {
  %d = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  %v = add(%w, %w)
  %s = reduce_sum(%d) {axes=[0]}
  return %v, %s
}
)";
  for (const char* target : {"cpu", "sm_90"}) {
    Json report = report_of(program, {.target = target});
    int shown = 0, refused = 0;
    auto see = [&] {
      std::string text = report.dump();
      Result<std::string> printed = report_text(text, {SizeLists{{"n", {2, 4}}}});
      ++(printed.ok() ? shown : refused);
      (void)make_page({"title", text, {}, {}, {{"n", {2}}}});
    };
    change_each(report, report, see);
    EXPECT_GT(shown, 0);
    EXPECT_GT(refused, 100) << target;
  }
}

}  // namespace
}  // namespace nabla::driver
