// The process that keeps a rank: it outlives it, and so can say how it ended.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runtime/comm/recorder.h"

namespace nabla::control {

/// Signals to stop that come so soon after the first one ask for the same: who stops a job sends one to all of its processes, and a
/// rank gets that of its keeper too.
constexpr double kTogetherS = 2;

/// Memory that a rank's process and its keeper share.
struct Shared {
  comm::Board board;
  char address[256] = "", token[64] = "", folder[1024] = "";  ///< of the coordinator; where boards are written to
  std::atomic<uint32_t> rank{UINT32_MAX};                      ///< UINT32_MAX: not known yet
  std::atomic<uint32_t> epoch{0};
  std::atomic<int> meeting{0};  ///< of a keeper that is to be the coordinator: 1: it is, at `address`; 2: it cannot be
  std::atomic<bool> met{false};  ///< the rank has come through what all ranks come to before they can talk: MPI_Init
  std::atomic<int> ends_with{-1};  ///< the rank's exit code, once all ranks have done their work; -1: they have not
};

/// Fresh shared memory, which nothing frees. E0804.
Result<Shared*> share();

struct KeepOptions {
  int lost = 1;                                ///< exit code where a signal ended the rank
  int stopped = 0;                             ///< exit code of a rank that ended in order before its work was done
  int deaf = 0;                                ///< exit code of a rank that has lost the coordinator, to which nothing is told then
  std::function<void()> begin;                 ///< called in the keeper when there is a rank to keep; may be null
  /// Is the rank to be killed by now, and with which exit code does its keeper end then? It says itself why. `stands`: the rank's
  /// process was stopped (SIGSTOP). May be null.
  std::function<std::optional<int>(bool stands)> give_up;
  /// Called after the rank has failed and all is told. Null: waits until the coordinator has ended the run, because a
  /// launcher kills all others when one process ends so.
  std::function<void()> end;
};

/// Forks. Returns true in the rank's process, which ends with its keeper. The keeper hands on what the rank writes to
/// stderr, and signals to stop: the first with the value 1 (sigqueue), and one that comes more than kTogetherS later, which ends
/// it at once, with 2. The end of the process that started the keeper is such a first one. When the rank has not ended in
/// order it tells the coordinator and writes the board, unless all ranks had done their work by then, which is only a warning. It
/// returns false, with the exit code that it is to end with: that of the rank, of `give_up`, or `lost`. E0804 if the system gives no
/// process.
Result<bool> keep_rank(Shared& shared, const KeepOptions& options, int& exit_code);

/// The name of a rank's board: "rank-3.json".
std::string board_file(uint32_t rank);
/// Writes the board of a rank into a folder. E0803.
Status write_board(const comm::Board& board, uint32_t rank, uint32_t epoch, const std::string& folder);

/// Can reports be written into this folder, which may have to be made? E0803, also where a file of another kind has a report's name.
Status check_reports(const std::string& folder);

/// Removes the reports of an earlier run from a folder, if there are any: what is in a file makes it one.
void clear_reports(const std::string& folder);

/// What the boards and the cause in a folder say, in a sentence and a line per rank, and which of these files cannot be read. E0801
/// where there are none, E0104 where none can be read.
Result<std::string> postmortem(const std::string& folder);
/// Writes FOLDER/cause.json.
Status write_cause(const Diagnostic& why, const std::string& folder);

}  // namespace nabla::control
