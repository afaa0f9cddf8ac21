#include "passes/lower/row_units.h"

#include <algorithm>
#include <cmath>

namespace nabla::passes {

using kernel_ir::BufferRole;

namespace {
constexpr int64_t kScratchAlignment = 64;
constexpr double kUnitNs = 2000;
}  // namespace

double row_work(const kernel_ir::Procedure& p) { return std::max(p.def->work(p.most()), 1.0); }

RowUnits units_of_rows(const kernel_ir::Procedure& procedure, int64_t most_units) {
  ir::Dim rows = procedure.rows();
  int64_t count = rows.bounds().max;
  int64_t unit = std::max({int64_t{1}, (count + most_units - 1) / most_units,
                           static_cast<int64_t>(std::ceil(std::min(kUnitNs, kUnitNs / row_work(procedure))))});
  unit = std::clamp<int64_t>(unit, 1, std::max<int64_t>(count, 1));
  return {unit, ir::Dim::max(1, ir::Dim::ceildiv(rows, unit))};
}

int64_t scratch_of_unit(const kernel_ir::Procedure& procedure, const kernel_ir::ProcedureTemplate& how) {
  return how.scratch_of_unit ? how.scratch_of_unit(procedure) : 0;
}

void add_workspaces(kernel_ir::Kernel& k, const kernel_ir::ProcedureTemplate& how, const ir::Dim& units) {
  const kernel_ir::Procedure& procedure = *k.procedure;
  if (int64_t scratch = scratch_of_unit(procedure, how); scratch > 0) {
    int64_t bytes = (scratch + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
    k.buffers.push_back({"scratch", DType::kU8, {units, bytes}, BufferRole::kWorkspace});
  }
  if (how.bytes_in_halves) {
    int key_bytes = 1;
    for (const kernel_ir::Buffer& b : k.buffers)
      if (b.role == BufferRole::kIn) key_bytes = std::max(key_bytes, bytes_of(b.dtype));
    ir::Dim bytes = procedure.count() * how.bytes_in_halves(procedure, key_bytes);
    k.buffers.push_back({"scratch", DType::kU8, {procedure.rows() * 2, bytes}, BufferRole::kWorkspace});
  }
}

}  // namespace nabla::passes
