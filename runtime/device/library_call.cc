#include "runtime/device/library_call.h"

namespace nabla::device {

std::string GemmSpec::key() const {
  std::string out = problem_key<GemmProblemOf<int64_t>>(*this), done = epilogue();
  if (!done.empty()) out += " " + done;
  return tf32 ? out + " tf32" : out;
}

double GemmSpec::flops() const { return flops_of(*this); }

}  // namespace nabla::device
