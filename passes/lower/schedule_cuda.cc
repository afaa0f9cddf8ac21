// How the statements of a kernel become grids: which iterations a thread, a warp or a block executes, and how many
// blocks there are.
#include "passes/lower/schedule_cuda.h"

#include <algorithm>
#include <set>

#include "ir/kernel_ir/packs.h"
#include "ir/kernel_ir/product.h"
#include "ir/kernel_ir/row_packs.h"
#include "ir/kernel_ir/scatter.h"
#include "ir/kernel_ir/stores.h"
#include "ir/kernel_ir/team_rows.h"
#include "ir/kernel_ir/turned.h"
#include "passes/lower/lane_axis.h"
#include "passes/lower/schedule_kernels.h"

namespace nabla::passes {

using namespace kernel_ir;  // NOLINT: this file schedules kernel_ir

ir::Dim blocks_for(const ir::Dim& teams, int team, int threads, const ir::Target& target) {
  int64_t full = int64_t{target.cuda.multiprocessors} * (target.cuda.resident_threads / threads) * 8;
  return ir::Dim::max(ir::Dim::min(ir::Dim::ceildiv(teams, threads / team), full), 1);
}

bool has_warpgroups(const ir::Target& target) { return target.cuda.specific && target.cuda.compute == 90; }
ir::Dim block_count(const ir::Dim& blocks) { return ir::Dim::max(ir::Dim::min(blocks, kMostBlocks), 1); }

namespace {

constexpr int64_t kPlainShared = 48 << 10;  // what every block may take, and several beside each other
constexpr int64_t kLeastUpdates = 64;       // below which one thread per column is done before others have looked
constexpr int kScattersBeside = 4;
constexpr int kKeepersBeside = 3;  // blocks whose threads keep rows in registers: 80 of them each

struct Team {
  int size = 1;
  int block = kBlockThreads;  // threads, a multiple of `size`
  int per_block() const { return block / size; }
  bool alone() const { return size == 1; }
};

class CudaScheduler {
 public:
  CudaScheduler(const Kernel& k, const ir::Target& target) : k_(k), target_(target), lane_(lane_axis(k, target)) {}

  Result<CudaSchedule> run() {
    clear_accumulators();
    size_t cleared = out_.grids.size();
    if (std::optional<Grid> product = product_grid(k_, target_)) {
      out_.grids.push_back(*std::move(product));
    } else if (can_be_cut()) {
      for (const GridStatement& s : grid_statements(k_)) NABLA_TRY(statement(s));
    } else {
      NABLA_TRY(one_block());
    }
    if (out_.grids.size() == cleared + 1 && cleared == 0) out_.work = work_of(out_.grids[0]);
    return std::move(out_);
  }

 private:
  ir::Dim points(const std::vector<int>& axes) const {
    ir::Dim n = 1;
    for (int a : axes) n = n * k_.axes[a].extent;
    return n;
  }
  double most(const std::vector<int>& axes) const {
    double n = 1;
    for (int a : axes) n *= static_cast<double>(k_.axes[a].extent.bounds().max);
    return n;
  }
  // Whether there are iterations at all, of the only grid.
  ir::Dim work_of(const Grid& g) const {
    if (const auto* turn = std::get_if<TurnMapping>(&g.mapping)) return ir::Dim::min(points(turn->parallel), 1);
    const TeamMapping* m = std::get_if<TeamMapping>(&g.mapping);
    return m && m->serial.empty() ? ir::Dim::min(points(m->parallel), 1) : ir::Dim(1);
  }

  // Outputs that are only combined into start from the combiner's identity.
  void clear_accumulators() {
    std::vector<const Store*> stores;
    collect_stores(k_.body, stores);
    std::set<int> cleared;
    for (const Store* s : stores) {
      const Buffer& b = k_.buffers[s->buffer];
      if (s->combiner == Combiner::kNone || b.role != BufferRole::kOut || !cleared.insert(s->buffer).second) continue;
      ir::Dim count = ir::Type(b.dtype, b.shape).count();
      out_.grids.push_back({ClearMapping{s->buffer}, blocks_for(count, 1, kBlockThreads, target_), kBlockThreads});
    }
  }

