#include "cli/driver/plan.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/driver/lower_set.h"
#include "cli/driver/report.h"
#include "cli/driver/report_text.h"
#include "passes/strategy/state_roles.h"
#include "runtime/base/option_error.h"
#include "runtime/base/option_name.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::ordered_json;

Result<std::vector<std::string>> axes_of(const ir::Module& m, const std::string& given) {
  if (m.mesh() && !given.empty())
    return option_error("leave it out: ranks lie along the axes of the mesh",
                        "{} names axes for a module without a mesh; this one has mesh {}", OptionName{"axes"}, m.mesh()->name);
  if (!m.mesh()) return ir::axis_list(spelled({"axes"}), given.empty() ? "dp" : given);
  std::vector<std::string> out;
  for (const ir::MeshAxis& a : m.mesh()->axes)
    if (!a.temporal) out.push_back(a.name);
  return out;
}

// Which of the axes those of the batch are.
Result<std::vector<size_t>> data_axes_of(const ir::Module& m, const std::vector<std::string>& axes, const passes::Names& data) {
  std::vector<size_t> out;
  for (const std::string& name : data) {
    auto at = std::find(axes.begin(), axes.end(), name);
    if (at == axes.end() && m.mesh() && m.mesh()->size_of(name) > 0)
      return option_error(fmt::format("axes of ranks are {}", fmt::join(axes, ", ")),
                          "{}: axis {} is temporal: no ranks lie along it", OptionName{"data-axes"}, name);
    if (at == axes.end()) {
      const std::string all = fmt::format("{}", fmt::join(axes, ", "));
      return option_error(fmt::format("axes of ranks are {}", all),
                          "{}: no axis of {} is `{}`{}", OptionName{"data-axes"}, all, name, did_you_mean(name, axes));
    }
    out.push_back(static_cast<size_t>(at - axes.begin()));
  }
  return out;
}

// All ways to write `ranks` as a product of so many factors.
std::vector<std::vector<int64_t>> products(int64_t ranks, size_t factors) {
  if (factors == 1) return {{ranks}};
  std::vector<std::vector<int64_t>> out;
  for (int64_t first = ranks; first >= 1; --first) {
    if (ranks % first != 0) continue;
    for (std::vector<int64_t>& rest : products(ranks / first, factors - 1)) {
      rest.insert(rest.begin(), first);
      out.push_back(std::move(rest));
    }
  }
  return out;
}

Result<std::string> entry_of(const ir::Module& m, const std::string& wanted) {
  std::vector<std::string> names;
  for (const ir::Entry& e : m.entries) names.push_back(e.name);
  if (names.empty()) return option_error("give it one: entry NAME calls @FUNCTION", "the module has no entry, and nothing to plan");
  if (!wanted.empty() && !m.find_entry(wanted))
    return option_error(fmt::format("its entries are {}", fmt::join(names, ", ")),
                        "{}: the module has no entry `{}`{}", OptionName{"entry"}, wanted, did_you_mean(wanted, names));
  if (!wanted.empty()) return wanted;
  if (m.stage == ir::Stage::kTraced) {
    passes::StateRoles roles = NABLA_TRY(passes::roles_of_state(m));
    for (size_t e = 0; e < names.size(); ++e)
      if (roles.trains[e]) return names[e];
  }
  if (names.size() == 1) return names[0];
  Diagnostic d = error(Code::kBadOption, "no entry computes gradients: {} says whose run is a step", OptionName{"entry"});
  d.help = fmt::format("there are {}", fmt::join(names, ", "));
  return d;
}

std::string mesh_text(const std::vector<std::string>& axes, const std::vector<int64_t>& sizes) {
  std::string out;
  for (size_t i = 0; i < axes.size(); ++i) out += fmt::format("{}{}={}", i ? "," : "", axes[i], sizes[i]);
  return out;
}

// The layouts of a sharded module, by which rows are compared.
std::string layouts_text(const ir::Module& sharded) {
  std::string out;
  auto add = [&](const ir::ShardingRef& s) { out += (s ? s->str() : "") + "\n"; };
  for (const ir::StateLeaf& leaf : sharded.state) add(leaf.sharding);
  for (const ir::FunctionPtr& f : sharded.functions)
    for (const ir::Value& v : f->values) add(v.sharding);
  return out;
}

// Marks rows that are the program of a row above them.
void mark_equal(std::vector<PlanRow>& rows) {
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t k = 0; k < i && rows[i].same_as.empty(); ++k)
      if (rows[i].refusal.empty() && rows[k].refusal.empty() && !rows[i].layouts.empty() && rows[i].mesh == rows[k].mesh &&
          rows[i].layouts == rows[k].layouts && rows[k].same_as.empty())
        rows[i].same_as = rows[k].stage();
}

