// Writes checkpoints while the run goes on: the caller's thread copies the state, a thread of the writer does the rest.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/meeting.h"
#include "runtime/exec/session.h"

namespace nabla::checkpoint {

/// Of all checkpoints of a run so far.
struct Cost {
  int64_t written = 0, failed = 0;
  uint64_t bytes = 0;  ///< that this process has written for one
  double copy_s = 0;   ///< the run stood still for the copy
  double wait_s = 0;   ///< and for the write of the one before
  double write_s = 0;  ///< beside the run
};

struct WriterOptions {
  std::string dir;
  Retention keep;
  std::string written_by;  ///< for people
  Layout layout;           ///< of all ranks; a party of several processes needs it, each of which runs the rank of its number
};

/// All processes of the party make one, and call save and finish in the same order.
class Writer {
 public:
  /// Makes the folder, removes what unfinished writes of earlier starts have left, and takes the memory for the copy. The session
  /// and what `party` meets by outlive it. E0803 when nothing can be written there, or another run writes there.
  static Result<std::unique_ptr<Writer>> create(const exec::Session& session, WriterOptions options, Party party);
  /// Waits for the write that is under way.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Waits until the one before is written, copies the state, and goes on. The error is that of the one before, whichever process
  /// had it; the new one is begun all the same. E0607 when the state cannot be copied.
  Status save(int64_t step, format::Metadata metadata);
  /// Waits for the last one, and returns how it went.
  Status finish();
  /// How the last write went, where that is known and has not been told: does not wait.
  Status ended();
  const Cost& cost() const { return cost_; }
  /// The folder of the newest that has been written; empty: none.
  const std::string& newest() const { return newest_; }

 private:
  Writer(const exec::Session& session, WriterOptions options, Party party, std::optional<FolderLock> lock);
  struct Work {
    int64_t number = 0, step = 0;  ///< the how-many-eth save
    format::Metadata metadata;
  };
  void serve();
  Status write(const Work& work);
  Status commit_all(const Work& work, const std::string& folder);
  Result<Manifest> collect(const Work& work, const std::string& folder);
  Status take_result();

  const exec::Session& session_;
  WriterOptions options_;
  Party party_;
  std::optional<FolderLock> lock_;  ///< of the first process
  std::string header_;       ///< of this process's file
  std::vector<exec::StatePiece> pieces_;  ///< of this process's file
  std::vector<char> copy_;   ///< the elements of these pieces, one after the other
  std::vector<Leaf> leaves_;
  std::vector<Placement> placements_;  ///< of all processes
  Cost cost_;
  std::string newest_;
  int64_t count_ = 0;  ///< of saves

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Work> work_;      ///< under way
  std::optional<Status> result_;  ///< of the last, not yet told
  std::string result_folder_;
  uint64_t result_bytes_ = 0;
  double result_s_ = 0;
  bool quit_ = false;
  std::thread thread_;
};

}  // namespace nabla::checkpoint
