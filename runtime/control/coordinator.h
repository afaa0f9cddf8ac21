// Who watches the ranks of a run: every rank has one connection to it. Of what goes wrong the first cause wins, and all
// ranks get it. No engine of communication says which rank broke; this does. docs/ranks.md.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/control/states.h"

namespace nabla::control {

struct CoordinatorOptions {
  std::string address = "127.0.0.1:0";  ///< where to listen
  std::string token;                    ///< who does not know it is a stranger
  uint32_t ranks = 0;                   ///< 0: as many as the first one says
  uint32_t epoch = 0;                   ///< the how-many-eth start of the job, from 0: others are stale
  double join_s = 60;                   ///< how long all ranks may take to come
  double heartbeat_s = 1;               ///< ranks say this often that they live
  double lost_s = 5;                    ///< a rank that has said nothing for so long is lost
  double progress_s = 60;               ///< so long a rank may wait for another, and a second more for every MiB
  double grace_s = 10;                  ///< after the cause is known, for the ranks to leave
  std::function<void(const std::string&)> warn;  ///< lines for people: stragglers, strangers
};

/// How far a rank was when it was heard of last.
struct RankView {
  RankState state;
  int64_t pid = 0;
  std::string host;
  uint64_t run = 0, sequence = 0, bytes = 0;
  int64_t waiting_us = 0;   ///< for how long by now; 0: it computes
  std::string what;         ///< the exchange that it is at
  int64_t running_us = 0, waited_us = 0;  ///< since all ranks have come, and how much of it in exchanges that are over
  uint64_t exchanged_bytes = 0;
  std::string says;         ///< its metrics, for people
  int64_t clock_offset_us = 0;  ///< of its wall clock to the coordinator's
};

class Coordinator {
 public:
  /// Listens and serves from a thread of its own. E0612 when it cannot listen.
  static Result<std::unique_ptr<Coordinator>> start(const CoordinatorOptions& options);
  ~Coordinator();

  /// "127.0.0.1:40123"
  const std::string& address() const;
  /// Waits until all ranks have left in order, or the cause is known and they have left or had their grace. E06xx: the
  /// cause. E0805: they were stopped, all after the same run.
  Status wait();
  /// Something that only the caller knows has ended the run; the first cause stays.
  void fail(const Diagnostic& why);
  /// Asks all ranks to end after a run that none has gone beyond. Does nothing before they have started.
  void ask_to_stop();
  std::vector<RankView> view() const;
  bool over() const;

 private:
  class Server;
  explicit Coordinator(std::unique_ptr<Server> server);
  std::unique_ptr<Server> server_;
};

}  // namespace nabla::control
