// The suite of engines as a rank that mpirun starts: mpi_conformance AXIS...; docs/ranks.md.
#include <cstdio>
#include <cstdlib>

#include "runtime/comm/conformance.h"
#include "runtime/comm/peers.h"
#include "runtime/comm/plugin_transport.h"

int main(int argc, char** argv) {
  using namespace nabla;
  std::vector<uint32_t> axes;
  for (int i = 1; i < argc; ++i) axes.push_back(static_cast<uint32_t>(std::atoi(argv[i])));
  auto fail = [](const std::string& why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    return 1;
  };
  auto transport = comm::open_transport("mpi");
  if (!transport.ok()) return fail(to_string(transport.errors()));
  std::vector<uint8_t> table = comm::plain_table(axes);
  comm::Transport& end = **transport;
  auto world = comm::make_peers(*flatbuffers::GetRoot<format::Ranks>(table.data()), std::move(*transport),
                                   {.deadline_s = 60, .in_flight = 4});
  if (!world.ok()) return fail(to_string(world.errors()));
  uint32_t me = (*world)->here()[0];
  std::string wrong = comm::check_engine(me, axes, (*world)->rank(me), axes.size() > 1);
  if (!wrong.empty()) return fail(wrong);
  (*world)->end(me, Ok{});
  if (Status closed = end.close(); !closed.ok()) return fail(to_string(closed.errors()));
  if (me == 0) std::printf("ok\n");
  return 0;
}
