#include "codegen/print/expr_printer.h"

#include <algorithm>
#include <cmath>

#include "ir/kernel_ir/packs.h"

namespace nabla::codegen {

using kernel_ir::Expr;
using kernel_ir::ExprKind;

namespace {
struct TypeRow {
  const char *storage, *compute;
};
// By DType.
constexpr TypeRow kTypes[kDTypeCount] = {{"bool", "bool"},     {"nb_i8", "nb_i8"},       {"short", "short"},
                                         {"int", "int"},       {"long", "long"},         {"nb_u8", "nb_u8"},
                                         {"nb_u16", "nb_u16"}, {"unsigned", "unsigned"}, {"nb_u64", "nb_u64"},
                                         {"nb_f16", "float"},  {"nb_bf16", "float"},     {"float", "float"},
                                         {"double", "double"}, {"nb_f8e4m3", "float"},   {"nb_f8e5m2", "float"}};

// Computed in float and rounded when stored, or when a program converts to them.
// Narrow floats are computed in f32 and rounded where they are stored. What jumps between neighbouring numbers must see them
// rounded: an element equals a maximum that was stored only so.
bool jumps(const Expr& call) {
  static constexpr std::string_view kJumping[] = {"eq",   "ne",    "lt",   "le",  "gt",    "ge",
                                                  "sign", "floor", "ceil", "round", "trunc"};
  bool to_integer = call->fn->name == "convert" && !is_float(call->dtype);
  return to_integer || std::ranges::find(kJumping, call->fn->name) != std::end(kJumping);
}
bool is_rounded(const Expr& e) {
  return e->kind == ExprKind::kLoad || e->kind == ExprKind::kConst || is_convert(e);
}

const char* infix(std::string_view fn) {
  if (fn == "add") return "+";
  if (fn == "sub") return "-";
  if (fn == "mul") return "*";
  if (fn == "div") return "/";
  return nullptr;
}
// Infix operators are right for floats and for integers of at least int's width; division of integers is not C++'s.
bool prints_infix(const Expr& e) {
  if (!infix(e->fn->name)) return false;
  if (is_float(e->dtype)) return true;
  return e->fn->name != "div" && bytes_of(e->dtype) >= 4;
}
}  // namespace

std::string storage_type(DType d) { return kTypes[static_cast<int>(d)].storage; }
std::string compute_type(DType d) { return kTypes[static_cast<int>(d)].compute; }
std::string vector_type(DType d) { return d == DType::kBool ? "nb_mask" : "nb_vec<" + compute_type(d) + ">"; }

std::string cpp_name(const std::string& name) {
  // Words of C++20, macros that compilers define, and what generated functions call their arguments.
  static const std::set<std::string, std::less<>> kTaken = {
      "alignas",      "alignof",  "and",      "and_eq",    "args",       "asm",          "auto",
      "begin",        "bitand",   "bitor",    "bool",      "break",      "case",         "catch",
      "char",         "char16_t", "char32_t", "char8_t",   "class",      "co_await",     "co_return",
      "co_yield",     "compl",    "concept",  "const",     "const_cast", "consteval",    "constexpr",
      "constinit",    "continue", "decltype", "default",   "delete",     "do",           "double",
      "dynamic_cast", "else",     "end",      "enum",      "explicit",   "export",       "extern",
      "false",        "float",    "for",      "friend",    "goto",       "i386",         "if",
      "inline",       "int",      "l",        "linux",     "long",       "mutable",      "n",
      "namespace",    "new",      "noexcept", "not",       "not_eq",     "nullptr",      "operator",
      "or",           "or_eq",    "private",  "protected", "public",     "register",     "reinterpret_cast",
      "requires",     "return",   "short",    "signed",    "sizeof",     "static",       "static_assert",
      "static_cast",  "struct",   "switch",   "template",  "this",       "thread_local", "throw",
      "true",         "try",      "typedef",  "typeid",    "typename",   "union",        "unix",
      "unsigned",     "using",    "virtual",  "void",      "volatile",   "wchar_t",      "while",
      "xor",          "xor_eq"};
  // With one more underscore after those that a taken word has already, so that names that differ stay different.
  std::string_view word = name;
  while (word.size() > 1 && word.back() == '_') word.remove_suffix(1);
  bool ours = false;
  for (const char* prefix : {"nb_", "nk_", "s_", "sd_", "_"}) ours |= word.starts_with(prefix);
  return ours || kTaken.contains(word) ? name + "_" : name;
}

std::string number_text(DType dtype, double number, int64_t integer) {
  if (dtype == DType::kBool) return integer ? "true" : "false";
  if (!is_float(dtype)) {
    if (dtype == DType::kI64) return integer == INT64_MIN ? "(-9223372036854775807L - 1)" : fmt::format("{}L", integer);
    if (dtype == DType::kU64) return fmt::format("{}UL", static_cast<uint64_t>(integer));
    if (dtype == DType::kU32) return fmt::format("{}u", integer);
    if (dtype == DType::kI32) return integer == INT32_MIN ? "(-2147483647 - 1)" : fmt::format("{}", integer);
    return fmt::format("({})({})", compute_type(dtype), integer);
  }
  bool f64 = dtype == DType::kF64;
  if (std::isnan(number)) return f64 ? "__builtin_nan(\"\")" : "__builtin_nanf(\"\")";
  if (std::isinf(number)) return std::string(number < 0 ? "-" : "") + (f64 ? "__builtin_inf()" : "__builtin_inff()");
  std::string digits = f64 ? fmt::format("{}", number) : fmt::format("{}", static_cast<float>(number));
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return f64 ? digits : digits + "f";
}

bool is_math(std::string_view fn) {
  // The rows of NB_MATH in prelude.h and special.h.
  static const std::set<std::string_view> kNames = {"exp",  "expm1",  "log",  "log1p", "tanh",  "erf",  "sin",
                                                    "cos",  "erfc",   "exp2", "log2",  "asin",  "acos", "atan",
                                                    "sinh", "erfinv", "cosh", "asinh", "acosh", "atanh"};
  return kNames.contains(fn);
}

// Names that differ stay different, also those of parts and coordinates ("batch.local", "tp.index") and those with signs.
std::string symbol_variable(const ir::Symbol& symbol) {
  auto is_word = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); };
  auto plain = [&](char c) { return is_word(c) || c == '_'; };
  if (std::all_of(symbol.name.begin(), symbol.name.end(), plain)) return "s_" + symbol.name;
  std::string out = "sd_";
  for (char c : symbol.name)
    out += is_word(c) ? std::string(1, c) : c == '.' ? "_d" : c == '_' ? "_u" : fmt::format("_x{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::string size_text(const ir::Dim& size) {
  using Op = ir::SizeStep::Op;
  std::vector<std::string> stack;
  for (const ir::SizeStep& step : size.steps()) {
    if (step.op == Op::kConstant || step.op == Op::kSymbol) {
      stack.push_back(step.op == Op::kSymbol ? symbol_variable(*step.symbol) : fmt::format("{}", step.value));
      continue;
    }
    std::string b = std::move(stack.back());
    stack.pop_back();
    std::string& a = stack.back();
    if (step.op == Op::kAdd || step.op == Op::kMul) {
      a = fmt::format("({} {} {})", a, step.op == Op::kAdd ? "+" : "*", b);
    } else {
      const char* fn = step.op == Op::kFloorDiv ? "floordiv"
                       : step.op == Op::kMod    ? "mod"
                       : step.op == Op::kMin    ? "minimum"
                                                : "maximum";
      a = fmt::format("nb_{}(long({}), long({}))", fn, a, b);
    }
  }
  return stack.back();
}

