// The reference of the ops, from their records.
#include <algorithm>
#include <map>

#include "cli/nablac/commands.h"
#include "ir/op_def.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"

namespace nabla::cli {
namespace {

std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

std::string attr_text(const ir::Attr& attr) {
  if (const bool* v = std::get_if<bool>(&attr)) return *v ? "true" : "false";
  if (const int64_t* v = std::get_if<int64_t>(&attr)) return fmt::format("{}", *v);
  if (const double* v = std::get_if<double>(&attr)) return fmt::format("{}", *v);
  if (const std::string* v = std::get_if<std::string>(&attr)) return "\"" + *v + "\"";
  if (const DType* v = std::get_if<DType>(&attr)) return std::string(name_of(*v));
  if (const ir::Ints* v = std::get_if<ir::Ints>(&attr)) return shape_str(*v);
  if (const ir::Shape* v = std::get_if<ir::Shape>(&attr)) return ir::str(*v);
  if (const ir::FunctionRef* v = std::get_if<ir::FunctionRef>(&attr)) return "@" + v->name;
  if (const ir::FunctionRefs* v = std::get_if<ir::FunctionRefs>(&attr)) {
    std::string out;
    for (const ir::FunctionRef& f : *v) out += (out.empty() ? "@" : ", @") + f.name;
    return "[" + out + "]";
  }
  if (const ir::Axes* v = std::get_if<ir::Axes>(&attr)) return ir::str(*v);
  if (const ir::Sharding* v = std::get_if<ir::Sharding>(&attr)) return v->str();
  if (const ir::Shardings* v = std::get_if<ir::Shardings>(&attr)) {
    std::string out;
    for (const ir::Sharding& s : *v) out += (out.empty() ? "" : ", ") + s.str();
    return "[" + out + "]";
  }
  return std::get<Literal>(attr).str();
}

template <class RuleType>
std::string rule_text(const RuleType& rule) {
  if (rule.exists()) return "yes";
  if (rule.by_decomposition()) return "by decomposition";
  return "no: " + rule.reason();
}

/// Calls f(name, rule) for every rule of a record.
template <class F>
void for_each_rule(const ir::OpDef& op, F f) {
  f("reference", op.reference);
  f("fold", op.fold);
  f("decompose", op.decompose);
  f("vjp", op.vjp);
  f("jvp", op.jvp);
  f("batch", op.batch);
  f("factors", op.factors);
  f("access", op.access);
}

std::string stages_text(ir::StageSet stages) {
  int first = -1, last = -1;
  for (int s = 0; s < ir::kStageCount; ++s)
    if (stages >> s & 1) last = s, first = first < 0 ? s : first;
  std::string from(name_of(static_cast<ir::Stage>(first))), to(name_of(static_cast<ir::Stage>(last)));
  return from == to ? from : from + " to " + to;
}

std::string traits_text(const ir::Traits& t) {
  std::string out;
  auto add = [&](bool holds, const char* text) {
    if (holds) out += (out.empty() ? "" : ", ") + std::string(text);
  };
  add(t.elementwise, "elementwise");
  add(t.commutative, "commutative");
  add(t.composite, "composite");
  add(t.side_effect, "has side effects");
  add(t.fence, "fence");
  add(t.kept, "kept by reverse mode");
  add(t.constant, "constant to derivatives");
  add(t.products, "narrowed as a whole by autocast");
  return out;
}

/// The node of the first example as it stands in a module's text.
std::string example_text(const ir::OpDef& op) {
  if (op.examples.empty()) return "";
  const ir::Example& e = op.examples[0];
  Result<ir::Attrs> attrs = ir::complete_attrs(op, e.attrs);
  ir::Function f;
  f.name = e.functions.empty() ? "f" : "main";  // the others may have taken the name
  ir::Node node{&op, {}, attrs.ok() ? *attrs : e.attrs, {}, nullptr};
  std::vector<ir::Type> types;
  for (size_t i = 0; i < e.operands.size(); ++i) {
    const std::string& name = op.operands[std::min(i, op.operands.size() - 1)].name;
    bool repeated = i >= op.operands.size() || op.operands[i].variadic;
    f.params.push_back(static_cast<int>(i));
    node.operands.push_back(static_cast<int>(i));
    f.values.push_back({e.operands[i].type, repeated ? fmt::format("{}{}", name, i) : name});
    types.push_back(e.operands[i].type);
  }
  Result<ir::Module> module = ir::parse_module("nabla 1 flat\n" + e.functions, op.name, ops::all_ops());
  if (!module.ok()) return "";
  auto lookup = [&](std::string_view name) { return module->find(name); };
  Result<std::vector<ir::Type>> results = ir::infer_types(op, types, node.attrs, lookup);
  if (!results.ok()) return "";
  for (ir::Type& t : *results) {
    node.results.push_back(static_cast<int>(f.values.size()));
    f.results.push_back(static_cast<int>(f.values.size()));
    f.values.push_back({std::move(t), ""});
  }
  f.nodes.push_back(std::move(node));
  std::string out = "```\n";
  for (const std::string& name : ir::functions_of(node.attrs)) out += print(*module->find(name)) + "\n";
  return out + print(f) + "```\n\n";
}

/// Reasons below a table, each once.
class Footnotes {
 public:
  /// The cell of a rule that does not exist.
  std::string no(const std::string& reason) {
    auto at = std::find(reasons_.begin(), reasons_.end(), reason);
    auto number = at - reasons_.begin() + 1;
    if (at == reasons_.end()) reasons_.push_back(reason);
    return fmt::format("no[^{}]", number);
  }
  std::string text() const {
    std::string out;
    for (size_t i = 0; i < reasons_.size(); ++i) out += fmt::format("[^{}]: {}\n", i + 1, reasons_[i]);
    return out;
  }

