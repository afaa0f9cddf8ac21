// What is wrong with an option, and what to give instead.
#pragma once

#include "runtime/base/diagnostic.h"

namespace nabla {

/// E0901 with help: what the option takes, or what to do without it.
template <class... Args>
Diagnostic option_error(std::string help, fmt::format_string<Args...> format, Args&&... args) {
  Diagnostic d = formatted_error(Code::kBadOption, format, fmt::make_format_args(args...));
  d.help = std::move(help);
  return d;
}

}  // namespace nabla
