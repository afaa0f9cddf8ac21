#include "ir/lexer.h"

#include <algorithm>

namespace nabla::ir {
namespace {

constexpr size_t kMaxExcerpt = 160;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool in_word(char c) { return is_letter(c) || is_digit(c) || c == '.'; }
int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

Lexer::Lexer(std::string_view text, std::string file) : text_(text), file_(std::move(file)) { next(); }

void Lexer::skip_blanks() {
  while (position_ < text_.size()) {
    char c = text_[position_];
    if (c == '\n')
      ++line_, line_start_ = ++position_;
    else if (c == ' ' || c == '\t' || c == '\r')
      ++position_;
    else if (text_.substr(position_, 2) == "//")
      position_ = std::min(text_.find('\n', position_), text_.size());
    else
      break;
  }
}

void Lexer::stop(std::string message) {
  damage_ = std::make_unique<Diagnostic>(fail_at(token_.place, Code::kSyntax, std::move(message)));
  position_ = text_.size();
  token_.kind = Token::kEnd;
  token_.text.clear();
}

void Lexer::read_string() {
  ++position_;
  while (position_ < text_.size() && text_[position_] != '"' && text_[position_] != '\n') {
    char c = text_[position_++];
    if (c != '\\') {
      token_.text += c;
      continue;
    }
    char escape = position_ < text_.size() ? text_[position_++] : ' ';
    if (escape == 'n')
      token_.text += '\n';
    else if (escape == 't')
      token_.text += '\t';
    else if (escape == '"' || escape == '\\')
      token_.text += escape;
    else if (escape == 'x' && position_ + 2 <= text_.size() && hex_digit(text_[position_]) >= 0 &&
             hex_digit(text_[position_ + 1]) >= 0) {
      token_.text += static_cast<char>(hex_digit(text_[position_]) * 16 + hex_digit(text_[position_ + 1]));
      position_ += 2;
    } else {
      return stop("unknown escape in a string; known are \\\" \\\\ \\n \\t \\xNN");
    }
  }
  if (position_ >= text_.size() || text_[position_] != '"') return stop("a string has no closing quote");
  ++position_;
}

void Lexer::next() {
  if (damage_) return;
  skip_blanks();
  token_ = {Token::kEnd, "", {line_, static_cast<int>(position_ - line_start_) + 1}, position_, position_};
  if (position_ >= text_.size()) return;
  char c = text_[position_];
  size_t begin = position_;
  if (is_letter(c)) {
    token_.kind = Token::kName;
    while (position_ < text_.size() && in_word(text_[position_])) ++position_;
  } else if (is_digit(c)) {
    token_.kind = Token::kNumber;
    bool hex = text_.substr(begin, 2) == "0x";
    for (; position_ < text_.size(); ++position_) {
      char d = text_[position_], before = position_ > begin ? text_[position_ - 1] : ' ';
      bool exponent_sign = !hex && (d == '-' || d == '+') && (before == 'e' || before == 'E');
      if (!in_word(d) && !exponent_sign) break;
    }
  } else if (c == '"') {
    token_.kind = Token::kString;
    read_string();
    token_.end = position_;
    return;
  } else if (c > ' ' && c < 127) {
    token_.kind = Token::kPunct;
    position_ += text_.substr(begin, 2) == "->" ? 2 : 1;
  } else {
    return stop(fmt::format("byte 0x{:02x} stands outside a string", static_cast<uint8_t>(c)));
  }
  token_.text = text_.substr(begin, position_ - begin);
  token_.end = position_;
}

bool Lexer::accept(std::string_view text) {
  if (!is(text)) return false;
  next();
  return true;
}

void Lexer::restore(const State& state) {
  if (damage_) return;
  position_ = state.position, line_start_ = state.line_start, line_ = state.line;
  token_ = state.token;
}

void Lexer::jump(size_t offset) {
  if (damage_) return;
  for (size_t i = token_.end; i < offset; ++i)
    if (text_[i] == '\n') ++line_, line_start_ = i + 1;
  position_ = offset;
  next();
}

LocationRef Lexer::locate(Place place) const {
  size_t begin = 0;
  for (int i = 1; i < place.line && begin != std::string_view::npos; ++i) {
    begin = text_.find('\n', begin);
    if (begin != std::string_view::npos) ++begin;
  }
  std::string line;
  if (place.line > 0 && begin != std::string_view::npos) line = text_.substr(begin, text_.find('\n', begin) - begin);
  int column = place.column;
  if (line.size() > kMaxExcerpt) line = line.substr(0, kMaxExcerpt) + "...";
  for (char& c : line)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  if (column > static_cast<int>(line.size()) + 1) line.clear();
  return std::make_shared<const Location>(Location{file_, place.line, column, "", line});
}

Diagnostic Lexer::fail_at(Place place, Code code, std::string message) const {
  Diagnostic d = error(code, "{}", message);
  d.location = locate(place);
  return d;
}

Diagnostic Lexer::fail(std::string message) const {
  if (damage_) return *damage_;
  return fail_at(token_.place, Code::kSyntax, std::move(message));
}

std::string quoted(std::string_view contents) {
  std::string out = "\"";
  for (char c : contents) {
    if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (static_cast<unsigned char>(c) < ' ' || c == 127)
      out += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
    else
      out += c;
  }
  return out + "\"";
}

std::string found(const Token& token) {
  if (token.kind == Token::kEnd) return "found the end of the text";
  if (token.kind == Token::kString) return fmt::format("found \"{}\"", token.text.substr(0, 40));
  return fmt::format("found `{}`", token.text.substr(0, 40));
}

}  // namespace nabla::ir