ir::Shape ExprPrinter::value_shape(int value) const {
  ir::Shape shape;
  for (int a : k_.values[value].axes) shape.push_back(k_.axes[a].extent);
  return shape;
}

bool ExprPrinter::varies(const Expr& e) {
  if (lane_axis < 0) return false;
  auto it = varies_.find(e.id());
  if (it != varies_.end()) return it->second;
  bool v = e->kind == ExprKind::kAxis && e->ref == lane_axis;
  if (e->kind == ExprKind::kValue) v |= places_.at(e->ref).vector;
  for (const Expr& a : e->args) v |= varies(a);
  if (e->guard) v |= varies(e->guard) || varies(e->fill);
  return varies_[e.id()] = v;
}

void ExprPrinter::count_uses(const Expr& e) {
  if (++uses_[e.id()] > 1) return;
  // Indices are printed as address arithmetic, not through temporaries.
  if (e->kind == ExprKind::kLoad || e->kind == ExprKind::kValue) return;
  for (const Expr& a : e->args) count_uses(a);
}

std::string ExprPrinter::print(const Expr& e) {
  if (uses_.find(e.id()) == uses_.end()) count_uses(e);
  if (auto it = done_.find(e.id()); it != done_.end()) return it->second;
  std::string text = print_node(e);
  bool trivial = e->kind == ExprKind::kConst || e->kind == ExprKind::kAxis ||
                 (e->kind == ExprKind::kValue && !places_.at(e->ref).row);
  if (uses_[e.id()] > 1 && !trivial) {
    std::string name = fmt::format("t{}_", next_temp_++);
    out_.line(fmt::format("const auto {} = {};", name, text));
    text = name;
  }
  return done_[e.id()] = text;
}

