#include "cli/driver/lower_set.h"

#include <algorithm>
#include <limits>

#include "cli/driver/report.h"
#include "cli/driver/report_exchange.h"
#include "cli/driver/report_timeline.h"
#include "cli/driver/spread.h"
#include "cli/driver/tuning.h"
#include "ir/ops/all_ops.h"
#include "ir/symbols.h"
#include "ir/verifier.h"
#include "passes/auto_shard/auto_shard.h"
#include "passes/pipeline.h"
#include "passes/shard/microbatch.h"
#include "passes/strategy/state_roles.h"
#include "runtime/base/text.h"
#include "runtime/format/bundle_reader.h"

namespace nabla::driver {
namespace {

// ZeRO of the second and third stage keeps a share of the gradients.
bool shares_gradients(const CompileOptions& options) {
  auto strategy = options.pass_options.find("apply-strategy");
  if (strategy == options.pass_options.end()) return false;
  auto zero = strategy->second.find("zero");
  return zero != strategy->second.end() && (zero->second == "2" || zero->second == "3");
}

bool has_several_targets(const CompileOptions& options) { return options.target.find(',') != options.target.npos; }

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
    if (step.pass == "partition" && shares_gradients(options)) step.options.insert({"grad-sync", "each"});
    if (step.pass == "specialise") step.options["sizes"] = passes::print_sizes(sizes);
    if ((step.pass == "plan-memory" || step.pass == "auto-shard") && !options.max_bytes.empty())
      step.options["max-bytes"] = options.max_bytes;
    if ((step.pass == "partition" || step.pass == "pad-shards") && !options.max_gather_bytes.empty())
      step.options["max-gather-bytes"] = options.max_gather_bytes;
    if (step.pass == "recompute" && !options.remat_bytes.empty()) step.options["remat-bytes"] = options.remat_bytes;
    if (step.pass == "schedule-collectives" && !options.overlap) step.options["overlap"] = "false";
    if (step.pass == "schedule-collectives" && has_several_targets(options)) step.options["keep-order"] = "true";
    if (step.pass == "fuse" && !options.fuse) step.options["kernels"] = "op";
    lower |= step.pass == first_of_lowering;
    (lower ? lowering : graph).push_back(std::move(step));
  }
}

ir::SymbolRef symbol_of(const ir::Module& m, const std::string& name) {
  auto found = std::find_if(m.symbols.begin(), m.symbols.end(), [&](const ir::SymbolRef& s) { return s->name == name; });
  return found == m.symbols.end() ? nullptr : *found;
}

// Users know the sizes of the whole program: where it is cut, code is for what a rank has of them. `whole` is null where it is not.
Result<SizeLists> sizes_of_rank(const SizeLists& given, const std::string& option, const ir::Module* whole, const ir::Module& local) {
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
      if (cut) (void)NABLA_TRY(ir::check_size(whole->symbols, name, value));
      out[cut ? part->name : name].push_back(value / parts);
    }
  }
  return out;
}

