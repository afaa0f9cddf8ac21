#include "runtime/base/text.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>

#include "runtime/base/version.h"

namespace nabla {
namespace {

/// Bytes of the UTF-8 character that the text begins with; 0 when it begins with none.
size_t utf8_length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  size_t length = byte(0) < 0x80 ? 1 : byte(0) < 0xC2 ? 0 : byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
  if (length == 0 || byte(0) > 0xF4 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  return length;
}

/// C0, DEL, and the C1 controls U+0080 to U+009F.
bool is_control(std::string_view character) {
  auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return character.size() == 2 && first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
}

std::string escaped(unsigned char byte) {
  if (byte == '\n') return "\\n";
  if (byte == '\t') return "\\t";
  if (byte == '\r') return "\\r";
  return fmt::format("\\x{:02x}", byte);
}

}  // namespace

std::string printable(std::string_view text, std::string_view keep) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t length = utf8_length(text.substr(at));
    std::string_view character = text.substr(at, std::max<size_t>(length, 1));
    at += character.size();
    if (length > 0 && (!is_control(character) || keep.find(character) != keep.npos)) {
      out += character;
    } else {
      for (char byte : character) out += escaped(static_cast<unsigned char>(byte));
    }
  }
  return out;
}

std::string shortened(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  size_t end = most;
  while (end > 0 && end + 4 > most && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return fmt::format("{}... ({} bytes)", text.substr(0, end), text.size());
}

std::vector<std::string> first_lines(std::string_view text, size_t most) {
  std::vector<std::string> out;
  while (!text.empty() && out.size() < most) {
    size_t end = text.find('\n');
    out.emplace_back(text.substr(0, end));
    text = end == text.npos ? "" : text.substr(end + 1);
  }
  return out;
}

std::optional<int64_t> parse_bytes(std::string_view text) {
  constexpr struct {
    std::string_view name;
    double bytes;
  } kUnits[] = {{"", 1},    {"B", 1},    {"K", 1e3},       {"KB", 1e3},      {"M", 1e6},      {"MB", 1e6},
                {"G", 1e9}, {"GB", 1e9}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
  int64_t plain = 0;
  const char* last = text.data() + text.size();
  if (auto [stop, failure] = std::from_chars(text.data(), last, plain); failure == std::errc() && stop == last)
    return plain < 0 ? std::nullopt : std::optional(plain);
  double number = 0;
  auto [end, problem] = std::from_chars(text.data(), last, number, std::chars_format::fixed);
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  if (problem != std::errc() || !(number >= 0)) return std::nullopt;
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const auto& [name, bytes] : kUnits) {
    if (unit != name) continue;
    double total = number * bytes;
    if (total != std::floor(total) || total > 9e15) return std::nullopt;  // up to there doubles are exact
    return static_cast<int64_t>(total);
  }
  return std::nullopt;
}

std::string reason_of(int problem) {
  std::string out = std::strerror(problem);
  auto add = [&](__rlimit_resource resource, const char* what) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
      out += fmt::format(": the limit is {} {}", limit.rlim_cur, what);
  };
  if (problem == EMFILE) add(RLIMIT_NOFILE, "for a process (ulimit -n)");
  if (problem == ENFILE) out += ": the limit is that of the machine (sysctl fs.file-max)";
  if (problem == EAGAIN) add(RLIMIT_NPROC, "processes and threads of this user (ulimit -u)");
  return out;
}

std::string version_text(std::string_view program) {
  return fmt::format("{} {} (IR version {}, bundle version {})\n", program, kVersion, kIrVersion, kBundleVersion);
}

}  // namespace nabla
