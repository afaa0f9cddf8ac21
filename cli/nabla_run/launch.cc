#include "cli/nabla_run/launch.h"
#include "runtime/base/option_error.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>

namespace nabla::cli {
namespace {

using Env = std::function<const char*(const char*)>;

constexpr uint32_t kMostRanks = 1u << 20;

std::optional<std::string> text(const Env& env, const char* name) {
  const char* value = env(name);
  if (value == nullptr || *value == 0) return std::nullopt;
  return value;
}

Result<std::optional<uint32_t>> number_in(const Env& env, const char* name) {
  std::optional<std::string> value = text(env, name);
  if (!value) return std::optional<uint32_t>();
  uint32_t n = 0;
  auto [end, problem] = std::from_chars(value->data(), value->data() + value->size(), n);
  if (problem != std::errc() || end != value->data() + value->size() || n > kMostRanks)
    return option_error(fmt::format("set {} to a number up to {}, or unset it", name, kMostRanks),
                        "the environment has {}={}, which is no {}", name, *value,
                        std::string_view(name) == "MASTER_PORT"   ? "port"
                        : std::string_view(name) == "NABLA_EPOCH" ? "number of a start"
                                                                  : "number of ranks");
  return std::optional<uint32_t>(n);
}

/// The names of one launcher; null where it has none.
struct Names {
  const char *by, *rank, *ranks, *local_rank, *local_ranks;
  bool mpi;
};
constexpr Names kLaunchers[] = {
    {"who set NABLA_RANK", "NABLA_RANK", "NABLA_WORLD_SIZE", "NABLA_LOCAL_RANK", "NABLA_LOCAL_WORLD_SIZE", false},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", true},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", true},
    {"SLURM", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr, true},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", false},
    {"Kubernetes", "JOB_COMPLETION_INDEX", "NABLA_WORLD_SIZE", nullptr, nullptr, false},
};

// mpirun would take others for options, for several names, or for a name with a user's command.
bool is_host(const std::string& name) {
  auto part = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == '@'; };
  return !name.empty() && name[0] != '-' && std::all_of(name.begin(), name.end(), part);
}

std::string one_of(const char* name, uint32_t ranks) {
  return ranks < 2 ? fmt::format("set {} to 0", name) : fmt::format("set {} to a number from 0 to {}", name, ranks - 1);
}

/// Are the numbers of ranks of one machine some that can be?
Status check_local(const std::string& of, const Names& names, const Launched& l) {
  if (l.local_ranks && (*l.local_ranks == 0 || *l.local_ranks > l.ranks))
    return option_error(fmt::format("set {} to how many of them this machine has", names.local_ranks),
                        "the environment{} has {}={} and {}={}: a machine has 1 to {} of these ranks", of, names.local_ranks,
                        *l.local_ranks, names.ranks, l.ranks, l.ranks);
  if (uint32_t most = l.local_ranks.value_or(l.ranks); l.local_rank && *l.local_rank >= most)
    return option_error(one_of(names.local_rank, most), "the environment{} has {}={} and {}={}: ranks count from 0", of, names.local_rank,
                        *l.local_rank, l.local_ranks ? names.local_ranks : names.ranks, most);
  return Ok{};
}

Result<std::optional<Launched>> named(const Names& names, const Env& env) {
  std::optional<uint32_t> rank = NABLA_TRY(number_in(env, names.rank)), ranks = NABLA_TRY(number_in(env, names.ranks));
  bool torch = std::string_view(names.by) == "torchrun", own = std::string_view(names.rank) == "NABLA_RANK";
  if (!rank && !((torch || own) && ranks)) return std::optional<Launched>();
  const char* index = env("JOB_COMPLETION_INDEX");
  if (!rank && own && index != nullptr && *index == 0)
    return option_error(fmt::format("set NABLA_RANK to the number of this rank, 0 to {}", *ranks - 1),
                        "the environment has {}={} and an empty JOB_COMPLETION_INDEX", names.ranks, *ranks);
  if (!rank && own && index != nullptr) return std::optional<Launched>();
  std::string of = own ? "" : fmt::format(" of {}", names.by);
  if (!rank || !ranks)
    return option_error(fmt::format("set {}, or unset {}", rank ? names.ranks : names.rank, rank ? names.rank : names.ranks),
                        "the environment{} has {}={} and no {}", of, rank ? names.rank : names.ranks, rank ? *rank : *ranks,
                        rank ? names.ranks : names.rank);
  if (*rank >= *ranks)
    return option_error(one_of(names.rank, *ranks), "the environment{} has {}={} and {}={}: ranks count from 0", of, names.rank, *rank,
                        names.ranks, *ranks);
  Launched out{.by = own ? names.by : fmt::format("{} ({})", names.by, names.rank), .rank = *rank, .ranks = *ranks, .mpi = names.mpi};
  if (names.local_rank != nullptr) out.local_rank = NABLA_TRY(number_in(env, names.local_rank));
  if (names.local_ranks != nullptr) out.local_ranks = NABLA_TRY(number_in(env, names.local_ranks));
  (void)NABLA_TRY(check_local(of, names, out));
  return std::optional<Launched>(std::move(out));
}

// Where rank 0 is, by the launcher's conventions. torchrun's own store may listen at its port: then it is the next one.
Result<std::string> rendezvous_of(const Env& env) {
  if (auto own = text(env, "NABLA_RENDEZVOUS")) return *own;
  auto host = text(env, "MASTER_ADDR");
  std::optional<uint32_t> port = NABLA_TRY(number_in(env, "MASTER_PORT"));
  if (!host || !port) return std::string();
  uint32_t next = text(env, "TORCHELASTIC_USE_AGENT_STORE") == "True" ? 1 : 0;
  if (*port == 0 || *port + next > 65535)
    return option_error("set it to a port that is free on rank 0's machine, or NABLA_RENDEZVOUS to HOST:PORT",
                        "the environment has MASTER_PORT={}, which is no port where ranks can meet: 1 to {}", *port, 65535 - next);
  return fmt::format("{}:{}", *host, *port + next);
}

}  // namespace

