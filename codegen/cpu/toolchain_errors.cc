#include "codegen/cpu/toolchain_errors.h"

#include <algorithm>
#include <charconv>
#include <regex>
#include <sstream>

#include "codegen/cpu/user_printer.h"
#include "runtime/base/text.h"

namespace nabla::codegen {
namespace {

constexpr size_t kMostLines = 12;

struct Message {
  std::string file;
  int line = 0, column = 0;
  std::string kind, text;  // "error", "note"...
};

int number(const std::string& s) {
  int v = 0;
  std::from_chars(s.data(), s.data() + s.size(), v);
  return v;
}

// "kernels.cc:12:5: error: ..." of both compilers.
std::vector<Message> messages_of(const std::string& log) {
  static const std::regex kForm(R"(^(.+?):(\d+):(\d+): (fatal error|error|warning|note): (.*)$)");
  std::vector<Message> out;
  std::istringstream lines(log);
  std::smatch m;
  for (std::string line; std::getline(lines, line);)
    if (line.size() < 2000 && std::regex_match(line, m, kForm))
      out.push_back({m[1], number(m[2]), number(m[3]), m[4], m[5]});
  return out;
}

std::string line_of(const kernel_ir::UserCode& code, int line) {
  std::istringstream text(code.text);
  std::string out;
  for (int64_t at = code.line; std::getline(text, out); ++at)
    if (at == line) return out;
  return "";
}

}  // namespace

Diagnostic refused_ours(const std::string& log, const std::string& what, const std::string& folder) {
  Diagnostic d = error(Code::kCompilerFailed, "the host compiler failed on {}", what);
  d.notes = first_lines(log, kMostLines);
  d.notes.push_back("the generated sources are kept in " + folder);
  return d;
}

Diagnostic refused_user(const std::string& log, const UserSource& user) {
  const kernel_ir::UserCode& code = *user.code;
  std::vector<Message> all = messages_of(log);
  std::erase_if(all, [](const Message& m) { return m.kind == "warning"; });
  auto is_error = [](const Message& m) { return m.kind != "note"; };
  auto first =
      std::find_if(all.begin(), all.end(), [&](const Message& m) { return is_error(m) && m.file == user_file(code); });
  Diagnostic d = error(Code::kUserCode, "kernel `{}` does not compile", code.name);
  d.help = "the source must define " + user.prototype;
  auto where = std::make_shared<Location>(Location{user_file(code), static_cast<int>(code.line), 0, "", ""});
  if (first != all.end()) {
    d.message += ": " + first->text;
    *where = {first->file, first->line, first->column, "", line_of(code, first->line)};
    if (static_cast<size_t>(where->column) > where->text.size() + 1) where->column = 0;
  } else if (auto any = std::find_if(all.begin(), all.end(), is_error); any != all.end()) {
    d.message += ": " + any->text;  // of the check behind the user's text, or of a header
    first = any;
  } else {
    d.message += ": " + log.substr(0, log.find('\n'));
  }
  d.location = std::move(where);
  for (auto m = all.begin(); m != all.end() && d.notes.size() < kMostLines; ++m)
    if (m != first) d.notes.push_back(fmt::format("{}:{}: {}: {}", m->file, m->line, m->kind, m->text));
  return d;
}

std::optional<Diagnostic> missing_symbols(const std::string& log, const std::vector<SourceFile>& sources) {
  static const std::regex kForm(R"((user_\d+\.cc).*undefined reference to [`']([^`']+)')");
  std::istringstream lines(log);
  std::smatch m;
  for (std::string line; std::getline(lines, line);) {
    if (line.size() > 2000 || !std::regex_search(line, m, kForm)) continue;
    auto source = std::find_if(sources.begin(), sources.end(), [&](const SourceFile& s) { return s.name == m[1]; });
    if (source == sources.end() || !source->user) continue;
    const kernel_ir::UserCode& code = *source->user->code;
    Diagnostic d = error(Code::kUserCode, "kernel `{}` uses `{}`, which neither its source nor libc or libm defines",
                         code.name, m[2].str());
    d.location = std::make_shared<Location>(
        Location{user_file(code), static_cast<int>(code.line), 0, "", line_of(code, static_cast<int>(code.line))});
    d.help = "kernels use no C++ library beyond its headers: no allocation, exceptions, streams or containers";
    return d;
  }
  return std::nullopt;
}

}  // namespace nabla::codegen
