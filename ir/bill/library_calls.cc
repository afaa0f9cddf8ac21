#include "ir/bill/library_calls.h"

#include <algorithm>

#include "ir/cost/time.h"

namespace nabla::ir {

size_t row_of(const std::vector<LibraryBill>& rows, const LibraryCall& call) {
  auto same = [problem = call.key(), &call](const LibraryBill& row) {
    return row.problem == problem && row.fallback == call.fallback->kernel;
  };
  return static_cast<size_t>(std::find_if(rows.begin(), rows.end(), same) - rows.begin());
}

std::vector<LibraryBill> library_calls(const Module& planned, const Target& target, const LeastTimes& times) {
  std::vector<LibraryBill> out;
  for (const FunctionPtr& f : planned.functions)
    for (const Node& n : f->nodes) {
      if (n.op->lower != Lowering::kLibrary) continue;
      const LibraryCall call = library_call(n, *f, target);
      if (const size_t row = row_of(out, call); row < out.size()) {
        ++out[row].calls;
        continue;
      }
      out.push_back({.problem = call.key(),
                     .library = std::string(call.library),
                     .epilogue = call.epilogue(),
                     .compute = std::string(product_rate(call.dtype(), target).compute),
                     .workspace_bytes = call.workspace_bytes,
                     .buffer_bytes = operand_bytes(*f, n).bounds().max,
                     .fallback = call.fallback->kernel,
                     .least = times.call(n, *f),
                     .predicted_us = times.predicted_call_us(n, *f)});
    }
  return out;
}

}  // namespace nabla::ir
