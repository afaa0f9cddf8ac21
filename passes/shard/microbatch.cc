#include "passes/shard/microbatch.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/builder.h"
#include "ir/cost/least_work.h"
#include "ir/kernel_ir/eval.h"
#include "passes/rewrite.h"
#include "passes/shard/early_sums.h"
#include "passes/shard/layout.h"
#include "passes/shard/parts.h"
#include "passes/shard/separable_positions.h"
#include "runtime/base/option_name.h"

namespace nabla::passes {
namespace {

using ir::Dim;
using ir::Function;
using ir::Node;
using ir::Shape;
using ir::Val;
using ir::ValueId;

ir::Axes without(ir::Axes axes, const std::string& axis) {
  std::erase_if(axes, [&](const ir::AxisRef& a) { return a.name == axis; });
  return axes;
}
bool mentions(const Dim& d, const std::string& axis) {
  if (d.is_static()) return false;
  std::vector<ir::SymbolRef> symbols = d.symbols();
  return std::any_of(symbols.begin(), symbols.end(), [&](const ir::SymbolRef& s) { return s->axis == axis; });
}
bool mentions(const ir::Attrs& attrs, const std::string& axis) {
  for (const auto& [name, attr] : attrs)
    if (const Shape* shape = std::get_if<Shape>(&attr))
      if (std::any_of(shape->begin(), shape->end(), [&](const Dim& d) { return mentions(d, axis); })) return true;
  return false;
}

/// Where a part begins that microbatch k has at first + k * size; nothing where parts do not follow each other so.
std::optional<Dim> first_of(const Dim& begin, const Dim& size, const std::string& axis) {
  Dim first = begin.substitute([&](const ir::SymbolRef& s) { return s->axis == axis ? Dim(0) : Dim::symbol(s); });
  for (const ir::SymbolRef& s : begin.symbols())
    if (s->axis == axis && first + Dim::symbol(s) * size == begin) return first;
  return std::nullopt;
}

Diagnostic inseparable(const Node& n, const ir::MeshAxis& axis, const std::string& why) {
  Diagnostic d = error(Code::kBadSharding, "{} is not separable along the temporal axis {} of {} microbatches: {}",
                       n.op->name, axis.name, axis.size, why);
  d.location = n.location;
  d.help = fmt::format("compute it of each microbatch alone, or do without microbatches: neither {} nor {} in layouts",
                       OptionName{"microbatches"}, axis.name);
  return d;
}

// A tensor of the combiner's neutral element.
Val neutral(ir::FunctionBuilder& b, const ir::Type& type, kernel_ir::Combiner combiner) {
  Literal one(type.dtype, {});
  kernel_ir::set(one, 0, kernel_ir::Evaluator(identity_of(combiner, type.dtype)).run({}, {}));
  return ir::broadcast_in_dim(b.constant(one), type.shape, {});
}

/// An entry's function after partition.
struct OneMicrobatch {
  const Function& f;
  ir::MeshAxis axis;
  std::map<size_t, int> cut;      ///< parameters that are parts along the axis, and the dimension that it cuts
  std::map<size_t, int> stacked;  ///< the same of results
};

class MicrobatchLoop {
 public:
  MicrobatchLoop(const OneMicrobatch& one, GradSync exchange, ir::Module& module, const ir::OpTable& ops)
      : one_(one),
        exchange_(exchange),
        f_(one.f),
        name_(one.axis.name),
        count_(one.axis.size),
        module_(module),
        ops_(ops),
        makers_(ir::producers(f_)),
        when_(f_.values.size(), kBefore),
        outer_(f_.name, ops, &module),
        body_(fresh_name(module, f_.name + ".microbatch"), ops, &module),
        outside_(f_.values.size()),
        inside_(f_.values.size()) {}

  Result<ir::FunctionPtr> run() {
    (void)NABLA_TRY(order());
    if (exchange_ != GradSync::kLast) gather_inside(), reduce_inside();
    for (size_t i = 0; i < f_.params.size(); ++i) parameter(i);
    for (const Node& n : f_.nodes)
      if (time_of(n) == kBefore) copy_node(n, f_, outer_, outside_);
    body();
    scan();
    for (const Node& n : f_.nodes)
      if (time_of(n) == kAfter && !joins(n, name_) && !is_reduced_inside(n)) copy_node(n, f_, outer_, outside_);
    return finish();
  }

