#include "cli/driver/lower_set.h"

#include <algorithm>

#include "cli/driver/begun.h"
#include "cli/driver/bill_code.h"
#include "cli/driver/report.h"
#include "cli/driver/search_layouts.h"
#include "cli/driver/tuning.h"
#include "ir/ops/all_ops.h"
#include "ir/symbols.h"
#include "ir/verifier.h"
#include "passes/lower/choose_libraries.h"
#include "passes/pipeline.h"
#include "passes/shard/microbatch.h"
#include "passes/strategy/state_roles.h"
#include "runtime/base/option_error.h"
#include "runtime/base/option_name.h"
#include "runtime/base/text.h"
#include "runtime/format/bundle_reader.h"

namespace nabla::driver {

passes::ManagerOptions verifying(passes::ManagerOptions options) {
  options.verify = [](const ir::Module& m) { return ir::verify(m); };
  return options;
}

Steps take_through(Steps& from, std::string_view last) {
  auto found = std::find_if(from.begin(), from.end(), [&](const passes::Step& s) { return s.pass == last; });
  if (found == from.end()) return {};
  Steps out(from.begin(), found + 1);
  from.erase(from.begin(), found + 1);
  return out;
}

namespace {

bool has_several_targets(const CompileOptions& options) { return options.target.find(',') != options.target.npos; }

// The options of every pass: what the user said of the passes, and what follows from the rest.
passes::PassOptions options_of_passes(const CompileOptions& options, const SizeLists& sizes) {
  passes::PassOptions out = options.pass_options;
  out.deterministic |= options.deterministic;
  out.keep_order |= has_several_targets(options);
  out.specialise.sizes = sizes;
  if (options.max_bytes) out.plan_memory.max_bytes = out.auto_shard.max_bytes = options.max_bytes;
  out.schedule_collectives.overlap &= options.overlap;
  if (!options.fuse) out.fuse.kernels = passes::KernelsOf::kOp;
  return out;
}

// The default steps, split where a module becomes kernels: the report describes both sides.
void split_steps(std::vector<passes::Step> steps, const CompileOptions& options, const SizeLists& sizes,
                 std::vector<passes::Step>& graph, std::vector<passes::Step>& lowering) {
  bool lower = false;
  const passes::PassOptions of_passes = options_of_passes(options, sizes);
  const std::string first_of_lowering = passes::lowering_steps().front().pass;
  if (!options.debug) graph.push_back({"drop-debug"});
  for (passes::Step& step : steps) {
    step.options = of_passes;
    lower |= step.pass == first_of_lowering;
    (lower ? lowering : graph).push_back(std::move(step));
  }
}

ir::SymbolRef symbol_of(const ir::Module& m, const std::string& name) {
  auto found = std::find_if(m.symbols.begin(), m.symbols.end(), [&](const ir::SymbolRef& s) { return s->name == name; });
  return found == m.symbols.end() ? nullptr : *found;
}

constexpr OptionName kBucketsOption{"buckets"};

// Users know the sizes of the whole program: where it is cut, code is for what a rank has of them. `whole` is null where it is not.
Result<SizeLists> sizes_of_rank(const SizeLists& given, const OptionName& option, const ir::Module* whole, const ir::Module& local) {
  SizeLists out;
  for (const auto& [name, values] : given) {
    const ir::SymbolRef size = whole ? symbol_of(*whole, name) : nullptr, part = symbol_of(local, name + ".local");
    const bool cut = size && part && !symbol_of(local, name);
    const int64_t parts = cut ? size->multiple / part->multiple : 1;
    for (int64_t value : values) {
      if (value % parts != 0) {
        Diagnostic d = error(Code::kBadOption, "{}: {}={} is asked for, and {} lies in {} parts over mesh {}, which do not divide {}",
                             option, name, value, name, parts, whole->mesh()->name, value);
        d.help = fmt::format("take multiples of {}", size->multiple);
        return d;
      }
      const bool unknown = whole && !symbol_of(local, name);
      if (cut || unknown) (void)NABLA_TRY(ir::check_size(whole->symbols, name, value, spelled(option)));
      out[cut ? part->name : name].push_back(value / parts);
    }
  }
  return out;
}

Result<Buckets> buckets_of(const CompileOptions& options, const ir::Module* whole, const ir::Module& module) {
  Buckets out = NABLA_TRY(sizes_of_rank(NABLA_TRY(parse_sizes(options.buckets, spelled(kBucketsOption))), kBucketsOption, whole, module));
  double combinations = 1;  // of many lists more than integers hold
  std::string product;
  for (auto& [name, bounds] : out) {
    for (int64_t bound : bounds) (void)NABLA_TRY(ir::check_size(module.symbols, name, bound, spelled(kBucketsOption)));
    std::sort(bounds.begin(), bounds.end());
    bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
    const ir::Symbol& size = *symbol_of(module, name);
    const size_t sizes = bounds.size() + (bounds.back() < size.max / size.multiple * size.multiple);  // the largest is always one
    combinations *= static_cast<double>(sizes);
    product += fmt::format("{}{} of {}", product.empty() ? "" : " times ", sizes, name);
  }
  if (combinations <= format::kMaxBuckets) return out;
  return option_error(fmt::format("name fewer sizes, such as powers of two: a launch is made for every combination, at most {}",
                                  format::kMaxBuckets),
                      "{}: {} sizes, each with its largest, make {:.0f} combinations; a program has at most {}", kBucketsOption, product,
                      combinations, format::kMaxBuckets);
}

void append(std::vector<passes::PassReport>& to, std::vector<passes::PassReport> from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

Diagnostic no_layouts(const ir::Mesh& mesh) {
  Diagnostic d = error(Code::kNoLowering,
                       "the module is what one of the {} ranks of mesh {} computes; where its parts lie in "
                       "the whole is not known any more",
                       mesh.ranks(), mesh.name);
  d.help = "compile a module of stage `sharded` or before";
  d.location = mesh.location;
  return d;
}

// The set of a module, by the passes that see the whole program; they are taken from the list.
Result<ir::ProgramSet> set_for(const ir::Module& module, Steps& graph, const passes::ManagerOptions& manager,
                               LoweredSet& out) {
  bool several = module.mesh() && module.mesh()->ranks() > 1;
  Steps whole = take_through(graph, "partition");
  if (several && whole.empty()) return no_layouts(*module.mesh());
  Steps partition;
  if (several) partition.push_back(std::move(whole.back())), whole.pop_back();
  auto run = NABLA_TRY(passes::run_passes(module, whole, ops::all_ops(), out.target, manager));
  append(out.passes, std::move(run.reports));
  if (!several) return ir::set_of(run.module, run.module);
  auto local = NABLA_TRY(passes::run_passes(run.module, partition, ops::all_ops(), out.target, manager));
  append(out.passes, std::move(local.reports));
  out.sharded = std::move(run.module);
  return ir::set_of(passes::without_temporal_axes(*out.sharded), std::move(local.module));
}

// Of the state, where its gradients are calls still.
std::optional<passes::StateRoles> roles_in(const ir::Module& m) {
  if (m.stage != ir::Stage::kTraced) return std::nullopt;
  Result<passes::StateRoles> roles = passes::roles_of_state(m);
  return roles.ok() ? std::optional(std::move(*roles)) : std::nullopt;
}

// Each class has products of its own: what the tuning file says of a product is unused where no class has it.
void join_unused_choices(std::vector<passes::PassReport>& reports, size_t classes) {
  auto is_unused = [](const ir::Remark& remark) { return remark.kind == ir::RemarkKind::kUnusedTuning; };
  std::map<std::string, size_t> lacking;
  for (const passes::PassReport& report : reports)
    for (const ir::Remark& remark : report.remarks)
      if (is_unused(remark)) ++lacking[remark.subject];
  for (passes::PassReport& report : reports)
    std::erase_if(report.remarks, [&](const ir::Remark& r) { return is_unused(r) && lacking[r.subject] < classes; });
}

// From a set, and what is left of the passes before fusion, to the planned one.
Status lay_out(ir::ProgramSet set, const Steps& graph, const Steps& lowering, const CompileOptions& options, const Roles& roles,
               const passes::ManagerOptions& manager, LoweredSet& out) {
  auto local = NABLA_TRY(passes::run_passes(set, graph, ops::all_ops(), out.target, manager));
  append(out.passes, std::move(local.reports));
  out.local = std::move(local.set);
  const ir::Module* whole = out.sharded ? &*out.sharded : nullptr;
  for (const ir::RankClass& c : out.local.classes)
    out.buckets.push_back(out.target.is_cuda() ? NABLA_TRY(buckets_of(options, whole, c.module)) : Buckets());
  auto planned = NABLA_TRY(passes::run_passes(out.local, lowering, ops::all_ops(), out.target, manager));
  join_unused_choices(planned.reports, planned.set.classes.size());
  append(out.passes, std::move(planned.reports));
  out.planned = std::move(planned.set);
  if (options.max_comm_bytes)
    for (const ir::RankClass& c : out.local.classes) (void)NABLA_TRY(ir::check_exchanges(c.module, options.max_comm_bytes->count));
  for (size_t c = 0; c < out.planned.classes.size(); ++c) {
    const ir::Module& planned = out.planned.classes[c].module;
    out.roles.push_back(c < roles.size() ? roles[c] : std::nullopt);
    out.bills.push_back(ir::bill_of(out.local.classes[c].module, planned, out.target,
                                    {&out.local, c, out.roles[c], options.overlap, passes::remarks_of(out.passes)}));
    predict_by_schedules(planned, out.target, out.bills[c]);
  }
  return Ok{};
}

}  // namespace

std::string report_of(const LoweredSet& set, size_t c) {
  const ir::BillContext context{&set.local, c, set.roles[c]};
  return report_json(set.bills[c], {set.local.classes[c].module, set.planned.classes[c].module, set.target, set.buckets[c], context});
}

std::map<std::string, double> predicted_us(const LoweredSet& set, size_t c) {
  std::map<std::string, double> out;
  if (set.local.ranks > 1)
    for (const ir::EntryBill& e : set.bills[c].entries) out[e.name] = e.timeline.us;
  return out;
}

// Every target as the options want it. What acts on none of them is refused.
Result<std::vector<ir::Target>> targets_of(const CompileOptions& options, std::vector<ir::Target> targets) {
  std::vector<ir::Target> out;
  Tuning tuning;
  if (!options.tuning_file.empty()) tuning = NABLA_TRY(read_tuning(options.tuning_file));
  bool tuned = false, tf32 = false, gpu = false;
  std::string list;
  for (ir::Target& target : targets) {
    target.library = options.library && !options.deterministic;
    target.deterministic = options.deterministic;
    if (options.deterministic && target.is_cuda())
      return option_error("compile for CPUs alone, or without that option",
                          "deterministic: kernels of {} may combine in another order on other ranks; it is for CPUs", target.name);
    target.tf32 = options.tf32 && target.is_cuda();
    tf32 |= target.tf32, gpu |= target.is_cuda(), tuned |= tuning.concerns(target);
    tuning.apply(target);
    // Layouts are searched by the times of the first target for all of them.
    if (target.is_cuda() && !out.empty()) target.rates = out[0].rates;
    list += (list.empty() ? "" : ", ") + target.name;
    out.push_back(std::move(target));
  }
  if (options.tf32 && !tf32)
    return option_error(fmt::format("leave it out, or compile for a GPU: {}", OptionName{"target", "sm_80"}),
                        "tf32 is for matrix products of GPUs, and no target is one: {}", list);
  if (const passes::Offload offload = options.pass_options.apply_strategy.offload; offload != passes::Offload::kNone && !gpu) {
    Diagnostic d = error(Code::kBadOption, "{}: no target has a memory of its own beside the host's: {}",
                         OptionName{"offload", passes::option_text::print(offload)}, list);
    d.help = fmt::format("it is for programs that run on GPUs: {}", OptionName{"target", "sm_90a"});
    return d;
  }
  if (!options.buckets.empty() && !gpu)
    return option_error(fmt::format("leave them out, or compile for a GPU: {}", OptionName{"target", "sm_80"}),
                        "buckets are for launches of GPUs, and no target is one: {}", list);
  if (tuned) return out;
  Diagnostic d = error(Code::kBadTuning, "the tuning file {} is for {}; nothing in it is for {}", options.tuning_file,
                       tuning.targets(), list);
  d.help = gpu ? "write what is to hold below `target " + list.substr(0, list.find(',')) +
                     "`; the runtime measures GPUs, and nablac tune --gpu-records takes over what it found"
               : "measure with nablac tune --target of what is compiled for";
  return d;
}

Result<ir::Module> simplify_module(const ir::Module& module, const ir::Target& target,
                                   const passes::ManagerOptions& options, ir::Stage to) {
  std::vector<passes::Step> graph, lowering;
  split_steps(passes::default_steps(module.stage, to), {}, {}, graph, lowering);
  return NABLA_TRY(passes::run_passes(module, graph, ops::all_ops(), target, verifying(options))).module;
}

Result<Begun> begun(const ir::Module& module, const CompileOptions& options) {
  Begun out{module, {}, {}, {roles_in(module)}};
  split_steps(passes::default_steps(module.stage), options,
              NABLA_TRY(parse_sizes(options.specialise, spelled(passes::kSpecialiseOption))), out.graph, out.lowering);
  return out;
}

Status run_steps(Begun& of, const Steps& steps, const ir::Target& target, const passes::ManagerOptions& manager) {
  auto run = NABLA_TRY(passes::run_passes(of.module, steps, ops::all_ops(), target, manager));
  of.module = std::move(run.module);
  append(of.passes, std::move(run.reports));
  return Ok{};
}

Result<LoweredSet> finished(Begun from, const ir::Target& target, const CompileOptions& options) {
  LoweredSet out{target};
  const passes::ManagerOptions manager = verifying(options.passes);
  out.passes = std::move(from.passes);
  ir::ProgramSet set = NABLA_TRY(set_for(from.module, from.graph, manager, out));
  for (passes::Step& step : from.graph)
    if (step.pass == "specialise" && out.sharded)
      step.options.specialise.sizes = NABLA_TRY(sizes_of_rank(step.options.specialise.sizes, passes::kSpecialiseOption, &*out.sharded,
                                                              set.classes[0].module));
  (void)NABLA_TRY(lay_out(std::move(set), from.graph, from.lowering, options, from.roles, manager, out));
  return out;
}

Result<LoweredSet> lowered(const ir::Target& target, const ir::Module& module, const CompileOptions& options) {
  return finished(NABLA_TRY(begun(module, options)), target, options);
}

Result<LoweredSet> lower_set(const ir::Target& target, const ir::Module& module, const CompileOptions& options) {
  return searches_layouts(module, options) ? lowered_by_search(target, module, options) : lowered(target, module, options);
}

Result<LoweredSet> lower_set(const ir::Target& target, const ir::ProgramSet& set, const CompileOptions& options) {
  LoweredSet out{target};
  const passes::ManagerOptions manager = verifying(options.passes);
  ir::ProgramSet local = set;
  Steps graph, lowering;
  Roles roles;
  for (ir::RankClass& c : local.classes) {
    roles.push_back(roles_in(c.module));
    graph.clear(), lowering.clear();
    split_steps(passes::default_steps(c.module.stage), options,
                NABLA_TRY(parse_sizes(options.specialise, spelled(passes::kSpecialiseOption))), graph, lowering);
    auto run =
        NABLA_TRY(passes::run_passes(c.module, take_through(graph, "partition"), ops::all_ops(), target, manager));
    append(out.passes, std::move(run.reports));
    c.module = std::move(run.module);
  }
  (void)NABLA_TRY(lay_out(std::move(local), graph, lowering, options, roles, manager, out));
  return out;
}

}  // namespace nabla::driver
