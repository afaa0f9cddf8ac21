// Programs of several ranks on one fake GPU, whose exchanges go through the host, and on GPUs of their own by NCCL: numbers of the
// CPU's program, the same bits over every engine of communication, bytes as the report states them, and a rank that fails ends all.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/driver/compile.h"
#include "runtime/comm/peers.h"
#include "runtime/comm/test_transport.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"
#include "tests/cuda/fake_gpu.h"
#include "tests/cuda/nccl_ranks.h"
#include "tests/nightly.h"
#include "tests/pass_options.h"
#include "tests/strategy/chain.h"

namespace nabla {
namespace {

using Json = nlohmann::json;

std::string fake_driver() {
  return fmt::format("{}/{}/tests/cuda/fake_driver/libfake_cuda.so", std::getenv("TEST_SRCDIR"), std::getenv("TEST_WORKSPACE"));
}
void* driver_library() {
  static void* library = dlopen(fake_driver().c_str(), RTLD_NOW | RTLD_LOCAL);
  return library;
}
/// How often a call of the driver was made.
int calls(const char* name) { return reinterpret_cast<int (*)(const char*)>(dlsym(driver_library(), "nb_fake_cuda_count"))(name); }
/// How many bytes the copies of a call have moved.
int64_t bytes(const char* name) { return reinterpret_cast<int64_t (*)(const char*)>(dlsym(driver_library(), "nb_fake_cuda_bytes"))(name); }
int64_t pinned() { return reinterpret_cast<int64_t (*)()>(dlsym(driver_library(), "nb_fake_cuda_pinned"))(); }
int live() { return reinterpret_cast<int (*)()>(dlsym(driver_library(), "nb_fake_cuda_live"))(); }

struct Strategy {
  const char* name;
  const char* mesh;
  uint32_t ranks;
  std::map<std::string, std::string> options;  ///< of apply-strategy
  int64_t microbatches = 0;
  bool scan = false;
};

ir::Module module_of(const Strategy& s) { return s.scan ? strategy_tests::stacked(s.mesh) : strategy_tests::chain(s.mesh); }

driver::CompiledBundle compiled(const Strategy& s, const std::string& target) {
  driver::CompileOptions options;
  options.target = target, options.library = false, options.microbatches = s.microbatches;
  set_options(options.pass_options, "apply-strategy", s.options);
  auto made = driver::compile(module_of(s), options);
  NABLA_CHECK(made.ok(), "{}", to_string(made.errors()));
  if (target == "cpu") return std::move(*made);
  Status ready = emulator::use_fake_gpu(made->bytes, fake_driver());
  NABLA_CHECK(ready.ok(), "{}", to_string(ready.errors()));
  return std::move(*made);
}

Result<std::unique_ptr<exec::Session>> open(const std::string& bytes, exec::SessionOptions options = {}) {
  options.threads = 1;
  auto bundle = format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(bytes)), "test");
  return exec::Session::create(std::move(*bundle), options);
}

void fill_state(exec::Session& session) {
  for (size_t i = 0; i < session.state_leaves().size(); ++i) {
    const exec::TensorInfo& info = session.state_leaves()[i];
    Literal value(info.dtype, info.shape);
    for (int64_t k = 0; k < value.size(); ++k) value.set(k, std::sin(static_cast<double>(k * 7 + static_cast<int64_t>(i))) / 8);
    NABLA_CHECK(session.set_state(static_cast<int>(i), value.data()).ok(), "leaf {}", i);
  }
}

Literal batch(const exec::Session& session, int run) {
  Literal x(DType::kF32, session.entries()[0].inputs[0].shape);
  for (int64_t k = 0; k < x.size(); ++k) x.set(k, std::cos(static_cast<double>(k + run)));
  return x;
}

constexpr int kRuns = 3;

