#include "runtime/format/ranks_check.h"

#include <algorithm>
#include <set>

#include "runtime/base/dtype.h"
#include "runtime/format/rank_digits.h"

namespace nabla::format {
namespace {

/// Of all loops over ranks, or over pairs of placements, together.
constexpr uint64_t kMaxWork = uint64_t{1} << 26;
constexpr uint32_t kNoClass = UINT32_MAX;

class Check {
 public:
  Check(const Ranks& ranks, const std::string& what) : ranks_(ranks), what_(what) {}

 protected:
  template <class... Args>
  Diagnostic damaged(fmt::format_string<Args...> format, Args&&... args) const {
    return error(Code::kCorrupt, "{}: damaged rank table: {}", what_, fmt::format(format, std::forward<Args>(args)...));
  }
  Status spend(uint64_t work) {
    if ((work_ += work) <= kMaxWork) return Ok{};
    return error(Code::kTooLarge, "{}: the rank table says more than can be checked: {} ranks, {} groups, {} classes",
                 what_, ranks_.count(), size_of(ranks_.groups()), size_of(ranks_.classes()));
  }

  /// Each of them divides the numbers of the ranks, and no two overlap.
  Status check_digits(std::vector<Digit> digits, std::string_view whose) const {
    std::sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) { return a.stride() < b.stride(); });
    uint64_t past = 1;
    for (const Digit& d : digits) {
      uint64_t end = static_cast<uint64_t>(d.stride()) * d.count();
      if (d.stride() == 0 || d.count() < 2 || end > ranks_.count() || ranks_.count() % end != 0)
        return damaged("{} has a digit of {} values and stride {} of {} ranks", whose, d.count(), d.stride(),
                       ranks_.count());
      if (d.stride() % past != 0) return damaged("{} has digits that overlap at stride {}", whose, d.stride());
      past = end;
    }
    return Ok{};
  }

  const Ranks& ranks_;
  const std::string& what_;
  uint64_t work_ = 0;
};

class TableCheck : Check {
 public:
  using Check::Check;

  Status run() {
    if (ranks_.version() > 1)
      return error(Code::kNewerVersion, "{}: a rank table of version {}; this program reads up to 1", what_,
                   ranks_.version());
    if (ranks_.count() == 0) return damaged("no ranks");
    if (ranks_.count() > kMaxRanks)
      return error(Code::kTooLarge, "{}: {} ranks; at most {}", what_, ranks_.count(), kMaxRanks);
    for (uint32_t i = 0; i < size_of(ranks_.meshes()); ++i) (void)NABLA_TRY(check_mesh(*ranks_.meshes()->Get(i), i));
    for (uint32_t i = 0; i < size_of(ranks_.groups()); ++i)
      (void)NABLA_TRY(check_digits(digits_of(ranks_.groups()->Get(i)->digits()), fmt::format("group {}", i)));
    (void)NABLA_TRY(check_classes());
    for (uint32_t i = 0; i < size_of(ranks_.groups()); ++i) (void)NABLA_TRY(check_members(i));
    for (uint32_t c = 0; c < size_of(ranks_.classes()); ++c) (void)NABLA_TRY(check_channels(c));
    return Ok{};
  }

 private:
  Status check_mesh(const Mesh& mesh, uint32_t index) {
    std::set<std::string_view> names;
    uint64_t count = 1;
    for (uint32_t i = 0; i < size_of(mesh.axes()); ++i) {
      const MeshAxis& axis = *mesh.axes()->Get(i);
      if (view(axis.name()).empty() || !names.insert(view(axis.name())).second)
        return damaged("mesh {} has an axis {} named `{}`", index, i, view(axis.name()));
      count = std::min<uint64_t>(count * axis.size(), uint64_t{kMaxRanks} + 1);
    }
    if (count != ranks_.count()) return damaged("mesh {} has {} places for {} ranks", index, count, ranks_.count());
    return Ok{};
  }

