// Whether a kernel stays within its tensors, as far as sizes and affine index maps decide it. What cannot be decided
// (indices that are looked up, guards over data) passes.
#include <algorithm>
#include <map>
#include <set>

#include "ir/kernel_ir/kernel.h"
#include "ir/kernel_ir/text.h"

namespace nabla::kernel_ir {
namespace {

constexpr int64_t kFar = int64_t{1} << 61;  // sums of a few of them stay in range

int64_t bounded(__int128 v) { return static_cast<int64_t>(std::clamp<__int128>(v, -kFar, kFar)); }

/// Values of an index. `exact`: both ends are taken.
struct Range {
  int64_t min, max;
  bool exact;
  bool empty() const { return max < min; }
};

/// constant + sum of coefficient * axis, as numbers.
struct Line {
  int64_t constant = 0;
  std::map<int, int64_t> coefficients;
};

/// What guards say of the axes: a box, and ranges of sums over several axes.
struct Region {
  std::vector<Range> axes;
  std::vector<std::pair<std::map<int, int64_t>, Range>> sums;
  bool decided = true;  ///< false: there is a condition that is none of these
  bool empty = false;
};

/// Checks a kernel at one choice of its symbolic sizes.
class AccessChecker {
 public:
  AccessChecker(const Kernel& k, bool largest) : k_(k), largest_(largest) {
    Region all;
    for (const Axis& a : k.axes) all.axes.push_back({0, size(a.extent) - 1, true});
    regions_.push_back(std::move(all));
  }

  Status run() {
    if (!admissible()) return Ok{};
    body(k_.body);
    if (failure_.empty()) return Ok{};
    return failure_;
  }

 private:
  // Do the sizes keep what the module's constraints say? All at their largest often do not.
  bool admissible() const {
    for (const ir::SymbolRef& s : symbols_of(k_))
      if (s->facts && !std::all_of(s->facts->begin(), s->facts->end(), [&](const ir::Dim& f) { return size(f) >= 0; }))
        return false;
    return true;
  }
  int64_t size(const ir::Dim& d) const {
    if (d.is_static()) return d.value();
    return d.eval([&](const ir::Symbol& s) {
      return largest_ ? s.max / s.multiple * s.multiple : (s.min + s.multiple - 1) / s.multiple * s.multiple;
    });
  }
  bool runs(const std::vector<int>& axes) const {
    return std::all_of(axes.begin(), axes.end(), [&](int a) { return size(k_.axes[a].extent) > 0; });
  }

