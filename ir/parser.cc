// Reads the text form. One pass over the tokens makes a RawModule; `assemble` checks the rest.
#include <charconv>
#include <map>
#include <utility>

#include "ir/dim_parser.h"
#include "ir/kernel_ir/kernel.h"
#include "ir/op_def.h"
#include "ir/raw.h"
#include "ir/text.h"
#include "ir/value_parser.h"
#include "ir/verifier.h"

namespace nabla::ir {
namespace {

constexpr size_t kMaxText = size_t{1} << 30;

class ModuleParser : private ValueParser {
 public:
  ModuleParser(Lexer& lexer, const LoadSidecar& load) : ValueParser(lexer), load_(load) {}

  Result<RawModule> run() {
    (void)NABLA_TRY(header());
    while (lexer_.token().kind != Token::kEnd) (void)NABLA_TRY(item());
    if (lexer_.damage()) return *lexer_.damage();
    return std::move(raw_);
  }

 private:
  // ---- The module's parts.
  Status header() {
    if (!lexer_.at("nabla"))
      return lexer_.fail_at(token().place, Code::kForeignFile,
                            "not the text of a module: it must begin with `nabla VERSION STAGE`, " + found(token()));
    lexer_.next();
    Place place = token().place;
    int64_t version = NABLA_TRY(integer());
    Status known = check_version(version, "the text");
    if (!known.ok()) {
      known.errors()[0].location = lexer_.locate(place);
      return known;
    }
    place = token().place;
    std::string stage = NABLA_TRY(name("a stage"));
    std::optional<Stage> s = stage_from_name(stage);
    if (!s) {
      std::vector<std::string> all;
      for (int i = 0; i < kStageCount; ++i) all.emplace_back(name_of(static_cast<Stage>(i)));
      return lexer_.fail_at(place, Code::kUnknownName,
                            fmt::format("unknown stage `{}`{}", stage, did_you_mean(stage, all)));
    }
    if (*s == Stage::kPlanned)
      return lexer_.fail_at(place, Code::kWrongStage,
                            "a planned module cannot be read back: its text lacks the memory plan; read the module of "
                            "stage kernels");
    raw_.module.stage = *s;
    return Ok{};
  }

  Status item() {
    Token keyword = token();
    if (lexer_.accept("constants")) return constants(keyword.place);
    if (lexer_.accept("symbol")) return symbol(keyword.place);
    if (lexer_.accept("require")) return constraint(keyword.place);
    if (lexer_.accept("mesh")) return mesh(keyword.place);
    if (!lexer_.at("constants")) know_facts();
    if (lexer_.accept("state")) return state(keyword.place);
    if (lexer_.accept("entry")) return entry(keyword.place);
    if (lexer_.accept("func")) return function(keyword.place);
    if (lexer_.at("kernel")) return kernel();
    return lexer_.fail("expected symbol, require, mesh, state, entry, func or kernel, " + found(keyword));
  }

  Status constants(Place place) {
    std::string file = NABLA_TRY(string());
    auto refuse = [&](Diagnostic d) {
      d.location = lexer_.locate(place);
      return d;
    };
    if (file.empty() || file[0] == '.' || file.find('/') != std::string::npos)
      return refuse(error(Code::kSyntax, "the sidecar `{}` must be a plain file name", file));
    if (!load_) return refuse(error(Code::kNotFound, "the sidecar `{}` cannot be read here", file));
    sidecar_ = NABLA_TRY(load_(file));
    constants_ = ConstantReader(sidecar_);
    return Ok{};
  }

  Status symbol(Place place) {
    Symbol s;
    s.name = NABLA_TRY(name("a symbol's name"));
    for (std::string_view t : {"in", "["}) (void)NABLA_TRY(expect(t));
    s.min = NABLA_TRY(integer());
    (void)NABLA_TRY(expect(","));
    s.max = NABLA_TRY(integer());
    (void)NABLA_TRY(expect("]"));
    if (lexer_.accept("multiple")) s.multiple = NABLA_TRY(integer());
    if (lexer_.accept("along")) s.axis = NABLA_TRY(name("a mesh axis"));
    s.location = NABLA_TRY(location());
    SymbolRef ref = std::make_shared<const Symbol>(s);
    raw_.module.symbols.push_back(ref);
    raw_.symbol_places.push_back(place);
    Status sound = check_symbol(s);  // here: what follows would compute with it
    if (!sound.ok()) {
      sound.errors()[0].location = lexer_.locate(place);
      return sound;
    }
    symbols_[s.name] = ref;
    return Ok{};
  }

