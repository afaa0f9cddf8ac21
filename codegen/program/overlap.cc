#include "codegen/program/overlap.h"

#include <algorithm>
#include <deque>
#include <map>

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
  if (auto* a = std::get_if<Wait>(&action)) return &a->handle;
  return nullptr;
}

/// One list, whose waits come as late as they may.
class List {
 public:
  explicit List(size_t most) : most_(most) {}

  Instructions run(Instructions list) {
    for (Instruction& i : list) {
      if (std::holds_alternative<Wait>(i.action)) {
        *handle_of(i.action) = renamed_.at(*handle_of(i.action));
        open_.push_back(std::move(i));
        continue;
      }
      bool runs_blocks = !blocks_of(i).empty(), starts = handle_of(i.action) != nullptr;
      // What began first ends first, as on a stream.
      size_t ends = runs_blocks ? open_.size() : 0;
      for (size_t k = ends; k < open_.size(); ++k)
        if (meet(i, std::get<Wait>(open_[k].action))) ends = k + 1;
      while (ends-- > 0) await();
      if (starts) {
        while (open_.size() >= most_) await();
        uint32_t given = *handle_of(i.action), now = 0;
        while (std::find(used_.begin(), used_.end(), now) != used_.end()) ++now;
        used_.push_back(now);
        renamed_[given] = now;
        *handle_of(i.action) = now;
      }
      out_.push_back(std::move(i));
    }
    while (!open_.empty()) await();
    return std::move(out_);
  }

 private:
  void await() {
    std::erase(used_, std::get<Wait>(open_.front().action).handle);
    out_.push_back(std::move(open_.front()));
    open_.pop_front();
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
  std::deque<Instruction> open_;  ///< waits of what is under way, in the order of the starts
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
