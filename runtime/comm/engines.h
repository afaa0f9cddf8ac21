// The engines by which the ranks of a run exchange values, one row for each. Code that depends on the engine reads a column of the row
// and does not compare names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace nabla::comm {

struct Engine {
  enum class Kind : uint8_t { kLocal, kMpi, kNccl };
  Kind kind;
  const char* name;
  bool processes;        ///< every rank is a process of its own, not a thread
  bool needs_gpus;       ///< values go from GPU to GPU: every program of the bundle runs on one
  bool checks_messages;  ///< messages between processes can carry checksums
  bool meets_alone;      ///< ranks can meet at an address, without MPI
  bool starts_alone;     ///< nabla-run starts the processes itself, on its own machine; otherwise mpirun does, on one or several
};

std::span<const Engine> engines();
/// Null: there is none of this name.
const Engine* engine_named(std::string_view name);
/// The names for a message: "local, mpi or nccl". `processes_alone` leaves out engines of threads; `quote` is put around each name.
std::string engine_names(bool processes_alone, std::string_view quote = "");

}  // namespace nabla::comm
