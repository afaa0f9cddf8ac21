// From what a file states to a module.
#include <cstring>
#include <map>

#include "ir/op_def.h"
#include "ir/raw.h"
#include "ir/symbols.h"
#include "ir/verifier.h"

namespace nabla::ir {
namespace {

// An integer where a float is declared, a list of integers where a shape is and an empty list are what they mean.
Attr coerced(Attr value, AttrKind declared) {
  if (declared == AttrKind::kFloat && kind_of(value) == AttrKind::kInt)
    return static_cast<double>(std::get<int64_t>(value));
  if (declared == AttrKind::kShape && kind_of(value) == AttrKind::kInts) return static_shape(std::get<Ints>(value));
  const Ints* ints = std::get_if<Ints>(&value);
  if (declared == AttrKind::kFunctions && ints && ints->empty()) return FunctionRefs{};
  if (declared == AttrKind::kShardings && ints && ints->empty()) return Shardings{};
  return value;
}

class Assembler {
 public:
  Assembler(RawModule raw, const OpTable& ops, const Locate& locate, Places places)
      : raw_(std::move(raw)), ops_(ops), locate_(locate), places_(places) {}

  Result<Module> run() {
    std::vector<std::pair<std::string, std::vector<std::string>>> calls;
    std::map<std::string_view, size_t> seen;
    for (size_t i = 0; i < raw_.functions.size(); ++i) {
      const RawFunction& f = raw_.functions[i];
      if (f.name.empty()) return located(error(Code::kInvalidModule, "a function has no name"), f.place, f.location);
      if (!seen.emplace(f.name, i).second)
        return located(error(Code::kDuplicateName, "function @{} is defined twice", f.name), f.place, f.location);
      std::vector<std::string> callees;
      for (const RawNode& n : f.nodes)
        for (const RawAttr& a : n.attrs)
          for (std::string& callee : functions_of(a.value)) callees.push_back(std::move(callee));
      calls.emplace_back(f.name, std::move(callees));
    }
    size_t member = 0;
    Result<std::vector<size_t>> order = callees_first(calls, &member);
    if (!order.ok()) return located(std::move(order.errors()), raw_.functions[member].place, nullptr);

    LocateItem item = [this](Item kind, size_t i) -> LocationRef {
      const auto& places = kind == Item::kSymbol       ? raw_.symbol_places
                           : kind == Item::kConstraint ? raw_.constraint_places
                           : kind == Item::kMesh       ? raw_.mesh_places
                           : kind == Item::kState      ? raw_.state_places
                                                       : raw_.entry_places;
      if (kind == Item::kFunction) return locate_(i < raw_.functions.size() ? raw_.functions[i].place : Place{});
      return locate_(i < places.size() ? places[i] : Place{});
    };
    std::vector<FunctionPtr> functions(raw_.functions.size());
    lookup_ = [&](std::string_view name) -> const Function* {
      auto it = seen.find(name);
      return it == seen.end() ? nullptr : functions[it->second].get();
    };
    // The declarations first: extents in functions rest on them.
    (void)NABLA_TRY(declarations(item));
    for (size_t i : *order) functions[i] = std::make_shared<const Function>(NABLA_TRY(function(raw_.functions[i])));
    raw_.module.functions = std::move(functions);
    (void)NABLA_TRY(verify_structure(raw_.module, item));
    for (size_t i : lent_) raw_.module.meshes[i].location = nullptr;
    return std::move(raw_.module);
  }

 private:
  Diagnostics located(Diagnostics errors, Place place, const LocationRef& own) const {
    for (Diagnostic& d : errors)
      if (!d.location) {
        LocationRef there = locate_(place);
        d.location = own && (!there || there->line == 0) ? own : there;
      }
    return errors;
  }
  Diagnostics located(Diagnostic error, Place place, const LocationRef& own) const {
    return located(Diagnostics{std::move(error)}, place, own);
  }

  LocationRef place_of(const LocationRef& own, Place place) const {
    return own || places_ == Places::kAsWritten ? own : locate_(place);
  }

