// How long work takes on a target: least times of GPUs, by their data sheets, and estimates of a CPU's threads.
#pragma once

#include <string_view>

#include "ir/cost/least_work.h"
#include "ir/cost/operations.h"
#include "ir/target.h"

namespace nabla::ir {

struct ProductRate {
  std::string_view compute;  ///< what products are computed in: "f32", "tf32", "f64"
  double flops_per_us = 0;
};

/// Of products of these factors on the GPU that predictions are made for. Requires a GPU target.
ProductRate product_rate(DType factors, const Target& target);
/// Bytes that this GPU's memory moves in a microsecond. Requires a GPU target.
double bytes_per_us(const Target& target);
/// Bytes that its link to the host moves in a microsecond, in one direction. Requires a GPU target.
double host_bytes_per_us(const Target& target);
/// Microseconds that this GPU needs at least, at the largest sizes: by its memory or by its products, whichever takes
/// longer. Requires a GPU target.
double least_us(const Work& work, const Target& target);

// ---- What is expected of GPUs, beside what they need at least. Fixed before anything was compared with it.

/// Of the data sheet's rate of tensor cores: what products of large matrices reach under a chip's limit of power. cuBLAS on an H200
/// and an H100, random factors of 8192 x 8192 x 8192: 770 to 798 of 989 TFLOP/s.
inline constexpr double kShareOfTensorCores = 0.79;
/// The same of the mma instructions of a warp on chips that have wgmma beside them: Luo and others (arXiv 2402.13499), an H100; quoted
/// from memory: to be checked with the paper.
inline constexpr double kShareOfMmaOnHopper = 0.62;
/// From the end of a kernel in a replayed graph to the end of the next, which does nothing: 1.25 us on an H200 (bench/results).
inline constexpr double kLaunchUs = 1.25;
/// Microseconds of a call of NVIDIA's library: its products, and its bytes, since blocks wait for their first tiles and write what they
/// have at their end. Requires a GPU target.
double library_us(const Work& work, const Target& target);

/// What an instruction of a program has a thread of a CPU do.
struct ThreadWork {
  double bytes = 0;     ///< of the arrays that it reads and writes, each once
  double products = 0;  ///< floating-point operations of products of matrices, ...
  double product = 0;   ///< ... and of one of these; 0: there is one
  Operations operations = {};
};
/// Beside whom it does so.
struct Surroundings {
  int64_t ranks = 1;  ///< of one thread each, which compute at the same time
  double bytes = 0;   ///< of memory that each of them goes through before it comes to the same again
};
/// Microseconds that this takes: its bytes or its arithmetic, whichever takes longer, and the step itself; ranks that share a CPU wait
/// for each other. `lanes` are those of the target's vectors.
double thread_us(const ThreadWork& work, int lanes, const CpuRates& rates, const Surroundings& around = {});
/// Of the products alone.
double products_us(double flops, double product, int lanes, const CpuRates& rates);
/// How many ranks share a CPU; 1: each has its own.
double ranks_of_cpu(const CpuRates& rates, int64_t ranks);

/// Nanoseconds for so many elements, each of `arithmetic` and of `accesses` reads and writes, `lanes` at a time: what schedules plan
/// with. They take the rates of a data sheet, so that code does not depend on what was measured.
double thread_ns(double elements, int64_t arithmetic, int accesses, int lanes, const CpuRates& rates = {});

}  // namespace nabla::ir
