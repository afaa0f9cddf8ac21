#include "passes/strategy/apply_strategy.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "ir/verifier.h"
#include "passes/shard/layout.h"
#include "passes/strategy/layout_rules.h"
#include "passes/strategy/state_roles.h"
#include "runtime/base/option_error.h"
#include "runtime/base/option_name.h"

namespace nabla::passes {
namespace {

using ir::Axes;
using ir::RemarkKind;
using ir::Sharding;
using Kind = LeafRole::Kind;

struct Strategy {
  Axes data, zero;
  int64_t level = 0;
  bool open_batch = false;
};

// "dp,fsdp"; a mesh has these axes.
Result<Axes> axes_option(const ir::Mesh& mesh, const OptionName& option, const Names& names) {
  Axes out;
  for (const std::string& name : names) {
    if (mesh.size_of(name) == 0) return error(Code::kBadSharding, "{}: {}", option, mesh.lacks(name));
    out.push_back({name});
  }
  return out;
}

std::string stage_of_zero(int64_t stage) { return spelled({"zero", std::to_string(stage)}); }

Diagnostic nothing_shared(const Names& axes) {
  const std::string names = fmt::format("{}", fmt::join(axes, ","));
  return option_error(fmt::format("say what is shared along them: {} 1, 2 or 3; or leave {} out", OptionName{"zero"},
                                  OptionName{"zero-axes"}),
                      "{} is given, and zero is 0", OptionName{"zero-axes", names});
}

Result<Strategy> strategy_of(const ir::Mesh& mesh, const PassContext& context) {
  Strategy out;
  const ApplyStrategyOptions& options = context.options.apply_strategy;
  out.data = NABLA_TRY(axes_option(mesh, {"data-axes"}, options.data_axes));
  out.level = options.zero;
  out.open_batch = options.open_batch;
  auto over_time = [&](const ir::AxisRef& a) { return is_temporal(mesh, {a}); };
  const Names& shared = options.zero_axes;
  auto ranks_along = [&] {
    std::string axes;
    for (const ir::MeshAxis& a : mesh.axes)
      if (!a.temporal) axes += (axes.empty() ? "" : ", ") + a.name;
    return axes.empty() ? std::string("the mesh has none along which ranks lie") : "ranks lie along " + axes;
  };
  if (!shared.empty() && out.level == 0) return nothing_shared(shared);
  out.zero = shared.empty() ? out.data : NABLA_TRY(axes_option(mesh, {"zero-axes"}, shared));
  if (!shared.empty() && is_temporal(mesh, out.zero))
    return option_error(fmt::format("leave it out of {}: {}", OptionName{"zero-axes"}, ranks_along()),
                        "{}: {} is temporal: no ranks lie along it that could share state", OptionName{"zero-axes"}, mesh.temporal()->name);
  for (const ir::AxisRef& a : out.zero)
    if (std::find(out.data.begin(), out.data.end(), a) == out.data.end())
      return option_error(fmt::format("name some of these, or add it to {}", OptionName{"data-axes"}),
                          "{}: {} is no data axis; those are {}", OptionName{"zero-axes"}, a.name, ir::str(out.data));
  if (shared.empty()) std::erase_if(out.zero, over_time);
  if (out.level > 0 && out.zero.empty())
    return option_error(fmt::format("add one to {}: {}", OptionName{"data-axes"}, ranks_along()),
                        "{} needs a data axis along which ranks lie, and {} is none", stage_of_zero(out.level), ir::str(out.data));
  return out;
}

class StrategyPass {
 public:
  StrategyPass(const ir::Module& m, const Strategy& s, PassContext& context)
      : out_(m), mesh_(*m.mesh()), s_(s), context_(context) {}

