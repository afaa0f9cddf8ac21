#include "passes/shard/granulate_sums.h"

#include <algorithm>

#include "passes/rewrite.h"
#include "passes/shard/layout.h"
#include "passes/shard/open_composites.h"
#include "passes/shard/parts.h"
#include "passes/shard/propagate.h"

namespace nabla::passes {
namespace {

using ir::Axes;
using ir::Dim;
using ir::Factors;
using ir::Function;
using ir::Node;
using ir::Shape;
using ir::Val;

/// A sum of a node that ranks may share.
struct Sum {
  Factors factors;
  int factor;
  Axes axes;
};

Diagnostic refuse(const Node& n, const std::string& why) {
  Diagnostic d = error(Code::kBadSharding, "{} cannot be made deterministic: {}", n.op->name, why);
  d.location = n.location;
  return d;
}

// Does another operand lie along one of the axes where the results go on, as the batch does beside a weight that ranks share?
// Then these parts are computed, and what is summed over is gathered.
bool is_gathered_before(const Function& f, const Node& n, const Factors& factors, int sum, const Axes& axes) {
  auto named = [&](const ir::AxisRef& a) {
    return std::any_of(axes.begin(), axes.end(), [&](const ir::AxisRef& b) { return a.name == b.name; });
  };
  for (size_t i = 0; i < n.operands.size(); ++i) {
    Layout layout = layout_of(f.values[n.operands[i]].sharding, f.type(n.operands[i]).rank());
    for (size_t d = 0; d < layout.dims.size(); ++d) {
      const std::vector<int>& dim = factors.operands[i][d];
      bool other = std::find(dim.begin(), dim.end(), sum) == dim.end();
      if (other && std::any_of(layout.dims[d].begin(), layout.dims[d].end(), named)) return true;
    }
  }
  return false;
}

// The first floating-point sum of the node along a dimension with axes.
std::optional<Sum> shared_sum(const Function& f, const Node& n) {
  if (n.op->lower == ir::Lowering::kControl || !n.op->factors.exists()) return std::nullopt;
  bool floats =
      std::any_of(n.results.begin(), n.results.end(), [&](ir::ValueId id) { return is_float(f.type(id).dtype); });
  if (!floats) return std::nullopt;
  Factors factors = n.op->factors(typed(f, n));
  for (size_t i = 0; i < n.operands.size(); ++i) {
    Layout layout = layout_of(f.values[n.operands[i]].sharding, f.type(n.operands[i]).rank());
    for (size_t d = 0; d < layout.dims.size(); ++d) {
      if (layout.dims[d].empty()) continue;
      for (int k : factors.operands[i][d]) {
        const Factors::Factor& factor = factors.factors[static_cast<size_t>(k)];
        bool sums = factor.kind == Factors::Kind::kReduce &&
                    (factor.combiner == kernel_ir::Combiner::kSum || factor.combiner == kernel_ir::Combiner::kProd);
        if (sums && !is_gathered_before(f, n, factors, k, layout.dims[d])) return Sum{factors, k, layout.dims[d]};
      }
    }
  }
  return std::nullopt;
}

Status check_size(const Node& n, const Dim& size, const Axes& axes, const ir::Mesh& mesh) {
  int64_t parts = shards(mesh, axes);
  if (!has_granules(size))
    return refuse(n, fmt::format("it combines {} elements along {}, which are not a multiple of {}", size.str(), ir::str(axes),
                                 kGranules));
  if (kGranules % parts != 0)
    return refuse(n, fmt::format("{} ranks and microbatches lie along {}: they have to divide {}", parts, ir::str(axes), kGranules));
  return Ok{};
}

// The part of the node that has one granule of the sum.
ir::Shard granule_of(const ir::TypedOp& whole, const Sum& sum, int64_t index) {
  ir::Shard out{whole, sum.factors, {}, {}};
  for (const Factors::Factor& factor : sum.factors.factors) out.begins.push_back(0), out.sizes.push_back(factor.size);
  auto at = static_cast<size_t>(sum.factor);
  out.sizes[at] = Dim::floordiv(out.sizes[at], kGranules);
  out.begins[at] = out.sizes[at] * index;
  return out;
}

Status check(const Function& f, const Node& n, const Sum& sum, const ir::Mesh& mesh) {
  (void)NABLA_TRY(check_size(n, sum.factors.factors[static_cast<size_t>(sum.factor)].size, sum.axes, mesh));
  if (!n.op->batch.exists() ||
      sum.factors.factors[static_cast<size_t>(sum.factor)].combiner != kernel_ir::Combiner::kSum)
    return refuse(n, "it has no rule by which parts of it are computed side by side");
  for (size_t i = 0; i < n.operands.size(); ++i)
    for (const std::vector<int>& dim : sum.factors.operands[i])
      if (dim.size() > 1 && std::find(dim.begin(), dim.end(), sum.factor) != dim.end())
        return refuse(n,
                      fmt::format("a dimension of {} is more than what it combines", ir::value_name(f, n.operands[i])));
  // What is computed side by side has one set of attributes.
  ir::TypedOp whole = typed(f, n);
  ir::Shard first = granule_of(whole, sum, 0), second = granule_of(whole, sum, 1);
  if (!(first.attrs() == second.attrs()))
    return refuse(n, "parts of it differ by where they stand (a causal mask, dropout), and have no rule to be computed side by side");
  return Ok{};
}

/// Updates of a scatter_add that ranks may share: along a dimension of theirs, and the indices' dimension beside it.
struct Updates {
  size_t dim, of_indices;
  Axes axes;
};

std::optional<Updates> shared_updates(const Function& f, const Node& n) {
  if (n.op->rank_rule != ir::RankRule::kScatterAdd || !is_float(f.type(n.results[0]).dtype)) return std::nullopt;
  const ir::Ints& window = n.attrs.get_ints("update_window_dims");
  auto layout = [&](size_t i) { return layout_of(f.values[n.operands[i]].sharding, f.type(n.operands[i]).rank()); };
  Layout indices = layout(1), updates = layout(2);
  size_t of_indices = 0;
  for (size_t d = 0; d < updates.dims.size(); ++d) {
    if (std::find(window.begin(), window.end(), static_cast<int64_t>(d)) != window.end()) continue;
    if (static_cast<int64_t>(of_indices) == n.attrs.get_int("index_vector_dim")) ++of_indices;
    const Axes& axes = updates.dims[d].empty() ? indices.dims[of_indices] : updates.dims[d];
    const ir::Ints& batching = n.attrs.get_ints("scatter_indices_batching_dims");
    bool batches = std::find(batching.begin(), batching.end(), static_cast<int64_t>(of_indices)) != batching.end();
    if (!axes.empty() && !batches) return Updates{d, of_indices, axes};
    ++of_indices;
  }
  return std::nullopt;
}

// Neighbours along dimension 0 are added until one is left.
Val tree(Val v) {
  for (int64_t count = kGranules; count > 1; count /= 2) {
    Shape pairs = v.shape(), half = pairs;
    pairs[0] = 2;
    pairs.insert(pairs.begin(), count / 2);
    half[0] = count / 2;
    Val paired = ir::reshape(v, pairs);
    auto of = [&](int64_t which) {
      Shape range = {which, 1};
      return ir::reshape(v.b->op("section", {paired}, {{"axis", int64_t{1}}, {"range", range}}), half);
    };
    Val left = of(0), right = of(1);
    v = left + right;
  }
  Shape one = v.shape();
  one.erase(one.begin());
  return ir::reshape(v, one);
}

// The node with one of its sums in granules. Sums of narrow floats are rounded once, after the tree.
Result<std::vector<Val>> in_granules(FunctionCopy& copy, const Function& f, const Node& n, const Sum& sum) {
  ir::TypedOp whole = typed(f, n);
  ir::Shard shard = granule_of(whole, sum, 0);
  ir::Attrs attrs = shard.attrs();
  ir::TypedOp granule{*n.op, {}, attrs, {}};
  ir::BatchContext context{copy.builder(), granule, {}, {}, kGranules};
  for (size_t i = 0; i < n.operands.size(); ++i) {
    granule.operands.push_back(shard.operand(static_cast<int>(i)));
    DType dtype = granule.operands.back().dtype = accumulation_type(granule.operands.back().dtype);
    Val v = ir::convert(copy.at(n.operands[i]), dtype);
    const Factors::Tensor& dims = sum.factors.operands[i];
    auto at = std::find_if(dims.begin(), dims.end(), [&](const auto& d) { return d == std::vector<int>{sum.factor}; });
    context.batched.push_back(at != dims.end());
    context.operands.push_back(at == dims.end() ? v : parts_first(v, at - dims.begin(), kGranules));
  }
  for (size_t r = 0; r < n.results.size(); ++r) {
    granule.results.push_back(shard.result(static_cast<int>(r)));
    granule.results.back().dtype = accumulation_type(granule.results.back().dtype);
  }
  std::vector<Val> made = n.op->batch(context), out;
  for (size_t r = 0; r < made.size(); ++r) {
    const Factors::Tensor& dims = sum.factors.results[r];
    auto at = std::find_if(dims.begin(), dims.end(), [&](const auto& d) { return d == std::vector<int>{sum.factor}; });
    if (at == dims.end() && has_factor(dims, sum.factor))
      return refuse(n, "its results have what it combines beside other things");
    Val joined = at == dims.end() ? tree(made[r]) : parts_joined(made[r], at - dims.begin());
    out.push_back(ir::convert(joined, f.type(n.results[r]).dtype));
  }
  return out;
}

// Each granule adds its updates to zeros, in their order; the operand comes last.
Val in_granules(FunctionCopy& copy, const Function& f, const Node& n, const Updates& shared) {
  ir::TypedOp whole = typed(f, n), granule{*n.op, whole.operands, n.attrs, whole.results};
  Dim& ids = granule.operands[1].shape[shared.of_indices];
  ids = granule.operands[2].shape[shared.dim] = Dim::floordiv(ids, kGranules);
  for (size_t i : {size_t{0}, size_t{2}}) granule.operands[i].dtype = accumulation_type(granule.operands[i].dtype);
  granule.results[0].dtype = accumulation_type(granule.results[0].dtype);
  ir::FunctionBuilder& b = copy.builder();
  Shape zeros = whole.operands[0].shape;
  zeros.insert(zeros.begin(), kGranules);
  std::vector<Val> operands = {b.fill(granule.operands[0].dtype, zeros, 0),
                               parts_first(copy.at(n.operands[1]), static_cast<int64_t>(shared.of_indices), kGranules),
                               parts_first(ir::convert(copy.at(n.operands[2]), granule.operands[2].dtype),
                                           static_cast<int64_t>(shared.dim), kGranules)};
  ir::BatchContext context{b, granule, operands, {true, true, true}, kGranules};
  Val operand = ir::convert(copy.at(n.operands[0]), granule.operands[0].dtype);
  return ir::convert(operand + tree(n.op->batch(context)[0]), whole.operands[0].dtype);
}

// Every node that shares a sum, once; nothing where there is none.
Result<bool> granulate(ir::Module& m, PassContext& context) {
  bool any = false;
  for (ir::FunctionPtr& f : m.functions) {
    std::map<const Node*, Sum> sums;
    std::map<const Node*, Updates> updates;
    for (const Node& n : f->nodes)
      if (std::optional<Sum> sum = shared_sum(*f, n)) {
        (void)NABLA_TRY(check(*f, n, *sum, *m.mesh()));
        sums.emplace(&n, std::move(*sum));
      } else if (std::optional<Updates> some = shared_updates(*f, n)) {
        (void)NABLA_TRY(check_size(n, f->type(n.operands[2]).shape[some->dim], some->axes, *m.mesh()));
        updates.emplace(&n, std::move(*some));
      }
    if (sums.empty() && updates.empty()) continue;
    any = true;
    FunctionCopy copy(*f, context.ops, &m);
    for (const Node& n : f->nodes) {
      copy.builder().set_location(n.location);
      if (auto sum = sums.find(&n); sum != sums.end())
        copy.set(n.results, NABLA_TRY(in_granules(copy, *f, n, sum->second)));
      else if (auto some = updates.find(&n); some != updates.end())
        copy.set(n.results[0], in_granules(copy, *f, n, some->second));
      else
        copy.copy(n);
    }
    f = copy.finish();
  }
  return any;
}

void stay_whole(ir::ShardingRef& sharding, const ir::Type& type) {
  if (!sharding) sharding = std::make_shared<const ir::Sharding>(whole_sharding(type.rank()));
}
// State and parameters of entries that are whole stay so.
ir::Module with_whole_leaves(ir::Module m) {
  for (ir::StateLeaf& leaf : m.state) stay_whole(leaf.sharding, leaf.type);
  for (const ir::Entry& e : m.entries) {
    Function f = *m.find(e.function);
    for (ir::ValueId id : f.params) stay_whole(f.values[id].sharding, f.values[id].type);
    m.set(std::make_shared<const Function>(std::move(f)));
  }
  return m;
}
// So do all values that there are.
ir::Module with_whole_values(ir::Module m) {
  for (ir::FunctionPtr& shared : m.functions) {
    Function f = *shared;
    for (ir::Value& v : f.values) stay_whole(v.sharding, v.type);
    shared = std::make_shared<const Function>(std::move(f));
  }
  return m;
}

}  // namespace

Result<ir::Module> granulate_sums(const ir::Module& module, PassContext& context) {
  if (!context.options.deterministic || !module.mesh()) return module;
  ir::Module out = module;
  auto laid_out_anew = [](ir::Module changed, PassContext& how) {
    changed.stage = ir::Stage::kFlat;
    return propagate(with_whole_leaves(std::move(changed)), how);
  };
  // Composites of which no parts can be computed side by side are written out.
  auto closed = [&](size_t f, const Node& n) { return !n.op->batch.exists() && shared_sum(*out.functions[f], n).has_value(); };
  while (auto opened = with_open_composites(out, closed, context)) out = NABLA_TRY(laid_out_anew(*opened, context));
  // A node may share several sums; each round takes one of them, and lays out what is new. The nodes of a tree lie along as many
  // of the axes as there are nodes for: that changes no sum.
  PassContext of_trees = context;
  of_trees.options.deterministic = false;
  for (ir::Module next = with_whole_values(out); NABLA_TRY(granulate(next, context)); next = with_whole_values(out))
    out = NABLA_TRY(laid_out_anew(std::move(next), of_trees));
  context.remarks = std::move(of_trees.remarks);
  return out;
}

Status check_deterministic(const ir::Module& local, PassContext& context) {
  int64_t gathers = 0, bytes = 0;
  for (const ir::FunctionPtr& f : local.functions)
    for (const Node& n : f->nodes) {
      if (ir::is_collective(n, CollectiveKind::kAllGather)) ++gathers, bytes += f->type(n.results[0]).bytes().bounds().max;
      if (!ir::combines_ranks(n) || n.attrs.get_int("shards") == 1 || !is_float(f->type(n.operands[0]).dtype)) continue;
      const std::string& combiner = n.attrs.get_string("combiner");
      if (combiner == "max" || combiner == "min") continue;
      std::string of = ir::describe_value(*f, n.operands[0]);
      return refuse(n, fmt::format("ranks along {} would combine it in their own order ({})",
                                   ir::str(n.attrs.get_axes("axes")), of));
    }
  context.remarks.push_back({ir::RemarkKind::kDeterministic, "deterministic",
                             fmt::format("deterministic: every sum over ranks or microbatches is a tree of eight parts; "
                                         "{} values of {} bytes in all are gathered for that and for layouts", gathers, bytes),
                             bytes});
  return Ok{};
}

void note_deterministic(Diagnostics& errors, const std::string& temporal_axis) {
  for (Diagnostic& d : errors)
    d.notes.push_back(fmt::format("deterministic: microbatches exchange parts of sums along {}, where they would add up sums of their "
                                  "own; without that option the program may be separable", temporal_axis));
}

}  // namespace nabla::passes
