// The machine code of a GPU's kernel, read without NVIDIA's tools: what instructions there are, in which loops they stand, how
// many loads are on their way at a time.
#pragma once

#include <string_view>
#include <vector>

namespace nabla::codegen {

/// Instructions that move 1 or 2, 4, 8, 16 bytes per thread.
struct AccessCounts {
  int narrow = 0, bytes4 = 0, bytes8 = 0, bytes16 = 0;
  int total() const { return narrow + bytes4 + bytes8 + bytes16; }
  /// Per thread, each of them run once; a narrow one counts as two bytes.
  int bytes() const { return 2 * narrow + 4 * bytes4 + 8 * bytes8 + 16 * bytes16; }
  bool operator==(const AccessCounts&) const = default;
};

/// How often instructions stand in code, not how often they run.
struct InstructionCounts {
  int all = 0;  ///< without what only fills up the code's end
  AccessCounts global_loads, global_stores, shared_loads, shared_stores;
  AccessCounts async_copies;  ///< global to shared memory (LDGSTS)
  int local_loads = 0, local_stores = 0;
  int matrix_loads = 0;              ///< LDSM
  int boxes = 0;                     ///< that the copy engine is asked for (UTMALDG)
  int hmma = 0, qmma = 0, hgmma = 0;  ///< tensor cores: of a warp, the same of 8-bit floats, of four warps (of both)
  int ffma = 0, dfma = 0, imad = 0;  ///< multiply-adds: f32, f64, of 32-bit integers (also with 64-bit sums)
  int mufu = 0, bars = 0;            ///< special functions, barriers of a block
  bool operator==(const InstructionCounts&) const = default;
};

/// A loop, or the code that is in none.
struct CodeLoop {
  int parent = -1;               ///< the loop around it, an index; of the code that is in none -1
  int depth = 0;                 ///< in how many loops its instructions stand
  int first = 0;                 ///< the instruction to which it branches back
  bool innermost = true;         ///< no loop stands in it
  InstructionCounts own;         ///< what stands in it and in no loop inside
  /// Of those, by themselves: clocks from one to the next as the compiler plans them, and how often a warp waits for a load from
  /// global memory that was issued after the wait before.
  int clocks = 0, waits = 0;
  /// Of its own instructions those that a branch may go round in a trip, their clocks, and such waits among them.
  int skipped = 0, skipped_clocks = 0, skipped_waits = 0;
  bool operator==(const CodeLoop&) const = default;
};

struct KernelCode {
  std::vector<CodeLoop> loops;  ///< the first is the code that is in none; a loop stands after the one around it
  int apart = 0;                ///< instructions of functions that are called, such as a division's rare cases
  /// The most loads from global memory, and their bytes per thread, that have been issued before an instruction waits for one of
  /// them; copies to shared memory (LDGSTS) are not among them.
  int loads_in_flight = 0, bytes_in_flight = 0;
  bool operator==(const KernelCode&) const = default;
};

/// Counts of a section .text.KERNEL for a compute capability such as 90: 16 bytes an instruction; a rest is ignored.
InstructionCounts count_instructions(std::string_view code, int compute);
/// The structure of such a section. Loops are those of its graph of branches (a branch back to an instruction that all ways to the
/// branch come through); of branches to computed places nothing is known. No byte is trusted: any bytes have a structure.
/// Sources: encodings of branches and of scoreboards as observed with CUDA 13.0 for sm_80 to sm_120.
KernelCode read_code(std::string_view code, int compute);

}  // namespace nabla::codegen
