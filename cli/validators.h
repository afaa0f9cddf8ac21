// Checks of options that nablac and nabla-run share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "runtime/base/text.h"

namespace nabla::cli {

/// A path: "" is what an unset variable of a script gives, not a file.
inline CLI::Validator file_name() {
  return CLI::Validator([](std::string& text) { return std::string(text.empty() ? "the file name is empty" : ""); },
                        "");
}

/// What parse_bytes reads.
inline CLI::Validator number_of_bytes() {
  return CLI::Validator(
      [](std::string& text) {
        return parse_bytes(text) ? "" : fmt::format("`{}` is no number of {}", text, kByteUnits);
      },
      "");
}

}  // namespace nabla::cli
