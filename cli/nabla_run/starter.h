// What starts the ranks of a job on processes: mpirun, or what stands for it on this machine.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/diagnostic.h"

namespace nabla::cli {

/// mpirun, or a process that starts ranks here, and everything that it started on this machine.
class Starter {
 public:
  /// `here`: so many ranks on this machine, of which each runs the command; 0: the command starts them. E0602 where there is none.
  static Result<Starter> start(const std::vector<std::string>& command, uint32_t here);

  /// Its exit code once it has ended.
  std::optional<int> ended();
  void kill(int signal);
  /// The signal that somebody else has ended it by; 0: none.
  int foreign_signal() const { return signal_; }
  /// Has somebody sent it a signal to stop? It blocks them; the ranks are to stop in order.
  bool was_told_to_stop() const;

  /// Writes what mpirun has of the ranks' output to stdout, whose failure mpirun itself would not mind, and waits for it for at
  /// most `wait_ms`. True: there was some, or stdout takes none at present. Of ranks that were started here there is none: they write to
  /// stdout themselves.
  bool hand_on(int wait_ms);
  /// The rest of it, after the end, unless `give_up`. E0803 when some of the output could not be written or was given up; what
  /// followed was dropped.
  Status finish_output(const std::function<bool()>& give_up);

  /// Ends what it has left behind, a second after it has ended itself.
  static void end_leftovers();

 private:
  Starter(pid_t pid, int output) : pid_(pid), output_(output) {}
  /// Writes what has come within the time. False: nothing has.
  bool pass_on(int wait_ms);

  pid_t pid_;
  int output_;  // a pipe; -1: none, or its end was read
  std::optional<int> code_;
  std::optional<Diagnostic> failed_;
  int signal_ = 0;
  bool killed_ = false;  // by this process
};

}  // namespace nabla::cli