std::string ExprPrinter::print_vector(const Expr& e) {
  std::string text = print(e);
  return lane_axis < 0 || varies(e) ? text : fmt::format("nb_splat<{}>({})", vector_type(e->dtype), text);
}

std::string ExprPrinter::print_node(const Expr& e) {
  switch (e->kind) {
    case ExprKind::kConst:
      return number_text(e->dtype, e->number, e->integer);
    case ExprKind::kDim:
      return size_text(e->dim);
    case ExprKind::kAxis: {
      std::string name = cpp_name(k_.axes[e->ref].name);
      if (e->ref != lane_axis) return name;
      return at_lane_ ? "(" + name + " + l)" : "nb_iota(" + name + ")";
    }
    case ExprKind::kLoad:
      return print_load(e);
    case ExprKind::kValue:
      return print_value(e);
    case ExprKind::kCall:
      return print_call(e);
  }
  return "";
}

std::string ExprPrinter::offset(const std::vector<Expr>& indices, const ir::Shape& shape) {
  Expr flat = kernel_ir::index(0);
  for (size_t d = 0; d < indices.size(); ++d) flat = flat * kernel_ir::dim(shape[d]) + indices[d];
  std::optional<kernel_ir::Affine> affine = kernel_ir::as_affine(flat);
  ExprPrinter scalar(k_, places_, out_, next_temp_);
  if (!affine) {
    scalar.lane_axis = lane_axis;
    scalar.at_lane_ = at_lane_;
    return scalar.print(flat);
  }
  std::string out;
  for (const auto& [a, c] : affine->coefficients) {
    std::string name = cpp_name(k_.axes[a].name);
    if (a == lane_axis && at_lane_) name = "(" + name + " + l)";
    out += (out.empty() ? "" : " + ") + name + (c.is(1) ? "" : " * " + size_text(c));
  }
  const ir::Dim& constant = affine->constant;
  if (constant.is(0) && !out.empty()) return out;
  if (out.empty()) return size_text(constant);
  if (!constant.is_static()) return out + " + " + size_text(constant);
  return out + fmt::format(" {} {}", constant.value() < 0 ? "-" : "+", std::abs(constant.value()));
}

std::optional<int64_t> ExprPrinter::lane_stride(const std::vector<Expr>& indices, const ir::Shape& shape) {
  return kernel_ir::stride_along(indices, shape, lane_axis, [this](const Expr& e) { return varies(e); });
}

std::string ExprPrinter::print_load(const Expr& e) {
  const kernel_ir::Buffer& b = k_.buffers[e->ref];
  std::string name = cpp_name(b.name);
  if (!varies(e) || at_lane_) {
    std::string at = fmt::format("nb_widen({}[{}])", name, offset(e->args, b.shape));
    return e->guard ? fmt::format("({} ? {} : {})", print(e->guard), at, print(e->fill)) : at;
  }
  std::optional<int64_t> stride = lane_stride(e->args, b.shape);
  bool uniform_guard = !e->guard || (!varies(e->guard) && !varies(e->fill));
  if (!uniform_guard || stride != 1) return gather(e);
  // The axis name stands for the first lane, so the offset text is the first lane's address.
  ExprPrinter first(k_, places_, out_, next_temp_);
  std::string at = first.offset(e->args, b.shape);
  std::string text = fmt::format("nb_load{}<{}>({} + {}, {})", out_.large_kernel ? "_called" : "",
                                 vector_type(e->dtype), name, at, tail);
  if (!e->guard) return text;
  return fmt::format("({} ? {} : nb_splat<{}>({}))", print(e->guard), text, vector_type(e->dtype), print(e->fill));
}

// Lane by lane, in scalar arithmetic.
std::string ExprPrinter::gather(const Expr& e) {
  CppWriter body;
  body.large_kernel = out_.large_kernel;
  std::string text = print_at_lane(e, body);
  if (e->dtype == DType::kBool) text = "-int(" + text + ")";
  std::string lines = body.take();
  for (char& c : lines)
    if (c == '\n') c = ' ';
  return fmt::format("nb_each<{}>({}, [&](long l) {{ {}return {}; }})", vector_type(e->dtype), tail, lines, text);
}

std::string ExprPrinter::print_at_lane(const Expr& e, CppWriter& out) {
  ExprPrinter scalar(k_, places_, out, next_temp_);
  scalar.lane_axis = lane_axis;
  scalar.at_lane_ = true;
  // In scalar arithmetic the lane shows in the axis' name and in the lanes of vector values.
  return scalar.print(e);
}

