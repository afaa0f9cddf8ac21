#include "runtime/exec/arena.h"

#include <sys/mman.h>

#include <utility>

#include "runtime/exec/memory_limit.h"

namespace nabla::exec {

Result<Arena> Arena::allocate(uint64_t bytes) {
  (void)NABLA_TRY(check_memory(bytes, "the program needs"));
  constexpr size_t kHuge = size_t{2} << 20;
  Arena arena;
  arena.map_bytes_ = (bytes + kHuge - 1) / kHuge * kHuge + kHuge;
  arena.map_ = ::mmap(nullptr, arena.map_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (arena.map_ == MAP_FAILED) {
    arena.map_ = nullptr;
    return error(Code::kOutOfMemory, "the program needs an arena of {} bytes, which the system does not give", bytes);
  }
  auto start = reinterpret_cast<uintptr_t>(arena.map_);
  arena.data_ = reinterpret_cast<char*>((start + kHuge - 1) / kHuge * kHuge);
  // Only a wish: without huge pages the program runs all the same.
  (void)::madvise(arena.data_, arena.map_bytes_ - kHuge, MADV_HUGEPAGE);
  return arena;
}

Arena::~Arena() {
  if (map_ != nullptr) ::munmap(map_, map_bytes_);
}

Arena::Arena(Arena&& other) noexcept
    : map_(std::exchange(other.map_, nullptr)), map_bytes_(other.map_bytes_), data_(other.data_) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(map_, other.map_);
  std::swap(map_bytes_, other.map_bytes_);
  std::swap(data_, other.data_);
  return *this;
}

}  // namespace nabla::exec
