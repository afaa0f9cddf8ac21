#include "codegen/compiler_messages.h"

#include <algorithm>
#include <charconv>
#include <regex>
#include <set>
#include <sstream>

namespace nabla::codegen {
namespace {

int number(const std::string& s) {
  int v = 0;
  std::from_chars(s.data(), s.data() + s.size(), v);
  return v;
}

std::string line_of(const kernel_ir::UserText& user, int64_t line) {
  std::istringstream text(user.text);
  std::string out;
  for (int64_t at = user.line; std::getline(text, out); ++at)
    if (at == line) return out;
  return "";
}

// NVRTC shows the source line, moved by two, and a caret below it.
int column_of(const std::string& caret) {
  size_t at = caret.find_first_not_of(' ');
  return at != std::string::npos && at >= 2 && caret.compare(at, std::string::npos, "^") == 0 ? at - 1 : 0;
}

}  // namespace

std::vector<CompilerMessage> compiler_messages(const std::string& log) {
  // "kernels.cc:12:5: error: ..." and "kernels.cu(12): error: ...", "kernels.cu(12): warning #177-D: ..."
  static const std::regex kHost(R"(^(.+?):(\d+):(\d+): (fatal error|error|warning|note): (.*)$)");
  static const std::regex kNvrtc(
      R"(^(.+?)\((\d+)\): (catastrophic error|error|warning|remark|note)(?: #[\w-]+)?: (.*)$)");
  std::vector<std::string> lines;
  std::istringstream in(log);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::vector<CompilerMessage> out;
  std::smatch m;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].size() >= 2000) continue;
    if (std::regex_match(lines[i], m, kHost))
      out.push_back({m[1], number(m[2]), number(m[3]), m[4], m[5]});
    else if (std::regex_match(lines[i], m, kNvrtc))
      out.push_back({m[1], number(m[2]), i + 2 < lines.size() ? column_of(lines[i + 2]) : 0, m[3], m[4]});
  }
  return out;
}

std::string user_file(const kernel_ir::UserText& text) {
  std::string out = text.file.empty() ? "user kernel" : text.file;
  for (char& c : out)
    if (c == '"' || static_cast<unsigned char>(c) < ' ') c = '?';
  return out;
}

LocationRef user_location(const kernel_ir::UserText& text, int64_t line) {
  return std::make_shared<Location>(Location{user_file(text), static_cast<int>(line), 0, "", line_of(text, line)});
}

namespace {

// What looks like the definition of a function: "`f`, `g`". Text in comments may, too.
std::string functions_of(const std::string& text) {
  static const std::regex kForm(R"((\w+)\s*\([^(){};]*\)\s*\{)");
  static const std::set<std::string> kWords = {"if", "for", "while", "switch", "catch"};
  std::string out;
  std::set<std::string> seen = kWords;
  for (std::sregex_iterator at(text.begin(), text.end(), kForm), end; at != end; ++at)
    if (seen.insert((*at)[1]).second) out += fmt::format("{}`{}`", out.empty() ? "" : ", ", (*at)[1].str());
  return out;
}

// The check after the text looks for the function in a namespace of ours, by whose name messages call it.
bool lacks_function(const CompilerMessage& m) {
  auto says = [&](const char* what) { return m.text.find(what) != m.text.npos; };
  return says("nb_user_") && (says("has no member ") || says("is not a member of") || says("no member named"));
}

}  // namespace

Diagnostic refused_user(const std::string& log, const UserSource& user) {
  std::vector<CompilerMessage> all = compiler_messages(log);
  std::erase_if(all, [](const CompilerMessage& m) { return m.kind == "warning" || m.kind == "remark"; });
  auto is_error = [](const CompilerMessage& m) { return m.kind != "note"; };
  auto first = std::find_if(all.begin(), all.end(),
                            [&](const CompilerMessage& m) { return is_error(m) && m.file == user_file(user.text); });
  auto any = std::find_if(all.begin(), all.end(), is_error);
  Diagnostic d = error(Code::kUserCode, "kernel `{}` does not compile", user.name);
  d.help = "the source must define " + user.prototype;
  Location where{user_file(user.text), static_cast<int>(user.text.line), 0, "", ""};
  if (first != all.end()) {
    d.message += ": " + first->text;
    where = *user_location(user.text, first->line);
    where.column = static_cast<size_t>(first->column) > where.text.size() + 1 ? 0 : first->column;
  } else if (any != all.end() && lacks_function(*any)) {
    const std::string has = functions_of(user.text.text);
    d.message = fmt::format("kernel `{0}`: its source defines no function `{0}`; it defines {1}", user.name, has.empty() ? "none" : has);
    all.clear(), first = all.end();  // the others follow from it
  } else if (any != all.end()) {
    d.message += ": " + any->text;  // of the check after the user's text, or of a header
    first = any;
  } else {
    d.message += ": " + log.substr(0, log.find('\n'));
  }
  d.location = std::make_shared<Location>(std::move(where));
  for (auto m = all.begin(); m != all.end() && d.notes.size() < kMostLogLines; ++m)
    if (m != first) d.notes.push_back(fmt::format("{}:{}: {}: {}", m->file, m->line, m->kind, m->text));
  return d;
}

Diagnostic user_beyond_limits(Diagnostic d, const UserSource& user) {
  d.code = Code::kUserCode;
  d.location = user_location(user.text, user.text.line);
  d.help = "use less of what the message names";
  return d;
}

}  // namespace nabla::codegen
