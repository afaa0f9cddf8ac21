// The FlatBuffer form of modules, read back and checked.
#include <cstring>

#include "ir/binary.h"
#include "ir/dim_parser.h"
#include "ir/ir_generated.h"
#include "ir/verifier.h"

namespace nabla::ir {
namespace {

namespace fb = flatbuffers;

// What a file may make the reader allocate, as a multiple of its own size: tables may be shared, so that a small file
// can describe a huge module.
constexpr uint64_t kAmplification = 64;

// NABLA_TRY never stands inside a list of other values here: its return would leak those that exist already.
class Reader {
 public:
  Reader(const schema::Module& module, size_t size, std::string what, const LoadSidecar& load)
      : m_(module), what_(std::move(what)), load_(load), budget_(kAmplification * size + (uint64_t{1} << 20)) {}

  Result<RawModule> run() {
    if (m_.stage() >= schema::Stage::Kernels) return damaged("its stage is {}", static_cast<int>(m_.stage()));
    raw_.module.stage = static_cast<Stage>(m_.stage());
    (void)NABLA_TRY(constants());
    (void)NABLA_TRY(locations());
    (void)NABLA_TRY(declarations());
    if (m_.functions())
      for (const schema::Function* f : *m_.functions()) raw_.functions.push_back(NABLA_TRY(function(*f)));
    if (over_)
      return error(Code::kTooLarge, "{}: its parts are shared so often that it would need more than {} bytes", what_,
                   budget_);
    return std::move(raw_);
  }

 private:
  template <class... Args>
  Diagnostic damaged(fmt::format_string<Args...> format, Args&&... args) const {
    return error(Code::kCorrupt, "{}: damaged module: {}", what_, fmt::format(format, std::forward<Args>(args)...));
  }
  /// Counts bytes against the budget; false above it.
  bool take(uint64_t bytes) {
    used_ += bytes;
    return !(over_ = over_ || used_ > budget_);
  }
  std::string text(const fb::String* s) {
    if (!s || !take(s->size() + 1)) return "";
    return s->str();
  }
  /// Byte by byte: the verifier does not check that elements of eight bytes are aligned.
  std::vector<int64_t> numbers(const fb::Vector<int64_t>* v) {
    if (!v || v->size() == 0 || !take(v->size() * sizeof(int64_t))) return {};
    std::vector<int64_t> out(v->size());
    std::memcpy(out.data(), v->Data(), out.size() * sizeof(int64_t));
    return out;
  }
  std::vector<std::string> strings(const fb::Vector<fb::Offset<fb::String>>* v) {
    std::vector<std::string> out;
    if (v)
      for (const fb::String* s : *v) out.push_back(text(s));
    return out;
  }
  /// Indices above the range of int stay out of range.
  std::vector<int> ids(const fb::Vector<uint32_t>* v) {
    if (!v || !take(v->size() * sizeof(int))) return {};
    std::vector<int> out;
    for (uint32_t x : *v) out.push_back(x > static_cast<uint32_t>(INT32_MAX) ? -1 : static_cast<int>(x));
    return out;
  }

  Status constants() {
    std::string_view section;
    if (m_.constants()) section = {reinterpret_cast<const char*>(m_.constants()->data()), m_.constants()->size()};
    if (m_.constants_file()) {
      std::string file = text(m_.constants_file());
      if (file.empty() || file[0] == '.' || file.find('/') != std::string::npos)
        return damaged("the sidecar `{}` must be a plain file name", file);
      if (m_.constants()) return damaged("it has both constants and a sidecar");
      if (!load_) return error(Code::kNotFound, "{}: the sidecar `{}` cannot be read here", what_, file);
      sidecar_ = NABLA_TRY(load_(file));
      section = sidecar_;
    }
    constants_ = ConstantReader(section);
    return Ok{};
  }

