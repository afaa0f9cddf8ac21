// Fibers: stacks with a guard page, and the switch between them (x86-64, System V).
#pragma once

#include <cstddef>
#include <vector>

namespace nabla::emulator {

using Context = void*;  ///< a saved stack pointer; the registers lie after it

/// Saves where we are in *from and goes on at `to`.
extern "C" void nb_fiber_switch(Context* from, Context to);

/// Stacks of one size, kept for the next block.
class Stacks {
 public:
  static constexpr size_t kBytes = 256 << 10;  // touched pages alone take memory

  ~Stacks();
  /// A stack on which a switch to its context calls `entry`, which must not return.
  int take(void (*entry)());
  void give(int stack) { free_.push_back(stack); }
  void give_all();
  Context context(int stack) const { return stacks_[stack].context; }
  bool holds(int stack, const void* p) const;

 private:
  struct Stack {
    char* base;
    Context context;
  };
  std::vector<Stack> stacks_;
  std::vector<int> free_;
};

}  // namespace nabla::emulator
