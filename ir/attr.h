// Attributes of nodes: a small sorted table of named values.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ir/sharding.h"
#include "ir/type.h"
#include "runtime/base/literal.h"

namespace nabla::ir {

struct FunctionRef {
  std::string name;
  bool operator==(const FunctionRef&) const = default;
};

using FunctionRefs = std::vector<FunctionRef>;

using Ints = std::vector<int64_t>;
using Attr = std::variant<bool, int64_t, double, std::string, DType, Ints, Shape, FunctionRef, Literal, FunctionRefs, Axes,
                          Sharding, Shardings>;
/// In the order of Attr's alternatives.
enum class AttrKind : uint8_t {
  kBool,
  kInt,
  kFloat,
  kString,
  kDType,
  kInts,
  kShape,
  kFunction,
  kLiteral,
  kFunctions,
  kAxes,
  kSharding,
  kShardings
};
std::string_view name_of(AttrKind kind);
inline AttrKind kind_of(const Attr& attr) { return static_cast<AttrKind>(attr.index()); }

/// Sorted by name. The typed getters abort when the attribute is missing or of another kind: the checked
/// builder and the verifier have seen to it that every declared attribute is present. Copies share one table until one
/// of them is changed: most nodes that a pass copies keep their attributes.
class Attrs {
  using Table = std::vector<std::pair<std::string, Attr>>;

 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string, Attr>> list);

  const Attr* find(std::string_view name) const;
  void set(std::string name, Attr value);
  void erase(std::string_view name);

  bool get_bool(std::string_view name) const { return get<bool>(name); }
  int64_t get_int(std::string_view name) const { return get<int64_t>(name); }
  double get_float(std::string_view name) const { return get<double>(name); }
  const std::string& get_string(std::string_view name) const { return get<std::string>(name); }
  DType get_dtype(std::string_view name) const { return get<DType>(name); }
  const Ints& get_ints(std::string_view name) const { return get<Ints>(name); }
  const Shape& get_shape(std::string_view name) const { return get<Shape>(name); }
  const std::string& get_function(std::string_view name) const { return get<FunctionRef>(name).name; }
  const Literal& get_literal(std::string_view name) const { return get<Literal>(name); }
  const FunctionRefs& get_functions(std::string_view name) const { return get<FunctionRefs>(name); }

  const Axes& get_axes(std::string_view name) const { return get<Axes>(name); }
  const Sharding& get_sharding(std::string_view name) const { return get<Sharding>(name); }
  const Shardings& get_shardings(std::string_view name) const { return get<Shardings>(name); }

  Table::const_iterator begin() const { return table().begin(); }
  Table::const_iterator end() const { return table().end(); }
  size_t size() const { return table().size(); }
  bool operator==(const Attrs& other) const { return table_ == other.table_ || table() == other.table(); }

 private:
  template <class T>
  const T& get(std::string_view name) const {
    return std::get<T>(at(name, static_cast<AttrKind>(Attr(T{}).index())));
  }
  const Attr& at(std::string_view name, AttrKind kind) const;
  const Table& table() const;
  Table& own_table();
  std::shared_ptr<Table> table_;  // null: empty
};

/// The functions that an attribute names; none for most kinds.
std::vector<std::string> functions_of(const Attr& attr);
/// Those of all attributes, in order.
std::vector<std::string> functions_of(const Attrs& attrs);
/// The same attributes with other functions.
Attrs with_functions(const Attrs& attrs, const std::function<std::string(const std::string&)>& replacement);

}  // namespace nabla::ir
