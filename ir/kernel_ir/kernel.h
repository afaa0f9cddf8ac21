// kernel_ir: one kernel as parallel loops, reductions, ordered loops and stores; printable and parseable.
// Semantics come first (what is computed for which index); the schedule (what lives where, which axis goes to
// threads or vector lanes) is kept beside it and never changes a result beyond rounding.
// Grammar and the nine reference kernels: docs/kernel-ir.md and tests/golden/kernel_ir/.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "ir/kernel_ir/fragment.h"
#include "ir/kernel_ir/schedule.h"
#include "runtime/base/diagnostic.h"
#include "runtime/base/literal.h"

namespace nabla::kernel_ir {

enum class BufferRole : uint8_t { kIn, kOut, kInOut, kWorkspace };

struct Buffer {
  std::string name;
  DType dtype;
  ir::Shape shape;
  BufferRole role;
};

/// A value inside a kernel: `let m`, `let e[j]`, or a loop's carried state.
struct ValueInfo {
  std::string name;
  DType dtype;
  std::vector<int> axes;  ///< its own axes; empty: one number per iteration of the enclosing loops
};

struct Stmt;
using Body = std::vector<Stmt>;

/// let name[axes]: dtype = combiner(reduce) expr
struct Let {
  int value;  ///< into Kernel::values
  Combiner combiner = Combiner::kNone;
  std::vector<int> reduce;
  Expr expr;
  /// sum of products that a matrix micro-kernel computes; at the top level of a kernel only.
  bool contract = false;
};

/// store buffer[indices] over axes (= | combiner=) expr if guard
/// A plain store writes each place once. A combining store may meet a place many times: iterations are combined
/// in row-major order of the enclosing axes, or in a fixed tree that does not depend on the number of threads.
struct Store {
  int buffer;
  std::vector<Expr> indices;
  std::vector<int> axes;  ///< parallel axes of this statement alone
  Combiner combiner = Combiner::kNone;
  Expr expr;
  Expr guard;  ///< may be null
};

/// for axes { body }: the iterations are independent but for combining stores.
struct For {
  std::vector<int> axes;
  Body body;
};

/// loop axis carry (s[tile]: dtype = init, ...) { body; next s = expr }: iterations in ascending order (descending
/// with `reverse`). After the loop the carried values hold the last `next`.
struct Loop {
  int axis;
  bool reverse = false;
  std::vector<int> state;  ///< values
  std::vector<Expr> init;  ///< over the value's own axes
  Body body;
  std::vector<Expr> next;
};

struct Stmt {
  std::variant<Let, Store, For, Loop> node;
};

struct Kernel {
  std::string name;
  std::vector<Buffer> buffers;  ///< in the order of the launch arguments
  std::vector<Axis> axes;
  std::vector<ValueInfo> values;
  Body body;
  std::optional<Schedule> schedule;    ///< none before schedule-kernels
  std::optional<Procedure> procedure;  ///< instead of a body: from the `in` buffers to the `out` buffers
};
using KernelPtr = std::shared_ptr<const Kernel>;
/// The schedule of a kernel for this kind of target. Aborts when it has none, or one for the other kind.
const CpuSchedule& cpu_schedule_of(const Kernel& kernel);
const CudaSchedule& cuda_schedule_of(const Kernel& kernel);

/// Text that parse_kernel reads back to an equal kernel. Sizes that are known only at run time stand in dim(...), whose
/// inside `read_size` understands; without it such sizes are refused.
std::string print(const Kernel& kernel);
using ReadSize = std::function<Result<ir::Dim>(std::string_view text)>;
Result<Kernel> parse_kernel(std::string_view text, const std::string& file_name, const ReadSize& read_size = nullptr);
/// Checks references, dtypes, ranks and that every axis is bound where it is used.
Status verify(const Kernel& kernel);
/// E0208 where an affine index (also divided, or with a remainder) leaves its tensor at the symbols' smallest or
/// largest values, with the range and the extent; guards count. What the sizes do not decide passes. Requires a
/// verified kernel.
Status check_accesses(const Kernel& kernel);
/// E0208 for a schedule that leaves out iterations or statements, or names an axis that it cannot have. Requires a
/// verified kernel with a schedule.
Status check_schedule(const Kernel& kernel);
/// The symbols of all its sizes, each once: the order of the launch's extents.
std::vector<ir::SymbolRef> symbols_of(const Kernel& kernel);
/// Which special numbers in a result are no sign of a fault: those that the kernel has as constants, such as the -infinity of a mask. If
/// the kernel only moves numbers, all are. What loops begin with does not count: a maximum begins with -infinity.
struct WantedSpecials {
  bool infinity, nan;
};
WantedSpecials wanted_specials(const Kernel& kernel);
/// The kernel with every size replaced.
Kernel with_sizes(const Kernel& kernel, const std::function<ir::Dim(const ir::Dim&)>& resolve);
/// Runs a kernel with static extents, slowly. `buffers` follow Kernel::buffers; outputs are written.
void interpret(const Kernel& kernel, std::vector<Literal*> buffers);

}  // namespace nabla::kernel_ir
