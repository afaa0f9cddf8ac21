#include "ir/reference/meeting.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

namespace nabla::ir {
namespace {

/// Ends the evaluation of a rank whose peers cannot come.
struct Abandoned {};

/// Where the ranks of one run meet. A rank goes on when all of its group have come to the same operation, and an error
/// is found only when no rank can run: what is reported does not depend on which thread was faster.
class Meeting {
 public:
  explicit Meeting(const Mesh& mesh) : mesh_(mesh), states_(static_cast<size_t>(mesh.ranks())) {}

  std::vector<Literal> exchange(int64_t rank, const Axes& axes, const std::string& what, const Literal& mine) {
    std::vector<int64_t> group = group_of(mesh_, axes, rank);
    std::unique_lock lock(mutex_);
    Round& round = rounds_[{what, group[0]}];
    // Who left the last round early may be back before all have left it.
    changed_.wait(lock, [&] { return failure_ || !round.complete; });
    if (failure_) throw Abandoned{};
    round.parts.resize(group.size());
    round.parts[coordinate(mesh_, axes, rank)] = mine;
    states_[rank] = {State::kWaits, what, group};
    if (++round.arrived == group.size()) {
      round.complete = true;
      for (int64_t r : group) states_[r] = {};
      changed_.notify_all();
    }
    fail_if_stuck();
    changed_.wait(lock, [&] { return failure_ || round.complete; });
    if (failure_) throw Abandoned{};
    std::vector<Literal> out;
    for (const Literal& part : round.parts) out.push_back(Literal::from_bytes(part.dtype(), part.shape(), part.data()));
    if (++round.left == group.size()) {
      round = Round{};
      changed_.notify_all();
    }
    return out;
  }

  void end(int64_t rank) {
    std::lock_guard lock(mutex_);
    states_[rank] = {State::kEnded, "", {}};
    fail_if_stuck();
  }

  /// Ends all ranks.
  void fail(Diagnostic why) {
    std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(why);
    changed_.notify_all();
    throw Abandoned{};
  }

  const std::optional<Diagnostic>& failure() const { return failure_; }

 private:
  struct Round {
    std::vector<Literal> parts;
    size_t arrived = 0, left = 0;
    bool complete = false;
  };
  struct State {
    enum Kind { kRuns, kWaits, kEnded } kind = kRuns;
    std::string what;  // it waits in
    std::vector<int64_t> group;
  };

  // Nobody runs, and somebody waits: for the first of its group that has not come.
  void fail_if_stuck() {
    auto runs = [](const State& s) { return s.kind == State::kRuns; };
    if (failure_ || std::ranges::any_of(states_, runs)) return;
    auto waits = std::ranges::find(states_, State::kWaits, &State::kind);
    if (waits == states_.end()) return;
    int64_t rank = waits - states_.begin();
    for (int64_t r : waits->group) {
      const State& peer = states_[r];
      if (peer.kind == State::kWaits && peer.what == waits->what) continue;
      failure_ = peer.kind == State::kEnded
                     ? error(Code::kInvalidModule, "rank {} waits in {}, and rank {} has ended", rank, waits->what, r)
                     : error(Code::kInvalidModule, "rank {} comes to {}, rank {} of its group to {}", rank, waits->what,
                             r, peer.what);
      break;
    }
    changed_.notify_all();
  }

  const Mesh& mesh_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<std::string, int64_t>, Round> rounds_;  // by what is done and the first rank of the group
  std::vector<State> states_;
  std::optional<Diagnostic> failure_;
};

class PeersOfRank : public Peers {
 public:
  PeersOfRank(Meeting& meeting, const Mesh& mesh, int64_t rank, const Peers* outer)
      : meeting_(meeting), mesh_(mesh), rank_(rank), outer_(outer) {}
  std::vector<Literal> exchange(const Axes& axes, const TypedOp& op, const Literal& mine) override {
    std::string what = fmt::format("{} of {} along {}", op.op.name, op.operands[0].str(), str(axes));
    if (!knows(axes))
      meeting_.fail(error(Code::kNoRule,
                          "{} is in a region inside of the one that has these axes: the interpreter joins the "
                          "ranks of the innermost region alone",
                          what));
    return meeting_.exchange(rank_, axes, what, mine);
  }
  int64_t coordinate(const Axes& axes) const override {
    return knows(axes) || !outer_ ? ir::coordinate(mesh_, axes, rank_) : outer_->coordinate(axes);
  }

 private:
  bool knows(const Axes& axes) const {
    return std::all_of(axes.begin(), axes.end(), [&](const AxisRef& a) { return mesh_.size_of(a.name) > 0; });
  }

  Meeting& meeting_;
  const Mesh& mesh_;
  int64_t rank_;
  const Peers* outer_;
};

}  // namespace

std::optional<Diagnostic> run_together(const Mesh& mesh, const Peers* outer,
                                       const std::function<void(int64_t, Peers&)>& run) {
  Meeting meeting(mesh);
  std::vector<std::thread> threads;
  for (int64_t r = 0; r < mesh.ranks(); ++r)
    threads.emplace_back([&, r] {
      PeersOfRank peers(meeting, mesh, r, outer);
      try {
        run(r, peers);
      } catch (const Abandoned&) {
      }
      meeting.end(r);
    });
  for (std::thread& t : threads) t.join();
  return meeting.failure();
}

}  // namespace nabla::ir
