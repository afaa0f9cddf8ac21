// A rank's connection to the coordinator: heartbeats of its own thread, and what the others have to say.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/diagnostic.h"
#include "runtime/comm/recorder.h"

namespace nabla::control {

struct MemberOptions {
  std::string address, token;
  uint32_t epoch = 0, rank = 0, ranks = 0;
  std::string bundle, mesh;  ///< its hash; for people
  std::string job;           ///< options that all ranks must have alike, a line each: "--seed 7"
  double join_s = 60;        ///< how long all ranks may take to come
  double heartbeat_s = 1;
  double lost_s = 5;         ///< after so long without a word the coordinator is lost (E0612)
  double grace_s = 10;       ///< after the cause is known; a rank that has not ended then is ended hard:
  std::function<void(const Diagnostic&)> end_hard;  ///< called by the connection's thread; does not return
};

class Member {
 public:
  /// Comes to the coordinator, and waits until all ranks have. `board` outlives it and is what heartbeats tell.
  /// E0614 when the ranks do not fit together, E0612 when the coordinator cannot be reached; the coordinator's cause.
  static Result<std::unique_ptr<Member>> join(const MemberOptions& options, const comm::Board& board);
  /// Ends without goodbye: the coordinator takes that for a loss.
  ~Member();

  /// Why the run is over; nothing while it is not. Cheap.
  std::optional<Diagnostic> verdict() const;
  /// This rank's run has failed. Returns what the coordinator makes of it: the first cause.
  Diagnostic report(const Diagnostic& why);
  /// The rank ends in order: its work is done, or it was stopped before. Returns when all ranks have said so, or when one
  /// of them has failed meanwhile.
  void leave(bool stopped = false);

  /// Before a run: may it begin? False: all ranks stop before it. May wait for the others to agree.
  bool may_run(uint64_t run);
  /// Asks the coordinator to stop all ranks.
  void ask_to_stop();

  /// The store of the run: E0612 when the coordinator is gone, E0611 when nobody puts the key in time.
  Status put(const std::string& key, const std::string& value);
  Result<std::string> get(const std::string& key, double timeout_s);

 private:
  class Client;
  explicit Member(std::unique_ptr<Client> client);
  std::unique_ptr<Client> client_;
};

}  // namespace nabla::control