Result<Buckets> buckets_of(const CompileOptions& options, const ir::Module* whole, const ir::Module& module) {
  Buckets out = NABLA_TRY(sizes_of_rank(NABLA_TRY(parse_sizes(options.buckets)), "--buckets", whole, module));
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

passes::ManagerOptions verifying(const CompileOptions& options) {
  passes::ManagerOptions out = options.passes;
  out.verify = [](const ir::Module& m) { return ir::verify(m); };
  return out;
}

void append(std::vector<passes::PassReport>& to, std::vector<passes::PassReport> from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

using Steps = std::vector<passes::Step>;

Steps take_through(Steps& from, std::string_view last) {
  auto found = std::find_if(from.begin(), from.end(), [&](const passes::Step& s) { return s.pass == last; });
  if (found == from.end()) return {};
  Steps out(from.begin(), found + 1);
  from.erase(from.begin(), found + 1);
  return out;
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
using Roles = std::vector<std::optional<passes::StateRoles>>;  // by class

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
  append(out.passes, std::move(planned.reports));
  out.planned = std::move(planned.set);
  if (!options.max_comm_bytes.empty()) {
    std::optional<int64_t> most = parse_bytes(options.max_comm_bytes);
    if (!most) return error(Code::kBadOption, "max-comm-bytes is a number of bytes, such as 64MiB, not `{}`", options.max_comm_bytes);
    for (const ir::RankClass& c : out.local.classes) (void)NABLA_TRY(check_exchanges(c.module, *most));
  }
  for (size_t c = 0; c < out.planned.classes.size(); ++c)
    out.reports.push_back(make_report(out.local.classes[c].module, out.planned.classes[c].module, out.target, out.buckets[c],
                                      {&out.local, c, c < roles.size() ? roles[c] : std::nullopt, options.overlap,
                                       passes::remarks_of(out.passes)}));
  return Ok{};
}

}  // namespace

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
    // Layouts are searched by the times of the first target for all of them.
    if (target.is_cuda() && !out.empty()) target.rates = out[0].rates;
    list += (list.empty() ? "" : ", ") + target.name;
    out.push_back(std::move(target));
  }
  if (options.tf32 && !tf32)
    return error(Code::kBadOption, "tf32 is for matrix products of GPUs, and no target is one: {}", list);
  if (auto strategy = options.pass_options.find("apply-strategy"); strategy != options.pass_options.end() && !gpu) {
    auto offload = strategy->second.find("offload");
    if (offload != strategy->second.end() && offload->second != "none") {
      Diagnostic d = error(Code::kBadOption, "offload={}: no target has a memory of its own beside the host's: {}", offload->second, list);
      d.help = "it is for programs that run on GPUs: --target sm_90a";
      return d;
    }
  }
  if (!options.buckets.empty() && !gpu)
    return error(Code::kBadOption, "buckets are for launches of GPUs, and no target is one: {}", list);
  if (tuned) return out;
  Diagnostic d = error(Code::kBadTuning, "the tuning file {} is for {}; nothing in it is for {}", options.tuning_file,
                       tuning.targets(), list);
  d.help = "measure with nablac tune --target of what is compiled for";
  return d;
}

Result<ir::Module> simplify_module(const ir::Module& module, const ir::Target& target,
                                   const passes::ManagerOptions& options, ir::Stage to) {
  std::vector<passes::Step> graph, lowering;
  split_steps(passes::default_steps(module.stage, to), {}, {}, graph, lowering);
  passes::ManagerOptions manager = options;
  manager.verify = [](const ir::Module& m) { return ir::verify(m); };
  return NABLA_TRY(passes::run_passes(module, graph, ops::all_ops(), target, manager)).module;
}

