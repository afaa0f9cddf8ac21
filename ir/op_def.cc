#include "ir/op_def.h"

#include <algorithm>
#include <map>
#include <set>

namespace nabla::ir {

OpTable::OpTable(std::vector<OpDef> records) : records_(std::move(records)) {
  std::sort(records_.begin(), records_.end(), [](const OpDef& a, const OpDef& b) { return a.name < b.name; });
  for (size_t i = 1; i < records_.size(); ++i)
    NABLA_CHECK(records_[i - 1].name != records_[i].name, "two records are named {}", records_[i].name);
}

const OpDef* OpTable::find(std::string_view name) const {
  auto it = std::lower_bound(records_.begin(), records_.end(), name, [](const OpDef& o, auto n) { return o.name < n; });
  return it != records_.end() && it->name == name ? &*it : nullptr;
}

const OpDef& OpTable::get(std::string_view name) const {
  const OpDef* op = find(name);
  NABLA_CHECK(op != nullptr, "no op is named {}", name);
  return *op;
}

std::vector<std::string> OpTable::names() const {
  std::vector<std::string> out;
  for (const OpDef& op : records_) out.push_back(op.name);
  return out;
}

// Of lists: extents, strides, paddings, whose sums and products must not overflow.
constexpr int64_t kMaxListEntry = int64_t{1} << 40;

namespace {

std::string see(const OpDef& op) { return fmt::format("`nablac doc op {}` says what it takes", op.name); }

template <class... Args>
Diagnostic bad_attribute(const OpDef& op, fmt::format_string<Args...> format, Args&&... args) {
  Diagnostic d = error(Code::kBadAttribute, "{}: {}", op.name, fmt::format(format, std::forward<Args>(args)...));
  d.help = see(op);
  return d;
}

}  // namespace

Result<Attrs> complete_attrs(const OpDef& op, Attrs attrs) {
  for (const auto& [name, value] : attrs) {
    auto def = std::find_if(op.attrs.begin(), op.attrs.end(), [&, n = name](const AttrDef& d) { return d.name == n; });
    if (def == op.attrs.end()) {
      std::vector<std::string> known;
      for (const AttrDef& d : op.attrs) known.push_back(d.name);
      return bad_attribute(op, "unknown attribute `{}`{}", name, did_you_mean(name, known));
    }
    if (kind_of(value) != def->kind)
      return bad_attribute(op, "attribute `{}` is {}, expected {}", name, name_of(kind_of(value)), name_of(def->kind));
    if (const Ints* list = std::get_if<Ints>(&value))
      for (int64_t v : *list)
        if (v > kMaxListEntry || v < -kMaxListEntry)
          return bad_attribute(op, "attribute `{}` has entry {}, beyond {}", name, v, kMaxListEntry);
  }
  for (const AttrDef& def : op.attrs) {
    if (attrs.find(def.name)) continue;
    if (!def.default_value) return bad_attribute(op, "attribute `{}` is missing", def.name);
    attrs.set(def.name, *def.default_value);
  }
  return attrs;
}

Result<std::vector<Type>> infer_types(const OpDef& op, std::span<const Type> operands, const Attrs& attrs,
                                      const FunctionLookup& functions) {
  bool variadic = !op.operands.empty() && op.operands.back().variadic;
  size_t least = op.operands.size() - (variadic && op.operands.back().may_be_absent ? 1 : 0);
  bool fits = variadic ? operands.size() >= least : operands.size() == least;
  if (!fits)
    return error(Code::kOperandCount, "{}: takes {}{} operand{}, got {}", op.name, variadic ? "at least " : "", least,
                 least == 1 ? "" : "s", operands.size());
  for (const Type& t : operands)
    if (t.is_residual() && op.lower != Lowering::kTransform && op.lower != Lowering::kCall)
      return error(Code::kWrongStage, "{}: an operand is {}, which only calls and pullbacks take", op.name, t.str());
  return op.infer({op, operands, attrs, functions});
}

Diagnostic InferContext::make_error(Code code, std::string_view constraint, std::string message) const {
  Diagnostic d = error(code, "{}: {}{}", op.name, message, constraint.empty() ? "" : fmt::format(" ({})", constraint));
  if (code == Code::kBadAttribute) d.help = see(op);
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string& name = op.operands[std::min(i, op.operands.size() - 1)].name;
    d.excerpt += fmt::format("{}{}: {}", i ? "   " : "", name, operands[i].str());
  }
  return d;
}