  Result<ir::Module> run() {
    const StateRoles found = NABLA_TRY(roles_of_state(out_));
    const std::vector<LeafRole>& roles = found.leaves;
    auto is_parameter = [](const LeafRole& r) { return r.kind == Kind::kParameter; };
    if (s_.level > 0 && std::none_of(roles.begin(), roles.end(), is_parameter)) {
      Diagnostic d = error(Code::kBadOption, "{}: no entry differentiates with respect to the state", stage_of_zero(s_.level));
      d.help = "parameters are leaves of the state with respect to which grad or value_and_grad is taken";
      return d;
    }
    for (size_t i = 0; i < roles.size(); ++i) {
      if (roles[i].kind == Kind::kOther) continue;
      ir::StateLeaf& leaf = out_.state[i];
      const ir::ShardingRef own = leaf.sharding;
      bool shared = s_.level >= (roles[i].kind == Kind::kParameter ? 3 : 1);
      size_t before = whole_.size();
      bool layers = s_.level == 3 && roles[i].stacked;
      leaf.sharding = std::make_shared<const Sharding>(after_batch(shared ? zeroed(leaf, own, layers) : apart(leaf, own)));
      if (roles[i].kind == Kind::kOptimizer && leaf.type.rank() > 0) remembers_ = true;
      if (shared && leaf.type.rank() > 0 && whole_.size() == before) ++(roles[i].kind == Kind::kParameter ? parameters_ : slots_);
    }
    for (size_t e = 0; e < found.trains.size(); ++e) lay_out_inputs(out_.entries[e], found.trains[e]);
    if (shards(mesh_, s_.data) > 1) (void)NABLA_TRY(check_cut(found.trains));
    if (s_.level > 0) say_what_is_shared();
    return std::move(out_);
  }

 private:
  // Ranks, or microbatches, that share nothing of the batch were asked for in vain. Of entries that train, if there are any.
  Status check_cut(const std::vector<bool>& trains) const {
    bool some = std::find(trains.begin(), trains.end(), true) != trains.end(), time = is_temporal(mesh_, s_.data);
    if (time && !some)
      return option_error("take grad or value_and_grad in an entry, or leave the microbatches out",
                          "{} microbatches: no entry computes gradients that they could add up", mesh_.temporal()->size);
    std::string inputs;
    for (size_t e = 0; e < trains.size(); ++e) {
      const ir::Entry& entry = out_.entries[e];
      const ir::Function& f = *out_.find(entry.function);
      for (size_t i = entry.reads.size(); trains[e] == some && i < f.params.size(); ++i) {
        const ir::Value& v = f.values[f.params[i]];
        // A layout that the program states is its own affair, but for microbatches that were asked for beside it.
        if (v.sharding && (!time || is_temporal(mesh_, ir::axes_of(*v.sharding)))) return Ok{};
        if (v.type.rank() > 0)
          inputs += fmt::format("{}{} of entry {}, {}{}", inputs.empty() ? "" : "; ", entry.inputs[i - entry.reads.size()], entry.name,
                                v.type.str(), v.sharding ? " laid out as " + v.sharding->str() : "");
      }
    }
    if (inputs.empty() && !time) return Ok{};
    std::string what = time ? fmt::format("{} microbatches", mesh_.temporal()->size) : spelled({"data-axes"});
    Diagnostic d = error(Code::kBadOption, "{}: no input is cut along {}, in {} parts ({})", what, ir::str(s_.data),
                         shards(mesh_, s_.data), inputs.empty() ? "there are none" : inputs);
    d.help = "the parts have to divide the first dimension of an input that the program does not lay out itself, or leaves open (`?`)";
    return d;
  }
  static Sharding open_like(const ir::Type& type, const ir::ShardingRef& own) {
    return own ? *own : open_sharding(type.rank());
  }
  bool uses(const Sharding& s, const Axes& axes) const { return overlap(mesh_, ir::axes_of(s), axes); }
  bool fits(const Sharding& s, const ir::Type& type) const { return ir::check_sharding(mesh_, s, type, "").ok(); }

