#include "ir/verifier.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/kernel_ir/kernel.h"
#include "ir/library/call.h"
#include "ir/op_def.h"
#include "ir/symbols.h"

namespace nabla::ir {
namespace {

using Names = std::vector<std::string>;

/// "in [8, 64]", "a multiple of 8 in [8, 64]"
std::string range_of(const Symbol& s) {
  std::string multiple = s.multiple == 1 ? "" : fmt::format("a multiple of {} ", s.multiple);
  return fmt::format("{}in [{}, {}]", multiple, s.min, s.max);
}

// E0107 or E0208 unless the module declares the size's symbols as they stand in it; `where` begins the message.
Status check_symbols(const Module& module, const Dim& size, const std::string& where) {
  for (const SymbolRef& s : size.symbols()) {
    auto same = [&](const SymbolRef& t) { return t->name == s->name; };
    auto it = std::find_if(module.symbols.begin(), module.symbols.end(), same);
    if (it == module.symbols.end())
      return error(Code::kUnknownName, "{}: the module declares no symbol {}", where, s->name);
    if (**it != *s)
      return error(Code::kInvalidModule, "{}: symbol {} is {} here and {} where it is declared", where, s->name,
                   range_of(*s), range_of(**it));
  }
  return Ok{};
}

bool share_symbols(const SizeRelation& a, const SizeRelation& b) {
  auto names = [](const SizeRelation& r) {
    std::set<std::string> out;
    for (const Dim* d : {&r.left, &r.right})
      for (const SymbolRef& s : d->symbols()) out.insert(s->name);
    return out;
  };
  std::set<std::string> mine = names(a), theirs = names(b);
  return std::any_of(mine.begin(), mine.end(), [&](const std::string& name) { return theirs.contains(name); });
}

// `symbols` know the module's constraints.
Status check_constraint(const Module& module, const std::vector<SymbolRef>& symbols, const SizeConstraint& constraint) {
  const auto& [left, kind, right] = constraint.relation;
  std::string text = "require " + constraint.relation.str();
  for (const Dim* d : {&left, &right}) (void)NABLA_TRY(check_symbols(module, *d, text));
  auto knowing = [&](const SymbolRef& s) {
    auto same = [&](const SymbolRef& t) { return t->name == s->name; };
    return Dim::symbol(*std::find_if(symbols.begin(), symbols.end(), same));
  };
  if (!SizeRelation{left.substitute(knowing), kind, right.substitute(knowing)}.impossible()) return Ok{};
  Diagnostic d = error(Code::kInvalidModule, "{}: no sizes satisfy it: {}", text,
                       contradiction(constraint.relation, constraint.relation));
  for (const SymbolRef& s : (left - right).symbols())
    d.notes.push_back(fmt::format("{} in [{}, {}]{}", s->name, s->min, s->max, at_place(s->location)));
  for (const SizeConstraint& other : module.constraints) {
    if (&other == &constraint || !share_symbols(other.relation, constraint.relation)) continue;
    d.notes.push_back(fmt::format("beside: require {}{}", other.relation.str(), at_place(other.location)));
  }
  return d;
}

class ModuleVerifier {
 public:
  ModuleVerifier(const Module& module, const LocateItem& locate) : m_(module), locate_(locate) {}

  Status structure() {
    (void)NABLA_TRY(symbols());
    (void)NABLA_TRY(constraints());
    (void)NABLA_TRY(check_meshes(m_, locate_));
    (void)NABLA_TRY(state());
    (void)NABLA_TRY(unique_functions());
    (void)NABLA_TRY(no_recursion());
    for (size_t i = 0; i < m_.entries.size(); ++i) (void)NABLA_TRY(at(Item::kEntry, i, entry(m_.entries[i])));
    for (const auto& kernel : m_.kernels) {
      (void)NABLA_TRY(kernel_ir::verify(*kernel));
      (void)NABLA_TRY(kernel_ir::check_accesses(*kernel));
      if (kernel->schedule) (void)NABLA_TRY(kernel_ir::check_schedule(*kernel));
      if (!kernel->schedule && m_.stage == Stage::kPlanned)
        return error(Code::kInvalidModule, "kernel @{} has no schedule, in a planned module", kernel->name);
    }
    return Ok{};
  }

