// The FlatBuffer form of modules, written.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <tuple>

#include "ir/binary.h"
#include "ir/ir_generated.h"
#include "ir/op_def.h"

namespace nabla::ir {
namespace {

namespace fb = flatbuffers;

class Writer {
 public:
  Writer(ConstantWriter& constants, bool sidecar, const std::string& file)
      : constants_(constants), sidecar_(sidecar), file_(file) {}

  std::string run(const Module& m) {
    std::vector<fb::Offset<schema::Symbol>> symbols;
    for (const SymbolRef& s : m.symbols) {
      auto name = text(s->name);
      auto axis = text(s->axis);
      symbols.push_back(schema::CreateSymbol(b_, name, s->min, s->max, s->multiple, location(s->location), axis));
    }
    std::vector<fb::Offset<schema::SizeConstraint>> constraints;
    for (const auto& [relation, at] : m.constraints) {
      auto left = text(relation.left.str()), right = text(relation.right.str());
      constraints.push_back(
          schema::CreateSizeConstraint(b_, left, static_cast<schema::Relation>(relation.kind), right, location(at)));
    }
    std::vector<fb::Offset<schema::StateLeaf>> state;
    for (const StateLeaf& l : m.state) {
      auto name = text(l.name);
      auto type_at = type(l.type);
      state.push_back(schema::CreateStateLeaf(b_, name, type_at, location(l.location), sharding(l.sharding.get()),
                                               static_cast<schema::MemorySpace>(l.memory)));
    }
    std::vector<fb::Offset<schema::Mesh>> meshes;
    for (const Mesh& mesh : m.meshes) {
      auto name = text(mesh.name);
      std::vector<fb::Offset<schema::MeshAxis>> axes;
      for (const MeshAxis& a : mesh.axes) axes.push_back(schema::CreateMeshAxis(b_, text(a.name), a.size, a.temporal));
      auto axes_at = list(axes);
      meshes.push_back(schema::CreateMesh(b_, name, axes_at, location(mesh.location)));
    }
    std::vector<fb::Offset<schema::Entry>> entries;
    for (const Entry& e : m.entries) {
      auto name = text(e.name), function = text(e.function);
      auto reads = ids(e.reads), writes = ids(e.writes);
      auto inputs = strings(e.inputs), outputs = strings(e.outputs);
      fb::Offset<fb::String> variant_of = 0;
      fb::Offset<fb::Vector<fb::Offset<schema::SymbolSize>>> sizes = 0;
      if (!e.variant_of.empty()) {
        variant_of = text(e.variant_of);
        std::vector<fb::Offset<schema::SymbolSize>> rows;
        for (const auto& [symbol, size] : e.sizes) rows.push_back(schema::CreateSymbolSize(b_, text(symbol), size));
        sizes = list(rows);
      }
      entries.push_back(
          schema::CreateEntry(b_, name, function, reads, writes, inputs, outputs, variant_of, sizes));
    }
    std::vector<fb::Offset<schema::Function>> functions;
    for (const FunctionPtr& f : m.functions) functions.push_back(function(*f));
    auto symbols_at = list(symbols);
    fb::Offset<fb::Vector<fb::Offset<schema::SizeConstraint>>> constraints_at = 0;
    if (!constraints.empty()) constraints_at = list(constraints);
    auto state_at = list(state);
    auto entries_at = list(entries);
    auto functions_at = list(functions);
    auto meshes_at = list(meshes);
    auto locations_at = list(locations_);
    fb::Offset<fb::Vector<uint8_t>> section = 0;
    fb::Offset<fb::String> file = 0;
    const std::string& bytes = constants_.section();
    if (!bytes.empty() && sidecar_) file = text(file_);
    if (!bytes.empty() && !sidecar_) {
      b_.ForceVectorAlignment(bytes.size(), 1, static_cast<size_t>(kConstantAlignment));
      section = b_.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    }
    schema::FinishModuleBuffer(
        b_, schema::CreateModule(b_, kFormatVersion, static_cast<schema::Stage>(m.stage), symbols_at, state_at,
                                 entries_at, functions_at, locations_at, section, file, constraints_at, meshes_at));
    return {reinterpret_cast<const char*>(b_.GetBufferPointer()), b_.GetSize()};
  }

