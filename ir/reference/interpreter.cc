#include "ir/reference/interpreter.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/op_def.h"
#include "ir/ops/all_ops.h"
#include "ir/reference/meeting.h"

namespace nabla::ir {
namespace {

using Bindings = std::map<std::string, int64_t>;

thread_local void (*poll)() = nullptr;

/// One run: the module, and what its symbols are.
class Interpreter {
 public:
  Interpreter(const Module& module, Peers* peers) : module_(module), peers_(peers) {}

  /// Checks the arguments and learns the symbols' values from them.
  Status bind(const Function& f, const std::vector<Literal>& args);
  /// The symbols that say which rank this is.
  Status bind_place();
  Status bind_argument(const Function& f, ValueId param, const Literal& arg);
  /// Whether everything that can be reached has a reference; `path` are the callers.
  Status check(const Function& f, std::vector<std::string>& path, bool manual = false);
  std::vector<Literal> run(const Function& f, std::vector<Literal> args) const;
  /// What ended the evaluation; empty: nothing did.
  const std::vector<Diagnostic>& failures() const { return failures_; }

 private:
  Dim resolve(const Dim& d) const;
  Shape resolve(const Shape& shape) const;
  Type resolve(const Type& type) const;
  std::vector<Type> resolve(const std::vector<Type>& types) const;
  std::vector<Literal> run_node(const Function& f, const Node& node, const std::vector<Literal>& operands) const;
  std::vector<Literal> run_decomposition(const TypedOp& op, const std::vector<Literal>& operands) const;
  std::vector<std::vector<Literal>> run_on_ranks(std::string_view function, const Mesh& mesh,
                                                 std::vector<std::vector<Literal>> args) const;

