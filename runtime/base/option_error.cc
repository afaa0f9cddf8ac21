#include "runtime/base/option_error.h"

namespace nabla {

Diagnostic formatted_option_error(fmt::string_view help, fmt::string_view format, fmt::format_args args) {
  Diagnostic d = formatted_error(Code::kBadOption, format, args);
  d.help.assign(help.data(), help.size());
  return d;
}

}  // namespace nabla