  // ---- Index maps as numbers.
  std::optional<Line> line_of(const Expr& e) const {
    std::optional<Affine> affine = as_affine(e);
    if (!affine) return std::nullopt;
    Line out{size(affine->constant), {}};
    for (const auto& [axis, c] : affine->coefficients)
      if (int64_t value = size(c); value != 0) out.coefficients[axis] = value;
    return out;
  }
  // Whether a sum takes every value between its ends: its steps, in ascending order, leave no gaps.
  static bool gapless(const Line& line, const Region& region) {
    std::vector<std::pair<int64_t, int64_t>> steps;  // coefficient, how often
    for (const auto& [axis, c] : line.coefficients)
      steps.emplace_back(std::abs(c), region.axes[axis].max - region.axes[axis].min);
    std::sort(steps.begin(), steps.end());
    int64_t reach = 0;
    for (auto [step, count] : steps) {
      if (step > reach + 1) return false;
      reach = bounded(reach + static_cast<__int128>(step) * count);
    }
    return true;
  }
  Range range_of(const Line& line, const Region& region) const {
    __int128 low = line.constant, high = line.constant;
    for (const auto& [axis, c] : line.coefficients) {
      const Range& r = region.axes[axis];
      low += static_cast<__int128>(c) * (c > 0 ? r.min : r.max);
      high += static_cast<__int128>(c) * (c > 0 ? r.max : r.min);
    }
    Range out{bounded(low), bounded(high), region.decided};
    for (const auto& [coefficients, r] : region.sums) {
      if (coefficients == line.coefficients) {
        Range cut{std::max(out.min, r.min + line.constant), std::min(out.max, r.max + line.constant), out.exact};
        cut.exact = cut.exact && ((cut.min == out.min && cut.max == out.max) || gapless(line, region));
        out = cut;
      } else if (std::any_of(coefficients.begin(), coefficients.end(),
                             [&](const auto& c) { return line.coefficients.count(c.first); })) {
        out.exact = false;
      }
    }
    return out;
  }
  Range range_of(const Expr& e, const Region& region) const {
    constexpr Range kUnknown{-kFar, kFar, false};
    if (std::optional<Line> line = line_of(e)) return range_of(*line, region);
    if (e->kind != ExprKind::kCall || e->args.size() != 2) return kUnknown;
    bool division = e->fn->name == "floordiv", remainder = e->fn->name == "mod";
    std::optional<Line> by = line_of(e->args[1]);
    if ((!division && !remainder) || !by || !by->coefficients.empty() || by->constant <= 0) return kUnknown;
    Range of = range_of(e->args[0], region);
    if (of.empty()) return of;
    auto floor = [&](int64_t v) { return v / by->constant - (v % by->constant < 0); };
    if (division) return {floor(of.min), floor(of.max), of.exact};
    if (floor(of.min) == floor(of.max) && of.exact)
      return {of.min - floor(of.min) * by->constant, of.max - floor(of.max) * by->constant, true};
    std::optional<Line> line = line_of(e->args[0]);
    bool all = of.exact && line && of.max - of.min + 1 >= by->constant && gapless(*line, region);
    return {0, by->constant - 1, all};
  }

  // ---- Guards.
  void restrict(Region& region, const Line& line, Range wanted) const {  // wanted.min <= line <= wanted.max
    wanted.min = std::max(wanted.min - line.constant, -kFar);
    wanted.max = std::min(wanted.max - line.constant, kFar);
    if (line.coefficients.empty()) {
      region.empty |= wanted.min > 0 || wanted.max < 0;
    } else if (line.coefficients.size() == 1) {
      auto [axis, c] = *line.coefficients.begin();
      if (c < 0) wanted = {-wanted.max, -wanted.min, true};
      c = std::abs(c);
      Range& r = region.axes[axis];
      r.min = std::max(r.min, wanted.min / c + (wanted.min % c > 0));
      r.max = std::min(r.max, wanted.max / c - (wanted.max % c < 0));
      region.empty |= r.empty();
    } else {
      region.sums.emplace_back(line.coefficients, wanted);
      region.empty |= range_of(Line{0, line.coefficients}, region).empty();
    }
  }
  void assume(Region& region, const Expr& guard) const {
    if (guard->kind == ExprKind::kConst) return void(region.empty |= guard->integer == 0);
    bool call = guard->kind == ExprKind::kCall && guard->args.size() == 2;
    if (call && guard->fn->name == "and") return assume(region, guard->args[0]), assume(region, guard->args[1]);
    std::optional<Line> a, b;
    if (call) a = line_of(guard->args[0]), b = line_of(guard->args[1]);
    if (!a || !b) return void(region.decided = false);
    a->constant -= b->constant;
    for (const auto& [axis, c] : b->coefficients)
      if ((a->coefficients[axis] -= c) == 0) a->coefficients.erase(axis);
    std::string_view fn = guard->fn->name;
    if (fn == "lt") return restrict(region, *a, {-kFar, -1, true});
    if (fn == "le") return restrict(region, *a, {-kFar, 0, true});
    if (fn == "gt") return restrict(region, *a, {1, kFar, true});
    if (fn == "ge") return restrict(region, *a, {0, kFar, true});
    if (fn == "eq") return restrict(region, *a, {0, 0, true});
    region.decided = false;
  }
  int guarded(int region, const Expr& guard) {
    Region inside = regions_[region];
    assume(inside, guard);
    regions_.push_back(std::move(inside));
    return static_cast<int>(regions_.size()) - 1;
  }
  int undecided(int region) {
    regions_.push_back(regions_[region]);
    regions_.back().decided = false;
    return static_cast<int>(regions_.size()) - 1;
  }

