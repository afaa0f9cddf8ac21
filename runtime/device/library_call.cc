#include "runtime/device/library_call.h"

namespace nabla::device {

std::string GemmSpec::key() const { return call_key<GemmProblemOf<int64_t>>(*this); }

double GemmSpec::flops() const { return flops_of(*this); }

}  // namespace nabla::device