/// Losses of some steps, then the state.
std::vector<Literal> trained(exec::Session& session) {
  std::vector<Literal> out;
  fill_state(session);
  for (int run = 0; run < kRuns; ++run) {
    auto loss = session.call(0, {batch(session, run)});
    EXPECT_TRUE(loss.ok()) << to_string(loss.errors());
    if (!loss.ok()) return {};
    out.push_back((*loss)[0]);
  }
  for (size_t i = 0; i < session.state_leaves().size(); ++i) {
    const exec::TensorInfo& info = session.state_leaves()[i];
    out.emplace_back(info.dtype, info.shape);
    Status got = session.get_state(static_cast<int>(i), out.back().mutable_data());
    EXPECT_TRUE(got.ok()) << to_string(got.errors());
  }
  return out;
}

void expect_near(const std::vector<Literal>& got, const std::vector<Literal>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t v = 0; v < want.size(); ++v) {
    double largest = 1;  // steps are sums of gradients of this size
    for (int64_t i = 0; i < want[v].size(); ++i) largest = std::max(largest, std::fabs(want[v].get(i)));
    for (int64_t i = 0; i < want[v].size(); ++i)
      ASSERT_NEAR(got[v].get(i), want[v].get(i), 1e-4 * largest) << "value " << v << " at " << i;
  }
}

/// By op and size of the group: calls and bytes.
using Counts = std::map<std::pair<std::string, int64_t>, std::pair<uint64_t, uint64_t>>;

Counts stated(const std::string& report, uint64_t runs) {
  Counts out;
  Json all = Json::parse(report);
  for (const auto& entry : all["entries"])
    for (const auto& row : entry["collectives"]) {
      auto& [calls, bytes] = out[{row["op"], row["ranks"]}];
      calls += runs * row["times"].get<uint64_t>();
      bytes += runs * row["times"].get<uint64_t>() * row["payload_bytes"].get<uint64_t>();
    }
  return out;
}
Counts counted(const exec::Session& session) {
  Counts out;
  for (const exec::ExchangeCount& e : session.exchanges()) {
    auto& [calls, bytes] = out[{e.op, e.ranks}];
    calls += e.calls, bytes += e.payload_bytes;
  }
  return out;
}

class GpuRanks : public testing::TestWithParam<Strategy> {};

TEST_P(GpuRanks, TrainAsOnTheCpuAndExchangeWhatTheReportStates) {
  driver::CompiledBundle made = compiled(GetParam(), "sm_90a");
  std::vector<Literal> cpu = trained(*open(compiled(GetParam(), "cpu").bytes).value());
  auto session = open(made.bytes).value();
  EXPECT_EQ(session->target(), "sm_90a");
  EXPECT_TRUE(session->team().ends_with("on this machine, on Fake GPU")) << session->team();
  std::vector<Literal> gpu = trained(*session);
  expect_near(gpu, cpu);
  EXPECT_EQ(counted(*session), stated(made.report, kRuns));
  EXPECT_FALSE(counted(*session).empty());
  // What one step has allocated serves the next one.
  int64_t memory = pinned();
  int allocations = calls("cuMemHostAlloc"), graphs = calls("cuGraphLaunch");
  EXPECT_EQ(trained(*session), gpu);
  EXPECT_EQ(pinned(), memory);
  EXPECT_EQ(calls("cuMemHostAlloc"), allocations);
  EXPECT_EQ(graphs, 0);
  session.reset();
  EXPECT_EQ(pinned(), 0);
  EXPECT_EQ(live(), 0);
}

// Ranks of a process each, as far as messages go: every rank has a session of its own.
TEST_P(GpuRanks, HaveTheSameBitsOverMessages) {
  driver::CompiledBundle made = compiled(GetParam(), "sm_90a");
  std::vector<Literal> want = trained(*open(made.bytes).value());
  auto ends = comm::test_transports(GetParam().ranks);
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < GetParam().ranks; ++r)
    threads.emplace_back([&, r, end = std::shared_ptr<comm::Transport>(std::move(ends[r]))] {
      auto session = open(made.bytes, {.world = comm::peers_over(end, {.deadline_s = 60})});
      ASSERT_TRUE(session.ok()) << to_string(session.errors());
      EXPECT_TRUE((*session)->team().ends_with("in several processes, on Fake GPU")) << (*session)->team();
      std::vector<Literal> got = trained(**session);
      if (r == 0) {
        EXPECT_EQ(got, want);
      }
    });
  for (std::thread& t : threads) t.join();
}

