// How Python programs spell the options that messages of the compiler and the runtime mention.
#pragma once

#include <string>

#include "runtime/base/codes.h"
#include "runtime/base/option_name.h"

namespace nabla::python {

/// Returns the option as an argument of the package: `zero_axes`, or `mesh={"dp": 2}` for `mesh` with the value "dp=2".
std::string spelled_for_python(const OptionName& option);
/// Returns the help that a diagnostic without one of its own gets in Python. It is empty if the code's own help fits there, too.
std::string help_for_python(Code code);

}  // namespace nabla::python
