#include "cli/driver/emit_program.h"

#include <map>
#include <memory>

#include "codegen/program/check.h"
#include "codegen/program/pack.h"
#include "runtime/format/bundle_writer.h"
#include "runtime/format/program_generated.h"

namespace nabla::driver {
namespace {

// A bundle has at most one CPU program: all of them would be members of the same names.
Status check_targets(const std::vector<PlannedProgram>& programs) {
  const ir::Target* cpu = nullptr;
  for (const PlannedProgram& p : programs) {
    if (p.target->is_cuda()) continue;
    if (cpu)
      return error(Code::kBadOption, "targets `{}` and `{}`: a bundle has at most one CPU program", cpu->name,
                   p.target->name);
    cpu = p.target;
  }
  return Ok{};
}

}  // namespace

Result<EmittedProgram> emit_programs(std::vector<PlannedProgram> programs, const Members& more) {
  (void)NABLA_TRY(check_targets(programs));
  EmittedProgram out;
  std::vector<format::BundleMember> members;
  std::vector<std::shared_ptr<format::ProgramT>> packed;
  std::map<std::string, std::string> constants;  // bytes to the member that holds them
  for (PlannedProgram& p : programs) {
    program::LocalProgram local = NABLA_TRY(program::build(*p.module, *p.target, p.options));
    NABLA_TRY(program::check(local));
    packed.push_back(NABLA_TRY(program::pack(local, p.code)));
    out.kernels += local.kernels.size();
    out.code_bytes += p.code.code_bytes;
    if (local.constants_bytes > 0) {
      std::string bytes = program::constants_of(local);
      auto [it, fresh] = constants.try_emplace(
          bytes, constants.empty() ? std::string(format::kConstantsMember) : "constants_" + p.target->name + ".bin");
      packed.back()->constants = it->second;
      if (fresh) members.push_back({it->second, std::move(bytes)});
    }
    for (auto& [name, bytes] : p.code.members) members.push_back({name, std::move(bytes)});
  }
  for (const auto& [name, bytes] : more) members.push_back({name, bytes});
  std::vector<const format::ProgramT*> listed;
  for (const auto& program : packed) listed.push_back(program.get());
  out.bytes = NABLA_TRY(format::bundle_bytes(listed, members));
  return out;
}

Result<EmittedProgram> emit_program(const ir::Module& module, const ir::Target& target, const EmitOptions& options) {
  std::vector<PlannedProgram> programs(1);
  codegen::TargetCode code = NABLA_TRY(codegen::compile_kernels(module, target, options.toolchain));
  programs[0] = {&module, &target, std::move(code)};
  return emit_programs(std::move(programs), options.members);
}

}  // namespace nabla::driver