  Status check_classes() {
    class_of_.assign(ranks_.count(), kNoClass);
    std::set<std::string_view> names;
    if (size_of(ranks_.classes()) == 0) return damaged("no classes");
    for (uint32_t c = 0; c < size_of(ranks_.classes()); ++c) {
      const Class& k = *ranks_.classes()->Get(c);
      std::string_view name = view(k.name());
      if (name.empty()) return damaged("class {} has no name", c);
      if (!names.insert(name).second) return damaged("two classes are named `{}`", name);
      std::vector<Digit> digits = digits_of(k.digits());
      (void)NABLA_TRY(check_digits(digits, fmt::format("class `{}`", name)));
      if (k.first() >= ranks_.count() || base_of(digits, k.first()) != k.first())
        return damaged("class `{}` begins at rank {} of {}", name, k.first(), ranks_.count());
      (void)NABLA_TRY(spend(count_of(digits)));
      for (uint64_t i = 0; i < count_of(digits); ++i) {
        uint32_t& of = class_of_[rank_at(digits, k.first(), i)];
        if (of != kNoClass)
          return damaged("rank {} is of the classes `{}` and `{}`", rank_at(digits, k.first(), i),
                         view(ranks_.classes()->Get(of)->name()), name);
        of = c;
      }
      std::set<uint32_t> groups;
      for (uint32_t i = 0; i < size_of(k.groups()); ++i)
        if (k.groups()->Get(i) >= size_of(ranks_.groups()) || !groups.insert(k.groups()->Get(i)).second)
          return damaged("class `{}` names group {} of {}, or names it twice", name, k.groups()->Get(i),
                         size_of(ranks_.groups()));
    }
    auto none = std::find(class_of_.begin(), class_of_.end(), kNoClass);
    if (none != class_of_.end()) return damaged("rank {} is of no class", none - class_of_.begin());
    return Ok{};
  }

  bool has_group(uint32_t class_index, uint32_t group) const {
    const auto* groups = ranks_.classes()->Get(class_index)->groups();
    return groups != nullptr && std::find(groups->begin(), groups->end(), group) != groups->end();
  }

  // Of a group's members either all have it in their class's row, or none.
  Status check_members(uint32_t group) {
    std::vector<bool> has;
    for (uint32_t c = 0; c < size_of(ranks_.classes()); ++c) has.push_back(has_group(c, group));
    std::vector<Digit> digits = digits_of(ranks_.groups()->Get(group)->digits());
    (void)NABLA_TRY(spend(uint64_t{ranks_.count()} + has.size()));
    for (uint32_t r = 0; r < ranks_.count(); ++r) {
      uint32_t base = base_of(digits, r);
      if (has[class_of_[r]] != has[class_of_[base]])
        return damaged("ranks {} and {} are members of group {}, which only one of their classes has", base, r, group);
    }
    return Ok{};
  }

  Status check_channels(uint32_t c) {
    const Class& k = *ranks_.classes()->Get(c);
    std::vector<Digit> digits = digits_of(k.digits());
    for (uint32_t i = 0; i < size_of(k.channels()); ++i) {
      const Channel& mine = *k.channels()->Get(i);
      (void)NABLA_TRY(spend(count_of(digits)));
      uint32_t other = kNoClass;
      for (uint64_t n = 0; n < count_of(digits); ++n) {
        uint32_t rank = rank_at(digits, k.first(), n);
        int64_t peer = static_cast<int64_t>(rank) + mine.offset();
        if (mine.offset() == 0 || peer < 0 || peer >= ranks_.count())
          return damaged("channel {} of class `{}` leads from rank {} to rank {} of {}", i, view(k.name()), rank, peer,
                         ranks_.count());
        uint32_t found = class_of_[static_cast<size_t>(peer)];
        if (n > 0 && found != other)
          return damaged("channel {} of class `{}` leads to ranks of several classes", i, view(k.name()));
        other = found;
      }
      (void)NABLA_TRY(check_ends(c, i, other));
    }
    return Ok{};
  }

  Status check_ends(uint32_t c, uint32_t i, uint32_t other) {
    const Class &k = *ranks_.classes()->Get(c), &peer = *ranks_.classes()->Get(other);
    const Channel& mine = *k.channels()->Get(i);
    if (mine.peer() >= size_of(peer.channels()))
      return damaged("channel {} of class `{}` is channel {} of the {} of class `{}`", i, view(k.name()), mine.peer(),
                     size_of(peer.channels()), view(peer.name()));
    const Channel& theirs = *peer.channels()->Get(mine.peer());
    bool fits = theirs.peer() == i && theirs.sends() != mine.sends() && theirs.bytes() == mine.bytes() &&
                int64_t{theirs.offset()} == -int64_t{mine.offset()};
    if (!fits)
      return damaged("channel {} of class `{}` and channel {} of class `{}` are not the two ends of one", i,
                     view(k.name()), mine.peer(), view(peer.name()));
    return Ok{};
  }

