// Whether a kernel's schedule covers its work.
#include <algorithm>
#include <limits>

#include "ir/kernel_ir/contract.h"
#include "ir/kernel_ir/kernel.h"
#include "ir/kernel_ir/packs.h"
#include "ir/kernel_ir/procedure_template.h"
#include "ir/kernel_ir/row_packs.h"
#include "ir/kernel_ir/scatter.h"
#include "ir/kernel_ir/stores.h"
#include "ir/kernel_ir/turned.h"
#include "ir/kernel_ir/window_product.h"

namespace nabla::kernel_ir {
namespace {

bool too_small(const ir::Dim& size, const ir::Dim& wanted) {
  return ir::Dim::less_equal(wanted, size) == std::optional(false);
}

class Checker {
 protected:
  explicit Checker(const Kernel& k) : k_(k) {}

  // What schedule-kernels adds for a template (passes/lower/row_units.h): scratch memory of each unit, or both halves.
  Status workspace(const ProcedureTemplate& how, const ir::Dim& units) const {
    const Procedure& p = *k_.procedure;
    const Buffer *found = nullptr, *key = nullptr;
    for (const Buffer& b : k_.buffers) {
      if (b.role == BufferRole::kWorkspace) found = &b;
      if (b.role == BufferRole::kIn && (!key || bytes_of(b.dtype) > bytes_of(key->dtype))) key = &b;
    }
    ir::Dim rows = units, bytes = how.scratch_of_unit ? how.scratch_of_unit(p) : 0;
    if (how.bytes_in_halves && key)
      rows = p.rows() * 2, bytes = p.count() * how.bytes_in_halves(p, bytes_of(key->dtype));
    if (bytes.is(0)) return Ok{};
    if (!found) return fail("template {} needs a workspace", how.name);
    if (found->dtype == DType::kU8 && found->shape.size() == 2 && !too_small(found->shape[0], rows) &&
        !too_small(found->shape[1], bytes))
      return Ok{};
    return fail("template {} needs a workspace u8[{},{}], and {} is {}", how.name, rows.str(), bytes.str(), found->name,
                ir::Type(found->dtype, found->shape).str());
  }
  template <class... Args>
  Diagnostic fail(fmt::format_string<Args...> f, Args&&... args) const {
    return error(Code::kInvalidModule, "kernel @{}: schedule: {}", k_.name,
                 fmt::format(f, std::forward<Args>(args)...));
  }
  const Kernel& k_;
};

/// The same checks of a schedule that the scheduler's rules give: no iteration is left out, none runs twice at a time.
class CpuChecker : Checker {
 public:
  CpuChecker(const Kernel& k, const CpuSchedule& s) : Checker(k), s_(s) {}

  Status run() const {
    if (s_.unit < 1 || s_.max_threads < 1 || s_.units.bounds().min < 0)
      return fail("unit {} units {} threads {}: each is at least 1", s_.unit, s_.units.str(), s_.max_threads);
    if (s_.unit > kMaxArrayBytes || s_.units.bounds().max > kMaxArrayBytes)
      return fail("unit {} units {}: each is at most {}", s_.unit, s_.units.str(), kMaxArrayBytes);
    if (s_.vector_axis >= static_cast<int>(k_.axes.size())) return fail("there is no vector axis {}", s_.vector_axis);
    if (k_.procedure) {
      (void)NABLA_TRY(covers(k_.procedure->rows(), "rows"));
      return workspace(template_of(*k_.procedure, {}), s_.units);
    }
    if (std::optional<Contraction> c = find_contraction(k_)) return contraction(*c);
    const For* loop = nullptr;
    int loops = 0;
    for (const Stmt& s : k_.body)
      if (const For* f = std::get_if<For>(&s.node)) loop = f, ++loops;
    if (loops != 1) {
      if (ir::Dim::less_equal(s_.units, 1) == std::optional(false))
        return fail("{} units of {} outermost loops, which run one after the other in one", s_.units.str(), loops);
      return Ok{};
    }
    bool lane = s_.vector_axis >= 0;
    if (lane && std::find(loop->axes.begin(), loop->axes.end(), s_.vector_axis) == loop->axes.end())
      return fail("vector axis {} is none of the outermost loop's", k_.axes[s_.vector_axis].name);
    ir::Dim iterations = 1;
    for (int a : loop->axes)
      if (a != s_.vector_axis || loop->axes.size() == 1) iterations = iterations * k_.axes[a].extent;
    return covers(iterations, "iterations");
  }