  // ---- Accesses.
  void access(const std::string& what, const std::vector<Expr>& at, const std::vector<int64_t>& extents, int region) {
    if (regions_[region].empty) return;
    for (size_t d = 0; d < at.size() && failure_.empty(); ++d) {
      Range r = range_of(at[d], regions_[region]);
      if (r.empty() || !r.exact || (r.min >= 0 && r.max < extents[d])) continue;
      ExprNames names{[&](int a) { return k_.axes[a].name; }, [&](int b) { return k_.buffers[b].name; },
                      [&](int v) { return k_.values[v].name; }};
      Diagnostic bad =
          error(Code::kInvalidModule, "kernel @{}: {}: index {} of dimension {} runs from {} to {}, its extent is {}{}",
                k_.name, what, to_text(at[d], names), d, r.min, r.max, extents[d], sizes());
      bad.help = "guard the access, or correct the index or the extents of its axes";
      failure_.push_back(std::move(bad));
    }
  }
  std::string sizes() const {
    std::string out;
    for (const ir::SymbolRef& s : symbols_of(k_))
      out += fmt::format("{}{} = {}", out.empty() ? " (at " : ", ", s->name, size(ir::Dim::symbol(s)));
    return out.empty() ? out : out + ")";
  }
  std::vector<int64_t> extents_of(const ExprNode& e) const {
    std::vector<int64_t> out;
    if (e.kind == ExprKind::kLoad)
      for (const ir::Dim& d : k_.buffers[e.ref].shape) out.push_back(size(d));
    else
      for (int a : k_.values[e.ref].axes) out.push_back(size(k_.axes[a].extent));
    return out;
  }
  void walk(const Expr& e, int region) {
    if (!failure_.empty() || !seen_.insert({e.id(), region}).second) return;
    int inside = region;
    if (e->guard) {
      walk(e->guard, region);
      inside = guarded(region, e->guard);
      walk(e->fill, undecided(region));  // where the guard is false
    }
    for (const Expr& a : e->args) walk(a, inside);
    if (e->kind == ExprKind::kLoad) access("load of " + k_.buffers[e->ref].name, e->args, extents_of(*e), inside);
    if (e->kind == ExprKind::kValue) access("use of " + k_.values[e->ref].name, e->args, extents_of(*e), inside);
  }
  void body(const Body& statements) {
    for (const Stmt& s : statements) std::visit([&](const auto& node) { stmt(node); }, s.node);
  }
  void stmt(const Let& s) {
    if (runs(k_.values[s.value].axes) && runs(s.reduce)) walk(s.expr, 0);
  }
  void stmt(const Store& s) {
    if (!runs(s.axes)) return;
    if (s.guard) walk(s.guard, 0);
    int region = s.guard ? guarded(0, s.guard) : 0;
    for (const Expr& i : s.indices) walk(i, region);
    walk(s.expr, region);
    std::vector<int64_t> extents;
    for (const ir::Dim& d : k_.buffers[s.buffer].shape) extents.push_back(size(d));
    access("store to " + k_.buffers[s.buffer].name, s.indices, extents, region);
  }
  void stmt(const For& s) {
    if (runs(s.axes)) body(s.body);
  }
  void stmt(const Loop& s) {
    for (const Expr& e : s.init) walk(e, 0);
    if (!runs({s.axis})) return;
    body(s.body);
    for (const Expr& e : s.next) walk(e, 0);
  }

  const Kernel& k_;
  bool largest_;
  std::vector<Region> regions_;  // the first one: no guard
  std::set<std::pair<const ExprNode*, int>> seen_;
  Diagnostics failure_;
};

}  // namespace

Status check_accesses(const Kernel& kernel) {
  (void)NABLA_TRY(AccessChecker(kernel, true).run());
  if (symbols_of(kernel).empty()) return Ok{};
  return AccessChecker(kernel, false).run();
}

}  // namespace nabla::kernel_ir
