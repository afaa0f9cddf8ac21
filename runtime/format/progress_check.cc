// The part of ranks_check.h that follows programs side by side: nobody may wait for what is never started.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "runtime/format/rank_digits.h"
#include "runtime/format/ranks_check.h"

namespace nabla::format {
namespace {

/// A group of the table, or one end of a channel: (1, class, its number there).
using Medium = std::array<uint32_t, 3>;

/// What starts on a medium, or waits for what was started.
struct Step {
  Medium medium = {};
  uint32_t nth = 0;  ///< of a wait: which of the medium's starts it is for, from 1 on
  bool waits = false;
  const Instruction* instruction = nullptr;
};
using Steps = std::vector<Step>;

/// The steps of a class's program in the order in which it runs them. Loops run once: what waits for ever in a later
/// trip alone is not found. Of a branch all blocks run, one after the other, as all partners take the same one.
class Flattener {
 public:
  Flattener(const Program& program, const Class& of_class, uint32_t c) : program_(program), class_(of_class), c_(c) {
    for (uint32_t b = 0; b < size_of(program.blocks()); ++b)
      communicates_.push_back(any(program.blocks()->Get(b)->instructions()));
  }

  Steps run(const Instructions* list) {
    out_.clear(), started_.clear();
    add(list);
    return std::move(out_);
  }

 private:
  std::vector<uint32_t> blocks_of(const Instruction& i) const {
    std::vector<uint32_t> out;
    if (const Loop* loop = i.action_as_Loop()) out = {loop->body()};
    if (const Call* call = i.action_as_Call()) out = {call->block()};
    if (const While* loop = i.action_as_While()) out = {loop->condition(), loop->body()};
    const Branch* branch = i.action_as_Branch();
    for (uint32_t b = 0; branch != nullptr && b < size_of(branch->blocks()); ++b)
      out.push_back(branch->blocks()->Get(b));
    return out;
  }
  // Blocks refer to earlier ones only; one that no entry reaches may name any other.
  bool communicates(uint32_t block) const { return block < communicates_.size() && communicates_[block]; }
  bool any(const Instructions* list) const {
    for (uint32_t k = 0; k < size_of(list); ++k) {
      const Instruction& i = *list->Get(k);
      if (i.action_as_Collective() || i.action_as_Send() || i.action_as_Recv()) return true;
      for (uint32_t block : blocks_of(i))
        if (communicates(block)) return true;
    }
    return false;
  }

  // A handle is awaited in the list that starts it.
  void add(const Instructions* list) {
    std::map<uint32_t, Step> waits;
    auto start = [&](const Medium& medium, uint32_t handle, const Instruction& i) {
      out_.push_back({medium, 0, false, &i});
      waits[handle] = {medium, ++started_[medium], true, &i};
    };
    for (uint32_t k = 0; k < size_of(list); ++k) {
      const Instruction& i = *list->Get(k);
      if (const Collective* c = i.action_as_Collective())
        start({0, class_.groups()->Get(c->group()), 0}, c->handle(), i);
      if (const Send* s = i.action_as_Send()) start({1, c_, s->channel()}, s->handle(), i);
      if (const Recv* r = i.action_as_Recv()) start({1, c_, r->channel()}, r->handle(), i);
      const Wait* w = i.action_as_Wait();  // of an exchange, or of a transfer
      if (auto awaited = w ? waits.find(w->handle()) : waits.end(); awaited != waits.end()) out_.push_back(awaited->second);
      for (uint32_t block : blocks_of(i))
        if (communicates(block)) add(program_.blocks()->Get(block)->instructions());
    }
  }

  const Program& program_;
  const Class& class_;
  uint32_t c_;
  std::vector<bool> communicates_;  // by block
  Steps out_;
  std::map<Medium, uint32_t> started_;
};

class ProgressCheck {
 public:
  ProgressCheck(const Ranks& ranks, const ClassPrograms& programs, const std::string& what)
      : ranks_(ranks), programs_(programs), what_(what), class_of_(classes_of(ranks)) {}

  Status run() {
    find_partners();
    std::set<std::string_view> entries;
    for (const auto& of_class : programs_)
      for (const Program* p : of_class)
        for (uint32_t e = 0; e < size_of(p->entries()); ++e) entries.insert(view(p->entries()->Get(e)->name()));
    // The programs of a class for other targets communicate alike over every medium, but may do it in another order.
    size_t targets = 0;
    for (const auto& of_class : programs_) targets = std::max(targets, of_class.size());
    for (size_t target = 0; target < targets; ++target) {
      std::vector<Flattener> flatteners;
      for (uint32_t c = 0; c < programs_.size(); ++c)
        flatteners.emplace_back(program_of(c, target), *ranks_.classes()->Get(c), c);
      for (std::string_view entry : entries) (void)NABLA_TRY(check(entry, target, flatteners));
    }
    return Ok{};
  }

