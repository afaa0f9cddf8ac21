#include "ir/cost/time.h"

#include <algorithm>
#include <cmath>

namespace nabla::ir {
namespace {

constexpr double kFlopsPerUs = 1e6;         // of a TFLOP a second
constexpr double kBytesPerUs = 1e3;         // of a GB a second
// Sixteen lanes, one direction, as data sheets state them for both: "PCIe Gen5: 128 GB/s" of the H100, "PCIe Gen4: 64 GB/s" of
// the A100. GPUs before compute capability 9.0 have the latter.
constexpr double kPcie5Gbs = 64, kPcie4Gbs = 32;
constexpr double kFlopsOfProducts = 4;      // of a lane and an instruction: two multiply-adds start in a cycle

// What each of so many threads moves where it goes through so many bytes: the figure of the next larger measurement.
double bytes_per_us(const CpuRates& rates, int64_t threads, double bytes) {
  const CpuRates::Copy* found = nullptr;
  for (const CpuRates::Copy& c : rates.copies) {
    if (found && c.threads > found->threads && found->threads >= threads) break;
    if (!found || c.threads > found->threads || found->bytes < bytes) found = &c;
  }
  return found->bytes_per_us;
}

// Between two measurements the time of an operation goes in a straight line over the logarithm of their number.
double flops_per_us(const CpuRates& rates, double product, int lanes) {
  if (rates.products.empty()) return kFlopsOfProducts * lanes * rates.instructions_per_ns * 1e3;
  auto above = std::find_if(rates.products.begin(), rates.products.end(), [&](const auto& p) { return p.flops >= product; });
  if (above == rates.products.end()) return rates.products.back().flops_per_us;
  if (above == rates.products.begin()) return above->flops_per_us;
  auto below = above - 1;
  double share = std::log(product / below->flops) / std::log(above->flops / below->flops);
  return 1 / ((1 - share) / below->flops_per_us + share / above->flops_per_us);
}

// Than in f32: 8.0, 9.0 and 10.0 have half as many units for it, others one of 64 (CUDA programming guide, throughput of arithmetic).
double slower_in_f64(const CudaFacts& gpu) {
  const bool many = gpu.compute == 80 || gpu.compute == 90 || gpu.compute == 100;
  return many ? 2 : 64;
}

}  // namespace

ProductRate product_rate(DType factors, const Target& target) {
  const CudaFacts& gpu = target.cuda;
  if (factors == DType::kF64) return {"f64", gpu.f32_tflops / slower_in_f64(gpu) * kFlopsPerUs};
  if (factors == DType::kBF16 || factors == DType::kF16) return {"f32", gpu.tensor_tflops * kFlopsPerUs};
  if (is_float(factors) && bytes_of(factors) == 1 && gpu.multiplies_bytes()) return {"f32", gpu.f8_tflops * kFlopsPerUs};
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

double library_us(const Work& work, const Target& target) {
  double moved = static_cast<double>(work.bytes.bounds().max) / bytes_per_us(target);
  ProductRate rate = product_rate(work.factors, target);
  bool tensor = bytes_of(work.factors) <= 2 || rate.compute == "tf32";
  return kLaunchUs + moved + static_cast<double>(work.flops.bounds().max) / (rate.flops_per_us * (tensor ? kShareOfTensorCores : 1));
}

double products_us(double flops, double product, int lanes, const CpuRates& rates) {
  return flops > 0 ? flops / flops_per_us(rates, product > 0 ? product : flops, lanes) : 0;
}

double ranks_of_cpu(const CpuRates& rates, int64_t ranks) {
  return rates.cpus > 0 ? std::max(1.0, static_cast<double>(ranks) / rates.cpus) : 1;
}

double thread_us(const ThreadWork& work, int lanes, const CpuRates& rates, const Surroundings& around) {
  const double shared = ranks_of_cpu(rates, around.ranks);
  double moved = work.bytes / bytes_per_us(rates, around.ranks, std::max(work.bytes, around.bytes));
  double operations = work.operations.in_lanes / lanes + work.operations.one_by_one;
  double computed = operations / (rates.instructions_per_ns * 1e3) + products_us(work.products, work.product, lanes, rates);
  return shared * (std::max(moved, computed) + rates.step_us);
}

double thread_ns(double elements, int64_t arithmetic, int accesses, int lanes, const CpuRates& rates) {
  return elements * static_cast<double>(arithmetic + accesses) / (lanes * rates.instructions_per_ns);
}

}  // namespace nabla::ir
