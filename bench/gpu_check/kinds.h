// The programs that a check of a GPU runs: one entry per kind of kernel, and what the ceilings are measured by.
#pragma once

#include <string>
#include <vector>

#include "frontend/nabla.h"

namespace nabla::gpu_check {

/// How large everything is: `small` is for the emulator, whose numbers mean nothing.
struct Scale {
  bool small = false;
  int64_t of(int64_t full, int64_t tiny) const { return small ? tiny : full; }
};

/// An entry of the kinds' program, and how its results may differ from the CPU's.
struct Kind {
  std::string name;
  double tolerance = 2e-5;  ///< |got - want| <= tolerance (1 + |want|)
  int64_t integers = 8;     ///< integer inputs are drawn from [0, integers)
};
/// Declares an entry per kind of kernel.
std::vector<Kind> add_kinds(Program& program, const Scale& scale);
/// Declares entries for NVIDIA's libraries: products, and convolutions with both gradients.
std::vector<Kind> add_library_kinds(Program& program, const Scale& scale);
/// Declares entries whose f32 factors may be rounded to tf32.
std::vector<Kind> add_tf32_kinds(Program& program, const Scale& scale);

/// What an entry's time is compared with: bytes per second, or floating-point operations of vector or tensor cores.
enum class Unit { kBytes, kFlops, kTensorFlops };
/// An entry whose time is measured. It does the same work several times, each time on operands and a result of its own, so that no cache
/// holds them and the time of a run is small beside it. All of them are state, which entry `fill` fills.
struct Speed {
  std::string entry;
  double work = 0;   ///< units of one run, of all launches
  Unit unit = Unit::kBytes;
  int launches = 1;  ///< how often a run does the work
};
/// How often a run does work on so many bytes of operands and results: 20 times, or less often within `most_bytes`.
int launches_of(double bytes, double most_bytes, int most);
/// A copy, products, and layers of GPT-2's sizes.
std::vector<Speed> add_speeds(Program& program, const Scale& scale);
/// The products alone.
std::vector<Speed> add_product_speeds(Program& program, const Scale& scale);
/// Entries `fill_link`, `one` and `chain`: one kernel, and 512 kernels each of which needs the one before.
void add_launches(Program& program, const Scale& scale);

}  // namespace nabla::gpu_check
