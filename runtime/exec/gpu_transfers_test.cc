// State in the host's memory on a GPU that the fake driver plays: what comes and goes, graphs, failures, damaged programs.
#include <gtest/gtest.h>

#include "runtime/exec/test_bundle.h"
#include "runtime/exec/test_gpu.h"

namespace nabla::exec {
namespace {

using format::BaseKind;
using format::ProgramT;

constexpr uint64_t kBytes = 32;  // of the leaf, f32[8]

std::unique_ptr<format::InstructionT> transfer(uint32_t handle, std::unique_ptr<format::AddressT> from,
                                               std::unique_ptr<format::AddressT> to) {
  format::TransferT out;
  out.handle = handle, out.bytes = from->bytes;
  out.from = std::move(from), out.to = std::move(to);
  return instruction("transfer", std::move(out));
}
std::unique_ptr<format::InstructionT> wait(uint32_t handle) {
  format::WaitT out;
  out.handle = handle;
  return instruction("wait", std::move(out));
}
std::unique_ptr<format::AddressT> host() { return at(BaseKind::Host, 0, 64, kBytes); }

/// Adds a leaf `h` f32[8] in the host's memory and the entry `swap(x) -> y`, which gives its value and keeps x. The copy to the
/// host is on its way while y is copied.
void add_swap(ProgramT& p) {
  p.host_bytes = 128;
  p.state.push_back(std::make_unique<format::StateLeafT>());
  p.state.back()->tensor = tensor("h", {8});
  p.state.back()->offset = 64, p.state.back()->host = true;
  uint64_t room = p.arena_bytes;
  p.arena_bytes += 2 * kBytes;
  auto leaf = static_cast<uint32_t>(p.state.size() - 1);
  format::EntryT& e = add_entry(p, "swap");
  e.inputs.push_back(tensor("x", {8}));
  e.outputs.push_back(tensor("y", {8}));
  e.reads = {leaf}, e.writes = {leaf};
  e.instructions.push_back(transfer(0, host(), at(BaseKind::Arena, 0, room, kBytes)));
  e.instructions.push_back(copy(at(BaseKind::Input, 0, 0, kBytes), at(BaseKind::Arena, 0, room + kBytes, kBytes)));
  e.instructions.push_back(wait(0));
  e.instructions.push_back(transfer(0, at(BaseKind::Arena, 0, room + kBytes, kBytes), host()));
  e.instructions.push_back(copy(at(BaseKind::Arena, 0, room, kBytes), at(BaseKind::Output, 0, 0, kBytes)));
  e.instructions.push_back(wait(0));
}

Literal counted(double from) {
  Literal out(DType::kF32, {8});
  for (int64_t i = 0; i < 8; ++i) out.set(i, from + static_cast<double>(i));
  return out;
}

TEST(GpuTransfers, ALeafOfTheHostLivesBetweenRuns) {
  FakeGpu gpu;
  auto session = open_gpu(add_swap).value();
  int leaf = static_cast<int>(session->state_leaves().size()) - 1, swap = session->find_entry("swap");
  ASSERT_TRUE(session->set_state(leaf, counted(100).data()).ok());
  Literal before = counted(100);
  for (int run = 0; run < 4; ++run) {  // issued, recorded and replayed, replayed
    auto got = session->call(swap, {counted(run)});
    ASSERT_TRUE(got.ok()) << to_string(got.errors());
    EXPECT_EQ((*got)[0], before) << run;
    before = counted(run);
    Literal now(DType::kF32, {8});
    ASSERT_TRUE(session->get_state(leaf, now.mutable_data()).ok());
    EXPECT_EQ(now, before) << run;
  }
  EXPECT_EQ(gpu.count("cuStreamBeginCapture"), 1);
  EXPECT_EQ(gpu.count("cuGraphLaunch"), 3);
  // Files and state that is set between runs go to the same place.
  std::string path = testing::TempDir() + "/host.safetensors";
  for (int i = 0; i < leaf; ++i) {
    const TensorInfo& info = session->state_leaves()[i];
    ASSERT_TRUE(session->set_state(i, Literal(info.dtype, info.shape).data()).ok());
  }
  ASSERT_TRUE(session->save_state(path).ok());
  auto other = open_gpu(add_swap).value();
  ASSERT_TRUE(other->load_state(path).ok());
  EXPECT_EQ((*other->call(swap, {counted(7)}))[0], before);
}

TEST(GpuTransfers, NothingStaysBehindASession) {
  FakeGpu gpu;
  {
    auto session = open_gpu(add_swap).value();
    ASSERT_TRUE(session->set_state(static_cast<int>(session->state_leaves().size()) - 1, counted(0).data()).ok());
    for (int run = 0; run < 2; ++run) ASSERT_TRUE(session->call(session->find_entry("swap"), {counted(run)}).ok());
  }
  EXPECT_EQ(gpu.live(), 0);
  EXPECT_EQ(gpu.pinned(), 0);
}

TEST(GpuTransfers, FailuresNameWhatFailed) {
  auto opened = [](const char* fault) {
    FakeGpu gpu("NABLA_FAKE_CUDA_FAIL", fault);
    auto session = open_gpu(add_swap);
    return session.ok() ? std::string() : code_name(session.errors()[0].code) + " " + session.errors()[0].message;
  };
  EXPECT_EQ(opened("cuMemHostAlloc:3"), "E0804 the program needs 128 bytes of pinned memory of the host for its state");
  FakeGpu gpu("NABLA_FAKE_CUDA_FAIL", "cuStreamWaitEvent:1");
  auto session = open_gpu(add_swap).value();
  int leaf = static_cast<int>(session->state_leaves().size()) - 1;
  ASSERT_TRUE(session->set_state(leaf, counted(3).data()).ok());
  auto got = session->call(session->find_entry("swap"), {counted(4)});
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.errors()[0].message,
            "entry `swap` on Fake GPU: instruction 0 `transfer`: waiting for an event: CUDA_ERROR_INVALID_VALUE (1), invalid argument");
}

// What a damaged program is told when it is loaded, after `change` of the entry's instructions or of all of it.
std::string refusal(const ProgramChange& change, bool gpu = true) {
  auto program = toy_gpu_program([&](ProgramT& p) {
    add_swap(p);
    if (!gpu) p.compute = 0, p.specific = false;
    for (size_t k = 0; !gpu && k < p.kernels.size(); ++k) p.kernels[k]->grids.clear();
    change(p);
  });
  auto bytes = format::bundle_bytes({program.get()}, {{"kernels/sm_90a_0.cubin", toy_cubin()}});
  return bytes.ok() ? "accepted" : bytes.errors()[0].message;
}

format::TransferT& first(ProgramT& p) { return *p.entries.back()->instructions[0]->action.AsTransfer(); }

TEST(GpuTransfers, DamagedProgramsAreRefused) {
  auto ends_with = [](const std::string& text, const std::string& end) {
    EXPECT_TRUE(text.ends_with(end)) << text << "\nexpected at its end: " << end;
  };
  EXPECT_EQ(refusal([](ProgramT&) {}), "accepted");
  ends_with(refusal([](ProgramT& p) { first(p).from = at(BaseKind::Arena, 0, 0, kBytes); }),
            "a transfer that is none between the host's memory and the GPU's");
  ends_with(refusal([](ProgramT& p) { first(p).to = at(BaseKind::Host, 0, 0, kBytes); }),
            "a transfer that is none between the host's memory and the GPU's");
  ends_with(refusal([](ProgramT& p) { first(p).bytes = 16; }), "a transfer of 16 bytes with an operand of 32");
  ends_with(refusal([](ProgramT& p) { first(p).from->offset = 100; }),
            "the source (32 bytes at 100) lies outside the 128 bytes of its base");
  ends_with(refusal([](ProgramT& p) { p.entries.back()->instructions[1]->action.AsCopy()->from = host(); }),
            "is in the host's memory, where transfers alone go");
  ends_with(refusal([](ProgramT& p) { p.entries.back()->instructions.pop_back(); }), "is never awaited");
  ends_with(refusal([](ProgramT& p) { p.state.back()->offset = 112; }),
            "state leaf `h` (32 bytes at 112) lies outside the 128 bytes of state");
  ends_with(refusal([](ProgramT&) {}, false), "128 bytes of state beside the arena of a program for CPUs");
  auto stateless = [](ProgramT& p) {
    p.host_bytes = 0, p.state.pop_back();
    p.entries.back()->reads.clear(), p.entries.back()->writes.clear();
  };
  ends_with(refusal(stateless, false), "a transfer in a program for CPUs, whose memory is the host's");
}

}  // namespace
}  // namespace nabla::exec
