#include "ir/cost/grid_work.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "ir/cost/least_work.h"
#include "ir/kernel_ir/axis_step.h"
#include "ir/kernel_ir/product.h"
#include "ir/kernel_ir/row_packs.h"
#include "ir/kernel_ir/scatter.h"
#include "ir/kernel_ir/stores.h"
#include "ir/kernel_ir/turned.h"
#include "ir/kernel_ir/window_product.h"

namespace nabla::ir {
namespace {

using namespace kernel_ir;  // NOLINT: walks kernel_ir

constexpr int kWarp = 32;
constexpr double kKeptBytes = 64 << 10;  // of an array that stays in the cache of each multiprocessor
constexpr double kLargest = 1e15;        // of counts that become integers: sizes may be as large as their symbols say

double bytes_of_array(const Buffer& b) { return largest_size(Type(b.dtype, b.shape).bytes()); }
int compute_bytes(DType dtype) { return std::max(4, bytes_of(dtype)); }
double up(double n, double unit) { return std::ceil(n / unit) * unit; }

// Where the lanes of a warp find an access: how many sectors are theirs.
class Sectors {
 public:
  Sectors(const Kernel& k, const std::vector<int>& lanes, int pack) : k_(k), lanes_(lanes), pack_(pack) {}

  // For a warp in the middle of the work, of one access of each of its threads.
  double of(const std::vector<Expr>& at, const Buffer& b) const {
    std::map<int, double> strides;
    double below = 1;
    for (size_t d = at.size(); d-- > 0;) {
      // An index that is looked up counts as if it stood still.
      if (std::optional<Affine> flat = as_affine(at[d]))
        for (const auto& [axis, c] : flat->coefficients) strides[axis] += largest_size(c) * below;
      below *= largest_size(b.shape[d]);
    }
    const double bytes = bytes_of(b.dtype);
    std::set<int64_t> found;
    double points = 1;
    for (int a : lanes_) points *= largest_size(k_.axes[static_cast<size_t>(a)].extent);
    const auto packs = static_cast<int64_t>(std::clamp(points / pack_, 1.0, kLargest)), first = packs / 2 / kWarp * kWarp;
    for (int64_t lane = first; lane < std::min(first + kWarp, packs); ++lane) {
      double place = 0;
      int64_t rest = lane * pack_;
      for (auto a = lanes_.rbegin(); a != lanes_.rend(); ++a) {
        auto extent = std::max<int64_t>(1, k_.axes[static_cast<size_t>(*a)].extent.bounds().max);
        if (auto s = strides.find(*a); s != strides.end()) place += static_cast<double>(rest % extent) * s->second;
        rest /= extent;
      }
      const double step = lanes_.empty() || !strides.contains(lanes_.back()) ? 0 : strides[lanes_.back()];
      for (int l = 0; l < pack_; ++l)
        found.insert(static_cast<int64_t>(std::clamp(std::floor((place + l * step) * bytes / kSectorBytes), -kLargest, kLargest)));
    }
    return static_cast<double>(found.size());
  }

 private:
  const Kernel& k_;
  const std::vector<int>& lanes_;
  int pack_;
};

// Small arrays that many read come from memory, or from the cache that all share, once.
double kept(const Buffer& b, double sectors) {
  const double all = bytes_of_array(b);
  return all <= kKeptBytes ? std::min(sectors, all / kSectorBytes) : sectors;
}

// In which share of the iterations a guard holds that bounds axes by numbers, such as those of a concatenation; 1 of what is not known.
class GuardedShare {
 public:
  explicit GuardedShare(const Kernel& k) : k_(k) {}

  double of(const Expr& guard) {
    if (guard) bound(guard);
    double share = 1;
    for (const auto& [axis, range] : ranges_) {
      const double extent = largest_size(k_.axes[static_cast<size_t>(axis)].extent);
      if (extent > 0) share *= std::max(0.0, std::min(range.end, extent) - range.begin) / extent;
    }
    return share;
  }

