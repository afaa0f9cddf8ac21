#include "cli/driver/compile.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "cli/driver/bill_code.h"
#include "cli/driver/emit_program.h"
#include "cli/driver/lower_set.h"
#include "cli/driver/spread.h"
#include "ir/text.h"
#include "runtime/format/members.h"

namespace nabla::driver {
namespace {

// The targets of a list, and after its last GPU the one that GPUs to come can run.
Result<std::vector<ir::Target>> target_list(const std::string& list) {
  std::vector<ir::Target> targets = NABLA_TRY(ir::find_targets(list));
  size_t after_gpus = 0;
  bool ptx = false;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i].is_cuda()) after_gpus = i + 1;
    ptx |= targets[i].cuda.ptx;
  }
  if (after_gpus > 0 && !ptx)
    targets.insert(targets.begin() + static_cast<std::ptrdiff_t>(after_gpus), NABLA_TRY(ir::find_target("compute_80")));
  return targets;
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The programs of a class, one per target, with their kernels compiled, and the members that say what they are;
// `folder` is that of the class, or empty.
Result<PlannedClass> compile_class(std::vector<LoweredSet>& sets, size_t c, const std::string& folder,
                                   const CompileOptions& options, Members& members) {
  codegen::ToolchainOptions toolchain;
  toolchain.jobs =
      options.jobs > 0 ? options.jobs : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (options.cache) toolchain.cache_dir = codegen::cache_directory();
  PlannedClass out;
  std::vector<const ir::Module*> all;
  for (LoweredSet& set : sets) {
    const ir::Module &planned = set.planned.classes[c].module, &local = set.local.classes[c].module;
    if (options.progress)
      toolchain.progress = [&](size_t done, size_t files) { options.progress(set.target.name, done, files); };
    codegen::TargetCode code = NABLA_TRY(codegen::compile_kernels(planned, set.target, toolchain));
    predict_by_code(code, set.target, set.bills[c]);
    std::string report = out.empty() ? "report.json" : fmt::format("report_{}.json", set.target.name);
    members.emplace_back(folder + report, report_of(set, c));
    out.push_back({&planned, &set.target, std::move(code),
                   {.buckets = set.buckets[c], .flat = &local, .predicted_us = predicted_us(set, c)}});
    all.push_back(&planned);
  }
  for (PlannedProgram& p : out) p.options.groups = program::groups_of(all), p.options.overlap = options.overlap;
  return out;
}

// `sets` are one per target; `sources` what their classes were made of.
Result<CompiledBundle> bundle_of(std::vector<LoweredSet> sets, const std::vector<const ir::Module*>& sources,
                                 const CompileOptions& options) {
  CompiledBundle out;
  auto start = Clock::now();
  ir::ProgramSet& set = sets[0].planned;
  for (LoweredSet& other : sets) {
    out.passes.insert(out.passes.end(), other.passes.begin(), other.passes.end());
    NABLA_CHECK(
        other.planned.state == set.state && other.planned.inputs == set.inputs && other.planned.outputs == set.outputs,
        "parts lie elsewhere on {} than on {}", other.target.name, sets[0].target.name);
  }
  Members members;
  std::vector<PlannedClass> classes;
  for (size_t c = 0; c < set.classes.size(); ++c) {
    std::string folder = set.one_device() ? "" : format::class_folder(set.classes[c].name);
    members.emplace_back(folder + "ir/module.nbl", ir::print(*sources[c], {.locations = true}));
    classes.push_back(NABLA_TRY(compile_class(sets, c, folder, options, members)));
    if (!set.meshes.empty()) ir::set_groups(set, c, classes.back()[0].options.groups);
  }
  for (const PlannedClass& programs : classes)
    for (const PlannedProgram& p : programs)
      if (!p.code.remarks.empty()) out.passes.push_back({"codegen", 0, false, p.code.remarks});
  out.report = report_of(sets[0], 0), out.ranks = set.ranks;
  EmittedProgram program = NABLA_TRY(emit_set(set, std::move(classes), members));
  out.bytes = std::move(program.bytes);
  out.kernels = program.kernels, out.code_bytes = program.code_bytes;
  out.codegen_seconds = seconds_since(start);
  return out;
}

// A module or a set for all targets of the options.
template <class Source>
Result<std::vector<LoweredSet>> lower_all(const Source& source, const CompileOptions& options) {
  std::vector<LoweredSet> out;
  std::vector<ir::Target> targets = NABLA_TRY(target_list(options.target));
  for (const ir::Target& target : NABLA_TRY(targets_of(options, std::move(targets))))
    out.push_back(NABLA_TRY(lower_set(target, source, options)));
  return out;
}

}  // namespace

Result<CompiledModule> lower_module(const ir::Module& module, const CompileOptions& options) {
  CompileOptions spread = options;
  const ir::Module on_mesh = NABLA_TRY(spread_over_mesh(module, spread));
  std::vector<ir::Target> targets = NABLA_TRY(targets_of(spread, {NABLA_TRY(ir::find_target(options.target))}));
  LoweredSet set = NABLA_TRY(lower_set(targets[0], on_mesh, spread));
  CompiledModule out;
  out.report = report_of(set, 0), out.bill = std::move(set.bills[0]);
  out.sharded = std::move(set.sharded), out.flat = std::move(set.local.classes[0].module);
  out.planned = std::move(set.planned.classes[0].module), out.target = std::move(set.target);
  out.passes = std::move(set.passes), out.buckets = std::move(set.buckets[0]);
  return out;
}

Result<CompiledBundle> compile(const ir::Module& given, const CompileOptions& options) {
  CompileOptions spread = options;
  const ir::Module module = NABLA_TRY(spread_over_mesh(given, spread));
  return bundle_of(NABLA_TRY(lower_all(module, spread)), {&module}, spread);
}

Result<CompiledBundle> compile_set(const ir::ProgramSet& set, const CompileOptions& options) {
  std::vector<const ir::Module*> sources;
  for (const ir::RankClass& c : set.classes) sources.push_back(&c.module);
  return bundle_of(NABLA_TRY(lower_all(set, options)), sources, options);
}

}  // namespace nabla::driver
