// The text form of kernels, read back. Grammar: docs/kernel-ir.md.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>

#include "ir/kernel_ir/kernel.h"
#include "ir/kernel_ir/procedure_template.h"
#include "ir/lexer.h"

namespace nabla::kernel_ir {
namespace {

struct Token {
  enum Kind { kEnd, kName, kNumber, kPunct } kind;
  std::string text;
  int line, column;
};

// The parser stops at the first error: it is kept in failure_ and every rule returns early once it is set.
class Parser {
 public:
  Parser(std::string_view text, std::string file, const ReadSize& read_size)
      : text_(text), file_(std::move(file)), read_size_(read_size) {
    next();
  }

  Result<Kernel> run() {
    expect("kernel"), expect("@");
    k_.name = name();
    expect("(");
    while (ok() && !at(")")) {
      buffer();
      if (!at(")")) expect(",");
    }
    expect(")"), expect("{");
    while (ok() && accept("axes")) do {
        std::string n = name();
        expect("=");
        axis_ids_[n] = static_cast<int>(k_.axes.size());
        k_.axes.push_back({n, size()});
      } while (accept(","));
    k_.schedule.emplace(CpuSchedule());  // a text without one has a kernel of one unit
    if (accept("schedule")) schedule();
    if (accept("procedure")) procedure();
    k_.body = body();
    if (!failure_.empty()) return failure_;
    if (token_.kind != Token::kEnd) fail("text after the kernel's end");
    if (!failure_.empty()) return failure_;
    NABLA_TRY(verify(k_));
    return std::move(k_);
  }

 private:
  // Hostile texts must not exhaust the stack, neither here nor in what walks the expressions later.
  static constexpr int kMaxNesting = 200, kMaxOperators = 5000;
  struct Nesting {
    explicit Nesting(Parser& parser) : p(parser) {
      if (++p.nesting_ > kMaxNesting) p.fail(fmt::format("nested deeper than {}", kMaxNesting));
    }
    ~Nesting() { --p.nesting_; }
    Parser& p;
  };
  bool ok() const { return failure_.empty(); }
  void fail(std::string message) {
    if (!ok()) return;
    Diagnostic d = error(Code::kSyntax, "{}", message);
    d.location = std::make_shared<Location>(Location{file_, token_.line, token_.column, "", line_text(token_.line)});
    failure_.push_back(std::move(d));
  }
  std::string line_text(int line) const {
    size_t begin = 0;
    for (int i = 1; i < line; ++i) begin = text_.find('\n', begin) + 1;
    return std::string(text_.substr(begin, text_.find('\n', begin) - begin));
  }