 private:
  struct Range {
    double begin = 0, end = kLargest;
  };
  void bound(const Expr& e) {
    if (e->kind != ExprKind::kCall) return;
    if (e->fn->name == "and") return bound(e->args[0]), bound(e->args[1]);
    std::optional<AxisStep> step = as_axis_step(e);
    if (!step) return;
    Range& r = ranges_[step->axis];
    step->before ? r.end = std::min(r.end, largest_size(step->at)) : r.begin = std::max(r.begin, largest_size(step->at));
  }

  const Kernel& k_;
  std::map<int, Range> ranges_;
};

class TeamWalk {
 public:
  TeamWalk(const Kernel& k, const TeamMapping& m) : k_(k), m_(m) {}

  // Axes of a lone store stand beside those of its loop.
  GridWork run(const GridStatement& s) {
    outer_.insert(m_.parallel.begin(), m_.parallel.end());
    outer_.insert(m_.serial.begin(), m_.serial.end());
    double walked = points(m_.serial);
    out_.turns = points(m_.parallel) * m_.team / kWarp / (alone() ? m_.pack : 1);
    if (m_.team == 1) out_.turns = std::max(1.0, out_.turns);
    if (walked > 1) out_.around = walked;
    if (!alone() && m_.pack > 1) packs_ = find_row_packs(k_, s.body, m_.team);
    body(s.body, {});
    for (const auto& [buffer, sectors] : sectors_) out_.sectors += kept(k_.buffers[static_cast<size_t>(buffer)], sectors);
    out_.around = std::max(out_.around, loop_trips_);
    return std::move(out_);
  }

 private:
  using Axes = std::vector<int>;

  double points(const Axes& axes) const {
    double n = 1;
    for (int a : axes) n *= largest_size(k_.axes[static_cast<size_t>(a)].extent);
    return n;
  }
  bool alone() const { return m_.team == 1; }
  Axes inside(Axes axes, const Axes& more) const {
    for (int a : more)
      if (!outer_.contains(a)) axes.push_back(a);
    return axes;
  }
  static bool moves(const Expr& e, const Axes& axes) {
    bool found = false;
    visit(e, [&](const Expr& x) {
      found |= x->kind == ExprKind::kAxis && std::find(axes.begin(), axes.end(), x->ref) != axes.end();
      found |= x->kind == ExprKind::kValue && !axes.empty();
    });
    return found;
  }

  // Whether registers do not have it yet.
  bool once(const Expr& load, const Axes& inner) {
    for (size_t i = 0; i < packs_.kept.size(); ++i)
      if (packs_.kept[i].load == load && packs_.kept[i].axes == inner && !kept_.insert(i).second) return false;
    return true;
  }
  // An access of a thread: of every trip of a loop, or of every turn.
  void access(const std::vector<Expr>& at, int buffer, const Axes& inner, double trips) {
    const Buffer& b = k_.buffers[static_cast<size_t>(buffer)];
    const Axes& lanes = alone() ? m_.parallel : inner;
    const int pack = alone() ? m_.pack : width(inner);
    double sectors = Sectors(k_, lanes, pack).of(at, b) / (alone() ? 1 : pack);
    // A thread that walks along a row finds the next elements in the sector that it has.
    if (alone() && !inner.empty() && !at.empty()) {
      std::optional<Affine> last = as_affine(at.back());
      if (last && last->coefficients.contains(inner.back()) && last->of(inner.back()).is(1))
        sectors = std::max(1.0, sectors * bytes_of(b.dtype) / kSectorBytes);
    }
    sectors_[buffer] += sectors * out_.turns * out_.around * trips;
  }
  void loads(const Expr& e, const Axes& inner, InnerLoop& loop) {
    if (!e) return;
    std::vector<Expr> seen;
    visit(e, [&](const Expr& x) {
      bool row = x->kind == ExprKind::kValue && !k_.values[static_cast<size_t>(x->ref)].axes.empty() && !alone();
      if ((x->kind != ExprKind::kLoad && !row) || std::find(seen.begin(), seen.end(), x) != seen.end()) return;
      seen.push_back(x);
      if (!row && !once(x, inner)) return;
      bool each = inner.empty() || moves(x, inner);
      if (each) loop.load_bytes += row ? compute_bytes(x->dtype) : bytes_of(x->dtype);
      if (!row) access(x->args, x->ref, each ? inner : Axes(), (each ? reached(inner) : 1) * GuardedShare(k_).of(x->guard));
    });
  }
  int width(const Axes& shared) const { return by_packs(k_, shared, m_.team, m_.pack) ? m_.pack : 1; }
  // Elements of a thread.
  double shared_out(const Axes& axes) const {
    const double n = points(axes), pack = width(axes);
    return alone() ? n : std::ceil(n / pack / m_.team) * pack;
  }
  // The same without those that threads beyond a row's end leave out, as far as whole warps are.
  double reached(const Axes& axes) const {
    const double n = points(axes), pack = width(axes);
    return alone() ? n : std::max(kWarp / static_cast<double>(m_.team), n / pack / m_.team) * pack;
  }

