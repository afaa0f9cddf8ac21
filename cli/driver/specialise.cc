#include "cli/driver/specialise.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "ir/op_def.h"

namespace nabla::driver {
namespace {

constexpr size_t kMostVariants = 64;

using Values = std::map<std::string, int64_t>;

ir::Shape resolve(const ir::Shape& shape, const Values& values) {
  ir::Shape out;
  for (const ir::Dim& d : shape)
    out.push_back(d.substitute([&](const ir::SymbolRef& s) {
      auto it = values.find(s->name);
      return it == values.end() ? ir::Dim::symbol(s) : ir::Dim(it->second);
    }));
  return out;
}

// Copies of a function, and of what its loops and branches run, at chosen sizes.
class Copier {
 public:
  Copier(ir::Module& module, const Values& values, std::string suffix)
      : module_(module), values_(values), suffix_(std::move(suffix)) {}

  /// The copy's name.
  std::string run(const std::string& name) {
    if (!module_.find(name)) return name;
    auto [it, fresh] = copies_.try_emplace(name, name + suffix_);
    if (!fresh) return it->second;
    while (module_.find(it->second)) it->second += "_";
    std::string copy = it->second;
    ir::Function out = *module_.find(name);
    out.name = copy;
    for (ir::Value& v : out.values) v.type.shape = resolve(v.type.shape, values_);
    for (ir::Node& n : out.nodes)
      for (const ir::AttrDef& def : n.op->attrs) {
        if (def.kind == ir::AttrKind::kShape) n.attrs.set(def.name, resolve(n.attrs.get_shape(def.name), values_));
        if (def.kind == ir::AttrKind::kFunction)
          n.attrs.set(def.name, ir::FunctionRef{run(n.attrs.get_function(def.name))});
        if (def.kind == ir::AttrKind::kFunctions) {
          std::vector<ir::FunctionRef> callees = n.attrs.get_functions(def.name);
          for (ir::FunctionRef& callee : callees) callee.name = run(callee.name);
          n.attrs.set(def.name, std::move(callees));
        }
      }
    module_.functions.push_back(std::make_shared<const ir::Function>(std::move(out)));
    return copy;
  }

 private:
  ir::Module& module_;
  const Values& values_;
  std::string suffix_;
  std::map<std::string, std::string> copies_;
};

bool uses(const ir::Function& f, const std::string& symbol) {
  for (const ir::Value& v : f.values)
    for (const ir::Dim& d : v.type.shape)
      for (const ir::SymbolRef& s : d.symbols())
        if (s->name == symbol) return true;
  return false;
}

}  // namespace

Status check_size(const std::vector<ir::SymbolRef>& symbols, const std::string& name, int64_t value) {
  std::vector<std::string> names;
  for (const ir::SymbolRef& s : symbols) {
    names.push_back(s->name);
    if (s->name != name) continue;
    if (value >= s->min && value <= s->max && value % s->multiple == 0) return Ok{};
    return error(Code::kInputShape, "{} = {} is not {}in [{}, {}]", name, value,
                 s->multiple > 1 ? fmt::format("a multiple of {} ", s->multiple) : "", s->min, s->max);
  }
  Diagnostic d = error(Code::kBadOption, "the module has no symbolic size `{}`{}", name, did_you_mean(name, names));
  std::string known;
  for (const std::string& n : names) known += (known.empty() ? "" : ", ") + n;
  d.help = names.empty() ? "all of its sizes are fixed"
                         : fmt::format("its sizes are {}; one that equals an expression of others is none", known);
  return d;
}

Result<std::map<std::string, std::vector<int64_t>>> parse_sizes(const std::vector<std::string>& texts) {
  std::map<std::string, std::vector<int64_t>> out;
  for (const std::string& text : texts) {
    // "batch=1,8" and "batch=8,len=16" alike: a piece without a name belongs to the name before it.
    std::string name;
    std::set<std::string> named;
    for (size_t begin = 0; begin <= text.size();) {
      size_t end = std::min(text.find(',', begin), text.size());
      std::string piece = text.substr(begin, end - begin);
      if (size_t equals = piece.find('='); equals != std::string::npos) {
        name = piece.substr(0, equals);
        piece = piece.substr(equals + 1);
        if (!named.insert(name).second)
          return error(Code::kBadOption, "`{}` names {} twice; several values of one size are written {}=1,8", text,
                       name, name);
      }
      int64_t value = 0;
      auto [stop, problem] = std::from_chars(piece.data(), piece.data() + piece.size(), value);
      if (name.empty() || problem != std::errc() || stop != piece.data() + piece.size())
        return error(Code::kBadOption, "`{}` is no list of sizes such as batch=1,8,32", text);
      out[name].push_back(value);
      begin = end + 1;
    }
  }
  return out;
}

Result<ir::Module> specialise(const ir::Module& module, const std::map<std::string, std::vector<int64_t>>& values,
                              std::vector<VariantEntry>& variants) {
  for (const auto& [name, list] : values)
    for (int64_t value : list) NABLA_TRY(check_size(module.symbols, name, value));
  ir::Module out = module;
  for (const ir::Entry& entry : module.entries) {
    const ir::Function& f = *module.find(entry.function);
    std::vector<Values> combinations{{}};
    for (const auto& [name, list] : values) {
      if (!uses(f, name)) continue;
      std::vector<Values> longer;
      for (const Values& c : combinations)
        for (int64_t value : list) longer.push_back(c), longer.back()[name] = value;
      combinations = std::move(longer);
      if (combinations.size() > kMostVariants)
        return error(Code::kBadOption, "entry `{}` would get more than {} specialisations", entry.name, kMostVariants);
    }
    for (const Values& c : combinations) {
      if (c.empty()) continue;
      std::string list, suffix;
      for (const auto& [name, value] : c) {
        list += fmt::format("{}{}={}", list.empty() ? "" : ",", name, value);
        suffix += fmt::format("_{}_{}", name, value);
      }
      ir::Entry added = entry;
      added.name = fmt::format("{}[{}]", entry.name, list);
      added.function = Copier(out, c, suffix).run(entry.function);
      variants.push_back({added.name, entry.name, c});
      out.entries.push_back(std::move(added));
    }
  }
  return out;
}

}  // namespace nabla::driver
