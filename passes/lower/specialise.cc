#include "passes/lower/specialise.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "ir/op_def.h"
#include "ir/symbols.h"
#include "runtime/base/option_error.h"
#include "runtime/base/option_name.h"

namespace nabla::passes {
namespace {

constexpr size_t kMostVariants = 64;

using Sizes = std::map<std::string, int64_t>;

// Copies of a function, and of what its loops and branches run, at chosen sizes.
class Copier {
 public:
  Copier(ir::Module& module, const Sizes& sizes, std::string suffix)
      : module_(module), sizes_(sizes), suffix_(std::move(suffix)) {}

  /// The copy's name.
  std::string run(const std::string& name) {
    if (!module_.find(name)) return name;
    auto [it, fresh] = copies_.try_emplace(name, name + suffix_);
    if (!fresh) return it->second;
    while (module_.find(it->second)) it->second += "_";
    std::string copy = it->second;
    ir::Function out = *module_.find(name);
    out.name = copy;
    for (ir::Value& v : out.values) v.type.shape = ir::at_sizes(v.type.shape, sizes_);
    for (ir::Node& n : out.nodes)
      for (const ir::AttrDef& def : n.op->attrs) {
        if (def.kind == ir::AttrKind::kShape) n.attrs.set(def.name, ir::at_sizes(n.attrs.get_shape(def.name), sizes_));
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
  const Sizes& sizes_;
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

// Every combination of the lists' values for the symbols that the entry uses; empty where it uses none.
Result<std::vector<Sizes>> combinations_of(const ir::Entry& entry, const ir::Function& f, const SizeLists& lists) {
  std::vector<Sizes> out{{}};
  for (const auto& [name, values] : lists) {
    if (!uses(f, name)) continue;
    std::vector<Sizes> longer;
    for (const Sizes& c : out)
      for (int64_t value : values) longer.push_back(c), longer.back()[name] = value;
    out = std::move(longer);
    if (out.size() > kMostVariants)
      return option_error("list fewer values: there is a specialisation for every combination",
                          "entry `{}` would get more than {} specialisations", entry.name, kMostVariants);
  }
  if (out[0].empty()) out.clear();
  return out;
}

}  // namespace

Result<ir::Module> specialise(const ir::Module& module, PassContext& context) {
  SizeLists lists = context.options.specialise.sizes;
  if (lists.empty()) return module;
  for (auto& [name, values] : lists) {
    for (int64_t value : values) (void)NABLA_TRY(ir::check_size(module.symbols, name, value, spelled(kSpecialiseOption)));
    std::set<int64_t> seen;
    std::erase_if(values, [&](int64_t value) { return !seen.insert(value).second; });
  }
  ir::Module out = module;
  for (const ir::Entry& entry : module.entries) {
    if (!entry.variant_of.empty()) continue;
    for (Sizes& sizes : NABLA_TRY(combinations_of(entry, *module.find(entry.function), lists))) {
      std::string list, suffix;
      for (const auto& [name, value] : sizes) {
        list += fmt::format("{}{}={}", list.empty() ? "" : ",", name, value);
        suffix += fmt::format("_{}_{}", name, value);
      }
      ir::Entry variant = entry;
      variant.name = fmt::format("{}[{}]", entry.name, list);
      variant.function = Copier(out, sizes, suffix).run(entry.function);
      variant.variant_of = entry.name, variant.sizes = std::move(sizes);
      out.entries.push_back(std::move(variant));
    }
  }
  return out;
}

}  // namespace nabla::passes
