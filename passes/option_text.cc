#include "passes/option_text.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include "runtime/base/text.h"

namespace nabla::passes {

Result<SizeLists> parse_sizes(const std::vector<std::string>& texts, const std::string& option) {
  SizeLists out;
  for (const std::string& text : texts) {
    std::string name;
    std::set<std::string> named;
    for (size_t begin = 0; begin <= text.size();) {
      size_t end = std::min(text.find_first_of(",;", begin), text.size());
      std::string piece = text.substr(begin, end - begin);
      if (size_t equals = piece.find('='); equals != std::string::npos) {
        name = piece.substr(0, equals);
        piece = piece.substr(equals + 1);
        if (!named.insert(name).second)
          return error(Code::kBadOption, "{}: `{}` names {} twice; several values of one size are written {}=1,8", option,
                       text, name, name);
      }
      int64_t value = 0;
      auto [stop, problem] = std::from_chars(piece.data(), piece.data() + piece.size(), value);
      if (name.empty() || problem != std::errc() || stop != piece.data() + piece.size())
        return error(Code::kBadOption, "{}: `{}` is no list of sizes such as batch=1,8,32", option, text);
      out[name].push_back(value);
      begin = end + 1;
    }
  }
  return out;
}

namespace option_text {

std::string print(bool value) { return value ? "true" : "false"; }
std::string print(int64_t value) { return std::to_string(value); }
std::string print(Bytes value) {
  constexpr std::pair<int64_t, const char*> kUnits[] = {{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}};
  for (const auto& [unit, name] : kUnits)
    if (value.count >= unit && value.count % unit == 0) return fmt::format("{}{}", value.count / unit, name);
  return std::to_string(value.count);
}
std::string print(const std::string& value) { return value; }
std::string print(const Names& value) {
  std::string out;
  for (const std::string& name : value) out += (out.empty() ? "" : ";") + name;
  return out;
}
std::string print(const SizeLists& value) {
  std::string out;
  for (const auto& [name, sizes] : value) {
    out += fmt::format("{}{}=", out.empty() ? "" : ";", name);
    for (size_t i = 0; i < sizes.size(); ++i) out += fmt::format("{}{}", i ? ";" : "", sizes[i]);
  }
  return out;
}

bool read(std::string_view text, bool& value) {
  value = text == "true";
  return value || text == "false";
}
bool read(std::string_view text, int64_t& value) {
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size() && !text.empty();
}
bool read(std::string_view text, Bytes& value) {
  std::optional<int64_t> bytes = parse_bytes(text);
  if (bytes) value.count = *bytes;
  return bytes.has_value();
}
bool read(std::string_view text, std::string& value) {
  value = text;
  return true;
}
bool read(std::string_view text, Names& value) {
  value.clear();
  if (text.empty()) return true;
  std::string list(text);
  std::replace(list.begin(), list.end(), ';', ',');
  std::istringstream names(list + ",");
  for (std::string name; std::getline(names, name, ',');) {
    if (name.empty() || std::find(value.begin(), value.end(), name) != value.end()) return false;
    value.push_back(std::move(name));
  }
  return true;
}
bool read(std::string_view text, SizeLists& value) {
  value.clear();
  if (text.empty()) return true;
  Result<SizeLists> lists = parse_sizes({std::string(text)}, "");
  if (lists.ok()) value = std::move(*lists);
  return lists.ok();
}

std::string domain_of(bool, int64_t, int64_t) { return "true or false"; }
std::string domain_of(int64_t, int64_t low, int64_t high) {
  if (high == INT64_MAX) return fmt::format("a whole number of at least {}", low);
  return fmt::format("a whole number from {} to {}", low, high);
}
std::string domain_of(Bytes, int64_t, int64_t) { return "a number of bytes, such as 64MiB"; }
std::string domain_of(const std::string&, int64_t, int64_t) { return "a text"; }
std::string domain_of(const Names&, int64_t, int64_t) { return "a list of different names, such as dp,tp"; }
std::string domain_of(const SizeLists&, int64_t, int64_t) { return "a list of sizes such as batch=1,8,32"; }

std::string one_of(std::span<const std::string_view> names) {
  std::vector<std::string_view> said;
  std::copy_if(names.begin(), names.end(), std::back_inserter(said), [](std::string_view n) { return !n.empty(); });
  std::string out;
  for (size_t i = 0; i < said.size(); ++i)
    out += fmt::format("{}{}", i == 0 ? "" : i + 1 == said.size() ? " or " : ", ", said[i]);
  return out;
}

int place_of(std::string_view name, std::span<const std::string_view> names) {
  auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

bool in_range(int64_t value, int64_t low, int64_t high) { return value >= low && value <= high; }

Diagnostic refused(const std::string& spelled, const std::string& domain, const std::string& text) {
  return error(Code::kBadOption, "{} is {}, not `{}`", spelled, domain, text);
}

}  // namespace option_text
}  // namespace nabla::passes