 private:
  enum When : uint8_t { kBefore, kInside, kAfter };
  When time_of(const Node& n) const { return n.results.empty() ? effect_at(n) : when_[n.results[0]]; }
  When effect_at(const Node& n) const {
    When out = kBefore;
    for (ValueId id : n.operands) out = std::max(out, when_[id]);
    return out;
  }

  // ---- When each node runs.
  Result<Ok> order() {
    for (const auto& [i, dim] : one_.cut) when_[f_.params[i]] = kInside;
    for (const Node& n : f_.nodes) {
      When latest = effect_at(n);
      bool inside = std::any_of(n.operands.begin(), n.operands.end(), [&](ValueId id) { return when_[id] == kInside; });
      When at = inside ? kInside : latest;
      if (joins(n, name_)) {
        (void)NABLA_TRY(check_join(n, latest));
        at = kAfter;
      } else if (mentions(n.attrs, name_)) {
        if (latest != kBefore || !is_sliced(n))
          return inseparable(n, one_.axis,
                             latest == kAfter ? from_all(n) : "it depends on where the microbatch stands");
        at = kInside;
      } else if (inside && latest == kAfter) {
        return inseparable(n, one_.axis, from_all(n));
      }
      for (ValueId id : n.results) when_[id] = at;
    }
    return Ok{};
  }
  Result<Ok> check_join(const Node& n, When operand) const {
    const ir::Axes& axes = n.attrs.get_axes("axes");
    bool last = axes.back() == ir::AxisRef{name_};
    bool known = ir::is_collective(n, CollectiveKind::kAllReduce) || (ir::is_collective(n, CollectiveKind::kAllGather) && last);
    if (operand != kAfter && known) return Ok{};
    return inseparable(n, one_.axis, operand == kAfter ? from_all(n) : "microbatches cannot exchange values");
  }
  // What ranks gather for the microbatches alone is there for one of them at a time: the gathers, and what only moves or
  // converts what they bring.
  void gather_inside() {
    std::vector<bool> gathered(f_.values.size(), false), outside(f_.values.size(), false);
    for (const Node& n : f_.nodes) {
      bool follows = std::any_of(n.operands.begin(), n.operands.end(), [&](ValueId id) { return gathered[id]; });
      bool moves = follows && (is_cheap(n) || n.op->form == ir::OpForm::kConvert);
      for (ValueId id : n.results) gathered[id] = time_of(n) == kBefore && (ir::is_collective(n, CollectiveKind::kAllGather) || moves);
    }
    for (ValueId id : f_.results) outside[id] = true;
    for (auto n = f_.nodes.rbegin(); n != f_.nodes.rend(); ++n) {
      bool sinks = !n->results.empty() && gathered[n->results[0]] && !outside[n->results[0]];
      if (sinks) when_[n->results[0]] = kInside;
      // A slice along the axis is cut from all microbatches' values, before the loop.
      if (time_of(*n) != kInside || mentions(n->attrs, name_))
        for (ValueId id : n->operands) outside[id] = true;
    }
  }
  // A sum over the microbatches that ranks then add up, and may share, is kept so.
  void reduce_inside() {
    std::map<ValueId, int> readers;
    for (const Node& n : f_.nodes)
      for (ValueId id : n.operands) ++readers[id];
    for (ValueId id : f_.results) ++readers[id];
    for (const Node& n : f_.nodes) {
      if (!is_sum(n) || joins(n, name_) || makers_[n.operands[0]] < 0 || readers[n.operands[0]] != 1) continue;
      const Node& sum = f_.nodes[static_cast<size_t>(makers_[n.operands[0]])];
      const bool early = exchange_ == GradSync::kEach || ir::is_collective(n, CollectiveKind::kReduceScatter);
      if (early && is_sum(sum) && joins(sum, name_) && f_.type(sum.operands[0]).rank() > 0) shares_[&sum] = &n;
    }
  }
  static bool is_sum(const Node& n) {
    return ir::combines_ranks(n) && n.attrs.get_string("combiner") == "sum";
  }
  bool is_reduced_inside(const Node& n) const {
    return std::any_of(shares_.begin(), shares_.end(), [&](const auto& s) { return s.second == &n; });
  }
  // Whether ranks exchange the sum after the loop, single numbers always: earlier they would send more, and keep as much.
  bool waits(const Node& sum) const {
    if (f_.type(sum.operands[0]).rank() == 0) return true;
    return exchange_ == GradSync::kLast || (exchange_ == GradSync::kShares && !shares_.contains(&sum));
  }
  // What one microbatch adds to a sum.
  Val summand_of(const Node& sum) {
    Val x = inside(sum.operands[0]);
    if (waits(sum)) return x;
    x = rest_of(body_, sum, x);
    auto share = shares_.find(&sum);
    return share == shares_.end() ? x : body_.clone(*share->second, {x})[0];
  }