  void next() {
    while (pos_ < text_.size() && (isspace(static_cast<unsigned char>(text_[pos_])) || text_.substr(pos_, 2) == "//")) {
      if (text_[pos_] == '/')
        pos_ = std::min(text_.find('\n', pos_), text_.size());
      else if (text_[pos_++] == '\n')
        ++line_, line_start_ = pos_;
    }
    at_ = pos_;
    int column = static_cast<int>(pos_ - line_start_) + 1;
    if (pos_ >= text_.size()) return void(token_ = {Token::kEnd, "end of text", line_, column});
    char c = text_[pos_];
    auto word = [](char ch) { return isalnum(static_cast<unsigned char>(ch)) || ch == '_'; };
    Token::Kind kind = Token::kPunct;
    if (isdigit(static_cast<unsigned char>(c))) {
      kind = Token::kNumber;
      while (pos_ < text_.size() && (word(text_[pos_]) || text_[pos_] == '.' ||
                                     ((text_[pos_] == '-' || text_[pos_] == '+') && (text_[pos_ - 1] == 'e'))))
        ++pos_;
    } else if (word(c)) {
      kind = Token::kName;
      while (pos_ < text_.size() && word(text_[pos_])) ++pos_;
    } else {
      ++pos_;
      if (pos_ < text_.size() && text_[pos_] == '=' && (c == '=' || c == '!' || c == '<' || c == '>')) ++pos_;
    }
    token_ = {kind, std::string(text_.substr(at_, pos_ - at_)), line_, column};
  }
  /// What follows the token.
  char next_char() const {
    size_t i = text_.find_first_not_of(' ', pos_);
    return i == text_.npos ? '\0' : text_[i];
  }
  bool at(std::string_view t) const { return token_.kind != Token::kEnd && token_.text == t; }
  bool accept(std::string_view t) {
    if (!ok() || !at(t)) return false;
    next();
    return true;
  }
  void expect(std::string_view t) {
    if (ok() && !accept(t)) fail(fmt::format("expected `{}`, found `{}`", t, token_.text));
  }
  std::string name() {
    if (ok() && token_.kind != Token::kName) fail(fmt::format("expected a name, found `{}`", token_.text));
    std::string out = token_.text;
    if (ok()) next();
    return out;
  }
  int64_t integer() {
    int64_t v = 0;
    bool negative = accept("-");
    auto [end, ec] = std::from_chars(token_.text.data(), token_.text.data() + token_.text.size(), v);
    if (ok() && (token_.kind != Token::kNumber || ec != std::errc()))
      fail(fmt::format("expected an integer, found `{}`", token_.text));
    if (ok()) next();
    return negative ? -v : v;
  }
  int small_integer() {
    int64_t v = integer();
    if (ok() && v != static_cast<int>(v)) fail(fmt::format("{} does not fit 32 bits", v));
    return static_cast<int>(v);
  }
  // An integer, or what stands in dim(...).
  ir::Dim size() {
    if (!ok() || !at("dim")) return ir::Dim(integer());
    next();
    return size_in_parentheses();
  }
  ir::Dim size_in_parentheses() {
    Token open = token_;
    size_t begin = pos_;
    expect("(");
    for (int depth = 1; ok() && depth > 0;) {
      if (token_.kind == Token::kEnd) fail("expected `)`, found the end of text");
      if (at("(")) ++depth;
      if (at(")") && --depth == 0) break;
      next();
    }
    if (!ok()) return {};
    std::string_view inside = text_.substr(begin, at_ - begin);
    next();
    Result<ir::Dim> d = read_size_ ? read_size_(inside) : Result<ir::Dim>(error(Code::kSyntax, "no symbol is known"));
    if (d.ok()) return *d;
    token_ = open;
    fail(fmt::format("dim({}): {}", inside, d.errors()[0].message));
    return {};
  }
  DType dtype() {
    std::string n = name();
    std::optional<DType> d = dtype_from_name(n);
    if (ok() && !d) fail(fmt::format("unknown dtype `{}`", n));
    return d.value_or(DType::kF32);
  }
  int lookup(const std::map<std::string, int>& table, const std::string& n, const char* what) {
    auto it = table.find(n);
    if (it != table.end()) return it->second;
    std::vector<std::string> known;
    for (const auto& [key, id] : table) known.push_back(key);
    fail(fmt::format("unknown {} `{}`{}", what, n, did_you_mean(n, known)));
    return 0;
  }
  int axis_id() { return lookup(axis_ids_, name(), "axis"); }
  std::vector<int> axis_list() {
    std::vector<int> out{axis_id()};
    while (accept(",")) out.push_back(axis_id());
    return out;
  }

