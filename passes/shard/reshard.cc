#include "passes/shard/reshard.h"

#include <algorithm>
#include <limits>

#include "ir/cost/exchange.h"
#include "passes/shard/reshard_path.h"

namespace nabla::passes {

using ir::Axes;
using ir::Dim;
using ir::Mesh;
using ir::Val;

RankSymbols::RankSymbols(const Mesh& mesh) : mesh_(mesh) {
  for (const ir::MeshAxis& a : mesh.axes) {
    ir::Symbol s{a.name + ".index", 0, a.size - 1};
    s.axis = a.name;
    symbols_.push_back(std::make_shared<const ir::Symbol>(std::move(s)));
  }
}

Dim RankSymbols::coordinate(const Axes& axes) const {
  Dim out = 0;
  for (const ir::AxisRef& a : axes) {
    int64_t whole = mesh_.size_of(a.name), size = shards(mesh_, {a}), after = whole / (a.before * size);
    Dim index = 0;
    for (size_t i = 0; i < symbols_.size(); ++i)
      if (mesh_.axes[i].name == a.name && whole > 1) index = Dim::symbol(symbols_[i]);
    out = out * size + Dim::mod(Dim::floordiv(index, after), size);
  }
  return out;
}

namespace {

ir::Attrs group(const Mesh& mesh, const Axes& axes) { return {{"axes", axes}, {"shards", shards(mesh, axes)}}; }

ir::Attrs with(ir::Attrs attrs, const char* name, int64_t value) {
  attrs.set(name, value);
  return attrs;
}

// One of n equal parts of a dimension.
Val shard_of(Val v, int64_t dim, int64_t n, const Dim& which) {
  ir::Shape shape = v.shape();
  Dim size = Dim::floordiv(shape[dim], n);
  if (size.is_static())
    return v.b->op("section", {v}, {{"axis", dim}, {"range", ir::Shape{which * size, size}}});
  // That the range lies within is plain only where parts are counted.
  ir::Shape part = shape;
  part[dim] = size, shape[dim] = size;
  shape.insert(shape.begin() + dim, n);
  v = v.b->op("section", {ir::reshape(v, shape)}, {{"axis", dim}, {"range", ir::Shape{which, 1}}});
  return ir::reshape(v, part);
}

/// Steps in a fixed order.
class Path {
 public:
  Path(const Mesh& mesh, Layout from, const Layout& to) : mesh_(mesh), now_(std::move(from)), to_(to) {}

  std::vector<ReshardStep> run() {
    reduce();
    for (int d = 0; d < rank(); ++d) exchange(d);
    for (int d = 0; d < rank(); ++d)
      if (Axes axes = loss(d); !axes.empty()) drop(d, axes), steps_.push_back({ReshardStep::kAllGather, axes, d});
    for (int d = 0; d < rank(); ++d)
      if (Axes axes = gain(d); !axes.empty()) add(d, axes), steps_.push_back({ReshardStep::kCut, axes, d});
    return std::move(steps_);
  }

 private:
  int rank() const { return static_cast<int>(now_.dims.size()); }
  // What the dimension has to gain, where it keeps what it has.
  Axes gain(int d) const {
    const Axes &now = now_.dims[d], &to = to_.dims[d];
    return is_prefix(now, to) ? Axes(to.begin() + static_cast<std::ptrdiff_t>(now.size()), to.end()) : Axes();
  }
  // What it has to lose: all after what both have in common.
  Axes loss(int d) const {
    const Axes &now = now_.dims[d], &to = to_.dims[d];
    auto same = std::mismatch(now.begin(), now.end(), to.begin(), to.end()).first;
    return Axes(same, now.end());
  }
  void drop(int d, const Axes& axes) { now_.dims[d].resize(now_.dims[d].size() - axes.size()); }
  void add(int d, const Axes& axes) { now_.dims[d].insert(now_.dims[d].end(), axes.begin(), axes.end()); }

