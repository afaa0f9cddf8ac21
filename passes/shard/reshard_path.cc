// Dijkstra's algorithm over layouts. All pieces of a layout are equal, so that it is told by what axes split each dimension
// and over which of them sums are pending; edges are collectives and cuts. Layouts of pieces of one size are joined by a
// `permute` if all that happens is that ranks change places. After Rink et al., "Memory-efficient array redistribution
// through portable collective communication", 2021.
#include "passes/shard/reshard_path.h"

#include <algorithm>
#include <map>
#include <queue>

#include "ir/cost/exchange.h"

namespace nabla::passes {
namespace {

using ir::Axes;
using ir::AxisRef;
using ir::Dim;
using ir::Ints;
using ir::Mesh;

constexpr size_t kMostVisited = 400;    // layouts from which steps are tried
constexpr size_t kMostReordered = 4;    // axes of a dimension that are tried in every order
constexpr double kCutUs = 0.1;          // cuts copy: fewer are better
constexpr double kLess = 1 - 1e-9;      // sums of times differ in their last bits

double step_us(const Mesh& mesh, const ReshardStep& step, double part, const ir::Target& target) {
  const std::optional<CollectiveKind> collective = collective_of(step.kind);
  return collective ? ir::exchange_us(*collective, mesh, step.axes, part, target) : kCutUs;
}

/// Parts of axes, by number: all that one of the layouts names where they differ, cut where the other one cuts it.
class AxisParts {
 public:
  AxisParts(const Mesh& mesh, const std::vector<Axes>& named) : mesh_(mesh) {
    std::map<std::string, Ints> borders;
    for (const Axes& axes : named)
      for (const AxisRef& a : axes) {
        Ints& of = borders[a.name];
        of.push_back(a.before), of.push_back(a.before * shards(mesh, {a}));
      }
    for (const ir::MeshAxis& axis : mesh.axes) {
      Ints& of = borders[axis.name];
      std::sort(of.begin(), of.end());
      of.erase(std::unique(of.begin(), of.end()), of.end());
      for (size_t i = 1; i < of.size(); ++i) {
        int64_t size = of[i] / of[i - 1];
        nested_ &= of[i] % of[i - 1] == 0;
        parts_.push_back({axis.name, of[i - 1], size == axis.size ? 0 : size});
        sizes_.push_back(size);
      }
    }
  }
  /// Whether the layouts cut axes at places of which one is within the other.
  bool nested() const { return nested_; }
  size_t count() const { return parts_.size(); }
  int64_t size(int64_t id) const { return sizes_[id]; }
  int64_t size(const Ints& ids) const {
    int64_t out = 1;
    for (int64_t id : ids) out *= sizes_[id];
    return out;
  }
  Ints ids(const Axes& axes) const {
    Ints out;
    for (const AxisRef& a : axes) {
      int64_t end = a.before * shards(mesh_, {a});
      for (size_t i = 0; i < parts_.size(); ++i)
        if (parts_[i].name == a.name && parts_[i].before >= a.before && parts_[i].before * sizes_[i] <= end)
          out.push_back(static_cast<int64_t>(i));
    }
    return out;
  }
  Axes axes(const Ints& ids) const {
    Axes out;
    for (int64_t id : ids) out.push_back(parts_[id]);
    return joined(mesh_, out);
  }

