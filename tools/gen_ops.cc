// Prints the C++ frontend's functions, one per op record: `gen_ops header` and `gen_ops source`. A new op appears in
// the frontend by itself. Ops that take functions (call and the transforms) have hand-written forms instead.
#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "ir/ops/all_ops.h"

namespace nabla {
namespace {

using ir::AttrDef;
using ir::AttrKind;
using ir::OpDef;

bool is_generated(const OpDef& op) {
  if (!(op.stages & ir::stages(ir::Stage::kTraced, ir::Stage::kTraced))) return false;
  for (const AttrDef& a : op.attrs)
    if (a.kind == AttrKind::kFunction || a.kind == AttrKind::kFunctions || a.kind == AttrKind::kAxes ||
        a.kind == AttrKind::kSharding || a.kind == AttrKind::kShardings)
      return false;
  return true;
}

// C++ spells some operators with the names of ops.
std::string function_name(const OpDef& op) {
  for (std::string_view word : {"and", "or", "not", "xor"})
    if (op.name == word) return op.name + "_";
  return op.name;
}

int plain_results(const OpDef& op) {
  int n = 0;
  for (const ir::ResultDef& r : op.results) n += !r.auxiliary;
  return n;
}

std::string return_type(const OpDef& op) {
  return plain_results(op) == 1 ? "Tensor" : fmt::format("std::array<Tensor, {}>", plain_results(op));
}

std::string attr_type(AttrKind kind) {
  switch (kind) {
    case AttrKind::kBool:
      return "bool";
    case AttrKind::kInt:
      return "int64_t";
    case AttrKind::kFloat:
      return "double";
    case AttrKind::kString:
      return "std::string";
    case AttrKind::kDType:
      return "DType";
    case AttrKind::kInts:
      return "Ints";
    case AttrKind::kShape:
      return "Shape";
    case AttrKind::kLiteral:
      return "Literal";
    case AttrKind::kFunction:
    case AttrKind::kFunctions:
    case AttrKind::kAxes:
    case AttrKind::kSharding:
    case AttrKind::kShardings:
      break;
  }
  NABLA_CHECK(false, "attributes of this kind have no parameter type");
}

std::string default_text(const ir::Attr& value) {
  if (auto* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (auto* i = std::get_if<int64_t>(&value)) return fmt::format("{}", *i);
  if (auto* d = std::get_if<double>(&value)) return fmt::format("{}", *d);
  if (auto* s = std::get_if<std::string>(&value)) return fmt::format("\"{}\"", *s);
  if (auto* t = std::get_if<DType>(&value)) return std::string(name_of(*t));
  if (auto* v = std::get_if<ir::Ints>(&value)) {
    std::string out = "{";
    for (size_t i = 0; i < v->size(); ++i) out += fmt::format("{}{}", i ? ", " : "", (*v)[i]);
    return out + "}";
  }
  if (auto* shape = std::get_if<ir::Shape>(&value); shape && shape->empty()) return "{}";
  NABLA_CHECK(false, "defaults of this kind have no C++ spelling");
}

std::string parameter_name(const std::string& name) { return name == "operand" ? "x" : name; }

/// Required attributes first, then those with a default, then the caller's place.
std::string parameters(const OpDef& op, bool defaults) {
  std::string out;
  for (const ir::OperandDef& o : op.operands)
    out += fmt::format("const {}& {}, ", !o.variadic ? "Arg" : o.may_be_absent ? "std::vector<Arg>" : "Args",
                       parameter_name(o.name));
  for (const AttrDef& a : op.attrs)
    if (!a.default_value) out += fmt::format("{} {}, ", attr_type(a.kind), a.name);
  for (const AttrDef& a : op.attrs)
    if (a.default_value)
      out +=
          fmt::format("{} {}{}, ", attr_type(a.kind), a.name, defaults ? " = " + default_text(*a.default_value) : "");
  return out + (defaults ? "Site site = Site::here()" : "Site site");
}

std::string comment(const OpDef& op) {
  std::string text = op.doc, out;
  for (const ir::OperandDef& o : op.operands) text += fmt::format("\n  {}: {}", parameter_name(o.name), o.doc);
  for (const AttrDef& a : op.attrs) text += fmt::format("\n  {}: {}", a.name, a.doc);
  for (const ir::Constraint& c : op.constraints) text += fmt::format("\n  {}: {}", c.id, c.text);
  size_t begin = 0;
  while (begin <= text.size()) {
    size_t end = text.find('\n', begin);
    if (end == text.npos) end = text.size();
    out += "/// " + text.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return out;
}

void print_header(const OpDef& op) {
  fmt::print("{}{} {}({});\n\n", comment(op), return_type(op), function_name(op), parameters(op, true));
}

void print_source(const OpDef& op) {
  bool variadic = false;
  std::string operands, attrs, rest;
  for (const ir::OperandDef& o : op.operands) {
    if (o.variadic)
      variadic = true, rest = parameter_name(o.name) + (o.may_be_absent ? "" : ".list()");
    else
      operands += (operands.empty() ? "" : ", ") + parameter_name(o.name);
  }
  std::string rank_of = op.operands.empty() ? "" : parameter_name(op.operands[0].name);
  if (variadic && op.operands.size() == 1) rank_of += ".list().front()";
  for (const AttrDef& a : op.attrs) {
    bool axis = !rank_of.empty() && (a.name == "axis" || a.name == "axes");
    attrs += fmt::format("{}{{\"{}\", {}}}", attrs.empty() ? "" : ", ", a.name,
                         axis ? fmt::format("counted_from_end({}, {})", a.name, rank_of) : a.name);
  }
  fmt::print("{} {}({}) {{\n", return_type(op), function_name(op), parameters(op, false));
  std::string all = "{" + operands + "}";
  if (variadic && operands.empty()) all = rest;
  if (variadic && !operands.empty()) {
    fmt::print("  std::vector<Arg> operands_ = {};\n", all);
    fmt::print("  operands_.insert(operands_.end(), {0}.begin(), {0}.end());\n", rest);
    all = "operands_";
  }
  fmt::print("  std::vector<Tensor> results = emit(\"{}\", {}, {{{}}}, site);\n", op.name, all, attrs);
  if (plain_results(op) == 1) {
    fmt::print("  return results[0];\n}}\n\n");
    return;
  }
  std::string list;
  for (int i = 0; i < plain_results(op); ++i) list += fmt::format("{}results[{}]", i ? ", " : "", i);
  fmt::print("  return {{{}}};\n}}\n\n", list);
}

int run(std::string_view what) {
  bool header = what == "header";
  if (!header && what != "source") {
    fmt::print(stderr, "usage: gen_ops header|source\n");
    return 2;
  }
  fmt::print("// The functions of the C++ frontend, generated from the op records by tools/gen_ops.cc.\n");
  fmt::print("{}", header
                       ? "#pragma once\n\n#include <array>\n#include <string>\n\n#include \"frontend/cpp/tensor.h\"\n"
                       : "#include \"frontend/cpp/ops.h\"\n\n#include \"frontend/cpp/emit.h\"\n");
  fmt::print("\nnamespace nabla {{\n\n");
  for (const OpDef& op : ops::all_ops().all())
    if (is_generated(op)) header ? print_header(op) : print_source(op);
  fmt::print("}}  // namespace nabla\n");
  return 0;
}

}  // namespace
}  // namespace nabla

int main(int argc, char** argv) { return nabla::run(argc == 2 ? argv[1] : ""); }
