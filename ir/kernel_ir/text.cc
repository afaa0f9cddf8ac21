#include "ir/kernel_ir/text.h"

#include <fmt/core.h>

#include <cmath>

namespace nabla::kernel_ir {
namespace {

struct Infix {
  std::string_view fn, text;
  int precedence;
};
constexpr Infix kInfix[] = {{"or", "|", 1},  {"and", "&", 2}, {"eq", "==", 3}, {"ne", "!=", 3},
                            {"lt", "<", 3},  {"le", "<=", 3}, {"gt", ">", 3},  {"ge", ">=", 3},
                            {"add", "+", 4}, {"sub", "-", 4}, {"mul", "*", 5}, {"div", "/", 5}};

const Infix* infix(std::string_view fn) {
  for (const Infix& row : kInfix)
    if (row.fn == fn) return &row;
  return nullptr;
}

std::string number(const Expr& e) {
  std::string digits;
  if (is_float(e->dtype)) {
    if (std::isnan(e->number))
      digits = "nan";
    else if (std::isinf(e->number))
      digits = e->number > 0 ? "inf" : "-inf";
    else
      digits = fmt::format("{}", e->number);
  } else {
    if (e->dtype == DType::kBool) return e->integer ? "true" : "false";
    digits = is_unsigned(e->dtype) ? std::to_string(static_cast<uint64_t>(e->integer)) : std::to_string(e->integer);
    if (e->dtype == DType::kI64) return digits;
  }
  return digits + ":" + std::string(name_of(e->dtype));
}

class Printer {
 public:
  explicit Printer(const ExprNames& names) : names_(names) {}

  std::string print(const Expr& e, int outer) {
    switch (e->kind) {
      case ExprKind::kConst:
        return number(e);
      case ExprKind::kDim:
        return "dim(" + e->dim.str() + ")";
      case ExprKind::kAxis:
        return names_.axis(e->ref);
      case ExprKind::kValue:
        return names_.value(e->ref) + indices(e);
      case ExprKind::kLoad: {
        std::string out = names_.tensor(e->ref) + (e->args.empty() ? "[]" : indices(e));
        if (!e->guard) return out;
        return "(" + out + " if " + print(e->guard, 0) + " else " + print(e->fill, 0) + ")";
      }
      case ExprKind::kCall:
        return print_call(e, outer);
    }
    return "";
  }

 private:
  std::string indices(const Expr& e) {
    if (e->args.empty()) return "";
    return "[" + list(e->args) + "]";
  }
  std::string list(const std::vector<Expr>& args) {
    std::string out;
    for (const Expr& a : args) out += (out.empty() ? "" : ", ") + print(a, 0);
    return out;
  }
  std::string print_call(const Expr& e, int outer) {
    if (const Infix* op = infix(e->fn->name)) {
      std::string out =
          fmt::format("{} {} {}", print(e->args[0], op->precedence), op->text, print(e->args[1], op->precedence + 1));
      return op->precedence < outer ? "(" + out + ")" : out;
    }
    std::string name(e->fn->name);
    if (e->fn->result == ResultKind::kFirst && name != "select") name += "." + std::string(name_of(e->dtype));
    return name + "(" + list(e->args) + ")";
  }
  const ExprNames& names_;
};

}  // namespace

std::string to_text(const Expr& e, const ExprNames& names) { return Printer(names).print(e, 0); }

}  // namespace nabla::kernel_ir
