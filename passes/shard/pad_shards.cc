#include "passes/shard/pad_shards.h"

#include <algorithm>
#include <limits>
#include <set>

#include "ir/linearity.h"
#include "ir/typed.h"
#include "passes/rewrite.h"
#include "passes/shard/layout.h"
#include "passes/shard/open_composites.h"
#include "passes/shard/padding.h"
#include "passes/shard/parts.h"

namespace nabla::passes {
namespace {

using ir::Dim;
using ir::Factors;
using ir::Function;
using ir::Node;
using ir::Shape;
using ir::Val;
using ir::ValueId;
using kernel_ir::Combiner;
using How = PaddedFactor::How;

Val scalar_of(ir::FunctionBuilder& b, const kernel_ir::Expr& number, DType dtype) {
  Literal value(dtype, {});
  is_float(dtype) ? value.set(0, number->number) : value.set_i(0, number->integer);
  return b.constant(value);
}

// What a test finds where padding counts that should not: NaN, or the largest integer.
Literal poison_of(DType dtype) {
  Literal out(dtype, {});
  if (is_float(dtype))
    out.set(0, std::numeric_limits<double>::quiet_NaN());
  else
    out.set_i(0, dtype == DType::kBool ? 1 : kernel_ir::identity_of(Combiner::kMin, dtype)->integer);
  return out;
}

/// A function of which some dimensions are longer.
class PaddedFunction {
 public:
  /// `most`: bytes of a value that an op may get without its padding. `probe` may be null.
  PaddedFunction(const Function& f, const ir::Module& made, const PaddedDims& dims, PassContext& context, int64_t most,
                 PaddingProbe* probe)
      : f_(f), dims_(dims), index_(dims.index(f.name)), context_(context), most_(most), probe_(probe),
        b_(f.name, context.ops, &made), values_(f.values.size()) {}

  Result<ir::FunctionPtr> run() {
    bool inner = dims_.is_called(f_.name);
    for (size_t i = 0; i < f_.params.size(); ++i) inner ? inner_param(f_.params[i]) : entry_param(i);
    for (const Node& n : f_.nodes) {
      b_.set_location(n.location);
      b_.set_computes(n.computes);
      NABLA_TRY(node(n));
    }
    b_.set_location(nullptr);
    std::vector<Val> results;
    for (size_t r = 0; r < f_.results.size(); ++r) results.push_back(inner ? values_[f_.results[r]] : entry_result(r));
    Function out = b_.finish(results);
    out.location = f_.location;
    return std::make_shared<const Function>(std::move(out));
  }

 private:
  // ---- Borders: the types of entries stay.
  void inner_param(ValueId id) {
    const ir::Value& v = f_.values[id];
    Val made = b_.param(v.name, {v.type.dtype, dims_.shape(index_, id)});
    if (v.sharding) b_.lay_out(made, even(*v.sharding));
    values_[id] = made;
  }
  // Shards first, which are as long already; then what other layouts want.
  void entry_param(size_t i) {
    ValueId id = f_.params[i];
    const ir::Value& v = f_.values[id];
    Val param = b_.param(v.name, v.type);
    if (v.sharding) b_.lay_out(param, v.sharding);
    Shape wanted = dims_.shape(index_, id);
    Val padded = param;
    if (ir::ShardingRef layout = dims_.layout(f_.name, false, i); layout && !(wanted == v.type.shape)) {
      padded = fitted(param, shape_of_shards(v.type, *layout));
      if (!(padded == param)) b_.lay_out(padded, even(*layout));
    }
    values_[id] = fitted(padded, wanted);
  }
  Val entry_result(size_t r) {
    ValueId id = f_.results[r];
    const ir::Type& type = f_.type(id);
    ir::ShardingRef layout = dims_.layout(f_.name, true, r);
    if (!dims_.is_padded(index_, id)) return fitted(values_[id], type.shape);
    // The new value of a leaf is made beside the old one, which what makes it may read at other places than it writes.
    Val v = is_leaf(r) ? b_.op("copy", {values_[id]}) : values_[id];
    if (!layout) return fitted(on_every_rank(v), type.shape);
    Shape shards = shape_of_shards(type, *layout);
    for (size_t d = 0; d < shards.size(); ++d)
      if (!(shards[d] == type.shape[d])) v = masked(v, static_cast<int>(d), type.shape[d], Combiner::kSum);
    v = fitted(v, shards);
    if (!(shards == type.shape)) b_.lay_out(v, even(*layout));
    v = fitted(v, type.shape);
    b_.lay_out(v, layout);
    return v;
  }
  // Of the state, whose new values come before the outputs.
  bool is_leaf(size_t result) const {
    const ir::Entry* entry = b_.module()->entry_of(f_.name);
    return entry && result < entry->writes.size();
  }
  // What leaves whole is gathered as any layout is changed: no op lacks a rule.
  Val on_every_rank(Val v) { return b_.op("shard", {v}, {{"sharding", whole_sharding(v.rank())}}); }
  Shape shape_of_shards(const ir::Type& type, const ir::Sharding& s) const {
    Shape out = type.shape;
    for (size_t d = 0; d < out.size(); ++d)
      out[d] = with_padding(out[d], shards(*b_.module()->mesh(), s.dims[d].axes));
    return out;
  }
  static ir::ShardingRef even(ir::Sharding s) {
    s.allow_padding = false;
    return std::make_shared<const ir::Sharding>(std::move(s));
  }

