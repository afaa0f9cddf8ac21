#include "ir/attr.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace nabla::ir {

std::string_view name_of(AttrKind kind) {
  constexpr std::string_view kNames[] = {"bool", "int",   "float",    "string", "dtype",
                                         "ints", "shape", "function", "literal"};
  return kNames[static_cast<int>(kind)];
}

Attrs::Attrs(std::initializer_list<std::pair<std::string, Attr>> list) {
  for (const auto& [name, value] : list) set(name, value);
}

const Attr* Attrs::find(std::string_view name) const {
  auto it = std::lower_bound(table_.begin(), table_.end(), name, [](const auto& e, auto n) { return e.first < n; });
  return it != table_.end() && it->first == name ? &it->second : nullptr;
}

void Attrs::set(std::string name, Attr value) {
  auto it =
      std::lower_bound(table_.begin(), table_.end(), name, [](const auto& e, const auto& n) { return e.first < n; });
  if (it != table_.end() && it->first == name)
    it->second = std::move(value);
  else
    table_.insert(it, {std::move(name), std::move(value)});
}

void Attrs::erase(std::string_view name) {
  std::erase_if(table_, [&](const auto& e) { return e.first == name; });
}

const Attr& Attrs::at(std::string_view name, AttrKind kind) const {
  const Attr* attr = find(name);
  NABLA_CHECK(attr != nullptr, "attribute {} is missing", name);
  NABLA_CHECK(kind_of(*attr) == kind, "attribute {} is {}, not {}", name, name_of(kind_of(*attr)), name_of(kind));
  return *attr;
}

}  // namespace nabla::ir
