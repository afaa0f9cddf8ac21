// Prints the seconds of the same all_reduce as mpi_plain, by the engine mpi.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "runtime/comm/peers.h"
#include "runtime/comm/plain_table.h"
#include "runtime/comm/plugin_transport.h"

int main() {
  using namespace nabla;
  auto transport = comm::open_transport("mpi");
  if (!transport.ok()) return std::fputs(to_string(transport.errors()).c_str(), stderr), 1;
  std::shared_ptr<comm::Transport> end = std::move(*transport);
  std::vector<uint8_t> table = comm::plain_table({end->ranks()});
  auto world = comm::make_peers(*flatbuffers::GetRoot<format::Ranks>(table.data()), end, {.yield = false});
  if (!world.ok()) return std::fputs(to_string(world.errors()).c_str(), stderr), 1;
  comm::Communicator& own = (*world)->rank(end->rank());
  std::vector<float> from(4 << 20, 1.0f), to(4 << 20), little(1, 1.0f), sum(1);
  comm::CollectiveCall call{.kind = format::CollectiveKind::AllReduce};
  call.reduction = format::Reduction::Sum, call.dtype = format::DType::F32;
  auto run = [&](const float* in, float* out, uint64_t bytes) {
    call.from = in, call.to = out, call.bytes = bytes;
    (void)own.start(0, call);
    (void)own.wait(0);
  };
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    run(little.data(), sum.data(), 4);  // all are here
    auto begin = std::chrono::steady_clock::now();
    run(from.data(), to.data(), from.size() * 4);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  if (end->rank() == 0) std::printf("%.9g\n", best);
  (*world)->end(end->rank(), Ok{});
  return end->close().ok() ? 0 : 1;
}