Result<Launched> launched(const RankFlags& flags, const Env& env) {
  Launched out;
  if (flags.local_rank && !flags.rank)
    return option_error("say all three: --rank N --world-size M --local-rank L", "--local-rank is given without --rank");
  if (flags.rank || flags.world_size) {
    if (!flags.rank || !flags.world_size)
      return option_error("say both: --rank N --world-size M",
                          "{} is given without {}", flags.rank ? "--rank" : "--world-size", flags.rank ? "--world-size" : "--rank");
    if (*flags.rank >= *flags.world_size)
      return option_error(fmt::format("the last rank is {}", *flags.world_size - 1),
                          "--rank {} of --world-size {}: ranks count from 0", *flags.rank, *flags.world_size);
    if (flags.local_rank.value_or(0) >= *flags.world_size)
      return option_error(fmt::format("the last rank is {}", *flags.world_size - 1),
                          "--local-rank {} of --world-size {}: ranks count from 0", *flags.local_rank, *flags.world_size);
    out = {.by = "who gave --rank", .rank = *flags.rank, .ranks = *flags.world_size, .local_rank = flags.local_rank};
  } else {
    for (const Names& names : kLaunchers) {
      // A task alone, and a batch script, are no rank.
      if (std::string_view(names.by) == "SLURM" && NABLA_TRY(number_in(env, "SLURM_NTASKS")).value_or(1) < 2 &&
          NABLA_TRY(number_in(env, "SLURM_PROCID")).value_or(0) == 0)
        continue;
      std::optional<Launched> found = NABLA_TRY(named(names, env));
      if (!found) continue;
      out = std::move(*found);
      break;
    }
  }
  if (!out.by.empty()) out.epoch = NABLA_TRY(number_in(env, "NABLA_EPOCH")).value_or(0);
  if (!out.by.empty()) out.rendezvous = flags.rendezvous.empty() ? NABLA_TRY(rendezvous_of(env)) : flags.rendezvous;
  return out;
}

Result<std::vector<Host>> read_hosts(const std::string& path) {
  std::ifstream file(path);
  if (!file) return error(Code::kNotFound, "--hosts: {} cannot be read", path);
  std::vector<Host> out;
  std::string line;
  uint32_t slots_of_all = 0;
  for (int n = 1; std::getline(file, line); ++n) {
    line = line.substr(0, line.find('#'));
    size_t begin = line.find_first_not_of(" \t\r"), end = line.find_last_not_of(" \t\r");
    if (begin == line.npos) continue;
    line = line.substr(begin, end - begin + 1);
    Host host{line.substr(0, line.find_first_of(": \t")), 1};
    std::string rest = line.substr(host.name.size());
    bool fine = is_host(host.name);
    if (fine && !rest.empty()) {
      size_t slots = rest.find("slots="), digits = rest[0] == ':' ? 1 : slots == rest.npos ? rest.size() : slots + 6;
      auto [stop, problem] = std::from_chars(rest.data() + digits, rest.data() + rest.size(), host.slots);
      fine = problem == std::errc() && stop == rest.data() + rest.size() && host.slots > 0;
    }
    if (!fine)
      return option_error("a line names one host, and how many ranks it runs: node1:4",
                          "--hosts: {}:{}: `{}` is no host: HOST, HOST:SLOTS or HOST slots=SLOTS", path, n, line);
    if (host.slots > kMostRanks - slots_of_all)
      return option_error("name fewer slots", "--hosts: {}:{}: with `{}` there are more than {} slots", path, n, line, kMostRanks);
    slots_of_all += host.slots;
    out.push_back(std::move(host));
  }
  if (file.bad()) return error(Code::kReadFailed, "--hosts: {} cannot be read", path);
  if (out.empty()) return option_error("a line names one host, and how many ranks it runs: node1:4", "--hosts: {} names no host", path);
  return out;
}

std::vector<std::string> mpirun_command(const MpirunOptions& o, const std::string& program,
                                        const std::vector<std::string>& args) {
  std::vector<std::string> out{"mpirun", "-q", "-np", std::to_string(o.ranks)};
  if (o.root) out.push_back("--allow-run-as-root");
  auto set = [&](const char* name, const char* value) { out.insert(out.end(), {"--mca", name, value}); };
  // More ranks than CPUs must not spin, and a rank has threads of its own.
  out.insert(out.end(), {"--oversubscribe", "--bind-to", "none"});
  set("mpi_yield_when_idle", "1");
  if (o.hosts.empty()) {
    set("btl_tcp_if_include", "lo");
    set("oob_tcp_if_include", "lo");
  } else {
    std::string hosts;
    for (const Host& h : o.hosts) hosts += fmt::format("{}{}:{}", hosts.empty() ? "" : ",", h.name, h.slots);
    out.insert(out.end(), {"--host", hosts});
    set("orte_keep_fqdn_hostnames", "1");  // node1.cluster.example is not node1
    // A daemon whose machine is gone is noticed within seconds, not hours.
    set("oob_tcp_keepalive_time", "2");
    set("oob_tcp_keepalive_intvl", "1");
    set("oob_tcp_keepalive_probes", "3");
  }
  for (const std::string& name : o.pass) out.insert(out.end(), {"-x", name});
  out.push_back(program);
  out.insert(out.end(), args.begin(), args.end());
  return out;
}

}  // namespace nabla::cli