  // Every thread repeats the numbers at the kernel's head. That is right where they read constant places of inputs:
  // a result may share memory with an operand only element by element.
  bool can_be_cut() const {
    int heads = 0, statements = 0;
    for (const Stmt& s : k_.body) {
      if (std::holds_alternative<Loop>(s.node)) return false;
      const Let* let = std::get_if<Let>(&s.node);
      if (!let && ++statements) continue;
      bool plain =
          statements == 0 && !let->contract && let->combiner == Combiner::kNone && k_.values[let->value].axes.empty();
      visit(let->expr,
            [&](const Expr& x) { plain &= x->kind != ExprKind::kLoad || k_.buffers[x->ref].role == BufferRole::kIn; });
      if (!plain) return false;
      ++heads;
    }
    return statements == 1 || heads == 0;
  }

  // The most positions that one statement of an iteration runs through.
  double width(const Body& b) const {
    double widest = 1;
    for (const Stmt& s : b) {
      std::vector<int> axes;
      if (const Let* let = std::get_if<Let>(&s.node)) {
        axes = k_.values[let->value].axes;
        axes.insert(axes.end(), let->reduce.begin(), let->reduce.end());
      } else if (const Store* store = std::get_if<Store>(&s.node)) {
        axes = store->axes;
      } else if (const For* f = std::get_if<For>(&s.node)) {
        axes = f->axes;
      } else {
        widest = std::max(widest, width(std::get<Loop>(s.node).body));
      }
      widest = std::max(widest, static_cast<double>(points(axes).bounds().max));
    }
    return widest;
  }
  // `lane`: the axis whose neighbours are to be neighbouring threads; -1: none of the parallel ones.
  Result<Team> team_for(const std::vector<int>& parallel, int lane, const Body& b) const {
    double inner = width(b), outer = static_cast<double>(points(parallel).bounds().max);
    int64_t bytes = team_rows_bytes(k_, b);
    bool lanes_outside = std::find(parallel.begin(), parallel.end(), lane) != parallel.end();
    bool full = outer >= 16384 || inner < 64;
    if (inner <= 4 || (lanes_outside && full && bytes <= 256)) return Team{1, kBlockThreads};
    Team team{32, kBlockThreads};
    if (inner > 2048 || (outer < 256 && inner >= 256)) team = {kBlockThreads, kBlockThreads};
    if (inner > 16384 || (parallel.empty() && inner >= 1024)) team = {1024, 1024};
    while (team.size == 32 && team.block > 64 && bytes * team.per_block() > kPlainShared) team.block /= 2;
    if (team.size == 32 && bytes * team.per_block() > kPlainShared) team = {kBlockThreads, kBlockThreads};
    if (bytes > target_.cuda.block_shared_bytes)
      return error(Code::kNoLowering,
                   "kernel {}: one iteration keeps {} bytes of rows; a block of {} has {} bytes of shared memory",
                   k_.name, bytes, target_.name, target_.cuda.block_shared_bytes);
    return team;
  }
  int shared_bytes(const Team& team, const Body& b) const {
    return team.alone() ? 0 : static_cast<int>(team_rows_bytes(k_, b)) * team.per_block();
  }

  Status statement(const GridStatement& s) {
    if (std::optional<Kernel> product = product_statement(k_, s))
      return out_.grids.push_back(*product_grid(*product, target_)), Ok{};
    std::vector<const Store*> stores;
    collect_stores(s.body, stores);
    std::vector<int> parallel, serial;
    for (int a : s.axes) {
      bool free = std::all_of(stores.begin(), stores.end(),
                              [&](const Store* store) { return !meets_along(k_, *store, a) || has_atomic(k_, *store); });
      (free ? parallel : serial).push_back(a);
    }
    if (std::optional<Grid> grid = scatter(s, parallel, serial)) return out_.grids.push_back(*std::move(grid)), Ok{};
    // Each of several loops has its own order in memory.
    int lane = k_.body.size() > 1 && !s.lone() ? lane_axis(k_, {s.axes, s.body}, target_) : lane_;
    Team team = NABLA_TRY(team_for(parallel, lane, s.body));
    if (team.alone() && serial.empty())
      if (std::optional<Grid> grid = turned(s, parallel)) return out_.grids.push_back(*std::move(grid)), Ok{};
    // Neighbouring threads take neighbouring positions of the last axis.
    auto at = std::find(parallel.begin(), parallel.end(), lane);
    if (team.alone() && at != parallel.end()) std::rotate(at, at + 1, parallel.end());
    RowPacks rows = team.alone() ? RowPacks{} : find_row_packs(k_, s.body, team.size);
    int pack = team.alone() && serial.empty() ? find_packs(k_, parallel, s.body).width : rows.width;
    ir::Dim iterations = team.alone() ? ir::Dim::ceildiv(points(parallel), pack) : points(parallel);
    out_.grids.push_back({TeamMapping{team.size, std::move(parallel), std::move(serial), pack},
                          blocks_for(iterations, team.size, team.block, target_), team.block,
                          shared_bytes(team, s.body), rows.kept.empty() || team.block > kBlockThreads ? 1 : kKeepersBeside});
    return Ok{};
  }