  void body(const Body& statements, const Axes& around) {
    for (const Stmt& s : statements) {
      if (const auto* let = std::get_if<Let>(&s.node)) {
        const ValueInfo& v = k_.values[static_cast<size_t>(let->value)];
        InnerLoop loop;
        Axes inner = inside(inside(around, v.axes), let->reduce);
        loop.trips = shared_out(inner);
        loads(let->expr, inner, loop);
        if (!v.axes.empty() && !alone()) loop.row_bytes = compute_bytes(v.dtype);
        add(loop, inner);
      } else if (const auto* store = std::get_if<Store>(&s.node)) {
        InnerLoop loop;
        Axes inner = inside(around, store->axes);
        loop.trips = shared_out(inner);
        loads(store->expr, inner, loop), loads(store->guard, inner, loop);
        for (const Expr& i : store->indices) loads(i, inner, loop);
        loop.store_bytes = bytes_of(k_.buffers[static_cast<size_t>(store->buffer)].dtype);
        access(store->indices, store->buffer, inner, reached(inner));
        add(loop, inner);
      } else if (const auto* f = std::get_if<For>(&s.node)) {
        body(f->body, inside(around, f->axes));
      } else if (const auto* l = std::get_if<Loop>(&s.node)) {
        double outside = out_.around;
        out_.around *= largest_size(k_.axes[static_cast<size_t>(l->axis)].extent);
        body(l->body, around);
        loop_trips_ = std::max(loop_trips_, out_.around), out_.around = outside;
      }
    }
  }
  void add(InnerLoop loop, const Axes& inner) {
    if (inner.empty()) {
      out_.store_bytes += loop.store_bytes * (alone() ? m_.pack : 1);
      return;
    }
    loop.trips *= out_.around;
    out_.loops.push_back(loop);
  }

