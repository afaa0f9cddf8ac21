// Local programs that no pass makes yet: printed, checked, and packed.
#include <gtest/gtest.h>

#include "codegen/program/check.h"
#include "codegen/program/overlap.h"
#include "codegen/program/pack.h"
#include "codegen/program/print.h"
#include "runtime/format/bundle_reader.h"
#include "runtime/format/program_generated.h"

namespace nabla::program {
namespace {

constexpr auto kArena = ir::Base::kArena;

Operand floats(int64_t offset, int64_t count, bool written = false, std::vector<Address::Term> terms = {}) {
  return {{kArena, 0, offset, 4 * count, std::move(terms)}, ir::Type(DType::kF32, {count}), written};
}

Instruction copy(int64_t from, int64_t to) { return {Copy{floats(from, 8), floats(to, 8, true)}, "copy", nullptr}; }
Instruction sum(uint32_t handle, int64_t from, int64_t to) {
  return {Collective{CollectiveKind::kAllReduce, Reduction::kSum, 0, handle, floats(from, 8), floats(to, 8, true)},
          "all_reduce", nullptr};
}
Instruction wait(uint32_t handle, int64_t from, int64_t to) {
  return {Wait{handle, {floats(from, 8), floats(to, 8, true)}}, "wait", nullptr};
}
Instruction call(uint32_t block, std::vector<Call::Set> registers = {}) {
  return {Call{block, std::move(registers)}, "call", nullptr};
}

LocalProgram program_of(std::vector<Instructions> blocks, Instructions entry) {
  LocalProgram out;
  out.target.name = "cpu";
  out.arena_bytes = 256;
  out.blocks = std::move(blocks);
  out.entries.push_back({.name = "step"});
  out.entries[0].instructions = std::move(entry);
  return out;
}

std::string refusal(const LocalProgram& program) {
  Status status = check(program);
  return status.ok() ? "" : status.errors()[0].str();
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A stage of a pipeline: two microbatches in two halves of a double buffer.
LocalProgram pipeline() {
  Operand slot = floats(128, 8, true, {{0, ir::Dim(32), 2}}), read = slot;
  read.written = false;
  Instructions unit = {{Recv{0, 1, slot}, "recv", nullptr},
                       {Wait{1, {slot}}, "wait", nullptr},
                       {Copy{read, floats(0, 8, true)}, "copy", nullptr},
                       {Send{1, 2, floats(0, 8)}, "send", nullptr},
                       {Wait{2, {floats(0, 8)}}, "wait", nullptr}};
  return program_of({unit}, {call(0, {{0, 0}}), call(0, {{0, 3}}), sum(5, 0, 64), copy(128, 96), wait(5, 0, 64)});
}

TEST(LocalProgram, PrintsCallsAndCommunication) {
  EXPECT_EQ(print(pipeline()),
            "program cpu\n"
            "  arena 256 bytes, of which state 0; constants 0 bytes\n"
            "\n"
            "block 0\n"
            "  recv channel 0 handle 1 () -> (f32[8] arena+128+(r0%2)*32)\n"
            "  wait handle 1 () -> (f32[8] arena+128+(r0%2)*32)\n"
            "  copy f32[8] arena+128+(r0%2)*32 -> arena+0  // copy\n"
            "  send channel 1 handle 2 (f32[8] arena+0)\n"
            "  wait handle 2 (f32[8] arena+0)\n"
            "\n"
            "entry step() -> ()\n"
            "  call block 0 r0=0\n"
            "  call block 0 r0=3\n"
            "  all_reduce sum group 0 handle 5 (f32[8] arena+0) -> (f32[8] arena+64)\n"
            "  copy f32[8] arena+128 -> arena+96  // copy\n"
            "  wait handle 5 (f32[8] arena+0) -> (f32[8] arena+64)\n");
  EXPECT_EQ(refusal(pipeline()), "");
}

TEST(LocalProgram, PrintsWhatBroadcastAndPermuteNeed) {
  Collective c{CollectiveKind::kBroadcast, Reduction::kNone, 1, 2, floats(0, 8), floats(64, 8, true), 3};
  Instruction awaited = wait(2, 0, 64);
  EXPECT_TRUE(has(print(program_of({}, {{c, "broadcast", nullptr}, awaited})),
                  "  broadcast group 1 root 3 handle 2 (f32[8] arena+0) -> (f32[8] arena+64)\n"));
  c.kind = CollectiveKind::kPermute, c.targets = {1, -1, 0};
  EXPECT_TRUE(has(print(program_of({}, {{c, "permute", nullptr}, awaited})), "  permute group 1 targets 1,-1,0 handle 2 "));
}

// What pack writes, the loader takes in a class with these groups and channels, and in no other.
TEST(LocalProgram, BundlesHoldCommunication) {
  auto packed = pack(pipeline(), {});
  ASSERT_TRUE(packed.ok()) << to_string(packed.errors());
  flatbuffers::FlatBufferBuilder b;
  format::FinishProgramBuffer(b, format::Program::Pack(b, packed->get()));
  auto loaded = [&](const format::CommunicationRow& row) {
    Status status = format::check_program_bytes({b.GetBufferPointer(), b.GetSize()}, "x", [](auto) { return -1; }, row);
    return status.ok() ? "" : status.errors()[0].message;
  };
  EXPECT_EQ(loaded({{4}, {{false, 32}, {true, 32}}}), "");
  EXPECT_TRUE(has(loaded({{}, {{false, 32}, {true, 32}}}), "entry `step`: instruction 2 `all_reduce`: group 0 of 0"));
  EXPECT_TRUE(has(loaded({{4}, {{false, 32}}}), "instruction 0 `call`: instruction 3 `send`: channel 1 of 1"));
  EXPECT_TRUE(has(loaded({{4}, {{true, 32}, {true, 32}}}), "instruction 0 `recv`: channel 0 sends"));
  EXPECT_TRUE(has(loaded({{4}, {{false, 16}, {true, 32}}}), "32 bytes over channel 0, which takes 16"));
}

TEST(LocalProgram, BlocksReferToEarlierOnes) {
  EXPECT_TRUE(has(refusal(program_of({{call(0)}}, {call(0)})), "call: block 0 of 0 that stand before it"));
  EXPECT_TRUE(has(refusal(program_of({{call(1)}, {call(0)}}, {})), "call: block 1 of 0 that stand before it"));
  EXPECT_TRUE(has(refusal(program_of({}, {call(2)})), "entry step: call: block 2 of 0 that stand before it"));
}

// Each block calls the one before it twice: 2^40 instructions from 40 blocks.
TEST(LocalProgram, CallsThatWouldHardlyEndAreRefused) {
  std::vector<Instructions> blocks = {{copy(0, 32)}};
  for (uint32_t b = 0; b < 40; ++b) blocks.push_back({call(b), call(b)});
  EXPECT_TRUE(has(refusal(program_of(blocks, {call(40)})), "entry step: it runs more than 4194304 instructions"));
  std::vector<Instructions> deep = {{copy(0, 32)}};
  for (uint32_t b = 0; b < 70; ++b) deep.push_back({call(b)});
  EXPECT_TRUE(has(refusal(program_of(deep, {call(70)})), "blocks nest deeper than 64"));
}

TEST(LocalProgram, AddressesStayInTheirBaseAtEveryValueOfTheirRegisters) {
  EXPECT_TRUE(has(refusal(program_of({}, {copy(0, 225)})), "arena+225 (32 bytes) leaves the 256 bytes of its base"));
  Instruction moving = {Copy{floats(0, 8), floats(0, 8, true, {{3, ir::Dim(32)}})}, "copy", nullptr};
  EXPECT_TRUE(has(refusal(program_of({}, {moving})), "arena+0+r3*32 moves with a register in which nothing counts"));
  auto loop = [&](int64_t trips) { return Instruction{Loop{0, 3, trips}, "scan", nullptr}; };
  EXPECT_EQ(refusal(program_of({{moving}}, {loop(8)})), "");
  EXPECT_TRUE(has(refusal(program_of({{moving}}, {loop(9)})), "arena+0+r3*32 (32 bytes) leaves the 256 bytes"));
  EXPECT_EQ(refusal(program_of({{moving}}, {call(0, {{3, 7}})})), "");
  EXPECT_TRUE(has(refusal(program_of({{moving}}, {call(0, {{3, 8}})})), "leaves the 256 bytes"));
  EXPECT_TRUE(has(refusal(program_of({{moving}}, {call(0, {{3, -1}})})), "leaves the 256 bytes"));
  EXPECT_TRUE(has(refusal(program_of({{moving}, {call(0, {{3, 1}})}}, {call(1, {{3, 0}})})),
                  "call: register 3 is in use around it"));
}

TEST(LocalProgram, InputsAndConstantsAreNotWritten) {
  Operand input{{ir::Base::kInput, 0, 0, 32, {}}, ir::Type(DType::kF32, {8})};
  LocalProgram p = program_of({}, {{Copy{input, floats(0, 8, true)}, "copy", nullptr}});
  EXPECT_TRUE(has(refusal(p), "copy: input 0 of 0"));
  p.entries[0].inputs.push_back({"x", ir::Type(DType::kF32, {8})});
  EXPECT_EQ(refusal(p), "");
  input.written = true;
  p.entries[0].instructions = {{Copy{floats(0, 8), input}, "copy", nullptr}};
  EXPECT_TRUE(has(refusal(p), "copy: input 0 is written"));
}

TEST(LocalProgram, EveryStartHasItsWait) {
  EXPECT_TRUE(has(refusal(program_of({}, {sum(1, 0, 32)})), "all_reduce: handle 1 is never awaited"));
  EXPECT_TRUE(has(refusal(program_of({}, {wait(1, 0, 32)})), "wait: handle 1 was not started in this list"));
  EXPECT_TRUE(has(refusal(program_of({}, {sum(1, 0, 32), sum(1, 64, 96)})), "handle 1 is started twice"));
  EXPECT_TRUE(has(refusal(program_of({}, {sum(1, 0, 32), wait(1, 0, 64)})), "handle 1 was started with other operands"));
  EXPECT_TRUE(has(refusal(program_of({{wait(1, 0, 32)}}, {sum(1, 0, 32), call(0)})), "was not started in this list"));
}

TEST(LocalProgram, WhatIsUnderWayIsNotTouched) {
  auto between = [&](Instruction i) { return refusal(program_of({}, {sum(1, 0, 64), std::move(i), wait(1, 0, 64)})); };
  EXPECT_EQ(between(copy(0, 128)), "");
  EXPECT_TRUE(has(between(copy(128, 16)), "it touches arena+16, on which handle 1 still works"));
  EXPECT_TRUE(has(between(copy(80, 128)), "it touches arena+80, on which handle 1 still works"));
}

std::string order(const LocalProgram& program) {
  std::string out;
  for (const Instruction& i : program.entries[0].instructions) {
    const auto* start = std::get_if<Collective>(&i.action);
    const auto* end = std::get_if<Wait>(&i.action);
    out += start ? fmt::format("start{} ", start->handle) : end ? fmt::format("wait{} ", end->handle) : i.label + " ";
  }
  return out;
}

TEST(LocalProgram, WaitsComeAsLateAsTheyMay) {
  // The first copy touches nothing of the sum, the second one reads what it makes.
  LocalProgram one = program_of({}, {sum(0, 0, 64), wait(0, 0, 64), copy(128, 96), copy(64, 160)});
  delay_waits(one);
  EXPECT_EQ(order(one), "start0 copy wait0 copy ");
  // What is read may be read meanwhile, but not written.
  LocalProgram reads = program_of({}, {sum(0, 0, 64), wait(0, 0, 64), copy(0, 128), copy(128, 0)});
  delay_waits(reads);
  EXPECT_EQ(order(reads), "start0 copy wait0 copy ");
  // Two under way have two handles; the end of the list awaits all; no more than `most`.
  LocalProgram two = program_of({}, {sum(0, 0, 64), wait(0, 0, 64), sum(0, 32, 96), wait(0, 32, 96), copy(128, 160)}), few = two;
  delay_waits(two);
  EXPECT_EQ(order(two), "start0 start1 copy wait0 wait1 ");
  delay_waits(few, 1);
  EXPECT_EQ(order(few), "start0 wait0 start0 copy wait0 ");
  // Blocks may communicate themselves: nothing is under way while they run.
  LocalProgram block = program_of({{copy(128, 160)}}, {sum(0, 0, 64), wait(0, 0, 64), call(0)});
  delay_waits(block);
  EXPECT_EQ(order(block), "start0 wait0 call ");
  for (const LocalProgram& p : {one, reads, two, few, block}) EXPECT_EQ(refusal(p), "");
}

}  // namespace
}  // namespace nabla::program