  Status functions() {
    std::map<std::string_view, const Function*> by_name;
    for (const FunctionPtr& f : m_.functions) by_name[f->name] = f.get();
    FunctionLookup lookup = [&](std::string_view name) {
      auto it = by_name.find(name);
      return it == by_name.end() ? nullptr : it->second;
    };
    std::map<std::string_view, const kernel_ir::Kernel*> kernels;
    for (const auto& k : m_.kernels) kernels[k->name] = k.get();
    for (const FunctionPtr& f : m_.functions) {
      (void)NABLA_TRY(function(*f, lookup));
      (void)NABLA_TRY(launches(*f, kernels));
      (void)NABLA_TRY(check_shardings(m_, *f));
    }
    return Ok{};
  }

 private:
  Status at(Item item, size_t index, Status status) const {
    if (status.ok() || !locate_) return status;
    for (Diagnostic& d : status.errors())
      if (!d.location) d.location = locate_(item, index);
    return status;
  }

  Status symbols() const {
    std::set<std::string_view> seen;
    for (size_t i = 0; i < m_.symbols.size(); ++i) {
      const Symbol& s = *m_.symbols[i];
      if (!seen.insert(s.name).second)
        return at(Item::kSymbol, i, error(Code::kDuplicateName, "symbol {} is declared twice", s.name));
      (void)NABLA_TRY(at(Item::kSymbol, i, check_symbol(s)));
      if (!s.axis.empty()) (void)NABLA_TRY(at(Item::kSymbol, i, check_coordinate(m_, s)));
    }
    return Ok{};
  }

  Status constraints() const {
    if (m_.constraints.size() > kMaxConstraints)
      return at(Item::kConstraint, kMaxConstraints,
                error(Code::kTooLarge, "{} constraints between sizes, at most {} are allowed", m_.constraints.size(),
                      kMaxConstraints));
    std::vector<SymbolRef> knowing = with_facts(m_.symbols, m_.constraints);
    for (size_t i = 0; i < m_.constraints.size(); ++i) {
      Status sound = check_constraint(m_, knowing, m_.constraints[i]);
      if (sound.ok()) continue;
      for (Diagnostic& d : sound.errors())
        if (m_.constraints[i].location) d.location = m_.constraints[i].location;
      (void)NABLA_TRY(at(Item::kConstraint, i, std::move(sound)));
    }
    return no_cycle();
  }

  // What a constraint contradicts only together with several others.
  Status no_cycle() const {
    std::vector<size_t> cycle = contradicting_cycle(m_.symbols, m_.constraints);
    if (cycle.empty()) return Ok{};
    size_t last = cycle.back();
    Diagnostic d = error(Code::kInvalidModule, "require {}: no sizes satisfy it: not together with {}",
                         m_.constraints[last].relation.str(), relations_text(m_.constraints, cycle, last));
    for (const SymbolRef& s : m_.symbols) d.notes.push_back(fmt::format("{} in [{}, {}]", s->name, s->min, s->max));
    d.location = m_.constraints[last].location;
    return at(Item::kConstraint, last, std::move(d));
  }

  Status state() const {
    std::set<std::string_view> seen;
    for (size_t i = 0; i < m_.state.size(); ++i) {
      const StateLeaf& leaf = m_.state[i];
      if (leaf.name.empty()) return at(Item::kState, i, error(Code::kBadState, "state leaf {} has no name", i));
      if (!seen.insert(leaf.name).second)
        return at(Item::kState, i, error(Code::kDuplicateName, "state leaf {} is declared twice", leaf.name));
      if (!leaf.type.is_static())
        return at(Item::kState, i,
                  error(Code::kBadState, "state leaf {} is {}: state keeps one size in all runs", leaf.name,
                        leaf.type.str()));
      if (leaf.type.is_residual())
        return at(Item::kState, i, error(Code::kBadState, "state leaf {} is {}", leaf.name, leaf.type.str()));
      (void)NABLA_TRY(at(Item::kState, i, check_type(m_, leaf.type)));
    }
    return Ok{};
  }

  Status unique_functions() const {
    std::set<std::string_view> seen;
    for (size_t i = 0; i < m_.functions.size(); ++i) {
      if (!seen.insert(m_.functions[i]->name).second)
        return at(Item::kFunction, i,
                  error(Code::kDuplicateName, "function @{} is defined twice", m_.functions[i]->name));
    }
    return Ok{};
  }

