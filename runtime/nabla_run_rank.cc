// The C API for a process that runs one rank of several: apart, so that programs without need none of it.
#include <algorithm>
#include <atomic>

#include "runtime/base/option_error.h"
#include "runtime/comm/checked_transport.h"
#include "runtime/comm/engines.h"
#include "runtime/comm/peers.h"
#include "runtime/comm/plugin_transport.h"
#include "runtime/nabla_run_internal.h"
#include "runtime/nccl/ranks.h"

namespace {

using nabla::Code;
using nabla::error;
using nabla::option_error;
using nabla::Result;

constexpr const char* kLateHelp = "see what those ranks do instead; timeout_s of nabla_rank_options sets how long others wait for them";

/// The caller's struct, which a later header makes longer: what this runtime does not know has to be zero.
Result<nabla_rank_options> known(const nabla_rank_options& given) {
  constexpr size_t kOwn = sizeof(nabla_rank_options), kMost = 4096;
  if (given.size < kOwn || given.size > kMost)
    return error(Code::kMisuse, "nabla_session_open_rank: size is {}, and nabla_rank_options has {} bytes", given.size, kOwn);
  const char* more = reinterpret_cast<const char*>(&given);
  if (std::any_of(more + kOwn, more + given.size, [](char c) { return c != 0; }))
    return option_error("set the others to 0, or load a runtime that knows them",
                        "nabla_session_open_rank: of the {} bytes of nabla_rank_options this runtime knows {}, and others are not 0",
                        given.size, kOwn);
  constexpr double kMostSeconds = 1e9;
  if (!(given.timeout_s >= 0 && given.timeout_s <= kMostSeconds))
    return option_error("set it to 0, or to the seconds after which a rank that does not answer is given up",
                        "nabla_session_open_rank: timeout_s is {}: seconds up to {:g}, or 0 for 300", given.timeout_s, kMostSeconds);
  return given;
}

Result<nabla_session*> open_rank(const char* path, const nabla_options* options, const nabla_rank_options& rank) {
  const std::string name = rank.engine == nullptr ? "NULL" : rank.engine;
  const nabla::comm::Engine* engine = nabla::comm::engine_named(name);
  if (!engine || !engine->processes)
    return option_error("say one of them", "nabla_session_open_rank: engine `{}` is not {}", name, nabla::comm::engine_names(true, "`"));
  if (!engine->checks_messages && rank.check_messages != 0)
    return option_error("set it to 0, or say engine mpi",
                        "nabla_session_open_rank: check_messages: what goes from GPU to GPU by {} has no checksums", name);
  static std::atomic<bool> begun = false;
  if (begun.exchange(true))
    return error(Code::kMisuse, "nabla_session_open_rank: this process has opened a rank before, and MPI starts once per process");
  std::shared_ptr<nabla::comm::Transport> transport = NABLA_TRY(nabla::comm::open_transport("mpi"));
  std::shared_ptr<nabla::comm::Transport> used = transport;
  if (rank.check_messages != 0) used = nabla::comm::checked(transport);
  nabla::exec::SessionOptions settings = nabla::api::settings_of(options);
  if (rank.timeout_s > 0) settings.comm_timeout_s = rank.timeout_s;
  settings.gpu = nabla::comm::rank_of_mpirun(0);
  if (engine->kind == nabla::comm::Engine::Kind::kNccl)
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
  Result<nabla_rank_options> rank = known(*rank_options);
  Result<nabla_session*> session = rank.ok() ? open_rank(path, options, *rank) : Result<nabla_session*>(rank.errors());
  if (!session.ok()) return nabla::api::failed(session.errors());
  *out = *session;
  return nullptr;
}
