#include "ir/value_parser.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "ir/text.h"
#include "ir/verifier.h"

namespace nabla::ir {
namespace {

/// A short text must not make the reader allocate much: the bytes that all `splat`s of a text may take.
constexpr int64_t kMaxSplatTotal = int64_t{256} << 20;

}  // namespace

Status ValueParser::expect(std::string_view text) {
  if (lexer_.accept(text)) return Ok{};
  return lexer_.fail(fmt::format("expected `{}`, {}", text, found(token())));
}

std::string ValueParser::take() {
  std::string out = token().text;
  lexer_.next();
  return out;
}

/// A name: a word or a string.
Result<std::string> ValueParser::name(std::string_view what) {
  if (token().kind != Token::kName && token().kind != Token::kString)
    return lexer_.fail(fmt::format("expected {}, {}", what, found(token())));
  return take();
}

Result<std::string> ValueParser::sigil_name(char sigil, std::string_view what) {
  (void)NABLA_TRY(expect(std::string_view(&sigil, 1)));
  if (token().kind == Token::kNumber && sigil == '%') return take();
  return name(what);
}

Result<std::string> ValueParser::string() {
  if (token().kind != Token::kString) return lexer_.fail("expected a string in quotes, " + found(token()));
  return take();
}

Result<int64_t> ValueParser::integer() {
  Token at = token();
  std::string digits = lexer_.accept("-") ? "-" : "";
  if (token().kind != Token::kNumber) return lexer_.fail("expected an integer, " + found(token()));
  digits += token().text;
  int64_t value = 0;
  auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (ec != std::errc() || end != digits.data() + digits.size())
    return lexer_.fail_at(at.place, Code::kSyntax, fmt::format("`{}` is no 64-bit integer", digits.substr(0, 40)));
  lexer_.next();
  return value;
}

Result<std::vector<std::string>> ValueParser::names(std::string_view what) {
  std::vector<std::string> out;
  do out.push_back(NABLA_TRY(name(what)));
  while (lexer_.accept(","));
  return out;
}
Result<Attr> ValueParser::attribute() {
  Token t = token();
  if (t.kind == Token::kString) return Attr(NABLA_TRY(string()));
  if (lexer_.at("@")) return Attr(FunctionRef{NABLA_TRY(sigil_name('@', "a function's name"))});
  if (lexer_.at("[")) return list();
  if (lexer_.at("{")) return Attr(NABLA_TRY(axes()));
  if (lexer_.at("<")) return Attr(NABLA_TRY(sharding()));
  if (lexer_.accept("true")) return Attr(true);
  if (lexer_.accept("false")) return Attr(false);
  if (lexer_.accept("bits")) return bit_pattern();
  if (std::optional<DType> dtype = t.kind == Token::kName ? dtype_from_name(t.text) : std::nullopt) {
    lexer_.next();
    if (!lexer_.at("[")) return Attr(*dtype);
    return Attr(NABLA_TRY(literal(*dtype)));
  }
  return number();
}

Result<Attr> ValueParser::bit_pattern() {
  (void)NABLA_TRY(expect("("));
  Literal value(DType::kF64, {});
  if (!token().text.starts_with("0x") || !parse_element(token().text, value, 0))
    return lexer_.fail("expected the bit pattern of an f64, such as 0x7ff8000000000001, " + found(token()));
  lexer_.next();
  (void)NABLA_TRY(expect(")"));
  return Attr(value.get(0));
}

Result<Attr> ValueParser::number() {
  Token t = token();
  std::string text = element();
  if (text.find_first_of("0123456789") != std::string::npos && text.find_first_of(".enix") == std::string::npos) {
    int64_t value = 0;
    auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (ec == std::errc() && end == text.data() + text.size()) return Attr(value);
    return lexer_.fail_at(t.place, Code::kSyntax, fmt::format("`{}` is no 64-bit integer", text.substr(0, 40)));
  }
  Literal value(DType::kF64, {});
  if (text.starts_with("0x") || !parse_element(text, value, 0))
    return lexer_.fail_at(t.place, Code::kSyntax, "expected an attribute's value, " + found(t));
  return Attr(value.get(0));
}

/// The text of a number, with its sign.
std::string ValueParser::element() {
  std::string out = lexer_.accept("-") ? "-" : "";
  if (token().kind == Token::kNumber || token().kind == Token::kName) out += take();
  return out;
}

Result<Shape> ValueParser::shape(ShardingRef* sharding) {
  (void)NABLA_TRY(expect("["));
  Shape out;
  Sharding layout;
  bool laid_out = false;
  while (!lexer_.accept("]")) {
    out.push_back(NABLA_TRY(parse_dim(lexer_, symbols_)));
    layout.dims.push_back({{}, true});
    if (sharding && lexer_.accept("@")) {
      layout.dims.back() = NABLA_TRY(dim_sharding());
      laid_out = true;
    }
    if (!lexer_.accept(",") && !lexer_.at("]")) return lexer_.fail("expected `,` or `]`, " + found(token()));
  }
  if (sharding && lexer_.accept("replicated")) {
    layout.replicated = NABLA_TRY(axes());
    laid_out = true;
  }
  if (sharding && lexer_.accept("allow_padding")) layout.allow_padding = laid_out = true;
  if (laid_out) *sharding = std::make_shared<const Sharding>(std::move(layout));
  return out;
}

Result<AxisRef> ValueParser::axis() {
  AxisRef out;
  out.name = NABLA_TRY(name("a mesh axis"));
  if (!lexer_.accept(":")) return out;
  (void)NABLA_TRY(expect("("));
  out.before = NABLA_TRY(integer());
  (void)NABLA_TRY(expect(")"));
  Place place = token().place;
  out.size = NABLA_TRY(integer());
  if (out.size < 1) return lexer_.fail_at(place, Code::kSyntax, fmt::format("a part of {} ranks", out.size));
  return out;
}

Result<Axes> ValueParser::axes() {
  DimSharding out = NABLA_TRY(axis_list(false));
  return std::move(out.axes);
}

Result<DimSharding> ValueParser::axis_list(bool may_be_open) {
  DimSharding out;
  (void)NABLA_TRY(expect("{"));
  while (!lexer_.accept("}")) {
    if (may_be_open && lexer_.accept("?")) {
      out.open = true;
      (void)NABLA_TRY(expect("}"));
      return out;
    }
    out.axes.push_back(NABLA_TRY(axis()));
    if (!lexer_.accept(",") && !lexer_.at("}")) return lexer_.fail("expected `,` or `}`, " + found(token()));
  }
  return out;
}

/// `dp` is short for `{dp}`; a priority stands after the brace: `{dp, ?}p1`.
Result<DimSharding> ValueParser::dim_sharding() {
  DimSharding out;
  if (!lexer_.at("{")) {
    out.axes.push_back(NABLA_TRY(axis()));
    return out;
  }
  out = NABLA_TRY(axis_list(true));
  if (token().kind != Token::kName || !token().text.starts_with("p")) return out;
  std::string_view digits = std::string_view(token().text).substr(1);
  auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), out.priority);
  if (ec != std::errc() || end != digits.data() + digits.size() || out.priority < 0)
    return lexer_.fail("expected a priority such as `p1`, " + found(token()));
  lexer_.next();
  return out;
}

