#include "ir/cost/time.h"

#include <algorithm>

namespace nabla::ir {
namespace {

constexpr double kFlopsPerUs = 1e6;         // of a TFLOP a second
constexpr double kBytesPerUs = 1e3;         // of a GB a second
// Sixteen lanes, one direction, as data sheets state them for both: "PCIe Gen5: 128 GB/s" of the H100, "PCIe Gen4: 64 GB/s" of
// the A100. GPUs before compute capability 9.0 have the latter.
constexpr double kPcie5Gbs = 64, kPcie4Gbs = 32;
constexpr double kInstructionsPerNs = 2.5;  // of vectors, that a core finishes in generated code
constexpr double kThreadBytesPerUs = 1e4;    // that a thread of a CPU reads and writes
constexpr double kFlopsOfProducts = 4;      // of a lane and an instruction: two multiply-adds start in a cycle

}  // namespace

ProductRate product_rate(DType factors, const Target& target) {
  const CudaFacts& gpu = target.cuda;
  if (factors == DType::kF64) return {"f64", gpu.f32_tflops / 2 * kFlopsPerUs};
  if (factors == DType::kBF16 || factors == DType::kF16) return {"f32", gpu.tensor_tflops * kFlopsPerUs};
  if (factors == DType::kF32 && target.tf32) return {"tf32", gpu.tensor_tflops / 2 * kFlopsPerUs};
  return {"f32", gpu.f32_tflops * kFlopsPerUs};
}

double bytes_per_us(const Target& target) { return target.cuda.copy_gbs * kBytesPerUs; }

double host_bytes_per_us(const Target& target) {
  return (target.cuda.compute >= 90 ? kPcie5Gbs : kPcie4Gbs) * kBytesPerUs;
}

double least_us(const Work& work, const Target& target) {
  double moved = static_cast<double>(work.bytes.bounds().max) / bytes_per_us(target);
  return std::max(moved,
                  static_cast<double>(work.flops.bounds().max) / product_rate(work.factors, target).flops_per_us);
}

double thread_ns(double elements, int64_t arithmetic, int accesses, int lanes) {
  return elements * static_cast<double>(arithmetic + accesses) / (lanes * kInstructionsPerNs);
}

double thread_ns_of_products(double flops, int lanes) {
  return flops / (kFlopsOfProducts * lanes * kInstructionsPerNs);
}

double thread_us(double bytes, double products, int lanes) {
  return std::max(bytes / kThreadBytesPerUs, thread_ns_of_products(products, lanes) / 1e3);
}

}  // namespace nabla::ir
