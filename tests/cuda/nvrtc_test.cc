// NVRTC: found or E0505; compiled in parallel, reproducibly, through a cache; refused texts and kernels that no GPU
// takes.
#include "codegen/cuda/nvrtc.h"

#include <gtest/gtest.h>
#include <link.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "codegen/cuda/nvrtc_library.h"
#include "codegen/cuda/ptxas_log.h"
#include "tests/cuda/compiling.h"

namespace nabla::codegen {
namespace {

namespace fs = std::filesystem;

std::string scratch(const std::string& name) { return testing::TempDir() + "/" + name; }

std::string scaling(const std::string& name, const std::string& factor = "2") {
  return "extern \"C\" __global__ void __launch_bounds__(128) " + name + "(float* y, const float* x, long n) {\n" +
         "  long i = long(blockIdx.x) * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = " + factor + " * x[i];\n}\n";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A variable for as long as a test needs it.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value.empty() ? unsetenv(name) : setenv(name, value.c_str(), 1);
  }
  ~Variable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(Nvrtc, GivesACubinPerSourceInOrderOrTextForTheBaseline) {
  std::vector<SourceFile> sources;
  for (int i = 0; i < 7; ++i) sources.push_back({fmt::format("k_{}.cu", i), scaling(fmt::format("k{}", i))});
  for (const char* target : {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120"}) {
    Result<CudaBinary> binary = compile_cuda(sources, target_named(target), {3, ""});
    ASSERT_TRUE(binary.ok()) << to_string(binary.errors());
    ASSERT_EQ(binary->objects.size(), sources.size());
    for (int i = 0; i < 7; ++i) {
      ASSERT_EQ(binary->objects[i].kernels.size(), 1u);
      const CudaKernelFacts& k = binary->objects[i].kernels[0];
      EXPECT_EQ(k.name, fmt::format("k{}", i)) << target;
      EXPECT_EQ(k.max_threads, 128);
      EXPECT_EQ(k.parameters, (std::vector<CudaParameter>{{0, 0, 8}, {1, 8, 8}, {2, 16, 8}}));
    }
  }
  std::vector<size_t> done;
  auto note = [&](size_t now, size_t all) {
    done.push_back(now);
    EXPECT_EQ(all, 7u);
  };
  ASSERT_TRUE(compile_cuda(sources, target_named("sm_80"), {3, "", note}).ok());
  EXPECT_EQ(done, (std::vector<size_t>{1, 2, 3, 4, 5, 6, 7}));
  CudaObject ptx = compiled(sources[3].text, "compute_80");
  EXPECT_TRUE(has(ptx.bytes, ".target sm_80"));
  EXPECT_TRUE(has(ptx.bytes, ".visible .entry k3("));
  EXPECT_EQ(ptx.bytes.find('\0'), ptx.bytes.size() - 1);
  EXPECT_TRUE(ptx.kernels.empty());
}

TEST(Nvrtc, TheSameTextGivesTheSameBytes) {
  for (const char* target : {"compute_80", "sm_80", "sm_90a", "sm_100a"}) {
    std::vector<SourceFile> sources{{"a.cu", scaling("k")}, {"b.cu", scaling("l")}, {"c.cu", scaling("k")}};
    ir::Target t = target_named(target);
    CudaBinary one = compile_cuda(sources, t, {1, ""}).value(), three = compile_cuda(sources, t, {3, ""}).value();
    for (size_t i = 0; i < sources.size(); ++i) EXPECT_EQ(one.objects[i].bytes, three.objects[i].bytes) << target;
    EXPECT_EQ(one.objects[0].bytes, one.objects[2].bytes);
    EXPECT_NE(one.objects[0].bytes, one.objects[1].bytes);
    EXPECT_EQ(compiled(sources[0].text, target).bytes, one.objects[0].bytes);  // under another file name
  }
}

TEST(Nvrtc, FindsInTheCacheWhatItHasCompiledAndCompilesDamagedEntriesAgain) {
  std::string cache = scratch("cache");
  ir::Target target = target_named("sm_90a");
  auto compile = [&](const std::string& text) {
    Result<CudaBinary> b = compile_cuda({{"k.cu", text}}, target, {1, cache});
    EXPECT_TRUE(b.ok()) << to_string(b.errors());
    return b->objects.at(0);
  };
  auto entries = [&] {
    std::vector<std::string> out;
    for (const auto& e : fs::directory_iterator(cache)) out.push_back(e.path().filename().string());
    return out;
  };
  CudaObject first = compile(scaling("k"));
  ASSERT_EQ(entries().size(), 1u);
  std::string entry = entries()[0];
  EXPECT_EQ(compile(scaling("k")).bytes, first.bytes);
  EXPECT_EQ(entries().size(), 1u);
  CudaObject other = compile(scaling("k", "3"));
  ASSERT_EQ(entries().size(), 2u);
  EXPECT_NE(other.bytes, first.bytes);
  // What the entry holds is what comes back: this one is another kernel's, undamaged.
  std::string name_of_other = entries()[0] == entry ? entries()[1] : entries()[0];
  std::string own = find_in_cache(cache, entry).value();
  store_in_cache(cache, entry, find_in_cache(cache, name_of_other).value());
  EXPECT_EQ(compile(scaling("k")).bytes, other.bytes);
  for (std::string bad : {std::string("rubbish"), own, std::string()}) {
    std::ofstream(fs::path(cache) / entry) << bad;
    EXPECT_EQ(compile(scaling("k")).bytes, first.bytes);
    EXPECT_TRUE(find_in_cache(cache, entry).has_value());
  }
  store_in_cache(cache, entry, "ffffffff short");
  EXPECT_EQ(compile(scaling("k")).bytes, first.bytes);
  EXPECT_NE(compile_cuda({{"k.cu", scaling("k")}}, target_named("sm_90"), {1, cache})->objects[0].bytes, first.bytes);
  EXPECT_EQ(entries().size(), 3u);
}

TEST(Nvrtc, TheCacheKeepsWarnings) {
  std::string text =
      "extern \"C\" __global__ void __launch_bounds__(1024) k(float* p) {\n  float a[96];\n#pragma unroll\n";
  text += "  for (int i = 0; i < 96; ++i) a[i] = p[i * 1024 + threadIdx.x];\n  __syncthreads();\n#pragma unroll\n";
  text += "  for (int i = 0; i < 96; ++i) p[i * 1024 + threadIdx.x] = a[95 - i] * a[i * 7 % 96];\n}\n";
  for (int round = 0; round < 2; ++round) {
    CudaBinary b = compile_cuda({{"k.cu", text}}, target_named("sm_90a"), {1, scratch("warnings")}).value();
    EXPECT_EQ(b.objects[0].kernels[0].warnings.size(), 1u);
  }
}

// Lines of NVRTC 13.0, of a kernel that changes sums of wgmma before it waits for them, and of CUDA's manuals.
TEST(PtxasLog, LossesBelongToTheirKernels) {
  const std::string registers =
      "(C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the "
      "wgmma pipeline in the function 'slow'";
  const std::string injected =
      "(C7517) warpgroup.wait is injected in around line 93 by compiler to allow use of registers defined by GMMA in function 'slow'";
  const std::string unnamed = "(C7508) Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum register requirements.";
  auto body = [](const std::string& name) {
    return "ptxas info    : Compiling entry function '" + name + "' for 'sm_90a'\nptxas info    : Function properties for " + name +
           "\nptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
           "ptxas info    : Used 58 registers, used 0 barriers\n";
  };
  const std::string head = "ptxas info    : " + injected + "\nptxas info    : " + registers + "\nptxas info    : 0 bytes gmem\n";
  PtxasLog log = read_ptxas_log(head + body("slow") + body("fast"));
  EXPECT_EQ(log.kernels["slow"].advice, (std::vector<std::string>{injected, registers}));
  EXPECT_TRUE(log.kernels["fast"].advice.empty());
  EXPECT_EQ(log.kernels["slow"].registers, 58);
  EXPECT_EQ(log.messages, "");
  log = read_ptxas_log(body("a") + "ptxas info    : " + unnamed + "\n" + body("b"));
  for (const char* name : {"a", "b"}) EXPECT_EQ(log.kernels[name].advice, std::vector<std::string>{unnamed}) << name;
  EXPECT_TRUE(read_ptxas_log(body("a")).kernels["a"].advice.empty());
}

TEST(Nvrtc, ASerializedWgmmaIsAWarning) {
  std::string registers, operands;
  for (int i = 0; i < 32; ++i) {
    registers += (i > 0 ? ", %" : "%") + std::to_string(i);
    operands += (i > 0 ? ", \"+f\"(d[" : "\"+f\"(d[") + std::to_string(i) + "])";
  }
  auto text = [&](const std::string& between) {
    return "__device__ void mma(float (&d)[32], unsigned long long x) {\n  asm volatile(\"{.reg .pred p; setp.ne.b32 p, %33, 0; "
           "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" + registers + "}, %32, %32, p, 1, 1, 0, 0;}\" : " + operands +
           " : \"l\"(x), \"r\"(1));\n}\n"
           "extern \"C\" __global__ void __launch_bounds__(128) k(float* p, unsigned long long x, int n) {\n  float d[32];\n"
           "  for (int i = 0; i < 32; ++i) d[i] = p[i];\n  for (int t = 0; t < n; ++t) {\n"
           "    asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");\n    mma(d, x);\n    " + between +
           "    mma(d, x + 1);\n    asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\");\n"
           "    asm volatile(\"wgmma.wait_group.sync.aligned 0;\" ::: \"memory\");\n  }\n"
           "  for (int i = 0; i < 32; ++i) p[i * 128 + threadIdx.x] = d[i];\n}\n";
  };
  auto kernel = [&](const std::string& between) {
    return compile_cuda({{"k.cu", text(between)}}, target_named("sm_90a"), {1, ""}).value().objects[0].kernels[0];
  };
  EXPECT_TRUE(kernel("").advice.empty());
  const CudaKernelFacts slow = kernel("d[3] = d[3] * 2 + p[n];\n");
  EXPECT_TRUE(std::ranges::any_of(slow.advice, [](const std::string& text) {
    return text.find("wgmma.mma_async instructions are serialized") != std::string::npos;
  }));
  EXPECT_EQ(slow.warnings, slow.advice);
}

TEST(Nvrtc, SaysWhereItLookedForTheLibrary) {
  std::string folder = scratch("no nvrtc"), file = scratch("text.so");
  fs::create_directories(folder);
  std::ofstream(file) << "no library";
  {
    Variable named("NABLA_NVRTC", folder);
    std::string text = refusal({{"k.cu", scaling("k")}}, "sm_90a");
    EXPECT_TRUE(has(text, "error[E0505]: NVRTC, which compiles CUDA kernels, cannot be opened\n")) << text;
    EXPECT_TRUE(has(text, "note: tried " + folder + "/libnvrtc.so.13: cannot open shared object file")) << text;
    EXPECT_TRUE(has(text, "help: run ./quickstart --cuda, or set NABLA_NVRTC")) << text;
    EXPECT_EQ(nvrtc_candidates().size(), 1u);  // nothing else when it is named
  }
  Variable named("NABLA_NVRTC", file);
  EXPECT_EQ(nvrtc_candidates(), std::vector<std::string>{file});
  EXPECT_TRUE(has(refusal({{"k.cu", scaling("k")}}, "sm_90a"), "note: tried " + file + ": file too short"));
  Variable version("NABLA_FAKE_NVRTC_VERSION", "11.8");
  std::string all = to_string(open_nvrtc({folder + "/a.so", "libm.so.6", "tests/cuda/fake_nvrtc.so"}).errors());
  EXPECT_TRUE(has(all, "tried " + folder + "/a.so: cannot open shared object file")) << all;
  EXPECT_TRUE(has(all, "tried libm.so.6: it lacks functions of NVRTC")) << all;
  EXPECT_TRUE(has(all, "tried tests/cuda/fake_nvrtc.so: version 11.8 is older than 12")) << all;
}

// The machine may find no other one, or another one first.
TEST(Nvrtc, OpensItsBuiltinsBesideIt) {
  NvrtcLibrary library = open_nvrtc(nvrtc_candidates()).value();
  std::string name = "libnvrtc-builtins.so." + library.version();
  fs::path beside = fs::path(library.path).parent_path() / name;
  ASSERT_TRUE(fs::exists(beside)) << beside;
  std::vector<std::string> loaded;
  auto note = [](dl_phdr_info* info, size_t, void* out) {
    static_cast<std::vector<std::string>*>(out)->push_back(info->dlpi_name);
    return 0;
  };
  dl_iterate_phdr(note, &loaded);
  std::erase_if(loaded, [&](const std::string& path) { return fs::path(path).filename() != name; });
  EXPECT_EQ(loaded, std::vector<std::string>{beside.string()});
}

TEST(Nvrtc, LooksInTheCacheFolderThenByNameThenInTheToolkitThenInWheels) {
  std::string cache = scratch("own"), python = scratch("env"), none;
  fs::create_directories(cache + "/nvrtc");
  fs::path wheel = fs::path(python) / "lib/python3.11/site-packages/nvidia/cu13/lib";
  fs::create_directories(wheel);
  std::ofstream(wheel / "libnvrtc.so.13") << "";
  Variable unnamed("NABLA_NVRTC", none), own("NABLA_CACHE", cache), environment("VIRTUAL_ENV", python);
  std::vector<std::string> all = nvrtc_candidates();
  ASSERT_GE(all.size(), 5u);
  EXPECT_EQ(all[0], cache + "/nvrtc/libnvrtc.so.13");
  EXPECT_EQ(all[1], "libnvrtc.so.13");
  EXPECT_EQ(all[2], "libnvrtc.so.12");
  EXPECT_TRUE(all[3].starts_with("/usr/local/cuda/lib64/libnvrtc.so.")) << all[3];
  EXPECT_NE(std::find(all.begin(), all.end(), (wheel / "libnvrtc.so.13").string()), all.end());
  std::ofstream(cache + "/nvrtc/libnvrtc.so.12") << "";
  EXPECT_EQ(nvrtc_candidates()[0], cache + "/nvrtc/libnvrtc.so.12");
}

// A failed check throws in processes that outlive it, and most kernels are compiled on other threads than the caller's.
TEST(Nvrtc, WhatIsThrownOnItsThreadsReachesTheCaller) {
  std::vector<SourceFile> sources;
  for (int i = 0; i < 4; ++i) sources.push_back({fmt::format("k{}.cu", i), scaling("k", std::to_string(i + 2))});
  std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> calls = 0;
  ToolchainOptions options{3, ""};
  options.progress = [&](size_t, size_t) {
    ++calls;
    if (std::this_thread::get_id() != caller) throw std::runtime_error("a failed check");
  };
  EXPECT_THROW((void)compile_cuda(sources, target_named("sm_90a"), options), std::runtime_error);
  EXPECT_GE(calls, 1);
}

TEST(Nvrtc, SaysWhichTargetsItKnows) {
  ir::Target future = target_named("sm_90a");
  future.name = "sm_777";
  future.cuda.compute = 777;
  Result<CudaBinary> binary = compile_cuda({{"k.cu", scaling("k")}}, future, {1, ""});
  ASSERT_FALSE(binary.ok());
  EXPECT_EQ(binary.errors()[0].code, Code::kNvrtcMissing);
  EXPECT_TRUE(has(binary.errors()[0].message, "does not compile for sm_777; it knows ")) << binary.errors()[0].message;
  EXPECT_TRUE(has(binary.errors()[0].message, " 90,"));
}

// The folder that a diagnostic names; it is removed after the test.
std::string kept_source(const Diagnostic& d, const std::string& name) {
  const std::string head = "the generated source is kept in ";
  if (d.notes.empty() || !d.notes.back().starts_with(head)) return "";
  fs::path folder = d.notes.back().substr(head.size());
  std::ifstream in(folder / name);
  std::ostringstream text;
  text << in.rdbuf();
  fs::remove_all(folder);
  return text.str();
}

TEST(Nvrtc, KeepsAGeneratedTextThatIsRefused) {
  std::string bad = "extern \"C\" __global__ void k(float* p) {\n  p[0] = missing;\n}\n";
  Result<CudaBinary> binary =
      compile_cuda({{"good.cu", scaling("k")}, {"sm_90a_1.cu", bad}}, target_named("sm_90a"), {2, ""});
  ASSERT_FALSE(binary.ok());
  ASSERT_EQ(binary.errors().size(), 1u);
  const Diagnostic& d = binary.errors()[0];
  EXPECT_EQ(d.code, Code::kNvrtcFailed);
  EXPECT_EQ(d.message,
            fmt::format("NVRTC {} refused sm_90a_1.cu for sm_90a", open_nvrtc(nvrtc_candidates())->version()));
  EXPECT_EQ(d.notes[0], "sm_90a_1.cu(2): error: identifier \"missing\" is undefined");
  EXPECT_EQ(kept_source(d, "sm_90a_1.cu"), bad);
}

/// While it lives, compiling a text raises a signal.
struct FakeNvrtc {
  explicit FakeNvrtc(const char* signal) : raised("NABLA_FAKE_NVRTC_SIGNAL", signal) {}
  Variable library{"NABLA_NVRTC", fs::current_path().string() + "/tests/cuda/fake_nvrtc.so"}, raised;
};

TEST(Nvrtc, ThatBreaksDownTakesNobodyWithIt) {
  FakeNvrtc fake("11");
  Result<CudaBinary> binary =
      compile_cuda({{"a.cu", scaling("a")}, {"b.cu", scaling("b", "3")}}, target_named("sm_90a"), {2, ""});
  ASSERT_FALSE(binary.ok());
  const Diagnostic& d = binary.errors()[0];
  EXPECT_EQ(d.code, Code::kNvrtcFailed);
  EXPECT_EQ(d.message, "NVRTC 13.0 refused a.cu for sm_90a");
  EXPECT_EQ(d.notes[0], "NVRTC broke down (signal 11)");
  EXPECT_EQ(kept_source(d, "a.cu"), scaling("a"));
}

TEST(Nvrtc, ThatIsKilledIsNotBlamedOnTheText) {
  FakeNvrtc fake("9");
  Result<CudaBinary> binary = compile_cuda({{"a.cu", scaling("a")}}, target_named("sm_90a"), {1, ""});
  EXPECT_EQ(to_string(binary.errors()),
            "error[E0506]: NVRTC 13.0 was killed while it compiled a.cu for sm_90a\n"
            "   = help: by somebody, or for want of memory: fewer --jobs need less\n");
}

// Compilers that never end, of a process that is killed: the pipe ends when the last of them has gone.
TEST(Nvrtc, EndsWithTheProcessThatStartedIt) {
  FakeNvrtc fake("19");  // SIGSTOP
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    (void)compile_cuda({{"a.cu", scaling("a")}, {"b.cu", scaling("b")}}, target_named("sm_90a"), {2, ""});
    _exit(0);
  }
  close(ends[1]);
  pollfd end{ends[0], POLLIN, 0};
  EXPECT_EQ(poll(&end, 1, 300), 0);
  kill(child, SIGKILL);
  EXPECT_EQ(poll(&end, 1, 20000), 1);
  close(ends[0]);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST(Nvrtc, InstructionsThatATargetLacksAreRefused) {
  std::string text = "extern \"C\" __global__ void k() { asm volatile(\"wgmma.fence.sync.aligned;\"); }";
  compiled(text, "sm_90a");
  Result<CudaBinary> binary = compile_cuda({{"k.cu", text}}, target_named("sm_80"), {1, ""});
  ASSERT_FALSE(binary.ok());
  EXPECT_TRUE(has(to_string(binary.errors()), "wgmma.fence")) << to_string(binary.errors());
  EXPECT_EQ(kept_source(binary.errors()[0], "k.cu"), text);
}

TEST(Nvrtc, KernelsThatNoGpuTakesAreErrorsWithTheNumbers) {
  std::string shared =
      "extern \"C\" __global__ void big(float* p) {\n  __shared__ float s[13000];\n"
      "  s[threadIdx.x] = p[threadIdx.x];\n  __syncthreads();\n  p[threadIdx.x] = s[99 - threadIdx.x];\n}\n";
  for (const char* target : {"sm_80", "sm_90a", "sm_100a", "sm_120"}) {  // some refuse it without a word, some take it
    Result<CudaBinary> binary = compile_cuda({{"k.cu", shared}}, target_named(target), {1, ""});
    ASSERT_FALSE(binary.ok());
    EXPECT_EQ(binary.errors()[0].code, Code::kNvrtcFailed);
    EXPECT_EQ(binary.errors()[0].message,
              "kernel `big` takes 52000 bytes of static shared memory; a block may have 49152");
    EXPECT_EQ(kept_source(binary.errors()[0], "k.cu"), shared);
    std::string wide = "extern \"C\" __global__ void __launch_bounds__(2048) wide(float* p) { p[threadIdx.x] = 1; }\n";
    binary = compile_cuda({{"k.cu", wide}}, target_named(target), {1, ""});
    ASSERT_FALSE(binary.ok());
    EXPECT_EQ(binary.errors()[0].message,
              fmt::format("kernel `wide` has blocks of 2048 threads; {} allows 1024", target));
    EXPECT_EQ(kept_source(binary.errors()[0], "k.cu"), wide);
  }
}

SourceFile of_user(const std::string& body) {
  kernel_ir::UserText text{"__device__ float gate(float x) { return x; }\n" + body, "model.py", 41};
  UserSource user{"swish", text, "void swish(float* x)"};
  return {"user_0.cu", "static int ours;\n#line 41 \"model.py\"\n" + text.text, user};
}

TEST(Nvrtc, ShowsTheUsersLineOfTheUsersText) {
  std::string text = refusal({of_user("extern \"C\" __global__ void swish(float* x) {\n  x[0] = gate(y);\n}\n"),
                              of_user("extern \"C\" __global__ void swish(float* x) {\n  x[0] = gate(x)\n}\n")},
                             "sm_90a");
  EXPECT_TRUE(has(text,
                  "error[E0504]: kernel `swish` does not compile: identifier \"y\" is undefined\n"
                  "  --> model.py:43"))
      << text;
  EXPECT_TRUE(has(text, "   |   x[0] = gate(y);\n   |               ^\n")) << text;
  EXPECT_TRUE(has(text, "help: the source must define void swish(float* x)")) << text;
  EXPECT_TRUE(has(text, "kernel `swish` does not compile: argument of type \"float *\" is incompatible")) << text;
}

TEST(Nvrtc, UsersKernelsBeyondTheLimitsAreTheirs) {
  std::string text = refusal({of_user("extern \"C\" __device__ void lost(float*);\n"
                                      "extern \"C\" __global__ void swish(float* x) { lost(x); }\n")},
                             "sm_90a");
  EXPECT_TRUE(has(text, "error[E0504]: kernel `swish` does not compile: ptxas fatal")) << text;
  EXPECT_TRUE(has(text, "Unresolved extern function 'lost'")) << text;
  text = refusal({of_user("extern \"C\" __global__ void swish(float* x) {\n  __shared__ float s[13000];\n"
                          "  s[threadIdx.x] = x[0];\n  __syncthreads();\n  x[0] = s[99 - threadIdx.x];\n}\n")},
                 "sm_80");
  EXPECT_TRUE(has(text,
                  "error[E0504]: kernel `swish` takes 52000 bytes of static shared memory; a block may have 49152\n"
                  "  --> model.py:41"))
      << text;
}

}  // namespace
}  // namespace nabla::codegen
