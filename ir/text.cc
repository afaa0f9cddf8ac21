#include "ir/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/constants.h"
#include "ir/kernel_ir/kernel.h"
#include "ir/lexer.h"
#include "ir/op_def.h"
#include "ir/plan.h"
#include "ir/raw.h"

namespace nabla::ir {
namespace {

bool is_word(std::string_view s) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  auto inside = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '.'; };
  return !s.empty() && letter(s[0]) && std::all_of(s.begin(), s.end(), inside);
}

std::string word(std::string_view s) { return is_word(s) ? std::string(s) : quoted(s); }

template <class List, class F>
std::string joined(const List& list, F text) {
  std::string out;
  for (const auto& item : list) out += (out.empty() ? "" : ", ") + text(item);
  return out;
}

std::string type_text(const Type& type) {
  return type.is_residual() ? "residual<@" + word(type.residual_of) + ">" : type.str();
}

std::string axis_text(const AxisRef& a) {
  AxisRef named = a;
  named.name = word(a.name);
  return named.str();
}

std::string axes_text(const Axes& axes) { return "{" + joined(axes, axis_text) + "}"; }

std::string dim_text(const DimSharding& d) {
  if (!d.open && d.axes.size() == 1 && d.priority == 0) return axis_text(d.axes[0]);
  std::string out = joined(d.axes, axis_text);
  if (d.open) out += out.empty() ? "?" : ", ?";
  return "{" + out + "}" + (d.priority == 0 ? "" : fmt::format("p{}", d.priority));
}

// What is said of all dimensions together.
std::string rest_text(const Sharding& s) {
  return (s.replicated.empty() ? "" : " replicated " + axes_text(s.replicated)) + (s.allow_padding ? " allow_padding" : "");
}

std::string sharding_text(const Sharding& s) {
  return "<" + joined(s.dims, dim_text) + ">" + rest_text(s);
}