  // What lies along data axes follows the batch: values in the middle lie as it does. Data axes before others cannot wait: what
  // follows first would lie along the others alone, and no axis is put before those.
  Sharding after_batch(Sharding s) const {
    auto of_batch = [&](const ir::AxisRef& a) { return overlap(mesh_, {a}, s_.data); };
    for (ir::DimSharding& dim : s.dims)
      if (!dim.axes.empty() && of_batch(dim.axes.back())) dim.priority = std::max(dim.priority, 1);
    return s;
  }
  // The same on every rank along the data axes.
  Sharding apart(const ir::StateLeaf& leaf, const ir::ShardingRef& own) const {
    Sharding out = open_like(leaf.type, own);
    for (const ir::AxisRef& a : s_.data) {
      Sharding more = out;
      more.replicated.push_back(a);
      if (!uses(out, {a}) && !is_temporal(mesh_, {a})) out = more;
    }
    return out;
  }
  // Layers that a loop runs, and that are gathered, are cut in themselves where that is possible: a trip gathers its own layer.
  Sharding zeroed(const ir::StateLeaf& leaf, const ir::ShardingRef& own, bool stacked) {
    Sharding plain = open_like(leaf.type, own);
    if (uses(plain, s_.zero)) return plain;  // the program says how
    // One rank cuts what several could; of deterministic programs all numbers of ranks cut the same.
    const bool alone = shards(mesh_, s_.zero) == 1, granules = alone || context_.options.deterministic;
    auto along = [&](size_t d) {
      Sharding out = plain;
      out.dims[d].axes.insert(out.dims[d].axes.end(), s_.zero.begin(), s_.zero.end());
      return out;
    };
    // Shards are even, also where the layout may be padded along its own axes.
    auto can_be_cut = [&](size_t d) {
      const Sharding cut = along(d);
      return fits(cut, leaf.type) && divides(mesh_, cut.dims[d].axes, leaf.type.shape[d]) &&
             (!granules || has_granules(leaf.type.shape[d]));
    };
    for (bool taken : {false, true})
      for (size_t d = stacked; d < plain.dims.size(); ++d)
        if (plain.dims[d].axes.empty() != taken && can_be_cut(d)) return along(d);
    if (stacked && can_be_cut(0) && !alone) return layers_.push_back(leaf.name), along(0);
    plain.allow_padding = false;  // remarks speak of axes alone
    if (leaf.type.rank() > 0 && !alone) whole_.push_back({fmt::format("{}: {}", leaf.name, leaf.type.str()), plain});
    return apart(leaf, own);
  }
  void say_what_is_shared() {
    if (shards(mesh_, s_.zero) == 1)
      return say(RemarkKind::kZeroShares, fmt::format("one rank lies along {}, which has all of the state", ir::str(s_.zero)));
    if (s_.level < 3 && !remembers_)
      return say(RemarkKind::kZeroShares,
                 "the optimizer has no state that ranks could share: they keep gradients whole, and exchange them as with zero=0");
    std::string what = s_.level == 3 ? fmt::format("{} parameter{} and ", parameters_, parameters_ == 1 ? "" : "s") : "";
    say(RemarkKind::kZeroShares, fmt::format("along {}, {} ranks, lie {}{} lea{} of the optimizer's state", ir::str(s_.zero),
                                       shards(mesh_, s_.zero), what, slots_, slots_ == 1 ? "f" : "ves"));
    for (const std::string& leaf : layers_)
      say(RemarkKind::kZeroLayers, fmt::format("{} is cut into layers, as {} ranks divide none of a layer's dimensions: all layers are "
                                         "gathered before the loop that runs them", leaf, shards(mesh_, s_.zero)));
    const std::string parts = context_.options.deterministic ? fmt::format("the {} parts of deterministic sums", kGranules)
                                                         : fmt::format("{} ranks", shards(mesh_, s_.zero));
    for (const auto& [leaf, own] : whole_)
      if (ir::axes_of(own).empty())
        say(RemarkKind::kZeroWhole, fmt::format("{} stays whole, as {} divide none of its dimensions", leaf, parts));
      else
        say(RemarkKind::kZeroPart,
            fmt::format("{} stays cut as {} alone, as {} divide none of the dimensions of a part", leaf, own.str(), parts));
  }
  void say(RemarkKind kind, const std::string& what) {
    context_.remarks.push_back({kind, "zero", fmt::format("{}: {}", stage_of_zero(s_.level), what)});
  }

