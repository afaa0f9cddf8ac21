#include "passes/auto_shard/plan_text.h"

#include <algorithm>
#include <map>

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
    if (e.node) by = e.node->op->name;
    if (e.node && e.node->location) by += fmt::format(" at {}:{}", e.node->location->file, e.node->location->line);
    times[fmt::format("# {} along {} of {} for {}", name_of(e.kind), ir::str(e.axes), counted(e.part), by)] += e.times;
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

bool has_words(const ir::Sharding& s) {
  ir::Axes axes = ir::axes_of(s);
  return !s.allow_padding && std::all_of(axes.begin(), axes.end(), [](const ir::AxisRef& a) { return a.size == 0; });
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
  const ir::Mesh& mesh = *laid_out.mesh();
  std::string axes;
  for (const ir::MeshAxis& a : mesh.axes) axes += fmt::format("{}{}={}", axes.empty() ? "" : ", ", a.name, a.size);
  double all = 0;
  for (const ir::StateLeaf& leaf : laid_out.state) all += static_cast<double>(leaf.type.bytes().bounds().max);
  std::string out = fmt::format("# mesh {} = {{{}}}, {} ranks\n", mesh.name, axes, mesh.ranks());
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
      name = "input " + escaped(e.name + "." + e.inputs[f.stored->input]);
      layout = function.values[static_cast<size_t>(function.params[e.reads.size() + f.stored->input])].sharding;
    }
    ir::Sharding words = layout ? *layout : whole_sharding(static_cast<int>(f.layout.dims.size()));
    std::string line = f.is_free || !f.stored->said ? fmt::format("{}={}  # {}\n", name, words_of(words), reason_of(f))
                                            : fmt::format("# {} stays as it is said: {}\n", name, words.str());
    if (!has_words(words)) line = "# " + line;
    (is_leaf ? leaves : inputs).push_back(std::move(line));
  }
  std::sort(leaves.begin(), leaves.end()), std::sort(inputs.begin(), inputs.end());
  for (const auto* lines : {&leaves, &inputs})
    for (const std::string& line : *lines) out += line;
  return out;
}

}  // namespace nabla::passes
