#include "ir/ops/custom/signature.h"

#include <algorithm>
#include <cctype>

#include "ir/dim_parser.h"
#include "ir/lexer.h"

namespace nabla::ops {
namespace {

// Of names, to the parser of extents, which keeps products below 2^53. Polynomials do not depend on it.
constexpr int64_t kMostExtent = int64_t{1} << 13;

class SignatureParser {
 public:
  explicit SignatureParser(const std::string& text) : lexer_(text, "the signature") {}

  Result<Signature> run() {
    NABLA_TRY(only_polynomials());
    if (!lexer_.at("->")) NABLA_TRY(tensors(out_.operands, true));
    if (!lexer_.accept("->")) return lexer_.fail("expected `,` or `->`, " + ir::found(lexer_.token()));
    NABLA_TRY(tensors(out_.results, false));
    if (const Diagnostic* damage = lexer_.damage()) return *damage;
    if (lexer_.token().kind != ir::Token::kEnd)
      return lexer_.fail("expected `,` or the end, " + ir::found(lexer_.token()));
    return std::move(out_);
  }

 private:
  Status tensors(std::vector<Signature::Tensor>& to, bool operands) {
    do {
      ir::Token token = lexer_.token();
      Signature::Tensor t;
      if (token.text != "T") {
        t.dtype = dtype_from_name(token.text);
        if (!t.dtype) return lexer_.fail("expected a dtype or T, " + ir::found(token));
      } else if (!operands && !out_.has_type_variable()) {
        return lexer_.fail("no operand is T");
      }
      lexer_.next();
      if (!lexer_.accept("[")) return lexer_.fail("expected `[`, " + ir::found(lexer_.token()));
      while (!lexer_.at("]")) {
        if (operands) bind_name();
        Dim d = NABLA_TRY(ir::parse_dim(lexer_, symbols_));
        t.shape.push_back(d);
        if (lexer_.at("]")) break;
        if (!lexer_.accept(",")) return lexer_.fail("expected `,` or `]`, " + ir::found(lexer_.token()));
      }
      lexer_.next();
      to.push_back(std::move(t));
    } while (lexer_.accept(","));
    return Ok{};
  }

  // What floordiv, min and max make of names would depend on their bounds.
  Status only_polynomials() {
    ir::Lexer::State begin = lexer_.save();
    while (!lexer_.damage() && lexer_.token().kind != ir::Token::kEnd) {
      ir::Token token = lexer_.token();
      lexer_.next();
      if (token.kind == ir::Token::kName && lexer_.at("("))
        return lexer_.fail_at(token.place, Code::kSyntax, fmt::format("`{}(`: extents are made of + - *", token.text));
    }
    lexer_.restore(begin);
    return Ok{};
  }

  // A new name that stands alone as an extent is bound here.
  void bind_name() {
    ir::Token token = lexer_.token();
    bool is_name = token.kind == ir::Token::kName && std::islower(static_cast<unsigned char>(token.text[0])) &&
                   std::all_of(token.text.begin(), token.text.end(),
                               [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '_'; });
    if (!is_name || symbols_.count(token.text)) return;
    ir::Lexer::State before = lexer_.save();
    lexer_.next();
    bool alone = lexer_.at(",") || lexer_.at("]");
    lexer_.restore(before);
    if (!alone) return;
    out_.names.push_back(std::make_shared<ir::Symbol>(ir::Symbol{token.text, 0, kMostExtent, 1}));
    symbols_[token.text] = out_.names.back();
  }