  Status constraint(Place place) {
    if (facts_known_)
      return lexer_.fail_at(place, Code::kSyntax,
                            "`require` stands before state, entries and functions, which rest on it");
    SizeRelation r{NABLA_TRY(parse_dim(lexer_, symbols_)), SizeRelation::Kind::kEqual, 0};
    if (lexer_.accept("<"))
      r.kind = lexer_.accept("=") ? SizeRelation::Kind::kLessEqual : SizeRelation::Kind::kLess;
    else if (lexer_.at(">"))
      return lexer_.fail("`require` takes <, <= and ==; turn `a >= b` round, as `b <= a`");
    else
      for (std::string_view t : {"=", "="}) (void)NABLA_TRY(expect(t));
    r.right = NABLA_TRY(parse_dim(lexer_, symbols_));
    LocationRef at = NABLA_TRY(location());
    raw_.module.constraints.push_back({std::move(r), std::move(at)});
    raw_.constraint_places.push_back(place);
    return Ok{};
  }

  Status mesh(Place place) {
    Mesh m;
    m.name = NABLA_TRY(name("a mesh's name"));
    for (std::string_view t : {"=", "{"}) (void)NABLA_TRY(expect(t));
    while (!lexer_.accept("}")) {
      MeshAxis axis;
      axis.name = NABLA_TRY(name("an axis's name"));
      (void)NABLA_TRY(expect("="));
      axis.size = NABLA_TRY(integer());
      axis.temporal = lexer_.accept("temporal");
      m.axes.push_back(std::move(axis));
      if (!lexer_.accept(",") && !lexer_.at("}")) return lexer_.fail("expected `,` or `}`, " + found(token()));
    }
    m.location = NABLA_TRY(location());
    raw_.module.meshes.push_back(std::move(m));
    raw_.mesh_places.push_back(place);
    return Ok{};
  }

  // From here on sizes are made of symbols that know what the constraints say.
  void know_facts() {
    if (!std::exchange(facts_known_, true)) learn_facts(raw_.module, symbols_);
  }

  Status state(Place place) {
    StateLeaf leaf;
    leaf.name = NABLA_TRY(name("a state leaf's name"));
    (void)NABLA_TRY(expect(":"));
    leaf.type = NABLA_TRY(type(&leaf.sharding));
    if (Place at = token().place; lexer_.accept("@")) {
      Result<MemorySpace> space = memory_space(NABLA_TRY(name("a memory space")));
      if (!space.ok()) return lexer_.fail_at(at, space.errors()[0].code, space.errors()[0].message);
      leaf.memory = *space;
    }
    leaf.location = NABLA_TRY(location());
    leaves_.emplace(leaf.name, static_cast<int>(raw_.module.state.size()));
    raw_.module.state.push_back(std::move(leaf));
    raw_.state_places.push_back(place);
    return Ok{};
  }

  Result<std::vector<int>> leaves() {
    std::vector<int> out;
    do {
      Place place = token().place;
      std::string leaf = NABLA_TRY(name("a state leaf's name"));
      auto it = leaves_.find(leaf);
      if (it == leaves_.end()) {
        std::vector<std::string> known;
        for (const auto& [n, i] : leaves_) known.push_back(n);
        return lexer_.fail_at(place, Code::kUnknownName,
                              fmt::format("no state leaf is named `{}`{}", leaf, did_you_mean(leaf, known)));
      }
      out.push_back(it->second);
    } while (lexer_.accept(","));
    return out;
  }

