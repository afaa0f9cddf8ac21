// What went wrong, for people: a stable code, a message with the actual values, where, and what to do.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/base/codes.h"

namespace nabla {

/// A place in the user's program. It carries the source line's text, so that a diagnostic needs no file.
struct Location {
  std::string file;      ///< empty: unknown
  int line = 0;          ///< 1-based; 0: unknown
  int column = 0;        ///< 1-based; 0: unknown
  std::string function;  ///< may be empty
  std::string text;      ///< the source line, may be empty
  bool operator==(const Location&) const = default;
};
using LocationRef = std::shared_ptr<const Location>;  ///< null: unknown
/// To follow what lies there: " at model.cc:14", or " in model.nir" where the line is unknown; empty: so is the file.
std::string at_place(const LocationRef& location);

struct Diagnostic {
  Code code = {};
  std::string message;
  LocationRef location;  ///< null: unknown
  std::string excerpt;             ///< what stands below the source line, such as the operands' types
  std::vector<std::string> notes;  ///< where the operands came from
  std::string help;                ///< what to do; empty: the code's own help is shown

  // These stand in diagnostic.cc: every statement that returns an error would hold a copy of them.
  Diagnostic();
  Diagnostic(Code code, std::string message);
  Diagnostic(const Diagnostic&);
  Diagnostic(Diagnostic&&) noexcept;
  Diagnostic& operator=(const Diagnostic&);
  Diagnostic& operator=(Diagnostic&&) noexcept;
  ~Diagnostic();

  /// "error[E0203]: dot: ..." with location, excerpt, notes and help, in that order; ends with a newline.
  std::string str() const;
};
using Diagnostics = std::vector<Diagnostic>;
Diagnostics only(Diagnostic d);
Diagnostics checked(Diagnostics d);  ///< a failed Result needs a diagnostic
[[noreturn]] void value_of_failed(const Diagnostics& errors);

std::string to_string(const Diagnostics& diagnostics);
/// "E0203"
std::string code_name(Code code);

/// Either a value or at least one diagnostic.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Diagnostic d) : state_(std::in_place_index<1>, only(std::move(d))) {}
  Result(Diagnostics d) : state_(std::in_place_index<1>, checked(std::move(d))) {}
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return check_ok(), std::get<0>(state_); }
  const T& value() const& { return check_ok(), std::get<0>(state_); }
  T&& value() && { return check_ok(), std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Diagnostics& errors() const { return std::get<1>(state_); }
  Diagnostics& errors() { return std::get<1>(state_); }

 private:
  void check_ok() const {
    if (!ok()) value_of_failed(std::get<1>(state_));
  }
  std::variant<T, Diagnostics> state_;
};

struct Ok {};
/// A Result without a value: `return Ok{};` or `return error(...)`.
using Status = Result<Ok>;

Diagnostic formatted_error(Code code, fmt::string_view format, fmt::format_args args);
/// A diagnostic whose message is formatted.
template <class... Args>
Diagnostic error(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return formatted_error(code, format, fmt::make_format_args(args...));
}

/// The known name nearest to `name` by edit distance, or "" when none is near.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);
/// "; did you mean `x`?" or "".
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known);

}  // namespace nabla

/// Yields the value of a Result, or returns its diagnostics from the enclosing function.
#define NABLA_TRY(expression)                                                \
  ({                                                                         \
    auto nabla_try_result = (expression);                                    \
    if (!nabla_try_result.ok()) return std::move(nabla_try_result.errors()); \
    std::move(nabla_try_result).value();                                     \
  })
