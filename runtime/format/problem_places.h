// Where the fields of a library's problem and its operands lie in the bundle: two lists of places per kind, from which
// reading and writing follow.
#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "flatbuffers/flatbuffers.h"
#include "runtime/base/problem.h"

namespace nabla::format {

/// A field that the table `Get` reads and `Set`, a member of the table's mutable form, holds.
template <auto Get, auto Set>
struct Place {
  template <class Table>
  static auto get(const Table& table) {
    return (table.*Get)();
  }
  template <class Table, class T>
  static void set(Table& table, const T& value) {
    using To = std::remove_cvref_t<decltype(table.*Set)>;
    if constexpr (std::is_enum_v<To> || std::is_enum_v<T>)
      table.*Set = static_cast<To>(value);
    else
      table.*Set = value;
  }
};
/// A flag that says whether the table has an operand; who adds the operand sets it.
template <auto Get>
struct Present {
  template <class Table>
  static bool get(const Table& table) {
    return (table.*Get)() != nullptr;
  }
  template <class Table, class T>
  static void set(Table&, const T&) {}
};

/// The address of an operand by its role. The order of the roles is that of Instruction.operands and of what a
/// device::LibraryCall is given.
template <auto Get, auto Set>
struct RolePlace {
  std::string_view role;  ///< "a", "bias", "filter"; "workspace" is that of ir::LibraryCall
  template <class Table>
  static auto get(const Table& table) {
    return (table.*Get)();
  }
  template <class Table>
  static auto& at(Table& table) {
    return table.*Set;
  }
};

/// f(role, address) for every operand of a call; null: the call has none.
template <class Roles, class Table, class F>
void for_each_address(const Roles& roles, const Table& table, F f) {
  std::apply([&](const auto&... place) { (f(place.role, place.get(table)), ...); }, roles);
}
/// The same of the mutable form of a table.
template <class Roles, class Table, class F>
void for_each_role(const Roles& roles, Table& table, F f) {
  std::apply([&](const auto&... place) { (f(place.role, place.at(table)), ...); }, roles);
}

inline std::vector<int64_t> value_of(const flatbuffers::Vector<int64_t>* list) {
  return list == nullptr ? std::vector<int64_t>() : std::vector<int64_t>(list->begin(), list->end());
}
template <class T>
T value_of(T value) {
  return value;
}

template <class P, class Places, class F, size_t... I>
void for_each_place(const Places& places, F f, std::index_sequence<I...>) {
  (f(std::get<I>(P::fields()), std::get<I>(places)), ...);
}
template <class P, class Places, class F>
void for_each_place(const Places& places, F f) {
  constexpr size_t kFields = std::tuple_size_v<decltype(P::fields())>;
  static_assert(std::tuple_size_v<Places> == kFields, "every field of a problem has one place in the bundle");
  for_each_place<P>(places, f, std::make_index_sequence<kFields>());
}

/// The problem of a table.
template <class P, class Places, class Table>
P read_problem(const Places& places, const Table& table) {
  P out;
  for_each_place<P>(places, [&](const auto& field, const auto& place) {
    using T = std::remove_cvref_t<decltype(out.*field.member)>;
    out.*field.member = static_cast<T>(value_of(place.get(table)));
  });
  return out;
}
/// Writes the problem into the mutable form of a table.
template <class P, class Places, class Table>
void write_problem(const Places& places, const P& problem, Table& table) {
  for_each_place<P>(places, [&](const auto& field, const auto& place) { place.set(table, problem.*field.member); });
}

}  // namespace nabla::format
