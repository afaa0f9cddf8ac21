// A procedure as a kernel: its buffers, and how its rows are shared out.
#include <algorithm>
#include <cmath>

#include "passes/lower/build_kernel.h"

namespace nabla::passes {

using kernel_ir::BufferRole;

namespace {
constexpr int64_t kAlignment = 64;
constexpr int64_t kMostScratchUnits = 8;   // each has scratch memory of its own
constexpr int64_t kGpuScratch = 64 << 20;  // a GPU wants more of them
constexpr double kUnitNs = 2000;
}  // namespace

kernel_ir::Kernel build_procedure(const kernel_ir::Procedure& procedure, const std::vector<ir::Type>& operands,
                                  const std::vector<ir::Type>& results, const std::string& name,
                                  const ir::Target& target) {
  kernel_ir::Kernel k;
  k.name = name;
  k.procedure = procedure;
  for (size_t i = 0; i < operands.size(); ++i)
    k.buffers.push_back({"x" + std::to_string(i), operands[i].dtype, operands[i].shape, BufferRole::kIn});
  for (size_t i = 0; i < results.size(); ++i)
    k.buffers.push_back({"y" + std::to_string(i), results[i].dtype, results[i].shape, BufferRole::kOut});
  // Decisions follow from the upper bounds of sizes, how many units there are from the sizes themselves.
  std::vector<int64_t> most;
  for (const ir::Dim& d : procedure.numbers) most.push_back(d.bounds().max);
  ir::Dim rows = procedure.rows();
  int64_t count = rows.bounds().max, scratch = procedure.def->scratch(most);
  int64_t shared = target.cuda.block_shared_bytes;
  bool merges = target.is_cuda() && elements_sorted_in_parts(procedure, shared) > 0;
  if (merges || (target.is_cuda() && elements_sorted_by_a_block(procedure, shared) > 0)) scratch = 0;
  double row_ns = std::max(procedure.def->work(most), 1.0);
  int64_t most_units = scratch > 0 ? kMostScratchUnits : 1024;
  if (target.is_cuda() && scratch > 0) most_units = std::clamp<int64_t>(kGpuScratch / scratch, most_units, 1024);
  int64_t unit = std::max({int64_t{1}, (count + most_units - 1) / most_units,
                           static_cast<int64_t>(std::ceil(std::min(kUnitNs, kUnitNs / row_ns)))});
  k.schedule.unit = std::clamp<int64_t>(unit, 1, std::max<int64_t>(count, 1));
  k.schedule.units = ir::Dim::max(1, ir::Dim::ceildiv(rows, k.schedule.unit));
  double threads = std::min(row_ns * static_cast<double>(count) / static_cast<double>(target.thread_grain_ns),
                            static_cast<double>(k.schedule.units.bounds().max));
  k.schedule.max_threads = static_cast<int>(std::clamp<double>(threads, 1, target.threads));
  if (scratch > 0) {
    int64_t bytes = (scratch + kAlignment - 1) / kAlignment * kAlignment;
    k.buffers.push_back({"scratch", DType::kU8, {k.schedule.units, bytes}, BufferRole::kWorkspace});
  }
  if (merges) {
    int key_bytes = 1;
    for (const ir::Type& t : operands) key_bytes = std::max(key_bytes, bytes_of(t.dtype));
    ir::Dim bytes = procedure.count() * merged_bytes(procedure, key_bytes);
    k.buffers.push_back({"scratch", DType::kU8, {rows * 2, bytes}, BufferRole::kWorkspace});
  }
  return k;
}

}  // namespace nabla::passes
