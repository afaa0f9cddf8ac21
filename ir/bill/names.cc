#include "ir/bill/names.h"

#include "ir/op_def.h"

namespace nabla::ir {

std::string postfix_of(const Dim& size) {
  static constexpr const char* kNames[] = {"", "", "+", "*", "floordiv", "mod", "min", "max"};  // by SizeStep::Op
  std::string out;
  for (const SizeStep& step : size.steps())
    out += (out.empty() ? "" : " ") + (step.op == SizeStep::Op::kConstant ? std::to_string(step.value)
                                       : step.symbol                      ? step.symbol->name
                                                                          : kNames[static_cast<int>(step.op)]);
  return out;
}

std::string place_of(const LocationRef& at) {
  return at && !at->file.empty() ? fmt::format("{}:{}", at->file, at->line) : "";
}

bool is_instruction(const Node& n) { return n.op->lower != Lowering::kView && n.op->lower != Lowering::kConstant; }

std::string made_by(const Node& n) {
  const Attr* kernel = n.attrs.find("kernel");
  return kernel ? std::get<std::string>(*kernel) : n.op->name;
}

std::string counted(int64_t n, std::string_view what) {
  if (n == 1) return fmt::format("{} {}", n, what);
  if (what.ends_with("y")) return fmt::format("{} {}ies", n, what.substr(0, what.size() - 1));
  return fmt::format("{} {}{}", n, what, what.ends_with("s") ? "es" : "s");
}

}  // namespace nabla::ir
