// The calls of libraries in a GPU's program.
#pragma once

#include <string>
#include <vector>

#include "ir/bill/least_time.h"
#include "ir/library/call.h"
#include "ir/module.h"
#include "ir/target.h"

namespace nabla::ir {

/// All calls with one problem and one fallback.
struct LibraryBill {
  std::string problem;  ///< its key
  std::string library, epilogue;
  std::string compute;  ///< the format in which products are computed: "f32", "tf32", "f64"
  int64_t calls = 1;    ///< in the program's text
  int64_t workspace_bytes = 0, buffer_bytes = 0;
  std::string fallback;     ///< the kernel that computes the same
  LeastTime least;          ///< of one call
  double predicted_us = 0;  ///< of one call
};
/// In the order of first use.
std::vector<LibraryBill> library_calls(const Module& planned, const Target& target, const LeastTimes& times);
/// The index of the row for this call. The size of `rows` if there is none.
size_t row_of(const std::vector<LibraryBill>& rows, const LibraryCall& call);

}  // namespace nabla::ir
