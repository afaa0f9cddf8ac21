// The thread pool, CPU features and kernel objects.
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <numeric>
#include <sstream>
#include <thread>

#include "runtime/device/cpu.h"
#include "runtime/device/kernel_object.h"
#include "runtime/device/pool.h"

namespace nabla::device {
namespace {

struct Counts {
  std::vector<std::atomic<int>> done;
  std::atomic<int> calls{0};
  std::atomic<int> highest_thread{0};
};

void count(void* context, int64_t begin, int64_t end, int thread) {
  auto* counts = static_cast<Counts*>(context);
  counts->calls++;
  int highest = counts->highest_thread;
  while (thread > highest && !counts->highest_thread.compare_exchange_weak(highest, thread)) {
  }
  for (int64_t i = begin; i < end; ++i) counts->done[i]++;
}

TEST(ThreadPool, EveryUnitIsDoneOnceWhateverTheNumbers) {
  for (int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (int64_t units : {0, 1, 2, 5, 64, 1000}) {
      Counts counts{std::vector<std::atomic<int>>(units)};
      pool.run(count, &counts, units, 0);
      for (auto& n : counts.done) EXPECT_EQ(n, 1);
      EXPECT_GE(counts.calls, std::min<int64_t>(threads, units));
      EXPECT_LT(counts.highest_thread, threads);
    }
  }
}

TEST(ThreadPool, ABoundOfThreadsIsKept) {
  ThreadPool pool(4);
  Counts counts{std::vector<std::atomic<int>>(100)};
  pool.run(count, &counts, 100, 2);
  EXPECT_LE(counts.highest_thread, 1);
}

// Thread 1 gives back what it holds only when all the rest is done, part of its own range too.
TEST(ThreadPool, WhatAStoppedWorkerHasNotBegunIsDoneByOthers) {
  struct Job {
    std::atomic<int64_t> done{0};
    std::atomic<bool> late{false};
  } job;
  constexpr int64_t kUnits = 1000;
  ThreadPool pool(2);
  auto body = [](void* context, int64_t begin, int64_t end, int thread) {
    auto* job = static_cast<Job*>(context);
    for (int i = 0; thread == 1 && job->done + (end - begin) < kUnits; ++i) {
      if (i > 10000) job->late = true;
      if (job->late) break;
      usleep(1000);
    }
    if (thread == 0) usleep(1000);  // so that the worker comes to something
    job->done += end - begin;
  };
  for (int i = 0; i < 20; ++i) {
    job.done = 0;
    pool.run(body, &job, kUnits, 0);
    EXPECT_EQ(job.done, kUnits);
    EXPECT_FALSE(job.late);
  }
}

// A competitor on every CPU takes half of it. Launches must not wait for the system's turns: with shares that only
// their own thread may do it is more than ten times.
TEST(ThreadPool, AMachineThatIsBusyDoesNotHoldUpManyShortJobs) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (int cpu : allowed_cpus())
    others.emplace_back([&stop, cpu] {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(cpu, &set);
      pthread_setaffinity_np(pthread_self(), sizeof set, &set);
      while (!stop) {
      }
    });
  auto body = [](void*, int64_t begin, int64_t end, int) {
    for (int64_t i = 0; i < (end - begin) * 200; ++i) asm volatile("" : : "r"(i));
  };
  auto jobs_in_a_second = [&](int threads) {
    ThreadPool pool(threads);
    int64_t jobs = 0;
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    for (; std::chrono::steady_clock::now() < end; ++jobs) pool.run(body, nullptr, 16, 0);
    return jobs;
  };
  int64_t one = 0, all = 0;
  for (int i = 0; i < 3; ++i) one += jobs_in_a_second(1), all += jobs_in_a_second(0);
  stop = true;
  for (std::thread& t : others) t.join();
  EXPECT_GT(all * 3, one) << all << " jobs by all threads, " << one << " by one";
}

TEST(ThreadPool, SurvivesManyJobsOfChangingWidthWithPausesBetweenThem) {
  ThreadPool pool(3);
  std::vector<int64_t> sums(3, 0);
  struct Job {
    std::vector<int64_t>* sums;
  } job{&sums};
  auto add = [](void* context, int64_t begin, int64_t end, int thread) {
    (*static_cast<Job*>(context)->sums)[thread] += end - begin;
  };
  int64_t expected = 0;
  for (int i = 0; i < 3000; ++i) {
    pool.run(add, &job, i % 11, i % 4);
    expected += i % 11;
    if (i % 500 == 0) usleep(2000);  // long enough for the workers to fall asleep
  }
  EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), int64_t{0}), expected);
}

TEST(Cpu, FeaturesAgreeWithTheKernelsList) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line) && !line.starts_with("flags")) {
  }
  std::istringstream words(line);
  std::vector<std::string> flags{std::istream_iterator<std::string>(words), {}};
  auto listed = [&](const char* name) { return std::find(flags.begin(), flags.end(), name) != flags.end(); };
  for (const char* name : {"sse2", "pni", "sse4_2", "avx", "avx2", "fma", "f16c", "bmi2", "abm", "lahf_lm", "avx512f",
                           "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile"})
    EXPECT_EQ(cpu_has(name), listed(name)) << name;
  EXPECT_FALSE(cpu_has("flux_capacitor"));
  EXPECT_GE(allowed_cpus().size(), 1u);
}

TEST(KernelObject, BytesThatAreNoSharedObjectAreRefused) {
  const uint8_t junk[] = {1, 2, 3, 4};
  auto object = KernelObject::load(junk, "kernels/junk.so");
  ASSERT_FALSE(object.ok());
  EXPECT_EQ(object.errors()[0].code, Code::kKernelLoad);
  EXPECT_NE(object.errors()[0].message.find("kernels/junk.so"), std::string::npos);
}

TEST(ThreadPool, GivesThePinnedCallerItsCpusBack) {
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  { ThreadPool pool(0, true); }
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

}  // namespace
}  // namespace nabla::device
