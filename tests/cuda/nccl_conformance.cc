// The suite of engines as one rank of the engine `nccl`, on the first GPU: nccl_conformance FOLDER RANK AXIS...; ranks meet by files
// of the folder. tools/gpu_check runs it on real GPUs.
#include <cstdio>
#include <cstdlib>

#include "runtime/comm/conformance.h"
#include "runtime/comm/plain_table.h"
#include "tests/cuda/nccl_ranks.h"

int main(int argc, char** argv) {
  using namespace nabla;
  auto fail = [](const std::string& why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    return 1;
  };
  if (argc < 4) return fail("usage: nccl_conformance FOLDER RANK AXIS...");
  uint32_t me = static_cast<uint32_t>(std::atoi(argv[2]));
  std::vector<uint32_t> axes;
  for (int i = 3; i < argc; ++i) axes.push_back(static_cast<uint32_t>(std::atoi(argv[i])));
  if (auto gpu = device::CudaDevice::open(0); !gpu.ok()) return fail(to_string(gpu.errors()));
  std::vector<uint8_t> table = comm::plain_table(axes);
  nccl::RankOptions options{.rank = me, .in_flight = 4, .deadline_s = 60};
  options.meet = tests::by_files(argv[1], 60);
  tests::GpuRank rank(*flatbuffers::GetRoot<format::Ranks>(table.data()), options, 0);
  if (!rank.attached().ok()) return fail(to_string(rank.attached().errors()));
  tests::HostValues end(rank);
  std::string wrong = comm::check_engine(me, axes, end, axes.size() > 1, tests::nccl_has);
  return wrong.empty() ? 0 : fail(wrong);
}
