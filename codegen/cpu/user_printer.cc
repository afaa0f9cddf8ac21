#include "codegen/cpu/user_printer.h"

#include <sstream>
#include <vector>

#include "codegen/compiler_messages.h"
#include "codegen/cpu/expr_printer.h"
#include "runtime/format/sha256.h"

namespace nabla::codegen {
namespace {

using kernel_ir::Buffer;
using kernel_ir::BufferRole;
using kernel_ir::Kernel;
using kernel_ir::UserCode;

// Types of the user's pointers: those of the language, without ours for narrow floats.
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
  for (const Buffer& b : kernel.buffers)
    add((b.role == BufferRole::kIn ? "const " : "") + user_type(b.dtype) + "*", b.name);
  for (const std::string& size : kernel.procedure->user->sizes) add("int64_t", size);
  return out;
}

// A line's first word behind `#`; empty: not a directive.
std::string directive(const std::string& line) {
  size_t at = line.find_first_not_of(" \t");
  if (at == std::string::npos || line[at] != '#') return "";
  at = line.find_first_not_of(" \t", at + 1);
  if (at == std::string::npos) return "";
  size_t end = at;
  while (end < line.size() && isalpha(static_cast<unsigned char>(line[end]))) ++end;
  return line.substr(at, end - at);
}

struct Cut {
  std::string head, tail;
  int64_t tail_line;
};

// Headers stay outside of the namespace: the text is cut behind the last #include, or the #endif around it.
Cut cut_behind_includes(const UserCode& user) {
  Cut out{"", "", user.line};
  std::istringstream text(user.text);
  std::string seen;
  int64_t number = user.line;
  int depth = 0;
  bool pending = false, in_comment = false;
  for (std::string line; std::getline(text, line); ++number) {
    seen += line + "\n";
    std::string word = in_comment ? "" : directive(line);
    for (size_t at = 0; at + 1 < line.size(); ++at) {
      std::string_view two = std::string_view(line).substr(at, 2);
      if (!in_comment && two == "//") break;
      if (two == (in_comment ? "*/" : "/*")) in_comment = !in_comment, ++at;
    }
    if (word == "if" || word == "ifdef" || word == "ifndef") ++depth;
    if (word == "endif") --depth;
    pending |= word == "include";
    if (!pending || depth != 0 || in_comment) continue;
    out.head = seen;
    out.tail_line = number + 1;
    pending = false;
  }
  out.tail = seen.substr(out.head.size());
  return out;
}

std::string line_directive(int64_t line, const UserCode& user) {
  std::string name;
  for (char c : user_file(user)) {
    if (c == '\\') name += '\\';
    name += c;
  }
  return fmt::format("#line {} \"{}\"\n", line, name);
}

// What size_text may call.
constexpr const char* kSizeFunctions = R"(
static inline long nb_mod(long a, long b) { return (a % b + b) % b; }
static inline long nb_floordiv(long a, long b) { return (a - nb_mod(a, b)) / b; }
static inline long nb_minimum(long a, long b) { return a < b ? a : b; }
static inline long nb_maximum(long a, long b) { return a > b ? a : b; }
)";

void print_body(const Kernel& kernel, const std::string& mark, CppWriter& out) {
  const kernel_ir::Procedure& p = *kernel.procedure;
  const UserCode& user = *p.user;
  std::vector<ir::SymbolRef> symbols = symbols_of(kernel);
  for (size_t i = 0; i < symbols.size(); ++i)
    out.line(fmt::format("const long {} = extents[{}];", symbol_variable(*symbols[i]), i));
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    const Buffer& b = kernel.buffers[i];
    std::string type = (b.role == BufferRole::kIn ? "const " : "") + user_type(b.dtype) + "*";
    out.line(fmt::format("{0} nb_p{1} = ({0})args[{1}];  // {2}", type, i, ir::Type(b.dtype, b.shape).str()));
  }
  std::string args, sizes;
  for (size_t i = 0; i < user.sizes.size(); ++i)
    sizes +=
        ", " + (static_cast<int>(i) == user.rows ? std::string("nb_last - nb_first") : size_text(p.numbers[3 + i]));
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    args += fmt::format("{}nb_p{}", i ? ", " : "", i);
    if (!user.by_rows[i]) continue;
    ir::Shape row(kernel.buffers[i].shape.begin() + 1, kernel.buffers[i].shape.end());
    args += " + nb_first * " + size_text(ir::Type(DType::kU8, row).count());
  }
  std::string call =
      fmt::format("nb_call_{}({}{});", mark, args, args.empty() && !sizes.empty() ? sizes.substr(2) : sizes);
  if (user.rows < 0) {
    out.line("if (begin == 0 && end > 0) " + call);
    return;
  }
  out.line(fmt::format("const long nb_rows = {};", size_text(p.numbers[0])));
  out.open("for (long nb_unit = begin; nb_unit < end; ++nb_unit) {");
  out.line(fmt::format("const long nb_first = nb_unit * {};", kernel.schedule.unit));
  out.line(fmt::format("const long nb_last = nb_minimum(nb_first + {}, nb_rows);", kernel.schedule.unit));
  out.line(call);
  out.close();
}

}  // namespace

std::string user_prototype(const Kernel& kernel) {
  return fmt::format("void {}({})", kernel.procedure->user->name, parameters(kernel, true));
}

// The kernel and the types stand before the user's text, where its macros do not reach. Behind it stands one check by
// names that the text cannot hold, because they hold its hash; of the other words that the check needs, macros are
// removed. The namespace has such a name, too, so that a text that leaves it cannot come back.
std::string print_user_cpp(const Kernel& kernel, const std::string& symbol) {
  const UserCode& user = *kernel.procedure->user;
  const std::string mark =
      format::sha256_hex({reinterpret_cast<const uint8_t*>(user.text.data()), user.text.size()}).substr(0, 32);
  Cut cut = cut_behind_includes(user);
  std::string out = fmt::format(R"(#include <stdint.h>
typedef void nb_type_{0}({1});
template <class> constexpr bool nb_fits_{0} = false;
template <> constexpr bool nb_fits_{0}<nb_type_{0}> = true;
template <> constexpr bool nb_fits_{0}<void({1}) noexcept> = true;
constexpr bool nb_inside_{0} = false;
namespace {{ extern nb_type_{0}* const nb_call_{0}; }}
)",
                                mark, parameters(kernel, false));
  out += kSizeFunctions;
  CppWriter writer;
  bool sized = !symbols_of(kernel).empty();
  writer.open(fmt::format("extern \"C\" void {}(void* const* args, const long*{}, long begin, long end) {{", symbol,
                          sized ? " extents" : ""));
  print_body(kernel, mark, writer);
  writer.close();
  out += writer.take();
  if (!cut.head.empty()) out += line_directive(user.line, user) + cut.head;
  out += fmt::format("namespace {{ namespace nb_user_{0} {{\nconstexpr bool nb_inside_{0} = true;\n", mark);
  if (user.type) out += fmt::format("using T = {};\n", user_type(*user.type));
  out += line_directive(cut.tail_line, user) + cut.tail;
  out += fmt::format("\n#line 1 \"generated\"\n#undef static_assert\n#undef decltype\n#undef const\n#undef {}\n",
                     user.name);
  out += fmt::format(R"(static_assert(nb_inside_{0}, "the source closes a brace that it does not open");
static_assert(nb_fits_{0}<decltype(nb_user_{0}::{1})>, "expected {2}");
}}
nb_type_{0}* const nb_call_{0} = nb_user_{0}::{1};
}}
)",
                     mark, user.name, user_prototype(kernel));
  return out;
}

}  // namespace nabla::codegen
