// Procedures: kernels whose algorithm no formula over elements describes (sorting, running sums, factorisations). A
// procedure is a row with the names of its numbers and its slow meaning; code generators hold a template of the same
// name (codegen/cpu/procedures.h). Every procedure sees its tensors as [outer, count, inner] and works along `count`, row
// by row.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/dim.h"
#include "runtime/base/literal.h"

namespace nabla::kernel_ir {

/// The family of a procedure, by which code generators choose their templates.
enum class Algorithm : uint8_t {
  kScan,          ///< running sums, products and extremes
  kScanPosition,  ///< where running extremes are
  kSort,
  kSelect,  ///< the first elements of a sorted row
  kMatrix,  ///< a factorisation or a solution; a row is a matrix
  kFourier,
  kAttention,
  kAttentionGrad,
  kUser,  ///< the user's own code
};

struct ProcedureDef {
  std::string_view name;
  Algorithm algorithm;
  /// Names of the numbers after outer, count and inner.
  std::vector<std::string_view> numbers;
  /// Bytes of scratch memory for one row of `count` elements.
  int64_t (*scratch)(std::span<const int64_t> numbers);
  /// Operations for one row, for scheduling.
  double (*work)(std::span<const int64_t> numbers);
  /// The meaning; `results` have their types already.
  void (*run)(std::span<const int64_t> numbers, std::span<const Literal* const> operands,
              std::span<Literal* const> results);
  bool gpu_only = false;  ///< no CPU code generator has a template for it
  /// How many parts of one row a GPU's block can compute at the same time; null or 0: one thread computes a row.
  int64_t (*parallel_in_row)(std::span<const int64_t> numbers) = nullptr;
};

/// Source text that the user wrote, and where it is in the user's program.
struct UserText {
  std::string text;  ///< empty: there is none
  std::string file;
  int64_t line = 1;
  bool operator==(const UserText&) const = default;
};

/// The user's code, which takes the place of a template (docs/user-kernels.md). Each text defines the function `name`,
/// which takes a pointer per operand, then per result, then the numbers after outer, count and inner.
struct UserCode {
  std::string name;
  UserText cpp, cuda;
  int cuda_threads = 256, cuda_shared_bytes = 0;  ///< of a block; the number of blocks is the procedure's last number
  std::optional<DType> type;                      ///< what the texts call T
  std::vector<std::string> sizes;                 ///< names of the numbers
  int rows = -1;              ///< the number that is outer, so that calls for blocks of it are one call; -1: none
  std::vector<bool> by_rows;  ///< per operand and result: is it its first dimension?
  bool operator==(const UserCode&) const = default;
};

/// A use of a procedure. Its numbers are outer, count, inner, then those that its row names. The numbers of `user` are
/// its sizes, then, if there is a text for CUDA, the number of blocks.
struct Procedure {
  const ProcedureDef* def = nullptr;
  std::vector<ir::Dim> numbers;
  std::shared_ptr<const UserCode> user = nullptr;  ///< of the procedure `user`; count is elements per row then
  const ir::Dim& outer() const { return numbers[0]; }
  const ir::Dim& count() const { return numbers[1]; }
  const ir::Dim& inner() const { return numbers[2]; }
  ir::Dim rows() const { return outer() * inner(); }
  /// By its name in names(). Aborts when there is none.
  const ir::Dim& number(std::string_view name) const;
  std::vector<int64_t> most() const;               ///< the numbers at the upper bounds of sizes
  std::vector<int64_t> values() const;             ///< static numbers
  std::vector<std::string> names() const;          ///< of the numbers, "outer" first
  const ir::Dim& cuda_blocks() const;              ///< at least 1; of a `user` with a text for CUDA
  bool operator==(const Procedure& other) const;
};

constexpr int64_t kSortedBytes = 16;  ///< of an element that a GPU sorts: key, order, position
/// Whether the procedure sorts rows, wholly or to select from them.
bool is_sort(const Procedure& procedure);
/// How many elements at a time a GPU's block sorts in shared memory: a power of two, 64 or more. 0 if the procedure does
/// not sort, or if shared memory is too small for what must stay in it: a row of argsort, 2 k elements of top_k. A
/// procedure that sorts in shared memory needs no scratch memory.
int64_t elements_sorted_by_a_block(const Procedure& procedure, int64_t shared_bytes);
/// For sorts for which elements_sorted_by_a_block is 0: how many elements at a time a block sorts, a power of two. The
/// sorted parts of a row are then merged, pair by pair, from one half of the scratch memory to the other. 0 for all
/// other procedures.
int64_t elements_sorted_in_parts(const Procedure& procedure, int64_t shared_bytes);
/// Bytes of an element of the scratch memory, which holds a key and a position: 8 or 16. `key_bytes` are those of the
/// largest key's dtype.
int merged_bytes(const Procedure& procedure, int key_bytes);

/// Null when there is no such procedure.
const ProcedureDef* find_procedure(std::string_view name);
/// Aborts when the name is unknown or the number of numbers is wrong.
Procedure procedure(std::string_view name, std::vector<ir::Dim> numbers);
/// The procedure `user`.
Procedure user_procedure(UserCode code, std::vector<ir::Dim> numbers);

}  // namespace nabla::kernel_ir