 private:
  fb::Offset<fb::String> text(std::string_view s) {
    return s.empty() ? fb::Offset<fb::String>(0) : b_.CreateSharedString(s.data(), s.size());
  }
  template <class T>
  fb::Offset<fb::Vector<fb::Offset<T>>> list(const std::vector<fb::Offset<T>>& items) {
    return items.empty() ? fb::Offset<fb::Vector<fb::Offset<T>>>(0) : b_.CreateVector(items);
  }
  fb::Offset<fb::Vector<uint32_t>> ids(const std::vector<int>& v) {
    if (v.empty()) return 0;
    return b_.CreateVector(std::vector<uint32_t>(v.begin(), v.end()));
  }
  fb::Offset<fb::Vector<int64_t>> ints(const std::vector<int64_t>& v) {
    return v.empty() ? fb::Offset<fb::Vector<int64_t>>(0) : b_.CreateVector(v);
  }
  fb::Offset<fb::Vector<fb::Offset<fb::String>>> strings(const std::vector<std::string>& v) {
    if (v.empty()) return 0;
    std::vector<fb::Offset<fb::String>> out;
    for (const std::string& s : v) out.push_back(b_.CreateSharedString(s));
    return b_.CreateVector(out);
  }

  /// Extents, and the expressions where there are any.
  std::pair<fb::Offset<fb::Vector<int64_t>>, fb::Offset<fb::Vector<fb::Offset<fb::String>>>> shape(const Shape& s) {
    std::vector<int64_t> extents;
    std::vector<std::string> symbolic;
    bool any = false;
    for (const Dim& d : s) {
      extents.push_back(d.is_static() ? d.value() : 0);
      symbolic.push_back(d.is_static() ? "" : d.str());
      any = any || !d.is_static();
    }
    auto at = ints(extents);
    return {at, any ? strings(symbolic) : 0};
  }

  fb::Offset<schema::Type> type(const Type& t) {
    auto [it, fresh] = types_.try_emplace(t.str());
    if (!fresh) return it->second;
    if (t.is_residual()) {
      auto of = text(t.residual_of);
      return it->second = schema::CreateType(b_, schema::DType::Bool, 0, 0, of);
    }
    auto [extents, symbolic] = shape(t.shape);
    return it->second = schema::CreateType(b_, static_cast<schema::DType>(t.dtype), extents, symbolic);
  }

  fb::Offset<fb::Vector<fb::Offset<schema::Axis>>> axes(const Axes& list_of) {
    std::vector<fb::Offset<schema::Axis>> out;
    for (const AxisRef& a : list_of) out.push_back(schema::CreateAxis(b_, text(a.name), a.before, a.size));
    return list(out);
  }
  fb::Offset<schema::Sharding> sharding(const Sharding* s) {
    if (!s) return 0;
    std::vector<fb::Offset<schema::DimSharding>> dims;
    for (const DimSharding& d : s->dims)
      dims.push_back(schema::CreateDimSharding(b_, axes(d.axes), d.open, static_cast<uint32_t>(d.priority)));
    auto dims_at = list(dims);
    return schema::CreateSharding(b_, dims_at, axes(s->replicated), s->allow_padding);
  }

  uint32_t location(const LocationRef& l) {
    if (!l) return 0;
    auto [it, fresh] = known_locations_.try_emplace({l->file, l->line, l->column, l->function, l->text});
    if (fresh) {
      auto file = text(l->file), function = text(l->function), line = text(l->text);
      locations_.push_back(schema::CreateLocation(b_, file, static_cast<uint32_t>(l->line),
                                                  static_cast<uint32_t>(l->column), function, line));
      it->second = static_cast<uint32_t>(locations_.size());
    }
    return it->second;
  }

  fb::Offset<schema::Literal> literal(const Literal& v) {
    auto extents = ints(v.shape());
    auto dtype = static_cast<schema::DType>(v.dtype());
    if (v.size_bytes() > kInlineBytes) {
      ExternalRef ref = constants_.add(v);
      auto hash = text(ref.sha256);
      auto external = schema::CreateExternal(b_, ref.offset, ref.bytes, hash);
      return schema::CreateLiteral(b_, dtype, extents, 0, external);
    }
    auto data = b_.CreateVector(static_cast<const uint8_t*>(v.data()), static_cast<size_t>(v.size_bytes()));
    return schema::CreateLiteral(b_, dtype, extents, data);
  }

