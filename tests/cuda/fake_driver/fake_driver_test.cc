// The fake driver refuses what the real one refuses; without that, tests on it would show nothing.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "runtime/device/cuda_driver.h"
#include "runtime/format/sha256.h"
#include "tests/cuda/emulator/object.h"

namespace nabla::device {
namespace {

class FakeDriver : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = fmt::format("{}/{}/tests/cuda/fake_driver/libfake_cuda.so", std::getenv("TEST_SRCDIR"),
                                   std::getenv("TEST_WORKSPACE"));
    setenv("NABLA_CUDA_DRIVER", path.c_str(), 1);
    device_ = CudaDevice::open().value();
    ok(cuda().context_retain(&context_, device_.device));
    ok(cuda().context_set(context_));
    ok(cuda().stream_create(&stream_, 0));
    ok(cuda().memory_alloc(&memory_, 64));
  }
  void TearDown() override { ok(cuda().context_release(device_.device)); }
  const CudaDriver& cuda() const { return *device_.driver; }
  std::string name(int status) const { return cuda().text(status).substr(0, cuda().text(status).find(" (")); }
  void ok(int status) const { ASSERT_EQ(name(status), "CUDA_SUCCESS"); }

  CudaDevice device_;
  CudaContext context_ = nullptr;
  CudaStream stream_ = nullptr;
  CudaAddress memory_ = 0;
};

TEST_F(FakeDriver, CopiesComeThroughWhenTheStreamIsWaitedFor) {
  void* pinned = nullptr;
  ok(cuda().host_alloc(&pinned, 64, 0));
  auto* bytes = static_cast<char*>(pinned);
  std::vector<char> from(64, 7);
  ok(cuda().copy_in(memory_, from.data(), 64, stream_));
  bytes[0] = 1;
  ok(cuda().copy_out(pinned, memory_, 64, stream_));
  EXPECT_EQ(bytes[0], 1);  // not yet
  ok(cuda().stream_synchronize(stream_));
  EXPECT_EQ(bytes[0], 7);
  EXPECT_EQ(bytes[63], 7);
  ok(cuda().host_free(pinned));
}

TEST_F(FakeDriver, FreshMemoryHoldsNaNs) {
  float value = 0;
  ok(cuda().copy_out(&value, memory_, 4, stream_));
  ok(cuda().stream_synchronize(stream_));
  EXPECT_NE(value, value);
}

TEST_F(FakeDriver, WrongDirectionsAndWhatIsOutOfBoundsAreRefused) {
  std::vector<char> host(128);
  auto* device = reinterpret_cast<char*>(memory_);
  EXPECT_EQ(name(cuda().copy_in(memory_, device, 8, stream_)), "CUDA_ERROR_INVALID_VALUE");
  EXPECT_EQ(name(cuda().copy_out(device, memory_, 8, stream_)), "CUDA_ERROR_INVALID_VALUE");
  EXPECT_EQ(name(cuda().copy_in(reinterpret_cast<CudaAddress>(host.data()), host.data(), 8, stream_)),
            "CUDA_ERROR_INVALID_VALUE");
  EXPECT_EQ(name(cuda().copy_in(memory_, host.data(), 65, stream_)), "CUDA_ERROR_INVALID_VALUE");
  EXPECT_EQ(name(cuda().copy_in(memory_ + 60, host.data(), 5, stream_)), "CUDA_ERROR_INVALID_VALUE");
  EXPECT_EQ(name(cuda().copy_within(memory_, memory_ + 32, 33, stream_)), "CUDA_ERROR_INVALID_VALUE");
  EXPECT_EQ(name(cuda().memory_alloc(&memory_, 0)), "CUDA_ERROR_INVALID_VALUE");
}

// Rules of a map: tests/cuda/emulator/copy_engine_test.cc.
TEST_F(FakeDriver, TensorMapsAreForChipsThatHaveACopyEngine) {
  const uint64_t sizes[] = {8, 4}, strides[] = {16};
  const uint32_t box[] = {64, 4}, one_by_one[] = {1, 1};
  auto made = [&](uint64_t address) {
    device::CudaTensorMap map;
    return cuda().tensor_map(&map, 1, 2, address, sizes, strides, box, one_by_one, 0, 3, 0, 0);
  };
  setenv("NABLA_FAKE_CUDA_CAPABILITY", "9.0", 1);
  ok(made(memory_));
  EXPECT_EQ(name(made(memory_ + 8)), "CUDA_ERROR_INVALID_VALUE");
  setenv("NABLA_FAKE_CUDA_CAPABILITY", "8.0", 1);
  EXPECT_EQ(name(made(memory_)), "CUDA_ERROR_INVALID_VALUE");
  unsetenv("NABLA_FAKE_CUDA_CAPABILITY");
}

