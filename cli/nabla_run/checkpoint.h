// Checkpoints of a run, as the command line asks for them: docs/checkpoints.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cli/nabla_run/options.h"
#include "cli/nabla_run/progress.h"
#include "runtime/base/diagnostic.h"
#include "runtime/checkpoint/meeting.h"
#include "runtime/checkpoint/writer.h"
#include "runtime/exec/session.h"

namespace nabla::cli {

class RankProcess;

class Checkpoints {
 public:
  /// Looks for the checkpoint that --resume names, or a start after the first, and loads it into the session and `progress`;
  /// then makes ready for writing. `rank`: null where no other process takes part. E0901 where a run would begin anew in a folder
  /// that has checkpoints, and the errors of find and of Writer::create.
  static Result<std::unique_ptr<Checkpoints>> begin(exec::Session& session, const RunOptions& options, RankProcess* rank,
                                                    checkpoint::Layout layout, ProgressOf& progress);
  /// A write that is under way is waited for, but not for other processes.
  ~Checkpoints();

  /// A checkpoint was loaded: it says what the state is and how far entries have come.
  bool resumed() const { return resumed_; }
  /// After how many runs of the entry in all a part of the line ends that asks for `runs` of them. `done`: so many it has.
  int64_t goal(const std::string& entry, int64_t done, int64_t runs, std::optional<int64_t> start_step);
  /// After every run that writes state. With --checkpoint-required E0803 and the like where one could not be written.
  Status after_run(const ProgressOf& progress);
  /// At the end: waits for the last, and `usable` says that the state is worth one. Shows what all have cost.
  Status end(const ProgressOf& progress, bool usable);
  /// The folder of the newest; empty: none.
  std::string newest() const { return writer_->newest().empty() ? loaded_ : writer_->newest(); }

 private:
  Checkpoints(exec::Session& session, const RunOptions& options) : session_(session), options_(options) {}
  Status resume(const std::string& which, ProgressOf& progress);
  Status save(const ProgressOf& progress);
  Status judge(const Status& written, bool last);

  exec::Session& session_;
  const RunOptions& options_;
  std::unique_ptr<checkpoint::Meeting> meeting_;
  checkpoint::Party party_;
  checkpoint::Layout layout_;  ///< where other processes run other ranks
  std::unique_ptr<checkpoint::Writer> writer_;
  bool resumed_ = false, ended_ = false;
  std::string loaded_;                    ///< the folder
  int64_t last_ = 0;                      ///< the step of the last one, loaded or begun
  std::map<std::string, int64_t> goals_;  ///< of a resumed run, by entry: what the parts of the line so far add up to
};

}  // namespace nabla::cli
