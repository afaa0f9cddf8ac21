// The grids of procedures' templates: which rows and which parts of them a team takes at a time.
#include <algorithm>

#include "ir/kernel_ir/product.h"
#include "passes/lower/row_units.h"
#include "passes/lower/schedule_cuda.h"

namespace nabla::passes {

using namespace kernel_ir;  // NOLINT: this file schedules kernel_ir

namespace {

constexpr int64_t kGpuScratch = 64 << 20;  // of all units

int64_t up(int64_t n, int64_t m) { return (n + m - 1) / m * m; }

using Grids = std::vector<Grid>;
struct Input {
  const Kernel& kernel;
  const Procedure& procedure;
  RowUnits rows;
  const ir::Target& target;
};

Grids user_grids(const Input& in) {
  const UserCode& user = *in.procedure.user;
  ir::Dim blocks = user.cuda.text.empty() ? ir::Dim(1) : in.procedure.cuda_blocks();
  return {{TemplateMapping{user.cuda_threads}, blocks, user.cuda_threads, user.cuda_shared_bytes}};
}

// ---- Attention: blocks with tiles of `own` queries, or keys, walk the other in tiles of c rows. Halves are copied a tile
// ahead, or two, and what is multiplied next stays in registers (attention_halves.cuh).
class AttentionScheduler {
 public:
  explicit AttentionScheduler(const Input& in) : p_(in.procedure), target_(in.target) {
    element_ = bytes_of(in.kernel.buffers[0].dtype);
    own_ = halves() ? 64 : 32;
    d_ = n("features").value(), w_ = n("out").value();
    warpgroups_ = has_warpgroups(target_) && halves() && d_ % kWarpgroupK == 0 && w_ % kWarpgroupK == 0;
  }

  Grid forward() const {
    auto bytes = [&](int64_t own, int64_t c) {
      if (halves()) return tile(own, d_) + stages() * (tile(c, d_) + tile(c, w_)) + kept(own, c);
      return element_ * ((own + c) * pitch(d_) + up(w_, 8) * (c + 8) + own * (c + 8)) + kept(own, c);
    };
    if (warpgroups_) return by_warpgroups(p_.outer(), p_.count(), 2, bytes);
    // Two fragments of 16 rows for each warp read a tile of keys once; their sums fill the registers of 64 features.
    int64_t fragments = halves() && d_ <= 64 && w_ <= 64 && p_.count().bounds().max > own_ ? 2 : 1;
    return grid(p_.outer(), p_.count(), own_ * fragments, fragments, own_, 1, bytes);
  }
  Grid queries() const {
    auto bytes = [&](int64_t own, int64_t c) {
      if (halves()) return tile(own, d_) + tile(own, w_) + stages() * (tile(c, d_) + tile(c, w_)) + kept(own, c);
      return element_ * ((own + c) * (pitch(d_) + pitch(w_)) + (up(d_, 8) + own) * (c + 8)) + kept(own, c);
    };
    if (warpgroups_) return by_warpgroups(p_.outer(), p_.count(), 3, bytes);
    return grid(p_.outer(), p_.count(), own_, 1, most_back(), masked() && fits_thrice() ? 3 : 1, bytes);
  }
  /// Which cotangents a grid gives; one gives both where attention is not wide.
  struct Gives {
    bool keys, values;
  };
  Grid keys(const Gives& gives) const {
    const int64_t k = gives.keys ? 1 : 0, v = gives.values ? 1 : 0;
    auto bytes = [&](int64_t own, int64_t c) {
      if (halves()) return tile(own, d_) + k * tile(own, w_) + stages() * (tile(c, d_) + tile(c, w_) + 8 * c) + kept(c, own);
      int64_t columns = k * up(d_, 8) + v * up(w_, 8);
      return element_ * ((own + c) * (pitch(d_) + k * pitch(w_)) + (columns + own) * (c + 8)) + 8 * c + kept(c, own);
    };
    ir::Dim heads = ir::Dim::floordiv(p_.outer(), n("heads")) * n("kv_heads");
    if (warpgroups_) return by_warpgroups(heads, n("keys"), static_cast<int>(1 + k + k + v), bytes);
    return grid(heads, n("keys"), own_, 1, most_back(), fits_thrice() ? 3 : 1, bytes);
  }