  void buffer() {
    Buffer b;
    std::string role = name();
    const std::map<std::string, int> kRoles{{"in", 0}, {"out", 1}, {"inout", 2}, {"workspace", 3}};
    b.role = static_cast<BufferRole>(lookup(kRoles, role, "buffer role"));
    b.name = name();
    expect(":");
    b.dtype = dtype();
    expect("[");
    while (ok() && !at("]")) {
      b.shape.push_back(size());
      if (!at("]")) expect(",");
    }
    expect("]");
    buffer_ids_[b.name] = static_cast<int>(k_.buffers.size());
    k_.buffers.push_back(std::move(b));
  }
  void schedule() {
    if (accept("none")) return k_.schedule.reset();
    if (accept("cuda")) return void(k_.schedule = cuda_schedule());
    CpuSchedule& s = std::get<CpuSchedule>(*k_.schedule);
    while (ok()) {
      if (accept("unit"))
        s.unit = integer();
      else if (accept("units"))
        s.units = size();
      else if (accept("threads"))
        s.max_threads = static_cast<int>(integer());
      else if (accept("vector"))
        s.vector_axis = axis_id();
      else
        break;
    }
  }
  CudaSchedule cuda_schedule() {
    CudaSchedule s;
    if (accept("template")) {
      std::string which = name();
      while (accept("-")) which += "-" + name();
      s.procedure_template = template_named(which);
      if (ok() && !s.procedure_template) fail(fmt::format("no template is named `{}`", which));
    }
    if (accept("work")) s.work = size();
    while (ok() && accept("grid")) {
      Grid g;
      mapping(g);
      expect("blocks");
      g.blocks = size();
      expect("threads");
      g.threads = small_integer();
      if (accept("shared")) g.shared_bytes = small_integer();
      if (accept("beside")) g.beside = small_integer();
      s.grids.push_back(std::move(g));
    }
    return s;
  }
  void mapping(Grid& g) {
    if (accept("clear")) {
      g.mapping = ClearMapping{lookup(buffer_ids_, name(), "buffer")};
    } else if (accept("team")) {
      TeamMapping m{small_integer(), {}, {}, 1};
      iterations(m.parallel, m.serial);
      if (accept("pack")) m.pack = small_integer();
      g.mapping = std::move(m);
    } else if (accept("turn")) {
      TurnMapping m;
      std::vector<int> none;
      iterations(m.parallel, none);
      expect("across");
      m.across = axis_id();
      g.mapping = std::move(m);
    } else if (accept("scatter")) {
      ScatterMapping m;
      iterations(m.parallel, m.serial);
      expect("tile_columns");
      m.tile_columns = small_integer();
      expect("row_tiles");
      m.row_tiles = integer();
      g.mapping = std::move(m);
    } else if (accept("product")) {
      ProductMapping m;
      if (accept("warpgroups"))
        m.by = ProductMapping::By::kWarpgroups;
      else if (accept("tensor_cores"))
        m.by = ProductMapping::By::kWarps;
      expect("tile");
      m.tile_rows = small_integer();
      expect(",");
      m.tile_columns = small_integer();
      expect("stages");
      m.stages = small_integer();
      g.mapping = m;
    } else if (accept("block")) {
      g.mapping = BlockMapping();
    } else {
      expect("template");
      TemplateMapping m;
      m.warpgroups = accept("warpgroups");
      expect("team");
      m.team = small_integer();
      expect("tile");
      m.tile_rows = integer();
      expect(",");
      m.tile_columns = integer();
      g.mapping = m;
    }
  }
  void iterations(std::vector<int>& parallel, std::vector<int>& serial) {
    if (accept("parallel")) parallel = axis_list();
    if (accept("serial")) serial = axis_list();
  }
  void procedure() {
    std::string which = name();
    Procedure p{find_procedure(which), {}};
    if (!p.def) return fail(fmt::format("no procedure is named `{}`", which));
    std::vector<std::string> names = p.names();
    expect("(");
    for (size_t i = 0; ok() && i < names.size(); ++i) {
      if (i) expect(",");
      expect(names[i]), expect("=");
      p.numbers.push_back(size());
    }
    if (which == "user")
      user(p);
    else
      expect(")");
    k_.procedure = std::move(p);
  }
  // The rest of the numbers, and the line after them.
  void user(Procedure& p) {
    UserCode u;
    while (ok() && accept(",")) {
      u.sizes.push_back(name());
      expect("=");
      p.numbers.push_back(size());
    }
    expect(")"), expect("calls");
    u.name = name();
    if (accept("T")) u.type = dtype();
    u.by_rows.assign(k_.buffers.size(), false);
    if (accept("rows")) {
      std::string which = name();
      u.rows = static_cast<int>(std::find(u.sizes.begin(), u.sizes.end(), which) - u.sizes.begin());
      if (ok() && u.rows == static_cast<int>(u.sizes.size())) fail(fmt::format("no number is named `{}`", which));
      expect("of");
      do {
        int b = lookup(buffer_ids_, name(), "buffer");
        if (ok()) u.by_rows[b] = true;
      } while (accept(","));
    }
    if (accept("cpp")) u.cpp = user_text();
    if (accept("cuda")) {
      expect("threads");
      u.cuda_threads = small_integer();
      expect("shared");
      u.cuda_shared_bytes = small_integer();
      u.cuda = user_text();
      if (ok() && (u.sizes.empty() || u.sizes.back() != "blocks")) fail("a text for CUDA without a number of blocks");
      if (ok()) u.sizes.pop_back();
      if (ok() && u.rows == static_cast<int>(u.sizes.size())) fail("blocks are not rows");
    }
    p.user = std::make_shared<const UserCode>(std::move(u));
  }
  UserText user_text() {
    UserText out;
    expect("from");
    out.file = string();
    expect("line");
    out.line = integer();
    expect("text");
    out.text = string();
    if (ok() && out.text.empty()) fail("an empty text");
    return out;
  }
  std::string string() {
    if (!ok()) return "";
    ir::Lexer lexer(text_.substr(at_), file_);
    if (lexer.damage() || lexer.token().kind != ir::Token::kString) {
      fail(lexer.damage() ? lexer.damage()->message : fmt::format("expected a string, found `{}`", token_.text));
      return "";
    }
    pos_ = at_ + lexer.token().end;
    std::string out = lexer.token().text;
    next();
    return out;
  }

