#include "codegen/cuda/model.h"

#include <algorithm>
#include <cmath>

#include "codegen/cuda/occupancy.h"
#include "ir/cost/time.h"

namespace nabla::codegen {
namespace {

using ir::GridWork;
using ir::InnerLoop;

constexpr double kWarp = 32, kSchedulers = 4;  // of a multiprocessor, each of which issues an instruction in a clock
// Of the CUDA programming guide (throughput of arithmetic): special functions and multiply-adds of integers of a multiprocessor in a
// clock, and what its memory for one clock gives its lanes.
constexpr double kSpecial = 16, kIntegers = 64, kLaneBytes = 128;
constexpr double kMmaOfBytes = 16 * 8 * 32, kMmaOfHalves = 16 * 8 * 16, kMmaOfWords = 16 * 8 * 8;  // multiply-adds of an mma
constexpr double kWgmmaOfStep = 4;                                      // of a tile of k

// Of the code's mma. What converts 8-bit floats, on sm_90 and sm_100, multiplies halves.
double by_mma(const InstructionCounts& n, DType factors) {
  return n.qmma * kMmaOfBytes + n.hmma * (bytes_of(factors) <= 2 ? kMmaOfHalves : kMmaOfWords);
}

// Multiply-adds of the code without tensor cores. Those of 64-bit integers are three of 32 bits.
double by_threads(const InstructionCounts& n, DType factors) {
  if (is_float(factors)) return factors == DType::kF64 ? n.dfma : n.ffma;
  return n.imad / (bytes_of(factors) == 8 ? 3.0 : 1.0);
}

double bytes_read(const InstructionCounts& n) { return n.global_loads.bytes() + n.shared_loads.bytes(); }

// ---- Which loop of the code is which of the text

std::vector<size_t> inside(const KernelCode& code, size_t top) {
  std::vector<size_t> out;
  for (size_t i = top + 1; i < code.loops.size(); ++i) {
    int at = static_cast<int>(i);
    while (at > 0 && at != static_cast<int>(top)) at = code.loops[static_cast<size_t>(at)].parent;
    if (at == static_cast<int>(top)) out.push_back(i);
  }
  return out;
}

// Trips of the text that one of the code stands for; 0: it does other things.
double unrolled(const InstructionCounts& n, const InnerLoop& loop) {
  const double stores = n.global_stores.bytes(), rows = n.shared_stores.bytes(), loads = bytes_read(n);
  if ((stores > 0) != (loop.store_bytes > 0) || (rows > 0) != (loop.row_bytes > 0)) return 0;
  if (stores > 0) return std::max(1.0, std::round(stores / loop.store_bytes));
  if (rows > 0) return std::max(1.0, std::round(rows / loop.row_bytes));
  if (loop.load_bytes <= 0) return loads > 0 ? 0 : 1;
  return loads > 0 ? std::max(1.0, std::round(loads / loop.load_bytes)) : 0;
}

// For each loop of the text one of the code, in order: as many as fit, and of several that fit the most unrolled.
std::vector<int> matched(const KernelCode& code, const std::vector<size_t>& places, const std::vector<InnerLoop>& text) {
  const size_t n = text.size(), m = places.size();
  std::vector<std::vector<double>> best(n + 1, std::vector<double>(m + 1, 0));
  auto gain = [&](size_t i, size_t j) {
    double u = unrolled(code.loops[places[j]].own, text[i]);
    return u > 0 ? 1 + std::min(0.5, 0.01 * u) : -1e9;
  };
  for (size_t i = n; i-- > 0;)
    for (size_t j = m; j-- > 0;)
      best[i][j] = std::max({best[i + 1][j], best[i][j + 1], gain(i, j) + best[i + 1][j + 1]});
  std::vector<int> out(n, -1);
  for (size_t i = 0, j = 0; i < n && j < m;) {
    if (best[i][j] == best[i][j + 1])
      ++j;
    else if (best[i][j] == best[i + 1][j])
      ++i;
    else
      out[i++] = static_cast<int>(places[j++]);
  }
  return out;
}

// The loop that all else stands in: what it writes most of, else what most stands in.
size_t outermost(const KernelCode& code) {
  size_t top = 0;
  double most = -1;
  for (size_t i = 1; i < code.loops.size(); ++i) {
    if (code.loops[i].depth != 1) continue;
    double written = code.loops[i].own.global_stores.bytes(), all = code.loops[i].own.all;
    for (size_t in : inside(code, i)) written += code.loops[in].own.global_stores.bytes(), all += code.loops[in].own.all;
    double weight = written * 1e6 - all;
    if (top == 0 || weight > most) top = i, most = weight;
  }
  return top;
}

void set_products(const KernelCode& code, const GridWork& work, std::vector<double>& runs) {
  auto products = [&](const InstructionCounts& n) {
    return n.hgmma ? 1e9 + n.hgmma : n.hmma + n.qmma ? 1e6 + n.hmma + n.qmma : by_threads(n, work.factors);
  };
  size_t main = 0;
  for (size_t i = 1; i < code.loops.size(); ++i)
    if (products(code.loops[i].own) > products(code.loops[main].own)) main = i;
  for (size_t i = 1; i < code.loops.size(); ++i)
    if (!code.loops[i].innermost || code.loops[i].depth == 1) runs[i] = work.turns;
  const InstructionCounts& n = code.loops[main].own;
  if (n.hgmma > 0)
    runs[main] = work.steps * kWgmmaOfStep / n.hgmma;
  else if (n.hmma + n.qmma > 0)
    runs[main] = work.multiply_adds / by_mma(n, work.factors);
  else if (const double threads = by_threads(n, work.factors); threads > 0)
    runs[main] = work.multiply_adds / kWarp / threads;
}

void set_teams(const KernelCode& code, const GridWork& work, std::vector<double>& runs) {
  const size_t top = outermost(code);
  if (top == 0) return;
  std::vector<size_t> places;
  runs[top] = work.turns;
  std::vector<InnerLoop> text;
  std::copy_if(work.loops.begin(), work.loops.end(), std::back_inserter(text), [](const InnerLoop& l) { return l.trips > 1; });
  if (text.empty() && work.around <= 1) {
    double stored = code.loops[top].own.global_stores.bytes();
    if (work.store_bytes > 0 && stored > 0) runs[top] /= std::max(1.0, std::round(stored / work.store_bytes));
    return;
  }
  for (size_t i : inside(code, top)) {
    if (code.loops[i].innermost)
      places.push_back(i);
    else
      runs[i] = work.turns * work.around;
  }
  std::sort(places.begin(), places.end(), [&](size_t a, size_t b) { return code.loops[a].first < code.loops[b].first; });
  std::vector<int> of = matched(code, places, text);
  for (size_t i = 0; i < text.size(); ++i) {
    if (of[i] < 0) continue;
    auto at = static_cast<size_t>(of[i]);
    runs[at] = work.turns * text[i].trips / unrolled(code.loops[at].own, text[i]);
  }
  // A loop without arrays, such as one that walks in order.
  if (text.empty())
    for (size_t i : places) runs[i] = work.turns * work.around;
}

// ---- Clocks

struct Chip {
  // Clocks of a scheduler: of a warp's instruction, of a byte per lane, of a multiply-add.
  double ffma, dfma, imad, special, lane_byte, tensor, mma;
  double latency;
};
Chip chip_of(const ir::Target& target, DType factors) {
  const ir::CudaFacts& gpu = target.cuda;
  const double schedulers = gpu.multiprocessors * kSchedulers, clocks = gpu.clock_ghz * 1e3 * schedulers;
  ir::ProductRate rate = ir::product_rate(factors, target);
  const double tensor = bytes_of(factors) <= 2 || rate.compute == "tf32" ? rate.flops_per_us : gpu.tensor_tflops / 2 * 1e6;
  const double of_mma = bytes_of(factors) == 1 ? gpu.tensor_tflops * 1e6 : tensor;  // without an mma for bytes, of halves
  const double share = gpu.compute / 10 == 9 ? ir::kShareOfMmaOnHopper : ir::kShareOfTensorCores;
  return {2 * kWarp * clocks / (gpu.f32_tflops * 1e6), 2 * kWarp * clocks / ir::product_rate(DType::kF64, target).flops_per_us,
          kWarp * kSchedulers / kIntegers, kWarp * kSchedulers / kSpecial, kWarp * kSchedulers / kLaneBytes,
          2 * clocks / (tensor * ir::kShareOfTensorCores), 2 * clocks / (of_mma * share), gpu.memory_clocks};
}

// Of a warp that goes once through the code of a loop: what it keeps its scheduler from doing for others, and what it takes alone.
struct Pass {
  double runs, busy, alone;
};
Pass pass_of(const CodeLoop& l, double runs, const GridWork& work, const Chip& chip) {
  const InstructionCounts& n = l.own;
  double lanes = 0;
  for (const AccessCounts* a : {&n.global_loads, &n.global_stores, &n.shared_loads, &n.shared_stores, &n.async_copies})
    lanes += a->bytes() + 2 * a->narrow;  // no access is done sooner than one of four bytes
  double products = by_mma(n, work.factors) * (n.qmma > 0 ? chip.tensor : chip.mma);
  if (n.hgmma > 0 && work.steps > 0) products += work.multiply_adds / work.steps * n.hgmma / kWgmmaOfStep * chip.tensor;
  // A way that a branch may go round is gone every other time.
  const double issued = n.all - l.skipped / 2.0, clocks = l.clocks - l.skipped_clocks / 2.0;
  double copies = n.async_copies.total() > 0 && work.multiply_adds > 0 ? chip.latency / work.ahead : 0;
  const double adds = std::max({n.ffma * chip.ffma, n.dfma * chip.dfma, n.imad * chip.imad});
  double busy = std::max({issued, adds, n.mufu * chip.special, lanes * chip.lane_byte, products});
  return {runs, busy, std::max(products, clocks + (l.waits - l.skipped_waits / 2.0) * chip.latency + copies)};
}

// Blocks go to multiprocessors one after the other: of the fullest one those that it holds at a time, and then the rest.
double clocks_of(const std::vector<Pass>& passes, double blocks, double warps, double resident, const ir::Target& target) {
  const double most = std::ceil(blocks / target.cuda.multiprocessors);
  auto together = [&](double beside) {
    double sharing = std::max(1.0, beside * warps / kSchedulers), out = 0;
    for (const Pass& p : passes) out += p.runs * std::max(sharing * p.busy, p.alone);
    return out;
  };
  double full = std::floor(most / resident), rest = most - full * resident;
  return full * together(resident) + (rest > 0 ? together(rest) : 0);
}

}  // namespace

std::vector<double> runs_of(const KernelCode& code, const GridWork& work, double warps) {
  std::vector<double> runs(code.loops.size(), 0);
  runs[0] = warps;
  if (!work.by_depth.empty()) {
    for (size_t i = 1; i < runs.size(); ++i)
      runs[i] = work.by_depth[std::min(static_cast<size_t>(code.loops[i].depth), work.by_depth.size()) - 1];
  } else if (work.multiply_adds > 0) {
    set_products(code, work, runs);
  } else if (!work.known) {
    std::fill(runs.begin() + 1, runs.end(), work.turns);
  } else {
    set_teams(code, work, runs);
  }
  return runs;
}

GridPrediction predict_grid(const kernel_ir::Kernel& kernel, size_t grid, const ir::Target& target, const CubinKernel* code) {
  const kernel_ir::Grid& g = cuda_schedule_of(kernel).grids.at(grid);
  const GridWork work = ir::grid_work(kernel, grid);
  const double blocks = static_cast<double>(g.blocks.bounds().max), warps = std::ceil(g.threads / kWarp);
  const Chip chip = chip_of(target, work.factors);
  GridPrediction out;
  out.sectors = work.sectors;
  if (target.cuda.l2_bytes_per_clock > 0)
    out.sectors_us = work.sectors * ir::kSectorBytes / (target.cuda.l2_bytes_per_clock * target.cuda.clock_ghz * 1e3);
  const int resident = code ? occupancy(*code, target, g.threads, g.shared_bytes).blocks : 0;
  if (resident == 0 || code->code.loops.empty()) {
    const double rate = ir::product_rate(work.factors, target).flops_per_us;
    out.code_us = 2 * work.multiply_adds / (rate * (bytes_of(work.factors) <= 2 ? ir::kShareOfTensorCores : 1));
    return out;
  }
  out.counted = true;
  std::vector<Pass> passes;
  std::vector<double> runs = runs_of(code->code, work, blocks * warps);
  for (size_t i = 0; i < runs.size(); ++i) {
    const CodeLoop& loop = code->code.loops[i];
    out.instructions += runs[i] * (loop.own.all - loop.skipped / 2.0);
    passes.push_back(pass_of(code->code.loops[i], runs[i] / (blocks * warps), work, chip));
  }
  out.code_us = clocks_of(passes, blocks, warps, resident, target) / (target.cuda.clock_ghz * 1e3);
  return out;
}

}  // namespace nabla::codegen
