// Reads and prints the values of options: in steps of a pipeline, on command lines and in errors. An enumeration gives the names of
// its values by an overload of `names_of`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/base/diagnostic.h"

namespace nabla::passes {

/// A number of bytes. In texts it may have a unit: "16MiB".
struct Bytes {
  int64_t count = 0;
  bool operator==(const Bytes&) const = default;
};
/// Different names. In texts they stand between commas or semicolons.
using Names = std::vector<std::string>;
/// The sizes to specialise for, by the name of the symbol. The text is "batch=1;8;len=16"; a number without a name belongs to the
/// last name before it.
using SizeLists = std::map<std::string, std::vector<int64_t>>;

/// Reads lists whose items are separated by commas or semicolons. E0901 with the name of the option if a text is not such a list.
Result<SizeLists> parse_sizes(const std::vector<std::string>& texts, const std::string& option);

namespace option_text {

// Each kind of value has one overload of `print`, `read` and `domain_of`. `read` returns false if the text is no such value.
std::string print(bool value);
std::string print(int64_t value);
std::string print(Bytes value);
std::string print(const std::string& value);
std::string print(const Names& value);
std::string print(const SizeLists& value);
bool read(std::string_view text, bool& value);
bool read(std::string_view text, int64_t& value);
bool read(std::string_view text, Bytes& value);
bool read(std::string_view text, std::string& value);
bool read(std::string_view text, Names& value);
bool read(std::string_view text, SizeLists& value);
std::string domain_of(bool, int64_t low, int64_t high);
std::string domain_of(int64_t, int64_t low, int64_t high);
std::string domain_of(Bytes, int64_t low, int64_t high);
std::string domain_of(const std::string&, int64_t low, int64_t high);
std::string domain_of(const Names&, int64_t low, int64_t high);
std::string domain_of(const SizeLists&, int64_t low, int64_t high);
/// "last, each or shares"
std::string one_of(std::span<const std::string_view> names);
/// The index of the name in `names`, or -1 if it is not there.
int place_of(std::string_view name, std::span<const std::string_view> names);
bool in_range(int64_t value, int64_t low, int64_t high);
Diagnostic refused(const std::string& spelled, const std::string& domain, const std::string& text);

template <class T>
concept Named = std::is_enum_v<T>;
template <Named T>
std::string print(T value) {
  return std::string(names_of(value)[static_cast<size_t>(value)]);
}
template <Named T>
bool read(std::string_view text, T& value) {
  int place = place_of(text, names_of(value));
  if (place >= 0) value = static_cast<T>(place);
  return place >= 0;
}
template <Named T>
std::string domain_of(T value, int64_t, int64_t) {
  return one_of(names_of(value));
}
// An empty text stands for an option without a value.
template <class T>
std::string print(const std::optional<T>& value) {
  return value ? print(*value) : "";
}
template <class T>
bool read(std::string_view text, std::optional<T>& value) {
  if (text.empty()) return value.reset(), true;
  T given{};
  if (!read(text, given)) return false;
  value = std::move(given);
  return true;
}
template <class T>
std::string domain_of(const std::optional<T>&, int64_t low, int64_t high) {
  return domain_of(T{}, low, high);
}

template <class T>
bool fits(const T& value, int64_t low, int64_t high) {
  if constexpr (std::is_same_v<T, int64_t>) return in_range(value, low, high);
  if constexpr (std::is_same_v<T, std::optional<int64_t>>) return !value || in_range(*value, low, high);
  return true;
}

}  // namespace option_text
}  // namespace nabla::passes
