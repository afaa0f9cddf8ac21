#include "passes/shard/sum_points.h"

#include <algorithm>
#include <map>

#include "ir/linearity.h"
#include "ir/typed.h"
#include "passes/shard/factor_axes.h"
#include "passes/shard/manual_regions.h"
#include "passes/shard/rules/rules.h"
#include "runtime/base/option_error.h"
#include "runtime/base/option_name.h"

namespace nabla::passes {

using ir::Linearity;
using ir::Node;
using ir::ValueId;

namespace {

bool is_zero(const Literal& value) {
  for (int64_t i = 0; i < value.size(); ++i)
    if (value.get(i) != 0) return false;
  return true;
}

/// Which values may be pending sums: by the shardings of what nodes sum, and by what linear ops hand on.
class PendingValues {
 public:
  PendingValues(const ir::Function& f, const std::set<ValueId>& params) : f_(f), may_(f.values.size(), false), zeros_(zeros_of(f)) {
    for (ValueId id : params) may_[static_cast<size_t>(id)] = true;
    for (const Node& n : f.nodes) {
      const bool pends = begins(n) || hands_on(n, {});
      for (ValueId id : n.results) may_[static_cast<size_t>(id)] = pends;
    }
  }

  /// Can the node hand on what is pending in this value only together with what is pending in its other operands?
  bool hands_on_jointly(const Node& n, ValueId id) const {
    std::set<size_t> with;
    for (size_t i = 0; i < n.operands.size(); ++i)
      if (n.operands[i] == id) with.insert(i);
    return hands_on(n, {id}) && !passes_sums(f_, n, with) && !passes_sum_narrowed(f_, n);
  }

  /// Can the node hand on what is pending in these values? Jointly linear ops can if all their operands may be pending, or are zero.
  bool hands_on(const Node& n, const std::set<ValueId>& ids) const {
    std::set<size_t> with, with_others;
    for (size_t i = 0; i < n.operands.size(); ++i) {
      const bool named = ids.contains(n.operands[i]), may = may_[static_cast<size_t>(n.operands[i])];
      if (named || (ids.empty() && may)) with.insert(i);
      if (named || may || zeros_[static_cast<size_t>(n.operands[i])]) with_others.insert(i);
    }
    return !with.empty() && (passes_sums(f_, n, with) || passes_sum_narrowed(f_, n) || passes_sums(f_, n, with_others));
  }

 private:
  // Does the node sum along a sharded dimension, or does a rule of its op say how ranks share it? Loops and branches may hand sums on.
  bool begins(const Node& n) const {
    if (n.op->lower == ir::Lowering::kControl || rule_of(*n.op)) return true;
    if (!n.op->factors.exists()) return false;
    const ir::Factors factors = n.op->factors(ir::typed(f_, n));
    for (size_t i = 0; i < n.operands.size(); ++i) {
      const Layout layout = layout_of(f_.values[static_cast<size_t>(n.operands[i])].sharding, f_.type(n.operands[i]).rank());
      for (size_t d = 0; d < layout.dims.size(); ++d)
        for (int k : factors.operands[i][d])
          if (!layout.dims[d].empty() && factors.factors[static_cast<size_t>(k)].kind == ir::Factors::Kind::kReduce) return true;
    }
    return false;
  }