  int declare_value() {
    ValueInfo v;
    v.name = name();
    if (accept("[")) v.axes = axis_list(), expect("]");
    expect(":");
    v.dtype = dtype();
    value_ids_[v.name] = static_cast<int>(k_.values.size());
    k_.values.push_back(std::move(v));
    return static_cast<int>(k_.values.size()) - 1;
  }
  Body body() {
    Body out;
    Nesting nesting(*this);
    while (ok() && !at("next") && !accept("}")) out.push_back(stmt());
    return out;
  }
  Stmt stmt() {
    operators_ = 0;
    if (accept("for")) {
      For f;
      f.axes = axis_list();
      expect("{");
      f.body = body();
      return {std::move(f)};
    }
    if (accept("loop")) return {loop()};
    if (accept("store")) return {store()};
    bool contract = accept("contract");
    if (!contract) expect("let");
    Let let;
    let.contract = contract;
    let.value = declare_value();
    expect("=");
    // A value may have a combiner's name: `let sum: f32 = sum(r0) x[r0]`, `let mean: f32 = sum / 8:f32`.
    if (next_char() == '(') let.combiner = combiner();
    if (let.combiner != Combiner::kNone) expect("("), let.reduce = axis_list(), expect(")");
    let.expr = expr();
    return {std::move(let)};
  }
  Combiner combiner() {
    std::optional<Combiner> c = token_.kind == Token::kName ? combiner_from_name(token_.text) : std::nullopt;
    if (!c || *c == Combiner::kNone) return Combiner::kNone;
    next();
    return *c;
  }
  Store store() {
    Store s;
    s.buffer = lookup(buffer_ids_, name(), "buffer");
    expect("[");
    while (ok() && !at("]")) {
      s.indices.push_back(expr());
      if (!at("]")) expect(",");
    }
    expect("]");
    if (accept("over")) s.axes = axis_list();
    s.combiner = combiner();
    expect("=");
    s.expr = expr();
    if (accept("if")) s.guard = expr();
    return s;
  }
  Loop loop() {
    Loop l;
    l.axis = axis_id();
    l.reverse = accept("reverse");
    expect("carry"), expect("(");
    while (ok() && !at(")")) {
      l.state.push_back(declare_value());
      expect("=");
      l.init.push_back(expr());
      if (!at(")")) expect(",");
    }
    expect(")"), expect("{");
    l.body = body();
    for (size_t i = 0; ok() && i < l.state.size(); ++i) {
      expect("next");
      if (lookup(value_ids_, name(), "value") != l.state[i])
        fail("`next` lines follow the order of the carried values");
      expect("=");
      l.next.push_back(expr());
    }
    expect("}");
    return l;
  }