// Values go from GPU to GPU, of which every rank has its own: nothing but inputs and outputs comes through the host.
TEST_P(GpuRanks, TrainOverNccl) {
  driver::CompiledBundle made = compiled(GetParam(), "sm_90a");
  std::vector<Literal> cpu = trained(*open(compiled(GetParam(), "cpu").bytes).value());
  uint32_t count = GetParam().ranks;
  setenv("NABLA_FAKE_CUDA_DEVICES", std::to_string(count).c_str(), 1);
  tests::Store store;
  int64_t copied = bytes("cuMemcpyDtoHAsync");
  int launched = calls("cuGraphLaunch");
  tests::in_threads(count, [&](uint32_t r) {
    nccl::RankOptions ranks{.rank = r, .ranks = count, .local_ranks = count, .deadline_s = 60};
    ranks.meet = store.meeting(ranks.deadline_s);
    auto session = open(made.bytes, {.world = nccl::over_nccl(ranks), .gpu = r});
    ASSERT_TRUE(session.ok()) << to_string(session.errors());
    std::string where = r == 0 ? "in several processes, on Fake GPU" : fmt::format("in several processes, on Fake GPU {}", r);
    EXPECT_TRUE((*session)->team().ends_with(where)) << (*session)->team();
    std::vector<Literal> got = trained(**session);
    if (r > 0) return;
    expect_near(got, cpu);
    EXPECT_EQ(counted(**session), stated(made.report, kRuns));
  });
  unsetenv("NABLA_FAKE_CUDA_DEVICES");
  // All steps but the first one, with what they exchange.
  EXPECT_EQ(calls("cuGraphLaunch") - launched, static_cast<int>(count) * (kRuns - 1));
  // Every rank's losses, and its parts of the state once more on their way to rank 0.
  int64_t results = 0;
  for (const Literal& value : cpu) results += value.size_bytes();
  EXPECT_LE(bytes("cuMemcpyDtoHAsync") - copied, 3 * count * results);
  EXPECT_EQ(live(), 0);
  EXPECT_EQ(pinned(), 0);
}

const Strategy kDp{"Dp", "dp=2", 2, {{"data-axes", "dp"}}};
const Strategy kZero{"Zero3", "dp=2", 2, {{"data-axes", "dp"}, {"zero", "3"}}};

INSTANTIATE_TEST_SUITE_P(
    Strategies, GpuRanks,
    testing::ValuesIn(some_of<Strategy>({Strategy{"Zero3Scan", "dp=2", 2, {{"data-axes", "dp"}, {"zero", "3"}}, 0, true},
                                         Strategy{"Zero2Micro", "dp=2", 2, {{"data-axes", "dp"}, {"zero", "2"}}, 4},
                                         Strategy{"DpTp", "dp=2, tp=2", 4, {{"data-axes", "dp"}, {"layouts", "w[02]=,tp;w[13]=tp,"}}},
                                         kDp, kZero, Strategy{"Tp", "tp=2", 2, {{"layouts", "w[02]=,tp;w[13]=tp,"}}},
                                         Strategy{"Dp4", "dp=4", 4, {{"data-axes", "dp"}, {"zero", "3"}}}},
                                        3)),
    [](const auto& info) { return std::string(info.param.name); });

