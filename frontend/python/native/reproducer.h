// Bugs of Nabla in a process of Python: nabla.Error instead of the process's end, and a file that shows the bug.
#pragma once

#include "frontend/cpp/tensor.h"
#include "ir/module.h"
#include "passes/pass_manager.h"
#include "runtime/base/check.h"

namespace nabla::python {

/// From now on an internal check that fails on a thread of Python's raises nabla.Error (E0208). On other threads, which
/// nobody could catch it on, it ends the process as in C++.
void raise_failed_checks();

/// While it lives: what Nabla fails on in this thread is kept in a file, and the error says where.
class Reproducer {
 public:
  /// For a module that `command` (with FILE in the place of the module's path) compiles. `module` outlives this.
  Reproducer(const ir::Module& module, const std::string& command);
  Reproducer(const Reproducer&) = delete;
  /// A pass that fails leaves the module as it was before it.
  passes::ManagerOptions manager() const;
  template <class T>
  T value_or_throw(Result<T> result) const {
    if (!result.ok()) throw Error(with_place(result.errors()));
    return std::move(*result);
  }

 private:
  static Diagnostics with_place(Diagnostics errors);

  ScopedRescue rescue_;
};

}  // namespace nabla::python
