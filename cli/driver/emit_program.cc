#include "cli/driver/emit_program.h"

#include <algorithm>
#include <map>
#include <memory>

#include "cli/driver/rank_table.h"
#include "codegen/program/check.h"
#include "codegen/program/pack.h"
#include "runtime/base/option_error.h"
#include "runtime/format/bundle_writer.h"
#include "runtime/format/members.h"
#include "runtime/format/program_generated.h"
#include "runtime/format/ranks_generated.h"

namespace nabla::driver {
namespace {

// A class has at most one CPU program: all of them would be members of the same names.
Status check_targets(const std::vector<PlannedProgram>& programs) {
  const ir::Target* cpu = nullptr;
  for (const PlannedProgram& p : programs) {
    if (p.target->is_cuda()) continue;
    if (cpu)
      return option_error("name one of them; GPUs may stand beside it",
                          "targets `{}` and `{}`: a bundle has at most one CPU program", cpu->name, p.target->name);
    cpu = p.target;
  }
  return Ok{};
}

// Programs in the bundle's format, and the members that they need.
class Emitter {
 public:
  using Packed = std::vector<std::shared_ptr<format::ProgramT>>;

  /// `folder` is that of the class; empty: there is one class.
  Result<Packed> add(PlannedClass& programs, const std::string& folder) {
    (void)NABLA_TRY(check_targets(programs));
    Packed packed;
    for (PlannedProgram& p : programs) {
      program::LocalProgram local = NABLA_TRY(program::build(*p.module, *p.target, p.options));
      NABLA_TRY(program::check(local));
      for (auto& kernel : p.code.kernels) kernel.object = folder + kernel.object;
      packed.push_back(NABLA_TRY(program::pack(local, p.code)));
      out.kernels += local.kernels.size();
      out.code_bytes += p.code.code_bytes;
      if (local.constants_bytes > 0) add_constants(local, *packed.back(), folder);
      for (auto& [name, bytes] : p.code.members) members.push_back({folder + name, std::move(bytes)});
    }
    return packed;
  }
  void add(const Members& more) {
    for (const auto& [name, bytes] : more) members.push_back({name, bytes});
  }

  EmittedProgram out;
  std::vector<format::BundleMember> members;

 private:
  void add_constants(const program::LocalProgram& local, format::ProgramT& packed, const std::string& folder) {
    std::string bytes = program::constants_of(local), name = folder + std::string(format::kConstantsMember);
    auto taken = [&](const format::BundleMember& m) { return m.name == name; };
    if (std::any_of(members.begin(), members.end(), taken)) name = folder + "constants_" + local.target.name + ".bin";
    auto [it, fresh] = constants_.try_emplace(bytes, name);
    packed.constants = it->second;
    if (fresh) members.push_back({it->second, std::move(bytes)});
  }

  std::map<std::string, std::string> constants_;  // bytes to the member that holds them
};

std::vector<const format::ProgramT*> pointers(const Emitter::Packed& packed) {
  std::vector<const format::ProgramT*> out;
  for (const auto& program : packed) out.push_back(program.get());
  return out;
}

}  // namespace

Result<EmittedProgram> emit_set(const ir::ProgramSet& set, std::vector<PlannedClass> classes, const Members& more) {
  Emitter emitter;
  std::vector<Emitter::Packed> packed;
  std::vector<std::vector<const format::ProgramT*>> listed;
  for (size_t c = 0; c < classes.size(); ++c) {
    std::string folder = set.one_device() ? "" : format::class_folder(set.classes[c].name);
    packed.push_back(NABLA_TRY(emitter.add(classes[c], folder)));
    listed.push_back(pointers(packed.back()));
  }
  emitter.add(more);
  emitter.out.bytes = NABLA_TRY(set.one_device() ? format::bundle_bytes(listed[0], emitter.members)
                                                 : format::bundle_bytes(rank_table(set), listed, emitter.members));
  return std::move(emitter.out);
}

Result<EmittedProgram> emit_programs(std::vector<PlannedProgram> programs, const Members& more) {
  ir::ProgramSet set;
  set.classes.push_back({ir::kClassOfAll, 0, {}, {}, *programs[0].module});
  std::vector<PlannedClass> classes;
  classes.push_back(std::move(programs));
  return emit_set(set, std::move(classes), more);
}

Result<EmittedProgram> emit_program(const ir::Module& module, const ir::Target& target, const EmitOptions& options) {
  std::vector<PlannedProgram> programs(1);
  codegen::TargetCode code = NABLA_TRY(codegen::compile_kernels(module, target, options.toolchain));
  programs[0] = {&module, &target, std::move(code)};
  return emit_programs(std::move(programs), options.members);
}

}  // namespace nabla::driver