  // ---- Nodes
  Result<Ok> node(const Node& n) {
    bool touched = std::any_of(n.operands.begin(), n.operands.end(), [&](ValueId id) { return dims_.is_padded(index_, id); }) ||
                   std::any_of(n.results.begin(), n.results.end(), [&](ValueId id) { return dims_.is_padded(index_, id); });
    if (touched && n.op->lower == ir::Lowering::kControl) return control(n);
    if (touched && n.op->lower == ir::Lowering::kConstant && uniform_constant(n)) return Ok{};
    if (touched && n.op->factors.exists() && lengthened(n)) return Ok{};
    if (touched && from_elements(n)) return Ok{};
    return as_it_is(n);
  }
  // A slice reads the same elements where padding follows them; false for other ops, and where its end is not known.
  bool from_elements(const Node& n) {
    if (n.op->form != ir::OpForm::kSlice && n.op->form != ir::OpForm::kSection) return false;
    ir::Attrs attrs = n.attrs;
    const Shape &own = f_.type(n.operands[0]).shape, padded = dims_.shape(index_, n.operands[0]);
    if (n.op->form == ir::OpForm::kSlice) {
      ir::Ints limits = attrs.get_ints("limits");
      for (size_t d = 0; d < limits.size(); ++d) {
        if (limits[d] != -1 || own[d] == padded[d]) continue;
        if (!own[d].is_static()) return false;
        limits[d] = own[d].value();
      }
      attrs.set("limits", limits);
    }
    finish(n, b_.add(n.op->name, {values_[n.operands[0]]}, attrs));
    return true;
  }

  // The node takes the elements alone.
  Result<Ok> as_it_is(const Node& n) {
    std::vector<Val> operands;
    for (ValueId id : n.operands) {
      if (dims_.is_padded(index_, id)) (void)NABLA_TRY(say_what_is_cut(n, id));
      operands.push_back(fitted(values_[id], f_.type(id).shape));
    }
    return finish(n, b_.clone(n, operands)), Ok{};
  }
  // Ranks that share the value with its padding do not share it without.
  Status say_what_is_cut(const Node& n, ValueId id) {
    const std::string name = ir::value_name(f_, id);
    context_.remarks.push_back({ir::RemarkKind::kWithoutPadding, name,
                                fmt::format("{}{} takes {} without its padding, as {}: no rule masks it there", n.op->name,
                                            at_place(n.location), name, f_.type(id).str())});
    std::optional<Diagnostic> refusal = check_gathered(f_, n, id, "has no rule that masks padding", most_);
    return refusal ? Status(*refusal) : Status(Ok{});
  }
  void finish(const Node& n, const std::vector<Val>& results) {
    for (size_t r = 0; r < results.size(); ++r) set(n.results[r], fitted(results[r], dims_.shape(index_, n.results[r])));
  }
  void set(ValueId id, Val v) {
    if (probe_) v = probed(id, v);
    values_[id] = v;
    const ir::Value& from = f_.values[id];
    const ir::Value& now = b_.function().values[static_cast<size_t>(v.id)];
    if (!from.name.empty() && now.name.empty()) b_.name_value(v, from.name);
    if (from.sharding && !now.sharding) b_.lay_out(v, dims_.is_padded(index_, id) ? even(*from.sharding) : from.sharding);
  }