  // Which operand follows from all microbatches, for a message.
  std::string from_all(const Node& n) const {
    for (ValueId id : n.operands) {
      if (when_[id] != kAfter) continue;
      ValueId at = id;
      while (makers_[at] >= 0 && !joins(f_.nodes[static_cast<size_t>(makers_[at])], name_)) {
        const std::vector<ValueId>& from = f_.nodes[static_cast<size_t>(makers_[at])].operands;
        at = *std::find_if(from.begin(), from.end(), [&](ValueId v) { return when_[v] == kAfter; });
      }
      const Node& join = f_.nodes[static_cast<size_t>(makers_[at])];
      std::string of = ir::describe_value(f_, join.operands[0]);
      return fmt::format("a microbatch needs what is combined over all of them ({})", of);
    }
    return "";
  }
  // A part of a value, or of a tensor that follows from where its elements stand, that lies in the whole as a
  // microbatch lies in the batch.
  bool is_sliced(const Node& n) const {
    if (n.op->form == ir::OpForm::kSection) {
      const Shape& range = n.attrs.get_shape("range");
      return !mentions(range[1], name_) && first_of(range[0], range[1], name_).has_value();
    }
    return placed_dim(n).has_value();
  }
  std::optional<size_t> placed_dim(const Node& n) const {
    const ir::Attr *offset = n.attrs.find("offset"), *shape = n.attrs.find("shape");
    if (!offset || !shape) return std::nullopt;
    const Shape &at = std::get<Shape>(*offset), &size = std::get<Shape>(*shape);
    std::optional<size_t> out;
    for (size_t d = 0; d < at.size(); ++d) {
      if (mentions(size[d], name_)) return std::nullopt;
      if (!mentions(at[d], name_)) continue;
      if (out || !first_of(at[d], size[d], name_)) return std::nullopt;
      out = d;
    }
    return out;
  }

  // ---- Building.
  void parameter(size_t i) {
    const ir::Value& v = f_.values[f_.params[i]];
    auto dim = one_.cut.find(i);
    if (dim == one_.cut.end()) {
      outside_[f_.params[i]] = outer_.param(v.name, v.type);
      return;
    }
    ir::Type all = v.type;
    Dim& extent = all.shape[static_cast<size_t>(dim->second)];
    extent = extent * count_;
    slices_.push_back({f_.params[i], parts_first(outer_.param(v.name, all), dim->second, count_)});
  }

  // A value in the body. What does not depend on the microbatch is a constant of the loop, or computed here for
  // nothing: movements and literals are part of the code that reads them.
  Val inside(ValueId id) {
    if (inside_[id].b) return inside_[id];
    const Node& maker = f_.nodes[static_cast<size_t>(makers_[id])];
    for (ValueId operand : maker.operands) (void)inside(operand);
    copy_node(maker, f_, body_, inside_);
    return inside_[id];
  }