namespace {

// A module that passes have brought some way, and the passes that are left.
struct Begun {
  ir::Module module;
  Steps graph, lowering;
  Roles roles;  // of the module as it came
  std::vector<passes::PassReport> passes = {};
};

Result<Begun> begun(const ir::Module& module, const CompileOptions& options) {
  Begun out{module, {}, {}, {roles_in(module)}};
  split_steps(passes::default_steps(module.stage), options, NABLA_TRY(parse_sizes(options.specialise)), out.graph, out.lowering);
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
  const passes::ManagerOptions manager = verifying(options);
  out.passes = std::move(from.passes);
  ir::ProgramSet set = NABLA_TRY(set_for(from.module, from.graph, manager, out));
  for (passes::Step& step : from.graph)
    if (step.pass == "specialise" && out.sharded && !step.options["sizes"].empty())
      step.options["sizes"] = passes::print_sizes(NABLA_TRY(
          sizes_of_rank(NABLA_TRY(parse_sizes({step.options["sizes"]})), "--specialize", &*out.sharded, set.classes[0].module)));
  (void)NABLA_TRY(lay_out(std::move(set), from.graph, from.lowering, options, from.roles, manager, out));
  return out;
}

Result<LoweredSet> lowered(const ir::Target& target, const ir::Module& module, const CompileOptions& options) {
  return finished(NABLA_TRY(begun(module, options)), target, options);
}

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

bool searches_layouts(const CompileOptions& options) {
  auto search = options.pass_options.find("auto-shard");
  return search != options.pass_options.end() && search->second.count("search") && search->second.at("search") == "true";
}

/// Of the rank that needs most.
struct RankBytes {
  int64_t all = 0, state = 0;
};
RankBytes bytes_of(const LoweredSet& set) {
  RankBytes out;
  for (const ir::RankClass& c : set.planned.classes) {
    int64_t state = 0;
    for (const ir::StateLeaf& leaf : c.module.state) state += leaf.type.bytes().value();
    if (c.module.plan->arena_bytes > out.all) out = {c.module.plan->arena_bytes, state};
  }
  return out;
}

// A run of every entry, on the rank that takes longest.
double predicted(const LoweredSet& set) {
  double out = 0;
  for (const std::string& report : set.reports) {
    double all = 0;
    for (const auto& [entry, us] : predicted_us(report)) all += us;
    out = std::max(out, all);
  }
  return out;
}

// What a search says of the program that was taken.
void note(LoweredSet& of, const std::string& text) {
  for (passes::PassReport& r : of.passes)
    if (r.pass == "auto-shard") r.remarks.push_back(text);
  for (std::string& report : of.reports) report = with_note(report, text);
}

// A search's model knows layouts of values in the middle that propagation would not find, and not how later passes carry them
// out: both are made of the one search, and what takes less time is taken; where one of them alone keeps within `most` bytes, that
// one. The first of the steps that are left is the search.
Result<LoweredSet> searched(const ir::Target& target, Begun from, const CompileOptions& options, int64_t most) {
  const ir::Module whole = from.module;
  const Steps search = take_through(from.graph, "auto-shard");
  (void)NABLA_TRY(run_steps(from, search, target, verifying(options)));
  Result<LoweredSet> found = finished(from, target, options);
  if (!found.ok() || search.back().options.count("values")) return found;
  from.module = passes::with_stored_layouts_of(whole, from.module);
  Result<LoweredSet> propagated = finished(std::move(from), target, options);
  if (!propagated.ok()) return found;
  const double as_found = predicted(*found), as_propagated = predicted(*propagated);
  const bool fits = bytes_of(*found).all <= most, other_fits = bytes_of(*propagated).all <= most;
  if (fits != other_fits ? fits : as_found <= as_propagated) return found;
  note(*propagated, fmt::format("auto-shard: values in the middle lie as propagation lays them out: {:.3g} us in a run of every entry, "
                                "{:.3g} us as the search would have them", as_propagated, as_found));
  return propagated;
}

// What the search that made it counts as the memory of a rank.
double counted_memory(LoweredSet& set) {
  for (passes::PassReport& r : set.passes)
    if (auto memory = r.texts.find("memory"); memory != r.texts.end()) return std::stod(memory->second);
  return 0;
}

// A search for layouts counts the state alone: how much else these need is known when their memory is planned. Where that is too
// much the next search counts what lives at once as well, within as much less as its count was too low.
Result<LoweredSet> searched_within(int64_t most, const ir::Target& target, Begun from, const CompileOptions& options) {
  constexpr int kMostSearches = 4;
  auto& search_options = from.graph.front().options;
  RankBytes last;
  std::string why;
  for (int search = 1; search <= kMostSearches; ++search) {
    Result<LoweredSet> made = searched(target, from, options, most);
    if (!made.ok() && (search == 1 || made.errors()[0].code != Code::kOverBudget)) return made;
    if (!made.ok()) {
      why = made.errors()[0].message;
      break;
    }
    last = bytes_of(*made);
    if (last.all <= most) {
      if (search > 1)
        note(*made, fmt::format("auto-shard: {} searches until state and temporaries took {} bytes on a rank, of {} that are allowed",
                                search, last.all, most));
      return made;
    }
    search_options.erase("max-bytes");
    const double share = static_cast<double>(most) / static_cast<double>(last.all);
    search_options["max-memory"] = fmt::format("{:.0f}", counted_memory(*made) * share);
  }
  Diagnostic d = error(Code::kOverBudget,
                       "auto-shard: no layouts were found that need {} bytes on a rank; the last ones need {} ({} of state, {} of "
                       "temporaries)", most, last.all, last.state, last.all - last.state);
  if (!why.empty()) d.notes.push_back("by what the search counts: " + why);
  d.help = "raise --max-bytes, cut the batch with --microbatches, or give up speed for memory with --remat-bytes";
  return d;
}

// ---- What a search is held against: the batch along all ranks.

struct Plain {
  LoweredSet set;
  std::string options;  // that make it
  double us;
};

// The quickest stage of ZeRO with the batch along these axes; nothing where it cannot lie so, or none keeps the limits.
std::optional<Plain> quickest_along(const std::vector<std::string>& axes, const ir::Target& target, const ir::Module& module,
                                    const CompileOptions& options, int64_t most_state) {
  std::string data, shown;
  for (const std::string& axis : axes) data += (data.empty() ? "" : ";") + axis, shown += (shown.empty() ? "" : ",") + axis;
  CompileOptions plain = options;
  plain.pass_options["auto-shard"] = {{"search", "false"}};
  plain.passes.reproduce = {};  // nobody asked for this program
  auto& strategy = plain.pass_options["apply-strategy"];
  strategy.erase("open-batch");
  if (const std::string given = strategy["data-axes"]; !given.empty()) data += ";" + given;
  strategy["data-axes"] = data;
  std::optional<Plain> best;
  for (const char* zero : {"0", "1", "3"}) {
    strategy["zero"] = zero;
    Result<LoweredSet> made = lowered(target, module, plain);
    if (!made.ok() || bytes_of(*made).state > most_state) continue;
    const double us = predicted(*made);
    if (!best || us < best->us) best = {std::move(*made), fmt::format("--data-axes {} --zero {}", shown, zero), us};
  }
  return best;
}

// Ranks lie along these axes, and nothing of the program does. `flat` is the program before the search, with all that is said.
std::optional<Plain> data_parallel(const ir::Target& target, const ir::Module& module, const ir::Module& flat,
                                   const CompileOptions& options, int64_t most_state) {
  const ir::Mesh* mesh = flat.mesh();
  if (!mesh) return std::nullopt;
  if (auto strategy = options.pass_options.find("apply-strategy"); strategy != options.pass_options.end())
    if (auto said = strategy->second.find("data-axes"); said != strategy->second.end() && !said->second.empty())
      if (!mesh->temporal() || said->second != mesh->temporal()->name) return std::nullopt;  // how the batch lies is settled
  // All that are free, and where the batch cannot lie along them those that leave the fewest ranks aside.
  std::vector<std::pair<int64_t, std::vector<std::string>>> choices{{1, {}}};
  for (const ir::MeshAxis& a : mesh->axes) {
    if (a.temporal || a.size == 1 || lies_along(flat, a.name)) continue;
    for (size_t i = choices.size(); i-- > 0;) {
      auto [ranks, axes] = choices[i];
      axes.push_back(a.name);
      choices.emplace_back(ranks * a.size, std::move(axes));
    }
  }
  std::stable_sort(choices.begin(), choices.end(), [](const auto& x, const auto& y) { return x.first > y.first; });
  choices.pop_back();  // none of them
  for (const auto& [ranks, axes] : choices)
    if (std::optional<Plain> found = quickest_along(axes, target, module, options, most_state)) return found;
  return std::nullopt;
}

// How much less time the plain program has to take: times are predicted, and what was found needs less memory.
constexpr double kClearlyQuicker = 0.9;

// What is found, or what the plain program is where that is clearly quicker, or where nothing else keeps the limit.
Result<LoweredSet> quicker(Result<LoweredSet> found, std::optional<Plain> plain) {
  if (!plain || (found.ok() && predicted(*found) * kClearlyQuicker <= plain->us)) return found;
  const std::string other = found.ok() ? fmt::format("{:.3g} us with the layouts that were found", predicted(*found))
                                       : "of those that were found none keeps the limit of memory";
  const std::string why = fmt::format("data parallel, as with {}: {:.3g} us in a run of every entry, {}", plain->options, plain->us, other);
  note(plain->set, "auto-shard: " + why);
  for (passes::PassReport& r : plain->set.passes)
    if (r.pass == "auto-shard") r.texts["plan"] = passes::plan_of_layouts(*plain->set.sharded, why);
  return std::move(plain->set);
}

// The passes before the search run once, however many searches there are.
Result<LoweredSet> lowered_by_search(const ir::Target& target, const ir::Module& module, const CompileOptions& given) {
  CompileOptions options = given;
  const std::optional<int64_t> most = parse_bytes(options.max_bytes);
  auto& search = options.pass_options["auto-shard"];
  if (most) search["max-bytes"] = options.max_bytes;
  options.max_bytes.clear();  // a program that needs more is judged, and no error
  Begun from = NABLA_TRY(begun(module, options));
  Steps before = take_through(from.graph, "auto-shard");
  from.graph.insert(from.graph.begin(), std::move(before.back()));
  before.pop_back();
  (void)NABLA_TRY(run_steps(from, before, target, verifying(options)));
  Result<LoweredSet> found = most ? searched_within(*most, target, from, options) : searched(target, from, options, kNoLimit);
  if (search.count("values") || (!found.ok() && found.errors()[0].code != Code::kOverBudget)) return found;
  const int64_t most_state = search.count("max-bytes") ? parse_bytes(search["max-bytes"]).value_or(kNoLimit) : kNoLimit;
  return quicker(std::move(found), data_parallel(target, module, from.module, given, most_state));
}

}  // namespace