Status InferContext::require_equal(const Dim& a, const Dim& b, std::string_view constraint,
                                   std::string_view what) const {
  std::optional<bool> same = Dim::equal(a, b);
  if (same.value_or(false)) return Ok{};
  if (same.has_value()) return fail(Code::kShapeMismatch, constraint, "{} differ: {} vs {}", what, a.str(), b.str());
  Diagnostic d = fail(Code::kUndecidable, constraint, "{} may differ: {} vs {}", what, a.str(), b.str());
  d.help = fmt::format("declare the constraint {} == {}", a.str(), b.str());
  return d;
}

Status InferContext::require_same_dtype(int a, int b, std::string_view constraint) const {
  if (operands[a].dtype == operands[b].dtype) return Ok{};
  return fail(Code::kDTypeMismatch, constraint, "operand dtypes differ: {} vs {}", name_of(operands[a].dtype),
              name_of(operands[b].dtype));
}

Status InferContext::require_same_type(int a, int b, std::string_view constraint) const {
  NABLA_TRY(require_same_dtype(a, b, constraint));
  if (rank(a) != rank(b))
    return fail(Code::kShapeMismatch, constraint, "operand ranks differ: {} vs {}", str(shape(a)), str(shape(b)));
  for (int i = 0; i < rank(a); ++i) {
    if (shape(a)[i] == shape(b)[i]) continue;  // nearly always: no text for an error that does not happen
    NABLA_TRY(require_equal(shape(a)[i], shape(b)[i], constraint, fmt::format("operand sizes in dimension {}", i)));
  }
  return Ok{};
}

Status InferContext::require_axis(int64_t axis, int rank, std::string_view constraint) const {
  if (axis >= 0 && axis < rank) return Ok{};
  return fail(Code::kBadAttribute, constraint, "axis {} is not in [0, {})", axis, rank);
}

namespace {

bool reaches(const Node& node, const Module& module, const std::function<bool(const Node&)>& is,
             std::set<std::string>& seen) {
  if (is(node)) return true;
  if (node.op->lower == Lowering::kAccess) return false;  // its functions say what its kernel means
  for (const std::string& name : functions_of(node.attrs)) {
    const Function* f = seen.insert(name).second ? module.find(name) : nullptr;
    if (f && std::any_of(f->nodes.begin(), f->nodes.end(), [&](const Node& n) { return reaches(n, module, is, seen); }))
      return true;
  }
  return false;
}

}  // namespace

bool has_effect(const Node& node, const Module& module) {
  std::set<std::string> seen;
  return reaches(node, module, [](const Node& n) { return n.op->traits.side_effect; }, seen);
}

bool communicates(const Node& node, const Module& module) {
  std::set<std::string> seen;
  return reaches(node, module, [](const Node& n) { return n.op->lower == Lowering::kCollective; }, seen);
}

Val VjpContext::ct(int i) const { return cotangents[i] ? *cotangents[i] : b.zeros_like(results[i]); }
std::vector<bool> VjpContext::given() const {
  std::vector<bool> out;
  for (const MaybeVal& ct : cotangents) out.push_back(ct.has_value());
  return out;
}
Val JvpContext::tangent(int i) const { return tangents[i] ? *tangents[i] : b.zeros_like(operands[i]); }

Val BatchContext::batched_operand(int i) const {
  if (batched[i]) return operands[i];
  Shape shape = operands[i].shape();
  shape.insert(shape.begin(), size);
  return broadcast_along(operands[i], shape, {0});
}

int Factors::add(std::string name, Dim size, Kind kind, kernel_ir::Combiner combiner) {
  factors.push_back({std::move(name), size, kind, combiner});
  return static_cast<int>(factors.size()) - 1;
}