Status fill(const ir::Module& module, const CompileOptions& options, const std::string& entry, PlanRow& row) {
  const CompiledModule made = NABLA_TRY(lower_module(module, options));
  row.state_bytes = made.bill.state_bytes, row.memory_bytes = made.bill.arena_bytes, row.host_bytes = made.bill.host_bytes;
  row.predicted_for = gpu_text(made.target);
  if (made.sharded) row.layouts = layouts_text(*made.sharded);
  if (const ir::EntryBill* e = made.bill.find(entry)) {
    row.sent_bytes = e->exchanges.sent_bytes, row.exchange_us = e->exchanges.us;
    row.transfer_us = std::max(e->to_device.us, e->to_host.us);
    row.compute_us = e->timeline.compute_us, row.flops = static_cast<double>(e->flops.bounds().max);
  }
  return Ok{};
}
// What a compile with the same limit finds; where nothing keeps it, what keeps it with the state alone.
Status fill_searched(const ir::Module& module, CompileOptions options, const std::string& entry, PlanRow& row) {
  Status made = fill(module, options, entry, row);
  if (made.ok() || !options.max_bytes || made.errors()[0].code != Code::kOverBudget) return made;
  options.pass_options.auto_shard.max_bytes = std::exchange(options.max_bytes, std::nullopt);
  return fill(module, options, entry, row);
}

passes::Names data_of(const PlanOptions& options, const std::vector<std::string>& axes) {
  bool has_dp = std::find(axes.begin(), axes.end(), "dp") != axes.end();
  return !options.data_axes.empty() ? options.data_axes : passes::Names{has_dp ? "dp" : axes[0]};
}

CompileOptions with_row(const ir::Module& module, const PlanOptions& options, const passes::Names& data, const PlanRow& row) {
  CompileOptions out = options.compile;
  passes::ApplyStrategyOptions& strategy = out.pass_options.apply_strategy;
  if (row.ranks == 1 && options.ranks > 1) {  // alone: nothing is laid out
    strategy = {.offload = strategy.offload};
    if (module.mesh()) out.mesh = {row.mesh};
    return out;
  }
  out.mesh = {row.mesh};
  if (row.searched) {
    out.pass_options.auto_shard.search = true;
    out.max_bytes = options.max_bytes;
    if (!options.data_axes.empty()) strategy.data_axes = data;  // as a compile with both; without, the search lays out the batch
  } else {
    strategy.data_axes = data, strategy.zero = row.zero;
  }
  return out;
}

}  // namespace

Result<CompileOptions> options_of(const ir::Module& module, const PlanOptions& options, const PlanRow& row) {
  const std::vector<std::string> axes = NABLA_TRY(axes_of(module, options.axes));
  return with_row(module, options, data_of(options, axes), row);
}

Order order_of(const std::vector<Timed>& rows, double factor) {
  Order out;
  for (const Timed& quick : rows)
    for (const Timed& slow : rows) {
      if (slow.predicted <= factor * quick.predicted) continue;
      ++out.pairs, out.confirmed += slow.measured > quick.measured;
    }
  return out;
}

Result<std::vector<PlanRow>> plan_of(const ir::Module& module, const PlanOptions& options,
                                     const std::function<void(size_t done, size_t all)>& progress) {
  const std::vector<std::string> axes = NABLA_TRY(axes_of(module, options.axes));
  const std::string entry = NABLA_TRY(entry_of(module, options.entry));
  if (axes.empty())
    return option_error("give the mesh an axis of ranks", "no ranks lie along mesh {}: its axis is temporal", module.mesh()->name);
  const passes::Names data = data_of(options, axes);
  const std::vector<size_t> at = NABLA_TRY(data_axes_of(module, axes, data));
  (void)NABLA_TRY(targets_of(options.compile, {NABLA_TRY(ir::find_target(options.compile.target))}));
  // Of a batch that is computed at once 2 is 1.
  const bool parts = options.compile.microbatches > 1 || (module.mesh() && module.mesh()->temporal());
  std::vector<PlanRow> out;
  for (const std::vector<int64_t>& sizes : products(options.ranks, axes.size())) {
    PlanRow row;
    row.mesh = mesh_text(axes, sizes), row.ranks = options.ranks;
    bool shares_batch = std::any_of(at.begin(), at.end(), [&](size_t i) { return sizes[i] > 1; });
    for (int zero : {0, 1, 2, 3})
      if (zero == 0 || (shares_batch && (zero != 2 || parts))) row.zero = zero, out.push_back(row);
    row.zero = 0, row.searched = true;
    if (options.ranks > 1) out.push_back(row);
  }
  if (options.ranks > 1) out.push_back({mesh_text(axes, std::vector<int64_t>(axes.size(), 1))});
  for (size_t i = 0; i < out.size(); ++i) {
    if (progress) progress(i, out.size());
    const CompileOptions how = with_row(module, options, data, out[i]);
    Status made = out[i].searched ? fill_searched(module, how, entry, out[i]) : fill(module, how, entry, out[i]);
    if (!made.ok()) out[i].refusal = made.errors()[0].message;
  }
  if (const PlanRow& alone = out.back(); options.ranks > 1 && alone.flops > 0)
    for (PlanRow& row : out) row.work = row.flops * static_cast<double>(row.ranks) / alone.flops;
  std::stable_sort(out.begin(), out.end() - (options.ranks > 1), [](const PlanRow& a, const PlanRow& b) {
    return std::make_pair(!a.refusal.empty(), a.step_us()) < std::make_pair(!b.refusal.empty(), b.step_us());
  });
  mark_equal(out);
  return out;
}

