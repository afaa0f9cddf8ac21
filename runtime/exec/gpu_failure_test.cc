// What can go wrong on the way to a GPU and on it, by the fake driver's failures; and which program of a bundle runs.
#include <gtest/gtest.h>

#include "runtime/device/cuda_driver.h"
#include "runtime/exec/test_bundle.h"
#include "runtime/exec/test_gpu.h"

namespace nabla::exec {
namespace {

using format::ProgramT;

const Literal kSeed = Literal::scalar_int(DType::kU32, 5);
const Literal kX(DType::kF32, {2, 4});

std::string text(const auto& result) {
  return result.ok() ? "ok" : fmt::format("{} {}", code_name(result.errors()[0].code), result.errors()[0].message);
}

/// What opening the toy bundle for a GPU says in this environment.
Diagnostic refusal(const char* variable, const char* value, const ProgramChange& change = nullptr) {
  FakeGpu gpu(variable, value);
  auto session = open_gpu(change);
  NABLA_CHECK(!session.ok(), "it opened");
  EXPECT_EQ(gpu.live(), 0);
  return session.errors()[0];
}

std::string said(const Diagnostic& d) { return fmt::format("{} {}", code_name(d.code), d.message); }

TEST(GpuFailure, AMachineWithoutADriverOrAGpuIsE0605) {
  Diagnostic d = refusal("NABLA_CUDA_DRIVER", "/not/there/libcuda.so.1");
  EXPECT_EQ(said(d),
            "E0605 toy.nbundle was compiled for sm_90a: NVIDIA's driver is not there: /not/there/libcuda.so.1: cannot "
            "open shared object file: No such file or directory");
  EXPECT_NE(d.str().find("--target sm_90a,cpu"), std::string::npos) << d.str();
  EXPECT_EQ(said(refusal("NABLA_FAKE_CUDA_DEVICES", "0")),
            "E0605 toy.nbundle was compiled for sm_90a: NVIDIA's driver gives no GPU: CUDA_ERROR_NO_DEVICE (100), no "
            "CUDA-capable device is detected");
  EXPECT_EQ(refusal("NABLA_FAKE_CUDA_VERSION", "11080").help,
            "install a driver for CUDA 12.0 (525 or later); or compile it for a CPU too: --target sm_90a,cpu");
  Diagnostic newer = refusal("NABLA_FAKE_CUDA_VERSION", "11080", [](ProgramT& p) { p.cuda = 13020; });
  EXPECT_TRUE(newer.message.ends_with(") is for CUDA 11.8; at least 13.0 is needed")) << newer.message;
  EXPECT_EQ(newer.help, "install a driver for CUDA 13.0 (580 or later), or a driver for CUDA 12.0 (525 or later) and compile with "
                        "NABLA_NVRTC=libnvrtc.so.12; or compile it for a CPU too: --target sm_90a,cpu");
  std::string old = said(refusal("NABLA_FAKE_CUDA_VERSION", "11080"));
  EXPECT_TRUE(old.starts_with("E0605 toy.nbundle was compiled for sm_90a: NVIDIA's driver (")) << old;
  EXPECT_TRUE(old.ends_with(") is for CUDA 11.8; at least 12.0 is needed")) << old;
}

TEST(GpuFailure, AnotherGpuIsE0606WithItsNameAndTheTargetThatFits) {
  Diagnostic d = refusal("NABLA_FAKE_CUDA_CAPABILITY", "8.6");
  EXPECT_EQ(said(d), "E0606 toy.nbundle has code for sm_90a; this GPU is Fake GPU of compute capability 8.6");
  EXPECT_EQ(d.help, "compile it with --target sm_86; compute_80 runs on all later GPUs");
  EXPECT_EQ(refusal("NABLA_FAKE_CUDA_CAPABILITY", "7.5").help, "no target fits this GPU: capability 8.0 is the least");
}

// Machine code runs by any driver of its major version; PTX is compiled by one that is as new alone.
TEST(GpuFailure, ADriverOfAnOlderCudaIsE0606WithBothVersions) {
  Diagnostic d = refusal("NABLA_FAKE_CUDA_VERSION", "12080", [](ProgramT& p) { p.cuda = 13000; });
  EXPECT_EQ(said(d),
            "E0606 toy.nbundle was compiled for sm_90a by CUDA 13.0; the driver of Fake GPU knows CUDA up to 12.8");
  EXPECT_EQ(d.help,
            "install a driver for CUDA 13.0 (580 or later), or compile with another NVRTC, an older one: NABLA_NVRTC=libnvrtc.so.12");
  Diagnostic ptx = refusal("NABLA_FAKE_CUDA_VERSION", "13000", [](ProgramT& p) { p.cuda = 13020, p.ptx = true, p.specific = false; });
  EXPECT_EQ(said(ptx), "E0606 toy.nbundle was compiled for sm_90a by CUDA 13.2; the driver of Fake GPU knows CUDA up to 13.0");
  EXPECT_EQ(ptx.help, "install a driver for CUDA 13.2, or compile with another NVRTC, one of CUDA 13.0 or before");
  auto opens = [](const char* driver, uint32_t cuda, bool ptx) {
    FakeGpu gpu("NABLA_FAKE_CUDA_VERSION", driver);
    auto session = open_gpu([&](ProgramT& p) { p.cuda = cuda, p.ptx = ptx, p.specific = false; });
    return session.ok() || session.errors()[0].code == Code::kKernelLoad;
  };
  EXPECT_TRUE(opens("13000", 13020, false));
  EXPECT_FALSE(opens("13000", 13020, true));
  EXPECT_TRUE(opens("13020", 13020, true));
  EXPECT_TRUE(opens("13020", 12080, true));
  EXPECT_TRUE(opens("12040", 0, true));
}

TEST(GpuFailure, CapabilitiesFitByMajorNumberExactlyOrAsPtx) {
  auto opens = [](const char* capability, int compute, bool specific, bool ptx) {
    FakeGpu gpu("NABLA_FAKE_CUDA_CAPABILITY", capability);
    auto session = open_gpu([&](ProgramT& p) { p.compute = compute, p.specific = specific, p.ptx = ptx; });
    // The toy's object is no PTX, so that a program of PTX gets as far as loading it.
    return session.ok() || session.errors()[0].code == Code::kKernelLoad;
  };
  EXPECT_TRUE(opens("8.9", 80, false, false));
  EXPECT_FALSE(opens("8.0", 89, false, false));
  EXPECT_FALSE(opens("9.0", 80, false, false));
  EXPECT_TRUE(opens("10.0", 100, true, false));
  EXPECT_FALSE(opens("10.3", 100, true, false));
  EXPECT_TRUE(opens("12.0", 80, false, true));
  EXPECT_FALSE(opens("8.6", 90, false, true));
}

// Code for sm_80 runs on 8.6 as well, where a block has 99 KB of shared memory instead of 163 KB.
TEST(GpuFailure, AProgramThatNeedsMoreSharedMemoryThanTheChipHasIsNotChosen) {
  auto program = toy_gpu_program([](ProgramT& p) {
    p.target = "sm_80", p.compute = 80, p.specific = false;
    p.kernels[1]->grids[0]->shared_bytes = (99 << 10) + 1;
  });
  std::string bundle = toy_gpu_bundle(*program, true);
  {
    FakeGpu gpu("NABLA_FAKE_CUDA_CAPABILITY", "8.0");
    EXPECT_EQ(open_bytes(bundle, {}).value()->target(), "sm_80");
  }
  for (const char* capability : {"8.6", "8.9"}) {
    FakeGpu gpu("NABLA_FAKE_CUDA_CAPABILITY", capability);
    const std::string why =
        "toy.nbundle: kernel `toy_step` for sm_80 needs 101377 bytes of shared memory per block; Fake GPU has 101376";
    testing::internal::CaptureStderr();
    EXPECT_EQ(open_bytes(bundle, {}).value()->target(), "cpu:x86-64");
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "note: running the program for cpu:x86-64: " + why + "\n");
    auto named = open_bytes(bundle, {.target = "sm_80"});
    EXPECT_EQ(text(named), "E0606 " + why);
    EXPECT_EQ(named.errors()[0].help, "--target cpu:x86-64 would run here");
    EXPECT_EQ(open_bytes(toy_gpu_bundle(*program), {}).errors()[0].help, "compile for this GPU; a kernel of your own must need less");
  }
}

TEST(GpuFailure, TheFirstProgramThatCanRunIsTakenAndSkippingIsSaid) {
  std::string bundle = toy_gpu_bundle(*toy_gpu_program(), true);
  {
    FakeGpu gpu;
    testing::internal::CaptureStderr();
    EXPECT_EQ(open_bytes(bundle, {}).value()->target(), "sm_90a");
    EXPECT_EQ(open_bytes(bundle, {.target = "cpu:x86-64"}).value()->target(), "cpu:x86-64");
    EXPECT_EQ(open_bytes(bundle, {.target = "cpu"}).value()->target(), "cpu:x86-64");
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(text(open_bytes(bundle, {.target = "sm_90"})),
              "E0404 toy.nbundle has no program for `sm_90`; it has sm_90a, cpu:x86-64; code for `sm_90a` runs there");
    for (const char* target : {"sm_89", "sm_", "compute_x", "sm_4294967386"})
      EXPECT_EQ(text(open_bytes(bundle, {.target = target})),
                fmt::format("E0404 toy.nbundle has no program for `{}`; it has sm_90a, cpu:x86-64", target));
    auto ptx = toy_gpu_program([](ProgramT& p) { p.target = "compute_80", p.compute = 80, p.ptx = true, p.specific = false; });
    EXPECT_EQ(text(open_bytes(toy_gpu_bundle(*ptx), {.target = "sm_80"})),
              "E0404 toy.nbundle has no program for `sm_80`; it has compute_80; code for `compute_80` runs there");
  }
  FakeGpu none("NABLA_FAKE_CUDA_DEVICES", "0");
  testing::internal::CaptureStderr();
  EXPECT_EQ(open_bytes(bundle, {}).value()->target(), "cpu:x86-64");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "note: running the program for cpu:x86-64: toy.nbundle was compiled for sm_90a: NVIDIA's driver gives no "
            "GPU: CUDA_ERROR_NO_DEVICE (100), no CUDA-capable device is detected\n");
  auto named = open_bytes(bundle, {.target = "sm_90a"});
  ASSERT_FALSE(named.ok());
  EXPECT_EQ(named.errors()[0].code, Code::kNoGpu);
  EXPECT_EQ(named.errors()[0].help, "--target cpu:x86-64 would run here");
}

