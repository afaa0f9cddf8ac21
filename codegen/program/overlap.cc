#include "codegen/program/overlap.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

namespace nabla::program {
namespace {

// May both name one byte, at some value of their registers?
bool may_meet(const Address& a, const Address& b) {
  if (a.base != b.base || a.index != b.index) return false;
  if (!a.terms.empty() || !b.terms.empty()) return true;
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

uint32_t* handle_of(Action& action) {
  if (auto* a = std::get_if<Collective>(&action)) return &a->handle;
  if (auto* a = std::get_if<Send>(&action)) return &a->handle;
  if (auto* a = std::get_if<Recv>(&action)) return &a->handle;
  if (auto* a = std::get_if<Transfer>(&action)) return &a->handle;
  if (auto* a = std::get_if<Wait>(&action)) return &a->handle;
  return nullptr;
}

/// Of what comes to its end in the order of its starts: exchanges with other ranks, transfers to the GPU, those to the host.
enum class Lane : uint8_t { kExchange, kIn, kOut };
Lane lane_of(const Instruction& i) {
  const auto* t = std::get_if<Transfer>(&i.action);
  return !t ? Lane::kExchange : t->to.address.base == ir::Base::kHost ? Lane::kOut : Lane::kIn;
}

/// One list, whose waits come as late as they may.
class List {
 public:
  explicit List(size_t most) : most_(most) {}

  Instructions run(Instructions list) {
    for (Instruction& i : list) {
      if (std::holds_alternative<Wait>(i.action)) {
        *handle_of(i.action) = renamed_.at(*handle_of(i.action));
        open_.push_back({std::move(i), started_});
        continue;
      }
      bool runs_blocks = !blocks_of(i).empty(), starts = handle_of(i.action) != nullptr;
      // What began first ends first, as on a stream.
      std::map<Lane, size_t> ends;  // by lane, up to which
      for (size_t k = 0; k < open_.size(); ++k)
        if (runs_blocks || meet(i, std::get<Wait>(open_[k].wait.action))) ends[open_[k].lane] = k + 1;
      await([&](size_t k) { return ends.count(open_[k].lane) && k < ends[open_[k].lane]; });
      if (starts) {
        started_ = lane_of(i);
        auto under_way = std::count_if(open_.begin(), open_.end(), [&](const Open& o) { return o.lane == started_; });
        for (; static_cast<size_t>(under_way) >= most_; --under_way) await_first(started_);
        uint32_t given = *handle_of(i.action), now = 0;
        while (std::find(used_.begin(), used_.end(), now) != used_.end()) ++now;
        used_.push_back(now);
        renamed_[given] = now;
        *handle_of(i.action) = now;
      }
      out_.push_back(std::move(i));
    }
    await([](size_t) { return true; });
    return std::move(out_);
  }

 private:
  struct Open {
    Instruction wait;
    Lane lane;
  };
  template <class Ends>
  void await(const Ends& ends) {
    std::deque<Open> left;
    for (size_t k = 0; k < open_.size(); ++k) {
      if (!ends(k)) {
        left.push_back(std::move(open_[k]));
        continue;
      }
      std::erase(used_, std::get<Wait>(open_[k].wait.action).handle);
      out_.push_back(std::move(open_[k].wait));
    }
    open_ = std::move(left);
  }
  void await_first(Lane lane) {
    bool found = false;
    await([&](size_t k) { return open_[k].lane == lane && !std::exchange(found, true); });
  }

  // Reads of what is read may go on.
  static bool meet(const Instruction& i, const Wait& wait) {
    std::vector<Operand> touched = operands_of(i);
    if (const auto* call = std::get_if<LibraryCall>(&i.action)) {
      if (call->workspace) touched.push_back({*call->workspace, ir::Type(DType::kU8, {call->workspace->bytes}), true});
      if (call->fallback)
        touched.insert(touched.end(), call->fallback->operands.begin(), call->fallback->operands.end());
    }
    for (const Operand& mine : touched)
      for (const Operand& theirs : wait.operands)
        if ((mine.written || theirs.written) && may_meet(mine.address, theirs.address)) return true;
    return false;
  }

  size_t most_;
  Instructions out_;
  std::deque<Open> open_;         ///< what is under way, in the order of the starts
  Lane started_ = Lane::kExchange;  ///< by the last start
  std::vector<uint32_t> used_;    ///< handles of it
  std::map<uint32_t, uint32_t> renamed_;
};

bool communicates(const Instructions& list) {
  return std::any_of(list.begin(), list.end(),
                     [](const Instruction& i) { return std::holds_alternative<Wait>(i.action); });
}

}  // namespace

void delay_waits(LocalProgram& program, size_t most) {
  auto delay = [&](Instructions& list) {
    if (communicates(list)) list = List(most).run(std::move(list));
  };
  for (Instructions& block : program.blocks) delay(block);
  for (Entry& e : program.entries) {
    delay(e.instructions);
    for (Variant& v : e.variants) delay(v.instructions);
  }
}

}  // namespace nabla::program