  // The data axes along which an input may still be cut. A layout that names some is the program's own affair, but for an open first
  // dimension that begins with them.
  Axes left_for(const Sharding& said, const Axes& axes) const {
    if (!uses(said, axes)) return axes;
    const ir::DimSharding& first = said.dims[0];
    const size_t begun = first.axes.size();
    const bool goes_on = first.open && begun < axes.size() && std::equal(first.axes.begin(), first.axes.end(), axes.begin());
    if (!goes_on || axes_of(said).size() != begun) return {};
    return {axes.begin() + static_cast<std::ptrdiff_t>(begun), axes.end()};
  }
  // Microbatches are there to add up gradients.
  void lay_out_inputs(const ir::Entry& e, bool trains) {
    ir::Function f = *out_.find(e.function);
    Axes axes = s_.data;
    if (!trains) std::erase_if(axes, [&](const ir::AxisRef& a) { return is_temporal(mesh_, {a}); });
    bool changed = false;
    for (size_t i = e.reads.size(); i < f.params.size(); ++i) {
      const std::string& name = e.inputs[i - e.reads.size()];
      ir::Value& v = f.values[f.params[i]];
      bool key = v.type == ir::Type(DType::kU32, {2});
      if (v.type.rank() == 0 || key || axes.empty()) continue;
      Sharding batch = open_like(v.type, v.sharding);
      const Axes more = left_for(batch, axes);
      if (more.empty()) continue;
      if (v.sharding && !batch.dims[0].open) {
        context_.remarks.push_back({RemarkKind::kInputClosed, name,
                                    fmt::format("input {} of entry {}, {}, is not cut along {}: it lies as {}, which leaves its first "
                                                "dimension not open", name, e.name, v.type.str(), ir::str(axes), v.sharding->str())});
        continue;
      }
      Axes& first = batch.dims[0].axes;
      first.insert(first.end(), more.begin(), more.end());
      batch.dims[0].open = s_.open_batch;
      const ir::Dim& size = v.type.shape[0];
      int64_t parts = shards(mesh_, first);
      bool alone = parts == 1 && !size.is_static() && !has_granules(size);
      if (!fits(batch, v.type))
        context_.remarks.push_back({RemarkKind::kInputIndivisible, name,
                                    fmt::format("input {} of entry {}, {}, is not cut along {}: {} parts do not divide {}{}", name, e.name,
                                                v.type.str(), ir::str(axes), parts, size.str(),
                                                size.is_static() ? "" : ", whose symbol has no such multiple")});
      else if (!alone)
        v.sharding = std::make_shared<const Sharding>(std::move(batch)), changed = true;
    }
    if (changed) out_.set(std::make_shared<const ir::Function>(std::move(f)));
  }