TEST(GpuFailure, WhatLoadingNeedsAndDoesNotGet) {
  EXPECT_EQ(said(refusal("NABLA_FAKE_CUDA_FAIL", "cuModuleLoadData:1")),
            "E0604 cannot load `kernels/sm_90a_0.cubin` on Fake GPU: CUDA_ERROR_INVALID_IMAGE (200), device kernel "
            "image is invalid");
  EXPECT_EQ(said(refusal("NABLA_FAKE_CUDA_FAIL", "cuModuleLoadData:1:2")),
            "E0804 loading `kernels/sm_90a_0.cubin`: CUDA_ERROR_OUT_OF_MEMORY (2), out of memory");
  EXPECT_EQ(refusal("NABLA_FAKE_CUDA_FAIL", "cuStreamCreate:1:999").help,
            "no instruction ran; nvidia-smi shows the state of the GPU");
  EXPECT_EQ(said(refusal("", "", [](ProgramT& p) { p.kernels[1]->grids[0]->symbol = "toy_stop"; })),
            "E0604 `kernels/sm_90a_0.cubin` has no kernel `toy_stop`: CUDA_ERROR_NOT_FOUND (500), named symbol not "
            "found");
  EXPECT_EQ(said(refusal("", "", [](ProgramT& p) { p.kernels[1]->grids[0]->symbol = "toy_init"; })),
            "E0604 toy.nbundle: instruction `toy_step` gives kernel `toy_init` 3 arguments; it takes 2");
  EXPECT_EQ(
      said(refusal("NABLA_FAKE_CUDA_FAIL", "cuMemAlloc:1")),
      "E0804 the program needs an arena of 256 bytes on Fake GPU, where 68719476736 of 68719476736 bytes are free");
  EXPECT_EQ(said(refusal("", "", [](ProgramT& p) { p.arena_bytes = uint64_t{1} << 40; })),
            "E0804 the program needs an arena of 1099511627776 bytes on Fake GPU, where 68719476736 of 68719476736 "
            "bytes are free");
  EXPECT_EQ(said(refusal("", "", [](ProgramT& p) { with_dense(p); })),
            "E0602 toy.nbundle needs the library `onednn`, which this runtime does not use on GPUs");
  EXPECT_EQ(said(refusal("NABLA_FAKE_CUDA_FAIL", "cuStreamCreate:1:999")),
            "E0607 making a stream: unknown status (999), no text");
}

