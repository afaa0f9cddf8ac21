// Executables that carry a bundle: nabla-run with a bundle at its end.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/diagnostic.h"
#include "runtime/format/file.h"

namespace nabla::format {

/// Whether this program was written by write_executable: it then ends with a bundle, or did before it was cut.
bool carries_bundle();
/// Writes an executable that carries a bundle: the runtime's bytes, in which carries_bundle() turns true, padding, then
/// `bundle`. All or nothing. E0105 when `runtime` is no program with one carries_bundle() in it.
Status write_executable(const std::string& path, Bytes runtime, std::string_view bundle);

}  // namespace nabla::format
