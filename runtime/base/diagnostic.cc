#include "runtime/base/diagnostic.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/base/text.h"

namespace nabla {
namespace {
constexpr CodeInfo kCodes[] = {
#define NABLA_CODE_ROW(name, number, title, help) {Code::name, title, help},
    NABLA_ERROR_CODES(NABLA_CODE_ROW)
#undef NABLA_CODE_ROW
};

// Letters that are added, left out, replaced, or swapped with the next one: the optimal string alignment distance.
// Source: Damerau, A technique for computer detection and correction of spelling errors (1964).
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1), above, before;  // of the letters up to i, i - 1 and i - 2 of a
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}
}  // namespace

const CodeInfo* all_codes(int& count) {
  count = static_cast<int>(std::size(kCodes));
  return kCodes;
}

const CodeInfo* find_code(int number) {
  for (const CodeInfo& info : kCodes)
    if (static_cast<int>(info.code) == number) return &info;
  return nullptr;
}

const CodeInfo& code_info(Code code) {
  const CodeInfo* info = find_code(static_cast<int>(code));
  NABLA_CHECK(info != nullptr, "code {} has no row", static_cast<int>(code));
  return *info;
}

std::string at_place(const LocationRef& location) {
  if (!location || location->file.empty()) return "";
  return location->line > 0 ? fmt::format(" at {}:{}", location->file, location->line) : " in " + location->file;
}

Diagnostic::Diagnostic() = default;
Diagnostic::Diagnostic(Code c, std::string text) : code(c), message(std::move(text)) {}
Diagnostic::Diagnostic(const Diagnostic&) = default;
Diagnostic::Diagnostic(Diagnostic&&) noexcept = default;
Diagnostic& Diagnostic::operator=(const Diagnostic&) = default;
Diagnostic& Diagnostic::operator=(Diagnostic&&) noexcept = default;
Diagnostic::~Diagnostic() = default;

Diagnostics only(Diagnostic d) {
  Diagnostics out;
  out.push_back(std::move(d));
  return out;
}

Diagnostics checked(Diagnostics d) {
  NABLA_CHECK(!d.empty(), "a failed Result needs a diagnostic");
  return d;
}

void value_of_failed(const Diagnostics& errors) {
  check_failed(__FILE__, __LINE__, "ok()", "value() of a failed Result:\n" + to_string(errors));
}

Diagnostic formatted_error(Code code, fmt::string_view format, fmt::format_args args) {
  return Diagnostic(code, fmt::vformat(format, args));
}

std::string code_name(Code code) { return fmt::format("E{:04}", static_cast<int>(code)); }

std::string Diagnostic::str() const {
  // Names and source text come from files: what a terminal would obey is escaped here, and nowhere else.
  std::string out = fmt::format("error[{}]: {}\n", code_name(code), printable(message));
  if (location && !location->file.empty()) {
    out += "  --> " + printable(location->file);
    if (location->line > 0) out += fmt::format(":{}", location->line);
    if (location->column > 0) out += fmt::format(":{}", location->column);
    if (!location->function.empty()) out += "  in " + printable(location->function);
    out += "\n";
    if (!location->text.empty()) {
      out += "   | " + printable(location->text, "\t") + "\n";
      if (location->column > 0) out += "   | " + std::string(location->column - 1, ' ') + "^\n";
    }
  }
  if (!excerpt.empty()) out += "   | " + printable(excerpt) + "\n";
  for (const std::string& note : notes) out += "   = note: " + printable(note) + "\n";
  std::string_view advice = help.empty() ? code_info(code).help : std::string_view(help);
  if (!advice.empty()) out += fmt::format("   = help: {}\n", printable(advice));
  return out;
}

std::string to_string(const Diagnostics& diagnostics) {
  std::string out;
  for (const Diagnostic& d : diagnostics) out += d.str();
  return out;
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  std::string best;
  size_t limit = name.size() < 5 ? 1 : std::max<size_t>(2, name.size() / 3);  // a short name with two other letters is another
  size_t best_distance = limit + 1;
  for (const std::string& candidate : known) {
    size_t distance = edit_distance(name, candidate);
    bool alike = distance < std::max(name.size(), candidate.size());  // a letter stays
    if (alike && distance < best_distance) best_distance = distance, best = candidate;
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known) {
  std::string best = nearest_name(name, known);
  return best.empty() ? "" : "; did you mean `" + best + "`?";
}

}  // namespace nabla