  Status no_recursion() const {
    std::vector<std::pair<std::string, Names>> calls;
    for (const FunctionPtr& f : m_.functions) {
      Names callees;
      for (const Node& node : f->nodes)
        for (std::string& callee : functions_of(node.attrs)) callees.push_back(std::move(callee));
      calls.emplace_back(f->name, std::move(callees));
    }
    (void)NABLA_TRY(callees_first(calls));
    return Ok{};
  }

  Status leaf_types(const Entry& e, const Function& f, const std::vector<int>& leaves, const std::vector<ValueId>& ids,
                    std::string_view verb) const {
    std::set<int> seen;
    for (size_t i = 0; i < leaves.size(); ++i) {
      int leaf = leaves[i];
      if (leaf < 0 || leaf >= static_cast<int>(m_.state.size()))
        return error(Code::kBadState, "entry {} {} state leaf {}, the module has {}", e.name, verb, leaf,
                     m_.state.size());
      const StateLeaf& s = m_.state[leaf];
      if (!seen.insert(leaf).second)
        return error(Code::kBadState, "entry {} {} state leaf {} twice", e.name, verb, s.name);
      if (f.type(ids[i]) != s.type)
        return error(Code::kBadState, "entry {} {} state leaf {}, which is {}, as {}", e.name, verb, s.name,
                     s.type.str(), f.type(ids[i]).str());
    }
    return Ok{};
  }

  // A function reads and writes leaves at one place each, whichever entry runs it.
  Status same_state(const Entry& e, const Entry& first) const {
    if (e.reads == first.reads && e.writes == first.writes) return Ok{};
    const bool reads = e.reads != first.reads;
    auto leaves = [&](const Entry& of) {
      std::string out;
      for (int leaf : reads ? of.reads : of.writes) out += (out.empty() ? "" : ", ") + m_.state[leaf].name;
      return out.empty() ? "nothing" : out;
    };
    const char* verb = reads ? "reads" : "writes";
    Diagnostic d = error(Code::kBadState, "entries {} and {} run @{}, and {} {} {}, {} {} {}", first.name, e.name, e.function, first.name,
                         verb, leaves(first), e.name, verb, leaves(e));
    d.help = "give each entry a function of its own";
    return d;
  }

  Status borders(const Entry& e, const Function& f, const Names& names, const std::vector<ValueId>& ids, size_t first,
                 std::string_view what) const {
    std::set<std::string_view> seen;
    for (size_t i = 0; i < names.size(); ++i) {
      if (!seen.insert(names[i]).second)
        return error(Code::kDuplicateName, "entry {} has two {}s named {}", e.name, what, names[i]);
      const Type& type = f.type(ids[first + i]);
      if (type.is_residual())
        return error(Code::kInvalidModule, "entry {}: {} {} is {}", e.name, what, names[i], type.str());
    }
    return Ok{};
  }

  Status entry(const Entry& e) const {
    if (e.name.empty()) return error(Code::kInvalidModule, "an entry has no name");
    if (m_.find_entry(e.name) != &e) return error(Code::kDuplicateName, "entry {} is defined twice", e.name);
    const Function* f = m_.find(e.function);
    if (!f)
      return error(Code::kUnknownName, "entry {}: no function is named @{}{}", e.name, e.function,
                   did_you_mean(e.function, m_.function_names()));
    if (e.reads.size() + e.inputs.size() != f->params.size())
      return error(Code::kOperandCount, "entry {} has {} leaves to read and {} inputs, @{} has {} parameters", e.name,
                   e.reads.size(), e.inputs.size(), f->name, f->params.size());
    if (e.writes.size() + e.outputs.size() != f->results.size())
      return error(Code::kOperandCount, "entry {} has {} leaves to write and {} outputs, @{} has {} results", e.name,
                   e.writes.size(), e.outputs.size(), f->name, f->results.size());
    (void)NABLA_TRY(leaf_types(e, *f, e.reads, f->params, "reads"));
    (void)NABLA_TRY(leaf_types(e, *f, e.writes, f->results, "writes"));
    (void)NABLA_TRY(same_state(e, *m_.entry_of(e.function)));
    (void)NABLA_TRY(borders(e, *f, e.inputs, f->params, e.reads.size(), "input"));
    (void)NABLA_TRY(borders(e, *f, e.outputs, f->results, e.writes.size(), "output"));
    (void)NABLA_TRY(size_sources(e, *f, without_coordinates(symbols_of(*f))));
    return e.variant_of.empty() && e.sizes.empty() ? Status(Ok{}) : variant(e, *f);
  }