  Status entry(Place place) {
    Entry e;
    e.name = NABLA_TRY(name("an entry's name"));
    (void)NABLA_TRY(expect("calls"));
    e.function = NABLA_TRY(sigil_name('@', "a function's name"));
    (void)NABLA_TRY(expect("{"));
    while (!lexer_.accept("}")) {
      if (lexer_.accept("reads"))
        e.reads = NABLA_TRY(leaves());
      else if (lexer_.accept("writes"))
        e.writes = NABLA_TRY(leaves());
      else if (lexer_.accept("inputs"))
        e.inputs = NABLA_TRY(names("an input's name"));
      else if (lexer_.accept("outputs"))
        e.outputs = NABLA_TRY(names("an output's name"));
      else if (lexer_.accept("variant"))
        (void)NABLA_TRY(variant(e));
      else
        return lexer_.fail("expected reads, writes, inputs, outputs, variant or `}`, " + found(token()));
    }
    raw_.module.entries.push_back(std::move(e));
    raw_.entry_places.push_back(place);
    return Ok{};
  }

  Status variant(Entry& e) {
    (void)NABLA_TRY(expect("of"));
    e.variant_of = NABLA_TRY(name("an entry's name"));
    (void)NABLA_TRY(expect("at"));
    do {
      Place place = token().place;
      std::string symbol = NABLA_TRY(name("a symbol's name"));
      (void)NABLA_TRY(expect("="));
      if (!e.sizes.emplace(symbol, NABLA_TRY(integer())).second)
        return lexer_.fail_at(place, Code::kDuplicateName, fmt::format("the variant gives {} two sizes", symbol));
    } while (lexer_.accept(","));
    return Ok{};
  }

  Status kernel() {
    std::string_view text = lexer_.text();
    size_t begin = token().begin, end = begin;
    int line = token().place.line, depth = 0;
    for (; end < text.size(); ++end) {
      if (text[end] == '"')  // braces of a string are not the kernel's
        for (++end; end < text.size() && text[end] != '"'; ++end) end += text[end] == '\\';
      if (end >= text.size()) break;
      if (text[end] == '{') ++depth;
      if (text[end] == '}' && --depth <= 0) break;
    }
    if (end >= text.size()) return lexer_.fail("the kernel has no closing `}`");
    Result<kernel_ir::Kernel> k = kernel_ir::parse_kernel(
        text.substr(begin, end + 1 - begin), "",
        [&](std::string_view size) { return parse_dim_text(size, symbols_, "a size of the kernel"); });
    if (!k.ok()) {
      for (Diagnostic& d : k.errors())
        d.location =
            lexer_.locate({d.location ? d.location->line + line - 1 : line, d.location ? d.location->column : 1});
      return std::move(k.errors());
    }
    for (const auto& other : raw_.module.kernels)
      if (other->name == k->name)
        return lexer_.fail_at(token().place, Code::kDuplicateName, fmt::format("kernel @{} is defined twice", k->name));
    raw_.module.kernels.push_back(std::make_shared<const kernel_ir::Kernel>(std::move(*k)));
    lexer_.jump(end + 1);
    return Ok{};
  }

  // ---- Functions.
  Status function(Place place) {
    RawFunction f;
    f.place = place;
    f.name = NABLA_TRY(sigil_name('@', "a function's name"));
    values_.clear();
    (void)NABLA_TRY(expect("("));
    while (!lexer_.accept(")")) {
      ValueId id = NABLA_TRY(define(f));
      (void)NABLA_TRY(expect(":"));
      f.values[id].type = NABLA_TRY(type(&f.values[id].sharding));
      f.params.push_back(id);
      if (!lexer_.accept(",") && !lexer_.at(")")) return lexer_.fail("expected `,` or `)`, " + found(token()));
    }
    if (lexer_.accept("->")) {
      (void)NABLA_TRY(expect("("));
      f.result_types.emplace();
      while (!lexer_.accept(")")) {
        f.result_types->push_back(NABLA_TRY(type()));
        if (!lexer_.accept(",") && !lexer_.at(")")) return lexer_.fail("expected `,` or `)`, " + found(token()));
      }
    }
    f.location = NABLA_TRY(location());
    (void)NABLA_TRY(expect("{"));
    while (!lexer_.at("return")) f.nodes.push_back(NABLA_TRY(node(f)));
    lexer_.next();
    if (lexer_.at("%")) f.results = NABLA_TRY(uses());
    (void)NABLA_TRY(expect("}"));
    raw_.functions.push_back(std::move(f));
    return Ok{};
  }

