#include "ir/reference/ranks.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "ir/op_def.h"
#include "ir/reference/interpreter.h"

namespace nabla::ir {
namespace {

constexpr int64_t kMostRanks = 256;  // a thread each

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
  PeersOfRank(Meeting& meeting, const Mesh& mesh, int64_t rank) : meeting_(meeting), mesh_(mesh), rank_(rank) {}
  std::vector<Literal> exchange(const Axes& axes, const TypedOp& op, const Literal& mine) override {
    return meeting_.exchange(rank_, axes, fmt::format("{} of {} along {}", op.op.name, op.operands[0].str(), str(axes)),
                             mine);
  }
  int64_t coordinate(const Axes& axes) const override { return ir::coordinate(mesh_, axes, rank_); }

 private:
  Meeting& meeting_;
  const Mesh& mesh_;
  int64_t rank_;
};

// Where the part of a rank begins, and how long it is.
struct Box {
  std::vector<int64_t> begins, sizes;
};

Box box_of(const Mesh& mesh, const Sharding& s, const std::vector<int64_t>& shape, int64_t rank) {
  Box out{{}, shape};
  for (size_t d = 0; d < shape.size(); ++d) {
    out.sizes[d] /= shards(mesh, s.dims[d].axes);
    out.begins.push_back(coordinate(mesh, s.dims[d].axes, rank) * out.sizes[d]);
  }
  return out;
}

// f(position in the part, position in the whole)
template <class F>
void for_each_element(const Box& box, const std::vector<int64_t>& shape, F f) {
  int64_t count = count_of(box.sizes);
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = 0;
    for (size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + box.begins[d] + index[d];
    f(i, at);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < box.sizes[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace

Result<std::vector<std::vector<Literal>>> interpret_ranks(const Module& module, std::string_view function,
                                                          std::vector<std::vector<Literal>> args) {
  const Mesh* mesh = module.mesh();
  if (!mesh) return error(Code::kBadSharding, "the module has no mesh, so that it has no ranks");
  int64_t ranks = mesh->ranks();
  if (ranks > kMostRanks)
    return error(Code::kTooLarge, "mesh {} has {} ranks, the interpreter runs at most {}", mesh->name, ranks,
                 kMostRanks);
  if (args.size() != static_cast<size_t>(ranks))
    return error(Code::kOperandCount, "mesh {} has {} ranks, arguments are given for {}", mesh->name, ranks,
                 args.size());
  Meeting meeting(*mesh);
  std::vector<Result<std::vector<Literal>>> results(ranks, std::vector<Literal>());
  std::vector<std::thread> threads;
  for (int64_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      PeersOfRank peers(meeting, *mesh, r);
      try {
        results[r] = interpret(module, function, std::move(args[r]), &peers);
      } catch (const Abandoned&) {
      }
      meeting.end(r);
    });
  for (std::thread& t : threads) t.join();
  for (auto& result : results)
    if (!result.ok()) return std::move(result.errors());
  if (meeting.failure()) return *meeting.failure();
  std::vector<std::vector<Literal>> out;
  for (auto& result : results) out.push_back(std::move(*result));
  return out;
}

std::vector<Literal> cut(const Mesh& mesh, const Sharding& sharding, const Literal& whole) {
  std::vector<Literal> out;
  int64_t width = bytes_of(whole.dtype());
  const auto* from = static_cast<const char*>(whole.data());
  for (int64_t r = 0; r < mesh.ranks(); ++r) {
    Box box = box_of(mesh, sharding, whole.shape(), r);
    Literal part(whole.dtype(), box.sizes);
    auto* to = static_cast<char*>(part.mutable_data());
    for_each_element(box, whole.shape(),
                     [&](int64_t i, int64_t at) { std::copy_n(from + at * width, width, to + i * width); });
    out.push_back(std::move(part));
  }
  return out;
}

Result<Literal> join(const Mesh& mesh, const Sharding& sharding, const std::vector<Literal>& parts, bool tolerant) {
  std::vector<int64_t> shape = parts[0].shape();
  for (size_t d = 0; d < shape.size(); ++d) shape[d] *= shards(mesh, sharding.dims[d].axes);
  Literal out(parts[0].dtype(), shape);
  int64_t width = bytes_of(out.dtype());
  auto* to = static_cast<char*>(out.mutable_data());
  std::vector<int64_t> owner(static_cast<size_t>(out.size()), -1);
  for (int64_t r = 0; r < mesh.ranks(); ++r) {
    int64_t other = -1;
    const auto* from = static_cast<const char*>(parts[r].data());
    for_each_element(box_of(mesh, sharding, shape, r), shape, [&](int64_t i, int64_t at) {
      if (owner[at] < 0) {
        owner[at] = r;
        std::copy_n(from + i * width, width, to + at * width);
      } else if (!std::equal(from + i * width, from + (i + 1) * width, to + at * width)) {
        other = owner[at];
      }
    });
    if (other >= 0 && !tolerant)
      return error(Code::kInvalidModule, "ranks {} and {} have different values of one part of {}", other, r,
                   sharding.str());
  }
  return out;
}

}  // namespace nabla::ir
