// The FlatBuffers form. Internal to ir.
#pragma once

#include <string>
#include <string_view>

#include "ir/constants.h"
#include "ir/raw.h"
#include "ir/text.h"

namespace nabla::ir {

/// `constants_file` empty: the external section stands inside; otherwise it is left in `constants`, and the file says
/// that name.
std::string write_binary(const Module& module, ConstantWriter& constants, bool sidecar,
                         const std::string& constants_file);
/// E0105, E0103, E0104 or E0106 for bytes that are no such file. `bytes` is aligned to 64.
Result<RawModule> read_binary(std::string_view bytes, const std::string& what, const LoadSidecar& load);

}  // namespace nabla::ir