TEST_F(FakeDriver, FreedMemoryAndDestroyedThingsAreNotUsed) {
  char byte = 0;
  ok(cuda().memory_free(memory_));
  EXPECT_EQ(name(cuda().memory_free(memory_)), "CUDA_ERROR_INVALID_VALUE");
  EXPECT_EQ(name(cuda().copy_in(memory_, &byte, 1, stream_)), "CUDA_ERROR_INVALID_VALUE");
  CudaEvent event = nullptr;
  ok(cuda().event_create(&event, 0));
  ok(cuda().event_destroy(event));
  EXPECT_EQ(name(cuda().event_record(event, stream_)), "CUDA_ERROR_INVALID_HANDLE");
  ok(cuda().stream_destroy(stream_));
  EXPECT_EQ(name(cuda().stream_synchronize(stream_)), "CUDA_ERROR_INVALID_HANDLE");
}

TEST_F(FakeDriver, ACaptureRecordsAndForbidsToWait) {
  std::vector<char> from(64, 3), to(64);
  CudaGraph graph = nullptr;
  CudaGraphExec exec = nullptr;
  ok(cuda().capture_begin(stream_, 1));
  ok(cuda().copy_in(memory_, from.data(), 64, stream_));
  ok(cuda().capture_end(stream_, &graph));
  ok(cuda().graph_instantiate(&exec, graph, 0));
  ok(cuda().graph_destroy(graph));
  ok(cuda().graph_launch(exec, stream_));
  ok(cuda().copy_out(to.data(), memory_, 64, stream_));
  ok(cuda().stream_synchronize(stream_));
  EXPECT_EQ(to, from);
  ok(cuda().exec_destroy(exec));
  EXPECT_EQ(name(cuda().graph_launch(exec, stream_)), "CUDA_ERROR_INVALID_HANDLE");

  ok(cuda().capture_begin(stream_, 1));
  EXPECT_EQ(name(cuda().stream_synchronize(stream_)), "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED");
  EXPECT_EQ(name(cuda().copy_in(memory_, from.data(), 64, stream_)), "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
  EXPECT_EQ(name(cuda().capture_end(stream_, &graph)), "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
  ok(cuda().stream_synchronize(stream_));
}

// A stream does nothing of itself; another one that waits for its event has it done.
TEST_F(FakeDriver, StreamsWaitForEventsOfOthers) {
  CudaStream other = nullptr;
  CudaEvent event = nullptr;
  ok(cuda().stream_create(&other, 0));
  ok(cuda().event_create(&event, 2));
  std::vector<char> first(64, 1), second(64, 2), to(64);
  for (bool waits : {false, true}) {
    ok(cuda().copy_in(memory_, first.data(), 64, stream_));
    ok(cuda().stream_synchronize(stream_));
    ok(cuda().copy_in(memory_, second.data(), 64, other));
    ok(cuda().event_record(event, other));
    if (waits) ok(cuda().stream_wait(stream_, event, 0));
    ok(cuda().copy_out(to.data(), memory_, 64, stream_));
    ok(cuda().stream_synchronize(stream_));
    EXPECT_EQ(to, waits ? second : first);
    ok(cuda().stream_synchronize(other));
  }
  ok(cuda().event_destroy(event));
  ok(cuda().stream_destroy(other));
}

TEST_F(FakeDriver, ACaptureGoesOnInOtherStreamsAndComesBack) {
  CudaStream other = nullptr;
  CudaEvent out = nullptr, back = nullptr;
  ok(cuda().stream_create(&other, 0));
  ok(cuda().event_create(&out, 2));
  ok(cuda().event_create(&back, 2));
  std::vector<char> from(64, 5), to(64);
  CudaGraph graph = nullptr;
  CudaGraphExec exec = nullptr;
  auto record = [&](bool joins) {
    ok(cuda().capture_begin(stream_, 1));
    ok(cuda().event_record(out, stream_));
    ok(cuda().stream_wait(other, out, 0));
    ok(cuda().copy_in(memory_, from.data(), 64, other));
    ok(cuda().event_record(back, other));
    if (joins) ok(cuda().stream_wait(stream_, back, 0));
    return cuda().capture_end(stream_, &graph);
  };
  EXPECT_EQ(name(record(false)), "CUDA_ERROR_STREAM_CAPTURE_UNJOINED");
  ok(record(true));
  ok(cuda().graph_instantiate(&exec, graph, 0));
  ok(cuda().graph_destroy(graph));
  for (char value : {6, 7}) {
    std::vector<char> others(64, value);
    ok(cuda().copy_in(memory_, others.data(), 64, stream_));
    ok(cuda().graph_launch(exec, stream_));
    ok(cuda().copy_out(to.data(), memory_, 64, stream_));
    ok(cuda().stream_synchronize(stream_));
    EXPECT_EQ(to, from);
  }
  // An event of a recording means nothing outside of it.
  EXPECT_EQ(name(cuda().stream_wait(stream_, back, 0)), "CUDA_ERROR_STREAM_CAPTURE_ISOLATION");
  ok(cuda().exec_destroy(exec));
  ok(cuda().stream_destroy(other));
}

// Who asks lets the GPU work meanwhile, as time would.
TEST_F(FakeDriver, StreamsAndEventsThatAreAskedComeToTheirEnd) {
  CudaStream other = nullptr;
  CudaEvent event = nullptr;
  ok(cuda().stream_create(&other, 1));
  ok(cuda().event_create(&event, 2));
  EXPECT_EQ(cuda().event_query(event), kCudaOk);  // never recorded
  std::vector<char> from(64, 5), to(64);
  ok(cuda().copy_in(memory_, from.data(), 64, other));
  ok(cuda().event_record(event, other));
  ok(cuda().stream_wait(stream_, event, 0));
  ok(cuda().copy_out(to.data(), memory_, 64, stream_));
  EXPECT_EQ(cuda().event_query(event), kCudaOk);
  EXPECT_EQ(to[0], 0);
  EXPECT_EQ(cuda().stream_query(stream_), kCudaOk);
  EXPECT_EQ(to, from);
  ok(cuda().event_destroy(event));
  EXPECT_EQ(name(cuda().event_query(event)), "CUDA_ERROR_INVALID_HANDLE");
  ok(cuda().stream_destroy(other));
  EXPECT_EQ(name(cuda().stream_query(other)), "CUDA_ERROR_INVALID_HANDLE");
}

TEST_F(FakeDriver, AThreadWithoutTheContextIsToldSo) {
  ok(cuda().context_set(nullptr));
  EXPECT_EQ(name(cuda().memory_alloc(&memory_, 64)), "CUDA_ERROR_INVALID_CONTEXT");
}

// A cubin's header: the chip that it is for, and the ABI (8: of CUDA 13).
std::string header(unsigned flags, unsigned char abi) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_ABIVERSION] = abi, header.e_machine = 190, header.e_flags = flags;
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

TEST_F(FakeDriver, CodeOfAnotherChipOrOfANewerCudaIsRefused) {
  CudaModule module = nullptr;
  auto load = [&](const std::string& image) { return name(cuda().module_load(&module, image.c_str())); };
  EXPECT_EQ(load(header(80 << 8, 8)), "CUDA_ERROR_NO_BINARY_FOR_GPU");
  EXPECT_EQ(load(header(100 << 8, 8)), "CUDA_ERROR_NO_BINARY_FOR_GPU");
  EXPECT_EQ(load(header(80, 7)), "CUDA_ERROR_NO_BINARY_FOR_GPU");
  setenv("NABLA_FAKE_CUDA_VERSION", "13000", 1);
  EXPECT_EQ(load("//\n.version 9.1\n.target sm_80\n"), "CUDA_ERROR_UNSUPPORTED_PTX_VERSION");
  setenv("NABLA_FAKE_CUDA_VERSION", "12040", 1);
  EXPECT_EQ(load(header(90 << 8, 8)), "CUDA_ERROR_INVALID_IMAGE");
  EXPECT_EQ(load("//\n.version 8.5\n.target sm_80\n"), "CUDA_ERROR_UNSUPPORTED_PTX_VERSION");
  unsetenv("NABLA_FAKE_CUDA_VERSION");
}

// Bytes of shared memory of a block, static and dynamic, by the CUDA C++ Programming Guide, table "Technical Specifications per Compute
// Capability"; and the launches that no GPU takes.
TEST_F(FakeDriver, LaunchesBeyondTheLimitsOfTheChipAreRefused) {
  constexpr int kMaxDynamicShared = 8, kBlockShared = 97, kStatic = 1024;
  const std::string image = header(0, 8), folder = testing::TempDir();  // for every chip
  const char* text = "extern \"C\" __global__ void f(float* x) {\n  __shared__ float s[256];\n  *x = s[0];\n}\n";
  auto object = emulator::compile_object(text, false);
  ASSERT_TRUE(object.ok()) << to_string(object.errors());
  const std::vector<uint8_t> bytes(image.begin(), image.end());
  std::ofstream(folder + "/" + format::sha256_hex(bytes) + ".so", std::ios::binary) << *object;
  setenv("NABLA_FAKE_CUDA", folder.c_str(), 1);
  constexpr std::pair<const char*, int> kChips[] = {{"8.0", 163}, {"8.6", 99},   {"8.7", 163}, {"8.9", 99},
                                                    {"9.0", 227}, {"10.0", 227}, {"12.0", 99}};  // KB
  for (auto [capability, most] : kChips) {
    SCOPED_TRACE(capability);
    setenv("NABLA_FAKE_CUDA_CAPABILITY", capability, 1);
    CudaModule module = nullptr;
    CudaFunction f = nullptr;
    ok(cuda().module_load(&module, image.c_str()));
    ok(cuda().module_function(&f, module, "f"));
    auto launch = [&](int shared, unsigned threads = 1, unsigned blocks = 1) {
      void* arguments[] = {&memory_};
      return name(cuda().launch(f, blocks, 1, 1, threads, 1, 1, static_cast<unsigned>(shared), stream_, arguments, nullptr));
    };
    int block = 0;
    ok(cuda().device_attribute(&block, kBlockShared, device_.device));
    EXPECT_EQ(block, most << 10);
    // Above 48 KB a program has to ask for more.
    EXPECT_EQ(launch((48 << 10) - kStatic), "CUDA_SUCCESS");
    EXPECT_EQ(launch((48 << 10) - kStatic + 1), "CUDA_ERROR_INVALID_VALUE");
    EXPECT_EQ(name(cuda().function_set(f, kMaxDynamicShared, block - kStatic + 1)), "CUDA_ERROR_INVALID_VALUE");
    ok(cuda().function_set(f, kMaxDynamicShared, block - kStatic));
    EXPECT_EQ(launch(block - kStatic), "CUDA_SUCCESS");
    EXPECT_EQ(launch(block - kStatic + 1), "CUDA_ERROR_INVALID_VALUE");
    EXPECT_EQ(launch(0, 1024), "CUDA_SUCCESS");
    EXPECT_EQ(launch(0, 1025), "CUDA_ERROR_INVALID_VALUE");
    EXPECT_EQ(launch(0, 0), "CUDA_ERROR_INVALID_VALUE");
    EXPECT_EQ(launch(0, 1, 0x7fffffff), "CUDA_SUCCESS");
    EXPECT_EQ(launch(0, 1, 0x80000000), "CUDA_ERROR_INVALID_VALUE");
    EXPECT_EQ(launch(0, 1, 0), "CUDA_ERROR_INVALID_VALUE");
  }
  unsetenv("NABLA_FAKE_CUDA_CAPABILITY");
}

TEST_F(FakeDriver, AnImageThatIsNoCubinIsRefused) {
  CudaModule module = nullptr;
  std::vector<char> zeros(256);
  EXPECT_EQ(name(cuda().module_load(&module, zeros.data())), "CUDA_ERROR_INVALID_IMAGE");
}

TEST_F(FakeDriver, TheHostCannotTouchDeviceMemory) {
  EXPECT_DEATH({ *reinterpret_cast<volatile char*>(memory_) = 1; }, "");
}

}  // namespace
}  // namespace nabla::device
