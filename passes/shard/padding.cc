#include "passes/shard/padding.h"

#include <algorithm>
#include <numeric>

#include "ir/control_ties.h"
#include "ir/linearity.h"
#include "ir/typed.h"
#include "passes/rewrite.h"

namespace nabla::passes {

using ir::Dim;
using ir::Factors;
using ir::Function;
using ir::Linearity;
using ir::Node;
using ir::RankRule;
using ir::ValueId;
using kernel_ir::Combiner;
using How = PaddedFactor::How;

namespace {

bool any_has(const std::vector<Factors::Tensor>& tensors, int factor) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const auto& t) { return has_factor(t, factor); });
}

// Padding comes last in a dimension only where it is padding of the major factor.
bool is_major(const Factors& factors, int factor) {
  for (const auto* tensors : {&factors.operands, &factors.results})
    for (const Factors::Tensor& dims : *tensors)
      for (const std::vector<int>& dim : dims)
        for (size_t k = 1; k < dim.size(); ++k)
          if (dim[k] == factor) return false;
  return true;
}

// Draws and counts place by place: longer ones begin in the same way.
bool draws_alike_when_longer(const ir::TypedOp& op, const Factors& factors, int factor) {
  const ir::Attr* whole = op.attrs.find("whole");
  if (!whole) return true;
  bool placed = !std::get<ir::Shape>(*whole).empty();
  return !placed && (op.op.form == ir::OpForm::kIota || has_factor({factors.results[0][0]}, factor));
}

// Does zero (or the other combiner's identity) in an operand along the factor add nothing to the result?
bool vanishes(const ir::TypedOp& op, const Factors& factors, int factor, Combiner combiner) {
  for (const Linearity::Claim& c : op.op.linearity.claims) {
    if (c.combiner != combiner) continue;
    auto along = [&](int i) { return has_factor(factors.operands[static_cast<size_t>(i)], factor); };
    std::vector<int> of = ir::operands_of(op.op, c, op.operands.size());
    bool jointly = c.kind == Linearity::Kind::kJointly;
    if (jointly ? std::all_of(of.begin(), of.end(), along) : std::any_of(of.begin(), of.end(), along)) return true;
  }
  return false;
}

// Nothing is known to be a multiple of such an extent.
bool may_be_empty(const Dim& extent) { return extent.bounds().min <= 0; }

// Rows that indices name, one component per index: the dimension of operand 0 that the component counts along.
bool is_looked_up(const ir::TypedOp& op, const Factors& factors, int factor) {
  if (op.op.rank_rule == RankRule::kEmbedding) return has_factor({factors.operands[0][0]}, factor);
  bool gathers = op.op.rank_rule == RankRule::kGather;
  bool scatters = op.op.rank_rule == RankRule::kScatterAdd || op.op.rank_rule == RankRule::kScatterInto;
  if (!gathers && !scatters) return false;
  const ir::Ints& map = op.attrs.get_ints(gathers ? "start_index_map" : "scatter_dims_to_operand_dims");
  const ir::Ints& one = op.attrs.get_ints(gathers ? "collapsed_slice_dims" : "inserted_window_dims");
  if (op.attrs.get_string("out_of_range") != "clamp" || map.size() != 1 || std::find(one.begin(), one.end(), map[0]) == one.end())
    return false;
  return factors.operands[0][static_cast<size_t>(map[0])] == std::vector<int>{factor};
}

}  // namespace

PaddedFactor padded_factor(const ir::TypedOp& op, const Factors& factors, int factor) {
  const Factors::Factor& f = factors.factors[static_cast<size_t>(factor)];
  const RankRule rule = op.op.rank_rule;
  if (op.op.traits.side_effect || op.op.form == ir::OpForm::kCustomCall || op.op.manual || !is_major(factors, factor)) return {};
  if (is_looked_up(op, factors, factor)) return {How::kClamp};
  if (rule == RankRule::kArgmax || rule == RankRule::kArgmin) {
    bool along = any_has(factors.operands, factor) && !any_has(factors.results, factor);
    if (along) return {How::kMask, rule == RankRule::kArgmax ? Combiner::kMax : Combiner::kMin};
  }
  switch (f.kind) {
    case Factors::Kind::kPass:
      return {draws_alike_when_longer(op, factors, factor) ? How::kPass : How::kCut};
    case Factors::Kind::kOrdered: {  // from the first element on
      const ir::Attr* reverse = op.attrs.find("reverse");
      return {reverse && std::holds_alternative<bool>(*reverse) && !std::get<bool>(*reverse) ? How::kPass : How::kCut};
    }
    case Factors::Kind::kReduce:
      if (f.combiner == Combiner::kNone || any_has(factors.results, factor) || !vanishes(op, factors, factor, f.combiner)) return {};
      return {How::kMask, f.combiner};
    default:
      return {};
  }
}

