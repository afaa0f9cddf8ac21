// What the problems of libraries have in common: each kind of problem lists its fields once, and its key, the parsing
// of the key, the checks of a bundle, the bundle's fields and the binding of symbolic sizes follow from the list.
//
// A kind is a struct with
//   static constexpr std::string_view kKind;       // the first word of its key
//   static constexpr auto fields();                // a tuple of Field, in the order of the key
//   bool complete();                               // fills in what a key leaves out; false where fields contradict
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "runtime/base/dtype.h"

namespace nabla {

/// How a field stands in the key of its problem.
enum class InKey : uint8_t { kAlways, kUnlessOne, kOfCall, kNever };

template <class P, class T>
struct Field {
  std::string_view name;
  T P::*member;
  InKey in_key = InKey::kNever;
  std::string_view before = {};   ///< what stands before the value in the key
  std::string_view between = {};  ///< between the numbers of a list
};
template <class P, class T>
constexpr Field<P, T> in_key(std::string_view name, T P::*member, std::string_view before,
                             std::string_view between = "x") {
  return {name, member, InKey::kAlways, before, between};
}
/// One that the key has only where it is not 1, or a list not all ones.
template <class P, class T>
constexpr Field<P, T> in_key_unless_one(std::string_view name, T P::*member, std::string_view before,
                                        std::string_view between = ",") {
  return {name, member, InKey::kUnlessOne, before, between};
}
/// One that tells calls of a problem apart, for which a library may choose other algorithms: the key of a call ends
/// with the word of each flag that is set, or with the name of what is not the first of an enumeration.
template <class P, class T>
constexpr Field<P, T> in_key_of_call(std::string_view name, T P::*member, std::string_view word = {}) {
  return {name, member, InKey::kOfCall, word};
}
template <class P, class T>
constexpr Field<P, T> beside_key(std::string_view name, T P::*member) {
  return {name, member};
}

/// Whether the key of a problem has such fields.
constexpr bool stands(InKey in_key) { return in_key == InKey::kAlways || in_key == InKey::kUnlessOne; }

/// f(field) for every field of the kind.
template <class P, class F>
constexpr void for_each_field(F f) {
  std::apply([&](const auto&... field) { (f(field), ...); }, P::fields());
}

/// f(size) for every field of type Size, in the order of the fields.
template <class Size, class P, class F>
void for_each_field_of(P& problem, F f) {
  for_each_field<std::remove_const_t<P>>([&](const auto& field) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(problem.*field.member)>, Size>) f(problem.*field.member);
  });
}

/// The same problem with sizes of another type: `size` converts one. The fields of both are the same.
template <class To, class From, class F, size_t... I>
To with_sizes(const From& from, F size, std::index_sequence<I...>) {
  To out;
  auto convert = [&](const auto& to, const auto& field) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(out.*to.member)>,
                                 std::remove_cvref_t<decltype(from.*field.member)>>)
      out.*to.member = from.*field.member;
    else
      out.*to.member = size(from.*field.member);
  };
  (convert(std::get<I>(To::fields()), std::get<I>(From::fields())), ...);
  return out;
}
template <class To, class From, class F>
To with_sizes(const From& from, F size) {
  return with_sizes<To>(from, size, std::make_index_sequence<std::tuple_size_v<decltype(From::fields())>>());
}

// ---- Values in keys

