#include "passes/lower/prepare.h"

#include <algorithm>

#include "ir/library/gemm.h"
#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

// An operand with each part merged into one dimension, in the order in which the parts lie in memory.
struct Merged {
  ir::Val value;
  int batch = -1, free = -1, contract = -1;  // dimensions of value
};
Merged merge(ir::Val v, const ir::DotSide& s) {
  std::vector<const ir::Ints*> parts;
  for (const ir::Ints* p : {&s.batch, &s.free, &s.contract})
    if (!p->empty()) parts.push_back(p);
  std::sort(parts.begin(), parts.end(), [](const ir::Ints* a, const ir::Ints* b) { return a->front() < b->front(); });
  ir::Ints order;
  for (const ir::Ints* p : parts) order.insert(order.end(), p->begin(), p->end());
  if (!std::is_sorted(order.begin(), order.end())) v = ir::transpose(v, order);
  ir::Shape shape;
  Merged out;
  for (const ir::Ints* p : parts) {
    ir::Dim extent(1);
    int64_t place = std::find(order.begin(), order.end(), p->front()) - order.begin();
    for (size_t i = 0; i < p->size(); ++i) extent = extent * v.shape()[place + i];
    int at = static_cast<int>(shape.size());
    shape.push_back(extent);
    (p == &s.batch ? out.batch : p == &s.free ? out.free : out.contract) = at;
  }
  out.value = ir::reshape(v, shape);
  return out;
}

ir::Ints one(int d) { return d < 0 ? ir::Ints{} : ir::Ints{d}; }

ir::DotSides sides_of(const ir::Function& f, const ir::Node& dot) {
  return ir::dot_sides(dot, f.type(dot.operands[0]).rank(), f.type(dot.operands[1]).rank());
}

// An operand in its parts. Where `bytes_multiply`, a conversion of 8-bit floats comes last: what it converts is what the product
// may read, and there is less of it to move.
Merged side_of(const ir::Function& f, ir::ValueId operand, const ir::DotSide& side, const std::vector<int>& makers, bool bytes_multiply,
               FunctionCopy& copy) {
  const ir::Node* maker = makers[operand] < 0 ? nullptr : &f.nodes[makers[operand]];
  bool widens = bytes_multiply && maker && maker->op->form == ir::OpForm::kConvert;
  const DType from = widens ? f.type(maker->operands[0]).dtype : DType::kF32;
  if (!is_float(from) || bytes_of(from) > 1) return merge(copy.at(operand), side);
  Merged out = merge(copy.at(maker->operands[0]), side);
  copy.builder().set_computes({makers[operand]});
  out.value = ir::convert(out.value, f.type(operand).dtype);
  copy.builder().set_computes({});
  return out;
}

// Around the product, what brings operands and result into shape is nobody's work.
void copy_dot(const ir::Function& f, const ir::Node& n, const std::vector<int>& makers, bool bytes_multiply, FunctionCopy& copy) {
  ir::FunctionBuilder& b = copy.builder();
  int index = static_cast<int>(&n - f.nodes.data());
  ir::DotSides sides = sides_of(f, n);
  b.set_location(n.location);
  b.set_computes({});
  Merged lhs = side_of(f, n.operands[0], sides.lhs, makers, bytes_multiply, copy);
  Merged rhs = side_of(f, n.operands[1], sides.rhs, makers, bytes_multiply, copy);
  b.set_computes({index});
  ir::Val out = b.op(n.op->name, {lhs.value, rhs.value},
                     {{"lhs_contract", one(lhs.contract)},
                      {"rhs_contract", one(rhs.contract)},
                      {"lhs_batch", one(lhs.batch)},
                      {"rhs_batch", one(rhs.batch)}});
  b.set_computes({});
  copy.set(n.results[0], ir::reshape(out, f.type(n.results[0]).shape));
  b.set_location(nullptr);
}