  const ir::Function& f_;
  std::vector<char> may_;
  const std::vector<char> zeros_;
};

}  // namespace

bool passes_sums(const ir::Function& f, const Node& n, const std::set<size_t>& with) {
  bool floats = std::all_of(with.begin(), with.end(), [&](size_t i) { return is_float(f.type(n.operands[i]).dtype); });
  return std::any_of(n.op->linearity.claims.begin(), n.op->linearity.claims.end(), [&](const Linearity::Claim& c) {
    if (c.combiner != kernel_ir::Combiner::kSum || (c.floats_only && !floats)) return false;
    std::vector<int> named = ir::operands_of(*n.op, c, n.operands.size());
    std::set<size_t> of(named.begin(), named.end());
    return c.kind == Linearity::Kind::kJointly ? with == of : with.size() == 1 && of.count(*with.begin()) > 0;
  });
}

std::vector<char> zeros_of(const ir::Function& f) {
  std::vector<char> out(f.values.size(), false);
  // A value that follows from zeros alone by a linear op is zero. Of a product with a zero that is not certain: 0 * inf is NaN.
  auto is_linear_in_zeros = [&](const Node& n) {
    return std::any_of(n.op->linearity.claims.begin(), n.op->linearity.claims.end(), [&](const Linearity::Claim& c) {
      if (c.combiner != kernel_ir::Combiner::kSum || c.kind != Linearity::Kind::kJointly) return false;
      const std::vector<int> of = ir::operands_of(*n.op, c, n.operands.size());
      return std::all_of(of.begin(), of.end(), [&](int i) { return out[static_cast<size_t>(n.operands[static_cast<size_t>(i)])] != 0; });
    });
  };
  for (const Node& n : f.nodes) {
    const bool constant = n.op->lower == ir::Lowering::kConstant;
    const bool zero = constant ? is_zero(n.attrs.get_literal("value"))
                               : is_linear_in_zeros(n) || (n.op->form == ir::OpForm::kConvert && out[static_cast<size_t>(n.operands[0])]);
    for (ValueId id : n.results) out[static_cast<size_t>(id)] = zero;
  }
  return out;
}

bool passes_sum_narrowed(const ir::Function& f, const Node& n) {
  return n.op->form == ir::OpForm::kConvert && f.type(n.operands[0]).dtype == DType::kF32 && is_narrow_float(f.type(n.results[0]).dtype);
}

bool passes_sums_of_microbatches(const ir::Mesh& mesh, const Node& n, const Layout& operand) {
  if (!is_temporal(mesh, operand.pending)) return false;
  auto apart = [&](const ir::Axes& axes) { return !overlap(mesh, axes, operand.pending); };
  if (n.op->layout_role == ir::LayoutRole::kShard) {
    const ir::Sharding& said = n.attrs.get_sharding("sharding");
    return ir::axes_of(said).empty() && std::all_of(said.dims.begin(), said.dims.end(), [](const ir::DimSharding& d) { return d.open; });
  }
  if ((!is_border(n) && n.op->lower != ir::Lowering::kCollective) || !apart(n.attrs.get_axes("axes"))) return false;
  const ir::Attr* combiner = n.attrs.find("combiner");
  const bool sums = !combiner || std::get<std::string>(*combiner) == "sum" || std::get<std::string>(*combiner) == "mean";
  return sums && std::all_of(operand.dims.begin(), operand.dims.end(), apart);
}

std::vector<char> sum_points(const ir::Function& f, const std::set<ValueId>& pending) {
  const PendingValues values(f, pending);
  auto bytes = [&](ValueId id) { return static_cast<double>(f.type(id).bytes().bounds().max); };
  // By value: the sums that its readers need, or that follow from them, and which part of each is there because of the value.
  using Sums = std::map<ValueId, double>;
  std::vector<Sums> made(f.values.size());
  std::vector<char> out(f.values.size(), false);
  for (ValueId id : f.results) made[id][id] = 1;
  for (auto n = f.nodes.rbegin(); n != f.nodes.rend(); ++n) {
    Sums later;
    double size = 0;
    for (ValueId id : n->results) {
      double total = 0;
      for (const auto& [sum, part] : made[id]) total += part * bytes(sum);
      // One message is quicker than several that have as many bytes.
      if (total > bytes(id) || (total == bytes(id) && made[id].size() > 1)) out[id] = true, made[id] = {{id, 1}};
      for (const auto& [sum, part] : made[id]) later[sum] = std::max(later[sum], part);
      size += bytes(id);
    }
    for (ValueId id : n->operands) {
      if (!values.hands_on(*n, {id})) {
        made[id][id] = 1;
        continue;
      }
      // Joined pieces are one sum, to which each adds its own bytes.
      const bool is_piece = size > bytes(id) && values.hands_on_jointly(*n, id);
      for (const auto& [sum, part] : later)
        made[id][sum] = is_piece ? std::min(1.0, made[id][sum] + part * bytes(id) / size) : std::max(made[id][sum], part);
    }
  }
  return out;
}

namespace {

/// Is `to` made by gathers alone: has every dimension of it the first of its axes in `from`, or none?
bool is_gathered(const Layout& from, const Layout& to) {
  for (size_t d = 0; d < to.dims.size(); ++d)
    if (!is_prefix(to.dims[d], from.dims[d])) return false;
  return !(from == to);
}

bool is_whole(const Layout& layout) {
  return std::all_of(layout.dims.begin(), layout.dims.end(), [](const ir::Axes& a) { return a.empty(); });
}

bool is_elementwise(const ir::Function& f, const Node& n) {
  if (n.op->traits.side_effect || n.op->manual || n.op->lower == ir::Lowering::kControl || !n.op->factors.exists()) return false;
  if (n.op->layout_role == ir::LayoutRole::kShard) return false;
  return goes_over_elements(n.op->factors(ir::typed(f, n)));
}

/// Groups of sharded values: those of one layout and shape that elementwise ops connect.
class Components {
 public:
  explicit Components(const ir::Function& f) : f_(f), parent_(f.values.size()), made_(f.values.size(), false), free_(made_of_scalars(f)) {
    for (size_t v = 0; v < parent_.size(); ++v) parent_[v] = v;
    for (const ir::Value& v : f.values) layouts_.push_back(layout_of(v.sharding, v.type.rank()));
    for (const Node& n : f.nodes)
      if (is_elementwise(f, n)) connect(n);
  }

