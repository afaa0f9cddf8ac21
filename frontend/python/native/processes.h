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
#include "runtime/comm/transport.h"
#include "runtime/comm/world.h"
#include "runtime/format/ranks_generated.h"

namespace nabla::python {

/// All processes that a launcher started, of which this is one, or with the engine `local` this one alone. One thread at a
/// time uses it. Throws Error.
class Processes {
 public:
  /// `timeout_s`: how long this rank waits for others, a second more for every MiB.
  Processes(const std::string& engine, double timeout_s);
  std::string engine() const { return transport_->name(); }
  uint32_t rank() const { return transport_->rank(); }
  uint32_t ranks() const { return transport_->ranks(); }
  double timeout_s() const { return timeout_s_; }
  /// Threads that a rank may have where those of its machine share the CPUs.
  int threads() const;

  /// A collective of all ranks: `call` says which, its arrays and their bytes apart. Both may be the same array.
  void exchange(comm::CollectiveCall call, const Literal& from, Literal& to);
  /// Gives every rank the values of rank 0.
  void share(std::vector<Literal>& values);
  /// What exec::SessionOptions::world asks for.
  std::function<Result<std::unique_ptr<comm::World>>(const format::Ranks&, uint32_t in_flight)> world() const;

  /// Calls f, in which this rank may wait for others. While it does, SIGTERM makes it fail with E0610, which says for whom
  /// it waited: launchers end all ranks so when one has ended. After such a failure every call throws it.
  template <class F>
  auto with_others(F f) {
    if (failure_) throw Error(*failure_);
    try {
      Waiting waiting;
      return f();
    } catch (const Error& e) {
      keep(e);
      throw;
    }
  }
  /// Whether an exchange has failed: then the others are not waited for.
  bool failed() const { return failure_.has_value(); }
  void close();

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
  void keep(const Error& e);

  std::shared_ptr<comm::Transport> transport_;
  double timeout_s_;
  std::vector<uint8_t> table_;
  std::unique_ptr<comm::World> world_;
  std::optional<Diagnostic> failure_;
};

}  // namespace nabla::python
