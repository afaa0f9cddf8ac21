// Loaded bundles, as the module's functions share them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "frontend/cpp/tensor.h"
#include "frontend/python/native/placement.h"
#include "frontend/python/native/processes.h"
#include "runtime/base/literal.h"
#include "runtime/exec/session.h"

namespace nabla::python {

template <class T>
T value_or_throw(Result<T> result) {
  if (!result.ok()) throw Error(result.errors());
  return std::move(*result);
}
inline void check(Status status) {
  if (!status.ok()) throw Error(status.errors());
}

/// A function that was compiled for the ranks of a mesh. The module has its shardings.
struct CompiledFunction {
  ir::Module module;
  bool searched = false;  ///< auto_shard chose the shardings
};

/// A loaded bundle; one thread at a time uses it. Throws Error.
class Bundle {
 public:
  /// `options` as of a session of its own. With `processes` this process runs its rank; of one rank it is E0614.
  static std::shared_ptr<Bundle> of_bytes(std::string bytes, const std::string& what, const exec::SessionOptions& options,
                                          std::shared_ptr<Processes> processes = nullptr);
  /// With `processes` this process runs its rank of a bundle for several; of one rank it runs that, unless `each`, which is
  /// then E0614.
  static std::shared_ptr<Bundle> open(const std::string& path, int threads, const std::string& target, bool check_nan,
                                      const std::string& rank_class, std::shared_ptr<Processes> processes, bool each);
  explicit Bundle(std::unique_ptr<exec::Session> session) : session_(std::move(session)) {}

  exec::Session& session() { return *session_; }
  /// What of_bytes was given; empty for a bundle of a file.
  const std::string& bytes() const { return bytes_; }
  /// How the results of its one entry are laid out; empty: not at all.
  std::vector<PlacementRef> placements;
  /// The compiler's notes, one per kind, and its input. Set only for a function that this process compiled for several ranks.
  std::vector<std::string> notes;
  std::shared_ptr<const CompiledFunction> compiled;
  int entry(const std::string& name) { return value_or_throw(session_->need_entry(name)); }

  /// The results of an entry, without Python's lock. E0702 and E0703 say where the arrays do not fit; E0707 where a
  /// debug callback runs the bundle that it belongs to.
  std::vector<Literal> run(int entry, const std::vector<Literal>& inputs);
  /// Of several processes every one gets the whole value, as from `run`. Called with Python's lock.
  Literal state(int leaf);
  void save_state(const std::string& path);
  /// Does this process run one rank, and others the others? They make the same calls in the same order.
  bool spread() const { return processes_ != nullptr; }
  /// All ranks have made it by the same call, else E0614. `name`: what messages call it. Called with Python's lock.
  void agree(const std::string& call, const std::string& name);
  /// This rank has changed its state by a call, "set_state(\"w\")", that needs no others: the next one that all make tells whether
  /// they have done the same, with the same `content` (format::content_of), which is asked for where there are others.
  void wrote(const std::string& call, const std::function<std::string()>& content);

 private:
  static std::shared_ptr<Bundle> of(format::Bundle file, exec::SessionOptions options, std::shared_ptr<Processes> processes, bool each);
  Call after_writes(Call call);
  Call call_of(int entry, const std::vector<Literal>& inputs);
  std::vector<Literal> run_plain(int entry, const std::vector<Literal>& inputs);  // arrays of just the types

  std::shared_ptr<Processes> processes_;  // null: all ranks are here
  uint64_t key_ = 0;
  std::string name_;
  uint64_t wrote_key_ = 0;  // of what was written since the last call of all; 0: nothing
  std::string wrote_;       // for people
  std::unique_ptr<exec::Session> session_;
  std::string bytes_;
  std::mutex mutex_;
  std::atomic<std::thread::id> runner_{};  // the thread that holds mutex_
};

bool fits(const exec::TensorInfo& info, const Literal& array);

/// Ends the loops of all bundles that run now, as SIGINT does.
void stop_loops();

}  // namespace nabla::python
