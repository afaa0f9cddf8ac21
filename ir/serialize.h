// Modules as files: text (.nbl), FlatBuffers (.nir) and the FlatBuffers JSON (.nir.json) of the same schema.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ir/module.h"
#include "ir/text.h"

namespace nabla::ir {

enum class Form : uint8_t { kText, kJson, kBinary };
/// By the path's extension; E0901 names the three extensions.
Result<Form> form_of(const std::string& path);

/// A module in a file. JSON and text come with a sidecar when a literal is above 1 KiB.
struct Encoded {
  std::string bytes;
  std::string sidecar;  ///< empty: none
};
/// `sidecar_name` is the plain file name that JSON and text give their sidecar. E0205 for binary and JSON from the
/// stage kernels on, whose kernels have a text form only. The same module gives the same bytes.
Result<Encoded> encode(const Module& module, Form form, const std::string& sidecar_name);

/// Reads what `encode` wrote. Damage, unknown ops and newer versions are diagnostics, never a crash; every node is
/// checked. `what` names the bytes in messages.
Result<Module> decode(std::string_view bytes, Form form, const std::string& what, const OpTable& ops,
                      const LoadSidecar& load = {}, Places places = Places::kAsWritten);

/// The module of a file; its sidecar lies beside it. E0801 when a file cannot be opened.
Result<Module> read_module(const std::string& path, const OpTable& ops, Places places = Places::kAsWritten);
/// Writes `path`, and `path`.consts first when the form needs it. E0803 on failure.
Status write_module(const std::string& path, const Module& module);

}  // namespace nabla::ir