  void body() {
    find_constants();
    for (ValueId id : consts_) inside_[id] = body_.param(f_.values[id].name, f_.type(id));
    for (const Node& n : f_.nodes)
      if (joins(n, name_) && ir::is_collective(n, CollectiveKind::kAllReduce)) sums_.push_back({&n, body_.param("", summand(n))});
    for (const Node& n : f_.nodes) slice_of(n);
    for (Slices& s : slices_) {
      ir::Type type = s.all.type();
      type.shape.erase(type.shape.begin());
      inside_[s.value] = body_.param(f_.values[s.value].name, type);
    }
    for (const Node& n : f_.nodes) {
      if (time_of(n) != kInside || mentions(n.attrs, name_)) continue;
      for (ValueId id : n.operands) (void)inside(id);
      copy_node(n, f_, body_, inside_);
    }
    std::vector<Val> results;
    for (const Sum& s : sums_) {
      body_.set_location(s.node->location);
      Val x = ir::convert(summand_of(*s.node), s.carry.dtype());
      results.push_back(body_.op(std::string(scalar_of(combiner(*s.node))), {s.carry, x}));
    }
    for (const Node& n : f_.nodes)
      if (joins(n, name_) && ir::is_collective(n, CollectiveKind::kAllGather)) results.push_back(inside(n.operands[0]));
    for (const auto& [r, dim] : one_.stacked) results.push_back(inside(f_.results[r]));
    Function made = body_.finish(results);
    made.location = f_.location;
    body_name_ = made.name;
    module_.set(std::make_shared<const Function>(std::move(made)));
  }
  // Values from before the loop that the body reads and cannot compute for nothing itself, each once.
  void find_constants() {
    std::vector<bool> seen(f_.values.size(), false);
    auto visit = [&](auto& self, ValueId id) -> void {
      if (when_[id] != kBefore || seen[id]) return;
      seen[id] = true;
      const Node* maker = makers_[id] < 0 ? nullptr : &f_.nodes[static_cast<size_t>(makers_[id])];
      if (!maker || !is_cheap(*maker)) return consts_.push_back(id);
      for (ValueId operand : maker->operands) self(self, operand);
    };
    for (const Node& n : f_.nodes)
      if (joins(n, name_) || (time_of(n) == kInside && !mentions(n.attrs, name_)))
        for (ValueId id : n.operands) visit(visit, id);
    for (const auto& [r, dim] : one_.stacked) visit(visit, f_.results[r]);
  }
  bool is_cheap(const Node& n) const {
    if (n.results.size() != 1 || n.op->traits.fence || n.op->traits.side_effect) return false;
    if (n.op->lower == ir::Lowering::kConstant) return true;
    return n.op->category == "movement" && ir::node_flops(f_, n).is(0) && ir::functions_of(n.attrs).empty();
  }

  // The values of all microbatches of which the node is the part of one.
  void slice_of(const Node& n) {
    if (time_of(n) != kInside || !mentions(n.attrs, name_)) return;
    outer_.set_location(n.location);
    ir::Attrs attrs = n.attrs;
    if (n.op->form == ir::OpForm::kSection) {
      Shape range = n.attrs.get_shape("range");
      range = {*first_of(range[0], range[1], name_), range[1] * count_};
      attrs.set("range", range);
      Val all = outer_.op("section", at(n.operands, outside_), attrs);
      slices_.push_back({n.results[0], parts_first(all, static_cast<int>(n.attrs.get_int("axis")), count_)});
      return;
    }
    size_t d = *placed_dim(n);
    Shape offset = n.attrs.get_shape("offset"), shape = n.attrs.get_shape("shape");
    offset[d] = *first_of(offset[d], shape[d], name_);
    shape[d] = shape[d] * count_;
    attrs.set("offset", offset);
    attrs.set("shape", shape);
    slices_.push_back({n.results[0], parts_first(outer_.op(n.op->name, at(n.operands, outside_), attrs),
                                                 static_cast<int>(d), count_)});
  }

  kernel_ir::Combiner combiner(const Node& n) const {
    return *kernel_ir::combiner_from_name(n.attrs.get_string("combiner"));
  }
  // What a sum is accumulated in.
  ir::Type summand(const Node& n) const {
    auto share = shares_.find(&n);
    ir::Type out = f_.type(share == shares_.end() ? n.operands[0] : share->second->results[0]);
    out.dtype = accumulation_type(out.dtype);
    return out;
  }

