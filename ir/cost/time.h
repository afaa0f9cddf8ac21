// How long work takes on a target: least times of GPUs, by their data sheets, and estimates of a CPU's threads.
#pragma once

#include <string_view>

#include "ir/cost/least_work.h"
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

/// Nanoseconds that a thread of a CPU is expected to need for so many elements, each of `arithmetic` and of
/// `accesses` reads and writes, `lanes` at a time.
double thread_ns(double elements, int64_t arithmetic, int accesses, int lanes);
/// The same for products in registers.
double thread_ns_of_products(double flops, int lanes);
/// Microseconds that it is expected to need for so many bytes of arrays and products, whichever takes longer.
double thread_us(double bytes, double products, int lanes);

}  // namespace nabla::ir