  Result<ValueId> define(RawFunction& f) {
    Place place = token().place;
    bool numbered = false;
    std::string value = NABLA_TRY(value_name(numbered));
    ValueId id = static_cast<ValueId>(f.values.size());
    if (!values_.emplace(std::pair(value, numbered), id).second)
      return lexer_.fail_at(place, Code::kDuplicateName, fmt::format("%{} is defined twice", value));
    f.values.push_back({numbered ? "" : value, std::nullopt, place, numbered ? value : ""});
    return id;
  }

  Result<std::string> value_name(bool& numbered) {
    (void)NABLA_TRY(expect("%"));
    numbered = token().kind == Token::kNumber;
    return numbered ? take() : name("a value's name");
  }

  Result<std::vector<ValueId>> uses() {
    std::vector<ValueId> out;
    do {
      Place place = token().place;
      bool numbered = false;
      std::string value = NABLA_TRY(value_name(numbered));
      auto it = values_.find({value, numbered});
      if (it == values_.end()) {
        std::vector<std::string> known;
        for (const auto& [key, id] : values_) known.push_back(key.first);
        return lexer_.fail_at(place, Code::kUnknownName,
                              fmt::format("%{} is not defined here{}", value, did_you_mean(value, known)));
      }
      out.push_back(it->second);
    } while (lexer_.accept(","));
    return out;
  }

  Result<RawNode> node(RawFunction& f) {
    RawNode n;
    size_t first = f.values.size();
    if (lexer_.at("%")) {
      // The results are not visible to the node's own operands, but names are unique, so defining them early only
      // changes which error a use of them gives: assemble reports it.
      do n.results.push_back(NABLA_TRY(define(f)));
      while (lexer_.accept(","));
      (void)NABLA_TRY(expect("="));
    }
    n.place = token().place;
    if (token().kind != Token::kName) return lexer_.fail("expected an op, " + found(token()));
    n.op = take();
    size_t dot = n.op.rfind(".v");
    if (dot != std::string::npos) {
      const char *begin = n.op.data() + dot + 2, *end = n.op.data() + n.op.size();
      auto [stop, ec] = std::from_chars(begin, end, n.version);
      if (ec != std::errc() || stop != end)
        return lexer_.fail_at(n.place, Code::kSyntax, fmt::format("`{}`: expected a version after .v", n.op));
      n.op.resize(dot);
    }
    (void)NABLA_TRY(expect("("));
    if (lexer_.at("%")) n.operands = NABLA_TRY(uses());
    (void)NABLA_TRY(expect(")"));
    if (lexer_.accept("{")) (void)NABLA_TRY(attributes(n));
    if (lexer_.accept(":")) {
      for (size_t i = first; i < f.values.size(); ++i) {
        if (i > first) (void)NABLA_TRY(expect(","));
        f.values[i].type = NABLA_TRY(type(&f.values[i].sharding));
      }
    }
    n.location = NABLA_TRY(location());
    return n;
  }

  Status attributes(RawNode& n) {
    while (!lexer_.accept("}")) {
      Place place = token().place;
      if (token().kind != Token::kName) return lexer_.fail("expected an attribute's name, " + found(token()));
      std::string attr = take();
      (void)NABLA_TRY(expect("="));
      Attr value = NABLA_TRY(attribute());
      n.attrs.push_back({std::move(attr), std::move(value), place});
      if (!lexer_.accept(",") && !lexer_.at("}")) return lexer_.fail("expected `,` or `}`, " + found(token()));
    }
    return Ok{};
  }

  const LoadSidecar& load_;
  RawModule raw_;
  bool facts_known_ = false;
  std::map<std::string, int> leaves_;
  std::map<std::pair<std::string, bool>, ValueId> values_;  // of the current function, by name and "is a number"
  std::string sidecar_;
};

}  // namespace

Result<Module> parse_module(std::string_view text, const std::string& file_name, const OpTable& ops,
                            const LoadSidecar& load, Places places) {
  if (text.size() > kMaxText)
    return error(Code::kTooLarge, "{}: {} bytes of text, at most {} are read", file_name, text.size(), kMaxText);
  Lexer lexer(text, file_name);
  RawModule raw = NABLA_TRY(ModuleParser(lexer, load).run());
  return assemble(
      std::move(raw), ops, [&](Place place) { return lexer.locate(place); }, places);
}

}  // namespace nabla::ir