 private:
  bool too_few(const ir::Dim& work) const { return too_small(s_.units * ir::Dim(s_.unit), work); }
  Status covers(const ir::Dim& work, std::string_view what) const {
    if (too_few(work))
      return fail("{} units of {} leave out some of the {} {}", s_.units.str(), s_.unit, work.str(), what);
    if (too_small(ir::Dim::max(work, 1), s_.units))
      return fail("{} units of {} are more than the {} {}", s_.units.str(), s_.unit, work.str(), what);
    return Ok{};
  }
  // By rows or by columns, as the target's tile decides.
  Status contraction(const Contraction& c) const {
    ir::Dim batch = 1;
    for (int b : c.batch) batch = batch * k_.axes[b].extent;
    const ir::Dim &m = k_.axes[c.m].extent, &n = k_.axes[c.n].extent;
    bool too_many = too_small(ir::Dim::max(batch * m * n, 1), s_.units);
    if (!too_many && (!too_few(batch * m) || !too_few(batch * n))) return Ok{};
    if (too_many) return fail("{} units are more than the product's {} x {}", s_.units.str(), (batch * m).str(), n.str());
    return fail("{} units of {} leave out some of the product's {} x {}", s_.units.str(), s_.unit, (batch * m).str(),
                n.str());
  }

  const CpuSchedule& s_;
};

/// Grids of the right kinds, a grid for each statement, which walks all of its axes.
class CudaChecker : Checker {
 public:
  CudaChecker(const Kernel& k, const CudaSchedule& s) : Checker(k), s_(s) {}

  Status run() const {
    if (k_.procedure.has_value() != s_.procedure_template.has_value()) return fail("a template goes with a procedure");
    for (const Grid& g : s_.grids)
      if (g.threads < 1 || g.threads > kMostThreads || g.shared_bytes < 0 || g.beside < 1 || g.blocks.bounds().min < 1 ||
          g.blocks.bounds().max > std::numeric_limits<int32_t>::max())
        return fail("a grid of {} blocks of {} threads", g.blocks.str(), g.threads);
    size_t cleared = 0;
    while (cleared < s_.grids.size() && std::holds_alternative<ClearMapping>(s_.grids[cleared].mapping)) ++cleared;
    for (size_t i = 0; i < cleared; ++i)
      if (int buffer = std::get<ClearMapping>(s_.grids[i].mapping).buffer; !accumulates(buffer))
        return fail("grid {} clears {}, into which nothing is combined", i, k_.buffers[buffer].name);
    if (cleared == s_.grids.size()) return k_.body.empty() && !k_.procedure ? Status(Ok{}) : fail("no grid does the work");
    if (k_.procedure) return procedure();
    const auto& first = s_.grids[cleared].mapping;
    for (const Grid& g : s_.grids)
      if (const auto* p = std::get_if<ProductMapping>(&g.mapping);
          p && (!is_tile(p->tile_rows) || !is_tile(p->tile_columns) || p->stages < 1 || p->stages > kMostStages))
        return fail("tiles of {} x {}", p->tile_rows, p->tile_columns);
    const bool product = std::holds_alternative<ProductMapping>(first), alone = s_.grids.size() == cleared + 1;
    if (product && alone) return find_product(k_) || find_window_product(k_) ? Status(Ok{}) : fail("there is no product");
    if (!std::holds_alternative<BlockMapping>(first)) return statements(cleared);
    return alone ? Status(Ok{}) : fail("{} grids after one of the whole body", s_.grids.size() - cleared - 1);
  }

 private:
  static constexpr int kMostThreads = 1024, kMostStages = 16;
  static constexpr int64_t kMostTile = int64_t{1} << 30;
  static bool is_tile(int side) { return side > 0 && side <= 256 && side % 16 == 0; }  // 16 threads or a fragment

  bool accumulates(int buffer) const {
    std::vector<const Store*> stores;
    collect_stores(k_.body, stores);
    return std::ranges::any_of(
        stores, [&](const Store* s) { return s->buffer == buffer && s->combiner != Combiner::kNone; });
  }