// A symbol that is a multiple needs none, which arithmetic on its rounding up does not see.
Dim with_padding(const Dim& extent, int64_t shards) {
  return Dim::mod(extent, shards).is(0) ? extent : Dim::ceildiv(extent, shards) * shards;
}

bool meets_padding(const Function& f, const Node& n, const ir::Mesh& mesh) {
  if (n.op->form != ir::OpForm::kPad && n.op->form != ir::OpForm::kSlice) return false;
  auto uneven = [&](ValueId id) {
    const ir::Value& v = f.values[id];
    for (size_t d = 0; v.sharding && d < v.type.shape.size(); ++d)
      if (!divides(mesh, v.sharding->dims[d].axes, v.type.shape[d])) return true;
    return false;
  };
  return uneven(n.operands[0]) != uneven(n.results[0]);
}

std::vector<Layout> layouts_that_are_read(const Function& f) {
  std::vector<Layout> out;
  for (const ir::Value& v : f.values) out.push_back(layout_of(v.sharding, v.type.rank()));
  // By value and dimension: is it read in parts, and is it read at all?
  std::vector<std::vector<char>> parts(f.values.size()), whole(f.values.size());
  for (size_t v = 0; v < f.values.size(); ++v)
    parts[v].resize(out[v].dims.size()), whole[v].resize(out[v].dims.size());
  for (ValueId id : f.results) parts[id].assign(parts[id].size(), true);
  for (auto n = f.nodes.rbegin(); n != f.nodes.rend(); ++n) {
    // Readers come after what they read, so that it is known by now how results are.
    for (ValueId id : n->results)
      for (size_t d = 0; d < out[id].dims.size(); ++d)
        if (whole[id][d] && !parts[id][d]) out[id].dims[d].clear();
    const ir::OpForm form = n->op->form;
    const bool passes = form == ir::OpForm::kCopy || form == ir::OpForm::kSlice || n->op->layout_role == ir::LayoutRole::kShard;
    for (ValueId id : n->operands)
      for (size_t d = 0; d < out[id].dims.size(); ++d)
        (passes && out[n->results[0]].dims[d].empty() ? whole : parts)[id][d] = true;
  }
  return out;
}

PaddedDims::PaddedDims(const ir::Module& module, int64_t multiple) : m_(module), least_multiple_(multiple) {
  number();
  find_layouts();
  for (size_t f = 0; f < m_.functions.size(); ++f)
    for (const Node& n : m_.functions[f]->nodes) tie(static_cast<int>(f), n);
  for (size_t f = 0; f < m_.functions.size(); ++f) {
    const Function& function = *m_.functions[f];
    for (size_t v = 0; v < function.values.size(); ++v)
      if (function.values[v].sharding) seed(static_cast<int>(f), static_cast<ValueId>(v), *function.values[v].sharding);
    for (const Node& n : function.nodes)
      if (const ir::Attr* s = n.attrs.find("sharding")) seed(static_cast<int>(f), n.results[0], std::get<ir::Sharding>(*s));
    for (const auto* of : {&of_param_, &of_result_})
      for (const auto& [at, layout] : *of)
        if (at.first == function.name)
          seed(static_cast<int>(f), (of == &of_param_ ? function.params : function.results)[static_cast<size_t>(at.second)], *layout);
  }
}

void PaddedDims::number() {
  for (size_t f = 0; f < m_.functions.size(); ++f) {
    const Function& function = *m_.functions[f];
    index_[function.name] = static_cast<int>(f);
    for (const std::string& name : referenced_functions(function)) called_.insert(name);
    first_.emplace_back();
    for (size_t v = 0; v < function.values.size(); ++v) {
      first_.back().push_back(static_cast<int>(least_.size()));
      for (const Dim& extent : function.values[v].type.shape) least_.push_back(extent);
    }
  }
  for (const ir::Entry& e : m_.entries) called_.erase(e.function);
  parent_.resize(least_.size());
  std::iota(parent_.begin(), parent_.end(), 0);
}

int PaddedDims::find(int v) const {
  while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
  return v;
}

bool PaddedDims::nest(int a, int b) const {
  const Dim &x = least_[find(a)], &y = least_[find(b)];
  return may_be_empty(x) || may_be_empty(y) || Dim::mod(x, y).is(0) || Dim::mod(y, x).is(0);
}
void PaddedDims::join(int a, int b) {
  a = find(a), b = find(b);
  if (a == b) return;
  Dim &x = least_[a], &y = least_[b];
  if (may_be_empty(y) || (!may_be_empty(x) && Dim::mod(y, x).is(0))) y = x;
  parent_[a] = b;
}

