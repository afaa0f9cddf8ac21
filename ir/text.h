// The text form of modules (.nbl): print and parse. Grammar: docs/ir-format.md.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ir/module.h"

namespace nabla::ir {

class ConstantWriter;
class OpTable;

struct PrintOptions {
  bool locations = false;
  /// Takes the literals above 1 KiB; null: every literal is printed in full.
  ConstantWriter* constants = nullptr;
  /// The sidecar's file name, for the header; needed with `constants`.
  std::string constants_name = {};
  /// For reading and comparing only: literals above 1 KiB are shown by their hash. Such a text does not parse.
  bool hash_constants = false;
  /// What is said of a node in a comment behind it, where it is not empty; null: nothing.
  std::function<std::string(const Function&, const Node&)> comment = {};
};

/// The same module gives the same text. Value names that are already used in their function are replaced by numbers.
/// A memory plan is shown as a comment only.
std::string print(const Module& module, const PrintOptions& options = {});
/// One function, as it stands in the text of its module.
std::string print(const Function& function);
/// A node's attributes but for the defaults, "axes=[1], keep=true"; of literals above 64 bytes the type alone.
std::string print_attrs(const Node& node);

/// Whether functions, nodes, constraints and leaves without a location of their own get the place where they stand in
/// the file: to show errors of passes and runs, not to write the module again.
enum class Places : uint8_t { kAsWritten, kOfFile };

/// Gives the contents of the sidecar of that name.
using LoadSidecar = std::function<Result<std::string>(const std::string& name)>;
/// The module of a text; every node is checked. Errors carry file, line and column. Without `load` a text with a
/// sidecar is refused (E0801).
Result<Module> parse_module(std::string_view text, const std::string& file_name, const OpTable& ops,
                            const LoadSidecar& load = {}, Places places = Places::kAsWritten);

}  // namespace nabla::ir