// One rank's launch fails; the other one, which waits for it, hears why. The ranks can run again.
TEST(GpuRanksFail, ARankThatFailsStopsTheOthersWithItsError) {
  driver::CompiledBundle made = compiled(kZero, "sm_90a");
  auto session = open(made.bytes).value();
  std::vector<Literal> fine = trained(*session);
  int launches = calls("cuLaunchKernel");
  for (int later : {1, 7, 20}) {
    setenv("NABLA_FAKE_CUDA_FAIL", fmt::format("cuLaunchKernel:{}", calls("cuLaunchKernel") + later).c_str(), 1);
    auto begin = std::chrono::steady_clock::now();
    auto failed = session->call(0, {batch(*session, 0)});
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    unsetenv("NABLA_FAKE_CUDA_FAIL");
    ASSERT_FALSE(failed.ok()) << later;
    const Diagnostic& d = failed.errors()[0];
    EXPECT_EQ(d.code, Code::kGpuFailed);
    EXPECT_TRUE(d.message.starts_with("entry `step` on Fake GPU: instruction ")) << d.message;
    EXPECT_TRUE(d.message.ends_with(": launching: CUDA_ERROR_INVALID_VALUE (1), invalid argument")) << d.message;
    ASSERT_EQ(d.notes.size(), 1u);
    EXPECT_TRUE(d.notes[0] == "on rank 0" || d.notes[0] == "on rank 1") << d.notes[0];
    EXPECT_LT(seconds.count(), 10);
  }
  EXPECT_GT(calls("cuLaunchKernel"), launches);
  EXPECT_EQ(trained(*session), fine);
}

TEST(GpuRanksFail, WithoutPinnedMemoryAnExchangeIsE0804) {
  driver::CompiledBundle made = compiled(kDp, "sm_90a");
  auto session = open(made.bytes).value();
  fill_state(*session);
  setenv("NABLA_FAKE_CUDA_FAIL", fmt::format("cuMemHostAlloc:{}", calls("cuMemHostAlloc") + 1).c_str(), 1);
  auto failed = session->call(0, {batch(*session, 0)});
  unsetenv("NABLA_FAKE_CUDA_FAIL");
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.errors()[0].code, Code::kOutOfMemory);
  EXPECT_NE(failed.errors()[0].message.find("an exchange with other ranks needs "), std::string::npos) << failed.errors()[0].message;
  EXPECT_NE(failed.errors()[0].message.find(" bytes of pinned memory of the host"), std::string::npos);
}

// Each rank takes its turn among several GPUs, and its process may say which.
TEST(GpuRanksPlaces, TakeTheirTurnsAmongTheGpus) {
  setenv("NABLA_FAKE_CUDA_DEVICES", "2", 1);
  driver::CompiledBundle made = compiled(kDp, "sm_90a");
  auto session = open(made.bytes).value();
  EXPECT_TRUE(session->team().ends_with("on this machine, on Fake GPU, Fake GPU 1")) << session->team();
  std::vector<Literal> two = trained(*session);
  unsetenv("NABLA_FAKE_CUDA_DEVICES");
  EXPECT_EQ(trained(*open(made.bytes).value()), two);
}

// A trace of steps that are never graphs says so, and shows what a rank waits for.
TEST(GpuRanksTrace, SaysThatExchangesGoThroughTheHost) {
  driver::CompiledBundle made = compiled(kDp, "sm_90a");
  std::string path = testing::TempDir() + "/gpu_ranks.json";
  auto session = open(made.bytes, {.trace = path}).value();
  trained(*session);
  ASSERT_TRUE(session->finish().ok());
  std::ifstream file(path);
  Json trace = Json::parse(file);
  int exchanges = 0;
  for (const auto& e : trace["traceEvents"]) exchanges += e["ph"] == "X" && e["cat"] == "comm";
  EXPECT_GT(exchanges, 0);
  std::string notes = trace["otherData"]["notes"].dump();
  const char* note = "entry `step`: ranks exchange values through the host, so that it never runs as a graph";
  EXPECT_NE(notes.find(note), std::string::npos) << notes;
}

}  // namespace
}  // namespace nabla