  Status procedure() const {
    // Which template applies may depend on the shared memory of the target, which is not known here.
    bool applies = false;
    for (int64_t shared = 64; shared <= kMostTile; shared *= 2)
      applies |= template_for(*s_.procedure_template).applies(*k_.procedure, {.gpu = true, .shared_bytes = shared});
    if (!applies)
      return fail("template {} does not compute {}", name_of(*s_.procedure_template), k_.procedure->def->name);
    for (const Grid& g : s_.grids) {
      const TemplateMapping* m = std::get_if<TemplateMapping>(&g.mapping);
      if (!m) return fail("a grid is none of a template");
      if (m->team < 1 || m->team > g.threads || m->tile_rows < 1 || m->tile_columns < 0 || m->tile_rows > kMostTile ||
          m->tile_columns > kMostTile)
        return fail("a template's team of {} of {} threads with tiles of {} x {}", m->team, g.threads, m->tile_rows,
                    m->tile_columns);
      if (m->warpgroups && (s_.procedure_template != TemplateKind::kAttention || m->tile_rows % kWarpgroupRows != 0 ||
                            m->team * kWarpgroupRows != m->tile_rows * kWarpgroupThreads))
        return fail("warpgroups of a team of {} threads with {} rows", m->team, m->tile_rows);
    }
    const auto& first = std::get<TemplateMapping>(s_.grids[0].mapping);
    return workspace(template_for(*s_.procedure_template), ir::Dim::ceildiv(k_.procedure->rows(), first.tile_rows));
  }
  Status statements(size_t first) const {
    for (const Stmt& s : k_.body)
      if (std::holds_alternative<Loop>(s.node)) return fail("an ordered loop is no grid of its own");
    std::vector<GridStatement> all = grid_statements(k_);
    if (all.size() != s_.grids.size() - first)
      return fail("{} grids of {} statements", s_.grids.size() - first, all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const auto& mapping = s_.grids[first + i].mapping;
      const TeamMapping* team = std::get_if<TeamMapping>(&mapping);
      const TurnMapping* turn = std::get_if<TurnMapping>(&mapping);
      const ScatterMapping* scatter = std::get_if<ScatterMapping>(&mapping);
      if (std::holds_alternative<ProductMapping>(mapping)) {
        if (!product_statement(k_, all[i])) return fail("the statement of grid {} is no product", first + i);
        continue;
      }
      if (!team && !turn && !scatter) return fail("grid {} is none of a statement", first + i);
      if (team && (team->team < 1 || s_.grids[first + i].threads % team->team != 0 || team->pack < 1))
        return fail("teams of {} in blocks of {} threads", team->team, s_.grids[first + i].threads);
      if (scatter && (scatter->tile_columns < 1 || scatter->row_tiles < 1)) return fail("tiles of no columns or rows");
      std::vector<int> walked = team ? team->parallel : turn ? turn->parallel : scatter->parallel, want = all[i].axes;
      const std::vector<int> serial = team ? team->serial : turn ? std::vector<int>() : scatter->serial;
      walked.insert(walked.end(), serial.begin(), serial.end());
      std::ranges::sort(walked), std::ranges::sort(want);
      if (walked != want) return fail("grid {} leaves out axes of its statement, or walks others", first + i);
      if (team && team->pack > 1) {
        int width = team->team > 1 ? find_row_packs(k_, all[i].body, team->team).width : find_packs(k_, team->parallel, all[i].body).width;
        if (width != team->pack)
          return fail("grid {} moves packs of {} elements, the accesses admit packs of {}", first + i, team->pack, width);
      }
      if (turn) {
        std::optional<Turned> turned = find_turned(k_, turn->parallel, all[i].body);
        if (!turned || turned->across != turn->across || s_.grids[first + i].threads != kTurnedThreads)
          return fail("grid {} turns tiles of a statement that admits none along these axes", first + i);
      }
      if (scatter && !(all[i].lone() && find_scatter(k_, *all[i].lone(), scatter->parallel, scatter->serial)))
        return fail("the statement of grid {} is no scatter along its axes", first + i);
    }
    return Ok{};
  }

  const CudaSchedule& s_;
};

}  // namespace

Status check_schedule(const Kernel& kernel) {
  NABLA_CHECK(kernel.schedule, "kernel @{} has no schedule", kernel.name);
  if (const CpuSchedule* cpu = std::get_if<CpuSchedule>(&*kernel.schedule)) return CpuChecker(kernel, *cpu).run();
  return CudaChecker(kernel, cuda_schedule_of(kernel)).run();
}

}  // namespace nabla::kernel_ir