void PaddedDims::find_layouts() {
  for (const ir::Entry& e : m_.entries) {
    for (size_t i = 0; i < e.reads.size(); ++i)
      if (const ir::ShardingRef& s = m_.state[e.reads[i]].sharding) of_param_[{e.function, static_cast<int>(i)}] = s;
    for (size_t i = 0; i < e.writes.size(); ++i)
      if (const ir::ShardingRef& s = m_.state[e.writes[i]].sharding) of_result_[{e.function, static_cast<int>(i)}] = s;
  }
}

ir::ShardingRef PaddedDims::layout(const std::string& function, bool result, size_t index) const {
  const auto& of = result ? of_result_ : of_param_;
  if (auto leaf = of.find({function, static_cast<int>(index)}); leaf != of.end()) return leaf->second;
  const Function& f = *m_.functions[index_.at(function)];
  return f.values[(result ? f.results : f.params)[index]].sharding;
}

void PaddedDims::join_values(int f, ValueId a, int g, ValueId b, int skip_a, int skip_b) {
  int rank = m_.functions[f]->type(a).rank() - skip_a;
  for (int d = 0; d < rank; ++d) join(variable(f, a, d + skip_a), variable(g, b, d + skip_b));
}

void PaddedDims::tie(int f, const Node& n) {
  if (n.op->lower == ir::Lowering::kControl) return tie_control(f, n);
  if (!n.op->factors.exists()) return;
  ir::TypedOp op = typed(*m_.functions[f], n);
  Factors factors = n.op->factors(op);
  std::vector<int> first(factors.factors.size(), -1);
  std::vector<char> through(factors.factors.size(), 0);
  for (size_t k = 0; k < through.size(); ++k)
    through[k] = padded_factor(op, factors, static_cast<int>(k)).how != How::kCut;
  auto along = [&](ValueId v, const Factors::Tensor& dims) {
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d].empty() || !through[static_cast<size_t>(dims[d][0])]) continue;
      int& known = first[static_cast<size_t>(dims[d][0])];
      int at = variable(f, v, static_cast<int>(d));
      if (known < 0)
        known = at;
      else if (nest(known, at))
        join(known, at);
    }
  };
  for (size_t i = 0; i < n.operands.size(); ++i) along(n.operands[i], factors.operands[i]);
  for (size_t r = 0; r < n.results.size(); ++r) along(n.results[r], factors.results[r]);
}

void PaddedDims::tie_control(int f, const Node& n) {
  for (const auto& [a, b] : ir::control_ties(m_, *m_.functions[f], n))
    if (is_called(b.function->name))
      join_values(index_.at(a.function->name), a.value, index_.at(b.function->name), b.value, a.skip, b.skip);
}

void PaddedDims::seed(int f, ValueId v, const ir::Sharding& s) {
  if (!m_.mesh()) return;
  const ir::Type& type = m_.functions[f]->type(v);
  for (size_t d = 0; d < s.dims.size() && d < type.shape.size(); ++d) {
    if (s.dims[d].axes.empty()) continue;
    int root = find(variable(f, v, static_cast<int>(d)));
    const int64_t parts = std::lcm(least_multiple_, shards(*m_.mesh(), s.dims[d].axes));
    if (s.allow_padding && !Dim::mod(type.shape[d], parts).is(0)) uneven_.insert(root);
    // Layouts that divide the extent are to divide the longer one as well.
    int64_t& multiple = multiple_.try_emplace(root, 1).first->second;
    multiple = std::lcm(multiple, parts);
  }
}

Dim PaddedDims::extent(int f, ValueId v, int d) const {
  const Dim& own = m_.functions[f]->type(v).shape[d];
  int root = find(variable(f, v, d));
  const Dim& least = least_[root];
  if (!uneven_.contains(root) || may_be_empty(least) || !Dim::mod(own, least).is(0)) return own;
  return with_padding(least, multiple_.at(root)) * Dim::floordiv(own, least);
}

ir::Shape PaddedDims::shape(int f, ValueId v) const {
  ir::Shape out;
  for (int d = 0; d < m_.functions[f]->type(v).rank(); ++d) out.push_back(extent(f, v, d));
  return out;
}

bool PaddedDims::is_padded(int f, ValueId v) const { return !(shape(f, v) == m_.functions[f]->type(v).shape); }

}  // namespace nabla::passes
