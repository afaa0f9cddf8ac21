// What a bundle for several ranks is made of, as text.
#pragma once

#include <string>

#include "runtime/format/bundle_reader.h"

namespace nabla::driver {

/// Meshes, classes with their entries and state, and who communicates with whom. Requires a rank table.
std::string ranks_text(const format::Bundle& bundle);

}  // namespace nabla::driver