std::string ExprPrinter::print_value(const Expr& e) {
  const ValuePlace& place = places_.at(e->ref);
  std::string name = cpp_name(k_.values[e->ref].name);
  if (!place.row)
    return place.vector && at_lane_ ? (e->dtype == DType::kBool ? "bool(" + name + "[l])" : name + "[l]") : name;
  ir::Shape shape = value_shape(e->ref);
  bool moving = false;
  for (const Expr& a : e->args) moving |= varies(a);
  if (place.vector) {
    if (moving && !at_lane_) return gather(e);  // every lane looks up a place of its own
    std::string text = fmt::format("{}[{}]", name, offset(e->args, shape));
    return at_lane_ ? (e->dtype == DType::kBool ? "bool(" + text + "[l])" : text + "[l]") : text;
  }
  if (!moving || at_lane_) return fmt::format("{}[{}]", name, offset(e->args, shape));
  std::optional<int64_t> stride = lane_stride(e->args, shape);
  if (stride != 1) return gather(e);
  ExprPrinter first(k_, places_, out_, next_temp_);
  return fmt::format("nb_load<{}>({} + {}, {})", vector_type(e->dtype), name, first.offset(e->args, shape), tail);
}

std::string ExprPrinter::print_call(const Expr& e) {
  std::string_view fn = e->fn->name;
  bool vector = varies(e) && !at_lane_;
  auto operand = [&](int i) {
    const Expr& x = e->args[i];
    std::string text = vector ? print_vector(x) : print(x);
    bool rounds = is_narrow_float(x->dtype) && jumps(e) && !is_rounded(x);
    return rounds ? fmt::format("nb_round_to<{}>({})", storage_type(x->dtype), text) : text;
  };
  // true is -1 in masks: order comparisons of bools turn round.
  bool turned = vector && e->args[0]->dtype == DType::kBool && (fn == "lt" || fn == "le" || fn == "gt" || fn == "ge");
  if (turned) return fmt::format("nb_{}({}, {})", fn, operand(1), operand(0));
  if (fn == "select") {
    std::string predicate = vector && !varies(e->args[0]) ? print(e->args[0]) : operand(0);
    std::string a = operand(1), b = operand(2);
    if (!vector) return fmt::format("({} ? {} : {})", predicate, a, b);
    return fmt::format("nb_select({}, {}, {})", predicate, a, b);
  }
  if (fn == "convert") {
    DType from = e->args[0]->dtype;
    const Expr& wide = e->args[0];
    bool widened = is_narrow_float(e->dtype) && from == DType::kF32 && is_convert(wide);
    if (widened && wide->args[0]->dtype == e->dtype && is_rounded(wide->args[0]))
      return vector ? print_vector(wide->args[0]) : print(wide->args[0]);  // widening loses nothing
    if (vector && e->dtype == DType::kI32 && e->args[0]->kind == ExprKind::kAxis)
      return "nb_iota32(" + cpp_name(k_.axes[lane_axis].name) + ")";
    std::string x = operand(0);
    if (is_narrow_float(e->dtype)) {
      if (from == DType::kF64 || (is_integer(from) && bytes_of(from) >= 4))
        x = fmt::format("nb_odd({})", x);
      else if (!is_float(from))
        x = fmt::format("{}<float>({})", vector && from == DType::kBool ? "nb_convert_mask" : "nb_convert", x);
      return fmt::format("nb_round_to<{}>({})", storage_type(e->dtype), x);
    }
    if (compute_type(from) == compute_type(e->dtype)) return x;
    if (vector && from == DType::kBool) return fmt::format("nb_convert_mask<{}>({})", compute_type(e->dtype), x);
    return fmt::format("nb_convert<{}>({})", compute_type(e->dtype), x);
  }
  if (fn == "bitcast")
    return fmt::format("nb_bitcast<{}, {}>({})", storage_type(e->dtype), storage_type(e->args[0]->dtype), operand(0));
  if (fn == "philox") {
    if (vector && (varies(e->args[0]) || varies(e->args[1]))) return gather(e);
    // The key is one for all lanes; only the counter varies.
    return fmt::format("nb_philox({}, {}, {})", print(e->args[0]), print(e->args[1]), operand(2));
  }
  if (fn == "not" && e->dtype != DType::kBool && !vector)
    return fmt::format("{}(~{})", compute_type(e->dtype), operand(0));
  if (prints_infix(e)) return fmt::format("({} {} {})", operand(0), infix(fn), operand(1));
  std::string args;
  for (int i = 0; i < e->fn->arity; ++i) args += (i ? ", " : "") + operand(i);
  return fmt::format("nb_{}{}({})", fn, out_.large_kernel && is_math(fn) ? "_called" : "", args);
}

}  // namespace nabla::codegen
