#include "cli/driver/compile.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "cli/driver/emit_program.h"
#include "cli/driver/rank_table.h"
#include "cli/driver/report.h"
#include "cli/driver/tuning.h"
#include "ir/ops/all_ops.h"
#include "ir/symbols.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "passes/pipeline.h"
#include "passes/shard/microbatch.h"
#include "runtime/format/bundle_reader.h"
#include "runtime/format/bundle_writer.h"
#include "runtime/format/ranks_generated.h"

namespace nabla::driver {
namespace {

// Every target by its name, as the options want it. What acts on none of them is refused.
Result<std::vector<ir::Target>> targets_of(const CompileOptions& options, const std::vector<std::string>& names) {
  std::vector<ir::Target> out;
  Tuning tuning;
  if (!options.tuning_file.empty()) tuning = NABLA_TRY(read_tuning(options.tuning_file));
  bool tuned = false, tf32 = false, gpu = false;
  std::string list;
  for (const std::string& name : names) {
    ir::Target target = NABLA_TRY(ir::find_target(name));
    target.library = options.library && !options.deterministic;
    target.deterministic = options.deterministic;
    if (options.deterministic && target.is_cuda())
      return error(Code::kBadOption, "deterministic: kernels of {} may combine in another order on other ranks; it is for "
                   "CPUs", target.name);
    target.tf32 = options.tf32 && target.is_cuda();
    tf32 |= target.tf32, gpu |= target.is_cuda(), tuned |= tuning.concerns(target);
    tuning.apply(target);
    list += (list.empty() ? "" : ", ") + target.name;
    out.push_back(std::move(target));
  }
  if (options.tf32 && !tf32)
    return error(Code::kBadOption, "tf32 is for matrix products of GPUs, and no target is one: {}", list);
  if (!options.buckets.empty() && !gpu)
    return error(Code::kBadOption, "buckets are for launches of GPUs, and no target is one: {}", list);
  if (tuned) return out;
  Diagnostic d = error(Code::kBadTuning, "the tuning file {} is for {}; nothing in it is for {}", options.tuning_file,
                       tuning.targets(), list);
  d.help = "measure with nablac tune --target of what is compiled for";
  return d;
}

// The names of a list, and after its last GPU the one that GPUs to come can run.
Result<std::vector<std::string>> target_list(const std::string& list) {
  std::vector<ir::Target> targets = NABLA_TRY(ir::find_targets(list));
  std::vector<std::string> names;
  size_t behind = 0;
  bool ptx = false;
  for (const ir::Target& t : targets) {
    names.push_back(t.name);
    if (t.is_cuda()) behind = names.size();
    ptx |= t.cuda.ptx;
  }
  if (behind > 0 && !ptx) names.insert(names.begin() + static_cast<std::ptrdiff_t>(behind), "compute_80");
  return names;
}

// The default steps, split where a module becomes kernels: the report describes both sides.
void split_steps(std::vector<passes::Step> steps, const CompileOptions& options, const SizeLists& sizes,
                 std::vector<passes::Step>& graph, std::vector<passes::Step>& lowering) {
  bool lower = false;
  const std::string first_of_lowering = passes::lowering_steps().front().pass;
  if (!options.debug) graph.push_back({"drop-debug"});
  for (passes::Step& step : steps) {
    if (auto more = options.pass_options.find(step.pass); more != options.pass_options.end())
      step.options.insert(more->second.begin(), more->second.end());
    if (options.deterministic && step.pass == "granulate-sums") step.options["granules"] = "8";
    if (options.deterministic && step.pass == "partition") step.options["deterministic"] = "true";
    if (step.pass == "specialise") step.options["sizes"] = passes::print_sizes(sizes);
    if (step.pass == "plan-memory" && !options.max_bytes.empty()) step.options["max-bytes"] = options.max_bytes;
    if (step.pass == "partition" && !options.max_gather_bytes.empty())
      step.options["max-gather-bytes"] = options.max_gather_bytes;
    if (step.pass == "recompute" && !options.remat_bytes.empty()) step.options["remat-bytes"] = options.remat_bytes;
    if (step.pass == "fuse" && !options.fuse) step.options["kernels"] = "op";
    lower |= step.pass == first_of_lowering;
    (lower ? lowering : graph).push_back(std::move(step));
  }
}

}  // namespace

Result<ir::Module> simplify_module(const ir::Module& module, const ir::Target& target,
                                   const passes::ManagerOptions& options, ir::Stage to) {
  std::vector<passes::Step> graph, lowering;
  split_steps(passes::default_steps(module.stage, to), {}, {}, graph, lowering);
  passes::ManagerOptions manager = options;
  manager.verify = [](const ir::Module& m) { return ir::verify(m); };
  return NABLA_TRY(passes::run_passes(module, graph, ops::all_ops(), target, manager)).module;
}

namespace {

Result<Buckets> buckets_of(const CompileOptions& options, const ir::Module& module) {
  Buckets out = NABLA_TRY(parse_sizes(options.buckets));
  size_t combinations = 1;
  for (auto& [name, bounds] : out) {
    for (int64_t bound : bounds) (void)NABLA_TRY(ir::check_size(module.symbols, name, bound));
    std::sort(bounds.begin(), bounds.end());
    bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
    combinations *= bounds.size() + 1;
    if (combinations > format::kMaxBuckets)
      return error(Code::kBadOption, "the buckets make more than {} combinations", format::kMaxBuckets);
  }
  return out;
}

bool for_several_ranks(const ir::Module& module) { return module.mesh() && module.mesh()->ranks() > 1; }

// Where layouts still stand beside types: the table of ranks is made of them.
Result<ir::Module> sharded_for(const ir::Module& module, std::vector<passes::Step>& graph, const ir::Target& target,
                               const passes::ManagerOptions& manager, std::vector<passes::PassReport>& reports) {
  auto partition = std::find_if(graph.begin(), graph.end(), [](const passes::Step& s) { return s.pass == "partition"; });
  if (partition == graph.end()) {
    Diagnostic d = error(Code::kNoLowering, "the module is what one of the {} ranks of mesh {} computes; where its parts lie in "
                         "the whole is not known any more", module.mesh()->ranks(), module.mesh()->name);
    d.help = "compile a module of stage `sharded` or before";
    d.location = module.mesh()->location;
    return d;
  }
  std::vector<passes::Step> before(graph.begin(), partition);
  graph.erase(graph.begin(), partition);
  auto run = NABLA_TRY(passes::run_passes(module, before, ops::all_ops(), target, manager));
  reports = std::move(run.reports);
  return std::move(run.module);
}

Result<CompiledModule> lower_for(const ir::Target& target, const ir::Module& module, const CompileOptions& options) {
  CompiledModule out;
  out.target = target;
  passes::ManagerOptions manager = options.passes;
  manager.verify = [](const ir::Module& m) { return ir::verify(m); };
  std::vector<passes::Step> graph, lowering;
  SizeLists sizes = NABLA_TRY(parse_sizes(options.specialise));
  split_steps(passes::default_steps(module.stage), options, sizes, graph, lowering);
  if (for_several_ranks(module)) out.sharded = NABLA_TRY(sharded_for(module, graph, out.target, manager, out.passes));
  auto flat = NABLA_TRY(passes::run_passes(out.sharded ? *out.sharded : module, graph, ops::all_ops(), out.target, manager));
  out.passes.insert(out.passes.end(), flat.reports.begin(), flat.reports.end());
  if (out.target.is_cuda()) out.buckets = NABLA_TRY(buckets_of(options, flat.module));
  auto planned = NABLA_TRY(passes::run_passes(flat.module, lowering, ops::all_ops(), out.target, manager));
  out.passes.insert(out.passes.end(), planned.reports.begin(), planned.reports.end());
  out.planned = std::move(planned.module);
  out.flat = std::move(flat.module);
  out.report = make_report(out.flat, out.planned, out.target, out.buckets);
  return out;
}

}  // namespace

Result<CompiledModule> lower_module(const ir::Module& module, const CompileOptions& options) {
  std::vector<ir::Target> targets = NABLA_TRY(targets_of(options, {options.target}));
  return lower_for(targets[0], module, options);
}

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The programs of one class, and what is said of them; `folder` is that of the class, or empty.
struct CompiledClass {
  std::vector<CompiledModule> lowered;
  PlannedClass programs;
};
Status compile_class(const ir::Module& module, const CompileOptions& options, const std::string& folder,
                     CompiledClass& of, CompiledBundle& out, Members& members) {
  std::vector<std::string> names = NABLA_TRY(target_list(options.target));
  for (const ir::Target& target : NABLA_TRY(targets_of(options, names))) {
    of.lowered.push_back(NABLA_TRY(lower_for(target, module, options)));
    out.passes.insert(out.passes.end(), of.lowered.back().passes.begin(), of.lowered.back().passes.end());
  }
  auto start = Clock::now();
  codegen::ToolchainOptions toolchain;
  toolchain.jobs =
      options.jobs > 0 ? options.jobs : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (options.cache) toolchain.cache_dir = codegen::cache_directory();
  members.emplace_back(folder + "ir/module.nbl", ir::print(module, {.locations = true}));
  for (CompiledModule& m : of.lowered) {
    if (options.progress)
      toolchain.progress = [&](size_t done, size_t all) { options.progress(m.target.name, done, all); };
    codegen::TargetCode code = NABLA_TRY(codegen::compile_kernels(m.planned, m.target, toolchain));
    if (m.target.is_cuda()) m.report = with_code(m.report, code);
    std::string report = of.programs.empty() ? "report.json" : fmt::format("report_{}.json", m.target.name);
    members.emplace_back(folder + report, m.report);
    of.programs.push_back({&m.planned, &m.target, std::move(code), {m.buckets, &m.flat, {}}});
  }
  std::vector<const ir::Module*> planned;
  for (const CompiledModule& m : of.lowered) planned.push_back(&m.planned);
  for (PlannedProgram& p : of.programs) p.options.groups = program::groups_of(planned), p.options.overlap = options.overlap;
  if (out.report.empty()) out.report = of.lowered[0].report;
  out.codegen_seconds += seconds_since(start);
  return Ok{};
}

void finish(CompiledBundle& out, Clock::time_point start, EmittedProgram program) {
  out.bytes = std::move(program.bytes);
  out.kernels = program.kernels;
  out.code_bytes = program.code_bytes;
  out.codegen_seconds += seconds_since(start);
}

}  // namespace