  Status declarations(const LocateItem& item) {
    for (size_t i = 0; i < raw_.module.constraints.size(); ++i) {
      LocationRef& own = raw_.module.constraints[i].location;
      if (!own && places_ == Places::kOfFile) own = item(Item::kConstraint, i);
    }
    for (size_t i = 0; i < raw_.module.meshes.size(); ++i) {
      LocationRef& own = raw_.module.meshes[i].location;
      if (own) continue;
      own = item(Item::kMesh, i);
      if (places_ == Places::kAsWritten) lent_.push_back(i);
    }
    for (size_t i = 0; i < raw_.module.state.size(); ++i) {
      LocationRef& own = raw_.module.state[i].location;
      if (!own && places_ == Places::kOfFile) own = item(Item::kState, i);
    }

    Module head;
    head.stage = raw_.module.stage;
    head.symbols = raw_.module.symbols;
    head.meshes = raw_.module.meshes;
    head.constraints = raw_.module.constraints;
    head.state = raw_.module.state;
    return verify_structure(head, item);
  }

  Result<Function> function(RawFunction& raw) {
    Function f;
    f.name = raw.name;
    f.location = place_of(raw.location, raw.place);
    f.params = raw.params;
    f.results = raw.results;
    for (RawValue& v : raw.values) f.values.push_back({v.type.value_or(Type()), v.name, v.sharding});
    defined_.assign(raw.values.size(), false);
    for (ValueId id : raw.params) {
      Place place = known(f, id) ? raw.values[id].place : raw.place;
      if (!known(f, id) || !raw.values[id].type)
        return located(error(Code::kCorrupt, "@{}: parameter {} has no type", f.name, id), place, raw.location);
      (void)NABLA_TRY(at(define(f, id), place, raw.location));
      (void)NABLA_TRY(at(check_type(raw_.module, f.type(id)), place, raw.location));
      (void)NABLA_TRY(at(check_layout(raw_.module, f, id), place, raw.location));
    }
    for (RawNode& n : raw.nodes) {
      Result<Node> made = node(f, raw, n);
      if (!made.ok()) {
        for (Diagnostic& d : made.errors())
          for (ValueId id : n.operands)
            if (known(f, id) && defined_[id]) d.notes.push_back(description(f, raw, id));
        return located(std::move(made.errors()), n.place, n.location);
      }
      f.nodes.push_back(std::move(*made));
    }
    for (ValueId id : f.results)
      if (!known(f, id) || !defined_[id])
        return located(error(Code::kInvalidModule, "@{}: return uses value {} before it is defined", f.name, id),
                       raw.place, raw.location);
    if (raw.result_types && *raw.result_types != f.types(f.results))
      return located(
          error(Code::kTypeDisagrees, "@{}: the stated result types are not those of the returned values", f.name),
          raw.place, raw.location);
    for (size_t i = 0; i < defined_.size(); ++i)
      if (!defined_[i])
        return located(error(Code::kInvalidModule, "@{}: value {} is never defined", f.name, i), raw.place,
                       raw.location);
    return f;
  }

  /// describe_value with the name that the text uses.
  static std::string description(const Function& f, const RawFunction& raw, ValueId id) {
    std::string out = describe_value(f, id);
    if (!raw.values[id].number.empty()) out.replace(0, out.find(' '), "%" + raw.values[id].number);
    return out;
  }
  static bool known(const Function& f, ValueId id) { return id >= 0 && id < static_cast<int>(f.values.size()); }
  Status at(Status status, Place place, const LocationRef& own) const {
    if (status.ok()) return status;
    return located(std::move(status.errors()), place, own);
  }
  Status define(const Function& f, ValueId id) {
    if (!known(f, id))
      return error(Code::kCorrupt, "@{}: value {} is not in the table of {}", f.name, id, f.values.size());
    if (defined_[id]) return error(Code::kInvalidModule, "@{}: {} is defined twice", f.name, value_name(f, id));
    defined_[id] = true;
    return Ok{};
  }

  Result<const OpDef*> find_op(const RawNode& n) const {
    const OpDef* op = ops_.find(n.op);
    if (!op) return error(Code::kUnknownOp, "unknown op `{}`{}", n.op, did_you_mean(n.op, ops_.names()));
    if (n.version > op->version)
      return error(Code::kNewerVersion, "{}: the file has version {} of this op, this program knows up to {}", op->name,
                   n.version, op->version);
    if (n.version < 1) return error(Code::kCorrupt, "{}: version {}", op->name, n.version);
    return op;
  }

