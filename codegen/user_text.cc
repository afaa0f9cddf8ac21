#include "codegen/user_text.h"

#include <optional>
#include <sstream>

#include "codegen/compiler_messages.h"
#include "runtime/base/text.h"
#include "runtime/format/sha256.h"

namespace nabla::codegen {
namespace {

using kernel_ir::Buffer;
using kernel_ir::BufferRole;
using kernel_ir::Kernel;
using kernel_ir::UserText;

std::string user_type(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "bool";
    case DType::kF32:
      return "float";
    case DType::kF64:
      return "double";
    case DType::kF16:
    case DType::kBF16:
      return "uint16_t";
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return "uint8_t";
    default:
      return fmt::format("{}int{}_t", is_unsigned(dtype) ? "u" : "", 8 * bytes_of(dtype));
  }
}

std::string parameters(const Kernel& kernel, bool named) {
  std::string out;
  auto add = [&](const std::string& type, const std::string& name) {
    out += (out.empty() ? "" : ", ") + type + (named ? " " + name : "");
  };
  for (const Buffer& b : kernel.buffers) add(user_pointer(b), b.name);
  for (const std::string& size : kernel.procedure->user->sizes) add("int64_t", size);
  return out;
}

// A line's first word after `#`; empty: not a directive.
std::string directive(const std::string& line) {
  size_t at = line.find_first_not_of(" \t");
  if (at == std::string::npos || line[at] != '#') return "";
  at = line.find_first_not_of(" \t", at + 1);
  if (at == std::string::npos) return "";
  size_t end = at;
  while (end < line.size() && isalpha(static_cast<unsigned char>(line[end]))) ++end;
  return line.substr(at, end - at);
}

// Calls f(line, number, word of its directive, whether a comment goes on after it) for every line of the text.
template <class F>
void each_line(const UserText& user, F f) {
  std::istringstream text(user.text);
  int64_t number = user.line;
  bool in_comment = false;
  for (std::string line; std::getline(text, line); ++number) {
    std::string word = in_comment ? "" : directive(line);
    for (size_t at = 0; at + 1 < line.size(); ++at) {
      std::string_view two = std::string_view(line).substr(at, 2);
      if (!in_comment && two == "//") break;
      if (two == (in_comment ? "*/" : "/*")) in_comment = !in_comment, ++at;
    }
    f(line, number, word, in_comment);
  }
}

struct Cut {
  std::string head, tail;
  int64_t tail_line;
};

// Headers stay outside of the namespace: the text is cut after the last #include, or the #endif around it.
Cut cut_behind_includes(const UserText& user) {
  Cut out{"", "", user.line};
  std::string seen;
  int depth = 0;
  bool pending = false;
  each_line(user, [&](const std::string& line, int64_t number, const std::string& word, bool in_comment) {
    seen += line + "\n";
    if (word == "if" || word == "ifdef" || word == "ifndef") ++depth;
    if (word == "endif") --depth;
    pending |= word == "include";
    if (!pending || depth != 0 || in_comment) return;
    out.head = seen;
    out.tail_line = number + 1;
    pending = false;
  });
  out.tail = seen.substr(out.head.size());
  return out;
}

std::string line_directive(int64_t line, const UserText& user) {
  std::string name;
  for (char c : user_file(user)) {
    if (c == '\\') name += '\\';
    name += c;
  }
  return fmt::format("#line {} \"{}\"\n", line, name);
}

// Does an #include, or what stands like one, name a header that is the compiler's own: <name>, below its own folders? Names that are
// macros may be anything.
bool names_a_header(const std::string& rest) {
  size_t at = rest.find_first_not_of(" \t");
  if (at == std::string::npos || rest[at] != '<') return false;
  std::string name = rest.substr(at + 1, rest.find('>', at) - at - 1);
  return !name.starts_with('/') && name.find("..") == name.npos;
}

}  // namespace

Status require_own_text(const kernel_ir::UserCode& user, const UserText& text) {
  std::optional<Diagnostic> refused;
  each_line(text, [&](const std::string& line, int64_t number, const std::string& word, bool) {
    if (refused || (word != "include" && word != "import" && word != "embed")) return;
    std::string rest = line.substr(line.find(word) + word.size());
    if (rest.starts_with("_next")) rest.erase(0, 5);
    if (word != "embed" && names_a_header(rest)) return;
    refused = error(Code::kUserCode, "kernel `{}` reads a file of its own: `{}`", user.name, shortened(line.substr(line.find('#'))));
    refused->location = user_location(text, number);
    refused->help = "put its text into the source; headers of the system are included by <name>";
    refused->notes.push_back("compiled kernels are kept by their source: they would stay as they are when that file changes");
  });
  if (refused) return std::move(*refused);
  return Ok{};
}

const char* const kUserSizeFunctions = R"(
static inline long nb_mod(long a, long b) { return (a % b + b) % b; }
static inline long nb_floordiv(long a, long b) { return (a - nb_mod(a, b)) / b; }
static inline long nb_minimum(long a, long b) { return a < b ? a : b; }
static inline long nb_maximum(long a, long b) { return a > b ? a : b; }
)";

std::string user_pointer(const Buffer& b) {
  return (b.role == BufferRole::kIn ? "const " : "") + user_type(b.dtype) + "*";
}

std::string user_prototype(const Kernel& kernel) {
  return fmt::format("void {}({})", kernel.procedure->user->name, parameters(kernel, true));
}

UserFile::UserFile(const Kernel& kernel, const UserText& text)
    : kernel_(kernel),
      user_(*kernel.procedure->user),
      text_(text),
      mark_(format::sha256_hex({reinterpret_cast<const uint8_t*>(text.text.data()), text.text.size()}).substr(0, 32)) {}

std::string UserFile::head() const {
  return fmt::format(R"(typedef void nb_type_{0}({1});
template <class> constexpr bool nb_fits_{0} = false;
template <> constexpr bool nb_fits_{0}<nb_type_{0}> = true;
template <> constexpr bool nb_fits_{0}<void({1}) noexcept> = true;
constexpr bool nb_inside_{0} = false;
)",
                     mark_, parameters(kernel_, false));
}

// The namespace's name holds the hash, too: a text that leaves it cannot come back.
std::string UserFile::enclosed(const std::string& prototype, std::initializer_list<const char*> words) const {
  Cut cut = cut_behind_includes(text_);
  std::string out;
  if (!cut.head.empty()) out += line_directive(text_.line, text_) + cut.head;
  out += fmt::format("namespace {{ namespace nb_user_{0} {{\nconstexpr bool nb_inside_{0} = true;\n", mark_);
  if (user_.type) out += fmt::format("using T = {};\n", user_type(*user_.type));
  out += line_directive(cut.tail_line, text_) + cut.tail;
  out += "\n#line 1 \"generated\"\n";
  for (const char* word : {"static_assert", "decltype", "const", user_.name.c_str()})
    out += fmt::format("#undef {}\n", word);
  for (const char* word : words) out += fmt::format("#undef {}\n", word);
  return out + fmt::format(R"(static_assert(nb_inside_{0}, "the source closes a brace that it does not open");
static_assert(nb_fits_{0}<decltype(nb_user_{0}::{1})>, "expected {2}");
}}
)",
                           mark_, user_.name, prototype);
}

}  // namespace nabla::codegen