Result<LoweredSet> lower_set(const ir::Target& target, const ir::Module& module, const CompileOptions& options) {
  // Programs of several targets lie over the ranks alike, and so have one search.
  const bool searches = searches_layouts(options) && !has_several_targets(options) && module.stage < ir::Stage::kLocal;
  if (!searches) return lowered(target, module, options);
  Result<LoweredSet> made = lowered_by_search(target, module, options);
  if (made.ok() && options.deterministic)
    note(*made, "auto-shard: bits are those of these layouts: a search for another mesh may find others, with other parts of sums; "
                "--layout takes the plan of this one there");
  return made;
}

Result<LoweredSet> lower_set(const ir::Target& target, const ir::ProgramSet& set, const CompileOptions& options) {
  LoweredSet out{target};
  const passes::ManagerOptions manager = verifying(options);
  ir::ProgramSet local = set;
  Steps graph, lowering;
  Roles roles;
  for (ir::RankClass& c : local.classes) {
    roles.push_back(roles_in(c.module));
    graph.clear(), lowering.clear();
    split_steps(passes::default_steps(c.module.stage), options, NABLA_TRY(parse_sizes(options.specialise)), graph,
                lowering);
    auto run =
        NABLA_TRY(passes::run_passes(c.module, take_through(graph, "partition"), ops::all_ops(), target, manager));
    append(out.passes, std::move(run.reports));
    c.module = std::move(run.module);
  }
  (void)NABLA_TRY(lay_out(std::move(local), graph, lowering, options, roles, manager, out));
  return out;
}

}  // namespace nabla::driver
