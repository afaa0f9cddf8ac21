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
      {"block 2 is used twice",
       [&](ProgramT& p) {
         branch_of(p)->blocks = {2, 2};
       }},
      {"a loop of -1 trips", [&](ProgramT& p) { loop_of(p, 1)->trips = -1; }},
      {"a loop counts in register 0, in which another one counts", [&](ProgramT& p) { loop_of(p, 1)->register_ = 0; }},
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

}  // namespace
}  // namespace nabla::exec