  Status variant(const Entry& e, const Function& f) const {
    const Entry* base = m_.find_entry(e.variant_of);
    if (!base || base >= &e || !base->variant_of.empty())
      return error(Code::kInvalidModule, "entry {} is a variant of {}, which is no entry before it", e.name,
                   e.variant_of.empty() ? "nothing" : e.variant_of);
    if (e.sizes.empty()) return error(Code::kInvalidModule, "entry {} is a variant of {} at no size", e.name, base->name);
    for (const auto& [symbol, size] : e.sizes) (void)NABLA_TRY(check_size(m_.symbols, symbol, size));
    const Function* general = m_.find(base->function);
    bool same = e.reads == base->reads && e.writes == base->writes && e.inputs == base->inputs &&
                e.outputs == base->outputs && general;
    if (!same)
      return error(Code::kInvalidModule, "entry {} is a variant of {}, and has other state, inputs or outputs", e.name,
                   base->name);
    for (auto ids : {&Function::params, &Function::results})
      for (size_t i = 0; i < std::min((f.*ids).size(), (general->*ids).size()); ++i) {
        const Type &type = f.type((f.*ids)[i]), &of = general->type((general->*ids)[i]);
        if (Type at = Type(of.dtype, at_sizes(of.shape, e.sizes)); !(type == at))
          return error(Code::kInvalidModule, "entry {} is a variant of {}, and has {} in the place of {}", e.name,
                       base->name, type.str(), at.str());
      }
    return Ok{};
  }

  // ---- One function.
  Status function(const Function& f, const FunctionLookup& lookup) const {
    std::vector<char> defined(f.values.size(), 0);
    auto define = [&](ValueId id) -> Status {
      if (id < 0 || id >= static_cast<int>(f.values.size()))
        return error(Code::kInvalidModule, "@{}: value {} is not in the table of {}", f.name, id, f.values.size());
      if (defined[id]++) return error(Code::kInvalidModule, "@{}: {} is defined twice", f.name, value_name(f, id));
      return check_type(m_, f.type(id));
    };
    auto use = [&](ValueId id, std::string_view user) -> Status {
      if (id >= 0 && id < static_cast<int>(f.values.size()) && defined[id]) return Ok{};
      bool known = id >= 0 && id < static_cast<int>(f.values.size());
      return error(Code::kInvalidModule, "@{}: {} uses {} before it is defined", f.name, user,
                   known ? value_name(f, id) : fmt::format("value {}", id));
    };
    for (ValueId id : f.params) (void)NABLA_TRY(define(id));
    for (const Node& node : f.nodes) {
      Status status = [&]() -> Status {
        for (ValueId id : node.operands) (void)NABLA_TRY(use(id, node.op->name));
        (void)NABLA_TRY(check_node(f, node, lookup));
        for (ValueId id : node.results) (void)NABLA_TRY(define(id));
        return Ok{};
      }();
      if (status.ok()) continue;
      for (Diagnostic& d : status.errors())
        if (!d.location) d.location = node.location;
      return status;
    }
    for (ValueId id : f.results) (void)NABLA_TRY(use(id, "return"));
    return Ok{};
  }

