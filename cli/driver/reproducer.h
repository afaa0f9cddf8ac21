// What is kept of a program on which Nabla itself failed.
#pragma once

#include <string>

#include "ir/module.h"
#include "runtime/base/diagnostic.h"

namespace nabla::driver {

/// Writes the module as text to PROGRAM-reproducer-PID.nbl in $TMPDIR (else /tmp). Its first line is `command`, the
/// FILE in it replaced by the path. Returns a sentence that says where the file is and what to run.
Result<std::string> write_reproducer(const ir::Module& before, const std::string& command, const std::string& program);

}  // namespace nabla::driver
