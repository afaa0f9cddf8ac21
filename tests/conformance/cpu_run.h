// Compiles modules with the CPU backend and runs them in this process.
#pragma once

#include <memory>
#include <vector>

#include "ir/module.h"
#include "ir/target.h"
#include "runtime/exec/session.h"

namespace nabla::conformance {

struct Compiled {
  ir::Module planned;
  std::unique_ptr<exec::Session> session;
};

/// Through fuse and plan_memory.
Result<ir::Module> planned_for(const ir::Module& module, const ir::Target& target);
/// The same and the kernels; `library` allows oneDNN.
Result<Compiled> compile_for_cpu(const ir::Module& module, const std::string& target = "cpu:native",
                                 bool library = false);

}  // namespace nabla::conformance
