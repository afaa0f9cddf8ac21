// A regular expression of names.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace nabla::passes {

/// Which whole names a text matches: an extended regular expression of POSIX (`.*`, `+`, `?`, `{2,3}`, `|`, groups, `[a-z]`), with
/// `\d`, `\w`, `\s` and `(?:...)` as in other dialects. That is what names need, and whether a name matches is decided in bounded
/// time; back references and looking ahead, with which it would not be, are refused.
class NamePattern {
 public:
  /// Nothing, and in `why` the reason ("`(` has no `)`"), where the text is no such expression.
  static std::optional<NamePattern> parse(const std::string& text, std::string& why);
  bool matches(const std::string& name) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace nabla::passes