  Status locations() {
    if (!m_.locations()) return Ok{};
    for (const schema::Location* l : *m_.locations()) {
      if (l->line() > INT32_MAX || l->column() > INT32_MAX) return damaged("a location has line {}", l->line());
      locations_.push_back(std::make_shared<const Location>(Location{text(l->file()), static_cast<int>(l->line()),
                                                                     static_cast<int>(l->column()), text(l->function()),
                                                                     text(l->text())}));
    }
    return Ok{};
  }
  Result<LocationRef> location(uint32_t index) const {
    if (index == 0) return LocationRef();
    if (index > locations_.size()) return damaged("location {} of {}", index, locations_.size());
    return locations_[index - 1];
  }

  Status declarations() {
    if (m_.symbols())
      for (const schema::Symbol* s : *m_.symbols()) {
        Symbol symbol{text(s->name()), s->min(), s->max(), s->multiple()};
        symbol.location = NABLA_TRY(location(s->location()));
        symbol.axis = text(s->axis());
        SymbolRef ref = std::make_shared<const Symbol>(symbol);
        raw_.module.symbols.push_back(ref);
        (void)NABLA_TRY(check_symbol(symbol));  // here: what follows would compute with it
        symbols_[symbol.name] = ref;
      }
    if (m_.constraints())
      for (const schema::SizeConstraint* c : *m_.constraints()) {
        if (c->relation() > schema::Relation::MAX)
          return damaged("a constraint of kind {}", static_cast<int>(c->relation()));
        Dim left = NABLA_TRY(parse_dim_text(text(c->left()), symbols_, what_));
        Dim right = NABLA_TRY(parse_dim_text(text(c->right()), symbols_, what_));
        LocationRef at = NABLA_TRY(location(c->location()));
        auto kind = static_cast<SizeRelation::Kind>(c->relation());
        raw_.module.constraints.push_back({{std::move(left), kind, std::move(right)}, std::move(at)});
      }
    learn_facts(raw_.module, symbols_);
    if (m_.meshes())
      for (const schema::Mesh* mesh : *m_.meshes()) {
        Mesh out{text(mesh->name()), {}, NABLA_TRY(location(mesh->location()))};
        if (mesh->axes())
          for (const schema::MeshAxis* a : *mesh->axes()) out.axes.push_back({text(a->name()), a->size(), a->temporal()});
        raw_.module.meshes.push_back(std::move(out));
      }
    if (m_.state())
      for (const schema::StateLeaf* s : *m_.state()) {
        Type leaf = NABLA_TRY(type(s->type()));
        LocationRef at = NABLA_TRY(location(s->location()));
        if (s->memory() > schema::MemorySpace::MAX)
          return error(Code::kUnknownName, "state leaf {} lives in memory space {}, which is unknown; there are device and host",
                       text(s->name()), static_cast<int>(s->memory()));
        raw_.module.state.push_back({text(s->name()), std::move(leaf), std::move(at), laid_out(s->sharding()),
                                     static_cast<MemorySpace>(s->memory())});
      }
    if (m_.entries())
      for (const schema::Entry* e : *m_.entries()) {
        raw_.module.entries.push_back({text(e->name()), text(e->function()), ids(e->reads()), ids(e->writes()),
                                       strings(e->inputs()), strings(e->outputs()), text(e->variant_of())});
        if (e->sizes())
          for (const schema::SymbolSize* s : *e->sizes())
            raw_.module.entries.back().sizes[text(s->symbol())] = s->size();
      }
    return Ok{};
  }

  Result<Shape> shape(const fb::Vector<int64_t>* extents, const fb::Vector<fb::Offset<fb::String>>* symbolic) {
    size_t rank = extents ? extents->size() : 0;
    if (rank > static_cast<size_t>(kMaxRank))
      return error(Code::kTooLarge, "{}: a type has {} dimensions, at most {} are allowed", what_, rank, kMaxRank);
    if (symbolic && symbolic->size() != rank)
      return damaged("a shape of {} dimensions has {} expressions", rank, symbolic->size());
    Shape out;
    take(rank * sizeof(Dim));
    std::vector<int64_t> integers = numbers(extents);
    if (integers.size() != rank) return out;  // above the budget, which run() reports
    for (uint32_t i = 0; i < rank; ++i) {
      const fb::String* expression = symbolic ? symbolic->Get(i) : nullptr;
      if (expression && expression->size() > 0)
        out.push_back(NABLA_TRY(parse_dim_text(text(expression), symbols_, what_)));
      else
        out.push_back(Dim(integers[i]));
    }
    return out;
  }

