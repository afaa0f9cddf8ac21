// The session's memory: one block for state and temporaries.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/diagnostic.h"

namespace nabla::exec {

/// Zero-filled memory that starts at a multiple of 2 MB and asks for huge pages.
class Arena {
 public:
  Arena() = default;
  /// E0804 for more than the process may have, and when the system refuses.
  static Result<Arena> allocate(uint64_t bytes);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;

  char* data() const { return data_; }

 private:
  void* map_ = nullptr;
  size_t map_bytes_ = 0;
  char* data_ = nullptr;
};

}  // namespace nabla::exec