  // For tests: records the padding that is claimed to be zero, and writes NaN into all other padding.
  Val probed(ValueId id, Val v) {
    const Shape& valid = f_.type(id).shape;
    std::vector<int> zero, other;
    for (int d = 0; d < v.rank(); ++d)
      if (auto k = static_cast<size_t>(d); !(v.shape()[k] == valid[k])) (zeros_.count({v.id, d}) ? zero : other).push_back(d);
    for (int d : other) {
      Val keep = is_element(v, d, valid[static_cast<size_t>(d)]);
      for (int z : zero) keep = b_.op("or", {keep, b_.op("not", {is_element(v, z, valid[static_cast<size_t>(z)])})});
      v = ir::select(keep, v, ir::broadcast_in_dim(b_.constant(poison_of(v.dtype())), v.shape(), {}));
    }
    for (int d : zero) {
      zeros_.insert({v.id, d});
      probe_->zeros.push_back({f_.name, v.id, d, valid[static_cast<size_t>(d)]});
    }
    return v;
  }

  bool uniform_constant(const Node& n) {
    const Literal& value = n.attrs.get_literal("value");
    ir::Type longer(value.dtype(), dims_.shape(index_, n.results[0]));
    std::optional<Literal> made = longer.is_static() ? uniform(value, longer.extents()) : std::nullopt;
    if (made) set(n.results[0], b_.constant(*made));
    return made.has_value();
  }

  // The node with longer factors; false where it cannot have them.
  bool lengthened(const Node& n) {
    ir::TypedOp op = typed(f_, n);
    Factors factors = n.op->factors(op);
    std::vector<PaddedFactor> how;
    ir::Shard longer{op, factors, {}, {}};
    bool any = false;
    for (size_t k = 0; k < factors.factors.size(); ++k) {
      how.push_back(padded_factor(op, factors, static_cast<int>(k)));
      const Dim& size = factors.factors[k].size;
      longer.begins.push_back(0), longer.sizes.push_back(how[k].how == How::kCut ? size : length(n, factors, static_cast<int>(k)));
      any |= !(longer.sizes[k] == size);
    }
    if (!any) return false;
    ir::Attrs attrs = unplaced(n, longer.attrs());
    if (!gives_types_of(longer, attrs)) return false;
    std::vector<Val> operands;
    for (size_t i = 0; i < n.operands.size(); ++i) operands.push_back(operand(n, i, factors, how, longer));
    clamp_indices(factors, how, longer, operands);
    std::vector<Val> results = b_.add(n.op->name, operands, attrs);
    for (size_t r = 0; stays_zero(n, operands) && r < results.size(); ++r) note_zeros(r, results[r], factors, longer, operands);
    finish(n, results);
    return true;
  }
  // Of a factor that goes through: as its dimensions are padded.
  Dim length(const Node& n, const Factors& factors, int k) const {
    const Dim& size = factors.factors[static_cast<size_t>(k)].size;
    auto in = [&](const std::vector<ValueId>& ids, const std::vector<Factors::Tensor>& tensors) -> std::optional<Dim> {
      for (size_t i = 0; i < ids.size(); ++i)
        for (size_t d = 0; d < tensors[i].size(); ++d) {
          if (tensors[i][d].empty() || tensors[i][d][0] != k) continue;
          Dim own = f_.type(ids[i]).shape[d], padded = dims_.extent(index_, ids[i], static_cast<int>(d));
          if (size.is(0)) return size;
          Dim minor = Dim::floordiv(own, size);
          return Dim::mod(padded, minor).is(0) ? Dim::floordiv(padded, minor) : size;
        }
      return std::nullopt;
    };
    std::optional<Dim> found = in(n.operands, factors.operands);
    if (!found) found = in(n.results, factors.results);
    return found.value_or(size);
  }
  // A longer draw is a whole of its own, not a part of the shorter one.
  static ir::Attrs unplaced(const Node& n, ir::Attrs attrs) {
    for (const char* name : {"offset", "whole"})
      if (const ir::Attr* own = n.attrs.find(name)) attrs.set(name, *own);
    return attrs;
  }
  Val operand(const Node& n, size_t i, const Factors& factors, const std::vector<PaddedFactor>& how, const ir::Shard& longer) {
    Val v = fitted(values_[n.operands[i]], longer.operand(static_cast<int>(i)).shape);
    for (size_t d = 0; d < factors.operands[i].size(); ++d) {
      const std::vector<int>& dim = factors.operands[i][d];
      if (dim.empty()) continue;
      auto k = static_cast<size_t>(dim[0]);
      if (how[k].how == How::kMask && !(longer.sizes[k] == factors.factors[k].size))
        v = masked(v, static_cast<int>(d), f_.type(n.operands[i]).shape[d], how[k].combiner);
    }
    return v;
  }
  void clamp_indices(const Factors& factors, const std::vector<PaddedFactor>& how, const ir::Shard& longer, std::vector<Val>& operands) {
    for (size_t k = 0; k < how.size(); ++k) {
      if (how[k].how != How::kClamp || longer.sizes[k] == factors.factors[k].size) continue;
      Val &indices = operands[1], rows = spread(factors.factors[k].size - 1, indices.dtype(), indices.shape());
      Val low = b_.op("maximum", {indices, b_.zeros_like(indices)});
      indices = is_unsigned(indices.dtype()) ? b_.op("minimum", {indices, rows}) : b_.op("minimum", {low, rows});
    }
  }

