// One rank's program, loaded: its memory, and its entries ready to run.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/comm.h"
#include "runtime/exec/choose_program.h"
#include "runtime/exec/engine.h"
#include "runtime/exec/parts.h"
#include "runtime/exec/plan.h"
#include "runtime/exec/profile.h"
#include "runtime/exec/session.h"

namespace nabla::exec {

/// How a rank stands to the others.
struct RankPlace {
  comm::Communicator* peers = nullptr;  ///< null: the program runs alone
  std::vector<int64_t> places;          ///< by group of its class, which member it is
  bool first = true;                    ///< debug prints and profiles are those of the first rank
  size_t here = 1;                      ///< ranks that share the spans of a trace
};

/// What a program says of its entries and of its state, which a rank of it has, here or elsewhere.
std::vector<EntryInfo> entries_of(const format::Program& program);
std::vector<TensorInfo> leaves_of(const format::Program& program);

/// Used by one thread at a time. Entries, inputs, outputs and leaves are those of its program: parts, where several
/// ranks share a whole.
class Rank {
 public:
  /// The bundle outlives the rank. Errors of make_cpu_engine, make_gpu_engine and of binding; E0901 for what the engine
  /// cannot do.
  static Result<std::unique_ptr<Rank>> create(const format::Bundle& bundle, const Chosen& chosen,
                                              const SessionOptions& options, RankPlace place);

  const format::Program& program() const { return program_; }
  Engine& engine() { return *engine_; }
  const std::vector<EntryInfo>& entries() const { return entries_; }
  const std::vector<TensorInfo>& leaves() const { return leaves_; }
  char* leaf_data(int leaf) const {
    const format::StateLeaf& at = *program_.state()->Get(static_cast<uint32_t>(leaf));
    return (at.host() ? engine_->host_arena() : engine_->arena()) + at.offset();
  }

  /// As those of Session, on the rank's own arrays.
  Status set_shapes(int entry, std::span<const int64_t* const> shapes);
  const std::vector<int64_t>& output_shape(int entry, int output) const {
    return plans_[entry].current->bound->output_shapes[output];
  }
  Status run(int entry, std::span<const void* const> inputs, std::span<void* const> outputs);
  bool loops(int entry) const;

  /// The limits of this machine, measured once.
  const device::Limits& measured();
  std::unique_ptr<TraceRecorder>& trace() { return trace_; }

 private:
  Rank(const format::Program& program, const SessionOptions& options, RankPlace place)
      : program_(program), options_(options), place_(std::move(place)) {}
  Status prepare(const format::Bundle& bundle);
  Binder binder() { return {.engine = *engine_, .trace = trace_.get(), .check_nan = check_ != nullptr}; }
  EntrySizes sizes(int entry) const {
    return EntrySizes(program_, *program_.entries()->Get(static_cast<uint32_t>(entry)), place_.places);
  }

  const format::Program& program_;
  SessionOptions options_;
  RankPlace place_;
  std::vector<EntryInfo> entries_;
  std::vector<TensorInfo> leaves_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<TraceRecorder> trace_;  ///< null: not asked for, or already written
  std::optional<device::Limits> limits_;
  std::unique_ptr<NanCheck> check_;  ///< null: not asked for
  std::vector<EntryPlan> plans_;     ///< one per entry
  std::vector<int64_t> values_;      ///< of the symbols being solved; kept, so that a step allocates nothing
};

/// Fills a rank's leaf, which is `box` of the whole, from pieces of it.
Status fill_leaf(Rank& rank, int leaf, const Box& box, std::span<const StateView> pieces);

}  // namespace nabla::exec