namespace key {

using Numbers = std::vector<int64_t>;
void write(std::string& out, int64_t value);
void write(std::string& out, const Numbers& values, std::string_view between);
/// Takes what it reads off the front of the text. False for what is no number below kMaxArrayBytes.
bool read(std::string_view& text, int64_t& value);
bool read(std::string_view& text, Numbers& values, std::string_view between);
bool read(std::string_view& text, DType& value);
bool take(std::string_view& text, std::string_view prefix);
/// The place of the longest name that the text begins with, which it loses; -1: it begins with none.
int take_name(std::string_view& text, std::span<const std::string_view> names);
bool all_ones(const Numbers& values);

// Sums and lists are numbers, flags are "t" (transposed) or "n", names are those of names_of(enumerator).
template <class T>
void write_value(std::string& out, const T& value, std::string_view between) {
  if constexpr (std::is_same_v<T, bool>)
    out += value ? 't' : 'n';
  else if constexpr (std::is_same_v<T, int64_t>)
    write(out, value);
  else if constexpr (std::is_same_v<T, Numbers>)
    write(out, value, between);
  else
    out += name_of(value);
}
template <class T>
bool read_value(std::string_view& text, T& value, std::string_view between) {
  if constexpr (std::is_same_v<T, bool>) {
    value = text.starts_with('t');
    return take(text, "t") || take(text, "n");
  } else if constexpr (std::is_same_v<T, Numbers>) {
    return read(text, value, between);
  } else if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, DType>) {
    return read(text, value);
  } else {
    int place = take_name(text, names_of(value));
    value = static_cast<T>(place < 0 ? 0 : place);
    return place >= 0;
  }
}
template <class T>
bool is_one(const T& value) {
  if constexpr (std::is_same_v<T, int64_t>) return value == 1;
  if constexpr (std::is_same_v<T, Numbers>) return all_ones(value);
  return false;
}

}  // namespace key

/// "gemm f32 1x64x128x64 nt": the key of tuning files and of measured algorithms.
template <class P>
std::string problem_key(const P& problem) {
  std::string out(P::kKind);
  for_each_field<P>([&](const auto& field) {
    const auto& value = problem.*field.member;
    if (!stands(field.in_key) || (field.in_key == InKey::kUnlessOne && key::is_one(value))) return;
    out += field.before;
    key::write_value(out, value, field.between);
  });
  return out;
}

/// "gemm f32 1x64x128x64 nt bias gelu tf32": the key, and what else tells calls of the problem apart.
template <class P>
std::string call_key(const P& problem) {
  std::string out = problem_key(problem);
  for_each_field<P>([&](const auto& field) {
    if (field.in_key != InKey::kOfCall) return;
    const auto& value = problem.*field.member;
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<T, bool>) {
      if (value) out.append(" ").append(field.before);
    } else if constexpr (std::is_enum_v<T>) {
      if (value != T{}) out.append(" ").append(name_of(value));
    }
  });
  return out;
}

/// The problem whose key the text begins with, and what follows the key; what a key leaves out is as if operands were
/// dense. Nothing for any other text: problem_key of what comes back, and the rest, are the text again.
template <class P>
std::optional<P> parse_problem(std::string_view text, std::string_view* rest) {
  std::string_view left = text;
  P out;
  bool ok = key::take(left, P::kKind);
  for_each_field<P>([&](const auto& field) {
    if (!ok || !stands(field.in_key)) return;
    if (field.in_key == InKey::kUnlessOne && !left.starts_with(field.before)) return;
    ok = key::take(left, field.before) && key::read_value(left, out.*field.member, field.between);
  });
  if (!ok || !out.complete() || problem_key(out) != text.substr(0, text.size() - left.size())) return std::nullopt;
  *rest = left;
  return out;
}

/// The kind of problem whose key the text begins with, or that it names and nothing more; empty: none of these kinds.
/// `rest` becomes what follows the key.
template <class... Kinds>
std::string_view kind_of_key(std::string_view text, std::string_view& rest) {
  std::string_view out;
  auto is = [&]<class P>(const P*) {
    rest = {};
    if (text != P::kKind && !parse_problem<P>(text, &rest)) return false;
    out = P::kKind;
    return true;
  };
  (void)(is(static_cast<const Kinds*>(nullptr)) || ...);
  return out;
}

/// "m=64, n=-1": the numbers that are negative or above the limit; empty: none.
template <class P>
std::string implausible_fields(const P& problem, int64_t limit) {
  std::string out;
  auto check = [&](std::string_view name, int64_t value) {
    if (value >= 0 && value <= limit) return;
    out.append(out.empty() ? "" : ", ").append(name).append("=");
    out += std::to_string(value);
  };
  for_each_field<P>([&](const auto& field) {
    using T = std::remove_cvref_t<decltype(problem.*field.member)>;
    if constexpr (std::is_same_v<T, int64_t>) check(field.name, problem.*field.member);
    if constexpr (std::is_same_v<T, key::Numbers>)
      for (int64_t value : problem.*field.member) check(field.name, value);
  });
  return out;
}

}  // namespace nabla