  Result<Attrs> attributes(const OpDef& op, RawNode& n) const {
    Attrs attrs;
    for (RawAttr& a : n.attrs) {
      if (attrs.find(a.name))
        return located(error(Code::kDuplicateName, "{}: attribute `{}` is given twice", op.name, a.name), a.place,
                       n.location);
      for (const AttrDef& def : op.attrs)
        if (def.name == a.name && n.version == op.version) a.value = coerced(std::move(a.value), def.kind);
      if (const Shape* shape = std::get_if<Shape>(&a.value))
        (void)NABLA_TRY(at(check_shape_attr(raw_.module, op, *shape), a.place, n.location));
      attrs.set(a.name, std::move(a.value));
    }
    for (int64_t v = n.version; v < op.version; ++v) attrs = op.upgrades[v - 1](std::move(attrs));
    Result<Attrs> full = complete_attrs(op, std::move(attrs));
    if (full.ok()) return full;
    for (Diagnostic& d : full.errors())
      for (const RawAttr& a : n.attrs)
        if (!d.location && d.message.find("`" + a.name + "`") != std::string::npos && a.place.line > 0)
          d.location = locate_(a.place);
    return full;
  }

  Result<Node> node(Function& f, RawFunction& raw, RawNode& n) {
    const OpDef* op = NABLA_TRY(find_op(n));
    (void)NABLA_TRY(check_stage(*op, raw_.module.stage));
    for (ValueId id : n.operands)
      if (!known(f, id) || !defined_[id])
        return error(Code::kInvalidModule, "@{}: {} uses value {} before it is defined", f.name, op->name, id);
    Attrs attrs = NABLA_TRY(attributes(*op, n));
    for (const std::string& callee : functions_of(attrs))
      if (!lookup_(callee))
        return error(Code::kUnknownName, "{}: no function is named @{}{}", op->name, callee,
                     did_you_mean(callee, function_names()));
    std::vector<Type> types = NABLA_TRY(infer_types(*op, f.types(n.operands), attrs, lookup_));
    if (types.size() != n.results.size())
      return error(Code::kOperandCount, "{}: has {} result{}, {} stated", op->name, types.size(),
                   types.size() == 1 ? "" : "s",
                   n.results.size() == 1 ? "1 is" : fmt::format("{} are", n.results.size()));
    for (size_t i = 0; i < types.size(); ++i) {
      ValueId id = n.results[i];
      (void)NABLA_TRY(check_type(raw_.module, types[i]));
      (void)NABLA_TRY(define(f, id));
      if (raw.values[id].type && *raw.values[id].type != types[i])
        return error(Code::kTypeDisagrees, "{}: result {} is stated as {}, inferred as {}", op->name, i,
                     raw.values[id].type->str(), types[i].str());
      f.values[id].type = std::move(types[i]);
    }
    Node out{op, n.operands, std::move(attrs), n.results, place_of(n.location, n.place)};
    (void)NABLA_TRY(check_layouts(raw_.module, f, out));
    return out;
  }

  std::vector<std::string> function_names() const {
    std::vector<std::string> out;
    for (const RawFunction& f : raw_.functions) out.push_back(f.name);
    return out;
  }

  RawModule raw_;
  const OpTable& ops_;
  const Locate& locate_;
  Places places_;
  std::vector<size_t> lent_;  // meshes that have a location until all is checked, for errors to show
  FunctionLookup lookup_;
  std::vector<bool> defined_;
};

}  // namespace

Result<Module> assemble(RawModule raw, const OpTable& ops, const Locate& locate, Places places) {
  return Assembler(std::move(raw), ops, locate, places).run();
}

bool is_default(const OpDef& op, std::string_view name, const Attr& value) {
  for (const AttrDef& def : op.attrs) {
    if (def.name != name || !def.default_value) continue;
    const double *x = std::get_if<double>(&*def.default_value), *y = std::get_if<double>(&value);
    return x && y ? std::memcmp(x, y, sizeof *x) == 0 : *def.default_value == value;
  }
  return false;
}

Status check_version(int64_t version, const std::string& what) {
  if (version > kFormatVersion)
    return error(Code::kNewerVersion, "{} has format version {}, this program reads up to {}", what, version,
                 kFormatVersion);
  if (version < 1) return error(Code::kCorrupt, "{} has format version {}", what, version);
  return Ok{};
}

void learn_facts(Module& module, SymbolTable& symbols) {
  if (module.constraints.empty() || module.constraints.size() > kMaxConstraints) return;
  module.symbols = with_facts(module.symbols, module.constraints);
  for (const SymbolRef& s : module.symbols)
    if (auto it = symbols.find(s->name); it != symbols.end() && *it->second == *s) it->second = s;
}

}  // namespace nabla::ir
