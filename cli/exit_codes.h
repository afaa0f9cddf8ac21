// What Nabla's programs end with.
#pragma once

#include <string>

#include "runtime/base/codes.h"

namespace nabla::cli {

/// `fine`: of nabla-run with several ranks or with --checkpoint-dir, where whoever starts the job again decides by the code.
/// Otherwise 1, 2 for a wrong command line, or 130.
int exit_code(Code code, bool fine);
/// The table for people, a line per code.
std::string exit_codes_text();

}  // namespace nabla::cli
