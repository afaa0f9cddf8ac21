#include "passes/auto_shard/plan_text.h"

#include <algorithm>
#include <map>

#include "passes/auto_shard/auto_shard.h"

namespace nabla::passes {
namespace {

// A name as a regular expression that matches it alone.
std::string escaped(const std::string& name) {
  std::string out;
  for (char c : name) {
    if (std::string_view(".[](){}*+?^$|\\").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string number(double us) { return fmt::format("{:.3g} us", us); }
std::string counted(double bytes) { return fmt::format("{:.0f} bytes", bytes); }

std::string words_of_layout(const Layout& layout) {
  ir::Sharding out;
  for (const ir::Axes& axes : layout.dims) out.dims.push_back({axes});
  return words_of(out);
}

std::string exchanges_of(const FoundLayouts& found) {
  std::map<std::string, double> times;
  for (const ExchangeOfNode& e : found.exchanges) {
    std::string by = "the new state";
    if (e.node) by = e.node->op->name + at_place(e.node->location);
    const char* collective = collective_def(*collective_of(e.kind)).name;
    times[fmt::format("# {} along {} of {} for {}", collective, ir::str(e.axes), counted(e.part), by)] += e.times;
  }
  std::string out;
  for (const auto& [what, count] : times) out += count == 1 ? what + "\n" : fmt::format("{}, {:.0f} times\n", what, count);
  return out;
}

std::string reason_of(const FoundLayout& f) {
  std::string out = f.stored->leaf >= 0 ? counted(f.bytes) + " on a rank" : "an input";
  if (f.next_us == kNever) return out + "; nothing else fits";
  if (f.next_us < 1e-2) return fmt::format("{}; `{}` costs the same", out, words_of_layout(f.next));
  return fmt::format("{}; `{}` costs {} more", out, words_of_layout(f.next), number(f.next_us));
}

std::string mesh_line(const ir::Mesh& mesh) {
  return fmt::format("# mesh {} = {{{}}}, {} ranks\n", mesh.name, mesh.sizes(), mesh.ranks());
}

std::string sorted(std::vector<std::string> leaves, std::vector<std::string> inputs) {
  std::string out;
  for (auto* lines : {&leaves, &inputs}) {
    std::sort(lines->begin(), lines->end());
    for (const std::string& line : *lines) out += line;
  }
  return out;
}

std::string name_of_input(const ir::Entry& e, size_t i) { return "input " + escaped(e.name + "." + e.inputs[i]); }

bool has_words(const ir::Sharding& s) {
  ir::Axes axes = ir::axes_of(s);
  return !s.allow_padding && std::all_of(axes.begin(), axes.end(), [](const ir::AxisRef& a) { return a.size == 0; });
}
// Would a rule say all of it, and leave nothing open?
bool is_in_words(const ir::Sharding& s) {
  bool open = std::any_of(s.dims.begin(), s.dims.end(), [](const ir::DimSharding& d) { return d.open; });
  return has_words(s) && s.replicated.empty() && !open;
}

// A rule, and why; a comment where words cannot say the layout.
std::string rule_line(const std::string& name, const ir::Sharding& s, const std::string& reason) {
  return fmt::format("{}{}={}  # {}\n", has_words(s) ? "" : "# ", name, words_of(s), reason);
}

}  // namespace

std::string words_of(const ir::Sharding& layout) {
  std::string out;
  for (size_t d = 0; d < layout.dims.size(); ++d) {
    if (d > 0) out += ",";
    for (size_t a = 0; a < layout.dims[d].axes.size(); ++a) out += (a > 0 ? "+" : "") + layout.dims[d].axes[a].str();
    if (layout.dims[d].priority > 0) out += fmt::format(" p{}", layout.dims[d].priority);
  }
  return out;
}

std::string plan_text(const ir::Module& laid_out, const FoundLayouts& found) {
  double all = 0;
  for (const ir::StateLeaf& leaf : laid_out.state) all += static_cast<double>(leaf.type.bytes().bounds().max);
  std::string out = mesh_line(*laid_out.mesh());
  out += fmt::format("# a run of every entry: exchanges {}, products {}; {} of state on a rank, of {}\n", number(found.exchange_us),
                     number(found.product_us), counted(found.state_bytes), counted(all));
  out += exchanges_of(found);
  std::vector<std::string> leaves, inputs;
  for (const FoundLayout& f : found.stored) {
    bool is_leaf = f.stored->leaf >= 0;
    if ((!is_leaf && f.stored->entry < 0) || f.layout.dims.empty()) continue;
    std::string name;
    ir::ShardingRef layout;
    if (is_leaf) {
      const ir::StateLeaf& leaf = laid_out.state[static_cast<size_t>(f.stored->leaf)];
      name = escaped(leaf.name), layout = leaf.sharding;
    } else {
      const ir::Entry& e = laid_out.entries[static_cast<size_t>(f.stored->entry)];
      const ir::Function& function = *laid_out.find(e.function);
      name = name_of_input(e, f.stored->input);
      layout = function.values[static_cast<size_t>(function.params[e.reads.size() + f.stored->input])].sharding;
    }
    ir::Sharding words = layout ? *layout : whole_sharding(static_cast<int>(f.layout.dims.size()));
    const bool chosen = f.is_free || !f.stored->said;
    // What options said comes back with the plan.
    const bool rule = chosen || is_in_words(*f.stored->said);
    (is_leaf ? leaves : inputs).push_back(!rule    ? fmt::format("# {} stays as it is said: {}\n", name, words.str())
                                          : chosen ? rule_line(name, words, reason_of(f))
                                                   : rule_line(name, *f.stored->said, "as it is said"));
  }
  return out + sorted(std::move(leaves), std::move(inputs));
}

std::string plan_of_layouts(const ir::Module& laid_out, const std::string& why) {
  std::vector<std::string> leaves, inputs;
  for (const ir::StateLeaf& leaf : laid_out.state) {
    if (leaf.type.rank() == 0) continue;
    ir::Sharding s = leaf.sharding ? *leaf.sharding : whole_sharding(leaf.type.rank());
    const ir::Type part = local_type(*laid_out.mesh(), leaf.type, layout_of(leaf.sharding, leaf.type.rank()));
    // Values in the middle lie as the batch does, and no leaf decides about them.
    for (ir::DimSharding& dim : s.dims)
      if (!dim.axes.empty()) dim.priority = std::max(dim.priority, 1);
    leaves.push_back(rule_line(escaped(leaf.name), s, counted(static_cast<double>(part.bytes().bounds().max)) + " on a rank"));
  }
  for (const ir::Entry& e : laid_out.entries) {
    const ir::Function& f = *laid_out.find(e.function);
    for (size_t i = 0; i < e.inputs.size(); ++i) {
      const ir::Value& v = f.values[static_cast<size_t>(f.params[e.reads.size() + i])];
      if (v.type.rank() == 0) continue;
      inputs.push_back(rule_line(name_of_input(e, i), v.sharding ? *v.sharding : whole_sharding(v.type.rank()), "an input"));
    }
  }
  return mesh_line(*laid_out.mesh()) + "# " + why + "\n" + sorted(std::move(leaves), std::move(inputs));
}

}  // namespace nabla::passes
