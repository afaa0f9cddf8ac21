#include "runtime/device/library_call.h"

#include <fmt/format.h>

namespace nabla::device {

std::string GemmSpec::key() const {
  std::string out = fmt::format("gemm {} {}x{}x{}x{} {}{}", name_of(dtype), batch, m, n, k, transpose_a ? 't' : 'n',
                                transpose_b ? 't' : 'n');
  if (bias) out += " bias";
  if (addend) out += " add";
  if (epilogue != GemmEpilogue::kNone) out += epilogue == GemmEpilogue::kRelu ? " relu" : " gelu";
  return tf32 ? out + " tf32" : out;
}

double GemmSpec::flops() const {
  return 2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

}  // namespace nabla::device
