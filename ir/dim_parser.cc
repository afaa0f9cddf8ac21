#include "ir/dim_parser.h"

#include <algorithm>
#include <charconv>

namespace nabla::ir {
namespace {

constexpr int kMaxDepth = 16;
constexpr size_t kMaxText = 512;
constexpr int64_t kMaxMagnitude = int64_t{1} << 53;

class DimParser {
 public:
  DimParser(Lexer& lexer, const SymbolTable& symbols) : lexer_(lexer), symbols_(symbols) {}

  Result<Dim> sum(int depth) {
    Place place = lexer_.token().place;
    if (depth > kMaxDepth)
      return lexer_.fail_at(place, Code::kTooLarge, fmt::format("an extent is nested deeper than {}", kMaxDepth));
    Dim value = NABLA_TRY(product(depth));
    while (lexer_.at("+") || lexer_.at("-")) {
      bool minus = lexer_.accept("-");
      if (!minus) lexer_.next();
      Dim right = NABLA_TRY(product(depth));
      value = NABLA_TRY(bounded(minus ? value - right : value + right, place));
    }
    return value;
  }

 private:
  Result<Dim> product(int depth) {
    Place place = lexer_.token().place;
    Dim value = NABLA_TRY(factor(depth));
    while (lexer_.accept("*")) {
      Dim right = NABLA_TRY(factor(depth));
      value = NABLA_TRY(bounded(value * right, place));
    }
    return value;
  }

  Result<Dim> factor(int depth) {
    Token token = lexer_.token();
    if (lexer_.accept("-")) {
      if (depth > kMaxDepth) return lexer_.fail_at(token.place, Code::kTooLarge, "an extent is nested too deep");
      Dim value = NABLA_TRY(factor(depth + 1));
      return Dim(0) - value;
    }
    if (lexer_.accept("(")) {
      Dim value = NABLA_TRY(sum(depth + 1));
      if (!lexer_.accept(")")) return lexer_.fail("expected `)`, " + found(lexer_.token()));
      return value;
    }
    if (token.kind == Token::kNumber) {
      int64_t v = 0;
      auto [end, ec] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), v);
      if (ec != std::errc() || end != token.text.data() + token.text.size() || v > kMaxMagnitude)
        return lexer_.fail(
            fmt::format("`{}` is no extent: it must be an integer up to 2^53", token.text.substr(0, 40)));
      lexer_.next();
      return Dim(v);
    }
    if (token.kind != Token::kName) return lexer_.fail("expected an extent, " + found(token));
    lexer_.next();
    if (lexer_.at("(")) return call(token, depth);
    auto it = symbols_.find(token.text);
    if (it != symbols_.end()) return Dim::symbol(it->second);
    std::vector<std::string> known;
    for (const auto& [name, symbol] : symbols_) known.push_back(name);
    return lexer_.fail_at(token.place, Code::kUnknownName,
                          fmt::format("unknown symbol `{}`{}", token.text, did_you_mean(token.text, known)));
  }

  Result<Dim> call(const Token& fn, int depth) {
    static const std::vector<std::string> kKnown = {"floordiv", "ceildiv", "mod", "min", "max"};
    if (std::find(kKnown.begin(), kKnown.end(), fn.text) == kKnown.end())
      return lexer_.fail_at(fn.place, Code::kUnknownName,
                            fmt::format("unknown function `{}` of extents{}", fn.text, did_you_mean(fn.text, kKnown)));
    lexer_.next();
    Dim a = NABLA_TRY(sum(depth + 1));
    if (!lexer_.accept(",")) return lexer_.fail("expected `,`, " + found(lexer_.token()));
    Dim b = NABLA_TRY(sum(depth + 1));
    if (!lexer_.accept(")")) return lexer_.fail("expected `)`, " + found(lexer_.token()));
    if (fn.text == "min") return bounded(Dim::min(a, b), fn.place);
    if (fn.text == "max") return bounded(Dim::max(a, b), fn.place);
    if (b.bounds().min <= 0)
      return lexer_.fail_at(fn.place, Code::kInvalidModule,
                            fmt::format("{}: the divisor {} may be 0 or negative", fn.text, b.str()));
    if (fn.text == "mod") return bounded(Dim::mod(a, b), fn.place);
    return bounded(fn.text == "floordiv" ? Dim::floordiv(a, b) : Dim::ceildiv(a, b), fn.place);
  }

  Result<Dim> bounded(Dim value, Place place) const {
    Interval range = value.bounds();
    if (range.min < -kMaxMagnitude || range.max > kMaxMagnitude)
      return lexer_.fail_at(place, Code::kTooLarge, "an extent may exceed 2^53");
    if (!value.is_static() && value.str().size() > kMaxText)
      return lexer_.fail_at(place, Code::kTooLarge, fmt::format("an extent takes more than {} characters", kMaxText));
    return value;
  }

  Lexer& lexer_;
  const SymbolTable& symbols_;
};

}  // namespace

Result<Dim> parse_dim(Lexer& lexer, const SymbolTable& symbols) { return DimParser(lexer, symbols).sum(0); }

Result<Dim> parse_dim_text(std::string_view text, const SymbolTable& symbols, const std::string& what) {
  Lexer lexer(text, what);
  Dim value = NABLA_TRY(parse_dim(lexer, symbols));
  if (lexer.damage() || lexer.token().kind != Token::kEnd)
    return lexer.fail("expected the end of the extent, " + found(lexer.token()));
  return value;
}

}  // namespace nabla::ir
