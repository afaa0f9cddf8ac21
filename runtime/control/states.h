// The states of a job and of its ranks, as the coordinator knows them. For each kind of state one function, `after`, says which
// state follows an event. An event that does not fit the state leaves it as it is.
#pragma once

#include <cstdint>

namespace nabla::control {

/// What the coordinator knows of a rank: its last message that matters here, and the state of its process.
struct RankState {
  enum class Said : uint8_t {
    kNothing,
    kHello,    ///< it has joined
    kFailure,  ///< it has reported the error that will end it
    kGoodbye,  ///< it needs the others no more
  };
  enum class Process : uint8_t {
    kRuns,
    kLost,   ///< its connection is closed, and nobody has said why
    kEnded,  ///< its keeper has said how it ended
  };
  Said said = Said::kNothing;
  Process process = Process::kRuns;

  bool has_joined() const { return said != Said::kNothing || process != Process::kRuns; }
  bool has_left() const { return said == Said::kGoodbye; }
  bool is_gone() const { return process != Process::kRuns; }
  /// Is it gone without a goodbye and without a report?
  bool is_missed() const { return is_gone() && said < Said::kFailure; }
  bool operator==(const RankState&) const = default;
};
enum class RankEvent : uint8_t { kHello, kReport, kGoodbye, kClosed, kObituary };
RankState after(RankState state, RankEvent event);

/// Where the whole job stands.
enum class JobState : uint8_t {
  kJoining,  ///< not all ranks have come
  kRunning,
  kRefused,  ///< a cause of failure was found before all ranks had come
  kFailed,   ///< a cause of failure was found after that
  kOver,     ///< no rank needs the coordinator any more
};
enum class JobEvent : uint8_t { kAllJoined, kCause, kAllGone };
JobState after(JobState state, JobEvent event);
/// Have all ranks come?
inline bool has_started(JobState state) { return state != JobState::kJoining && state != JobState::kRefused; }

/// How far the ranks are in stopping together: the coordinator proposes a last run until no rank has gone beyond it.
enum class StopState : uint8_t {
  kNotAsked,
  kAsked,     ///< somebody wants all ranks to stop, and no proposal is open
  kProposed,  ///< ranks are asked whether they can stop after a run
  kAgreed,    ///< they stop after the proposed run
  kStopped,   ///< a rank has left because of the agreement
};
enum class StopEvent : uint8_t { kAsk, kPropose, kRefuse, kAgree, kLeave };
StopState after(StopState state, StopEvent event);

/// Who is at the other end of a connection.
enum class Peer : uint8_t {
  kStranger,  ///< it has not said who it is
  kRank,
  kKeeper,  ///< of a rank that has ended
  kClosed,
};

}  // namespace nabla::control