 private:
  const Mesh& mesh_;
  std::vector<AxisRef> parts_;
  Ints sizes_;
  bool nested_ = true;
};

/// A layout: what splits each dimension beyond what both ends have in common, and what is pending.
struct Place {
  std::vector<Ints> dims;
  Ints pending;
  auto operator<=>(const Place&) const = default;
};

bool has(const Ints& ids, int64_t id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); }
bool starts(const Ints& whole, const Ints& with) {
  return with.size() <= whole.size() && std::equal(with.begin(), with.end(), whole.begin());
}
Ints first(const Ints& ids, size_t count) { return {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count)}; }
Ints last(const Ints& ids, size_t count) { return {ids.end() - static_cast<std::ptrdiff_t>(count), ids.end()}; }
Ints sum(Ints a, const Ints& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
Ints without(Ints a, const Ints& b) {
  std::erase_if(a, [&](int64_t id) { return has(b, id); });
  return a;
}

/// What is in common at the start of two lists.
size_t common(const Axes& a, const Axes& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

class Search {
 public:
  Search(const Mesh& mesh, const ir::Type& type, const Layout& from, const Layout& to, double most_us)
      : mesh_(mesh), parts_(mesh, differing(from, to)), most_us_(most_us * kLess) {
    from_.pending = parts_.ids(from.pending);
    double bytes = static_cast<double>(type.bytes().bounds().max);
    for (size_t d = 0; d < from.dims.size(); ++d) {
      size_t same = common(from.dims[d], to.dims[d]);
      auto rest = [&](const Axes& a) { return parts_.ids({a.begin() + static_cast<std::ptrdiff_t>(same), a.end()}); };
      from_.dims.push_back(rest(from.dims[d])), to_.dims.push_back(rest(to.dims[d]));
      Axes kept(from.dims[d].begin(), from.dims[d].begin() + static_cast<std::ptrdiff_t>(same));
      int64_t cut = shards(mesh, kept);
      extents_.push_back(Dim::floordiv(type.shape[d], cut));
      bytes /= static_cast<double>(cut);
    }
    bytes_ = bytes;
  }

  std::optional<std::vector<ReshardStep>> run() {
    if (!parts_.nested()) return std::nullopt;
    reach(from_, 0, nullptr, {});
    for (size_t visited = 0; !queue_.empty() && visited < kMostVisited;) {
      auto [us, order, place] = queue_.top();
      queue_.pop();
      if (us > reached_.at(*place).us) continue;
      if (*place == to_) return steps();
      ++visited;
      visit(*place, us);
    }
    return std::nullopt;
  }

 private:
  struct Reached {
    double us;
    const Place* before;
    ReshardStep step;
  };
  struct Next {
    double us;
    size_t order;
    const Place* place;
    bool operator<(const Next& o) const { return us != o.us ? us > o.us : order > o.order; }
  };

  static std::vector<Axes> differing(const Layout& from, const Layout& to) {
    std::vector<Axes> out{from.pending};
    for (size_t d = 0; d < from.dims.size(); ++d)
      for (const Axes* a : {&from.dims[d], &to.dims[d]})
        out.emplace_back(a->begin() + static_cast<std::ptrdiff_t>(common(from.dims[d], to.dims[d])), a->end());
    return out;
  }

  void reach(Place place, double us, const Place* before, ReshardStep step) {
    if (us > most_us_) return;
    auto [at, added] = reached_.try_emplace(std::move(place), Reached{us, before, step});
    if (!added && us >= at->second.us * kLess) return;
    at->second = {us, before, std::move(step)};
    queue_.push({us, order_++, &at->first});
  }
  void go(const Place& from, double us, Place to, ReshardStep step) {
    double part = bytes_;
    for (const Ints& ids : from.dims) part /= static_cast<double>(parts_.size(ids));
    us += step_us(mesh_, step, part, {});
    reach(std::move(to), us, &from, std::move(step));
  }
  bool divides(size_t dim, const Ints& ids) const { return Dim::mod(extents_[dim], parts_.size(ids)).is(0); }

  void visit(const Place& place, double us) {
    sums(place, us);
    for (size_t d = 0; d < place.dims.size(); ++d) {
      gathers(place, us, d);
      cuts(place, us, d);
      reorders(place, us, d);
    }
    replaces(place, us);
  }

  // What the dimension has to gain next, where it has what it is to begin with.
  Ints wanted(const Place& place, size_t d) const {
    return starts(to_.dims[d], place.dims[d]) ? last(to_.dims[d], to_.dims[d].size() - place.dims[d].size()) : Ints();
  }

  void sums(const Place& place, double us) {
    auto reduce = [&](const Ints& ids) {
      Place next = place;
      next.pending = without(next.pending, ids);
      go(place, us, std::move(next), {ReshardStep::kAllReduce, parts_.axes(ids)});
    };
    auto scatter = [&](size_t d, const Ints& ids) {
      Place next = place;
      next.pending = without(next.pending, ids), next.dims[d] = sum(next.dims[d], ids);
      if (divides(d, next.dims[d]))
        go(place, us, std::move(next), {ReshardStep::kReduceScatter, parts_.axes(ids), static_cast<int>(d)});
    };
    if (place.pending.empty()) return;
    Ints whole = place.pending;
    for (const Ints& ids : to_.dims) whole = without(whole, ids);
    for (size_t d = 0; d < place.dims.size(); ++d) {
      Ints next = wanted(place, d);
      for (size_t n = 1; n <= next.size() && has(place.pending, next[n - 1]); ++n) scatter(d, first(next, n));
      for (int64_t id : place.pending) scatter(d, {id});
    }
    reduce(place.pending);
    if (!whole.empty() && whole.size() < place.pending.size()) reduce(whole);
  }

  // The last axes of a dimension are gathered, or given to another one.
  void gathers(const Place& place, double us, size_t d) {
    for (size_t n = 1; n <= place.dims[d].size(); ++n) {
      Ints ids = last(place.dims[d], n);
      Place rest = place;
      rest.dims[d].resize(rest.dims[d].size() - n);
      go(place, us, rest, {ReshardStep::kAllGather, parts_.axes(ids), static_cast<int>(d)});
      for (size_t to = 0; to < place.dims.size(); ++to) {
        Place next = rest;
        next.dims[to] = sum(next.dims[to], ids);
        if (to != d && divides(to, next.dims[to]))
          go(place, us, std::move(next),
             {ReshardStep::kAllToAll, parts_.axes(ids), static_cast<int>(d), static_cast<int>(to)});
      }
    }
  }

  // By what is wanted somewhere and splits nothing yet.
  void cuts(const Place& place, double us, size_t d) {
    for (const Ints& dim : to_.dims)
      for (int64_t id : dim) {
        bool used = has(place.pending, id) ||
                    std::any_of(place.dims.begin(), place.dims.end(), [&](const Ints& ids) { return has(ids, id); });
        if (used) continue;
        Place next = place;
        next.dims[d].push_back(id);
        if (divides(d, next.dims[d]))
          go(place, us, std::move(next), {ReshardStep::kCut, parts_.axes({id}), static_cast<int>(d)});
      }
  }

  void reorders(const Place& place, double us, size_t d) {
    if (place.dims[d].size() < 2 || place.dims[d].size() > kMostReordered) return;
    Place next = place;
    std::sort(next.dims[d].begin(), next.dims[d].end());
    do permute(place, us, next);
    while (std::next_permutation(next.dims[d].begin(), next.dims[d].end()));
  }

  // Dimensions that are cut as often as at the end of the path after some of its axes have these: each, and all.
  void replaces(const Place& place, double us) {
    Place all = place;
    for (size_t d = 0; d < place.dims.size(); ++d)
      for (size_t n = 1; n <= to_.dims[d].size(); ++n) {
        Ints ids = first(to_.dims[d], n);
        if (parts_.size(ids) != parts_.size(place.dims[d]) || ids == place.dims[d]) continue;
        Place next = place;
        next.dims[d] = all.dims[d] = std::move(ids);
        permute(place, us, next);
      }
    permute(place, us, all);
  }
  // No axis may stand twice.
  void permute(const Place& from, double us, const Place& to) {
    if (to == from) return;
    Ints all = to.pending, group;
    for (const Ints& ids : to.dims) all = sum(all, ids);
    std::sort(all.begin(), all.end());
    if (std::adjacent_find(all.begin(), all.end()) != all.end()) return;
    for (size_t d = 0; d < to.dims.size(); ++d)
      if (from.dims[d] != to.dims[d]) group = sum(group, sum(from.dims[d], to.dims[d]));
    std::sort(group.begin(), group.end());
    group.erase(std::unique(group.begin(), group.end()), group.end());
    ReshardStep step{ReshardStep::kPermute, parts_.axes(group)};
    step.pairs = pairs(from, to, group);
    go(from, us, to, std::move(step));
  }

  // Who sends to whom. A piece lies with all ranks that differ along what the layout does not name; of these the one sends
  // whose place among them is that of the receiver among those that get the piece.
  Ints pairs(const Place& from, const Place& to, const Ints& group) const {
    Ints has_now, has_then, out, digit(parts_.count(), 0);
    for (size_t d = 0; d < to.dims.size(); ++d)
      if (from.dims[d] != to.dims[d]) has_now = sum(has_now, from.dims[d]), has_then = sum(has_then, to.dims[d]);
    auto number = [&](const Ints& ids) {
      int64_t n = 0;
      for (int64_t id : ids) n = n * parts_.size(id) + digit[id];
      return n;
    };
    auto spread = [&](const Ints& ids, int64_t n, Ints& digits) {
      for (size_t i = ids.size(); i-- > 0; n /= parts_.size(ids[i])) digits[ids[i]] = n % parts_.size(ids[i]);
    };
    for (int64_t rank = 0; rank < parts_.size(group); ++rank) {
      spread(group, rank, digit);
      Ints source = digit;
      for (size_t d = 0; d < to.dims.size(); ++d)
        if (from.dims[d] != to.dims[d]) spread(from.dims[d], number(to.dims[d]), source);
      spread(without(has_then, has_now), number(without(has_now, has_then)), source);
      std::swap(digit, source);
      out.push_back(number(group)), out.push_back(rank);
      std::swap(digit, source);
    }
    return out;
  }

  // Neighbouring cuts of a dimension as one.
  std::vector<ReshardStep> steps() const {
    std::vector<ReshardStep> out;
    for (const Place* at = &to_; const Place* before = reached_.at(*at).before; at = before) out.push_back(reached_.at(*at).step);
    std::reverse(out.begin(), out.end());
    auto is_cut = [](const ReshardStep& s) { return s.kind == ReshardStep::kCut; };
    for (auto begin = out.begin(); begin != out.end();) {
      auto end = std::find_if_not(begin, out.end(), is_cut);
      std::stable_sort(begin, end, [](const ReshardStep& a, const ReshardStep& b) { return a.dim < b.dim; });
      begin = std::find_if(end, out.end(), is_cut);
    }
    for (size_t i = 1; i < out.size();) {
      if (!is_cut(out[i]) || !is_cut(out[i - 1]) || out[i].dim != out[i - 1].dim) {
        ++i;
        continue;
      }
      Axes both = out[i - 1].axes;
      both.insert(both.end(), out[i].axes.begin(), out[i].axes.end());
      out[i - 1].axes = joined(mesh_, both);
      out.erase(out.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return out;
  }

  const Mesh& mesh_;
  AxisParts parts_;
  double most_us_, bytes_ = 0;
  std::vector<Dim> extents_;  // beyond what both ends split
  Place from_, to_;
  std::map<Place, Reached> reached_;
  std::priority_queue<Next> queue_;
  size_t order_ = 0;
};

}  // namespace

double steps_us(const Mesh& mesh, const ir::Type& type, const Layout& from, const std::vector<ReshardStep>& steps,
                const ir::Target& target) {
  auto part = static_cast<double>(local_type(mesh, type, from).bytes().bounds().max), us = 0.0;
  for (const ReshardStep& step : steps) {
    us += step_us(mesh, step, part, target);
    part *= growth(mesh, step);
  }
  return us;
}

std::optional<std::vector<ReshardStep>> quickest_steps(const Mesh& mesh, const ir::Type& type, const Layout& from,
                                                       const Layout& to, double most_us) {
  return Search(mesh, type, from, to, most_us).run();
}

}  // namespace nabla::passes
