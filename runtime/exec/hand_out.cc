// Debug instructions: operands go from the engine's memory to the sink of the process.
#include "runtime/base/debug.h"
#include "runtime/exec/engine.h"
#include "runtime/exec/plan.h"
#include "runtime/format/program_check.h"

namespace nabla::exec {

Status hand_out(Engine& engine, const RunRequest& request, const Control& control, void* const* slots) {
  std::vector<Literal> operands;
  for (size_t i = 0; i < control.shapes.size(); ++i) {
    DType dtype = dtype_of(control.debug->tensors()->Get(static_cast<uint32_t>(i))->dtype());
    operands.push_back(Literal::uninitialized(dtype, control.shapes[i]));
    Literal& operand = operands.back();
    (void)NABLA_TRY(engine.download(operand.mutable_data(), slots[i], static_cast<size_t>(operand.size_bytes())));
  }
  return debug({format::view(control.debug->text()), format::view(control.debug->callback()), operands, request.name,
                request.count});
}

}  // namespace nabla::exec
