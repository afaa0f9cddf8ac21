#include "cli/nabla_run/leftovers.h"

#include <ftw.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/control/wire.h"

namespace nabla::cli {
namespace {

/// Open MPI calls a machine by its whole name or by its first part (orte_keep_fqdn_hostnames).
std::vector<std::string> names_of_this_host() {
  std::string name = control::host_name();
  return {name, name.substr(0, name.find('.'))};
}

std::string temporary_folder() {
  for (const char* variable : {"TMPDIR", "TEMP", "TMP"})
    if (const char* value = std::getenv(variable); value != nullptr && *value != 0) return value;
  return "/tmp";
}

int remove_one(const char* path, const struct stat*, int, FTW*) {
  (void)std::remove(path);
  return 0;
}

}  // namespace

void remove_session(pid_t mpirun) {
  for (const std::string& host : names_of_this_host())
    (void)::nftw(fmt::format("{}/ompi.{}.{}/pid.{}", temporary_folder(), host, ::getuid(), mpirun).c_str(), remove_one, 16,
                 FTW_DEPTH | FTW_PHYS);
}

void remove_rank_leftovers() {
  const char *job = std::getenv("PMIX_NAMESPACE"), *rank = std::getenv("OMPI_COMM_WORLD_NODE_RANK");
  if (job == nullptr || rank == nullptr) return;
  for (const std::string& host : names_of_this_host())
    ::unlink(fmt::format("/dev/shm/vader_segment.{}.{}.{:x}.{}", host, ::getuid(), std::strtoul(job, nullptr, 10), rank).c_str());
}

}  // namespace nabla::cli
