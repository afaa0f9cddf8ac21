// The part of ranks_check.h that follows what programs send each other.
#include <algorithm>
#include <map>
#include <set>

#include "runtime/format/rank_digits.h"
#include "runtime/format/ranks_check.h"

namespace nabla::format {
namespace {

/// What instructions communicate over one group or channel, in order, as a number: equal lists have equal numbers.
/// Loops, branches and calls are nested lists.
using Order = uint64_t;
/// By group, then by channel of the class: only what is used.
struct Orders {
  std::map<uint32_t, Order> groups, channels;
  bool operator==(const Orders&) const = default;
};

// SplitMix64's finaliser, by Steele, Lea and Flood (Fast splittable pseudorandom number generators, 2014).
void mix(Order& order, uint64_t item) {
  uint64_t z = (order + 0x9e3779b97f4a7c15) ^ item;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  order = z ^ (z >> 31);
}

class Follower {
 public:
  explicit Follower(const Program& program) {
    // Blocks refer to earlier ones only.
    for (uint32_t b = 0; b < size_of(program.blocks()); ++b)
      blocks_.push_back(follow(program.blocks()->Get(b)->instructions()));
  }

  Orders follow(const Instructions* list) const {
    Orders out;
    for (uint32_t i = 0; i < size_of(list); ++i) add(*list->Get(i), out);
    return out;
  }

  /// What an entry communicates: its own instructions and those of each variant, of which ranks that run together take
  /// the same.
  Orders of_entry(const Entry& entry) const {
    Orders out = follow(entry.instructions());
    for (uint32_t k = 0; k < size_of(entry.variants()); ++k) {
      Orders variant = follow(entry.variants()->Get(k)->instructions());
      nest(kVariant, k, {&variant}, out);
    }
    return out;
  }

 private:
  static constexpr uint64_t kVariant = static_cast<uint64_t>(Action::MAX) + 1;  // beside kinds of actions

  void add(const Instruction& i, Orders& out) const {
    if (const Collective* c = i.action_as_Collective()) {
      Order& order = out.groups[c->group()];
      for (uint64_t field : {static_cast<uint64_t>(c->kind()), static_cast<uint64_t>(c->reduction()),
                             static_cast<uint64_t>(c->dtype()), c->bytes(), static_cast<uint64_t>(c->root())})
        mix(order, field);
      for (uint32_t t = 0; t < size_of(c->targets()); ++t) mix(order, static_cast<uint64_t>(c->targets()->Get(t)));
    } else if (const Send* send = i.action_as_Send()) {
      mix(out.channels[send->channel()], send->bytes());
    } else if (const Recv* recv = i.action_as_Recv()) {
      mix(out.channels[recv->channel()], recv->bytes());
    } else if (const Loop* loop = i.action_as_Loop()) {
      nest(Action::Loop, static_cast<uint64_t>(loop->trips()), {loop->body()}, out);
    } else if (const Call* call = i.action_as_Call()) {
      nest(Action::Call, 0, {call->block()}, out);
    } else if (const While* loop = i.action_as_While()) {
      nest(Action::While, 0, {loop->condition(), loop->body()}, out);
    } else if (const Branch* branch = i.action_as_Branch()) {
      std::vector<uint32_t> blocks;
      for (uint32_t b = 0; b < size_of(branch->blocks()); ++b) blocks.push_back(branch->blocks()->Get(b));
      nest(Action::Branch, 0, blocks, out);
    }
  }

  void nest(Action kind, uint64_t times, const std::vector<uint32_t>& blocks, Orders& out) const {
    std::vector<const Orders*> lists;
    for (uint32_t b : blocks)  // a block that no entry reaches may name any other: nobody has checked it
      if (b < blocks_.size()) lists.push_back(&blocks_[b]);
    nest(static_cast<uint64_t>(kind), times, lists, out);
  }

  // Lists that one instruction runs are one item of what runs it.
  static void nest(uint64_t kind, uint64_t times, const std::vector<const Orders*>& lists, Orders& out) {
    for (std::map<uint32_t, Order> Orders::* field : {&Orders::groups, &Orders::channels}) {
      std::map<uint32_t, Order> items;
      for (size_t k = 0; k < lists.size(); ++k)
        for (const auto& [which, order] : lists[k]->*field) {
          Order& item = items.try_emplace(which, 0).first->second;
          for (uint64_t part : {kind, times, static_cast<uint64_t>(k), order}) mix(item, part);
        }
      for (const auto& [which, item] : items) mix((out.*field)[which], item);
    }
  }

