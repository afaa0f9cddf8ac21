// Tuning files: which implementation measured fastest for a problem on one machine. A tuning file is an input of
// the compile, so that bundles stay reproducible.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "ir/op_def.h"
#include "ir/target.h"

namespace nabla::driver {

/// Reads "nabla-tuning 1" and lines `KEY = CHOICE` into target.choices; # starts a comment. E0503 with the line.
Status read_tuning(const std::string& path, ir::Target& target);

/// Measures every matrix product of the module on this machine, generated code against each library path, and
/// returns the file's text. `progress` gets a line per problem.
Result<std::string> tune(const ir::Module& flat, const ir::OpTable& ops, const ir::Target& target, int threads,
                         const std::function<void(const std::string&)>& progress);

}  // namespace nabla::driver