Result<Sharding> ValueParser::sharding() {
  Sharding out;
  (void)NABLA_TRY(expect("<"));
  while (!lexer_.accept(">")) {
    out.dims.push_back(NABLA_TRY(dim_sharding()));
    if (!lexer_.accept(",") && !lexer_.at(">")) return lexer_.fail("expected `,` or `>`, " + found(token()));
  }
  if (lexer_.accept("replicated")) out.replicated = NABLA_TRY(axes());
  out.allow_padding = lexer_.accept("allow_padding");
  return out;
}

Result<Attr> ValueParser::functions() {
  FunctionRefs out;
  while (!lexer_.accept("]")) {
    out.push_back({NABLA_TRY(sigil_name('@', "a function's name"))});
    if (!lexer_.accept(",") && !lexer_.at("]")) return lexer_.fail("expected `,` or `]`, " + found(token()));
  }
  return Attr(std::move(out));
}

Result<Attr> ValueParser::shardings() {
  Shardings out;
  while (!lexer_.accept("]")) {
    out.push_back(NABLA_TRY(sharding()));
    if (!lexer_.accept(",") && !lexer_.at("]")) return lexer_.fail("expected `,` or `]`, " + found(token()));
  }
  return Attr(std::move(out));
}

/// Functions, shardings or integers, where all are; otherwise a shape.
Result<Attr> ValueParser::list() {
  Lexer::State before = lexer_.save();
  lexer_.next();
  if (lexer_.at("@")) return functions();
  if (lexer_.at("<")) return shardings();
  Ints ints;
  for (;;) {
    if (lexer_.accept("]")) return Attr(std::move(ints));
    bool number = token().kind == Token::kNumber || lexer_.at("-");
    Result<int64_t> value = number ? integer() : Result<int64_t>(int64_t{0});
    if (!number || !value.ok() || !(lexer_.at(",") || lexer_.at("]"))) break;
    ints.push_back(*value);
    lexer_.accept(",");
  }
  lexer_.restore(before);
  return Attr(NABLA_TRY(shape()));
}

