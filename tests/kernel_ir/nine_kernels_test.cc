// The kernels that settle kernel_ir, each written by hand in its text form: they must read back as they print, and
// the code printed for them must agree with the interpreter.
#include "tests/kernel_ir/nine_kernels.h"

#include <gtest/gtest.h>

#include <cmath>

#include "codegen/cpu/kernel_printer.h"
#include "passes/lower/schedule_kernels.h"

namespace nabla::kernel_ir {
namespace {

void run_compiled(const Kernel& k, const ir::Target& target, std::vector<Literal>& buffers) {
  std::vector<void*> args;
  for (Literal& b : buffers) args.push_back(b.mutable_data());
  CompiledKernels({k}, target).run(0, args);
}

class NineKernels : public testing::TestWithParam<std::string> {};

TEST_P(NineKernels, PrintsAndParsesBack) {
  std::string text = print(read_kernel(GetParam()));
  EXPECT_EQ(print(parse_kernel(text, "printed").value()), text);
}

TEST_P(NineKernels, StaysWithinItsTensorsAndCoversItsWork) {
  Kernel k = read_kernel(GetParam());
  Status accesses = check_accesses(k), schedule = check_schedule(k);
  EXPECT_TRUE(accesses.ok()) << to_string(accesses.errors());
  EXPECT_TRUE(schedule.ok()) << to_string(schedule.errors());
}

TEST_P(NineKernels, GeneratedCodeAgreesWithTheInterpreter) {
  Kernel k = read_kernel(GetParam());
  for (const char* target : {"cpu:x86-64-v3", "cpu:native"}) {
    SCOPED_TRACE(target);
    std::vector<Literal> got = draw_buffers(k);
    run_compiled(k, ir::find_target(target).value(), got);
    expect_near(k, interpreted(k), got);
  }
}

TEST_P(NineKernels, AgreesWhenResultsAreStoredPastTheCaches) {
  Kernel k = read_kernel(GetParam());
  for (const char* name : {"cpu:x86-64-v3", "cpu:native"}) {
    SCOPED_TRACE(name);
    ir::Target target = ir::find_target(name).value();
    target.stream_bytes = 0;
    std::vector<Literal> got = draw_buffers(k);
    run_compiled(k, target, got);
    expect_near(k, interpreted(k), got);
  }
}

INSTANTIATE_TEST_SUITE_P(All, NineKernels, testing::ValuesIn(nine_kernels()),
                         [](const auto& info) { return info.param; });

TEST(ScheduleForGpus, RefusesRowsThatNoBlockHolds) {
  Kernel k = read_kernel("softmax");
  k.axes[1].extent = 100000, k.buffers[0].shape[1] = 100000, k.buffers[1].shape[1] = 100000;
  ir::Target target = ir::find_target("sm_90").value();
  Status refused = passes::schedule_cuda(k, target);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.errors()[0].code, Code::kNoLowering);
  EXPECT_EQ(refused.errors()[0].message,
            "kernel softmax: one iteration keeps 400000 bytes of rows; a block of sm_90 has 232448 bytes of shared "
            "memory");
}

// Rows of a middle dimension, in units that do not divide them, each with scratch memory of its own.
TEST(Procedure, PrintsParsesBackAndAgreesWithTheInterpreter) {
  std::string text =
      "kernel @sorted(in x: f32[3,100,2], out y: i32[3,100,2], workspace scratch: u8[2,3200]) {\n"
      "  schedule unit 4 units 2 threads 2\n"
      "  procedure argsort(outer = 3, count = 100, inner = 2, descending = 1)\n}\n";
  Kernel k = parse_kernel(text, "procedure").value();
  EXPECT_EQ(print(k), text);
  std::vector<Literal> got = draw_buffers(k);
  for (int64_t i = 0; i < got[0].size(); i += 7) got[0].set(i, NAN);
  std::vector<Literal> want = got;
  std::vector<Literal*> buffers;
  for (Literal& b : want) buffers.push_back(&b);
  interpret(k, buffers);
  run_compiled(k, ir::find_target("cpu:native").value(), got);
  EXPECT_TRUE(want[1] == got[1]);
  for (const char* bad :
       {"argsrt(outer = 3, count = 100, inner = 2, descending = 1)", "argsort(outer = 3, count = 100)"}) {
    std::string wrong = text;
    wrong.replace(wrong.find("argsort"), wrong.find(")\n}") + 1 - wrong.find("argsort"), bad);
    EXPECT_FALSE(parse_kernel(wrong, "procedure").ok()) << wrong;
  }
}

TEST(LargeResult, IsStoredPastTheCaches) {
  Kernel k =
      parse_kernel(
          "kernel @f(in x: f32[64], out y: f32[64]) {\n  axes i = 64\n  schedule unit 64 units 1 threads 1 vector i\n"
          "  for i {\n    store y[i] = exp(x[i])\n  }\n}\n",
          "f.nbk")
          .value();
  ir::Target target = ir::find_target("cpu").value();
  EXPECT_EQ(codegen::print_cpp(k, "f", target).find("nb_stream"), std::string::npos);
  target.stream_bytes = 256;
  EXPECT_NE(codegen::print_cpp(k, "f", target).find("nb_stream(y"), std::string::npos);
  EXPECT_NE(codegen::print_cpp(k, "f", target).find("nb_streamed();"), std::string::npos);
}

TEST(KernelText, ErrorsShowThePlace) {
  Result<Kernel> k = parse_kernel(
      "kernel @f(in x: f32[4], out y: f32[4]) {\n  axes i = 4\n  for i {\n    store y[i] = ex(x[i])\n  }\n}\n",
      "f.nbk");
  ASSERT_FALSE(k.ok());
  EXPECT_EQ(
      k.errors()[0].str(),
      "error[E0101]: `ex` is no axis, value, buffer or function\n  --> f.nbk:4:20\n   |     store y[i] = ex(x[i])\n"
      "   |                    ^\n   = help: correct the text at the place shown\n");
}

}  // namespace
}  // namespace nabla::kernel_ir
