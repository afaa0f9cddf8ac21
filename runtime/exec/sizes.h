// Sizes that callers' arrays decide: solved from the shapes of an entry's inputs, checked, and evaluated into a table.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/format/program_generated.h"

namespace nabla::exec {

/// The symbols of one entry. `program` has passed the bundle reader's checks and outlives the object.
class EntrySizes {
 public:
  /// `places`: by group, which member this rank is. All three outlive the object.
  EntrySizes(const format::Program& program, const format::Entry& entry, std::span<const int64_t> places = {})
      : program_(program), entry_(entry), places_(places) {}

  /// False: every size is a constant.
  bool symbolic() const { return entry_.sources() != nullptr && entry_.sources()->size() > 0; }
  /// The value of each source from the inputs' extents; `shapes` have the inputs' ranks. Allocates nothing when all
  /// fits. E0703 names the argument, the symbol, its value and its range; for a conflict both arguments; for a
  /// constraint both sides and its declaration.
  Status solve(std::span<const int64_t* const> shapes, std::vector<int64_t>& values) const;
  /// The largest admissible values: those that memory is planned for.
  std::vector<int64_t> largest() const;
  /// The bucket of `values`: each rounded up to the next declared bound of its symbol, or, where there is none, to the
  /// next power of two of its multiples; at most `largest`. The values of a bucket need not fit each other.
  std::vector<int64_t> bucket(const std::vector<int64_t>& values) const;
  /// `largest`, and every combination of declared bounds that calls can have; at most format::kMaxBuckets.
  std::vector<std::vector<int64_t>> declared_buckets() const;
  /// Program.sizes at these values; 0 for sizes of other entries' symbols. E0703 when a size is negative or above its
  /// bound, which only a damaged program has.
  Result<std::vector<int64_t>> evaluate(const std::vector<int64_t>& values) const;
  /// Shapes of the entry's outputs, given the table.
  std::vector<std::vector<int64_t>> output_shapes(const std::vector<int64_t>& table) const;
  /// Bytes of the entry's inputs and outputs, given the table.
  std::vector<uint64_t> input_bytes(const std::vector<int64_t>& table) const;
  std::vector<uint64_t> output_bytes(const std::vector<int64_t>& table) const;
  const format::Program& program() const { return program_; }

 private:
  Status check_constraints(const std::vector<int64_t>& values) const;
  Result<int64_t> solve_one(uint32_t source, int64_t extent, const std::vector<int64_t>& earlier) const;
  Status check_constraint(const format::Constraint& constraint, const std::vector<int64_t>& values) const;
  /// Each once: "n = 3 from dimension 0 of input `x`".
  std::string values_text(std::initializer_list<const format::Size*> sizes, const std::vector<int64_t>& values) const;
  Status check_input(uint32_t input, const int64_t* shape, const std::vector<int64_t>& values) const;
  std::string origin(uint32_t source) const;
  std::string input_name(uint32_t input) const;

  const format::Program& program_;
  const format::Entry& entry_;
  std::span<const int64_t> places_;
};

/// What a reference of program.fbs stands for: `constant`, or an element of the table.
inline int64_t size_at(uint32_t reference, int64_t constant, const std::vector<int64_t>& table) {
  return reference == 0 ? constant : table[reference - 1];
}

}  // namespace nabla::exec
