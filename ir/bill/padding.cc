#include "ir/bill/padding.h"

#include <numeric>

#include "ir/control_ties.h"
#include "ir/op_def.h"
#include "ir/typed.h"

namespace nabla::ir {
namespace {

int64_t parts_of(const RankCut& cut) {
  int64_t parts = 1;
  for (const RankDigit& digit : cut.digits) parts *= digit.count;
  return parts;
}

bool has_uneven_parts(const std::vector<WholeTensor>& wholes) {
  for (const WholeTensor& whole : wholes)
    for (const ClassPlacement& part : whole.placements)
      for (size_t d = 0; d < part.cuts.size(); ++d)
        if (whole.shape[d] % parts_of(part.cuts[d]) != 0) return true;
  return false;
}

}  // namespace

Padding::Padding(const ProgramSet& set, size_t of_class) : m_(set.classes[of_class].module) {
  if (!has_uneven_parts(set.state) && !has_uneven_parts(set.inputs) && !has_uneven_parts(set.outputs)) return;
  int count = 0;
  for (const FunctionPtr& f : m_.functions) {
    for (const Value& v : f->values) first_[f->name].push_back(count), count += v.type.rank();
    makers_[f->name] = producers(*f);
  }
  parent_.resize(static_cast<size_t>(count));
  std::iota(parent_.begin(), parent_.end(), 0);
  for (const FunctionPtr& f : m_.functions)
    for (const Node& n : f->nodes) tie(*f, n);
  for (bool results : {false, true}) {
    seed(set.state, of_class, true, results);
    seed(results ? set.outputs : set.inputs, of_class, false, results);
  }
}

int Padding::find(int v) const {
  auto at = [&](int i) -> int& { return parent_[static_cast<size_t>(i)]; };
  while (at(v) != v) v = at(v) = at(at(v));
  return v;
}

// Dimensions that the node hands on. Of one that several make up the last goes on: parts that are joined follow each other.
void Padding::tie(const Function& f, const Node& n) {
  if (n.op->lower == Lowering::kControl) {
    for (const auto& [a, b] : control_ties(m_, f, n))
      for (int d = 0; d < a.function->type(a.value).rank() - a.skip; ++d)
        join(variable(*a.function, a.value, d + a.skip), variable(*b.function, b.value, d + b.skip));
    return;
  }
  if (n.op->lower == Lowering::kCollective) {
    for (ValueId r : n.results)
      for (int d = 0; !n.operands.empty() && d < f.type(r).rank() && d < f.type(n.operands[0]).rank(); ++d)
        join(variable(f, n.operands[0], d), variable(f, r, d));
    return;
  }
  if (!n.op->factors.exists()) return;
  const Factors factors = n.op->factors(typed(f, n));
  std::vector<int> known(factors.factors.size(), -1);
  auto along = [&](ValueId v, const Factors::Tensor& dims) {
    for (size_t d = 0; d < dims.size(); ++d) {
      // What cuts or lengthens a dimension does not hand its padding on.
      if (dims[d].empty() || factors.factors[static_cast<size_t>(dims[d].back())].kind == Factors::Kind::kPermute) continue;
      int& other = known[static_cast<size_t>(dims[d].back())];
      int own = variable(f, v, static_cast<int>(d));
      other < 0 ? void(other = own) : join(other, own);
    }
  };
  for (size_t i = 0; i < n.operands.size(); ++i) along(n.operands[i], factors.operands[i]);
  for (size_t r = 0; r < n.results.size(); ++r) along(n.results[r], factors.results[r]);
}

// Where a tensor enters an entry, or leaves it.
void Padding::seed(const std::vector<WholeTensor>& wholes, size_t of_class, bool state, bool results) {
  for (const WholeTensor& whole : wholes)
    for (const ClassPlacement& part : whole.placements) {
      if (part.of_class != static_cast<int>(of_class)) continue;
      for (const Entry& e : m_.entries) {
        const std::vector<int>& leaves = results ? e.writes : e.reads;
        for (size_t i = 0; state && i < leaves.size(); ++i)
          if (leaves[i] == part.index) seed(whole, part, e.function, i, results);
        if (!state && e.name == whole.entry) seed(whole, part, e.function, leaves.size() + static_cast<size_t>(part.index), results);
      }
    }
}

void Padding::seed(const WholeTensor& whole, const ClassPlacement& part, const std::string& function, size_t place, bool result) {
  const Function& f = *m_.find(function);
  for (size_t d = 0; d < part.cuts.size(); ++d) {
    const int64_t parts = parts_of(part.cuts[d]), extent = whole.shape[d];
    if (extent % parts == 0) continue;
    int root = find(variable(f, (result ? f.results : f.params)[place], static_cast<int>(d)));
    share_.emplace(root, static_cast<double>(extent) / static_cast<double>((extent + parts - 1) / parts * parts));
  }
}

double Padding::elements(const Function& f, ValueId value) const {
  if (share_.empty()) return 0;
  int maker = makers_.at(f.name)[static_cast<size_t>(value)];
  if (maker >= 0) {
    const Node& n = f.nodes[static_cast<size_t>(maker)];
    if (n.op->name == "reshape" || n.op->name == "transpose") return elements(f, n.operands[0]);
    if (n.op->name == "concatenate") {
      double sum = 0;
      for (ValueId id : n.operands) sum += elements(f, id);
      return sum;
    }
  }
  double share = 1;
  for (int d = 0; d < f.type(value).rank(); ++d)
    if (auto known = share_.find(find(variable(f, value, d))); known != share_.end()) share *= known->second;
  return static_cast<double>(f.type(value).count().bounds().max) * (1 - share);
}

}  // namespace nabla::ir