// f32[batch@dp,64]: a dimension that is open and has no axes is as one of which nothing is said.
std::string type_text(const Type& type, const ShardingRef& sharding) {
  if (!sharding || sharding->dims.size() != type.shape.size()) return type_text(type);
  std::string out;
  for (size_t d = 0; d < type.shape.size(); ++d) {
    const DimSharding& layout = sharding->dims[d];
    out += (d ? "," : "") + type.shape[d].str();
    if (!layout.open || !layout.axes.empty() || layout.priority != 0) out += "@" + dim_text(layout);
  }
  out = std::string(name_of(type.dtype)) + "[" + out + "]";
  return out + rest_text(*sharding);
}

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}

  std::string module(const Module& m) {
    std::string body;
    for (const SymbolRef& s : m.symbols) {
      body += fmt::format("symbol {} in [{}, {}]", s->name, s->min, s->max);
      if (s->multiple != 1) body += fmt::format(" multiple {}", s->multiple);
      if (!s->axis.empty()) body += " along " + word(s->axis);
      body += location(s->location) + "\n";
    }
    for (const auto& [relation, at] : m.constraints)
      body += fmt::format("require {}{}\n", relation.str(), location(at));
    for (const Mesh& mesh : m.meshes)
      body += fmt::format("mesh {} = {{{}}}{}\n", word(mesh.name), joined(mesh.axes, [](const MeshAxis& a) {
                            return fmt::format("{}={}{}", word(a.name), a.size, a.temporal ? " temporal" : "");
                          }), location(mesh.location));
    for (const StateLeaf& leaf : m.state)
      body += fmt::format("state {}: {}{}{}\n", word(leaf.name), type_text(leaf.type, leaf.sharding),
                          leaf.memory == MemorySpace::kDevice ? "" : fmt::format(" @{}", name_of(leaf.memory)),
                          location(leaf.location));
    for (const Entry& e : m.entries) body += entry(m, e);
    for (const FunctionPtr& f : m.functions) body += "\n" + function(*f);
    for (const auto& k : m.kernels) body += "\n" + kernel_ir::print(*k);
    if (m.plan)
      body += fmt::format("\n// plan: state {} bytes, arena {} bytes, constants {} bytes{}\n", m.plan->state_bytes,
                          m.plan->arena_bytes, m.plan->constants_bytes,
                          m.plan->host_bytes == 0 ? "" : fmt::format(", of the host {} bytes", m.plan->host_bytes));
    std::string head = fmt::format("nabla {} {}\n", kFormatVersion, name_of(m.stage));
    if (options_.constants && !options_.constants->section().empty())
      head += fmt::format("constants {}\n", quoted(options_.constants_name));
    return head + body;
  }

  std::string function(const Function& f) {
    name_values(f);
    std::string out =
        fmt::format("func @{}({}) ", word(f.name),
                    joined(f.params, [&](ValueId id) {
                      return names_[id] + ": " + type_text(f.type(id), f.values[id].sharding);
                    }));
    out += "-> (" + joined(f.results, [&](ValueId id) { return type_text(f.type(id)); }) + ")";
    out += location(f.location) + " {\n";
    for (const Node& node : f.nodes) out += "  " + print_node(f, node) + "\n";
    return out + fmt::format("  return{}{}\n}}\n", f.results.empty() ? "" : " ", values(f.results));
  }

  std::string attributes(const Node& node, bool types_alone = false) {
    std::string out;
    for (const auto& [name, value] : node.attrs) {
      if (is_default(*node.op, name, value)) continue;
      const Literal* literal = std::get_if<Literal>(&value);
      bool type_alone = types_alone && literal && literal->size_bytes() > 64 && !is_splat(*literal);
      out += (out.empty() ? "" : ", ") + name + "=";
      out += type_alone ? std::string(name_of(literal->dtype())) + shape_str(literal->shape()) : attribute(value);
    }
    return out;
  }

 private:
  void name_values(const Function& f) {
    names_.assign(f.values.size(), "");
    std::set<std::string_view> used;
    int next = 0;
    auto give = [&](ValueId id) {
      const std::string& own = f.values[id].name;
      bool fresh = !own.empty() && used.insert(own).second;
      names_[id] = fresh ? "%" + word(own) : fmt::format("%{}", next++);
    };
    for (ValueId id : f.params) give(id);
    for (const Node& node : f.nodes)
      for (ValueId id : node.results) give(id);
  }

  std::string values(const std::vector<ValueId>& ids) {
    return joined(ids, [&](ValueId id) { return names_[id]; });
  }

  std::string print_node(const Function& f, const Node& node) {
    std::string out = values(node.results);
    if (!out.empty()) out += " = ";
    out += node.op->name;
    if (node.op->version != 1) out += fmt::format(".v{}", node.op->version);
    out += "(" + values(node.operands) + ")";
    if (std::string attrs = attributes(node); !attrs.empty()) out += " {" + attrs + "}";
    if (!node.results.empty())
      out += " : " + joined(node.results, [&](ValueId id) { return type_text(f.type(id), f.values[id].sharding); });
    out += location(node.location);
    std::string said = options_.comment ? options_.comment(f, node) : "";
    return said.empty() ? out : out + "  // " + said;
  }

  std::string attribute(const Attr& attr) {
    struct Visitor {
      Printer& p;
      std::string operator()(bool v) const { return v ? "true" : "false"; }
      std::string operator()(int64_t v) const { return fmt::format("{}", v); }
      std::string operator()(double v) const { return float_text(v); }
      std::string operator()(const std::string& v) const { return quoted(v); }
      std::string operator()(DType v) const { return std::string(name_of(v)); }
      std::string operator()(const Ints& v) const {
        return "[" + joined(v, [](int64_t i) { return fmt::format("{}", i); }) + "]";
      }
      std::string operator()(const Shape& v) const {
        return "[" + joined(v, [](const Dim& d) { return d.str(); }) + "]";
      }
      std::string operator()(const FunctionRef& v) const { return "@" + word(v.name); }
      std::string operator()(const Literal& v) const { return p.literal(v); }
      std::string operator()(const FunctionRefs& v) const {
        return "[" + joined(v, [](const FunctionRef& f) { return "@" + word(f.name); }) + "]";
      }
      std::string operator()(const Axes& v) const { return axes_text(v); }
      std::string operator()(const Sharding& v) const { return sharding_text(v); }
      std::string operator()(const Shardings& v) const { return "[" + joined(v, sharding_text) + "]"; }
    };
    return std::visit(Visitor{*this}, attr);
  }

  std::string literal(const Literal& v) {
    std::string type = std::string(name_of(v.dtype())) + shape_str(v.shape());
    if (is_splat(v)) return fmt::format("{} {{splat {}}}", type, element_text(v, 0));
    if (options_.hash_constants && v.size_bytes() > kInlineBytes)
      return fmt::format("{} sha256({})", type, ConstantWriter().add(v).sha256);
    if (options_.constants && v.size_bytes() > kInlineBytes) {
      ExternalRef ref = options_.constants->add(v);
      return fmt::format("{} external(offset {}, bytes {}, sha256 \"{}\")", type, ref.offset, ref.bytes, ref.sha256);
    }
    std::string out = type + " {";
    for (int64_t i = 0; i < v.size(); ++i) out += (i ? ", " : "") + element_text(v, i);
    return out + "}";
  }

  std::string location(const LocationRef& l) {
    if (!options_.locations || !l) return "";
    std::string out = fmt::format(" loc({}:{}", quoted(l->file), l->line);
    if (l->column != 0) out += fmt::format(":{}", l->column);
    if (!l->function.empty() || !l->text.empty()) out += " " + quoted(l->function);
    if (!l->text.empty()) out += " " + quoted(l->text);
    return out + ")";
  }

  std::string entry(const Module& m, const Entry& e) {
    auto leaf = [&](int i) { return word(m.state[i].name); };
    std::string out = fmt::format("entry {} calls @{} {{\n", word(e.name), word(e.function));
    if (!e.reads.empty()) out += "  reads " + joined(e.reads, leaf) + "\n";
    if (!e.writes.empty()) out += "  writes " + joined(e.writes, leaf) + "\n";
    if (!e.inputs.empty()) out += "  inputs " + joined(e.inputs, word) + "\n";
    if (!e.outputs.empty()) out += "  outputs " + joined(e.outputs, word) + "\n";
    std::string sizes;
    for (const auto& [symbol, size] : e.sizes) sizes += fmt::format("{}{} = {}", sizes.empty() ? "" : ", ", word(symbol), size);
    if (!e.variant_of.empty()) out += fmt::format("  variant of {} at {}\n", word(e.variant_of), sizes);
    return out + "}\n";
  }

  const PrintOptions& options_;
  std::vector<std::string> names_;
};

}  // namespace

std::string print(const Module& module, const PrintOptions& options) { return Printer(options).module(module); }
std::string print(const Function& function) { return Printer(PrintOptions{}).function(function); }

std::string print_attrs(const Node& node) { return Printer(PrintOptions{}).attributes(node, true); }

}  // namespace nabla::ir