TEST(GpuFailure, TensorMapsThatAKernelOrTheDriverDoesNotTake) {
  auto mapped = [](uint32_t arg, uint64_t stride) {
    return [=](ProgramT& p) {
      p.kernels[1]->grids[0]->maps.push_back(std::make_unique<format::TensorMapT>());
      format::TensorMapT& map = *p.kernels[1]->grids[0]->maps[0];
      map.arg = arg, map.element_bytes = 2, map.sizes = {64, 8}, map.strides = {stride}, map.box = {64, 8};
    };
  };
  EXPECT_EQ(said(refusal("", "", mapped(0, 128))),
            "E0604 `kernels/sm_90a_0.cubin`: parameter 2 of kernel `toy_step` is 8 bytes at 16, no tensor map");
  EXPECT_EQ(said(refusal("NABLA_FAKE_CUDA_VERSION", "12020", mapped(7, 128))),
            "E0604 toy.nbundle: kernel `toy_step` maps argument 7 of 3");
  FakeGpu gpu("NABLA_FAKE_CUDA_VERSION", "12020");
  auto session = open_gpu(mapped(0, 24)).value();
  ASSERT_TRUE(session->call(0, {kSeed}).ok());
  EXPECT_EQ(text(session->call(1, {kX})),
            "E0607 entry `step` on Fake GPU: instruction 1 `toy_step`: describing an array to the copy engine: "
            "CUDA_ERROR_INVALID_VALUE (1), invalid argument");
}