  GatheredEarlier earlier() {
    GatheredEarlier out{std::vector<std::optional<Layout>>(parent_.size()), std::vector<std::optional<Layout>>(parent_.size())};
    for (const auto& [operand, result] : wants_) {
      auto [known, first] = wanted_.try_emplace(find(static_cast<size_t>(operand)), Wanted{{}, layouts_[result], true});
      known->second.agree &= known->second.to == layouts_[result];
      known->second.results.insert(result);
    }
    std::map<size_t, double> sources;
    for (size_t v = 0; v < parent_.size(); ++v)
      if (!made_[v] && !free_[v]) sources[find(v)] += bytes(v);
    for (const auto& [root, wanted] : wanted_) {
      double gathered = 0;
      for (ValueId id : wanted.results) gathered += bytes(static_cast<size_t>(id));
      if (!wanted.agree || gathered <= sources[root]) continue;
      for (size_t v = 0; v < parent_.size(); ++v)
        if (find(v) == root) (made_[v] || free_[v] ? out.layouts : out.sources)[v] = wanted.to;
    }
    return out;
  }

 private:
  struct Wanted {
    std::set<ValueId> results;
    Layout to;
    bool agree = true;
  };
  double bytes(size_t v) const { return static_cast<double>(f_.type(static_cast<ValueId>(v)).bytes().bounds().max); }
  size_t find(size_t v) {
    while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
    return v;
  }
  void connect(const Node& n) {
    std::vector<ValueId> values = n.operands;
    values.insert(values.end(), n.results.begin(), n.results.end());
    std::erase_if(values, [&](ValueId id) { return !(f_.type(id).shape == f_.type(n.results[0]).shape) || is_whole(layouts_[id]); });
    for (ValueId id : values)
      if (layouts_[id] == layouts_[values[0]]) parent_[find(static_cast<size_t>(id))] = find(static_cast<size_t>(values[0]));
    for (ValueId id : n.results) made_[id] = true;
    for (ValueId operand : n.operands)
      for (ValueId r : n.results)
        if (f_.type(operand).shape == f_.type(r).shape && is_gathered(layouts_[operand], layouts_[r])) wants_.push_back({operand, r});
  }

  const ir::Function& f_;
  std::vector<size_t> parent_;
  std::vector<char> made_, free_;  // by value: does an elementwise op make it; is it made of scalars alone?
  std::vector<Layout> layouts_;
  std::vector<std::pair<ValueId, ValueId>> wants_;
  std::map<size_t, Wanted> wanted_;  // by component
};

}  // namespace

GatheredEarlier gathered_earlier(const ir::Function& f) { return Components(f).earlier(); }

std::vector<ir::Axes> axes_beside(const ir::Mesh& mesh, std::vector<ir::Axes> of_factor, const ir::Axes& pending) {
  for (ir::Axes& axes : of_factor)
    std::erase_if(axes, [&](const ir::AxisRef& a) { return overlap(mesh, {a}, pending); });
  return of_factor;
}

std::optional<DType> narrow_exchange(const PassContext& context) {
  switch (context.options.partition.reduce_dtype) {
    case ReduceDType::kBF16:
      return DType::kBF16;
    case ReduceDType::kF16:
      return DType::kF16;
    default:
      return std::nullopt;
  }
}

Status check_reduce_dtype(const ir::Module& module, PassContext& context) {
  const ReduceDType given = context.options.partition.reduce_dtype;
  if (given == ReduceDType::kAsProgram) return Ok{};
  if (given == ReduceDType::kF32 && context.options.deterministic)
    return option_error("leave one of the two out",
                        "{} is given, and of deterministic programs ranks exchange granules of sums", OptionName{"reduce-dtype", "f32"});
  const std::optional<DType> narrow = narrow_exchange(context);
  for (const ir::FunctionPtr& f : module.functions)
    for (const ir::Value& v : f->values)
      if (narrow ? v.type.dtype == *narrow : is_narrow_float(v.type.dtype)) return Ok{};
  context.remarks.push_back({ir::RemarkKind::kReduceDType, "reduce-dtype",
                             fmt::format("{}: the program has no {}, so that ranks combine all sums as they are",
                                         OptionName{"reduce-dtype", option_text::print(given)},
                                         narrow ? name_of(*narrow) : "bfloat16 or float16")});
  return Ok{};
}

}  // namespace nabla::passes
