#include "tests/conformance/op_cases.h"

#include "ir/ops/all_ops.h"
#include "tests/nightly.h"

namespace nabla::conformance {
namespace {

// Attributes whose functions are called `prefix` + name.
ir::Attrs renamed(ir::Attrs attrs, const std::string& prefix) {
  ir::Attrs out;
  for (auto [name, attr] : attrs) {
    if (auto* one = std::get_if<ir::FunctionRef>(&attr)) one->name = prefix + one->name;
    if (auto* many = std::get_if<ir::FunctionRefs>(&attr))
      for (ir::FunctionRef& f : *many) f.name = prefix + f.name;
    out.set(name, attr);
  }
  return out;
}

}  // namespace

ir::Module module_of(const std::vector<property::Case>& cases) {
  ir::Module m;
  m.stage = ir::Stage::kFlat;
  for (size_t i = 0; i < cases.size(); ++i) {
    std::string name = "case" + std::to_string(i);
    std::string prefix = name + "_";
    for (const ir::FunctionPtr& callee : cases[i].module.functions) {
      ir::Function copy = *callee;
      copy.name = prefix + copy.name;
      for (ir::Node& n : copy.nodes) n.attrs = renamed(n.attrs, prefix);
      m.functions.push_back(std::make_shared<ir::Function>(std::move(copy)));
    }
    ir::FunctionBuilder b(name, ops::all_ops(), &m);
    std::vector<ir::Val> operands;
    ir::Entry entry{name, name, {}, {}, {}, {}};
    for (const ir::Operand& o : cases[i].operands) {
      entry.inputs.push_back("x" + std::to_string(operands.size()));
      operands.push_back(b.param(entry.inputs.back(), o.type));
    }
    std::vector<ir::Val> results = b.add(cases[i].op->name, operands, renamed(cases[i].attrs, prefix));
    for (size_t r = 0; r < results.size(); ++r) entry.outputs.push_back("y" + std::to_string(r));
    m.functions.push_back(std::make_shared<ir::Function>(b.finish(results)));
    m.entries.push_back(std::move(entry));
  }
  return m;
}

std::vector<std::string> ops_with_code() {
  std::vector<std::string> out;
  for (const ir::OpDef& op : ops::all_ops().all()) {
    bool code = op.access.exists() || op.lower == ir::Lowering::kView || op.lower == ir::Lowering::kConstant ||
                op.lower == ir::Lowering::kControl || op.lower == ir::Lowering::kDecompose;
    if (code) out.push_back(op.name);
  }
  return out;
}

std::vector<property::Case> static_cases(const std::string& op, int draws) {
  std::vector<property::Case> cases;
  property::Precision precision = is_nightly() ? property::Precision::kAll : property::Precision::kSome;
  for (property::Case& c : property::cases_of(ops::all_ops().get(op), draws, precision)) {
    bool is_static = true;
    for (const ir::Type& t : c.types()) is_static &= t.is_static();
    for (const ir::Type& t : c.results) is_static &= t.is_static();
    if (is_static) cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace nabla::conformance
