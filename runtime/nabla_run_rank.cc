// The C API for a process that runs one rank of several: apart, so that programs without need none of it.
#include <cstring>

#include "runtime/comm/checked_transport.h"
#include "runtime/comm/peers.h"
#include "runtime/comm/plugin_transport.h"
#include "runtime/nabla_run_internal.h"
#include "runtime/nccl/ranks.h"

namespace {

using nabla::Code;
using nabla::error;
using nabla::Result;

constexpr const char* kLateHelp = "see what those ranks do instead; timeout_s of nabla_rank_options sets how long others wait for them";

/// The caller's struct, of which an older header has only the beginning.
nabla_rank_options known(const nabla_rank_options& given) {
  nabla_rank_options out{};
  std::memcpy(&out, &given, std::min(given.size, sizeof out));
  return out;
}

Result<nabla_session*> open_rank(const char* path, const nabla_options* options, const nabla_rank_options& rank) {
  const std::string engine = rank.engine == nullptr ? "NULL" : rank.engine;
  if (engine != "mpi" && engine != "nccl")
    return error(Code::kBadOption, "nabla_session_open_rank: engine `{}`; there are `mpi` and `nccl`", engine);
  if (engine == "nccl" && rank.check_messages != 0)
    return error(Code::kBadOption, "nabla_session_open_rank: check_messages: what goes from GPU to GPU by nccl has no checksums");
  std::shared_ptr<nabla::comm::Transport> transport = NABLA_TRY(nabla::comm::open_transport("mpi"));
  std::shared_ptr<nabla::comm::Transport> used = transport;
  if (rank.check_messages != 0) used = nabla::comm::checked(transport);
  nabla::exec::SessionOptions settings = nabla::api::settings_of(options);
  if (rank.timeout_s > 0) settings.comm_timeout_s = rank.timeout_s;
  settings.gpu = nabla::comm::rank_of_mpirun(0);
  if (engine == "nccl")
    settings.world = nabla::nccl::over_nccl({.rank = transport->rank(),
                                             .ranks = transport->ranks(),
                                             .local_ranks = nabla::comm::ranks_of_mpirun(1),
                                             .deadline_s = settings.comm_timeout_s,
                                             .meet = nabla::nccl::by_messages(transport, settings.comm_timeout_s)});
  else
    settings.world = nabla::comm::peers_over(used, {.deadline_s = settings.comm_timeout_s, .late_help = kLateHelp});
  auto session = NABLA_TRY(nabla::exec::Session::open(path, settings));
  if (session->team().empty())
    return error(Code::kRanksDisagree, "{} is for one rank, and {} were started", path, transport->ranks());
  auto* out = new nabla_session{std::move(session)};
  out->rank = static_cast<int32_t>(transport->rank()), out->ranks = static_cast<int32_t>(transport->ranks());
  out->end = [transport] { (void)transport->close(); };
  return out;
}

}  // namespace

extern "C" nabla_status* nabla_session_open_rank(const char* path, const nabla_options* options,
                                                 const nabla_rank_options* rank_options, nabla_session** out) {
  if (path == nullptr || rank_options == nullptr || out == nullptr)
    return nabla::api::failed({error(Code::kMisuse, "nabla_session_open_rank: path, rank_options and out must not be NULL")});
  *out = nullptr;
  Result<nabla_session*> session = open_rank(path, options, known(*rank_options));
  if (!session.ok()) return nabla::api::failed(session.errors());
  *out = *session;
  return nullptr;
}
