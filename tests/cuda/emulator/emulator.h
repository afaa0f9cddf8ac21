// CUDA kernels on the CPU: compile their text, give them device memory, launch them, read what they did wrong.
//
//   auto object = emulator::Object::compile(text, /*checked=*/true).value();
//   emulator::Machine machine(/*checked=*/true);
//   void* x = machine.allocate(400, "x");
//   machine.write(x, host, 400);
//   emulator::Report report = machine.launch(*object, "kernel", {.blocks = 2, .threads = 64}, {&x}, {});
//   EXPECT_TRUE(report.clean()) << report.str();
//
// docs/cuda-testing.md says what is modelled.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/cuda/emulator/memory.h"
#include "tests/cuda/emulator/object.h"
#include "tests/cuda/emulator/report.h"

namespace nabla::emulator {

struct Shape {
  unsigned blocks = 1, threads = 1;
  size_t shared_bytes = 0;  ///< dynamic, per block
};

class Checker;

/// One device. Checked machines run checked objects; plain ones run both, and check neither.
class Machine {
 public:
  explicit Machine(bool checked);
  ~Machine();

  /// Filled with 0xff and, to the checker, uninitialised. The name is for findings.
  void* allocate(int64_t bytes, const std::string& name = "memory");
  /// Memory that is somebody else's, uninitialised to the checker, until it is released.
  void adopt(void* at, int64_t bytes, const std::string& name) { memory_.adopt(at, bytes, name); }
  void release(void* at) { memory_.release(at); }
  /// From the host; the bytes are then initialised.
  void write(void* to, const void* from, int64_t bytes);
  /// The bytes have been written without `write`, or have been copied by the host.
  void note_written(const void* at, int64_t bytes) { memory_.mark_initialised(at, bytes); }
  void note_copied(const void* to, const void* from, int64_t bytes) { memory_.copy_marks(to, from, bytes); }
  /// Fills with 0xff again; the bytes are uninitialised again.
  void poison(void* at, int64_t bytes);
  /// A finding "unwritten" when bytes of the allocation `at` have not been written. Of a checked machine.
  void expect_written(const void* at, Report& report) const;

  /// `args[i]` points to the value of argument i. A symbol that the object lacks is a finding "launch", as are writes
  /// to the zones around allocations ("bounds", plain machines too).
  Report launch(const Object& object, const std::string& symbol, const Shape& shape, const std::vector<void*>& args,
                const Options& options);

 private:
  Memory memory_;
  std::unique_ptr<Checker> checker_;
};

}  // namespace nabla::emulator