  void scan() {
    std::vector<Val> operands = at(consts_, outside_), results;
    outer_.set_location(f_.location);
    for (const Sum& s : sums_) {
      ir::Type type = summand(*s.node);
      operands.push_back(neutral(outer_, type, combiner(*s.node)));
    }
    for (const Slices& s : slices_) operands.push_back(s.all);
    ir::Attrs attrs{{"body", ir::FunctionRef{body_name_}},
                    {"consts", static_cast<int64_t>(consts_.size())},
                    {"carries", static_cast<int64_t>(sums_.size())},
                    {"length", Shape{count_}}};
    results = outer_.add("scan", operands, attrs);
    size_t next = 0;
    for (const Sum& s : sums_) {
      outer_.set_location(s.node->location);
      Val sum = ir::convert(results[next++], f_.type(s.node->operands[0]).dtype);
      if (auto share = shares_.find(s.node); share != shares_.end())
        outside_[share->second->results[0]] = sum;
      else
        outside_[s.node->results[0]] = waits(*s.node) ? rest_of(outer_, *s.node, sum) : sum;
    }
    for (const Node& n : f_.nodes)
      if (joins(n, name_) && ir::is_collective(n, CollectiveKind::kAllGather)) {
        outer_.set_location(n.location);
        Val all = parts_joined(results[next++], static_cast<int>(n.attrs.get_int("dim")));
        outside_[n.results[0]] = rest_of(outer_, n, all);
      }
    for (const auto& [r, dim] : one_.stacked) stacked_[r] = parts_joined(results[next++], dim);
  }
  // What the collective still does along the other axes.
  Val rest_of(ir::FunctionBuilder& b, const Node& n, Val v) const {
    ir::Axes axes = without(n.attrs.get_axes("axes"), name_);
    if (axes.empty()) return v;
    ir::Attrs attrs = n.attrs;
    attrs.set("axes", axes);
    attrs.set("shards", n.attrs.get_int("shards") / count_);
    return b.op(n.op->name, {v}, attrs);
  }

  ir::FunctionPtr finish() {
    std::vector<Val> results;
    for (size_t r = 0; r < f_.results.size(); ++r) {
      auto all = stacked_.find(r);
      results.push_back(all == stacked_.end() ? outside_[f_.results[r]] : all->second);
    }
    Function made = outer_.finish(results);
    made.location = f_.location;
    return std::make_shared<const Function>(std::move(made));
  }

  /// A value of one microbatch, and those of all with the microbatches as dimension 0.
  struct Slices {
    ValueId value;
    Val all;
  };
  struct Sum {
    const Node* node;
    Val carry;
  };

