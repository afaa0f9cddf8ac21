#include "runtime/base/problem.h"

#include <algorithm>
#include <charconv>

namespace nabla::key {

void write(std::string& out, int64_t value) { out += std::to_string(value); }

void write(std::string& out, const Numbers& values, std::string_view between) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += between;
    write(out, values[i]);
  }
}

bool read(std::string_view& text, int64_t& value) {
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || value < 0 || value > kMaxArrayBytes) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool read(std::string_view& text, Numbers& values, std::string_view between) {
  do {
    if (!read(text, values.emplace_back())) return false;
  } while (take(text, between));
  return true;
}

bool read(std::string_view& text, DType& value) {
  std::string_view word = text.substr(0, text.find(' '));
  std::optional<DType> known = dtype_from_name(word);
  if (known) value = *known, text.remove_prefix(word.size());
  return known.has_value();
}

bool take(std::string_view& text, std::string_view prefix) {
  bool there = text.starts_with(prefix);
  if (there) text.remove_prefix(prefix.size());
  return there;
}

int take_name(std::string_view& text, std::span<const std::string_view> names) {
  int best = -1;
  for (size_t i = 0; i < names.size(); ++i)
    if (text.starts_with(names[i]) && (best < 0 || names[i].size() > names[static_cast<size_t>(best)].size()))
      best = static_cast<int>(i);
  if (best >= 0) text.remove_prefix(names[static_cast<size_t>(best)].size());
  return best;
}

bool all_ones(const Numbers& values) {
  return std::all_of(values.begin(), values.end(), [](int64_t v) { return v == 1; });
}

}  // namespace nabla::key
