// nabla-run as one rank of several processes.
#pragma once

#include <memory>
#include <string>

#include "cli/nabla_run/launch.h"
#include "cli/nabla_run/run.h"
#include "cli/nabla_run/options.h"
#include "runtime/control/keeper.h"
#include "runtime/control/member.h"
#include "runtime/exec/session.h"

namespace nabla::cli {

/// Can the ranks that a launcher has started meet, with this engine? E0901.
Status check_meeting(const RunOptions& options, const Launched& launched);
/// Keeps the rank that this process was started as (control::keep_rank). Returns true in the rank's process; otherwise
/// `ends_with` is what this one ends with. The keeper of rank 0 is the coordinator where nobody else is.
Result<bool> keep(const RunOptions& options, const Launched& launched, control::Shared& shared, int& ends_with);

/// The rank's side: its connections to the others and to the coordinator.
class RankProcess {
 public:
  /// Meets all others. `digest` is that of the bundle, `mesh` is for people. E06xx, as Member::join and open_transport.
  static Result<std::unique_ptr<RankProcess>> begin(const RunOptions& options, const Launched& launched,
                                                    const Hooks& hooks, control::Shared& shared, const std::string& digest,
                                                    const std::string& mesh);
  ~RankProcess();

  /// Sets what makes a session run this rank alone.
  void apply(exec::SessionOptions& settings) const;
  control::Member& member() { return *member_; }
  uint32_t rank() const { return launched_.rank; }
  uint32_t ranks() const { return launched_.ranks; }
  uint32_t epoch() const { return shared_.epoch; }
  const comm::Board& board() const { return shared_.board; }
  /// Hands its metrics on to who supervises the ranks.
  void say(const std::string& metrics) const;

  /// Before a run: may it begin? False: all ranks stop before it, because one was asked to.
  bool may_run();
  bool stopped() const { return stopped_; }

  /// Tells the others of an error of this rank, or hears which came first. Returns the first cause, with this rank's name.
  Diagnostic failed(const Diagnostic& why);
  /// All ranks end in order, this one with that exit code.
  Status end(int code);

 private:
  RankProcess(const RunOptions& options, Launched launched, const Hooks& hooks, control::Shared& shared)
      : options_(options), launched_(std::move(launched)), hooks_(hooks), shared_(shared) {}
  Status meet();

  const RunOptions& options_;
  Launched launched_;
  const Hooks& hooks_;
  control::Shared& shared_;
  std::shared_ptr<comm::Transport> transport_;  // null: MPI is not needed
  std::unique_ptr<control::Member> member_;
  bool asked_ = false, stopped_ = false;
};

}  // namespace nabla::cli