  // Where loads and stores walk different axes. Stores then walk the last one.
  std::optional<Grid> turned(const GridStatement& s, const std::vector<int>& parallel) const {
    for (size_t i = 0; i < parallel.size(); ++i) {
      std::vector<int> axes = parallel;
      std::rotate(axes.begin() + static_cast<int64_t>(i), axes.begin() + static_cast<int64_t>(i) + 1, axes.end());
      std::optional<Turned> found = find_turned(k_, axes, s.body);
      if (!found) continue;
      ir::Dim tiles = 1;
      for (int a : axes) {
        bool side = a == found->across || a == axes.back();
        tiles = tiles * (side ? ir::Dim::ceildiv(k_.axes[a].extent, kTurnedTile) : k_.axes[a].extent);
      }
      return Grid{TurnMapping{std::move(axes), found->across}, blocks_for(tiles, kTurnedThreads, kTurnedThreads, target_), kTurnedThreads};
    }
    return std::nullopt;
  }

  // Where many updates meet, and columns alone do not keep the GPU busy.
  std::optional<Grid> scatter(const GridStatement& s, const std::vector<int>& parallel,
                              const std::vector<int>& serial) const {
    const Store* lone = s.lone();
    if (!lone || serial.empty() || !lone->axes.empty()) return std::nullopt;
    std::optional<Scatter> found = find_scatter(k_, *lone, parallel, serial);
    double threads = double{1} * target_.cuda.multiprocessors * target_.cuda.resident_threads;
    bool worth = most(serial) >= kLeastUpdates && most(parallel) >= 1 && most(parallel) < threads;
    if (!found || !worth || found->rows.bounds().max < 2) return std::nullopt;
    ScatterMapping m{parallel, serial};
    ir::Dim columns = points(parallel);
    while (m.tile_columns < kScatterThreads && m.tile_columns < columns.bounds().max) m.tile_columns *= 2;
    ir::Dim column_tiles = ir::Dim::ceildiv(columns, m.tile_columns);
    int64_t full = int64_t{target_.cuda.multiprocessors} * (target_.cuda.resident_threads / kScatterThreads);
    m.row_tiles = std::clamp<int64_t>(full / column_tiles.bounds().max, 1, found->rows.bounds().max);
    ir::Dim blocks = ir::Dim::max(column_tiles * m.row_tiles, 1);
    return Grid{std::move(m), blocks, kScatterThreads, 0, kScattersBeside};
  }

  Status one_block() {
    Team team = NABLA_TRY(team_for({}, -1, k_.body));
    if (team.size < kBlockThreads) team = {kBlockThreads, kBlockThreads};
    out_.grids.push_back({BlockMapping(), 1, team.block, shared_bytes(team, k_.body)});
    return Ok{};
  }

  const Kernel& k_;
  const ir::Target& target_;
  int lane_;
  CudaSchedule out_;
};

}  // namespace

Status schedule_cuda(Kernel& kernel, const ir::Target& target) {
  if (kernel.procedure)
    kernel.schedule = schedule_template(kernel, target);
  else
    kernel.schedule = NABLA_TRY(CudaScheduler(kernel, target).run());
  if (kernel.procedure && kernel.procedure->user) return Ok{};  // its author chose, and codegen checks it
  for (const Grid& g : std::get<CudaSchedule>(*kernel.schedule).grids)
    NABLA_CHECK(g.shared_bytes <= target.cuda.block_shared_bytes, "kernel {} has blocks with {} bytes of shared memory; {} allows {}",
                kernel.name, g.shared_bytes, target.name, target.cuda.block_shared_bytes);
  return Ok{};
}

}  // namespace nabla::passes