  ir::Lexer lexer_;
  ir::SymbolTable symbols_;
  Signature out_;
};

// The name that stands alone as this extent, or null.
ir::SymbolRef lone_name(const Dim& d) {
  std::vector<ir::SymbolRef> symbols = d.symbols();
  return symbols.size() == 1 && d == Dim::symbol(symbols[0]) ? symbols[0] : nullptr;
}

}  // namespace

bool Signature::has_type_variable() const {
  return std::any_of(operands.begin(), operands.end(), [](const Tensor& t) { return !t.dtype; });
}

Result<Signature> parse_signature(const std::string& text) { return SignatureParser(text).run(); }

Shape Binding::shape(const Shape& of) const {
  Shape out;
  for (const Dim& d : of) out.push_back(d.substitute([&](const ir::SymbolRef& s) { return sizes.at(s->name); }));
  return out;
}

ir::Type Binding::type_of(const Signature::Tensor& t) const { return {t.dtype ? *t.dtype : *type, shape(t.shape)}; }

Result<Binding> bind_signature(const InferContext& ctx, const Signature& s, int64_t leading,
                               std::string_view constraint) {
  if (ctx.operands.size() != s.operands.size())
    return ctx.fail(Code::kOperandCount, constraint, "the signature has {} operands, got {}", s.operands.size(),
                    ctx.operands.size());
  Binding out;
  std::map<std::string, std::string> where;  // a name was bound
  int first_t = -1;
  for (size_t i = 0; i < s.operands.size(); ++i) {
    const Type& is = ctx.operands[i];
    const Signature::Tensor& want = s.operands[i];
    if (!want.dtype && !out.type) out.type = is.dtype, first_t = static_cast<int>(i);
    if (!want.dtype && is.dtype != *out.type)
      return ctx.fail(Code::kDTypeMismatch, constraint, "T is {} by operand {}, but operand {} is {}",
                      name_of(*out.type), first_t, i, name_of(is.dtype));
    if (want.dtype && is.dtype != *want.dtype)
      return ctx.fail(Code::kDTypeMismatch, constraint, "operand {} is {}, the signature says {}", i, name_of(is.dtype),
                      name_of(*want.dtype));
    int64_t rank = static_cast<int64_t>(want.shape.size()) + leading;
    if (is.rank() != rank)
      return ctx.fail(Code::kShapeMismatch, constraint, "operand {} is {}, the signature has {} dimensions{}", i,
                      is.str(), rank, leading ? fmt::format(", {} of them of the batch", leading) : "");
    for (int64_t d = 0; d < leading; ++d)
      NABLA_TRY(ctx.require_equal(ctx.operands[0].shape[d], is.shape[d], constraint,
                                  fmt::format("batch dimensions {} of operands 0 and {}", d, i)));
    for (size_t d = 0; d < want.shape.size(); ++d) {
      const Dim& size = is.shape[static_cast<size_t>(leading) + d];
      std::string here = fmt::format("dimension {} of operand {}", d + static_cast<size_t>(leading), i);
      ir::SymbolRef name = lone_name(want.shape[d]);
      if (name && !out.sizes.count(name->name)) {
        out.sizes.emplace(name->name, size);
        where[name->name] = here;
        continue;
      }
      std::string what = name ? fmt::format("{}, which is `{}`, and {}", where[name->name], name->name, here)
                              : fmt::format("`{}` of the signature and {}", want.shape[d].str(), here);
      NABLA_TRY(ctx.require_equal(out.shape({want.shape[d]})[0], size, constraint, what));
    }
  }
  return out;
}

Binding bind_checked(const Signature& s, const std::vector<Type>& operands, int64_t leading) {
  Binding out;
  for (size_t i = 0; i < s.operands.size(); ++i) {
    if (!s.operands[i].dtype && !out.type) out.type = operands[i].dtype;
    for (size_t d = 0; d < s.operands[i].shape.size(); ++d)
      if (ir::SymbolRef name = lone_name(s.operands[i].shape[d]))
        out.sizes.emplace(name->name, operands[i].shape[static_cast<size_t>(leading) + d]);
  }
  return out;
}

Result<Dim> evaluate_size(const std::string& text, const std::map<std::string, Dim>& names) {
  // Symbols of the same bounds stand for the sizes: what floordiv, min and max make of them depends on these.
  ir::SymbolTable symbols;
  for (const auto& [name, size] : names) {
    ir::Interval range = size.bounds();
    symbols[name] = std::make_shared<ir::Symbol>(ir::Symbol{name, range.min, range.max, 1});
  }
  Dim out = NABLA_TRY(ir::parse_dim_text(text, symbols, "the text"));
  return out.substitute([&](const ir::SymbolRef& s) { return names.at(s->name); });
}

std::optional<FactorText> parse_factor_text(const std::string& text) {
  FactorText out;
  size_t arrow = text.find("->");
  if (arrow == std::string::npos) return std::nullopt;
  auto letters = [](const std::string& part, std::vector<std::string>& to) {
    to.emplace_back();
    for (char c : part) {
      if (c == ',')
        to.emplace_back();
      else if (std::isalpha(static_cast<unsigned char>(c)))
        to.back() += c;
      else if (c != ' ')
        return false;
    }
    return true;
  };
  if (!letters(text.substr(0, arrow), out.operands) || !letters(text.substr(arrow + 2), out.results))
    return std::nullopt;
  return out;
}

}  // namespace nabla::ops