  Expr expr(int level = 1) {
    if (level == 6) return primary();
    struct Row {
      const char *text, *fn;
      int level;
    };
    constexpr Row kRows[] = {{"|", "or", 1},  {"&", "and", 2}, {"==", "eq", 3}, {"!=", "ne", 3},
                             {"<", "lt", 3},  {"<=", "le", 3}, {">", "gt", 3},  {">=", "ge", 3},
                             {"+", "add", 4}, {"-", "sub", 4}, {"*", "mul", 5}, {"/", "div", 5}};
    Expr left = expr(level + 1);
    for (bool again = true; again && ok();) {
      again = false;
      for (const Row& row : kRows)
        if (row.level == level && accept(row.text)) {
          if (++operators_ > kMaxOperators) fail(fmt::format("a statement has more than {} operators", kMaxOperators));
          Expr right = expr(level + 1);
          if (!ok()) return index(0);
          if (left->dtype != right->dtype) {
            fail(fmt::format("operands of {} are {} and {}", row.text, name_of(left->dtype), name_of(right->dtype)));
            return index(0);
          }
          left = call(row.fn, {left, right});
          again = true;
          break;
        }
    }
    return left;
  }
  std::vector<Expr> arguments(std::string_view close) {
    std::vector<Expr> out;
    while (ok() && !at(close)) {
      out.push_back(expr());
      if (!at(close)) expect(",");
    }
    expect(close);
    return out;
  }
  Expr number(bool negative) {
    std::string digits = (negative ? "-" : "") + token_.text;
    next();
    DType d = accept(":") ? dtype() : DType::kI64;
    if (is_float(d)) return constant(d, std::strtod(digits.c_str(), nullptr));
    return constant_int(d, digits[0] == '-' ? std::strtoll(digits.c_str(), nullptr, 10)
                                            : static_cast<int64_t>(std::strtoull(digits.c_str(), nullptr, 10)));
  }
  Expr conditional() {
    Expr e = expr();
    if (accept("if")) {
      Expr guard = expr();
      expect("else");
      Expr fill = expr();
      if (!ok()) return index(0);
      if (e->kind != ExprKind::kLoad || e->guard || fill->dtype != e->dtype || guard->dtype != DType::kBool) {
        fail("`if` guards a load, with a bool and a fill of its dtype");
        return index(0);
      }
      e = guarded_load(e->dtype, e->ref, e->args, guard, fill);
    }
    expect(")");
    return e;
  }
  Expr primary() {
    Nesting nesting(*this);
    if (!ok()) return index(0);
    if (accept("(")) return conditional();
    if (accept("-")) return number(true);
    // A value may have any name, so that of a function or of a number too: what follows decides.
    bool typed = next_char() == ':';
    if (token_.kind == Token::kNumber || (typed && (at("inf") || at("nan")))) return number(false);
    std::string n = name();
    bool called = at("(") || at(".");
    if ((n == "true" || n == "false") && !at("[")) return constant_int(DType::kBool, n == "true");
    if (auto it = axis_ids_.find(n); it != axis_ids_.end() && !called) return axis(it->second);
    if (auto it = value_ids_.find(n); it != value_ids_.end() && !called)
      return value(k_.values[it->second].dtype, it->second, accept("[") ? arguments("]") : std::vector<Expr>{});
    if (accept("[")) {
      int id = lookup(buffer_ids_, n, "buffer");
      std::vector<Expr> indices = arguments("]");
      return ok() ? load(k_.buffers[id].dtype, id, std::move(indices)) : index(0);
    }
    return function_call(n);
  }
  Expr function_call(const std::string& n) {
    if (ok() && n == "dim" && at("(")) return dim(size_in_parentheses());
    const ScalarFn* fn = find_scalar(n);
    if (ok() && !fn) fail(fmt::format("`{}` is no axis, value, buffer or function", n));
    if (!ok()) return index(0);
    std::optional<DType> result;
    if (accept(".")) result = dtype();
    expect("(");
    std::vector<Expr> args = arguments(")");
    if (!ok()) return index(0);
    bool same = true;
    for (size_t i = n == "select" ? 2 : 1; i < args.size(); ++i) same &= args[i]->dtype == args[i - 1]->dtype;
    if (static_cast<int>(args.size()) != fn->arity || (!same && n != "philox")) {
      fail(fmt::format("{} takes {} operands of one dtype", n, fn->arity));
      return index(0);
    }
    if (n == "select") return select(args[0], args[1], args[2]);
    if (fn->result != ResultKind::kFirst) return call(n, std::move(args));
    if (!result) {
      fail(fmt::format("{} needs a result dtype: {}.f32(...)", n, n));
      return index(0);
    }
    return n == "convert" ? convert(*result, args[0]) : call_as(*result, n, std::move(args));
  }

  std::string_view text_;
  std::string file_;
  const ReadSize& read_size_;
  size_t pos_ = 0, at_ = 0, line_start_ = 0;
  int line_ = 1;
  Token token_{Token::kEnd, "", 1, 1};
  Diagnostics failure_;
  Kernel k_;
  std::map<std::string, int> axis_ids_, buffer_ids_, value_ids_;
  int nesting_ = 0, operators_ = 0;
};

}  // namespace

Result<Kernel> parse_kernel(std::string_view text, const std::string& file_name, const ReadSize& read_size) {
  return Parser(text, file_name, read_size).run();
}

}  // namespace nabla::kernel_ir
