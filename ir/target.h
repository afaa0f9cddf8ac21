// Facts about a target, as data: passes read them, codegen implements them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/base/dtype.h"

namespace nabla::ir {

struct Target {
  std::string name;                       ///< "cpu:x86-64-v4"
  std::string march;                      ///< for the host compiler
  std::vector<std::string> cpu_features;  ///< as in /proc/cpuinfo; a machine without one is refused
  int vector_bytes = 32;                  ///< of one vector register
  int vector_registers = 16;
  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 1 << 20;
  /// A result of at least this many bytes is written past the caches: it would not stay in them until it is read.
  int64_t stream_bytes = 32 << 20;
  int threads = 64;  ///< upper bound that schedules plan for
  /// Estimated nanoseconds of work below which one more thread does not pay.
  int64_t thread_grain_ns = 3000;
  bool library = true;  ///< may call oneDNN
  /// Matrix products and convolutions below this many floating-point operations are generated, unless measured.
  int64_t library_flops = 4 << 20;
  /// From a tuning file: what measured fastest per problem, such as {"gemm f32 1x64x128x64 nn", "generated"}.
  std::map<std::string, std::string> choices;

  int lanes(DType dtype) const { return vector_bytes / bytes_of(dtype); }
};

/// "cpu", "cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:native"; E0404 lists the known names. "cpu" is x86-64-v3.
Result<Target> find_target(std::string_view name);
std::vector<std::string> target_names();

}  // namespace nabla::ir
