// Measures rendezvous, manifests and resume of jobs with thousands of ranks, which are simulated on this machine.
#include <sched.h>

#include <algorithm>

#include "bench/bench.h"
#include "runtime/checkpoint/crowd.h"
#include "runtime/control/crowd.h"

namespace nabla::bench {
namespace {

// All of it on one CPU: the coordinator's thread inherits where this one may run.
Result<Measurement> rendezvous(const Paths&) {
  cpu_set_t before, one;
  (void)sched_getaffinity(0, sizeof before, &before);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  (void)sched_setaffinity(0, sizeof one, &one);
  Result<double> seconds = control::meet(4096, 2);
  (void)sched_setaffinity(0, sizeof before, &before);
  return against_budget(NABLA_TRY(std::move(seconds)), "s", 20);
}

Result<Measurement> manifest_bytes(const Paths&) {
  std::string text = checkpoint::Crowd(256, 8, 900).manifest().text();
  (void)NABLA_TRY(checkpoint::Manifest::parse(text, "the manifest"));
  return against_budget(static_cast<double>(text.size()), "bytes", 5e6);
}

// Two jobs of 1,024 ranks: leaves of all kinds without a pipeline, and a pipeline whose first and last stage share leaves.
Result<Measurement> resume_opens(const Paths& paths) {
  int most = 0;
  for (const checkpoint::Crowd& crowd : {checkpoint::Crowd(128, 8, 20), checkpoint::Crowd({.stages = 8, .dp = 16, .tp = 8, .zero = 1})}) {
    const std::string dir = fmt::format("{}/resume-{}", paths.scratch, crowd.stages);
    (void)NABLA_TRY(crowd.write(dir));
    most = std::max(most, NABLA_TRY(checkpoint::resume(crowd, dir)));
  }
  return against_budget(static_cast<double>(most), "files", 4);
}

}  // namespace

std::vector<Bench> scale_benches() {
  return {
      {"rendezvous_4096_s", "4096 simulated ranks come, ask the store, and leave, on one CPU", rendezvous},
      {"manifest_2048_ranks_bytes", "the manifest of a checkpoint of 900 leaves on 2048 ranks", manifest_bytes},
      {"resume_1024_ranks_opens", "files that a rank of 1024 opens to resume, at most", resume_opens},
  };
}

}  // namespace nabla::bench