Factors Factors::einsum(std::string_view spec, const TypedOp& op, kernel_ir::Combiner combiner) {
  Factors out;
  std::map<char, int> by_letter;
  size_t arrow = spec.find("->");
  NABLA_CHECK(arrow != std::string_view::npos, "einsum {}", spec);
  std::string_view rhs = spec.substr(arrow + 2);
  auto tensors = [&](std::string_view text, const std::vector<Type>& types) {
    std::vector<Tensor> list;
    size_t at = 0;
    for (const Type& type : types) {
      Tensor tensor;
      for (; at < text.size() && text[at] != ','; ++at) {
        char c = text[at];
        if (!by_letter.count(c)) {
          bool reduced = rhs.find(c) == std::string_view::npos;
          by_letter[c] = out.add(std::string(1, c), type.shape[tensor.size()], reduced ? Kind::kReduce : Kind::kPass,
                                 reduced ? combiner : kernel_ir::Combiner::kNone);
        }
        tensor.push_back({by_letter[c]});
      }
      NABLA_CHECK(static_cast<int>(tensor.size()) == type.rank(), "einsum {} against {}", spec, type.str());
      list.push_back(std::move(tensor));
      ++at;
    }
    return list;
  };
  out.operands = tensors(spec.substr(0, arrow), op.operands);
  out.results = tensors(rhs, op.results);
  return out;
}

Factors Factors::pointwise(const TypedOp& op) {
  Factors out;
  const Type& result = op.results[0];
  Tensor full;
  for (int i = 0; i < result.rank(); ++i)
    full.push_back({out.add(std::string(1, static_cast<char>('a' + i)), result.shape[i])});
  for (const Type& t : op.operands) out.operands.push_back(t.rank() == result.rank() ? full : Tensor(t.rank()));
  for (size_t i = 0; i < op.results.size(); ++i) out.results.push_back(full);
  return out;
}

Shape Shard::shape(const Shape& whole, const Factors::Tensor& dims) const {
  Shape out = whole;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].empty()) continue;
    out[d] = 1;
    for (int f : dims[d]) out[d] = out[d] * sizes[f];
  }
  return out;
}

Type Shard::operand(int i) const {
  return {op.operands[i].dtype, shape(op.operands[i].shape, factors.operands[i])};
}
Type Shard::result(int i) const {
  return {op.results[i].dtype, shape(op.results[i].shape, factors.results[i])};
}
Attrs Shard::attrs() const { return op.op.localise ? op.op.localise(*this) : op.attrs; }

std::string Factors::str() const {
  auto tensor = [&](const Tensor& t) {
    std::string s;
    for (const auto& dim : t) {
      if (dim.size() != 1) s += "(";
      for (int f : dim) s += factors[f].name;
      if (dim.size() != 1) s += ")";
    }
    return s;
  };
  std::string out;
  for (size_t i = 0; i < operands.size(); ++i) out += (i ? "," : "") + tensor(operands[i]);
  out += "->";
  for (size_t i = 0; i < results.size(); ++i) out += (i ? "," : "") + tensor(results[i]);
  for (const Factor& f : factors) {
    constexpr const char* kKinds[] = {"", "reduce", "ordered", "replicate", "permute", "functions"};
    if (f.kind == Kind::kPass) continue;
    out += fmt::format("  {}: {}", f.name, kKinds[static_cast<int>(f.kind)]);
    if (f.kind == Kind::kReduce) out += fmt::format("({})", kernel_ir::name_of(f.combiner));
  }
  return out;
}

Linearity moves(const std::vector<int>& operands) {
  using kernel_ir::Combiner;
  Linearity out;
  for (Combiner c :
       {Combiner::kSum, Combiner::kProd, Combiner::kMax, Combiner::kMin, Combiner::kAnd, Combiner::kOr})
    out = out.also(c, Linearity::Kind::kJointly, operands);
  return out;
}

Cost pointwise_cost(const TypedOp& op, int64_t flops_per_result) {
  Cost cost{Dim(flops_per_result) * op.results[0].count(), Dim(0)};
  for (const Type& t : op.operands) cost.bytes = cost.bytes + t.bytes();
  for (const Type& t : op.results) cost.bytes = cost.bytes + t.bytes();
  return cost;
}

}  // namespace nabla::ir
