#include "cli/driver/search_layouts.h"

#include <algorithm>
#include <limits>

#include "cli/driver/begun.h"
#include "cli/driver/spread.h"
#include "passes/auto_shard/auto_shard.h"
#include "runtime/base/option_name.h"
#include "runtime/base/text.h"

namespace nabla::driver {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

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

// A run of every entry, as much as it counts, on the rank that takes longest.
double predicted(const LoweredSet& set) {
  const ir::Module& module = set.planned.classes[0].module;
  double out = 0;
  for (size_t c = 0; c < set.bills.size(); ++c) {
    double all = 0;
    for (const auto& [name, us] : predicted_us(set, c)) {
      const ir::Entry* entry = module.find_entry(name);
      all += entry ? passes::weight_of(module, *entry) * us : us;
    }
    out = std::max(out, all);
  }
  return out;
}

// What a search says of the program that was taken.
void note(LoweredSet& of, ir::RemarkKind kind, const std::string& text) {
  const ir::Remark remark{kind, "auto-shard", "auto-shard: " + text};
  for (passes::PassReport& r : of.passes)
    if (r.pass == "auto-shard") r.remarks.push_back(remark);
  for (ir::Bill& bill : of.bills) bill.remarks.push_back(remark);
}

// A search's model knows layouts of values in the middle that propagation would not find, and not how later passes carry them
// out: both are made of the one search, and what takes less time is taken; where one of them alone keeps within `most` bytes, that
// one. The first of the steps that are left is the search.
Result<LoweredSet> searched(const ir::Target& target, Begun from, const CompileOptions& options, int64_t most) {
  const ir::Module whole = from.module;
  const Steps search = take_through(from.graph, "auto-shard");
  (void)NABLA_TRY(run_steps(from, search, target, verifying(options.passes)));
  Result<LoweredSet> found = finished(from, target, options);
  if (!found.ok() || search.back().options.auto_shard.values) return found;
  from.module = passes::with_stored_layouts_of(whole, from.module);
  Result<LoweredSet> propagated = finished(std::move(from), target, options);
  if (!propagated.ok()) return found;
  const double as_found = predicted(*found), as_propagated = predicted(*propagated);
  const bool fits = bytes_of(*found).all <= most, other_fits = bytes_of(*propagated).all <= most;
  if (fits != other_fits ? fits : as_found <= as_propagated) return found;
  note(*propagated, ir::RemarkKind::kPropagatedValues,
       fmt::format("values in the middle lie as propagation lays them out: {:.3g} us in a run of every entry, {:.3g} us as the search "
                   "would have them", as_propagated, as_found));
  return propagated;
}

// A search for layouts counts the state alone: how much else these need is known when their memory is planned. Where that is too
// much the next search counts what lives at once as well, within as much less as its count was too low.
Result<LoweredSet> searched_within(int64_t most, const ir::Target& target, Begun from, const CompileOptions& options) {
  constexpr int kMostSearches = 4;
  passes::AutoShardOptions& search_options = from.graph.front().options.auto_shard;
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
        note(*made, ir::RemarkKind::kRepeatedSearches,
             fmt::format("{} searches until state and temporaries took {} bytes on a rank, of {} that are allowed", search, last.all,
                         most));
      return made;
    }
    search_options.max_bytes.reset();
    const double share = static_cast<double>(most) / static_cast<double>(last.all);
    search_options.max_memory = {std::llround(passes::found_plan(made->passes)->memory_bytes * share)};
  }
  Diagnostic d = error(Code::kOverBudget,
                       "auto-shard: no layouts were found that need {} bytes on a rank; the last ones need {} ({} of state, {} of "
                       "temporaries)", most, last.all, last.state, last.all - last.state);
  if (!why.empty()) d.notes.push_back("by what the search counts: " + why);
  d.help = fmt::format("raise {}, cut the batch with {}, or give up speed for memory with {}", OptionName{"max-bytes"},
                       OptionName{"microbatches"}, OptionName{"remat-bytes"});
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
  std::string along;
  for (const std::string& axis : axes) along += (along.empty() ? "" : ",") + axis;
  CompileOptions plain = options;
  plain.pass_options.auto_shard = {};
  plain.passes.reproduce = {};  // nobody asked for this program
  passes::ApplyStrategyOptions& strategy = plain.pass_options.apply_strategy;
  strategy.open_batch = false;
  strategy.data_axes.insert(strategy.data_axes.begin(), axes.begin(), axes.end());
  std::optional<Plain> best;
  for (int64_t zero : {0, 1, 3}) {
    strategy.zero = zero;
    Result<LoweredSet> made = lowered(target, module, plain);
    if (!made.ok() || bytes_of(*made).state > most_state) continue;
    const double us = predicted(*made);
    if (!best || us < best->us) best = {std::move(*made), spelled_together({{"data-axes", along}, {"zero", std::to_string(zero)}}), us};
  }
  return best;
}