  // ---- Control flow: operands as the parameters of its functions are, results as theirs.
  Result<Ok> control(const Node& n) {
    ir::ControlFlow c = ir::control_of(f_, n);
    bool branch = c.kind == ir::ControlFlow::Kind::kBranch;
    size_t carries = static_cast<size_t>(c.consts + c.carries);
    const Function& body = *b_.module()->find(c.functions.back());
    std::vector<Val> operands;
    for (size_t i = 0; i < n.operands.size(); ++i) {
      Shape wanted = f_.type(n.operands[i]).shape;
      if (!branch || i > 0) {
        const Shape& of = body.type(body.params[i - (branch ? 1 : 0)]).shape;
        bool slice = !branch && i >= carries;
        std::copy(of.begin(), of.end(), wanted.begin() + (slice ? 1 : 0));
      }
      operands.push_back(fitted(values_[n.operands[i]], wanted));
    }
    Result<std::vector<Val>> results = b_.try_add(n.op->name, operands, n.attrs);
    if (!results.ok()) return std::move(results.errors());
    return finish(n, *results), Ok{};
  }

  // ---- Padding
  // Shorter dimensions get zeros, longer ones are cut.
  Val fitted(Val v, const Shape& shape) {
    if (v.shape() == shape) return v;
    ir::Ints high(shape.size(), 0), none(shape.size(), 0), limits(shape.size(), -1);
    std::vector<int> grown;
    bool cut = false;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (v.shape()[d] == shape[d]) continue;
      Dim more = shape[d] - v.shape()[d];
      if (Dim::less_equal(0, more).value_or(false)) {
        grown.push_back(static_cast<int>(d));
        if (more.is_static())
          high[d] = more.value();
        else
          v = with_zeros(v, d, more);
      } else if (shape[d].is_static()) {
        limits[d] = shape[d].value(), cut = true;
      } else {
        v = b_.op("section", {v}, {{"axis", static_cast<int64_t>(d)}, {"range", Shape{0, shape[d]}}});
      }
    }
    if (cut) v = b_.op("slice", {v}, {{"starts", none}, {"limits", limits}, {"strides", ir::Ints(shape.size(), 1)}});
    Literal zero(v.dtype(), {});
    if (high != none) v = b_.op("pad", {v, b_.constant(zero)}, {{"low", none}, {"high", high}, {"interior", none}});
    for (int d : grown) zeros_.insert({v.id, d});
    return v;
  }
  // `pad` takes no symbolic numbers.
  Val with_zeros(Val v, size_t dim, const Dim& more) {
    Shape added = v.shape();
    added[dim] = more;
    Val zeros = ir::broadcast_in_dim(b_.constant(Literal(v.dtype(), {})), added, {});
    return b_.op("concatenate", {v, zeros}, {{"axis", static_cast<int64_t>(dim)}});
  }
  Val spread(const Dim& size, DType dtype, const Shape& shape) {
    Val number = b_.op("element_count", {}, {{"shape", Shape{size}}, {"dtype", dtype}});
    return ir::broadcast_in_dim(number, shape, {});
  }
  // Shaped like v: is the position along `dim` before the padding?
  Val is_element(Val v, int dim, const Dim& valid) {
    Val at = b_.op("iota", {}, {{"shape", v.shape()}, {"axis", static_cast<int64_t>(dim)}, {"dtype", DType::kI64}});
    return b_.op("lt", {at, spread(valid, DType::kI64, v.shape())});
  }
  // With the combiner's identity from `valid` on.
  Val masked(Val v, int dim, const Dim& valid, Combiner combiner) {
    if (v.shape()[static_cast<size_t>(dim)] == valid) return v;
    if (combiner == Combiner::kSum && zeros_.count({v.id, dim})) return v;
    auto key = std::make_tuple(v.id, dim, combiner);
    if (auto known = masks_.find(key); known != masks_.end()) return known->second;
    Val elements = is_element(v, dim, valid);
    Val identity = scalar_of(b_, kernel_ir::identity_of(combiner, v.dtype()), v.dtype());
    Val out = ir::select(elements, v, ir::broadcast_in_dim(identity, v.shape(), {}));
    if (combiner == Combiner::kSum) zeros_.insert({out.id, dim});
    for (int d = 0; d < v.rank(); ++d)
      if (combiner == Combiner::kSum && zeros_.count({v.id, d})) zeros_.insert({out.id, d});
    masks_.emplace(key, out);
    return out;
  }
  // Zeros in all operands are zeros in the result.
  static bool stays_zero(const Node& n, const std::vector<Val>& operands) {
    for (const ir::Linearity::Claim& c : n.op->linearity.claims)
      if (c.combiner == Combiner::kSum && c.kind == ir::Linearity::Kind::kJointly &&
          ir::operands_of(*n.op, c, operands.size()).size() == operands.size())
        return true;
    return false;
  }
  // Records the dimensions of a result whose padding is zero because it is zero in all operands. Zeros stay at their
  // positions only along a factor that maps positions one to one: a running sum carries its total into the padding.
  void note_zeros(size_t r, Val made, const Factors& factors, const ir::Shard& longer, const std::vector<Val>& operands) {
    for (size_t d = 0; d < factors.results[r].size(); ++d) {
      const std::vector<int>& dim = factors.results[r][d];
      if (dim.empty()) continue;
      auto k = static_cast<size_t>(dim[0]);
      if (longer.sizes[k] == factors.factors[k].size || factors.factors[k].kind != Factors::Kind::kPass) continue;
      bool zero = true;
      for (size_t i = 0; zero && i < operands.size(); ++i) zero = has_zeros(operands[i], factors.operands[i], dim[0]);
      if (zero) zeros_.insert({made.id, static_cast<int>(d)});
    }
  }
  // Is the padding of the operand's dimension along the factor zero?
  bool has_zeros(Val operand, const Factors::Tensor& dims, int factor) const {
    for (size_t e = 0; e < dims.size(); ++e)
      if (!dims[e].empty() && dims[e][0] == factor && zeros_.count({operand.id, static_cast<int>(e)})) return true;
    return false;
  }