Result<ir::Module> with_mesh(const ir::Module& module, const std::vector<std::string>& mesh) {
  ir::Module out = module;
  if (mesh.empty()) return out;
  if (!module.mesh()) {
    Diagnostic d = error(Code::kBadOption, "--mesh: the module has no mesh");
    d.help = "declare one where the program is traced, and lay inputs and state out over its axes";
    return d;
  }
  for (const auto& [name, sizes] : NABLA_TRY(parse_sizes(mesh))) {
    std::vector<ir::MeshAxis>& axes = out.meshes[0].axes;
    auto axis = std::find_if(axes.begin(), axes.end(), [&](const ir::MeshAxis& a) { return a.name == name; });
    if (axis == axes.end())
      return error(Code::kBadSharding, "--mesh: mesh {} has no axis {}{}", out.meshes[0].name, name,
                   did_you_mean(name, out.meshes[0].axis_names()));
    if (sizes.size() != 1) return error(Code::kBadOption, "--mesh: axis {} has one size, {} are given", name, sizes.size());
    axis->size = sizes[0];
  }
  (void)NABLA_TRY(ir::verify(out));
  return out;
}

Result<CompiledBundle> compile(const ir::Module& given, const CompileOptions& options) {
  CompiledBundle out;
  const ir::Module module = NABLA_TRY(with_mesh(given, options.mesh));
  CompiledClass of;
  Members members;
  std::string folder = for_several_ranks(module) ? format::class_folder(kClassOfAll) : "";
  (void)NABLA_TRY(compile_class(module, options, folder, of, out, members));
  auto start = Clock::now();
  if (folder.empty()) {
    finish(out, start, NABLA_TRY(emit_programs(std::move(of.programs), members)));
    return out;
  }
  const CompiledModule& first = of.lowered[0];
  format::RanksT ranks = rank_table(passes::without_temporal_axes(*first.sharded), first.planned, of.programs[0].options.groups);
  std::vector<PlannedClass> classes;
  classes.push_back(std::move(of.programs));
  finish(out, start, NABLA_TRY(emit_ranks(ranks, std::move(classes), members)));
  return out;
}

Result<CompiledBundle> compile_ranks(const format::RanksT& ranks, const std::vector<const ir::Module*>& modules,
                                     const CompileOptions& options) {
  CompiledBundle out;
  Members members;
  std::vector<CompiledClass> compiled(modules.size());
  std::vector<PlannedClass> classes;
  for (size_t c = 0; c < modules.size(); ++c) {
    std::string folder = format::class_folder(ranks.classes[c]->name);
    (void)NABLA_TRY(compile_class(*modules[c], options, folder, compiled[c], out, members));
    classes.push_back(std::move(compiled[c].programs));
  }
  auto start = Clock::now();
  finish(out, start, NABLA_TRY(emit_ranks(ranks, std::move(classes), members)));
  return out;
}

}  // namespace nabla::driver