 private:
  void find_partners() {
    for (uint32_t g = 0; g < size_of(ranks_.groups()); ++g) {
      std::vector<Digit> digits = digits_of(ranks_.groups()->Get(g)->digits());
      for (uint32_t r = 0; r < ranks_.count(); ++r) {
        uint32_t a = class_of_[base_of(digits, r)], b = class_of_[r];
        if (has_group(a, g) && has_group(b, g)) members_[g].insert({a, b}), members_[g].insert({b, a});
      }
    }
  }
  bool has_group(uint32_t c, uint32_t group) const {
    const auto* groups = ranks_.classes()->Get(c)->groups();
    for (uint32_t row = 0; row < size_of(groups); ++row)
      if (groups->Get(row) == group) return true;
    return false;
  }
  // With whom class `c` meets, and where they do.
  std::vector<std::pair<uint32_t, Medium>> partners(uint32_t c, const Medium& medium) const {
    std::vector<std::pair<uint32_t, Medium>> out;
    if (medium[0] == 1) {
      const Class& mine = *ranks_.classes()->Get(c);
      const Channel& channel = *mine.channels()->Get(medium[2]);
      uint32_t other = class_of_[mine.first() + channel.offset()];
      return {{other, {1, other, channel.peer()}}};
    }
    if (auto found = members_.find(medium[1]); found != members_.end())
      for (auto it = found->second.lower_bound({c, 0}); it != found->second.end() && it->first == c; ++it)
        out.push_back({it->second, medium});
    return out;
  }

  const Entry* entry_of(uint32_t c, size_t target, std::string_view name) const {
    const Program& p = program_of(c, target);
    for (uint32_t e = 0; e < size_of(p.entries()); ++e)
      if (view(p.entries()->Get(e)->name()) == name) return p.entries()->Get(e);
    return nullptr;
  }
  const Program& program_of(uint32_t c, size_t target) const {
    return *programs_[c][std::min(target, programs_[c].size() - 1)];
  }

  // The entry's own instructions, then those of each variant, which ranks that run together take alike.
  Status check(std::string_view name, size_t target, std::vector<Flattener>& flatteners) const {
    uint32_t variants = 0;
    for (uint32_t c = 0; c < programs_.size(); ++c)
      if (const Entry* e = entry_of(c, target, name)) variants = std::max(variants, size_of(e->variants()));
    for (uint32_t k = 0; k <= variants; ++k) {
      std::vector<Steps> steps(programs_.size());
      for (uint32_t c = 0; c < programs_.size(); ++c) {
        const Entry* e = entry_of(c, target, name);
        if (e == nullptr || k > size_of(e->variants())) continue;
        steps[c] = flatteners[c].run(k == 0 ? e->instructions() : e->variants()->Get(k - 1)->instructions());
      }
      (void)NABLA_TRY(follow(name, steps));
    }
    return Ok{};
  }

  // All classes go on as far as they can, until all are through or none can.
  Status follow(std::string_view entry, const std::vector<Steps>& steps) const {
    std::vector<size_t> at(steps.size(), 0);
    std::vector<std::map<Medium, uint32_t>> started(steps.size());
    auto ready = [&](uint32_t c, const Step& wait) {
      for (const auto& [other, medium] : partners(c, wait.medium)) {
        auto found = started[other].find(medium);
        if (found == started[other].end() || found->second < wait.nth) return false;
      }
      return true;
    };
    for (bool moved = true; std::exchange(moved, false);)
      for (uint32_t c = 0; c < steps.size(); ++c)
        for (; at[c] < steps[c].size(); ++at[c], moved = true) {
          const Step& step = steps[c][at[c]];
          if (step.waits && !ready(c, step)) break;
          if (!step.waits) ++started[c][step.medium];
        }
    for (uint32_t c = 0; c < steps.size(); ++c)
      if (at[c] < steps[c].size())
        return error(Code::kCorrupt,
                     "{}: damaged bundle: entry `{}`: class `{}` waits for ever for `{}`: its partners wait too", what_,
                     entry, view(ranks_.classes()->Get(c)->name()), view(steps[c][at[c]].instruction->label()));
    return Ok{};
  }

  const Ranks& ranks_;
  const ClassPrograms& programs_;
  const std::string& what_;
  std::vector<uint32_t> class_of_;                                       // by rank
  std::map<uint32_t, std::set<std::pair<uint32_t, uint32_t>>> members_;  // by group: classes that meet in it
};

}  // namespace

Status check_progress(const Ranks& ranks, const ClassPrograms& programs, const std::string& what) {
  return ProgressCheck(ranks, programs, what).run();
}

}  // namespace nabla::format