  const Function& f_;
  const PaddedDims& dims_;
  int index_;
  PassContext& context_;
  int64_t most_;
  PaddingProbe* probe_;
  ir::FunctionBuilder b_;
  std::vector<Val> values_;                                  // by value of f_, of the padded shape
  std::set<std::pair<ValueId, int>> zeros_;                  // dimensions whose padding is zero
  std::map<std::tuple<ValueId, int, Combiner>, Val> masks_;  // made already
};

// Composites that cannot go on with padding are written out where all that they consist of can.
std::shared_ptr<const ir::Module> opened(const ir::Module& m, const PaddedDims& dims, PassContext& context) {
  auto stops = [&](size_t f, const Node& n) {
    if (!n.op->decompose.exists() || !n.op->factors.exists()) return false;
    ir::TypedOp op = typed(*m.functions[f], n);
    Factors factors = n.op->factors(op);
    auto padded = [&](const std::vector<ValueId>& ids, const std::vector<Factors::Tensor>& tensors) {
      for (size_t i = 0; i < ids.size(); ++i)
        for (size_t d = 0; d < tensors[i].size(); ++d)
          for (int k : tensors[i][d])
            if (!(dims.extent(static_cast<int>(f), ids[i], static_cast<int>(d)) == m.functions[f]->type(ids[i]).shape[d]) &&
                padded_factor(op, factors, k).how == How::kCut)
              return true;
      return false;
    };
    return padded(n.operands, factors.operands) || padded(n.results, factors.results);
  };
  return with_open_composites(m, stops, context);
}

}  // namespace

Result<ir::Module> pad_shards(const ir::Module& given, PassContext& context) {
  return pad_shards_probed(given, context, nullptr);
}

Result<ir::Module> pad_shards_probed(const ir::Module& given, PassContext& context, PaddingProbe* probe) {
  auto module = std::make_shared<const ir::Module>(given);
  const int64_t multiple = context.options.deterministic ? kGranules : 1;
  auto dims = std::make_unique<PaddedDims>(*module, multiple);
  if (!dims->any()) return given;
  for (int level = 0; level < kMostCompositeLevels; ++level) {
    auto next = opened(*module, *dims, context);
    if (!next) break;
    module = std::move(next);
    dims = std::make_unique<PaddedDims>(*module, multiple);
  }
  const int64_t most = context.options.max_gather_bytes.count;
  ir::Module out = *module;
  for (const ir::FunctionPtr& f : NABLA_TRY(bottom_up(*module)))
    out.set(NABLA_TRY(PaddedFunction(*f, out, *dims, context, most, probe).run()));
  return out;
}

}  // namespace nabla::passes