  const OneMicrobatch& one_;
  GradSync exchange_;
  const Function& f_;
  const std::string& name_;
  int64_t count_;
  ir::Module& module_;
  const ir::OpTable& ops_;
  std::vector<int> makers_;
  std::vector<When> when_;  // by value
  ir::FunctionBuilder outer_, body_;
  std::vector<Val> outside_, inside_;  // by value
  std::vector<ValueId> consts_;
  std::vector<Sum> sums_;
  std::map<const Node*, const Node*> shares_;  // a sum over microbatches, and that over ranks, which the loop does
  std::vector<Slices> slices_;
  std::map<size_t, Val> stacked_;  // by result
  std::string body_name_;
};

// Where a layout that the program states puts microbatches together that its operand has apart; nothing where none does.
std::optional<Diagnostic> put_together(const Function& sharded, const ir::MeshAxis& axis) {
  for (const Node& n : sharded.nodes) {
    if (n.op->layout_role != ir::LayoutRole::kShard) continue;
    const ir::Value &x = sharded.values[n.operands[0]], &y = sharded.values[n.results[0]];
    const Layout from = layout_of(x.sharding, x.type.rank()), to = layout_of(y.sharding, y.type.rank());
    for (size_t d = 0; d < from.dims.size(); ++d) {
      if (!names(from.dims[d], axis.name) || names(to.dims[d], axis.name)) continue;
      const std::string said = n.attrs.get_sharding("sharding").str();
      Diagnostic out = inseparable(n, axis, fmt::format("laid out as {}, it puts them together ({})", said,
                                                        ir::describe_value(sharded, n.operands[0])));
      const ir::Axes ranks = without(from.dims[d], axis.name);
      out.help = fmt::format("lay dimension {} out as the operand lies{}, or leave it open; or do without microbatches: neither "
                             "{} nor {} in layouts",
                             d, ranks.empty() ? "" : ", along " + ir::str(ranks), OptionName{"microbatches"}, axis.name);
      return out;
    }
  }
  return std::nullopt;
}

// Of a function that a branch or a loop runs.
Status check_separable(const Function& f, const ir::MeshAxis& axis) {
  for (const Node& n : f.nodes)
    if (joins(n, axis.name) || mentions(n.attrs, axis.name))
      return inseparable(n, axis, "it stands in a branch or a loop, and depends on the other microbatches");
  return Ok{};
}

// The loop over microbatches, after one for what they need of all of them and inputs alone decide.
Result<ir::FunctionPtr> in_stages(const OneMicrobatch& one, GradSync exchange, size_t reads, ir::Module& module, const ir::OpTable& ops) {
  std::vector<bool> inside;
  for (size_t i = 0; i < one.f.params.size(); ++i) inside.push_back(one.cut.contains(i));
  std::optional<Stages> stages = early_sums(one.f, one.axis.name, inside, reads, ops, module);
  if (!stages) return MicrobatchLoop(one, exchange, module, ops).run();
  std::map<size_t, int> cut;
  for (size_t i = 0; i < stages->params.size(); ++i)
    if (auto dim = one.cut.find(stages->params[i]); dim != one.cut.end()) cut[i] = dim->second;
  stages->first = *NABLA_TRY(MicrobatchLoop({stages->first, one.axis, cut, {}}, exchange, module, ops).run());
  stages->second = *NABLA_TRY(MicrobatchLoop({stages->second, one.axis, one.cut, one.stacked}, exchange, module, ops).run());
  return std::make_shared<const Function>(joined(*stages, one.f.name, ops, module));
}

// How many of the function's first parameters are state.
size_t reads_of(const ir::Module& m, const std::string& function) {
  const ir::Entry* entry = m.entry_of(function);
  return entry ? entry->reads.size() : 0;
}

}  // namespace

Status add_microbatch_loops(const ir::Module& sharded, GradSync exchange, ir::Module& local, const ir::OpTable& ops) {
  const ir::MeshAxis& axis = *sharded.mesh()->temporal();
  std::set<std::string> run;
  for (const ir::FunctionPtr& f : sharded.functions)
    for (std::string& name : referenced_functions(*f)) run.insert(std::move(name));
  for (const ir::FunctionPtr& f : sharded.functions) {
    ScopedActivity activity("partition on @" + f->name);
    auto made = std::find_if(local.functions.begin(), local.functions.end(),
                             [&](const ir::FunctionPtr& g) { return g->name == f->name; });
    const ir::FunctionPtr one = *made = with_separable_positions(*made, axis, local, ops);
    // Of what is not separable the program's own layout is the cause, if one is.
    auto checked = [&]<typename T>(Result<T> result) -> Result<T> {
      std::optional<Diagnostic> cause = result.ok() ? std::nullopt : put_together(*f, axis);
      return cause ? Result<T>(std::move(*cause)) : std::move(result);
    };
    if (run.count(f->name)) {
      (void)NABLA_TRY(checked(check_separable(*one, axis)));
      continue;
    }
    auto along = [&](const std::vector<ValueId>& values) {
      std::map<size_t, int> cut;
      for (size_t i = 0; i < values.size(); ++i) {
        Layout layout = layout_of(f->values[values[i]].sharding, f->type(values[i]).rank());
        for (size_t d = 0; d < layout.dims.size(); ++d)
          if (names(layout.dims[d], axis.name)) cut[i] = static_cast<int>(d);
      }
      return cut;
    };
    OneMicrobatch microbatch{*one, axis, along(f->params), along(f->results)};
    local.set(NABLA_TRY(checked(in_stages(microbatch, exchange, reads_of(sharded, f->name), local, ops))));
  }
  std::erase_if(local.symbols, [&](const ir::SymbolRef& s) { return s->axis == axis.name; });
  local.meshes = without_temporal_axes(local).meshes;
  return Ok{};
}

ir::Module without_temporal_axes(const ir::Module& module) {
  ir::Module out = module;
  if (!module.mesh()) return out;
  std::erase_if(out.meshes[0].axes, [](const ir::MeshAxis& a) { return a.temporal; });
  bool alone = out.meshes[0].axes.empty();
  auto spatial = [&](const ir::ShardingRef& of) -> ir::ShardingRef {
    if (!of || alone) return nullptr;
    ir::Sharding s = *of;
    auto drop = [&](ir::Axes& axes) {
      std::erase_if(axes, [&](const ir::AxisRef& a) { return out.meshes[0].size_of(a.name) == 0; });
    };
    for (ir::DimSharding& d : s.dims) drop(d.axes);
    drop(s.replicated);
    return std::make_shared<const ir::Sharding>(std::move(s));
  };
  for (ir::FunctionPtr& f : out.functions) {
    Function made = *f;
    for (ir::Value& v : made.values) v.sharding = spatial(v.sharding);
    f = std::make_shared<const Function>(std::move(made));
  }
  for (ir::StateLeaf& leaf : out.state) leaf.sharding = spatial(leaf.sharding);
  if (alone) out.meshes.clear();
  return out;
}

}  // namespace nabla::passes