// Which results need memory of their own: a value that is returned twice, an input or a constant that is handed on.
// A leaf that an entry hands on unchanged needs nothing.
std::vector<bool> shared_results(const ir::Function& f, const ir::Module& m) {
  const ir::Entry* entry = m.entry_of(f.name);
  std::vector<int> origin(f.values.size());  // the value whose bytes it is, through views
  for (size_t i = 0; i < origin.size(); ++i) origin[i] = static_cast<int>(i);
  std::vector<bool> taken(f.values.size(), false);
  for (ir::ValueId id : f.params) taken[id] = true;
  for (const ir::Node& n : f.nodes) {
    if (n.op->lower == ir::Lowering::kView) origin[n.results[0]] = origin[n.operands[0]];
    if (n.op->lower == ir::Lowering::kConstant) taken[n.results[0]] = n.attrs.get_literal("value").size() != 1;
  }
  std::vector<bool> out;
  for (size_t r = 0; r < f.results.size(); ++r) {
    ir::ValueId id = f.results[r];
    bool unchanged = false;
    if (entry && r < entry->writes.size())
      for (size_t p = 0; p < entry->reads.size(); ++p)
        unchanged |= entry->reads[p] == entry->writes[r] && f.params[p] == id;
    out.push_back(!unchanged && taken[origin[id]]);
    taken[origin[id]] = true;
  }
  return out;
}

ir::FunctionPtr prepared(const ir::Function& f, const ir::Module& m, const PassContext& context) {
  FunctionCopy copy(f, context.ops, &m);
  const std::vector<int> makers = ir::producers(f);
  const bool bytes_multiply = context.target.cuda.multiplies_bytes();
  ir::FunctionBuilder& b = copy.builder();
  for (const ir::Node& n : f.nodes) {
    b.set_computes({static_cast<int>(&n - f.nodes.data())});
    if (n.op->lower == ir::Lowering::kContraction)
      copy_dot(f, n, makers, bytes_multiply, copy);
    else
      copy.copy(n);
  }
  b.set_computes({});
  std::vector<bool> shared = shared_results(f, m);
  std::vector<ir::Val> results;
  for (size_t r = 0; r < shared.size(); ++r) {
    ir::Val v = copy.at(f.results[r]);
    results.push_back(shared[r] ? b.op("copy", {v}) : v);
  }
  ir::Function out = b.finish(results);
  out.location = f.location;
  return std::make_shared<const ir::Function>(std::move(out));
}

bool is_normal(const ir::DotSide& s) { return std::max({s.batch.size(), s.free.size(), s.contract.size()}) <= 1; }

}  // namespace

Result<ir::Module> prepare(const ir::Module& module, PassContext& context) {
  ir::Module out = module;
  for (ir::FunctionPtr& f : out.functions) {
    ScopedActivity activity("prepare on @" + f->name);
    f = prepared(*f, module, context);
  }
  return out;
}

Status check_prepared(const ir::Function& f, const ir::Module& m, const ir::Target& target) {
  auto unprepared = [&](const std::string& what) {
    Diagnostic d = error(Code::kWrongStage, "@{} is not prepared for `fuse`: {}", f.name, what);
    d.help = "run the pass `prepare` before it";
    return d;
  };
  for (const ir::Node& n : f.nodes) {
    if (must_expand(f, n, target)) {
      Diagnostic d = error(Code::kWrongStage, "@{}: {} has no code of its own for {}", f.name, n.op->name, target.name);
      d.location = n.location;
      d.help = "the module was simplified for another target: compile what it was made of";
      return d;
    }
    if (n.op->lower != ir::Lowering::kContraction) continue;
    ir::DotSides sides = sides_of(f, n);
    if (!is_normal(sides.lhs) || !is_normal(sides.rhs))
      return unprepared(fmt::format("{} has several batch, free or contracted dimensions",
                                    ir::value_name(f, n.results[0])));
  }
  std::vector<bool> shared = shared_results(f, m);
  for (size_t r = 0; r < shared.size(); ++r)
    if (shared[r])
      return unprepared(fmt::format("result {} is in memory that is not its own, {}", r,
                                    ir::value_name(f, f.results[r])));
  return Ok{};
}

}  // namespace nabla::passes