  std::vector<Orders> blocks_;
};

class PartnersCheck {
 public:
  PartnersCheck(const Ranks& ranks, const ClassPrograms& programs, const std::string& what)
      : ranks_(ranks), programs_(programs), what_(what), class_of_(classes_of(ranks)) {}

  Status run() {
    for (uint32_t c = 0; c < programs_.size(); ++c) {
      orders_.push_back(of_program(*programs_[c][0]));
      for (const Program* p : programs_[c])
        if (of_program(*p) != orders_.back())
          return damaged("the programs of class `{}` for {} and {} do not communicate alike", name(c),
                         view(programs_[c][0]->target()), view(p->target()));
    }
    for (uint32_t c = 0; c < programs_.size(); ++c) (void)NABLA_TRY(check_channels(c));
    for (uint32_t g = 0; g < size_of(ranks_.groups()); ++g) (void)NABLA_TRY(check_group(g));
    return Ok{};
  }

 private:
  using ByEntry = std::map<std::string_view, Orders>;

  template <class... Args>
  Diagnostic damaged(fmt::format_string<Args...> format, Args&&... args) const {
    return error(Code::kCorrupt, "{}: damaged bundle: {}", what_, fmt::format(format, std::forward<Args>(args)...));
  }
  std::string_view name(uint32_t c) const { return view(ranks_.classes()->Get(c)->name()); }

  static ByEntry of_program(const Program& p) {
    Follower follower(p);
    ByEntry out;
    for (uint32_t e = 0; e < size_of(p.entries()); ++e) {
      const Entry& entry = *p.entries()->Get(e);
      out[view(entry.name())] = follower.of_entry(entry);
    }
    return out;
  }

  /// What class `c` does over its group or channel; 0: nothing.
  Order order(uint32_t c, std::string_view entry, std::map<uint32_t, Order> Orders::* field, uint32_t which) const {
    auto of_entry = orders_[c].find(entry);
    if (of_entry == orders_[c].end()) return 0;
    const std::map<uint32_t, Order>& found = of_entry->second.*field;
    auto it = found.find(which);
    return it == found.end() ? 0 : it->second;
  }

  // All members of a group do what the one with zeros in the group's digits does.
  Status check_group(uint32_t group) const {
    std::vector<Digit> digits = digits_of(ranks_.groups()->Get(group)->digits());
    std::set<std::pair<uint32_t, uint32_t>> partners;
    for (uint32_t r = 0; r < ranks_.count(); ++r) partners.emplace(class_of_[base_of(digits, r)], class_of_[r]);
    for (auto [a, b] : partners)
      for (uint32_t c : {a, b})
        for (const auto& [entry, orders] : orders_[c])
          if (group_order(a, entry, group) != group_order(b, entry, group))
            return damaged("entry `{}` of the classes `{}` and `{}` does not do the same over group {}", entry, name(a),
                           name(b), group);
    return Ok{};
  }

  Order group_order(uint32_t c, std::string_view entry, uint32_t group) const {
    const auto* groups = ranks_.classes()->Get(c)->groups();
    for (uint32_t row = 0; row < size_of(groups); ++row)
      if (groups->Get(row) == group) return order(c, entry, &Orders::groups, row);
    return 0;
  }

  Status check_channels(uint32_t c) const {
    for (const auto& [entry, orders] : orders_[c])
      for (const auto& [row, mine] : orders.channels) {
        const Channel& channel = *ranks_.classes()->Get(c)->channels()->Get(row);
        uint32_t other = class_of_[ranks_.classes()->Get(c)->first() + channel.offset()];
        if (order(other, entry, &Orders::channels, channel.peer()) != mine)
          return damaged("entry `{}`: class `{}` {} over channel {} what class `{}` does not {}", entry, name(c),
                         channel.sends() ? "sends" : "expects", row, name(other), channel.sends() ? "expect" : "send");
      }
    return Ok{};
  }

  const Ranks& ranks_;
  const ClassPrograms& programs_;
  const std::string& what_;
  std::vector<uint32_t> class_of_;  // by rank
  std::vector<ByEntry> orders_;     // by class
};

}  // namespace

Status check_partners(const Ranks& ranks, const ClassPrograms& programs, const std::string& what) {
  return PartnersCheck(ranks, programs, what).run();
}

}  // namespace nabla::format
