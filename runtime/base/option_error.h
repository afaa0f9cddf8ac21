// What is wrong with an option, and what to give instead.
#pragma once

#include "runtime/base/diagnostic.h"

namespace nabla {

Diagnostic formatted_option_error(fmt::string_view help, fmt::string_view format, fmt::format_args args);
/// E0901 with help: what the option takes, or what to do without it.
template <class... Args>
Diagnostic option_error(fmt::string_view help, fmt::format_string<Args...> format, Args&&... args) {
  return formatted_option_error(help, format, fmt::make_format_args(args...));
}

}  // namespace nabla