 private:
  std::vector<std::string> reasons_;
};

std::string verify_cell(const ir::OpDef& op) {
  if (op.constraints.empty()) return "yes";
  const std::string &first = op.constraints.front().id, &last = op.constraints.back().id;
  return first == last ? "yes, " + first : fmt::format("yes, {}-{}", first, last);
}

// Of both backends, which print the same kernels.
std::string code_cell(const ir::OpDef& op, Footnotes& notes) {
  switch (op.lower) {
    case ir::Lowering::kAccess:
    case ir::Lowering::kContraction:
    case ir::Lowering::kConvolution:
      return op.access.refused() ? notes.no(op.access.reason()) : rule_text(op.access);
    case ir::Lowering::kView:
    case ir::Lowering::kConstant:
    case ir::Lowering::kControl:
    case ir::Lowering::kHost:
    case ir::Lowering::kTransfer:
      return "yes";
    case ir::Lowering::kDecompose:
      return "by decomposition";
    case ir::Lowering::kCollective:
      return notes.no("ranks exchange the values between kernels");
    case ir::Lowering::kLibrary:
      return "a library's";
    case ir::Lowering::kCall:
      return notes.no("code is made of the function that it calls, which `inline-calls` puts in its place");
    case ir::Lowering::kTransform:
      return notes.no("nothing is left of it: `lower-transforms` or `partition` puts what it means in its place");
  }
  NABLA_CHECK(false, "{}: no such lowering", op.name);
  return "";
}

std::string section(const ir::OpDef& op) {
  std::string out = fmt::format("## {}\n\n{}\n\n", op.name, op.doc);
  auto table = [&](const char* title, const auto& rows, auto text) {
    if (rows.empty()) return;
    out += fmt::format("| {} | |\n|---|---|\n", title);
    for (const auto& row : rows) out += text(row);
    out += "\n";
  };
  table("Operand", op.operands, [](const ir::OperandDef& o) {
    return fmt::format("| `{}`{} | {} |\n", o.name,
                       !o.variadic       ? ""
                       : o.may_be_absent ? " (any number)"
                                         : " (one or more)",
                       cell(o.doc));
  });
  table("Attribute", op.attrs, [](const ir::AttrDef& a) {
    std::string value = a.default_value ? "default " + attr_text(*a.default_value) : "required";
    return fmt::format("| `{}`: {}, {} | {} |\n", a.name, name_of(a.kind), cell(value), cell(a.doc));
  });
  table("Result", op.results, [](const ir::ResultDef& r) {
    return fmt::format("| `{}`{} | {} |\n", r.name, r.auxiliary ? " (auxiliary)" : "", cell(r.doc));
  });
  table("Constraint", op.constraints,
        [](const ir::Constraint& c) { return fmt::format("| {} | {} |\n", c.id, cell(c.text)); });
  out += "| Rule | |\n|---|---|\n";
  for_each_rule(op, [&](const char* name, const auto& rule) {
    out += fmt::format("| {} | {} |\n", name, cell(rule_text(rule)));
  });
  std::string traits = traits_text(op.traits);
  out += fmt::format("\nVersion {}; legal in stages {}{}{}.\n\n", op.version, stages_text(op.stages),
                     traits.empty() ? "" : "; ", traits);
  return out + example_text(op);
}

}  // namespace

std::string doc_ops(const ir::OpTable& ops) {
  std::map<std::string, std::vector<const ir::OpDef*>> categories;
  for (const ir::OpDef& op : ops.all()) categories[op.category].push_back(&op);
  std::string out = "# Ops\n\nMade by `nablac doc ops` from the records in `ir/ops`.\n\n";
  for (const auto& [category, members] : categories) {
    out += fmt::format("- **{}**:", category);
    for (const ir::OpDef* op : members) out += fmt::format(" [{0}](#{0})", op->name);
    out += "\n";
  }
  out += "\n";
  for (const auto& [category, members] : categories)
    for (const ir::OpDef* op : members) out += section(*op);
  return out;
}

Result<std::string> doc_op(const ir::OpTable& ops, const std::string& name) {
  const ir::OpDef* op = ops.find(name);
  if (!op) return error(Code::kUnknownOp, "unknown op `{}`{}", name, did_you_mean(name, ops.names()));
  return section(*op);
}

std::string doc_refusals(const ir::OpTable& ops) {
  std::string out =
      "# Rules that do not exist\n\nMade by `nablac doc refusals`: every rule that a record refuses, with its "
      "reason.\n\n"
      "| Op | Rule | Reason |\n|---|---|---|\n";
  for (const ir::OpDef& op : ops.all())
    for_each_rule(op, [&](const char* name, const auto& rule) {
      if (rule.refused()) out += fmt::format("| `{}` | {} | {} |\n", op.name, name, cell(rule.reason()));
    });
  return out;
}

std::string doc_coverage(const ir::OpTable& ops) {
  Footnotes notes;
  std::string rows;
  auto rule = [&](const auto& r) { return r.refused() ? notes.no(r.reason()) : rule_text(r); };
  for (const ir::OpDef& op : ops.all()) {
    // In braces: cells number their footnotes from left to right.
    std::vector<std::string> cells{"`" + op.name + "`", op.infer ? "yes" : notes.no("the record has no inference"),
                                   verify_cell(op),     rule(op.reference),
                                   rule(op.vjp),        rule(op.jvp),
                                   rule(op.batch),      rule(op.factors),
                                   rule(op.access),     code_cell(op, notes),
                                   op.whole ? "whole, or by decomposition" : code_cell(op, notes)};
    for (const std::string& cell : cells) rows += "| " + cell + " ";
    rows += "|\n";
  }
  return "# Coverage\n\n"
         "Made by `nablac doc coverage` from the records in `ir/ops`: what each op has. A record writes a rule, says\n"
         "that it follows from the op's decomposition, or refuses it for a reason, which stands below the table.\n\n"
         "- **verify**: the number of operands, attributes and stages for every op; beside them, these constraints.\n"
         "- **vjp**, **jvp**, **batch**: reverse mode, forward mode, `vmap`.\n"
         "- **factors**, **access**: how dimensions and how elements of operands and results relate.\n"
         "- **cpu**, **cuda**: code for CPU targets and for GPU targets.\n\n"
         "| op | infer | verify | reference | vjp | jvp | batch | factors | access | cpu | cuda |\n"
         "|---|---|---|---|---|---|---|---|---|---|---|\n" +
         rows + "\n" + notes.text();
}

}  // namespace nabla::cli