  Axes axes(const fb::Vector<fb::Offset<schema::Axis>>* list) {
    Axes out;
    take(list ? list->size() * sizeof(AxisRef) : 0);
    for (uint32_t i = 0; !over_ && list && i < list->size(); ++i)
      out.push_back({text(list->Get(i)->name()), list->Get(i)->before(), list->Get(i)->size()});
    return out;
  }
  Sharding sharding(const schema::Sharding& s) {
    Sharding out;
    take(s.dims() ? s.dims()->size() * sizeof(DimSharding) : 0);
    for (uint32_t i = 0; !over_ && s.dims() && i < s.dims()->size(); ++i)
      out.dims.push_back({axes(s.dims()->Get(i)->axes()), s.dims()->Get(i)->open(),
                          static_cast<int>(std::min<uint32_t>(s.dims()->Get(i)->priority(), INT32_MAX))});
    out.replicated = axes(s.replicated());
    out.allow_padding = s.allow_padding();
    return out;
  }
  ShardingRef laid_out(const schema::Sharding* s) {
    return s ? std::make_shared<const Sharding>(sharding(*s)) : nullptr;
  }

  Result<DType> dtype(schema::DType d) const {
    if (static_cast<int>(d) >= kDTypeCount) return damaged("a dtype has the number {}", static_cast<int>(d));
    return static_cast<DType>(d);
  }

  Result<Type> type(const schema::Type* t) {
    if (!t) return damaged("a type is missing");
    if (t->residual_of()) {
      Type out = Type::residual(text(t->residual_of()));
      if (!out.is_residual()) return damaged("a residual names no function");
      return out;
    }
    DType d = NABLA_TRY(dtype(t->dtype()));
    return Type(d, NABLA_TRY(shape(t->shape(), t->symbolic())));
  }

  Result<Literal> literal(const schema::Literal& l) {
    DType d = NABLA_TRY(dtype(l.dtype()));
    if (l.shape() && l.shape()->size() > static_cast<size_t>(kMaxRank))
      return error(Code::kTooLarge, "{}: a literal has {} dimensions", what_, l.shape()->size());
    std::vector<int64_t> extents = numbers(l.shape());
    int64_t count = NABLA_TRY(checked_count(extents));
    if (const schema::External* e = l.external()) {
      if (l.data()) return damaged("a literal has both data and an external place");
      return constants_.get(d, extents, {e->offset(), e->bytes(), text(e->sha256())});
    }
    uint64_t size = l.data() ? l.data()->size() : 0, needed = static_cast<uint64_t>(count) * bytes_of(d);
    if (size != needed)
      return damaged("a literal {}{} has {} bytes, not {}", name_of(d), shape_str(extents), size, needed);
    if (!take(size)) return Literal();
    Literal out(d, extents);
    if (size > 0) std::memcpy(out.mutable_data(), l.data()->data(), size);
    (void)NABLA_TRY(check_bools(out));
    return out;
  }

