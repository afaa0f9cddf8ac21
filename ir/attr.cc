#include "ir/attr.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace nabla::ir {

std::string_view name_of(AttrKind kind) {
  constexpr std::string_view kNames[] = {"bool", "int",   "float",    "string",  "dtype",
                                         "ints", "shape", "function", "literal", "functions",
                                         "axes", "sharding", "shardings"};
  return kNames[static_cast<int>(kind)];
}

Attrs::Attrs(std::initializer_list<std::pair<std::string, Attr>> list) {
  for (const auto& [name, value] : list) set(name, value);
}

const Attrs::Table& Attrs::table() const {
  static const Table kEmpty;
  return table_ ? *table_ : kEmpty;
}

Attrs::Table& Attrs::own_table() {
  if (!table_ || table_.use_count() > 1) table_ = std::make_shared<Table>(table());
  return *table_;
}

const Attr* Attrs::find(std::string_view name) const {
  auto it = std::lower_bound(begin(), end(), name, [](const auto& e, auto n) { return e.first < n; });
  return it != end() && it->first == name ? &it->second : nullptr;
}

void Attrs::set(std::string name, Attr value) {
  Table& own = own_table();
  auto it = std::lower_bound(own.begin(), own.end(), name, [](const auto& e, const auto& n) { return e.first < n; });
  if (it != own.end() && it->first == name)
    it->second = std::move(value);
  else
    own.insert(it, {std::move(name), std::move(value)});
}

void Attrs::erase(std::string_view name) {
  if (find(name)) std::erase_if(own_table(), [&](const auto& e) { return e.first == name; });
}

const Attr& Attrs::at(std::string_view name, AttrKind kind) const {
  const Attr* attr = find(name);
  NABLA_CHECK(attr != nullptr, "attribute {} is missing", name);
  NABLA_CHECK(kind_of(*attr) == kind, "attribute {} is {}, not {}", name, name_of(kind_of(*attr)), name_of(kind));
  return *attr;
}

std::vector<std::string> functions_of(const Attr& attr) {
  if (const FunctionRef* ref = std::get_if<FunctionRef>(&attr)) return {ref->name};
  std::vector<std::string> out;
  if (const FunctionRefs* list = std::get_if<FunctionRefs>(&attr))
    for (const FunctionRef& ref : *list) out.push_back(ref.name);
  return out;
}

std::vector<std::string> functions_of(const Attrs& attrs) {
  std::vector<std::string> out;
  for (const auto& [name, attr] : attrs)
    for (std::string& f : functions_of(attr)) out.push_back(std::move(f));
  return out;
}

Attrs with_functions(const Attrs& attrs, const std::function<std::string(const std::string&)>& replacement) {
  Attrs out = attrs;
  for (const auto& [name, attr] : attrs) {
    if (const FunctionRef* ref = std::get_if<FunctionRef>(&attr)) out.set(name, FunctionRef{replacement(ref->name)});
    if (const FunctionRefs* list = std::get_if<FunctionRefs>(&attr)) {
      FunctionRefs replaced;
      for (const FunctionRef& ref : *list) replaced.push_back({replacement(ref.name)});
      out.set(name, std::move(replaced));
    }
  }
  return out;
}

}  // namespace nabla::ir
