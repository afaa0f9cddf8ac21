#include "codegen/print/procedure_call.h"

#include <cctype>

#include "codegen/print/expr_printer.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

std::string kernel_symbol(const Kernel& kernel) {
  std::string symbol = "nk_" + kernel.name;
  for (char& c : symbol)
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  return symbol;
}

void print_procedure(const Kernel& kernel, int64_t unit, const std::string& loop, CppWriter& out,
                     const std::string& prefix) {
  const Procedure& p = *kernel.procedure;
  std::string scratch = "nullptr", args, results, operands;
  for (size_t i = 1; i < p.numbers.size(); ++i) args += ", " + size_text(p.numbers[i]);
  for (const Buffer& b : kernel.buffers) {
    if (b.role == BufferRole::kOut) results += ", " + cpp_name(b.name);
    if (b.role == BufferRole::kIn) operands += ", " + cpp_name(b.name);
    if (b.role == BufferRole::kWorkspace)
      scratch = fmt::format("(char*){} + u_ * {}", cpp_name(b.name), size_text(b.shape[1]));
  }
  out.line(fmt::format("const long rows_ = {};", size_text(p.rows())));
  out.open(loop);
  out.line(fmt::format("const long last_ = (u_ + 1) * {0} < rows_ ? (u_ + 1) * {0} : rows_;", unit));
  out.line(fmt::format("{}{}({}, u_ * {}, last_{}{}{});", prefix, p.def->name, scratch, unit, args, results, operands));
  out.close();
}

}  // namespace nabla::codegen
