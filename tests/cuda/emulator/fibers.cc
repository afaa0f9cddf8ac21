#include "tests/cuda/emulator/fibers.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

namespace nabla::emulator {

namespace {
constexpr size_t kGuard = 4096;
}

// Only what a callee must keep: everything else is saved by the caller.
asm(".text\n"
    ".globl nb_fiber_switch\n"
    ".type nb_fiber_switch,@function\n"
    "nb_fiber_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n"
    ".size nb_fiber_switch, .-nb_fiber_switch\n");

Stacks::~Stacks() {
  for (const Stack& s : stacks_) munmap(s.base, kBytes);
}

int Stacks::take(void (*entry)()) {
  if (free_.empty()) {
    void* base = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED || mprotect(base, kGuard, PROT_NONE) != 0) {
      std::perror("a fiber's stack");
      std::abort();
    }
    stacks_.push_back({static_cast<char*>(base), nullptr});
    free_.push_back(static_cast<int>(stacks_.size()) - 1);
  }
  int stack = free_.back();
  free_.pop_back();
  // As a call of `entry` leaves it: a return address at an address that 16 divides but for 8, and six registers.
  void** top = reinterpret_cast<void**>(stacks_[stack].base + kBytes - 64);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int r = 0; r < 6; ++r) *--top = nullptr;
  stacks_[stack].context = top;
  return stack;
}

void Stacks::give_all() {
  free_.clear();
  for (size_t i = 0; i < stacks_.size(); ++i) free_.push_back(static_cast<int>(i));
}

bool Stacks::holds(int stack, const void* p) const {
  const char* base = stacks_[stack].base;
  return p >= base && p < base + kBytes;
}

}  // namespace nabla::emulator
