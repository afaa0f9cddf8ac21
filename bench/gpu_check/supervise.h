// Runs tasks in a child process, and goes on with a new one after a task that ends it: a kernel that faults leaves no
// context behind in which another could run, and one that hangs never returns.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/gpu_check/check.h"

namespace nabla::gpu_check {

/// Runs `tasks` in order. `command` starts a child, which gets one more argument, the index of its first task, and
/// writes a line of JSON to stdout for each task that ends (`serve`). Every row reaches `keep` at once: the child's, or
/// one with `ok` false and the reason in `failed`. Tasks that have not begun after `within_s` seconds are not run, and say so.
void supervise(const std::vector<Task>& tasks, const std::vector<std::string>& command, double within_s,
               const std::function<void(nlohmann::json row)>& keep);

/// The child's side: runs tasks from `first` on until one fails with an error, and returns the process's exit code.
int serve(Check& check, const std::vector<Task>& tasks, size_t first);

}  // namespace nabla::gpu_check