TEST(GpuFailure, AnOldDriverThatTellsNoParametersIsNotAsked) {
  FakeGpu gpu("NABLA_FAKE_CUDA_VERSION", "12020");
  EXPECT_EQ(text(open_gpu()), "ok");
}

TEST(GpuFailure, MuchSharedMemoryIsAskedForAndARefusalSaid) {
  ProgramChange large = [](ProgramT& p) { p.kernels[1]->grids[0]->shared_bytes = 100 << 10; };
  {
    FakeGpu gpu;
    auto session = open_gpu(large).value();
    ASSERT_TRUE(session->call(0, {kSeed}).ok());
    EXPECT_EQ(text(session->call(1, {kX})), "ok");
    EXPECT_EQ(gpu.count("cuFuncSetAttribute"), 1);
  }
  // `toy_step` declares 4 KB itself: together more than a driver gives unasked.
  for (uint32_t bytes : {1 << 10, 46 << 10, 223 << 10}) {
    FakeGpu gpu;
    auto session = open_gpu([=](ProgramT& p) { p.kernels[1]->grids[0]->shared_bytes = bytes; }).value();
    ASSERT_TRUE(session->call(0, {kSeed}).ok());
    EXPECT_EQ(text(session->call(1, {kX})), "ok") << bytes;
  }
  EXPECT_EQ(
      said(refusal("NABLA_FAKE_CUDA_VERSION", "12080",
                   [](ProgramT& p) { p.kernels[1]->grids[0]->shared_bytes = (223 << 10) + 1; })),
      "E0604 kernel `toy_step` needs 232449 bytes of shared memory per block, 4096 of its own and 228353 dynamic; "
      "Fake GPU has 232448");
  EXPECT_EQ(said(refusal("NABLA_FAKE_CUDA_FAIL", "cuFuncSetAttribute:1", large)),
            "E0604 kernel `toy_step` needs 102400 bytes of shared memory per block, which Fake GPU refuses: "
            "CUDA_ERROR_INVALID_VALUE (1), invalid argument");
}

/// What the second run of `step` says when this fails.
std::string second_run(const char* failure, const SessionOptions& options = {}) {
  FakeGpu gpu("NABLA_FAKE_CUDA_FAIL", failure);
  auto session = open_gpu(nullptr, options).value();
  EXPECT_EQ(text(session->call(0, {kSeed})), "ok");
  EXPECT_EQ(text(session->call(1, {kX})), "ok");
  auto second = session->call(1, {kX});
  if (second.ok()) return "ok";
  // What a kernel breaks stays broken; after any other failure the next run works.
  bool stays = second.errors()[0].message.find("700") != std::string::npos;
  EXPECT_EQ(text(session->call(1, {kX})) == "ok", !stays);
  return second.errors()[0].str();
}