  ir::Module out_;
  const ir::Mesh mesh_;
  const Strategy& s_;
  PassContext& context_;
  std::vector<std::pair<std::string, Sharding>> whole_;  // leaves of which no dimension can be cut, or cut further, and how they lie
  std::vector<std::string> layers_;  // leaves of which a rank has whole layers
  int64_t parameters_ = 0, slots_ = 0;  // that are shared
  bool remembers_ = false;  // an optimizer has state, but for counters
};

// Which leaves live in the host's memory, beside those of which the program says it.
Status offload(ir::Module& module, PassContext& context) {
  const Offload which = context.options.apply_strategy.offload;
  if (which == Offload::kNone) return Ok{};
  const bool all = which == Offload::kAll;
  const std::string what = option_text::print(which);
  std::vector<LeafRole> roles(module.state.size());
  if (!all && module.stage != ir::Stage::kTraced)
    return error(Code::kWrongStage, "{}: at stage {} gradients are no calls any more, which tell the optimizer's leaves; {} needs none",
                 OptionName{"offload", what}, ir::name_of(module.stage), OptionName{"offload", "all"});
  if (!all) roles = NABLA_TRY(roles_of_state(module)).leaves;
  size_t leaves = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < roles.size(); ++i) {
    if (!all && roles[i].kind != (which == Offload::kOptimizer ? Kind::kOptimizer : Kind::kParameter)) continue;
    module.state[i].memory = ir::MemorySpace::kHost;
    ++leaves, bytes += module.state[i].type.bytes().value();
  }
  if (leaves == 0) {
    Diagnostic d = error(Code::kBadOption, "{}: the program has no {}", OptionName{"offload", what},
                         all                             ? "state"
                         : which == Offload::kOptimizer ? "state whose new values follow from gradients"
                                         : "state with respect to which an entry differentiates");
    d.help = "leaves of other kinds live in the host's memory where the program says so of them";
    return d;
  }
  context.remarks.push_back({RemarkKind::kOffload, "offload",
                             fmt::format("{}: {} {} of the state, {} bytes, in the host's memory", OptionName{"offload", what}, leaves,
                                         leaves == 1 ? "leaf" : "leaves", bytes),
                             bytes});
  return Ok{};
}

// What an optimizer remembers of a parameter lies as that does: its update needs both. Gradients, which tell which leaves these are,
// are calls at the first stage alone.
Status lay_out_slots(ir::Module& module) {
  auto laid_out = [](const ir::StateLeaf& leaf) { return leaf.sharding != nullptr; };
  if (module.stage != ir::Stage::kTraced || std::none_of(module.state.begin(), module.state.end(), laid_out)) return Ok{};
  const StateRoles roles = NABLA_TRY(roles_of_state(module));
  for (size_t i = 0; i < module.state.size(); ++i)
    if (const int parameter = roles.leaves[i].parameter; parameter >= 0 && !module.state[i].sharding)
      module.state[i].sharding = module.state[static_cast<size_t>(parameter)].sharding;
  return Ok{};
}

std::string without_mesh() {
  return "say how many ranks there are, and along which axes the batch lies: " + spelled_together({{"mesh", "dp=4"}, {"data-axes", "dp"}});
}

Diagnostic no_data_axes(const ir::Module& module, int64_t zero) {
  Diagnostic d = error(Code::kBadOption, "{} needs {}: the axes of the mesh along which the batch lies", stage_of_zero(zero),
                       OptionName{"data-axes"});
  d.help = without_mesh();
  if (!module.mesh()) return d;
  d.help = fmt::format("say which they are, such as {}: the mesh has {}", OptionName{"data-axes", module.mesh()->axes[0].name},
                       module.mesh()->sizes());
  return d;
}

}  // namespace

Result<ir::Module> apply_strategy(const ir::Module& given, PassContext& context) {
  const std::vector<LayoutRule> rules = NABLA_TRY(parse_layout_rules(context.options.apply_strategy.layouts));
  ir::Module module = given;
  (void)NABLA_TRY(offload(module, context));
  if (!rules.empty() && !module.mesh())
    return option_error(fmt::format("give one: {}", OptionName{"mesh", "dp=2,tp=4"}), "layout `{}`: the module has no mesh", rules[0].text);
  if (!rules.empty()) (void)NABLA_TRY(apply_layout_rules(module, rules));
  (void)NABLA_TRY(lay_out_slots(module));
  const ApplyStrategyOptions& options = context.options.apply_strategy;
  if (options.data_axes.empty()) {
    if (options.zero > 0) return no_data_axes(module, options.zero);
    if (!options.zero_axes.empty()) return nothing_shared(options.zero_axes);
    return module;
  }
  const std::string data_axes = fmt::format("{}", fmt::join(options.data_axes, ","));
  if (module.stage != ir::Stage::kTraced)
    return error(Code::kWrongStage, "{}: at stage {} gradients are no calls any more; layouts are said in the program",
                 OptionName{"data-axes", data_axes}, ir::name_of(module.stage));
  if (!module.mesh()) return option_error(without_mesh(), "{}: the module has no mesh", OptionName{"data-axes", data_axes});
  const Strategy strategy = NABLA_TRY(strategy_of(*module.mesh(), context));
  return StrategyPass(module, strategy, context).run();
}

}  // namespace nabla::passes
