// Tokens of the text form. Internal to ir: the parser of modules and the parser of extents share it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/diagnostic.h"

namespace nabla::ir {

/// A position in a text; line 0: unknown.
struct Place {
  int line = 0, column = 0;
};

struct Token {
  enum Kind : uint8_t { kEnd, kName, kNumber, kString, kPunct };
  Kind kind = kEnd;
  std::string text;  ///< of a string: its contents
  Place place;
  size_t begin = 0, end = 0;  ///< bytes of the source
};

/// Splits a text into tokens. Errors are kept: after the first one every token is kEnd.
class Lexer {
 public:
  /// `text` must outlive the lexer; `file` names it in diagnostics.
  Lexer(std::string_view text, std::string file);

  const Token& token() const { return token_; }
  void next();
  bool at(std::string_view text) const { return is(text); }
  /// Skips the token when it is `text`.
  bool accept(std::string_view text);
  /// To read some tokens again.
  struct State {
    size_t position, line_start;
    int line;
    Token token;
  };
  State save() const { return {position_, line_start_, line_, token_}; }
  void restore(const State& state);
  /// Goes on after byte `offset`, which is not before the current token.
  void jump(size_t offset);

  /// A diagnostic at `place`, or at the current token.
  Diagnostic fail_at(Place place, Code code, std::string message) const;
  Diagnostic fail(std::string message) const;
  /// The damage that stopped the lexer (an unknown character, an open string), or null.
  const Diagnostic* damage() const { return damage_.get(); }
  /// The place as a location with the source line's text.
  LocationRef locate(Place place) const;
  std::string_view text() const { return text_; }

 private:
  bool is(std::string_view text) const {
    return token_.text == text && (token_.kind == Token::kName || token_.kind == Token::kPunct);
  }
  void skip_blanks();
  void read_string();
  void stop(std::string message);

  std::string_view text_;
  std::string file_;
  size_t position_ = 0, line_start_ = 0;
  int line_ = 1;
  Token token_;
  std::unique_ptr<Diagnostic> damage_;
};

/// A string of the text form with these contents; the lexer reads it back.
std::string quoted(std::string_view contents);
/// "found `x`" for messages.
std::string found(const Token& token);

}  // namespace nabla::ir
