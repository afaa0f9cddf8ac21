// Results that are not finite, in hand-built programs. tests/e2e/check_nan_test.cc has compiled ones.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/exec/session.h"
#include "runtime/exec/test_bundle.h"
#include "runtime/format/bundle_writer.h"
#include "runtime/format/program_generated.h"

namespace nabla::exec {
namespace {

using namespace nabla::format;  // NOLINT: a table of schema objects

constexpr float kInf = std::numeric_limits<float>::infinity();
const format::Operand kRead(format::DType::F32, false, 0), kWritten(format::DType::F32, true, 0);

std::unique_ptr<AddressT> at(BaseKind base, uint64_t offset, uint64_t bytes, std::vector<RegisterTerm> terms = {}) {
  auto out = std::make_unique<AddressT>();
  out->base = base, out->offset = offset, out->bytes = bytes, out->terms = std::move(terms);
  return out;
}

InstructionT& predict_of(ProgramT& p) { return *p.entries[3]->instructions[0]; }

/// Only the entries `init` and `predict`, y = x * w, with the types of their operands.
void with_operands(ProgramT& p) {
  p.entries[0]->instructions[0]->operands = {{format::DType::U32, false, 0}, kWritten};
  predict_of(p).operands = {kRead, kRead, kWritten};
  p.entries.erase(p.entries.begin() + 1, p.entries.begin() + 3);
}

Result<std::unique_ptr<Session>> open(const std::function<void(ProgramT&)>& change) {
  auto bundle = Bundle::from_bytes(FileBytes::copy_of(as_bytes(toy_bundle(change))), "toy.nbundle");
  return Session::create(std::move(bundle).value(), {.threads = 1, .check_nan = true});
}

/// What `predict` says of x, whose rows are multiplied by w = 7, 8, 9, 10.
std::string predict(Session& session, std::vector<float> x) {
  EXPECT_TRUE(session.call(0, {Literal::scalar_int(nabla::DType::kU32, 7)}).ok());
  auto y = session.call(1, {Literal::from_bytes(nabla::DType::kF32, {2, 4}, x.data())});
  return y.ok() ? "" : to_string(y.errors());
}

TEST(CheckNan, TheErrorNamesTheInstructionItsLineTheResultAndTheOperands) {
  auto session = open(with_operands).value();
  EXPECT_EQ(predict(*session, {1, 2, 3, 4, 5, 6, 7, 8}), "");
  EXPECT_EQ(predict(*session, {1, 2, 3e38F, 4, -5, 6, -kInf, NAN}),
            "error[E0708]: entry `predict`: result 0 of `toy_predict` has 1 NaN and 2 infinities among 8 elements of "
            "f32; the "
            "first is element 2, infinity\n"
            "  --> toy.cc:12\n"
            "   | auto \"loss\" = sum(w);\n"
            "   = note: operand 0, 8 elements of f32: -inf to 3e+38, 1 NaN\n"
            "   = note: operand 1, 4 elements of f32: 7 to 10, no NaN\n"
            "   = help: see the operands' ranges; compile with --no-fuse where the kernel has several ops\n");
  EXPECT_EQ(predict(*session, {1, 2, 3, 4, 5, 6, 7, 8}), "") << "the next run starts afresh";
}

TEST(CheckNan, OperandsThatTheInstructionOverwritesAreShownAsTheyWere) {
  auto session =
      open([](ProgramT& p) {
        EntryT& e = *p.entries[3];
        auto copies = [](std::unique_ptr<AddressT> from, std::unique_ptr<AddressT> to) {
          auto out = std::make_unique<InstructionT>();
          CopyT copy;
          copy.bytes = from->bytes, copy.from = std::move(from), copy.to = std::move(to);
          out->operands = {kRead, kWritten};
          out->action.Set(std::move(copy));
          return out;
        };
        LaunchT& launch = *predict_of(p).action.AsLaunch();
        launch.args[0] = at(BaseKind::Arena, 64, 32);
        launch.args[2] = at(BaseKind::Arena, 64, 32);
        e.instructions.insert(e.instructions.begin(), copies(at(BaseKind::Input, 0, 32), at(BaseKind::Arena, 64, 32)));
        e.instructions.push_back(copies(at(BaseKind::Arena, 64, 32), at(BaseKind::Output, 0, 32)));
        e.instructions[1]->operands = {kRead, kRead, kWritten};
        p.entries[0]->instructions[0]->operands = {{format::DType::U32, false, 0}, kWritten};
        p.entries.erase(p.entries.begin() + 1, p.entries.begin() + 3);
      }).value();
  EXPECT_EQ(predict(*session, {1, 2, 3, 4, 5, 6, 7, 8}), "");
  std::string text = predict(*session, {1, 2, 3e38F, 4, 5, 6, 7, 8});
  EXPECT_NE(text.find("operand 0, 8 elements of f32: 1 to 3e+38, no NaN"), std::string::npos) << text;
  EXPECT_NE(predict(*session, {NAN, 2, 3, 4, 5, 6, 7, 8}).find("result 0 of ``"), std::string::npos) << "the copy";
}

TEST(CheckNan, InfinitiesOfMasksPass) {
  auto session = open(with_operands).value();
  EXPECT_EQ(predict(*session, {1, -kInf, 3, 4, -kInf, 6, 7, 8}), "") << "-infinity of an operand";
  EXPECT_NE(predict(*session, {1, -3e38F, 3, 4, 5, 6, 7, 8}).find("the first is element 1, -infinity"), std::string::npos);
  EXPECT_NE(predict(*session, {1, -kInf, 3, kInf, 5, 6, 7, 8}).find("has 0 NaNs and 2 infinities"), std::string::npos);
  std::string text = predict(*session, {1, -kInf, 3, NAN, 5, 6, 7, 8});
  EXPECT_NE(text.find("has 1 NaN and 1 infinity among 8 elements of f32; the first is element 3, NaN"), std::string::npos)
      << text;

  session = open([](ProgramT& p) {
              p.kernels[predict_of(p).action.AsLaunch()->kernel]->infinite = true;
              with_operands(p);
            }).value();
  EXPECT_EQ(predict(*session, {1, 3e38F, 3, -3e38F, 5, 6, 7, 8}), "") << "an infinite constant";
  EXPECT_NE(predict(*session, {1, 3e38F, NAN, 4, 5, 6, 7, 8}).find("the first is element 2, NaN"), std::string::npos);
}

TEST(CheckNan, NaNOfConstantsPasses) {
  auto session = open([](ProgramT& p) {
                   p.kernels[predict_of(p).action.AsLaunch()->kernel]->nan = true;
                   with_operands(p);
                 }).value();
  EXPECT_EQ(predict(*session, {1, 2, NAN, 4, 5, 6, 7, 8}), "") << "a NaN constant";
  EXPECT_NE(predict(*session, {1, 2, NAN, 3e38F, 5, 6, 7, 8}).find("the first is element 3, infinity"), std::string::npos);
}

TEST(CheckNan, InALoopOnlyWhatTheTripWroteIsLookedAt) {
  auto session = open([](ProgramT& p) {
                   with_operands(p);
                   EntryT& e = *p.entries[1];
                   LaunchT& launch = *e.instructions[0]->action.AsLaunch();
                   launch.units = 1;
                   launch.args[0] = at(BaseKind::Input, 0, 16, {RegisterTerm(0, 16)});
                   launch.args[2] = at(BaseKind::Output, 0, 16, {RegisterTerm(0, 16)});
                   p.blocks.push_back(std::make_unique<BlockT>());
                   p.blocks[0]->instructions = std::move(e.instructions);
                   LoopT loop;
                   loop.trips = 2;
                   e.instructions.clear();
                   e.instructions.push_back(std::make_unique<InstructionT>());
                   e.instructions[0]->action.Set(std::move(loop));
                 }).value();
  EXPECT_EQ(predict(*session, {1, 2, 3, 4, 5, 6, 7, 8}), "");
  std::string text = predict(*session, {1, 2, 3, 4, 5, NAN, 7, 8});
  EXPECT_NE(text.find("has 1 NaN and 0 infinities among 4 elements of f32; the first is element 1, NaN"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("operand 0, 4 elements of f32: 5 to 8, 1 NaN"), std::string::npos) << text;
}

TEST(CheckNan, AProgramWithoutOperandTypesIsRefused) {
  auto session = open(nullptr);
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(to_string(session.errors()),
            "error[E0901]: toy.nbundle does not say of which type the operands of `toy_init` are; checks need it\n"
            "   = help: compile the program again\n");
}

}  // namespace
}  // namespace nabla::exec