  const Module& module_;
  Peers* peers_;
  Bindings bindings_;
  std::set<std::string> checked_;
  mutable std::vector<Diagnostic> failures_;
};

Status check_symbol(const Symbol& s, int64_t value, const Function& f, ValueId param) {
  if (value >= s.min && value <= s.max && value % s.multiple == 0) return Ok{};
  return error(Code::kShapeMismatch, "{}: {} = {} is not a multiple of {} in [{}, {}]", describe_value(f, param),
               s.name, value, s.multiple, s.min, s.max);
}

// Takes the values of symbols that stand alone in an extent, once what is known is put in.
Status Interpreter::bind_argument(const Function& f, ValueId param, const Literal& arg) {
  const Type& type = f.type(param);
  for (int d = 0; d < type.rank(); ++d) {
    Dim extent = resolve(type.shape[d]);
    std::vector<SymbolRef> symbols = extent.symbols();
    std::optional<SymbolSplit> split = symbols.size() == 1 ? split_at(extent, symbols[0]->name) : std::nullopt;
    if (!split) continue;
    int64_t scale = split->factor.value(), scaled = arg.shape()[d] - split->rest.value();
    if (scaled % scale != 0) continue;  // what does not divide is refused below
    NABLA_TRY(check_symbol(*symbols[0], scaled / scale, f, param));
    bindings_.emplace(symbols[0]->name, scaled / scale);
  }
  return Ok{};
}

Status Interpreter::bind_place() {
  for (const SymbolRef& s : module_.symbols) {
    if (s->axis.empty()) continue;
    if (!peers_ && s->max > 0)
      return error(Code::kNoRule, "the module is what one of several ranks computes ({} in [0, {}]), and one runs", s->name,
                   s->max);
    bindings_[s->name] = peers_ ? peers_->coordinate({{s->axis}}) : 0;
  }
  return Ok{};
}

Status Interpreter::bind(const Function& f, const std::vector<Literal>& args) {
  if (args.size() != f.params.size())
    return error(Code::kOperandCount, "@{} takes {} arguments, got {}", f.name, f.params.size(), args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    const Type& type = f.type(f.params[i]);
    if (type.dtype != args[i].dtype())
      return error(Code::kDTypeMismatch, "{} is {}, got {}", describe_value(f, f.params[i]), type.str(),
                   args[i].str(0));
    if (type.rank() != args[i].rank())
      return error(Code::kShapeMismatch, "{} is {}, got {}", describe_value(f, f.params[i]), type.str(),
                   args[i].str(0));
  }
  for (size_t before = bindings_.size() + 1; before != bindings_.size();) {
    before = bindings_.size();
    for (size_t i = 0; i < args.size(); ++i) NABLA_TRY(bind_argument(f, f.params[i], args[i]));
  }
  for (size_t i = 0; i < args.size(); ++i) {
    const Type& type = f.type(f.params[i]);
    for (int d = 0; d < type.rank(); ++d)
      if (!resolve(type.shape[d]).is(args[i].shape()[d]))
        return error(Code::kShapeMismatch, "{}: dimension {} of {} is {}, got {}", describe_value(f, f.params[i]), d,
                     type.str(), resolve(type.shape[d]).str(), args[i].shape()[d]);
  }
  return Ok{};
}

// `manual`: in a region, whose ranks all run here.
Status Interpreter::check(const Function& f, std::vector<std::string>& path, bool manual) {
  if (std::find(path.begin(), path.end(), f.name) != path.end())
    return error(Code::kRecursion, "@{} calls itself through @{}", f.name, path.back());
  if (!checked_.insert(f.name).second) return Ok{};
  path.push_back(f.name);
  for (const Node& node : f.nodes) {
    std::string why = node.op->reference.reason();
    if (node.op->lacks_reference) why = node.op->lacks_reference(node.attrs);
    const Attr* shards = node.op->lower == Lowering::kCollective ? node.attrs.find("shards") : nullptr;
    if (shards && !peers_ && !manual && std::get<int64_t>(*shards) > 1)
      why = fmt::format("it joins {} ranks, and one runs", std::get<int64_t>(*shards));
    if (!why.empty()) {
      Diagnostic d = error(Code::kNoRule, "{} has no reference: {}", node.op->name, why);
      d.location = node.location;
      return d;
    }
    for (const std::string& name : functions_of(node.attrs)) {
      const Function* callee = module_.find(name);
      if (!callee)
        return error(Code::kUnknownName, "{}: no function is named @{}{}", node.op->name, name,
                     did_you_mean(name, module_.function_names()));
      NABLA_TRY(check(*callee, path, manual || node.op->manual));
    }
  }
  path.pop_back();
  return Ok{};
}

Dim Interpreter::resolve(const Dim& d) const {
  return d.substitute([&](const SymbolRef& s) {
    auto it = bindings_.find(s->name);
    return it == bindings_.end() ? Dim::symbol(s) : Dim(it->second);
  });
}

Shape Interpreter::resolve(const Shape& shape) const {
  Shape out;
  for (const Dim& d : shape) out.push_back(resolve(d));
  return out;
}

Type Interpreter::resolve(const Type& type) const { return {type.dtype, resolve(type.shape)}; }

std::vector<Type> Interpreter::resolve(const std::vector<Type>& types) const {
  std::vector<Type> out;
  for (const Type& t : types) out.push_back(resolve(t));
  return out;
}

std::vector<Literal> Interpreter::run(const Function& f, std::vector<Literal> args) const {
  std::vector<int> uses = use_counts(f);
  std::vector<Literal> values(f.values.size());
  for (size_t i = 0; i < args.size(); ++i) values[f.params[i]] = std::move(args[i]);
  for (const Node& node : f.nodes) {
    if (poll != nullptr) poll();
    std::vector<Literal> operands;
    for (ValueId id : node.operands) {
      operands.push_back(values[id]);
      if (--uses[id] == 0) values[id] = Literal();
    }
    std::vector<Literal> results = run_node(f, node, operands);
    NABLA_CHECK(results.size() == node.results.size(), "{}: the reference made {} results", node.op->name,
                results.size());
    for (size_t i = 0; i < results.size(); ++i)
      if (uses[node.results[i]] > 0) values[node.results[i]] = std::move(results[i]);
  }
  std::vector<Literal> out;
  for (ValueId id : f.results) out.push_back(values[id]);
  return out;
}

std::vector<Literal> Interpreter::run_node(const Function& f, const Node& node,
                                           const std::vector<Literal>& operands) const {
  Attrs attrs = node.attrs;
  for (const auto& [name, attr] : node.attrs)
    if (const Shape* shape = std::get_if<Shape>(&attr)) attrs.set(name, resolve(*shape));
  TypedOp op{*node.op, resolve(f.types(node.operands)), attrs, resolve(f.types(node.results))};
  if (node.op->reference.by_decomposition()) return run_decomposition(op, operands);
  EvalContext ctx{op, operands, [this](std::string_view name, std::vector<Literal> args) {
                    return run(*module_.find(name), std::move(args));
                  }};
  ctx.peers = peers_;
  ctx.on_ranks = [this](std::string_view function, const Axes& axes, const Ints& sizes,
                        std::vector<std::vector<Literal>> args) {
    Mesh mesh;
    for (size_t i = 0; i < axes.size(); ++i) mesh.axes.push_back({axes[i].name, sizes[i]});
    return run_on_ranks(function, mesh, std::move(args));
  };
  if (node.op->traits.side_effect) {
    if (!failures_.empty()) return {};
    ctx.fail = [this](const std::vector<Diagnostic>& errors) { failures_ = errors; };
  }
  return node.op->reference(ctx);
}

// Empty where they failed, which failures() says.
std::vector<std::vector<Literal>> Interpreter::run_on_ranks(std::string_view function, const Mesh& mesh,
                                                            std::vector<std::vector<Literal>> args) const {
  if (!failures_.empty()) return {};
  if (mesh.ranks() > kMostRanks) {
    failures_ = {error(Code::kTooLarge, "a region of {} ranks: at most {} run in one process", mesh.ranks(), kMostRanks)};
    return {};
  }
  std::vector<std::vector<Literal>> out(args.size());
  std::vector<std::vector<Diagnostic>> failures(args.size());
  std::optional<Diagnostic> failure = run_together(mesh, peers_, [&](int64_t r, Peers& peers) {
    Interpreter rank = *this;
    rank.peers_ = &peers;
    out[r] = rank.run(*module_.find(function), std::move(args[r]));
    failures[r] = rank.failures_;
  });
  if (failure) failures_ = {*failure};
  for (std::vector<Diagnostic>& of_rank : failures)
    if (failures_.empty()) failures_ = std::move(of_rank);
  if (!failures_.empty()) out.clear();
  return out;
}

std::vector<Literal> Interpreter::run_decomposition(const TypedOp& op, const std::vector<Literal>& operands) const {
  FunctionBuilder b("decomposition", ops::all_ops(), &module_);
  std::vector<Val> params;
  for (size_t i = 0; i < op.operands.size(); ++i) params.push_back(b.param(fmt::format("x{}", i), op.operands[i]));
  DecomposeContext ctx{b, op, params};
  std::vector<Val> results = op.op.decompose(ctx);
  return run(b.finish(results), operands);
}

}  // namespace

void set_interpreter_poll(void (*f)()) { poll = f; }

Result<std::vector<Literal>> interpret(const Module& module, std::string_view function, std::vector<Literal> args, Peers* peers) {
  const Function* f = module.find(function);
  if (!f)
    return error(Code::kUnknownName, "no function is named @{}{}", function,
                 did_you_mean(function, module.function_names()));
  Interpreter interpreter(module, peers);
  NABLA_TRY(interpreter.bind_place());
  std::vector<std::string> path;
  NABLA_TRY(interpreter.check(*f, path));
  NABLA_TRY(interpreter.bind(*f, args));
  std::vector<Literal> results = interpreter.run(*f, std::move(args));
  if (!interpreter.failures().empty()) return interpreter.failures();
  return results;
}

}  // namespace nabla::ir
