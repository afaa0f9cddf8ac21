// How much memory the process may have: what is planned is compared with it before anything is allocated, because a system
// that promises more than it has kills who takes it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "runtime/base/diagnostic.h"

namespace nabla::exec {

struct MemoryLimit {
  uint64_t bytes = UINT64_MAX;
  std::string whose;  ///< "the machine's memory"
};
/// The smallest of the machine's memory, the limit of the address space (RLIMIT_AS) and those of the control groups, of
/// version 1 or 2, that the process is in. `read` gives a file's text.
using ReadFile = std::function<std::optional<std::string>(const std::string&)>;
MemoryLimit memory_limit(const ReadFile& read);
MemoryLimit memory_limit();

/// E0804 where `who` needs more: "4 ranks need 3200 MiB, and ...".
Status check_memory(uint64_t bytes, const std::string& who);

}  // namespace nabla::exec