  std::vector<uint32_t> class_of_;  // by rank
};

/// The elements that the ranks of a class hold together: [begin, end) in every dimension.
struct Box {
  std::vector<int64_t> begin, end;

  unsigned __int128 volume() const {
    unsigned __int128 out = 1;
    for (size_t d = 0; d < begin.size(); ++d) out *= static_cast<uint64_t>(end[d] - begin[d]);
    return out;
  }
  bool overlaps(const Box& other) const {
    for (size_t d = 0; d < begin.size(); ++d)
      if (begin[d] >= other.end[d] || other.begin[d] >= end[d]) return false;
    return volume() > 0 && other.volume() > 0;
  }
};

class WholesCheck : Check {
 public:
  WholesCheck(const Ranks& ranks, const ClassPrograms& programs, const std::string& what)
      : Check(ranks, what), programs_(programs) {}

  Status run() {
    (void)NABLA_TRY(check_list(ranks_.state(), "state leaf", nullptr));
    (void)NABLA_TRY(check_list(ranks_.inputs(), "input", &Entry::inputs));
    return check_list(ranks_.outputs(), "output", &Entry::outputs);
  }

 private:
  using Tensors = flatbuffers::Vector<flatbuffers::Offset<Tensor>>;
  using Wholes = flatbuffers::Vector<flatbuffers::Offset<Whole>>;
  using Border = const Tensors* (Entry::*)() const;
  using Key = std::tuple<uint32_t, std::string_view, uint32_t>;  // class, entry, index

  // Every tensor of every class; null: what is placed is state.
  std::map<Key, const Tensor*> tensors(Border border) const {
    std::map<Key, const Tensor*> out;
    for (uint32_t c = 0; c < programs_.size(); ++c) {
      const Program& p = *programs_[c][0];
      for (uint32_t i = 0; border == nullptr && i < size_of(p.state()); ++i)
        out[{c, "", i}] = p.state()->Get(i)->tensor();
      for (uint32_t e = 0; border != nullptr && e < size_of(p.entries()); ++e) {
        const Entry& entry = *p.entries()->Get(e);
        const Tensors* list = (entry.*border)();
        for (uint32_t i = 0; i < size_of(list); ++i) out[{c, view(entry.name()), i}] = list->Get(i);
      }
    }
    return out;
  }

  Status check_list(const Wholes* wholes, std::string_view role, Border border) {
    std::map<Key, const Tensor*> open = tensors(border);
    std::set<std::pair<std::string_view, std::string_view>> names;
    for (uint32_t i = 0; i < size_of(wholes); ++i) {
      const Whole& whole = *wholes->Get(i);
      where_ = fmt::format("{} `{}`", role, view(whole.name()));
      if (view(whole.name()).empty()) return damaged("{} {} has no name", role, i);
      if (!names.emplace(view(whole.entry()), view(whole.name())).second) return damaged("two are {}", where_);
      if (size_of(whole.shape()) > kMaxRank) return damaged("{} has rank {}", where_, size_of(whole.shape()));
      unsigned __int128 volume = 1;
      for (uint32_t d = 0; d < size_of(whole.shape()); ++d) {
        int64_t extent = whole.shape()->Get(d);
        if (extent < 0) return damaged("{} has extent {}", where_, extent);
        volume *= static_cast<uint64_t>(std::min<int64_t>(extent, kMaxArrayBytes));
        if (volume > static_cast<unsigned __int128>(kMaxArrayBytes) * kMaxRanks)
          return error(Code::kTooLarge, "{}: {} has too many elements", what_, where_);
      }
      (void)NABLA_TRY(check_whole(whole, volume, open));
    }
    if (open.empty()) return Ok{};
    const auto& [key, tensor] = *open.begin();
    return damaged("{} `{}` of class `{}` has no place in a whole", role, view(tensor->name()),
                   view(ranks_.classes()->Get(std::get<0>(key))->name()));
  }

