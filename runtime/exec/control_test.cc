// Loops and branches of hand-built programs, and what the checks refuse.
#include <gtest/gtest.h>

#include "runtime/exec/session.h"
#include "runtime/exec/test_bundle.h"
#include "runtime/format/bundle_writer.h"
#include "runtime/format/program_generated.h"

namespace nabla::exec {
namespace {

using namespace nabla::format;  // NOLINT: a table of schema objects

std::unique_ptr<AddressT> at(BaseKind base, uint16_t index, uint64_t offset, uint64_t bytes,
                             std::vector<RegisterTerm> terms = {}) {
  auto out = std::make_unique<AddressT>();
  out->base = base, out->index = index, out->offset = offset, out->bytes = bytes;
  out->terms = std::move(terms);
  return out;
}
template <class ActionT>
std::unique_ptr<InstructionT> instruction(ActionT action) {
  auto out = std::make_unique<InstructionT>();
  out->label = "test";
  out->action.Set(std::move(action));
  return out;
}
std::unique_ptr<InstructionT> copy(std::unique_ptr<AddressT> from, std::unique_ptr<AddressT> to) {
  CopyT out;
  out.bytes = from->bytes;
  out.from = std::move(from), out.to = std::move(to);
  return instruction(std::move(out));
}
std::unique_ptr<InstructionT> loop(uint32_t body, uint16_t counter, int64_t trips, bool reverse) {
  LoopT out;
  out.body = body, out.register_ = counter, out.trips = trips, out.reverse = reverse;
  return instruction(std::move(out));
}
uint32_t add_block(ProgramT& p, std::unique_ptr<InstructionT> only) {
  p.blocks.push_back(std::make_unique<BlockT>());
  p.blocks.back()->instructions.push_back(std::move(only));
  return static_cast<uint32_t>(p.blocks.size() - 1);
}

// Entry `rows(which i32[], x f32[3,4]) -> y f32[3,4]`: which <= 0 stores the rows of x upside down, element by
// element; 1: the last row that a loop meets, everywhere; >= 2: nothing, from an empty loop.
void add_rows(ProgramT& p) {
  p.entries.push_back(std::make_unique<EntryT>());
  EntryT& e = *p.entries.back();
  e.name = "rows";
  auto tensor = [](const char* name, std::vector<int64_t> shape, format::DType dtype) {
    auto out = std::make_unique<TensorT>();
    out->name = name, out->shape = std::move(shape), out->dtype = dtype;
    return out;
  };
  e.inputs.push_back(tensor("which", {}, format::DType::I32));
  e.inputs.push_back(tensor("x", {3, 4}, format::DType::F32));
  e.outputs.push_back(tensor("y", {3, 4}, format::DType::F32));
  auto x = [](std::vector<RegisterTerm> terms, uint64_t bytes) { return at(BaseKind::Input, 1, 0, bytes, terms); };
  uint32_t element = add_block(
      p, copy(x({{0, 16}, {1, 4}}, 4), at(BaseKind::Output, 0, 32, 4, {RegisterTerm(0, -16), RegisterTerm(1, 4)})));
  uint32_t row = add_block(p, loop(element, 1, 4, false));
  uint32_t flip = add_block(p, loop(row, 0, 3, false));
  uint32_t store = add_block(p, copy(x({{1, 16}}, 16), at(BaseKind::Output, 0, 0, 16, {RegisterTerm(0, 16)})));
  uint32_t last = add_block(p, loop(store, 1, 3, true));
  uint32_t everywhere = add_block(p, loop(last, 0, 3, true));
  uint32_t never = add_block(p, copy(x({}, 16), at(BaseKind::Output, 0, 0, 16)));
  uint32_t nothing = add_block(p, loop(never, 0, 0, true));
  BranchT branch;
  branch.index = at(BaseKind::Input, 0, 0, 4);
  branch.index_dtype = format::DType::I32;
  branch.blocks = {flip, everywhere, nothing};
  e.instructions.push_back(instruction(std::move(branch)));
}

std::unique_ptr<Session> open_rows() {
  std::string bytes = toy_bundle(add_rows);
  auto bundle = Bundle::from_bytes(FileBytes::copy_of(as_bytes(bytes)), "toy.nbundle");
  return Session::create(std::move(bundle).value(), {.threads = 1}).value();
}

TEST(Control, LoopsMoveAddressesAndBranchesClampTheirIndex) {
  auto session = open_rows();
  int entry = session->find_entry("rows");
  Literal x(nabla::DType::kF32, {3, 4});
  for (int64_t i = 0; i < 12; ++i) x.set(i, i);
  for (int which : {-5, 0, 1, 0, 1}) {  // again: a loop leaves its addresses as it found them
    auto y = session->call(entry, {Literal::scalar_int(nabla::DType::kI32, which), x}).value();
    for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(y[0].get(i), which < 1 ? (2 - i / 4) * 4 + i % 4 : i % 4) << which;
  }
  EXPECT_TRUE(session->call(entry, {Literal::scalar_int(nabla::DType::kI32, 7), x}).ok());
}

TEST(Control, DamagedProgramsAreRefused) {
  struct Case {
    const char* message;
    std::function<void(ProgramT&)> change;
  };
  auto loop_of = [](ProgramT& p, int block) { return p.blocks[block]->instructions[0]->action.AsLoop(); };
  auto copy_of = [](ProgramT& p, int block) { return p.blocks[block]->instructions[0]->action.AsCopy(); };
  auto branch_of = [](ProgramT& p) { return p.entries.back()->instructions[0]->action.AsBranch(); };
  const Case cases[] = {
      {"block 9 of 2 that it may use", [&](ProgramT& p) { loop_of(p, 2)->body = 9; }},
      {"block 2 of 2 that it may use", [&](ProgramT& p) { loop_of(p, 2)->body = 2; }},
      {"a loop of -1 trips", [&](ProgramT& p) { loop_of(p, 1)->trips = -1; }},
      {"register 0 is in use around it", [&](ProgramT& p) { loop_of(p, 1)->register_ = 0; }},
      {"the source moves with register 7, in which nothing counts",
       [&](ProgramT& p) { copy_of(p, 0)->from->terms = {RegisterTerm(7, 4)}; }},
      {"the target moves beyond the 48 bytes of its base", [&](ProgramT& p) { copy_of(p, 0)->to->offset = 16; }},
      {"the source moves beyond the 48 bytes of its base", [&](ProgramT& p) { loop_of(p, 2)->trips = 4; }},
      {"a branch without blocks", [&](ProgramT& p) { branch_of(p)->blocks.clear(); }},
      {"a branch by element type 11", [&](ProgramT& p) { branch_of(p)->index_dtype = format::DType::F32; }},
  };
  for (const Case& c : cases) {
    std::string message;
    toy_bundle([&](ProgramT& p) {
      add_rows(p);
      c.change(p);
      auto bytes = bundle_bytes(p, {{"kernels/cpu.so", "code"}});
      message = bytes.ok() ? "accepted" : bytes.errors()[0].str();
      p.entries.pop_back();
      p.blocks.clear();
    });
    EXPECT_NE(message.find(c.message), std::string::npos) << message;
    EXPECT_NE(message.find("E0104"), std::string::npos) << message;
  }
}

std::unique_ptr<InstructionT> call(uint32_t block, std::vector<RegisterValue> registers) {
  CallT out;
  out.block = block, out.registers = std::move(registers);
  return instruction(std::move(out));
}

// Entry `turns(x f32[4]) -> y f32[4,2]`: one block copies an element through one of two places in turn, and is run by
// two calls and by a loop that calls it; row i of y is (x[i], x[i]).
void add_turns(ProgramT& p) {
  p.entries.push_back(std::make_unique<EntryT>());
  EntryT& e = *p.entries.back();
  e.name = "turns";
  auto tensor = [](const char* name, std::vector<int64_t> shape) {
    auto out = std::make_unique<TensorT>();
    out->name = name, out->shape = std::move(shape), out->dtype = format::DType::F32;
    return out;
  };
  e.inputs.push_back(tensor("x", {4}));
  e.outputs.push_back(tensor("y", {4, 2}));
  p.blocks.push_back(std::make_unique<BlockT>());
  auto turn = [&](uint64_t offset) {  // the second half of the arena of temporaries is the other place
    auto out = at(BaseKind::Arena, 0, p.state_bytes + offset, 4, {RegisterTerm(0, 8)});
    out->moduli = {2};
    return out;
  };
  p.arena_bytes = std::max<uint64_t>(p.arena_bytes, p.state_bytes + 64);
  auto& body = p.blocks.back()->instructions;
  body.push_back(copy(at(BaseKind::Input, 0, 0, 4, {RegisterTerm(0, 4)}), turn(0)));
  for (uint64_t column : {0, 4})
    body.push_back(copy(turn(0), at(BaseKind::Output, 0, column, 4, {RegisterTerm(0, 8)})));
  auto block = static_cast<uint32_t>(p.blocks.size() - 1);
  e.instructions.push_back(call(block, {RegisterValue(0, 3)}));
  e.instructions.push_back(call(block, {RegisterValue(0, 1)}));
  // Rows 0 and 2 by a loop over the same block, whose counter is another register.
  p.blocks.push_back(std::make_unique<BlockT>());
  auto& rest = p.blocks.back()->instructions;
  rest.push_back(
      copy(at(BaseKind::Input, 0, 0, 4, {RegisterTerm(1, 8)}), at(BaseKind::Output, 0, 0, 4, {RegisterTerm(1, 16)})));
  rest.push_back(
      copy(at(BaseKind::Input, 0, 0, 4, {RegisterTerm(1, 8)}), at(BaseKind::Output, 0, 4, 4, {RegisterTerm(1, 16)})));
  rest.push_back(call(block, {RegisterValue(0, 3)}));
  e.instructions.push_back(loop(block + 1, 1, 2, false));
}

std::string refusal_of(const std::function<void(ProgramT&)>& change) {
  std::string message;
  toy_bundle([&](ProgramT& p) {
    size_t blocks = p.blocks.size();
    add_turns(p);
    change(p);
    auto bytes = bundle_bytes(p, {{"kernels/cpu.so", "code"}});
    message = bytes.ok() ? "accepted" : bytes.errors()[0].str();
    p.entries.pop_back();
    p.blocks.resize(blocks);
  });
  return message;
}

TEST(Control, CallsRunOneBlockWithOtherRegisters) {
  std::string bytes = toy_bundle(add_turns);
  auto bundle = Bundle::from_bytes(FileBytes::copy_of(as_bytes(bytes)), "toy.nbundle");
  auto session = Session::create(std::move(bundle).value(), {.threads = 1}).value();
  int entry = session->find_entry("turns");
  Literal x(nabla::DType::kF32, {4});
  for (int run = 0; run < 3; ++run) {  // again: a call leaves its addresses as it found them
    for (int64_t i = 0; i < 4; ++i) x.set(i, 10 * run + i + 1);
    auto y = session->call(entry, {x}).value();
    for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(y[0].get(i), 10 * run + i / 2 + 1) << i;
  }
}

TEST(Control, DamagedCallsAreRefused) {
  auto call_of = [](ProgramT& p) { return p.entries.back()->instructions[0]->action.AsCall(); };
  auto turn_of = [](ProgramT& p) { return p.blocks[0]->instructions[0]->action.AsCopy()->to.get(); };
  EXPECT_EQ(refusal_of([](ProgramT&) {}), "accepted");
  const std::pair<const char*, std::function<void(ProgramT&)>> cases[] = {
      {"block 9 of 2 that it may use", [&](ProgramT& p) { call_of(p)->block = 9; }},
      {"the source moves beyond the 16 bytes of its base",
       [&](ProgramT& p) { call_of(p)->registers[0] = RegisterValue(0, 4); }},
      {"a call sets register 0 to -1", [&](ProgramT& p) { call_of(p)->registers[0] = RegisterValue(0, -1); }},
      {"the source moves with register 0, in which nothing counts",
       [&](ProgramT& p) { call_of(p)->registers.clear(); }},
      {"register 1 is in use around it",
       [&](ProgramT& p) {
         p.blocks[1]->instructions[2]->action.AsCall()->registers = {RegisterValue(0, 0), RegisterValue(1, 0)};
       }},
      {"the target has 2 moduli",
       [&](ProgramT& p) {
         turn_of(p)->moduli = {2, 2};
       }},
      {"the target moves with a remainder by -2", [&](ProgramT& p) { turn_of(p)->moduli = {-2}; }},
      {"block 1 of 1 that it may use", [&](ProgramT& p) { p.blocks[1]->instructions[2]->action.AsCall()->block = 1; }},
  };
  for (const auto& [message, change] : cases) {
    std::string text = refusal_of(change);
    EXPECT_NE(text.find(message), std::string::npos) << text;
    EXPECT_NE(text.find("E0104"), std::string::npos) << text;
  }
  // Each block calls the one before it twice: 2^40 instructions from 42 blocks.
  std::string bomb = refusal_of([&](ProgramT& p) {
    p.blocks[1]->instructions.clear();
    for (uint32_t b = 1; b < 42; ++b) {
      if (b > 1) p.blocks.push_back(std::make_unique<BlockT>());
      for (int i = 0; i < 2; ++i) p.blocks[b]->instructions.push_back(call(b - 1, {}));
    }
    p.blocks[0]->instructions.clear();
    p.blocks[0]->instructions.push_back(copy(at(BaseKind::Input, 0, 0, 4), at(BaseKind::Output, 0, 0, 4)));
    p.entries.back()->instructions.clear();
    p.entries.back()->instructions.push_back(call(41, {}));
  });
  EXPECT_NE(bomb.find("error[E0402]"), std::string::npos) << bomb;
  EXPECT_NE(bomb.find("blocks run more than 4194304 instructions"), std::string::npos) << bomb;
}

}  // namespace
}  // namespace nabla::exec
