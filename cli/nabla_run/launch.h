// How this process came to run: by hand, or as a rank that a launcher started.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/comm/engines.h"

namespace nabla::cli {

/// What the command line says of ranks.
struct RankFlags {
  std::optional<uint32_t> rank, world_size, local_rank;
  std::string rendezvous;  ///< "HOST:PORT"
};

/// A rank of several processes.
struct Launched {
  std::string by;               ///< "Open MPI (OMPI_COMM_WORLD_RANK)"; empty: by hand
  uint32_t rank = 0, ranks = 1;
  std::optional<uint32_t> local_rank, local_ranks;  ///< of this machine
  std::string rendezvous;       ///< where rank 0 can be reached; empty: the launcher does not say
  bool mpi = false;             ///< MPI can find the others
  uint32_t epoch = 0;           ///< the how-many-eth start of the job (NABLA_EPOCH)
  /// Do ranks of this engine meet at the rendezvous, without MPI? `engine` may be null.
  bool meets(const comm::Engine* engine) const { return engine && engine->meets_alone && (!mpi || !rendezvous.empty()); }
};

/// Looks, in this order, at the flags, NABLA_*, Open MPI, MPICH, SLURM, torchrun's names, and Kubernetes' indexed jobs; the
/// first that names a rank wins. Of SLURM a step with more than one task counts. E0901 for a set that does not fit
/// together, with the names of the variables and their values. `env` gives a variable or null.
Result<Launched> launched(const RankFlags& flags, const std::function<const char*(const char*)>& env);

/// A line of a hosts file: "node1", "node1:4", "node1 slots=4"; text after # is left out.
struct Host {
  std::string name;
  uint32_t slots = 1;
};
/// E0801, E0901 with the line.
Result<std::vector<Host>> read_hosts(const std::string& path);

struct MpirunOptions {
  uint32_t ranks = 0;
  std::vector<Host> hosts;          ///< none: this machine
  std::vector<std::string> pass;    ///< names of environment variables that ranks on other machines get
  bool root = false;                ///< this user is root
};
/// The command that starts `program` on all ranks, with its arguments.
std::vector<std::string> mpirun_command(const MpirunOptions& options, const std::string& program,
                                        const std::vector<std::string>& args);

}  // namespace nabla::cli
