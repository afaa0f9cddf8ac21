#include "frontend/python/native/spread.h"

#include <algorithm>

#include "cli/driver/spread.h"
#include "frontend/python/native/bundle.h"
#include "ir/ops/all_ops.h"
#include "passes/pass_manager.h"
#include "passes/strategy/layout_rules.h"
#include "passes/strategy/state_roles.h"
#include "runtime/base/option_name.h"

namespace nabla::python {

passes::Bytes bytes_of(const std::string& text, const std::string& option) {
  passes::Bytes out;
  if (!passes::option_text::read(text, out))
    throw Error(passes::option_text::refused(option, passes::option_text::domain_of(out, 0, 0), text));
  return out;
}

namespace {

void set_option(passes::PassOptions& options, const std::string& name, const std::string& text, const std::string& spelled) {
  const passes::PassOption* option = passes::find_option(name);
  NABLA_CHECK(option != nullptr, "no pass has an option `{}`", name);
  check(option->set(options, text, spelled));
}

}  // namespace

void set_spread(driver::CompileOptions& options, const Spread& spread) {
  const bool searched = spread.contains("auto-shard");
  if (spread.contains("mesh"))
    options.pass_options.propagate.idle_axes = searched ? passes::IdleAxes::kNote : passes::IdleAxes::kError;
  for (const auto& [name, value] : spread)
    if (name == "mesh")
      options.mesh = {value};
    else if (name == "microbatches")
      options.microbatches = std::stoll(value);
    else if (name == "max-comm-bytes")
      options.max_comm_bytes = bytes_of(value, spelled({name}));
    else if (name == "deterministic")
      options.deterministic = true;
    else
      set_option(options.pass_options, name == "auto-shard" ? "search" : name, value, spelled({name}));
}

// Passes refuse all other options themselves if there is no mesh.
void check_spread(const ir::Module& module, const driver::CompileOptions& options, const Spread& spread) {
  std::vector<std::string> given;
  for (const char* name : {"grad-sync", "reduce-dtype", "reshard-after-forward", "prefetch", "max-comm-bytes"})
    if (spread.contains(name)) given.push_back(name);
  check(driver::check_spread(module, options, given));
}

namespace {

// A module in which some parameters and results of a function are leaves of the state. A program lists leaves first, so the parameters
// and results are reordered. `params` and `results` map the new positions to the old ones.
struct AsProgram {
  ir::Module module;
  std::vector<size_t> params, results;
};

AsProgram as_program(const ir::Module& given, const std::vector<bool>& is_state, const std::vector<Update>& updates) {
  AsProgram out{given, {}, {}};
  ir::Entry& entry = out.module.entries[0];
  ir::Function f = *given.find(entry.function);
  std::vector<int> leaf(f.params.size(), -1);
  for (size_t p = 0; p < f.params.size(); ++p) {
    if (!is_state[p]) continue;
    ir::Value& v = f.values[f.params[p]];
    leaf[p] = static_cast<int>(out.module.state.size());
    out.module.state.push_back({entry.inputs[p], v.type, f.location, std::move(v.sharding)});
    entry.reads.push_back(leaf[p]), out.params.push_back(p);
  }
  for (const auto& [p, r] : updates) entry.writes.push_back(leaf[p]), out.results.push_back(r);
  auto add_rest = [](std::vector<size_t>& order, size_t count, std::vector<std::string>& names) {
    std::vector<std::string> rest;
    for (size_t i = 0; i < count; ++i)
      if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i), rest.push_back(names[i]);
    names = std::move(rest);
  };
  add_rest(out.params, f.params.size(), entry.inputs);
  add_rest(out.results, f.results.size(), entry.outputs);
  const ir::Function before = f;
  for (size_t i = 0; i < out.params.size(); ++i) f.params[i] = before.params[out.params[i]];
  for (size_t i = 0; i < out.results.size(); ++i) f.results[i] = before.results[out.results[i]];
  out.module.set(std::make_shared<const ir::Function>(std::move(f)));
  return out;
}

// Turns leaves back into parameters and results, which get the shardings of the leaves.
ir::Module as_function(const ir::Module& given, const AsProgram& was, const ir::Entry& entry) {
  ir::Module out = given;
  ir::Function f = *given.find(entry.function);
  const std::vector<int>&reads = given.entries[0].reads, &writes = given.entries[0].writes;
  for (size_t i = 0; i < reads.size(); ++i) f.values[f.params[i]].sharding = given.state[static_cast<size_t>(reads[i])].sharding;
  for (size_t i = 0; i < writes.size(); ++i)
    if (ir::Value& v = f.values[f.results[i]]; !v.sharding) v.sharding = given.state[static_cast<size_t>(writes[i])].sharding;
  const ir::Function before = f;
  for (size_t i = 0; i < was.params.size(); ++i) f.params[was.params[i]] = before.params[i];
  for (size_t i = 0; i < was.results.size(); ++i) f.results[was.results[i]] = before.results[i];
  out.set(std::make_shared<const ir::Function>(std::move(f)));
  out.entries = {entry}, out.state.clear();
  return out;
}

// Per parameter: is it treated as state?
std::vector<bool> state_of(const ir::Module& module, size_t arguments, const std::vector<Update>& updates, const std::string& layouts) {
  const size_t count = module.entries[0].inputs.size();
  std::vector<bool> out(count, true);
  const AsProgram all = as_program(module, out, {});
  const passes::StateRoles roles = value_or_throw(passes::roles_of_state(all.module, true));
  const std::vector<passes::LayoutRule> rules = value_or_throw(passes::parse_layout_rules(layouts));
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = module.entries[0].inputs[i];
    out[i] = roles.leaves[i].kind == passes::LeafRole::Kind::kParameter || i >= arguments;
    for (const passes::LayoutRule& rule : rules) out[i] = out[i] || (!rule.of_inputs && rule.pattern.matches(name));
  }
  for (const auto& [p, r] : updates) out[p] = true;
  return out;
}

}  // namespace

ir::Module with_strategy(const ir::Module& module, size_t arguments, const std::vector<Update>& updates, driver::CompileOptions& options,
                         std::vector<ir::Remark>& remarks) {
  const ir::Module spread = value_or_throw(driver::spread_over_mesh(module, options));
  options.mesh.clear(), options.microbatches = 0;
  if (options.pass_options.apply_strategy == passes::ApplyStrategyOptions()) return spread;
  // Later passes do not see the strategy. The exchange of gradients follows from it, so it is decided here.
  options.pass_options.partition.grad_sync = passes::grad_sync_of(options.pass_options);
  passes::PassOptions given;
  given.apply_strategy = std::exchange(options.pass_options.apply_strategy, {});
  given.deterministic = options.deterministic;
  AsProgram program = as_program(spread, state_of(spread, arguments, updates, given.apply_strategy.layouts), updates);
  auto made = value_or_throw(passes::run_passes(program.module, {{"apply-strategy", given}}, ops::all_ops(),
                                                value_or_throw(ir::find_target("cpu"))));
  for (ir::Remark& remark : passes::remarks_of(made.reports)) remarks.push_back(std::move(remark));
  return as_function(made.module, program, spread.entries[0]);
}

}  // namespace nabla::python