// Ranks lie along these axes, and nothing of the program does. `flat` is the program before the search, with all that is said.
std::optional<Plain> data_parallel(const ir::Target& target, const ir::Module& module, const ir::Module& flat,
                                   const CompileOptions& options, int64_t most_state) {
  const ir::Mesh* mesh = flat.mesh();
  if (!mesh) return std::nullopt;
  if (const passes::Names& said = options.pass_options.apply_strategy.data_axes; !said.empty())
    if (!mesh->temporal() || said != passes::Names{mesh->temporal()->name}) return std::nullopt;  // how the batch lies is settled
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
  if (!plain) return found;
  const double us = found.ok() ? predicted(*found) : 0;
  if (found.ok() && us * kClearlyQuicker <= plain->us) return found;
  const std::string other = found.ok() ? fmt::format("{:.3g} us with the layouts that were found", us)
                                       : "of those that were found none keeps the limit of memory";
  const std::string why = fmt::format("data parallel, as with {}: {:.3g} us in a run of every entry, {}", plain->options, plain->us, other);
  note(plain->set, ir::RemarkKind::kDataParallel, why);
  const std::string plan = passes::plan_of_layouts(*plain->set.sharded, why);
  for (passes::PassReport& r : plain->set.passes)
    if (r.pass == "auto-shard") r.found = passes::FoundPlan{plan};
  return std::move(plain->set);
}

// The passes before the search run once, however many searches there are.
Result<LoweredSet> quickest(const ir::Target& target, const ir::Module& module, const CompileOptions& given) {
  CompileOptions options = given;
  // A program that needs more is judged, and no error.
  const std::optional<passes::Bytes> most = std::exchange(options.max_bytes, std::nullopt);
  passes::AutoShardOptions& search = options.pass_options.auto_shard;
  if (most) search.max_bytes = most;
  Begun from = NABLA_TRY(begun(module, options));
  Steps before = take_through(from.graph, "auto-shard");
  from.graph.insert(from.graph.begin(), std::move(before.back()));
  before.pop_back();
  (void)NABLA_TRY(run_steps(from, before, target, verifying(options.passes)));
  Result<LoweredSet> found = most ? searched_within(most->count, target, from, options) : searched(target, from, options, kNoLimit);
  if (search.values || (!found.ok() && found.errors()[0].code != Code::kOverBudget)) return found;
  const int64_t most_state = search.max_bytes ? search.max_bytes->count : kNoLimit;
  return quicker(std::move(found), data_parallel(target, module, from.module, given, most_state));
}

}  // namespace

bool searches_layouts(const ir::Module& module, const CompileOptions& options) {
  return options.pass_options.auto_shard.search && options.target.find(',') == options.target.npos && module.stage < ir::Stage::kLocal;
}

Result<LoweredSet> lowered_by_search(const ir::Target& target, const ir::Module& module, const CompileOptions& options) {
  Result<LoweredSet> made = quickest(target, module, options);
  if (made.ok() && options.deterministic)
    note(*made, ir::RemarkKind::kSearchedBits,
         fmt::format("bits are those of these layouts: a search for another mesh may find others, with other parts of sums; {} takes the "
                     "plan of this one there", OptionName{"layout"}));
  return made;
}

}  // namespace nabla::driver