  Status check_whole(const Whole& whole, unsigned __int128 volume, std::map<Key, const Tensor*>& open) {
    std::vector<Box> owned;
    for (uint32_t i = 0; i < size_of(whole.placements()); ++i) {
      const Placement& p = *whole.placements()->Get(i);
      auto found = open.find({p.class_index(), view(whole.entry()), p.index()});
      if (found == open.end())
        return damaged("{}: placement {} is number {} of class {}, which is not there or has a place", where_, i,
                       p.index(), p.class_index());
      Box box = NABLA_TRY(box_of(whole, p, *found->second));
      open.erase(found);
      if (!p.copy()) owned.push_back(std::move(box));
    }
    (void)NABLA_TRY(spend(owned.size() * owned.size()));
    unsigned __int128 covered = 0;
    for (size_t i = 0; i < owned.size(); ++i) {
      covered += owned[i].volume();
      for (size_t j = 0; j < i; ++j)
        if (owned[i].overlaps(owned[j])) return damaged("{} has elements with two owners", where_);
    }
    if (covered != volume) return damaged("{} has elements without an owner", where_);
    return Ok{};
  }

  Result<Box> box_of(const Whole& whole, const Placement& p, const Tensor& part) {
    std::string_view name = view(ranks_.classes()->Get(p.class_index())->name());
    uint32_t rank = size_of(whole.shape());
    if (part.dtype() != whole.dtype() || size_of(part.shape()) != rank)
      return damaged("{} is of another type than its part of class `{}`", where_, name);
    if (size_of(p.cuts()) != 0 && size_of(p.cuts()) != rank)
      return damaged("{} of rank {} has {} cuts for class `{}`", where_, rank, size_of(p.cuts()), name);
    std::vector<Digit> used;
    Box box;
    for (uint32_t d = 0; d < rank; ++d) {
      const Cut* cut = size_of(p.cuts()) == 0 ? nullptr : p.cuts()->Get(d);
      std::vector<Digit> digits = digits_of(cut == nullptr ? nullptr : cut->digits());
      used.insert(used.end(), digits.begin(), digits.end());
      (void)NABLA_TRY(check_digits(digits, where_));  // before they are multiplied
      int64_t begin = cut == nullptr ? 0 : cut->begin(), size = whole.shape()->Get(d), extent = part.shape()->Get(d);
      auto parts = static_cast<int64_t>(count_of(digits));
      if (begin < 0 || begin > size) return damaged("{}: a part begins at {} of {}", where_, begin, size);
      // Either all parts lie within the whole, or they are as small as they can be.
      bool inside = extent <= (size - begin) / parts;
      bool least = extent == (size - begin) / parts + ((size - begin) % parts != 0);
      if (!inside && !least)
        return damaged("{}: {} parts of {} from {} on do not fit an extent of {}", where_, parts, extent, begin, size);
      box.begin.push_back(begin);
      box.end.push_back(inside ? begin + extent * parts : size);
    }
    (void)NABLA_TRY(check_digits(used, where_));
    for (const Digit& d : used)
      if (!is_of_class(d, p.class_index()))
        return damaged("{} is cut by a digit of stride {} that ranks of class `{}` do not differ in", where_,
                       d.stride(), name);
    return box;
  }

  bool is_of_class(const Digit& d, uint32_t class_index) const {
    uint64_t end = uint64_t{d.stride()} * d.count();
    for (const Digit& own : digits_of(ranks_.classes()->Get(class_index)->digits()))
      if (d.stride() % own.stride() == 0 && uint64_t{own.stride()} * own.count() % end == 0) return true;
    return false;
  }

  const ClassPrograms& programs_;
  std::string where_;
};

}  // namespace

Status check_ranks(const Ranks& ranks, const std::string& what) { return TableCheck(ranks, what).run(); }

CommunicationRow row_of(const Ranks& ranks, uint32_t class_index) {
  const Class& k = *ranks.classes()->Get(class_index);
  CommunicationRow out;
  for (uint32_t i = 0; i < size_of(k.groups()); ++i)
    out.groups.push_back(static_cast<uint32_t>(count_of(digits_of(ranks.groups()->Get(k.groups()->Get(i))->digits()))));
  for (uint32_t i = 0; i < size_of(k.channels()); ++i)
    out.channels.push_back({k.channels()->Get(i)->sends(), k.channels()->Get(i)->bytes()});
  return out;
}

Status check_wholes(const Ranks& ranks, const ClassPrograms& programs, const std::string& what) {
  return WholesCheck(ranks, programs, what).run();
}

}  // namespace nabla::format
