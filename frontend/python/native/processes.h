// The processes that a launcher started, as nabla.distributed and bundles of several ranks use them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontend/cpp/tensor.h"
#include "runtime/base/literal.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/engines.h"
#include "runtime/comm/recorder.h"
#include "runtime/comm/transport.h"
#include "runtime/comm/world.h"
#include "runtime/control/coordinator.h"
#include "runtime/control/member.h"
#include "runtime/format/ranks_generated.h"

namespace nabla::python {

/// What a rank is about to do together with the others.
struct Call {
  uint64_t key = 0;                  ///< the same on all ranks that do the same
  std::function<std::string()> says; ///< for people, where they do not
};
/// A number for these bytes, after those that `key` stands for.
uint64_t key_of(std::string_view bytes, uint64_t key = 14695981039346656037u);

/// All processes that a launcher started, of which this is one, or with the engine `local` this one alone. One thread at a
/// time uses it. Throws Error.
class Processes {
 public:
  /// `engine` names a row of comm::engines(). Of one without processes, this is the only rank.
  /// `timeout_s`: how long this rank waits for others, a second more for every MiB.
  /// `heartbeat_s`: how often ranks say that they live; after five of these without a word a rank is lost. 0: nobody watches them.
  Processes(const std::string& engine, double timeout_s, double heartbeat_s);
  std::string engine() const { return engine_->name; }
  uint32_t rank() const { return transport_->rank(); }
  uint32_t ranks() const { return transport_->ranks(); }
  double timeout_s() const { return timeout_s_; }
  /// Threads that a rank may have where those of its machine share the CPUs.
  int threads() const;
  /// Of this machine's GPUs, modulo their number.
  uint32_t gpu() const;

  /// All ranks are about to make this call, else every one gets E0614, which says who calls what.
  void agree(const Call& call);
  /// A collective of all ranks: `call` says which, its arrays and their bytes apart. Both may be the same array.
  void exchange(const comm::CollectiveCall& call, const Literal& from, Literal& to);
  /// Gives every rank the values of rank 0.
  void share(std::vector<Literal>& values);
  /// What exec::SessionOptions::world asks for, of programs.
  std::function<Result<std::unique_ptr<comm::World>>(const format::Ranks&, uint32_t in_flight)> world() const;

  /// Makes a call, in which this rank may wait for others. While it does, SIGTERM makes it fail with E0610, which says for
  /// whom it waited: launchers end all ranks so when one has ended. After such a failure every call throws it.
  template <class F>
  auto with_others(const Call& call, F f) {
    return with_others([&] {
      agree(call);
      return f();
    });
  }
  template <class F>
  auto with_others(F f) {
    if (failure_) throw Error(*failure_);
    try {
      Waiting waiting;
      return f();
    } catch (const Error& e) {
      throw Error(kept(e.diagnostics()));
    }
  }
  /// Whether an exchange has failed: then the others are not waited for.
  bool failed() const { return failure_.has_value(); }
  void close();
  /// Tells the others why this rank does not come to what they call.
  void give_up(const std::string& why);

 private:
  // Until its end, SIGTERM is left to who waits; then it ends the process, if it has come and nobody has failed by it.
  class Waiting {
   public:
    Waiting();
    ~Waiting();
    Waiting(const Waiting&) = delete;

   private:
    int exceptions_;
  };
  // With help for who calls from Python.
  Diagnostics kept(Diagnostics why);
  void meet(double heartbeat_s);
  // A collective by a caller who waits already.
  void carry_out(comm::CollectiveCall call, const Literal& from, Literal& to);
  std::optional<Diagnostic> verdict() const;
  // What messages carry, by way of the host.
  std::function<Result<std::unique_ptr<comm::World>>(const format::Ranks&, uint32_t in_flight)> over_messages() const;

  const comm::Engine* engine_;  // programs exchange by it; ranks meet, and exchange host arrays, by messages
  std::shared_ptr<comm::Transport> transport_;
  double timeout_s_;
  comm::Board board_;  // heartbeats tell of it: its runs are calls that all make
  std::unique_ptr<control::Coordinator> coordinator_;  // of rank 0
  std::unique_ptr<control::Member> member_;            // null: nobody watches
  std::vector<uint8_t> table_;
  std::unique_ptr<comm::World> world_;
  std::optional<Diagnostic> failure_;
};

}  // namespace nabla::python