 private:
  const ir::Dim& n(const char* name) const { return p_.number(name); }
  bool halves() const { return element_ == 2; }
  bool masked() const { return !n("mask_batch").is(0); }
  bool drops() const { return !n("streams").is(0); }
  // Registers of three blocks of four warps, on the way back.
  bool fits_thrice() const { return halves() && d_ + w_ <= 128; }
  static int64_t pitch(int64_t width) { return up(width, 16) + 8; }
  // Bytes of a tile of halves, and how many tiles of those that a block walks it holds: Tile and stages of attention_halves.cuh.
  int64_t tile(int64_t rows, int64_t width) const { return element_ * rows * (warpgroups_ ? width : pitch(width)); }
  int64_t stages() const { return warpgroups_ && !is_wide_attention(p_) ? 3 : 2; }
  // Of a byte per weight of a tile: is it kept?
  int64_t kept(int64_t rows, int64_t columns) const { return drops() ? rows * (columns + 4) : 0; }
  // The way back keeps two tiles of scores beside one or two of sums.
  int64_t most_back() const { return halves() ? 32 : own_; }
  // Of tiles of c rows the largest that leaves room for a second block is taken, else the smallest, and fewer own rows where that
  // does not fit.
  template <class Bytes>
  Grid grid(const ir::Dim& heads, const ir::Dim& rows, int64_t own, int64_t fragments, int64_t c, int beside, Bytes bytes) const {
    const ir::CudaFacts& gpu = target_.cuda;
    while (c > 16 && bytes(own, c) > gpu.shared_bytes / 2 - kSystemShared) c /= 2;
    while (own > 16 && bytes(own, c) > gpu.block_shared_bytes) own /= 2;
    int threads = static_cast<int>(own / fragments * 2);
    // Where sums take most registers the compiler should not keep some for blocks that do not fit.
    if (is_wide_attention(p_)) beside = 2;
    ir::Dim blocks = heads * ir::Dim::ceildiv(rows, own);
    return {TemplateMapping{threads, own, c}, block_count(blocks), threads, static_cast<int>(up(bytes(own, c), 16)), beside};
  }
  // `tiles`: those of scores and of sums that a warpgroup keeps in its registers; masks, and words that are drawn, take some more.
  template <class Bytes>
  Grid by_warpgroups(const ir::Dim& heads, const ir::Dim& rows, int tiles, Bytes bytes) const {
    // What registers hold, and what was fastest on an H200: 16 warps of narrow sums on a multiprocessor, or 12, and 8 of wide ones.
    constexpr int64_t c = kWarpgroupRows, once = kWarpgroupRows, twice = 2 * kWarpgroupRows;
    bool narrow = d_ + w_ <= 128, two_fit = 2 * (bytes(once, c) + kSystemShared) <= target_.cuda.shared_bytes;
    bool many_tiles = tiles > 3 || (tiles > 2 && masked()), large = bytes(twice, c) > target_.cuda.block_shared_bytes;
    bool small = rows.bounds().max <= once || (narrow ? many_tiles : two_fit) || large;
    int64_t own = small ? once : twice;
    int fewer = tiles > 3 ? 1 + (drops() || masked()) : tiles > 2 && masked() ? 1 : 0;
    int beside = narrow && small ? 4 - fewer : narrow || small ? 2 : 1;
    int threads = static_cast<int>(own / kWarpgroupRows * kWarpgroupThreads);
    ir::Dim blocks = heads * ir::Dim::ceildiv(rows, own);
    return {TemplateMapping{threads, own, c, true}, block_count(blocks), threads, static_cast<int>(bytes(own, c)), beside};
  }