TEST(GpuFailure, AFailureOfTheDriverNamesTheCallAndTheEntry) {
  auto begins = [](const std::string& text, const std::string& start) { EXPECT_TRUE(text.starts_with(start)) << text; };
  begins(second_run("cuLaunchKernel:3"),
         "error[E0607]: entry `step` on Fake GPU: instruction 1 `toy_step`: launching: CUDA_ERROR_INVALID_VALUE (1), "
         "invalid argument\n");
  begins(second_run("cuStreamEndCapture:1:900"),
         "error[E0607]: entry `step` on Fake GPU: recording a graph: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900), "
         "operation not permitted when stream is capturing\n");
  begins(second_run("cuGraphInstantiate:1"), "error[E0804]: entry `step` on Fake GPU: recording a graph: CUDA_ERROR_OUT_OF_MEMORY (2)");
  begins(second_run("cuGraphLaunch:1"), "error[E0607]: entry `step` on Fake GPU: replaying the graph: ");
}

TEST(GpuFailure, AKernelThatBreaksIsNamedOnlyWithSyncDebug) {
  std::string plain = second_run("kernel toy_step:2");
  EXPECT_TRUE(
      plain.starts_with("error[E0607]: entry `step` on Fake GPU: waiting for the GPU: "
                        "CUDA_ERROR_ILLEGAL_ADDRESS (700), an illegal memory access was encountered\n"))
      << plain;
  EXPECT_NE(plain.find("--sync-debug"), std::string::npos) << plain;
  std::string debug = second_run("kernel toy_step:2", {.sync_debug = true});
  EXPECT_TRUE(
      debug.starts_with("error[E0607]: entry `step` on Fake GPU: instruction 1 `toy_step`: running: "
                        "CUDA_ERROR_ILLEGAL_ADDRESS (700), an illegal memory access was encountered\n"))
      << debug;
  EXPECT_NE(debug.find("toy.cc:12"), std::string::npos) << debug;
}

// A fault that is noticed by the next call, whatever that is, instead of by the wait.
TEST(GpuFailure, AFaultThatALaterCallSaysIsTheEntrysToo) {
  setenv("NABLA_FAKE_CUDA_AT_ONCE", "1", 1);
  std::string later = second_run("kernel toy_step:2");
  unsetenv("NABLA_FAKE_CUDA_AT_ONCE");
  EXPECT_TRUE(later.starts_with("error[E0607]: entry `step` on Fake GPU: ")) << later;
  EXPECT_NE(later.find("CUDA_ERROR_ILLEGAL_ADDRESS (700)"), std::string::npos) << later;
  EXPECT_NE(later.find("--sync-debug"), std::string::npos) << later;
}

TEST(GpuFailure, TheFakeGpuRefusesLaunchesOverMemoryThatItDoesNotHave) {
  auto launch = [&](bool freed, bool host, unsigned threads) {
    FakeGpu gpu;  // as a new process has it
    device::CudaDevice device = device::CudaDevice::open().value();
    const device::CudaDriver& cuda = *device.driver;
    device::CudaContext context = nullptr;
    device::CudaStream stream = nullptr;
    device::CudaModule module = nullptr;
    device::CudaFunction function = nullptr;
    device::CudaAddress seed = 0, w = 0;
    float local[4];
    std::string image = toy_cubin();
    EXPECT_EQ(cuda.context_retain(&context, 0) + cuda.context_set(context) + cuda.stream_create(&stream, 0), 0);
    EXPECT_EQ(cuda.module_load(&module, image.data()) + cuda.module_function(&function, module, "toy_init"), 0);
    EXPECT_EQ(cuda.memory_alloc(&seed, 4) + cuda.memory_alloc(&w, 16), 0);
    if (host) w = reinterpret_cast<device::CudaAddress>(local);
    if (freed) {
      EXPECT_EQ(cuda.memory_free(w), 0);
    }
    void* args[] = {&seed, &w};
    int status = cuda.launch(function, 1, 1, 1, threads, 1, 1, 0, stream, args, nullptr);
    if (status == 0) status = cuda.stream_synchronize(stream);
    EXPECT_EQ(cuda.context_release(0), 0);
    return cuda.text(status).substr(0, cuda.text(status).find(" ("));
  };
  EXPECT_EQ(launch(false, false, 4), "CUDA_SUCCESS");
  EXPECT_EQ(launch(false, false, 1025), "CUDA_ERROR_INVALID_VALUE");
  EXPECT_EQ(launch(true, false, 4), "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_EQ(launch(false, true, 4), "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST(GpuFailure, SyncDebugIsNotForCpus) {
  EXPECT_EQ(text(open_bytes(toy_bundle(), {.sync_debug = true})),
            "E0901 sync-debug is for GPUs; the program for cpu:x86-64 runs every instruction to its end");
}

}  // namespace
}  // namespace nabla::exec
