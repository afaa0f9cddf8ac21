// How the rows of a procedure are shared out, and the scratch memory that it needs.
#include <algorithm>
#include <cmath>

#include "ir/kernel_ir/procedure_template.h"
#include "passes/lower/schedule_kernels.h"

namespace nabla::passes {

using kernel_ir::BufferRole;

namespace {
constexpr int64_t kAlignment = 64;
constexpr int64_t kMostScratchUnits = 8;   // each has scratch memory of its own
constexpr int64_t kGpuScratch = 64 << 20;  // a GPU wants more of them
constexpr double kUnitNs = 2000;
}  // namespace

void schedule_procedure(kernel_ir::Kernel& k, const ir::Target& target) {
  const kernel_ir::Procedure& procedure = *k.procedure;
  const kernel_ir::ProcedureTemplate& how =
      kernel_ir::template_of(procedure, {target.is_cuda(), target.cuda.block_shared_bytes});
  // Decisions follow from the upper bounds of sizes, how many units there are from the sizes themselves.
  ir::Dim rows = procedure.rows();
  int64_t count = rows.bounds().max, scratch = how.scratch_of_unit ? how.scratch_of_unit(procedure) : 0;
  double row_ns = std::max(how.work(procedure), 1.0);
  int64_t most_units = scratch > 0 ? kMostScratchUnits : 1024;
  if (target.is_cuda() && scratch > 0) most_units = std::clamp<int64_t>(kGpuScratch / scratch, most_units, 1024);
  int64_t unit = std::max({int64_t{1}, (count + most_units - 1) / most_units,
                           static_cast<int64_t>(std::ceil(std::min(kUnitNs, kUnitNs / row_ns)))});
  kernel_ir::Schedule s;
  s.unit = std::clamp<int64_t>(unit, 1, std::max<int64_t>(count, 1));
  s.units = ir::Dim::max(1, ir::Dim::ceildiv(rows, s.unit));
  double threads = std::min(row_ns * static_cast<double>(count) / static_cast<double>(target.thread_grain_ns),
                            static_cast<double>(s.units.bounds().max));
  s.max_threads = static_cast<int>(std::clamp<double>(threads, 1, target.threads));
  if (scratch > 0) {
    int64_t bytes = (scratch + kAlignment - 1) / kAlignment * kAlignment;
    k.buffers.push_back({"scratch", DType::kU8, {s.units, bytes}, BufferRole::kWorkspace});
  }
  if (how.bytes_in_halves) {
    int key_bytes = 1;
    for (const kernel_ir::Buffer& b : k.buffers)
      if (b.role == BufferRole::kIn) key_bytes = std::max(key_bytes, bytes_of(b.dtype));
    ir::Dim bytes = procedure.count() * how.bytes_in_halves(procedure, key_bytes);
    k.buffers.push_back({"scratch", DType::kU8, {rows * 2, bytes}, BufferRole::kWorkspace});
  }
  k.schedule = s;
}

}  // namespace nabla::passes