  const Kernel& k_;
  const TeamMapping& m_;
  std::set<int> outer_;
  GridWork out_;
  double loop_trips_ = 1;
  RowPacks packs_;
  std::set<size_t> kept_;  // The loads that registers hold by now.
  std::map<int, double> sectors_;
};

// Each tile is read along one axis, and stored along the other; both walks are unrolled.
GridWork of_turn(const Kernel& k, const TurnMapping& m, const GridStatement& s) {
  const Turned turned = *find_turned(k, m.parallel, s.body);
  std::vector<int> reading = m.parallel, storing = m.parallel;
  std::erase(reading, m.across), reading.push_back(m.across);
  double tiles = 1, points = 1;
  for (int a : m.parallel) {
    const double extent = largest_size(k.axes[static_cast<size_t>(a)].extent);
    const bool side = a == m.across || a == m.parallel.back();
    tiles *= side ? std::ceil(extent / kTurnedTile) : extent, points *= extent;
  }
  GridWork out;
  out.turns = tiles * kTurnedThreads / kWarp;
  std::map<int, double> of;
  auto add = [&](const std::vector<Expr>& at, int buffer, const std::vector<int>& lanes) {
    of[buffer] += Sectors(k, lanes, 1).of(at, k.buffers[static_cast<size_t>(buffer)]) * points / kWarp;
  };
  for (const Expr& load : turned.loads) add(load->args, load->ref, reading);
  for (const Stmt& stmt : s.body) {
    const Store* store = std::get_if<Store>(&stmt.node);
    visit(store ? store->expr : std::get<Let>(stmt.node).expr, [&](const Expr& x) {
      if (x->kind == ExprKind::kLoad && std::ranges::find(turned.loads, x) == turned.loads.end()) add(x->args, x->ref, storing);
    });
    if (!store) continue;
    add(store->indices, store->buffer, storing);
    out.store_bytes += kTurnedTile * kTurnedTile / kTurnedThreads * bytes_of(k.buffers[static_cast<size_t>(store->buffer)].dtype);
  }
  for (const auto& [buffer, sectors] : of) out.sectors += kept(k.buffers[static_cast<size_t>(buffer)], sectors);
  return out;
}

double sectors_of(const Kernel& k) { return largest_size(kernel_work(k).bytes) / kSectorBytes; }

GridWork of_product(const Kernel& k, const Grid& g, const ProductMapping& m, bool alone) {
  std::optional<Product> product = find_product(k);
  std::unique_ptr<WindowProduct> windows = product ? nullptr : find_window_product(k);
  if (windows) product.emplace(windows->product());
  const Product& p = *product;
  auto size = [&](int axis) { return largest_size(p.kernel.axes[static_cast<size_t>(axis)].extent); };
  double tiles = std::ceil(size(p.c.m) / m.tile_rows) * std::ceil(size(p.c.n) / m.tile_columns);
  for (int b : p.c.batch) tiles *= size(b);
  GridWork out;
  std::optional<DType> dtype = common_dtype(p);
  out.factors = m.by == ProductMapping::By::kThreads ? p.c.dtype : dtype.value_or(p.c.dtype);
  const double bytes = dtype ? bytes_of(*dtype) : 4;
  double of_k = (m.by == ProductMapping::By::kWarpgroups ? kWarpgroupTileBytes : kTensorTileBytes) / bytes;
  if (m.by == ProductMapping::By::kThreads) of_k = kThreadTileK;
  const double deep = up(size(p.c.k), of_k);
  out.turns = tiles * g.threads / kWarp;
  out.multiply_adds = tiles * m.tile_rows * m.tile_columns * deep;
  out.ahead = std::max(1, m.stages - (m.by == ProductMapping::By::kWarpgroups && bytes > 1 ? 2 : 1));
  if (m.by == ProductMapping::By::kWarpgroups) out.steps = out.turns * deep / of_k;
  double rest = largest_size(kernel_work(k).bytes) - bytes * (size(p.c.m) + size(p.c.n)) * size(p.c.k);
  // One of several grids writes sums into a workspace.
  if (!alone) rest = bytes_of_array(k.buffers[static_cast<size_t>(std::get<Store>(k.body.back().node).buffer)]);
  out.sectors = (tiles * size(p.c.k) * (m.tile_rows + m.tile_columns) * bytes + std::max(rest, 0.0)) / kSectorBytes;
  return out;
}

// The forward grid multiplies queries with keys and weights with values; on the way back the first grid makes both of it again, and
// the queries' cotangents, the second these and two more. Of many features the second is two: both make weights, and the first
// what follows for scores.
GridWork of_attention(const Kernel& k, const CudaSchedule& schedule, size_t grid) {
  const Procedure& p = *k.procedure;
  const Grid& g = schedule.grids[grid];
  const double keys = std::max(1.0, largest_size(p.number("keys"))), queries = largest_size(p.count());
  const double features = largest_size(p.number("features")), width = largest_size(p.number("out"));
  const bool causal = !p.number("causal").is(0), back = p.def->algorithm == Algorithm::kAttentionGrad;
  const bool apart = back && is_wide_attention(p), values_alone = apart && grid == 2;
  const auto& m = std::get<TemplateMapping>(g.mapping);
  const bool both = back && !apart && grid > 0;
  double pairs = largest_size(p.outer()) * queries * keys;
  // The tiles at the mask's edge are computed whole.
  const auto together = static_cast<double>(m.warpgroups ? kWarpgroupRows : m.tile_rows);
  if (causal) pairs = pairs / 2 * (1 + together / keys);
  GridWork out;
  out.factors = k.buffers[0].dtype;
  out.multiply_adds = pairs * (!back || values_alone ? features + width : both ? 2 * (features + width) : 2 * features + width);
  const double tiles = largest_size(g.blocks), bytes = bytes_of(k.buffers[0].dtype);
  out.turns = tiles * g.threads / kWarp;
  if (m.warpgroups) {
    const auto c = static_cast<double>(m.tile_columns);
    const double wgmma = (features + (back && !values_alone ? width : 0) + (both ? 2 : 1) * c) / kFragmentRows;
    out.steps = pairs / c / kFragmentRows * wgmma / 4;
    out.ahead = 2;
  }
  out.sectors = (pairs / static_cast<double>(m.tile_rows) * (features + width) * bytes + largest_size(kernel_work(k).bytes)) / kSectorBytes;
  return out;
}

// Every block looks at all updates, and each warp combines what the eight lists name of its columns.
GridWork of_scatter(const Kernel& k, const Grid& g, const ScatterMapping& m) {
  constexpr double kLists = kScatterThreads / kWarp, kPerList = 256, kAhead = 8;
  auto points = [&](const std::vector<int>& axes) {
    double n = 1;
    for (int a : axes) n *= largest_size(k.axes[static_cast<size_t>(a)].extent);
    return n;
  };
  const double rows = static_cast<double>(m.row_tiles), updates = points(m.serial), columns = points(m.parallel);
  const double tiles = std::ceil(columns / m.tile_columns) * rows;
  GridWork out;
  double turns = tiles * g.threads / kWarp, steps = std::ceil(updates / (kLists * kPerList));
  const double found = std::min(updates, kPerList) / rows;  // of a list
  out.turns = turns;
  out.by_depth = {turns, turns * steps, turns * steps * kLists, turns * steps * kLists * std::max(found / kAhead, std::min(found, 1.0))};
  out.sectors = sectors_of(k) + tiles * updates * 4 / kSectorBytes;
  return out;
}

}  // namespace

GridWork grid_work(const Kernel& k, size_t grid) {
  const CudaSchedule& schedule = cuda_schedule_of(k);
  const Grid& g = schedule.grids.at(grid);
  if (const auto* m = std::get_if<ProductMapping>(&g.mapping)) {
    if (find_product(k) || find_window_product(k)) return of_product(k, g, *m, true);
    return of_product(*product_statement(k, grid_statements(k).at(grid)), g, *m, false);
  }
  if (const auto* m = std::get_if<ScatterMapping>(&g.mapping)) return of_scatter(k, g, *m);
  if (const auto* m = std::get_if<ClearMapping>(&g.mapping)) {
    const Buffer& b = k.buffers[static_cast<size_t>(m->buffer)];
    GridWork out;
    out.store_bytes = bytes_of(b.dtype), out.turns = bytes_of_array(b) / bytes_of(b.dtype) / kWarp;
    out.sectors = bytes_of_array(b) / kSectorBytes;
    return out;
  }
  const auto* team = std::get_if<TeamMapping>(&g.mapping);
  const auto* turn = std::get_if<TurnMapping>(&g.mapping);
  if (team || turn) {
    size_t cleared = 0;
    while (std::holds_alternative<ClearMapping>(schedule.grids[cleared].mapping)) ++cleared;
    std::vector<GridStatement> statements = grid_statements(k);
    const GridStatement& s = statements.at(grid - cleared);
    return team ? TeamWalk(k, *team).run(s) : of_turn(k, *turn, s);
  }
  if (schedule.procedure_template == TemplateKind::kAttention) return of_attention(k, schedule, grid);
  GridWork out;
  out.turns = largest_size(g.blocks) * g.threads / kWarp, out.sectors = sectors_of(k), out.known = false;
  return out;
}

}  // namespace nabla::ir