Result<Type> ValueParser::type(ShardingRef* sharding) {
  Place place = token().place;
  if (token().kind != Token::kName) return lexer_.fail("expected a type, " + found(token()));
  std::string word = take();
  if (word == "residual") {
    (void)NABLA_TRY(expect("<"));
    std::string function = NABLA_TRY(sigil_name('@', "a function's name"));
    (void)NABLA_TRY(expect(">"));
    if (function.empty()) return lexer_.fail_at(place, Code::kSyntax, "a residual names a function");
    return Type::residual(function);
  }
  std::optional<DType> dtype = dtype_from_name(word);
  if (!dtype) {
    std::vector<std::string> known;
    for (int i = 0; i < kDTypeCount; ++i) known.emplace_back(name_of(static_cast<DType>(i)));
    return lexer_.fail_at(place, Code::kUnknownName,
                          fmt::format("unknown dtype `{}`{}", word, did_you_mean(word, known)));
  }
  return Type(*dtype, NABLA_TRY(shape(sharding)));
}

Result<Literal> ValueParser::literal(DType dtype) {
  Place place = token().place;
  std::vector<int64_t> extents;
  (void)NABLA_TRY(expect("["));
  while (!lexer_.accept("]")) {
    extents.push_back(NABLA_TRY(integer()));
    if (!lexer_.accept(",") && !lexer_.at("]")) return lexer_.fail("expected `,` or `]`, " + found(token()));
  }
  auto located = [&](Diagnostics errors) {
    for (Diagnostic& d : errors) d.location = lexer_.locate(place);
    return errors;
  };
  Result<int64_t> count = checked_count(extents);
  if (!count.ok()) return located(std::move(count.errors()));
  if (lexer_.accept("external")) {
    Result<Literal> value = constants_.get(dtype, extents, NABLA_TRY(external()));
    return value.ok() ? std::move(value) : located(std::move(value.errors()));
  }
  (void)NABLA_TRY(expect("{"));
  bool splat = lexer_.accept("splat");
  int64_t bytes = *count > kMaxSplatTotal ? kMaxSplatTotal : *count * bytes_of(dtype);
  size_t left = lexer_.text().size() - token().begin;
  if (splat ? (splat_total_ += bytes) > kMaxSplatTotal || bytes > kMaxSplatBytes
            : *count > static_cast<int64_t>(left))
    return lexer_.fail_at(place, Code::kTooLarge,
                          fmt::format("a literal of {} elements is larger than this text may hold", *count));
  Literal value(dtype, extents);
  int64_t written = splat ? std::min<int64_t>(*count, 1) : *count;
  for (int64_t i = 0; i < written; ++i) {
    if (i > 0) (void)NABLA_TRY(expect(","));
    Token at = token();
    if (!parse_element(element(), value, i))
      return lexer_.fail_at(
          at.place, Code::kSyntax,
          fmt::format("expected element {} of {}, an {}: {}", i, *count, name_of(dtype), found(at)));
  }
  (void)NABLA_TRY(expect("}"));
  char* data = splat ? static_cast<char*>(value.mutable_data()) : nullptr;
  for (int64_t i = 1; splat && i < *count; ++i) std::copy_n(data, bytes_of(dtype), data + i * bytes_of(dtype));
  Status bools = check_bools(value);
  if (!bools.ok()) return located(std::move(bools.errors()));
  return value;
}

Result<ExternalRef> ValueParser::external() {
  ExternalRef ref;
  for (std::string_view t : {"(", "offset"}) (void)NABLA_TRY(expect(t));
  ref.offset = static_cast<uint64_t>(NABLA_TRY(integer()));
  for (std::string_view t : {",", "bytes"}) (void)NABLA_TRY(expect(t));
  ref.bytes = static_cast<uint64_t>(NABLA_TRY(integer()));
  for (std::string_view t : {",", "sha256"}) (void)NABLA_TRY(expect(t));
  ref.sha256 = NABLA_TRY(string());
  (void)NABLA_TRY(expect(")"));
  return ref;
}

Result<LocationRef> ValueParser::location() {
  if (!lexer_.accept("loc")) return LocationRef();
  Location l;
  (void)NABLA_TRY(expect("("));
  l.file = NABLA_TRY(string());
  (void)NABLA_TRY(expect(":"));
  l.line = NABLA_TRY(small());
  if (lexer_.accept(":")) l.column = NABLA_TRY(small());
  if (token().kind == Token::kString) l.function = NABLA_TRY(string());
  if (token().kind == Token::kString) l.text = NABLA_TRY(string());
  (void)NABLA_TRY(expect(")"));
  return LocationRef(std::make_shared<const Location>(std::move(l)));
}

Result<int> ValueParser::small() {
  Place place = token().place;
  int64_t v = NABLA_TRY(integer());
  if (v < 0 || v > INT32_MAX) return lexer_.fail_at(place, Code::kSyntax, fmt::format("{} is no line or column", v));
  return static_cast<int>(v);
}

}  // namespace nabla::ir
