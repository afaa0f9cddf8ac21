#include "tests/conformance/cpu_run.h"

#include "cli/driver/emit_program.h"
#include "ir/ops/all_ops.h"
#include "passes/pass_manager.h"
#include "passes/transform/expand_composites.h"
#include "runtime/format/bundle_reader.h"

namespace nabla::conformance {

Result<ir::Module> planned_for(const ir::Module& module, const ir::Target& target) {
  passes::PassContext context{ops::all_ops(), target};
  ir::Module local = module;
  local.stage = ir::Stage::kLocal;
  ir::Module expanded = NABLA_TRY(passes::expand_composites(local, context));
  return NABLA_TRY(passes::run_passes(expanded, passes::lowering_steps(), context.ops, target)).module;
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