  const Procedure& p_;
  const ir::Target& target_;
  int64_t element_, own_, d_, w_;
  bool warpgroups_;
};

Grids attention_grids(const Input& in) {
  AttentionScheduler attention(in);
  if (in.procedure.def->algorithm == Algorithm::kAttention) return {attention.forward()};
  if (!is_wide_attention(in.procedure)) return {attention.queries(), attention.keys({true, true})};
  return {attention.queries(), attention.keys({true, false}), attention.keys({false, true})};
}

// ---- Sorts
Grids block_sort_grids(const Input& in) {
  int64_t elements = elements_sorted_by_a_block(in.procedure, in.target.cuda.block_shared_bytes);
  int threads = static_cast<int>(std::clamp<int64_t>(elements / 2, 32, 1024));
  return {{TemplateMapping{threads, 1, elements}, block_count(in.procedure.rows()), threads,
           static_cast<int>(elements * kSortedBytes)}};
}

// Per key, the least significant first, a grid that sorts parts of rows, and one for each doubling of the parts' length.
Grids merge_sort_grids(const Input& in) {
  const Procedure& p = in.procedure;
  int64_t part = elements_sorted_in_parts(p, in.target.cuda.block_shared_bytes), tile = std::min<int64_t>(part, 2048);
  int keys = 0, key_bytes = 1;
  for (const Buffer& b : in.kernel.buffers)
    if (b.role == BufferRole::kIn) ++keys, key_bytes = std::max(key_bytes, bytes_of(b.dtype));
  int bytes = merged_bytes(p, key_bytes);
  auto grid = [&](int64_t elements, int64_t threads, int64_t shared) {
    ir::Dim blocks = p.rows() * ir::Dim::ceildiv(p.count(), elements);
    return Grid{TemplateMapping{static_cast<int>(threads), 1, elements}, block_count(blocks), static_cast<int>(threads),
                static_cast<int>(shared)};
  };
  Grids out;
  for (int key = 0; key < keys; ++key) {
    out.push_back(grid(part, std::clamp<int64_t>(part / 2, 32, 1024), part * kSortedBytes));
    Grid merging = grid(tile, tile / (bytes > 8 ? 4 : 8), tile * bytes + 16);
    int64_t width = part;
    for (; 2 * width < p.count().bounds().max; width *= 2) out.push_back(merging);
    out.push_back(merging);
  }
  return out;
}

// ---- Scans
constexpr int64_t kShort = 16;        // One thread scans a row that is as short; neighbouring threads read the same lines.
constexpr int64_t kManyWarps = 2048;  // So many warps, with a strip of rows each, keep a GPU busy.
constexpr int64_t kSector = 32;       // The bytes that memory moves at least.

// How many threads scan how many neighbouring rows (a strip) together; it follows from the upper bounds of sizes.
TemplateMapping strips_of(const Procedure& p, int bytes, int state) {
  int64_t outer = p.outer().bounds().max, count = p.count().bounds().max, inner = p.inner().bounds().max;
  if (count <= kShort) return {};
  TemplateMapping out{32, 1};
  int64_t& columns = out.tile_rows;
  while (columns < 32 && columns < inner) columns *= 2;
  auto strips = [&] { return static_cast<double>(outer) * static_cast<double>((inner + columns - 1) / columns); };
  while (columns > 1 && columns * bytes > kSector && strips() < kManyWarps) columns /= 2;
  double elements = static_cast<double>(count) * static_cast<double>(columns);  // The elements of one strip.
  if (strips() >= kManyWarps || elements <= 512) return out;
  out.team = strips() < 128 && elements > 8192 && state <= 8 ? 1024 : 256;  // A thread of 1,024 has 64 registers.
  return out;
}

Grids scan_grids(const Input& in) {
  const Procedure& p = in.procedure;
  DType dtype = std::ranges::find(in.kernel.buffers, BufferRole::kIn, &Buffer::role)->dtype;
  bool places = p.def->algorithm == Algorithm::kScanPosition;
  bool large = bytes_of(dtype) == 8 || p.count().bounds().max > INT32_MAX;
  int state = places ? (large ? 16 : 8) : std::max(bytes_of(dtype), 4);
  TemplateMapping m = strips_of(p, bytes_of(dtype), state);
  int threads = std::max(m.team, kBlockThreads);
  int shared = m.team > 32 ? static_cast<int>(2 * m.tile_rows * m.team / 32 * state) : 0;
  ir::Dim teams = p.outer() * ir::Dim::ceildiv(p.inner(), m.tile_rows);
  return {{m, blocks_for(teams, m.team, threads, in.target), threads, shared}};
}

// ---- Rows one after the other
Grids block_per_row_grids(const Input& in) {
  const Procedure& p = in.procedure;
  int64_t parts = up(p.def->parallel_in_row(p.most()), 32);
  int threads = static_cast<int>(std::clamp<int64_t>(parts, 32, kBlockThreads));
  return {{TemplateMapping{threads, in.rows.unit}, block_count(in.rows.units), threads}};
}
Grids thread_per_row_grids(const Input& in) {
  constexpr int kFew = 64;  // threads, which then stand in more blocks
  return {{TemplateMapping{1, in.rows.unit}, blocks_for(in.rows.units, 1, kFew, in.target), kFew}};
}

struct TemplateGrids {
  TemplateKind kind;
  Grids (*grids)(const Input& in);
};
constexpr TemplateGrids kTemplateGrids[] = {
    {TemplateKind::kUser, user_grids},           {TemplateKind::kAttention, attention_grids},
    {TemplateKind::kSortInBlock, block_sort_grids}, {TemplateKind::kMergeSort, merge_sort_grids},
    {TemplateKind::kTeamScan, scan_grids},       {TemplateKind::kBlockPerRow, block_per_row_grids},
    {TemplateKind::kThreadPerRow, thread_per_row_grids}};

}  // namespace

CudaSchedule schedule_template(Kernel& k, const ir::Target& target) {
  const Procedure& procedure = *k.procedure;
  const ProcedureTemplate& how = template_of(procedure, {true, target.cuda.block_shared_bytes});
  int64_t scratch = scratch_of_unit(procedure, how), most_units = kMostUnits;
  if (scratch > 0) most_units = std::clamp<int64_t>(kGpuScratch / scratch, kMostScratchUnits, kMostUnits);
  RowUnits rows = units_of_rows(procedure, most_units);
  CudaSchedule out;
  out.procedure_template = how.kind;
  out.grids = std::ranges::find(kTemplateGrids, how.kind, &TemplateGrids::kind)->grids({k, procedure, rows, target});
  add_workspaces(k, how, rows.units);
  return out;
}

}  // namespace nabla::passes
