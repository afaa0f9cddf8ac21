#include "codegen/cpu/user_printer.h"

#include "codegen/print/expr_printer.h"
#include "codegen/user_text.h"

namespace nabla::codegen {
namespace {

using kernel_ir::Buffer;
using kernel_ir::Kernel;
using kernel_ir::UserCode;

void print_body(const Kernel& kernel, const std::string& callee, CppWriter& out) {
  const kernel_ir::Procedure& p = *kernel.procedure;
  const UserCode& user = *p.user;
  std::vector<ir::SymbolRef> symbols = symbols_of(kernel);
  for (size_t i = 0; i < symbols.size(); ++i)
    out.line(fmt::format("const long {} = extents[{}];", symbol_variable(*symbols[i]), i));
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    const Buffer& b = kernel.buffers[i];
    out.line(
        fmt::format("{0} nb_p{1} = ({0})args[{1}];  // {2}", user_pointer(b), i, ir::Type(b.dtype, b.shape).str()));
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
  std::string call = fmt::format("{}({}{});", callee, args, args.empty() && !sizes.empty() ? sizes.substr(2) : sizes);
  if (user.rows < 0) {
    out.line("if (begin == 0 && end > 0) " + call);
    return;
  }
  out.line(fmt::format("const long nb_rows = {};", size_text(p.outer())));
  out.open("for (long nb_unit = begin; nb_unit < end; ++nb_unit) {");
  out.line(fmt::format("const long nb_first = nb_unit * {};", cpu_schedule_of(kernel).unit));
  out.line(fmt::format("const long nb_last = nb_minimum(nb_first + {}, nb_rows);", cpu_schedule_of(kernel).unit));
  out.line(call);
  out.close();
}

}  // namespace

// The kernel and the types stand before the user's text, and after it one check by names that the text cannot hold.
std::string print_user_cpp(const Kernel& kernel, const std::string& symbol) {
  UserFile file(kernel, kernel.procedure->user->cpp);
  std::string call = file.name("call"), type = file.name("type");
  std::string out = "#include <stdint.h>\n" + file.head();
  out += fmt::format("namespace {{ extern {}* const {}; }}\n", type, call) + kUserSizeFunctions;
  CppWriter writer;
  bool sized = !symbols_of(kernel).empty();
  writer.open(fmt::format("extern \"C\" void {}(void* const* args, const long*{}, long begin, long end) {{", symbol,
                          sized ? " extents" : ""));
  print_body(kernel, call, writer);
  writer.close();
  out += writer.take() + file.enclosed(user_prototype(kernel), {});
  return out + fmt::format("{}* const {} = {};\n}}\n", type, call, file.function());
}

}  // namespace nabla::codegen