  // Operands and results of a launch are its kernel's buffers; of a fallback the operands that it takes, and the result.
  Status launches(const Function& f, const std::map<std::string_view, const kernel_ir::Kernel*>& kernels) const {
    for (const Node& n : f.nodes) {
      std::optional<std::string> name = kernel_of(n);
      if (!name) continue;
      Status sound = launch(f, n, *name, kernels);
      if (sound.ok()) continue;
      for (Diagnostic& d : sound.errors()) d.location = n.location;
      return sound;
    }
    return Ok{};
  }
  // A kernel may see an array under another shape.
  static bool lies_alike(const Type& value, const Type& buffer) {
    return value.dtype == buffer.dtype && value.count().bounds().max == buffer.count().bounds().max;
  }
  Status launch(const Function& f, const Node& n, const std::string& name,
                const std::map<std::string_view, const kernel_ir::Kernel*>& kernels) const {
    auto kernel = kernels.find(name);
    if (kernel == kernels.end()) {
      Names known;
      for (const auto& [other, k] : kernels) known.emplace_back(other);
      return error(Code::kUnknownName, "{}: no kernel is named `{}`{}", n.op->name, name, did_you_mean(name, known));
    }
    std::vector<ValueId> args = n.operands;
    std::optional<FallbackKernel> fallback = fallback_kernel(n);
    if (fallback) {
      args.clear();
      for (int64_t i : fallback->order) {
        if (i < 0 || i >= static_cast<int64_t>(n.operands.size()))
          return error(Code::kBadAttribute, "{}: order names operand {} of {}", n.op->name, i, n.operands.size());
        args.push_back(n.operands[static_cast<size_t>(i)]);
      }
    }
    args.insert(args.end(), n.results.begin(), n.results.end());
    const std::vector<kernel_ir::Buffer>& buffers = kernel->second->buffers;
    size_t own = fallback ? fallback->scratch.size() : 0;
    if (args.size() + own != buffers.size())
      return error(Code::kOperandCount, "{}: kernel @{} has {} buffers, and {} values are given", n.op->name, name,
                   buffers.size(), args.size() + own);
    for (size_t i = 0; i < args.size(); ++i)
      if (Type buffer(buffers[i].dtype, buffers[i].shape); !lies_alike(f.type(args[i]), buffer))
        return error(Code::kTypeDisagrees, "{}: {} is {}, and buffer {} of kernel @{} is {}", n.op->name,
                     value_name(f, args[i]), f.type(args[i]).str(), buffers[i].name, name, buffer.str());
    return Ok{};
  }

  Status check_node(const Function& f, const Node& node, const FunctionLookup& lookup) const {
    NABLA_CHECK(node.op != nullptr, "a node of @{} has no op", f.name);
    (void)NABLA_TRY(check_stage(*node.op, m_.stage));
    Attrs full = NABLA_TRY(complete_attrs(*node.op, node.attrs));
    if (full.size() != node.attrs.size())
      return error(Code::kBadAttribute, "{}: an attribute is missing", node.op->name);
    for (const auto& [name, attr] : node.attrs)
      if (const Shape* shape = std::get_if<Shape>(&attr)) (void)NABLA_TRY(check_shape_attr(m_, *node.op, *shape));
    std::vector<Type> inferred = NABLA_TRY(infer_types(*node.op, f.types(node.operands), node.attrs, lookup));
    if (inferred.size() != node.results.size())
      return error(Code::kOperandCount, "{}: has {} results, the module states {}", node.op->name, inferred.size(),
                   node.results.size());
    for (size_t i = 0; i < inferred.size(); ++i)
      if (inferred[i] != f.type(node.results[i]))
        return error(Code::kTypeDisagrees, "{}: result {}, {}, is stated as {}, inferred as {}", node.op->name, i,
                     value_name(f, node.results[i]), f.type(node.results[i]).str(), inferred[i].str());
    return Ok{};
  }

