// The engine `nccl` on ranks that are threads, over fakes of the driver and of NCCL: the suite of engines, and what goes wrong.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>

#include "runtime/comm/conformance.h"
#include "runtime/comm/plain_table.h"
#include "runtime/nccl/library.h"
#include "tests/cuda/nccl_ranks.h"
#include "tests/nightly.h"
#include "tests/ranks/expect.h"

namespace nabla::tests {
namespace {

using comm::CollectiveCall;

struct Variable {
  Variable(const char* n, const std::string& value) : name(n) { ::setenv(n, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name); }
  const char* name;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class Grids : public testing::TestWithParam<std::vector<uint32_t>> {};

TEST_P(Grids, DoWhatCollectivesMean) {
  const std::vector<uint32_t>& axes = GetParam();
  std::vector<uint8_t> bytes = comm::plain_table(axes);
  const format::Ranks& table = *flatbuffers::GetRoot<format::Ranks>(bytes.data());
  uint32_t count = table.count();
  use_fakes(static_cast<int>(count));
  Store store;
  std::vector<std::string> wrong(count);
  in_threads(count, [&](uint32_t r) {
    GpuRank rank(table, {.rank = r, .local_ranks = count, .in_flight = 4, .deadline_s = 60}, store);
    ASSERT_TRUE(rank.attached().ok()) << to_string(rank.attached().errors());
    HostValues end(rank);
    wrong[r] = comm::check_engine(r, axes, end, axes.size() > 1, nccl_has);
  });
  for (const std::string& w : wrong) EXPECT_EQ(w, "");
}

INSTANTIATE_TEST_SUITE_P(All, Grids,
                         testing::ValuesIn(some_of<std::vector<uint32_t>>({{1}, {2}, {2, 2}, {3}, {4}, {2, 3}}, 3)),
                         [](const auto& info) {
                           std::string name = "Of";
                           for (uint32_t a : info.param) name += "_" + std::to_string(a);
                           return name;
                         });

/// All ranks of a group of 2 add up some floats, again and again, until one of them gets an error: what each of them got.
std::vector<Diagnostic> broken(const std::function<nccl::RankOptions(uint32_t)>& options, uint32_t ranks = 2, int times = 5) {
  std::vector<uint8_t> bytes = comm::plain_table({ranks});
  const format::Ranks& table = *flatbuffers::GetRoot<format::Ranks>(bytes.data());
  Store store;
  std::vector<Diagnostic> out(ranks);
  in_threads(ranks, [&](uint32_t r) {
    nccl::RankOptions own = options(r);
    own.rank = r;
    GpuRank rank(table, own, store);
    Status status = rank.attached();
    HostValues end(rank);
    std::vector<float> values(1024, static_cast<float>(r));
    CollectiveCall call{.reduction = format::Reduction::Sum, .from = values.data(), .to = values.data(), .bytes = 4096};
    for (int i = 0; i < times && status.ok(); ++i) {
      status = end.start(0, call);
      if (status.ok()) status = end.wait(0);
    }
    if (!status.ok()) out[r] = status.errors()[0];
  });
  return out;
}

TEST(NcclFails, ARankThatDoesNotComeIsWaitedForUntilTheDeadline) {
  use_fakes(2);
  Variable fault("NABLA_FAKE_NCCL_FAULT", "hang:1:3");
  auto begin = std::chrono::steady_clock::now();
  std::vector<Diagnostic> got = broken([](uint32_t) { return nccl::RankOptions{.deadline_s = 0.5}; });
  EXPECT_LT(seconds_since(begin), 5);
  for (uint32_t r = 0; r < 2; ++r) {
    EXPECT_EQ(got[r].code, Code::kTooLate) << got[r].message;
    EXPECT_EQ(got[r].message,
              fmt::format("rank {} waits in all_reduce of 4096 bytes of group all (ranks 0, 1), and not all have come in 0.5 s", r));
  }
}

TEST(NcclFails, AnErrorThatNcclReportsEndsTheWaiting) {
  use_fakes(2);
  Variable fault("NABLA_FAKE_NCCL_FAULT", "async:1:2");
  std::vector<Diagnostic> got = broken([](uint32_t r) { return nccl::RankOptions{.deadline_s = r == 0 ? 1.0 : 60}; });
  EXPECT_EQ(got[0].code, Code::kTooLate) << got[0].message;
  EXPECT_EQ(got[1].code, Code::kPeerLost) << got[1].message;
  EXPECT_HAS(got[1].message, "rank 1 waits in all_reduce of 4096 bytes of group all (ranks 0, 1), and NCCL 2.28.9 says: remote process "
                             "exited or there was a network error (6): rank 1 has lost its peer in ncclAllReduce of 1024 elements");
}

TEST(NcclFails, WhatAnotherRankDiedOfEndsTheWaiting) {
  use_fakes(2);
  Variable fault("NABLA_FAKE_NCCL_FAULT", "hang:1:2");
  std::atomic<int> asked{0};
  std::vector<Diagnostic> got = broken([&](uint32_t r) {
    nccl::RankOptions options{.deadline_s = r == 0 ? 60 : 0.3};
    if (r == 0) options.verdict = [&]() -> std::optional<Diagnostic> {
      if (++asked < 20) return std::nullopt;
      return error(Code::kPeerLost, "rank 1 was killed");
    };
    return options;
  });
  EXPECT_EQ(got[0].code, Code::kPeerLost);
  EXPECT_EQ(got[0].message, "rank 1 was killed");
}

TEST(NcclFails, ARankThatNeverConnectsIsNamed) {
  use_fakes(2);
  Variable fault("NABLA_FAKE_NCCL_FAULT", "init:1");
  std::vector<Diagnostic> got = broken([](uint32_t) { return nccl::RankOptions{.deadline_s = 0.3}; });
  EXPECT_EQ(got[0].code, Code::kTooLate);
  EXPECT_EQ(got[0].message, "rank 0 waits for NCCL to connect group all (ranks 0, 1), and not all have come in 0.3 s");
}

// An abort that does not come back ends the process, by whoever was asked to.
TEST(NcclFails, AnAbortThatHangsIsEndedHard) {
  use_fakes(2);
  Variable fault("NABLA_FAKE_NCCL_FAULT", "hang:1:2,abort:0");
  auto dies = [] {
    (void)broken([](uint32_t) {
      nccl::RankOptions options{.deadline_s = 0.3, .abort_s = 0.5};
      options.end_hard = [](const Diagnostic& why) {
        std::fputs((why.message + "\n").c_str(), stderr);
        std::fflush(stderr);
        ::_exit(why.code == Code::kPeerLost ? 10 : 1);
      };
      return options;
    });
  };
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(dies(), testing::ExitedWithCode(10), "rank 0: NCCL has not aborted its communicators in 0.5 s");
}

TEST(NcclFails, TwoRanksOnOneGpuAreRefusedWithNumbers) {
  use_fakes(1);
  std::vector<uint8_t> bytes = comm::plain_table({2});
  const format::Ranks& table = *flatbuffers::GetRoot<format::Ranks>(bytes.data());
  Store store;
  GpuRank rank(table, {.rank = 0, .local_ranks = 2}, store);
  ASSERT_FALSE(rank.attached().ok());
  EXPECT_EQ(rank.attached().errors()[0].code, Code::kNoGpu);
  EXPECT_EQ(rank.attached().errors()[0].message, "2 ranks run on this machine, which has 1 GPU: NCCL wants one for every rank");
  EXPECT_HAS(rank.attached().errors()[0].help, "--engine local runs several ranks on one GPU");
}

TEST(NcclLibrary, OtherVersionsAreRefusedWithBothNumbers) {
  use_fakes(1);
  for (auto [code, text] : {std::pair{"21705", "2.17.5"}, {"2804", "2.8.4"}}) {
    Variable version("NABLA_FAKE_NCCL_VERSION", code);
    auto library = nccl::Library::open();
    ASSERT_FALSE(library.ok());
    EXPECT_EQ(library.errors()[0].code, Code::kMissingLibrary);
    EXPECT_EQ(library.errors()[0].message, fmt::format("NCCL cannot be used: it is version {}; needed is 2.18", text));
  }
  Variable file("NABLA_NCCL", "/nowhere/libnccl.so.2");
  auto library = nccl::Library::open();
  ASSERT_FALSE(library.ok());
  EXPECT_TRUE(library.errors()[0].message.starts_with("NCCL cannot be used: /nowhere/libnccl.so.2: ")) << library.errors()[0].message;
}

template <class R, class... Args>
R asked(const char* library, const char* name, Args... args) {
  void* handle = ::dlopen(std::getenv(library), RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<R (*)(Args...)>(::dlsym(handle, name))(args...);
}
int calls(const char* name) { return asked<int>("NABLA_NCCL", "nb_fake_nccl_count", name); }

// Memory is given back, and communicators are closed in order: of all ranks, and of the grid's only axis, and for messages along it.
TEST(NcclRanks, LeaveNothingBehind) {
  use_fakes(2);
  (void)nccl::Library::open().value();
  int made = calls("ncclCommInitRankConfig"), closed = calls("ncclCommDestroy"), aborted = calls("ncclCommAbort");
  std::vector<Diagnostic> got = broken([](uint32_t) { return nccl::RankOptions{.deadline_s = 30}; });
  for (const Diagnostic& d : got) EXPECT_EQ(d.message, "");
  EXPECT_EQ(calls("ncclCommInitRankConfig") - made, 2 * 4);
  EXPECT_EQ(calls("ncclCommDestroy") - closed, 2 * 4);
  EXPECT_EQ(calls("ncclCommAbort"), aborted);
  EXPECT_EQ(asked<int>("NABLA_CUDA_DRIVER", "nb_fake_cuda_live"), 0);
}

}  // namespace
}  // namespace nabla::tests