  void reduce() {
    // Microbatches are summed as they come; ranks combine the sum.
    if (const ir::MeshAxis* temporal = mesh_.temporal()) {
      Axes ranks = now_.pending;
      std::erase_if(ranks, [&](const ir::AxisRef& a) { return a.name == temporal->name; });
      if (ranks.size() < now_.pending.size()) steps_.push_back({ReshardStep::kAllReduce, {{temporal->name}}});
      now_.pending = std::move(ranks);
    }
    if (now_.pending.empty()) return;
    for (int d = 0; d < rank(); ++d)
      if (gain(d) == now_.pending) {
        steps_.push_back({ReshardStep::kReduceScatter, now_.pending, d});
        return add(d, now_.pending);
      }
    steps_.push_back({ReshardStep::kAllReduce, now_.pending});
  }

  void exchange(int from) {
    Axes axes = loss(from);
    if (is_temporal(mesh_, axes)) return;
    for (int to = 0; !axes.empty() && to < rank(); ++to) {
      if (to == from || !(gain(to) == axes)) continue;
      steps_.push_back({ReshardStep::kAllToAll, axes, from, to});
      drop(from, axes);
      return add(to, axes);
    }
  }

  const Mesh& mesh_;
  Layout now_;
  const Layout& to_;
  std::vector<ReshardStep> steps_;
};

}  // namespace

std::optional<CollectiveKind> collective_of(ReshardStep::Kind kind) {
  switch (kind) {
    case ReshardStep::kReduceScatter:
      return CollectiveKind::kReduceScatter;
    case ReshardStep::kAllReduce:
      return CollectiveKind::kAllReduce;
    case ReshardStep::kAllToAll:
      return CollectiveKind::kAllToAll;
    case ReshardStep::kAllGather:
      return CollectiveKind::kAllGather;
    case ReshardStep::kPermute:
      return CollectiveKind::kPermute;
    case ReshardStep::kCut:
      return std::nullopt;
  }
  return std::nullopt;
}

double growth(const Mesh& mesh, const ReshardStep& step) {
  auto n = static_cast<double>(shards(mesh, step.axes));
  bool smaller = step.kind == ReshardStep::kReduceScatter || step.kind == ReshardStep::kCut;
  return smaller ? 1 / n : step.kind == ReshardStep::kAllGather ? n : 1;
}

std::vector<ReshardStep> plain_steps(const Mesh& mesh, const Layout& from, const Layout& to) { return Path(mesh, from, to).run(); }

std::vector<ReshardStep> reshard_steps(const Mesh& mesh, const ir::Type& type, const Layout& from, const Layout& to) {
  std::vector<ReshardStep> plain = plain_steps(mesh, from, to);
  Layout begin = from;
  auto first = plain.begin();
  auto is_cut = [](const ReshardStep& s) { return s.kind == ReshardStep::kCut; };
  if (const ir::MeshAxis* temporal = mesh.temporal()) {
    auto along = [&](const ReshardStep& s) { return overlap(mesh, s.axes, {{temporal->name}}); };
    first = std::find_if_not(first, plain.end(), [&](const auto& s) { return s.kind == ReshardStep::kAllReduce && along(s); });
    if (std::any_of(first, plain.end(), along)) return plain;
    std::erase_if(begin.pending, [&](const ir::AxisRef& a) { return a.name == temporal->name; });
  }
  // One step is the best there is, and cuts cost nothing.
  if (plain.end() - first < 2 || std::all_of(first, plain.end(), is_cut)) return plain;
  std::vector<ReshardStep> rest(first, plain.end());
  auto quickest = quickest_steps(mesh, type, begin, to, steps_us(mesh, type, begin, rest));
  if (!quickest) return plain;
  plain.erase(first, plain.end());
  plain.insert(plain.end(), quickest->begin(), quickest->end());
  return plain;
}

double bytes_of_steps(const Mesh& mesh, const ir::Type& type, const Layout& from, const std::vector<ReshardStep>& steps,
                      std::optional<DType> share) {
  auto part = static_cast<double>(local_type(mesh, type, from).bytes().bounds().max), sent = 0.0;
  // How many times as wide shares of the sum are while it is pending.
  const double wide = share ? static_cast<double>(bytes_of(*share)) / bytes_of(type.dtype) : 1.0;
  Axes pending = from.pending;
  for (const ReshardStep& step : steps) {
    bool over_time = is_temporal(mesh, step.axes);
    bool sums = step.kind == ReshardStep::kAllReduce || step.kind == ReshardStep::kReduceScatter;
    // Microbatches add to sums, and see nothing else of each other.
    if (over_time && !sums && step.kind != ReshardStep::kCut) return std::numeric_limits<double>::infinity();
    if (const auto collective = collective_of(step.kind); !over_time && collective)
      sent += ir::sent_bytes(*collective, shards(mesh, step.axes), part) * (pending.empty() ? 1.0 : wide);
    if (sums) pending = without(std::move(pending), step.axes);
    part *= growth(mesh, step);
  }
  return sent;
}

double reshard_bytes(const Mesh& mesh, const ir::Type& type, const Layout& from, const Layout& to, DType share) {
  return bytes_of_steps(mesh, type, from, reshard_steps(mesh, type, from, to), share);
}
double reshard_bytes(const Mesh& mesh, const ir::Type& type, const Layout& from, const Layout& to) {
  return reshard_bytes(mesh, type, from, to, type.dtype);
}

Val reshard(const Mesh& mesh, const RankSymbols& rank, const Part& part, const Layout& to, std::optional<DType> made) {
  ir::Type whole = part.value.type();
  for (size_t d = 0; d < whole.shape.size(); ++d) whole.shape[d] = whole.shape[d] * shards(mesh, part.layout.dims[d]);
  return by_steps(mesh, rank, part.value, part.layout.pending, reshard_steps(mesh, whole, part.layout, to), made);
}

Val by_steps(const Mesh& mesh, const RankSymbols& rank, Val v, Axes pending, const std::vector<ReshardStep>& steps,
             std::optional<DType> made) {
  for (const ReshardStep& step : steps) {
    const std::optional<CollectiveKind> collective = collective_of(step.kind);
    const std::string op = collective ? collective_def(*collective).name : "";
    ir::Attrs attrs = group(mesh, step.axes);
    switch (step.kind) {
      case ReshardStep::kReduceScatter:
      case ReshardStep::kAllGather:
        v = v.b->op(op, {v}, with(attrs, "dim", step.dim));
        pending = without(std::move(pending), step.kind == ReshardStep::kReduceScatter ? step.axes : Axes());
        break;
      case ReshardStep::kAllReduce:
        v = all_reduce(mesh, v, step.axes, kernel_ir::Combiner::kSum);
        pending = without(std::move(pending), step.axes);
        break;
      case ReshardStep::kAllToAll:
        v = v.b->op(op, {v}, with(with(attrs, "split", step.to), "join", step.dim));
        break;
      case ReshardStep::kPermute:
        attrs.set("pairs", step.pairs);
        v = v.b->op(op, {v}, attrs);
        break;
      case ReshardStep::kCut:
        v = shard_of(v, step.dim, shards(mesh, step.axes), rank.coordinate(step.axes));
        break;
    }
    if (made && pending.empty()) v = ir::convert(v, *made);
  }
  return v;
}

Val all_reduce(const Mesh& mesh, Val value, const Axes& axes, kernel_ir::Combiner combiner) {
  // In the order of the mesh, as lower-collectives would sort them: that a later pass did it would change the order of the sum.
  auto place = [&](const ir::AxisRef& a) {
    auto axis = std::find_if(mesh.axes.begin(), mesh.axes.end(), [&](const ir::MeshAxis& m) { return m.name == a.name; });
    return std::pair(axis - mesh.axes.begin(), a.before);
  };
  Axes sorted = axes;
  std::stable_sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
  ir::Attrs attrs = group(mesh, sorted);
  attrs.set("combiner", std::string(kernel_ir::name_of(combiner)));
  return value.b->op("all_reduce", {value}, attrs);
}

}  // namespace nabla::passes