  Result<Attr> attribute(const schema::Attr& a) {
    using schema::AttrValue;
    if (!a.value()) return damaged("attribute `{}` has no value", text(a.name()));
    switch (a.value_type()) {
      case AttrValue::BoolAttr:
        return Attr(a.value_as_BoolAttr()->value());
      case AttrValue::IntAttr:
        return Attr(a.value_as_IntAttr()->value());
      case AttrValue::FloatAttr: {
        const schema::FloatAttr* f = a.value_as_FloatAttr();
        double v = f->value();
        if (uint64_t bits = f->bits()) std::memcpy(&v, &bits, sizeof v);
        return Attr(v);
      }
      case AttrValue::StringAttr:
        return Attr(text(a.value_as_StringAttr()->value()));
      case AttrValue::DTypeAttr:
        return Attr(NABLA_TRY(dtype(a.value_as_DTypeAttr()->value())));
      case AttrValue::IntsAttr:
        return Attr(numbers(a.value_as_IntsAttr()->value()));
      case AttrValue::ShapeAttr: {
        const schema::ShapeAttr* s = a.value_as_ShapeAttr();
        return Attr(NABLA_TRY(shape(s->shape(), s->symbolic())));
      }
      case AttrValue::FunctionAttr:
        return Attr(FunctionRef{text(a.value_as_FunctionAttr()->name())});
      case AttrValue::Literal:
        return Attr(NABLA_TRY(literal(*a.value_as_Literal())));
      case AttrValue::FunctionsAttr: {
        FunctionRefs out;
        if (const auto* names = a.value_as_FunctionsAttr()->names())
          for (const auto* name : *names) out.push_back({text(name)});
        return Attr(std::move(out));
      }
      case AttrValue::AxesAttr:
        return Attr(axes(a.value_as_AxesAttr()->axes()));
      case AttrValue::Sharding:
        return Attr(sharding(*a.value_as_Sharding()));
      case AttrValue::ShardingsAttr: {
        Shardings out;
        const auto* list = a.value_as_ShardingsAttr()->shardings();
        take(list ? list->size() * sizeof(Sharding) : 0);
        for (uint32_t i = 0; !over_ && list && i < list->size(); ++i) out.push_back(sharding(*list->Get(i)));
        return Attr(std::move(out));
      }
      case AttrValue::NONE:
        break;
    }
    return damaged("attribute `{}` has a value of kind {}", text(a.name()), static_cast<int>(a.value_type()));
  }

  Result<RawFunction> function(const schema::Function& f) {
    RawFunction out;
    out.name = text(f.name());
    out.location = NABLA_TRY(location(f.location()));
    if (f.values())
      for (const schema::Value* v : *f.values()) {
        Type t = NABLA_TRY(type(v->type()));
        out.values.push_back({text(v->name()), std::move(t), {}, {}, laid_out(v->sharding())});
      }
    out.params = ids(f.params());
    out.results = ids(f.results());
    if (!f.nodes()) return out;
    for (const schema::Node* n : *f.nodes()) {
      RawNode node;
      node.op = text(n->op());
      node.version = n->version();
      node.operands = ids(n->operands());
      node.results = ids(n->results());
      node.location = NABLA_TRY(location(n->location()));
      if (n->attrs())
        for (const schema::Attr* a : *n->attrs()) {
          Attr value = NABLA_TRY(attribute(*a));
          node.attrs.push_back({text(a->name()), std::move(value), {}});
        }
      take(sizeof(RawNode));
      out.nodes.push_back(std::move(node));
      if (over_) break;
    }
    return out;
  }

  const schema::Module& m_;
  std::string what_;
  const LoadSidecar& load_;
  uint64_t budget_, used_ = 0;
  bool over_ = false;
  RawModule raw_;
  SymbolTable symbols_;
  std::vector<LocationRef> locations_;
  std::string sidecar_;
  ConstantReader constants_;
};

}  // namespace

Result<RawModule> read_binary(std::string_view bytes, const std::string& what, const LoadSidecar& load) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE)
    return error(Code::kTooLarge, "{}: {} bytes, at most 2 GiB are read", what, bytes.size());
  if (bytes.size() < 8 || std::memcmp(data + 4, schema::ModuleIdentifier(), 4) != 0)
    return error(Code::kForeignFile, "{}: not a module: the file identifier `{}` is not there", what,
                 schema::ModuleIdentifier());
  if (bytes.size() % 4 != 0)
    return error(Code::kCorrupt, "{}: damaged module: {} bytes, no multiple of 4", what, bytes.size());
  // Every visit of a table costs the writer an offset of four bytes, unless vectors are shared.
  auto tables = static_cast<fb::uoffset_t>(bytes.size() / 4 + 1);
  fb::Verifier verifier(data, bytes.size(), 16, tables);
  if (!schema::VerifyModuleBuffer(verifier))
    return error(Code::kCorrupt, "{}: damaged module: an offset or a size is out of bounds", what);
  const schema::Module* module = schema::GetModule(data);
  (void)NABLA_TRY(check_version(module->version(), what));
  return Reader(*module, bytes.size(), what, load).run();
}

}  // namespace nabla::ir