namespace {

// What a row has to say beside its numbers.
std::string remarks_of(const PlanRow& r, bool is_alone, bool is_large) {
  std::string out = is_alone ? "  one rank" : "";
  // Ranks repeat a little of what each needs; half again as much work is a share that was not shared.
  if (r.ranks > 1 && r.work >= static_cast<double>(r.ranks) * 0.99)
    out += r.sent_bytes == 0 ? "  nothing is shared: every rank does all the work" : "  every rank does all the work";
  else if (r.ranks > 1 && r.work >= 1.5)
    out += fmt::format("  the work is done {:.2g} times", r.work);
  if (!r.same_as.empty()) out += fmt::format("  same layouts as {}{}", r.same_as == "auto" ? "" : "zero ", r.same_as);
  if (r.host_bytes > 0)
    out += fmt::format("  {} of state in the host's memory, {} of copies", bytes_text(r.host_bytes), time_text(r.transfer_us));
  return out + (is_large ? fmt::format("  more than {}", OptionName{"max-bytes"}) : std::string());
}

// Each once, in the order of the rows, with the meshes and stages for which it holds.
std::string refusals_text(const std::vector<PlanRow>& rows) {
  std::vector<std::pair<std::string, std::string>> of;
  for (const PlanRow& r : rows) {
    if (r.refusal.empty()) continue;
    auto known = std::find_if(of.begin(), of.end(), [&](const auto& o) { return o.first == r.refusal; });
    if (known == of.end()) known = of.insert(of.end(), {r.refusal, ""});
    known->second += fmt::format("{}{} {}", known->second.empty() ? "" : "; ", r.mesh, r.searched ? "auto" : "zero " + r.stage());
  }
  std::string out;
  for (const auto& [refusal, which] : of) out += fmt::format("no program for {}:\n  {}\n", which, refusal);
  return out;
}

}  // namespace

std::string plan_text(const std::vector<PlanRow>& rows, int64_t max_bytes) {
  size_t width = 4;
  for (const PlanRow& r : rows) width = std::max(width, r.mesh.size());
  std::string out = fmt::format("{:<{}}  zero  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}\n", "mesh", width, "state", "memory", "sent",
                                "exchange", "compute", "step");
  bool compared = !rows.empty() && rows[0].ranks > 1;
  auto line = [&](const PlanRow& r, bool large) {
    out += fmt::format("{:<{}}  {:<4}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}{}\n", r.mesh, width, r.stage(),
                       bytes_text(r.state_bytes), bytes_text(r.memory_bytes), bytes_text(r.sent_bytes), time_text(r.exchange_us),
                       time_text(r.compute_us), time_text(r.step_us()), remarks_of(r, compared && r.ranks == 1, large));
  };
  auto is_large = [&](const PlanRow& r) { return r.memory_bytes > max_bytes; };
  for (bool large : {false, true})
    for (const PlanRow& r : rows)
      if (r.refusal.empty() && is_large(r) == large) line(r, large);
  auto predicted = std::find_if(rows.begin(), rows.end(), [](const PlanRow& r) { return !r.predicted_for.empty(); });
  if (predicted != rows.end()) out += predicted->predicted_for + "\n";
  return out + refusals_text(rows);
}

std::string plan_json(const std::vector<PlanRow>& rows) {
  Json out = Json::array();
  for (const PlanRow& r : rows) {
    Json row = {{"mesh", r.mesh}, {"ranks", r.ranks}, {"zero", r.zero}, {"auto", r.searched}};
    if (!r.refusal.empty())
      row["refusal"] = r.refusal;
    else
      row.update({{"state_bytes", r.state_bytes},
                  {"memory_bytes", r.memory_bytes},
                  {"host_bytes", r.host_bytes},
                  {"sent_bytes", r.sent_bytes},
                  {"work", r.work},
                  {"exchange_us", r.exchange_us},
                  {"transfer_us", r.transfer_us},
                  {"compute_us", r.compute_us},
                  {"step_us", r.step_us()}});
    if (!r.same_as.empty()) row["same_layouts_as"] = r.same_as;
    if (!r.predicted_for.empty()) row["predicted_for"] = r.predicted_for;
    out.push_back(std::move(row));
  }
  return out.dump(1);
}

}  // namespace nabla::driver
