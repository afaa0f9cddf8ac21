#include "runtime/format/test_programs.h"

namespace nabla::format {
namespace {

std::unique_ptr<StateLeafT> leaf(std::string name, std::vector<int64_t> shape, uint64_t offset) {
  auto out = std::make_unique<StateLeafT>();
  out->tensor = tensor(std::move(name), std::move(shape));
  out->offset = offset;
  return out;
}

std::unique_ptr<EntryT> entry(std::string name, std::vector<uint32_t> reads, std::vector<uint32_t> writes) {
  auto out = std::make_unique<EntryT>();
  out->name = std::move(name), out->reads = std::move(reads), out->writes = std::move(writes);
  return out;
}

std::unique_ptr<InstructionT> wait(uint32_t handle) {
  WaitT action;
  action.handle = handle;
  return instruction("wait", std::move(action));
}

// The sum of 16 bytes at `offset` over the class's group 0.
std::unique_ptr<InstructionT> all_reduce(uint64_t offset, uint32_t handle) {
  CollectiveT action;
  action.kind = CollectiveKind::AllReduce, action.reduction = Reduction::Sum, action.dtype = DType::F32;
  action.handle = handle, action.bytes = 16;
  action.from = address(BaseKind::Arena, offset, 16), action.to = address(BaseKind::Arena, offset, 16);
  return instruction("all_reduce", std::move(action));
}

ProgramT front_program() {
  ProgramT p;
  p.target = "cpu:x86-64-v3", p.arena_bytes = 64, p.state_bytes = 16;
  p.state.push_back(leaf("w", {4}, 0));
  auto step = entry("step", {0}, {0});
  step->inputs.push_back(tensor("x", {2, 4}));
  step->instructions.push_back(copy_step(address(BaseKind::Input, 0, 16), address(BaseKind::Arena, 32, 16), 16));
  SendT send;
  send.handle = 7, send.bytes = 16, send.from = address(BaseKind::Arena, 32, 16);
  step->instructions.push_back(instruction("send", std::move(send)));
  step->instructions.push_back(all_reduce(0, 8));
  step->instructions.push_back(wait(8));
  step->instructions.push_back(wait(7));
  p.entries.push_back(std::move(step));
  return p;
}

ProgramT back_program() {
  ProgramT p;
  p.target = "cpu:x86-64-v3", p.arena_bytes = 128, p.state_bytes = 36;
  p.state.push_back(leaf("m", {2, 4}, 0));
  p.state.push_back(leaf("n", {}, 32));
  auto reset = entry("reset", {}, {0, 1});
  p.entries.push_back(std::move(reset));
  auto step = entry("step", {0}, {});
  step->outputs.push_back(tensor("loss", {}));
  RecvT recv;
  recv.handle = 1, recv.bytes = 16, recv.to = address(BaseKind::Arena, 64, 16);
  step->instructions.push_back(instruction("recv", std::move(recv)));
  step->instructions.push_back(wait(1));
  step->instructions.push_back(all_reduce(64, 2));
  step->instructions.push_back(wait(2));
  step->instructions.push_back(copy_step(address(BaseKind::Arena, 64, 4), address(BaseKind::Output, 0, 4), 4));
  p.entries.push_back(std::move(step));
  return p;
}

std::unique_ptr<ClassT> rank_class(std::string name, uint32_t first, int32_t peer, bool sends) {
  auto out = std::make_unique<ClassT>();
  out->name = std::move(name), out->first = first, out->digits = {Digit(1, 2)}, out->groups = {0};
  out->channels.push_back(std::make_unique<ChannelT>());
  out->channels[0]->offset = peer, out->channels[0]->sends = sends, out->channels[0]->bytes = 16;
  return out;
}

// A tensor that one class holds, its first dimension cut into `parts`.
std::unique_ptr<WholeT> whole(std::string entry, std::string name, std::vector<int64_t> shape, uint32_t of_class,
                              uint32_t index, bool cut) {
  auto out = std::make_unique<WholeT>();
  out->entry = std::move(entry), out->name = std::move(name), out->dtype = DType::F32, out->shape = std::move(shape);
  out->placements.push_back(std::make_unique<PlacementT>());
  out->placements[0]->class_index = of_class, out->placements[0]->index = index;
  for (size_t d = 0; cut && d < out->shape.size(); ++d) {
    out->placements[0]->cuts.push_back(std::make_unique<CutT>());
    if (d == 0) out->placements[0]->cuts[0]->digits = {Digit(1, 2)};
  }
  return out;
}

std::unique_ptr<MeshAxisT> axis(std::string name) {
  auto out = std::make_unique<MeshAxisT>();
  out->name = std::move(name), out->size = 2;
  return out;
}

}  // namespace

std::unique_ptr<TensorT> tensor(std::string name, std::vector<int64_t> shape) {
  auto out = std::make_unique<TensorT>();
  out->name = std::move(name);
  out->dtype = DType::F32;
  out->shape = std::move(shape);
  return out;
}

std::unique_ptr<AddressT> address(BaseKind base, uint64_t offset, uint64_t bytes) {
  auto out = std::make_unique<AddressT>();
  out->base = base;
  out->offset = offset;
  out->bytes = bytes;
  return out;
}

std::unique_ptr<InstructionT> copy_step(std::unique_ptr<AddressT> from, std::unique_ptr<AddressT> to, uint64_t bytes) {
  CopyT action;
  action.from = std::move(from);
  action.to = std::move(to);
  action.bytes = bytes;
  return instruction("copy", std::move(action));
}

ProgramT small_program() {
  ProgramT program;
  program.target = "cpu:x86-64-v3";
  program.arena_bytes = 256;
  program.state_bytes = 64;
  program.constants_bytes = 8;
  program.state.push_back(leaf("w", {4}, 0));
  auto main = entry("main", {0}, {0});
  main->inputs.push_back(tensor("x", {4}));
  main->outputs.push_back(tensor("y", {4}));
  main->instructions.push_back(copy_step(address(BaseKind::Input, 0, 16), address(BaseKind::Arena, 0, 16), 16));
  main->instructions.push_back(copy_step(address(BaseKind::Arena, 0, 16), address(BaseKind::Output, 0, 16), 16));
  program.entries.push_back(std::move(main));
  return program;
}

std::vector<BundleMember> small_members() { return {{"constants.bin", "12345678"}, {"source/note.txt", "a note"}}; }

TwoClasses two_classes() {
  TwoClasses out;
  out.front = front_program(), out.back = back_program();
  RanksT& r = out.ranks;
  r.count = 4;
  r.meshes.push_back(std::make_unique<MeshT>());
  r.meshes[0]->name = "pod";
  r.meshes[0]->axes.push_back(axis("pp"));
  r.meshes[0]->axes.push_back(axis("dp"));
  r.groups.push_back(std::make_unique<GroupT>());
  r.groups[0]->name = "dp", r.groups[0]->digits = {Digit(1, 2)};
  r.classes.push_back(rank_class("front", 0, 2, true));
  r.classes.push_back(rank_class("back", 2, -2, false));
  r.state.push_back(whole("", "stage0/w", {4}, 0, 0, false));
  r.state.push_back(whole("", "stage1/m", {4, 4}, 1, 0, true));
  r.state.push_back(whole("", "stage1/n", {}, 1, 1, false));
  r.inputs.push_back(whole("step", "x", {4, 4}, 0, 0, true));
  r.outputs.push_back(whole("step", "loss", {}, 1, 0, false));
  return out;
}

Result<std::string> TwoClasses::bytes() const { return bundle_bytes(RanksT(ranks), {{&front}, {&back}}, {}); }

void move_to_variant(EntryT& entry) {
  entry.variants.push_back(std::make_unique<VariantT>());
  std::swap(entry.variants[0]->instructions, entry.instructions);
}

}  // namespace nabla::format
