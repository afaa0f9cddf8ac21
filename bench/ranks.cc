// What ranks take to exchange values, as threads and as processes.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include <nlohmann/json.hpp>

#include "bench/bench.h"
#include "runtime/base/literal.h"
#include "runtime/comm/local.h"
#include "runtime/comm/plain_table.h"

namespace nabla::bench {
namespace {

using Json = nlohmann::json;

/// Seconds of one all_reduce of `bytes` of f32 over local ranks: the best of a few rounds of `calls`.
double all_reduce_seconds(uint32_t ranks, uint64_t bytes, int calls, bool spin, int rounds = 7) {
  std::vector<uint8_t> table = comm::plain_table({ranks});
  comm::LocalRanks world(*flatbuffers::GetRoot<format::Ranks>(table.data()), {.spin = spin, .in_flight = std::vector<uint32_t>(ranks, 1)});
  std::atomic<uint32_t> ready{0};
  std::vector<double> best(ranks, 1e9);
  world.begin();
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      // Where programs' values lie: on large pages.
      Literal from(DType::kF32, {static_cast<int64_t>(bytes / 4)}), to = from;
      std::fill_n(static_cast<float*>(from.mutable_data()), bytes / 4, 1.0f);
      std::fill_n(static_cast<float*>(to.mutable_data()), bytes / 4, 0.0f);
      comm::CollectiveCall call{.kind = format::CollectiveKind::AllReduce};
      call.reduction = format::Reduction::Sum, call.dtype = format::DType::F32;
      call.from = from.data(), call.to = to.mutable_data(), call.bytes = bytes;
      comm::Communicator& own = world.rank(r);
      ready.fetch_add(1);
      while (ready.load() < ranks) std::this_thread::yield();
      for (int round = 0; round < rounds; ++round) {
        double begin = now();
        for (int i = 0; i < calls; ++i) {
          (void)own.start(0, call);
          (void)own.wait(0);
        }
        best[r] = std::min(best[r], (now() - begin) / calls);
      }
      world.end(r, Ok{});
    });
  for (std::thread& t : threads) t.join();
  return *std::max_element(best.begin(), best.end());
}

Result<Measurement> small(uint32_t ranks, bool spin, int calls, double budget_us) {
  return against_budget(all_reduce_seconds(ranks, 8, calls, spin) * 1e6, "us", budget_us);
}

// Twice the payload is read and written once each by an exchange that nothing needs besides.
Result<Measurement> large() {
  constexpr uint64_t kBytes = 64 << 20;
  Measurement m = share_of("GB/s", "copy", [] { return 2.0 * kBytes / all_reduce_seconds(2, kBytes, 1, true, 2) / 1e9; },
                           [] { return copy_gbs(2); });
  m.peer = "a third of copy", m.peer_value /= 3, m.ratio = m.value / m.peer_value, m.is_share = false;
  return m;
}

std::string mpirun(const Paths& p, int ranks) {
  return fmt::format("NABLA_PLUGINS='{}/cli' mpirun -q --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 "
                     "--mca btl_tcp_if_include lo --mca oob_tcp_if_include lo -np {} ", p.bin, ranks);
}

// The same all_reduce by a plain program of MPI and by the engine mpi, side by side.
Result<Measurement> mpi_against_plain(const Paths& p) {
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    double plain = std::atof(NABLA_TRY(output_of(mpirun(p, 2) + p.bin + "/bench/mpi_plain", false)).c_str());
    double ours = std::atof(NABLA_TRY(output_of(mpirun(p, 2) + p.bin + "/bench/mpi_ours", false)).c_str());
    if (plain <= 0 || ours <= 0) return error(Code::kReadFailed, "an all_reduce that takes {} and {} s", plain, ours);
    best = std::min(best, ours / plain);
  }
  return against_budget(best, "", 1.1);
}

/// Microseconds of a training step of a bundle.
Result<double> step_us(const std::string& run) {
  std::string text = NABLA_TRY(output_of(run, false));
  Json line = Json::parse(text.substr(std::min(text.find('{'), text.size())), nullptr, false);
  if (!line.is_object()) return error(Code::kReadFailed, "no result of --bench: {}", text);
  return line["min_us"].get<double>();
}

Result<Measurement> charlm_of_processes(const Paths& p) {
  std::string model = p.scratch + "/charlm.nir", one = p.scratch + "/one.nbundle", four = p.scratch + "/four.nbundle";
  NABLA_TRY(output_of(fmt::format("'{0}/examples/charlm/charlm' '{1}' && '{0}/cli/nablac' compile '{1}' -o '{2}' && "
                                  "'{0}/cli/nablac' compile '{1}' --mesh dp=4 --data-axes dp -o '{3}'",
                                  p.bin, model, one, four)));
  std::string how = " --seed 0 --entry step --bench 30 --json 2> /dev/null";
  double best = 1e9;
  for (int round = 0; round < 3; ++round) {
    double many = NABLA_TRY(step_us(fmt::format("'{}/cli/nabla-run' '{}' --engine mpi --threads 1", p.bin, four) + how));
    double alone = NABLA_TRY(step_us(fmt::format("'{}/cli/nabla-run' '{}' --threads 2", p.bin, one) + how));
    best = std::min(best, many / alone);
  }
  return against_budget(best, "", 1.25);
}

Result<Measurement> many_ranks() {
  double begin = now();
  all_reduce_seconds(256, 1024, 10, false, 1);
  return Measurement{now() - begin, "s"};
}

}  // namespace

std::vector<Bench> rank_benches() {
  return {
      {"allreduce_local_8b_us", "8 bytes over 2 ranks that are threads, on 2 CPUs", [](const Paths&) { return small(2, true, 20000, 5); }},
      {"allreduce_local_8b_4ranks_us", "the same over 4 ranks, which sleep while they wait",
       [](const Paths&) { return small(4, false, 2000, 60); }},
      {"allreduce_local_64mb_gbs", "twice 64 MiB over the time of their all_reduce, 2 ranks", [](const Paths&) { return large(); }},
      {"allreduce_mpi_vs_plain", "16 MiB over 2 processes by the engine mpi over MPI_Allreduce", mpi_against_plain},
      {"charlm_4ranks_vs_1", "a step of the language model on 4 processes of one thread over that on one of 2 threads",
       charlm_of_processes},
      {"ranks_256_s", "256 ranks that are threads start, exchange ten times, and end", [](const Paths&) { return many_ranks(); }},
  };
}

}  // namespace nabla::bench