  /// What JSON's 12 decimals keep goes to `value`, everything else to `bits`.
  fb::Offset<void> float_attr(double v) {
    char decimal[400];
    std::snprintf(decimal, sizeof decimal, "%.12f", v);
    double back = std::strtod(decimal, nullptr);
    uint64_t bits = 0;
    std::memcpy(&bits, &v, sizeof bits);
    bool exact = std::isfinite(v) && back == v && std::abs(v) < 1e15 && !(v == 0 && std::signbit(v));
    return schema::CreateFloatAttr(b_, exact ? v : 0.0, exact ? 0 : bits).Union();
  }

  fb::Offset<schema::Attr> attr(const std::string& name, const Attr& value) {
    using schema::AttrValue;
    auto at = text(name);
    AttrValue kind = static_cast<AttrValue>(value.index() + 1);
    fb::Offset<void> body;
    if (const bool* v = std::get_if<bool>(&value)) body = schema::CreateBoolAttr(b_, *v).Union();
    if (const int64_t* v = std::get_if<int64_t>(&value)) body = schema::CreateIntAttr(b_, *v).Union();
    if (const double* v = std::get_if<double>(&value)) body = float_attr(*v);
    if (const std::string* v = std::get_if<std::string>(&value)) body = schema::CreateStringAttr(b_, text(*v)).Union();
    if (const DType* v = std::get_if<DType>(&value))
      body = schema::CreateDTypeAttr(b_, static_cast<schema::DType>(*v)).Union();
    if (const Ints* v = std::get_if<Ints>(&value)) body = schema::CreateIntsAttr(b_, ints(*v)).Union();
    if (const Shape* v = std::get_if<Shape>(&value)) {
      auto [extents, symbolic] = shape(*v);
      body = schema::CreateShapeAttr(b_, extents, symbolic).Union();
    }
    if (const FunctionRef* v = std::get_if<FunctionRef>(&value))
      body = schema::CreateFunctionAttr(b_, text(v->name)).Union();
    if (const Literal* v = std::get_if<Literal>(&value)) body = literal(*v).Union();
    if (const FunctionRefs* v = std::get_if<FunctionRefs>(&value)) {
      std::vector<fb::Offset<fb::String>> names;
      for (const FunctionRef& f : *v) names.push_back(text(f.name));
      body = schema::CreateFunctionsAttr(b_, list(names)).Union();
    }
    if (const Axes* v = std::get_if<Axes>(&value)) body = schema::CreateAxesAttr(b_, axes(*v)).Union();
    if (const Sharding* v = std::get_if<Sharding>(&value)) body = sharding(v).Union();
    if (const Shardings* v = std::get_if<Shardings>(&value)) {
      std::vector<fb::Offset<schema::Sharding>> all;
      for (const Sharding& s : *v) all.push_back(sharding(&s));
      body = schema::CreateShardingsAttr(b_, list(all)).Union();
    }
    return schema::CreateAttr(b_, at, kind, body);
  }

  fb::Offset<schema::Function> function(const Function& f) {
    std::vector<fb::Offset<schema::Value>> values;
    for (const Value& v : f.values) {
      auto name = text(v.name);
      auto type_at = type(v.type);
      values.push_back(schema::CreateValue(b_, name, type_at, sharding(v.sharding.get())));
    }
    std::vector<fb::Offset<schema::Node>> nodes;
    for (const Node& n : f.nodes) {
      std::vector<fb::Offset<schema::Attr>> attrs;
      for (const auto& [name, value] : n.attrs)
        if (!is_default(*n.op, name, value)) attrs.push_back(attr(name, value));
      auto op = text(n.op->name);
      auto operands = ids(n.operands), results = ids(n.results);
      auto attrs_at = list(attrs);
      nodes.push_back(schema::CreateNode(b_, op, static_cast<uint32_t>(n.op->version), operands, attrs_at, results,
                                         location(n.location)));
    }
    auto name = text(f.name);
    auto values_at = list(values);
    auto nodes_at = list(nodes);
    auto params = ids(f.params), results = ids(f.results);
    return schema::CreateFunction(b_, name, values_at, params, nodes_at, results, location(f.location));
  }

  fb::FlatBufferBuilder b_;
  ConstantWriter& constants_;
  bool sidecar_;
  const std::string& file_;
  std::map<std::string, fb::Offset<schema::Type>> types_;
  std::map<std::tuple<std::string, int, int, std::string, std::string>, uint32_t> known_locations_;
  std::vector<fb::Offset<schema::Location>> locations_;
};

}  // namespace

std::string write_binary(const Module& module, ConstantWriter& constants, bool sidecar,
                         const std::string& constants_file) {
  return Writer(constants, sidecar, constants_file).run(module);
}

}  // namespace nabla::ir
