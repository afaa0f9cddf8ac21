#include "tests/conformance/cpu_run.h"

#include "cli/driver/emit_program.h"
#include "ir/ops/all_ops.h"
#include "passes/lower/fuse.h"
#include "passes/lower/plan_memory.h"
#include "passes/lower/prepare.h"
#include "passes/transform/expand_composites.h"
#include "runtime/format/bundle_reader.h"

namespace nabla::conformance {

Result<ir::Module> planned_for(const ir::Module& module, const ir::Target& target) {
  passes::PassContext context{ops::all_ops(), target};
  ir::Module expanded = NABLA_TRY(passes::expand_composites(module, context));
  ir::Module fused = NABLA_TRY(passes::fuse(NABLA_TRY(passes::prepare(expanded, context)), context));
  return passes::plan_memory(fused, context);
}

Result<Compiled> compile_for_cpu(const ir::Module& module, const std::string& target_name, bool library) {
  ir::Target target = NABLA_TRY(ir::find_target(target_name));
  target.library = library;
  Compiled out;
  out.planned = NABLA_TRY(planned_for(module, target));
  driver::EmittedProgram program =
      NABLA_TRY(driver::emit_program(out.planned, target, {{2, codegen::cache_directory()}, {}}));
  format::Bundle bundle =
      NABLA_TRY(format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(program.bytes)), "test"));
  out.session = NABLA_TRY(exec::Session::create(std::move(bundle), {.threads = 2}));
  return out;
}

}  // namespace nabla::conformance