  const Module& m_;
  const LocateItem& locate_;
};

}  // namespace

Status check_symbol(const Symbol& s) {
  auto refuse = [&](const std::string& why) { return error(Code::kInvalidModule, "symbol {}: {}", s.name, why); };
  if (s.name.empty()) return error(Code::kInvalidModule, "a symbol has no name");
  if (s.min < 0) return refuse(fmt::format("the lower bound is {}, expected 0 or more", s.min));
  if (s.max > kMaxElements)
    return refuse(fmt::format("the upper bound is {}, at most {} is allowed", s.max, kMaxElements));
  if (s.multiple < 1) return refuse(fmt::format("it is a multiple of {}, expected 1 or more", s.multiple));
  if (s.max / s.multiple * s.multiple < s.min) return refuse("no size is " + range_of(s));
  return Ok{};
}

Status check_stage(const OpDef& op, Stage stage) {
  if (op.stages >> static_cast<int>(stage) & 1) return Ok{};
  std::string legal;
  for (int s = 0; s < kStageCount; ++s)
    if (op.stages >> s & 1) legal += (legal.empty() ? "" : ", ") + std::string(name_of(static_cast<Stage>(s)));
  return error(Code::kWrongStage, "{}: not legal in a module of stage {}; legal in: {}", op.name, name_of(stage),
               legal);
}

namespace {

// `what()` says in messages what has the shape. It is asked for them alone: every value of every pass comes here.
template <class What>
Status check_shape(const Module& module, const Shape& shape, What what) {
  if (shape.size() > static_cast<size_t>(kMaxRank))
    return error(Code::kTooLarge, "{} has {} dimensions, at most {} are allowed", what(), shape.size(), kMaxRank);
  int64_t elements = 1;
  for (const Dim& d : shape) {
    Interval range = d.bounds();
    if (range.min < 0 && !Dim::less_equal(0, d).value_or(false))
      return error(Code::kInvalidModule, "{}: extent {} may be negative", what(), d.str());
    if (range.max > kMaxElements || (range.max > 0 && elements > kMaxElements / range.max))
      return error(Code::kTooLarge, "{} may have more than {} elements", what(), kMaxElements);
    elements *= std::max<int64_t>(range.max, 1);
    if (!d.is_static()) (void)NABLA_TRY(check_symbols(module, d, what()));
  }
  return Ok{};
}

}  // namespace

Status check_type(const Module& module, const Type& type) {
  if (type.is_residual()) {
    if (module.stage == Stage::kTraced) return Ok{};
    return error(Code::kWrongStage, "{} is legal in traced modules only", type.str());
  }
  return check_shape(module, type.shape, [&] { return type.rank() > kMaxRank ? "a type" : type.str(); });
}

Status check_shape_attr(const Module& module, const OpDef& op, const Shape& shape) {
  // That of a launch is a list of sizes.
  if (op.lower != Lowering::kCall) return check_shape(module, shape, [&] { return "the shape " + str(shape); });
  for (const Dim& d : shape) (void)NABLA_TRY(check_shape(module, {d}, [&] { return "the size " + d.str(); }));
  return Ok{};
}

constexpr int kMaxCallDepth = 1000;  // passes follow calls with frames of the machine's stack

Result<std::vector<size_t>> callees_first(const std::vector<std::pair<std::string, Names>>& calls, size_t* member) {
  std::map<std::string_view, size_t> index;
  for (size_t i = 0; i < calls.size(); ++i) index.emplace(calls[i].first, i);
  std::vector<size_t> order;
  std::vector<char> state(calls.size(), 0);  // 0 new, 1 open, 2 done
  std::vector<int> depth(calls.size(), 0);   // of the calls below
  struct Frame {
    size_t function, next;
  };
  for (size_t root = 0; root < calls.size(); ++root) {
    if (state[root]) continue;
    // An own stack: a file may chain more functions than the machine's stack holds frames.
    std::vector<Frame> stack = {{root, 0}};
    state[root] = 1;
    while (!stack.empty()) {
      auto& [function, next] = stack.back();
      const Names& callees = calls[function].second;
      if (next == callees.size()) {
        for (const std::string& callee : callees)
          if (auto it = index.find(callee); it != index.end())
            depth[function] = std::max(depth[function], depth[it->second] + 1);
        if (depth[function] > kMaxCallDepth)
          return error(Code::kTooLarge, "functions call each other more than {} deep, from @{} on", kMaxCallDepth,
                       calls[function].first);
        state[function] = 2;
        order.push_back(function);
        stack.pop_back();
        continue;
      }
      auto it = index.find(callees[next++]);
      if (it == index.end() || state[it->second] == 2) continue;
      if (state[it->second] == 1) {
        std::string cycle;
        bool inside = false;
        for (const Frame& frame : stack) {
          inside = inside || frame.function == it->second;
          if (inside) cycle += "@" + calls[frame.function].first + " -> ";
        }
        if (member) *member = it->second;
        return error(Code::kRecursion, "functions call each other in a cycle: {}@{}", cycle, it->first);
      }
      state[it->second] = 1;
      stack.push_back({it->second, 0});
    }
  }
  return order;
}

Status verify_structure(const Module& module, const LocateItem& locate) {
  return ModuleVerifier(module, locate).structure();
}

Status verify(const Module& module, const LocateItem& locate) {
  ModuleVerifier verifier(module, locate);
  (void)NABLA_TRY(verifier.structure());
  return verifier.functions();
}

}  // namespace nabla::ir
