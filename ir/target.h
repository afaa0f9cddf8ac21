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
#include "runtime/base/gemm_record.h"

namespace nabla::ir {

/// What generated code may use of a GPU architecture, and what one of its GPUs is expected to reach.
struct CudaFacts {
  int compute = 0;                           ///< 80, 90, 100; 0: no GPU target
  bool specific = false;                     ///< "sm_90a": runs on this architecture alone and has no PTX
  bool ptx = false;                          ///< "compute_80": PTX, compiled by the driver of any later GPU
  int multiprocessors = 0;                   ///< of the GPU that predictions are made for
  int resident_threads = 2048;               ///< of one multiprocessor
  int registers = 65536;                     ///< of one multiprocessor
  int shared_bytes = 0;                      ///< of one multiprocessor
  int block_shared_bytes = 0;                ///< that one block may take; above 48 KiB only as dynamic shared memory
  double copy_gbs = 0;                       ///< device memory, bytes read and written
  double f32_tflops = 0, tensor_tflops = 0;  ///< datasheet: FMA units; bf16 tensor cores, dense
  std::string gpus;                          ///< "H100, H200": which GPUs it runs on
  double clock_ghz = 0;                      ///< of its multiprocessors, boosted
  double l2_bytes_per_clock = 0;             ///< that multiprocessors read from the cache that they share; 0: not published
  double memory_clocks = 0;                  ///< from a load to its value in memory, with nothing else on the way
  double f8_tflops = 0;                      ///< datasheet: 8-bit floats on tensor cores, dense, f32 sums; 0: they take none

  bool multiplies_bytes() const { return f8_tflops > 0; }  ///< 8-bit floats, by tensor cores
};

/// What threads of a CPU do in a time, by which work is predicted (ir/cost): figures of a data sheet, or of a tuning file, as
/// `nablac tune` measured them on one machine.
struct CpuRates {
  /// Of vectors, in generated code; what counts as one is in ir/kernel_ir/scalar.h.
  double instructions_per_ns = 2.5;
  double step_us = 0;  ///< what an instruction of a program takes beside its work
  /// What each of so many threads reads and writes in a microsecond where each goes through so many bytes; the last one also stands
  /// for more bytes, the largest number of threads for more.
  struct Copy {
    int threads = 1;
    double bytes = 0, bytes_per_us = 1e4;
    bool operator==(const Copy&) const = default;
  };
  std::vector<Copy> copies{{}};  ///< ascending
  /// Products of matrices of so many floating-point operations each.
  struct Product {
    double flops = 0, flops_per_us = 0;
    bool operator==(const Product&) const = default;
  };
  std::vector<Product> products;  ///< ascending; empty: at `instructions_per_ns`, two multiply-adds in a cycle
  /// A collective of so many ranks, of a program of so many, which are threads of this machine.
  struct Exchange {
    int64_t members = 2, ranks = 2;
    double us = 0, bytes_per_us = 1;  ///< to meet, and of what each reads and writes
    bool operator==(const Exchange&) const = default;
  };
  std::vector<Exchange> exchanges;  ///< empty: ranks are machines, or GPUs of machines, with links between them
  int cpus = 0;                     ///< which ranks share; 0: each has one of its own
  bool operator==(const CpuRates&) const = default;
};

/// What choices that must not depend on sizes take for one (Target::deterministic).
inline constexpr int64_t kAnySize = 64;

struct Target {
  std::string name;                       ///< "cpu:x86-64-v4", "sm_90a"
  CudaFacts cuda;                         ///< of a GPU target; the fields below up to `threads` are then unused
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
  bool library = true;  ///< may call oneDNN; for GPUs, where it is off unless a compile asks for it, cuBLASLt and cuDNN
  /// Matrix products and convolutions below this many floating-point operations are generated, unless measured.
  int64_t library_flops = 4 << 20;
  int64_t library_workspace_bytes = 0;  ///< of a GPU's library: scratch memory that one call may use
  bool deterministic = false;           ///< kernels give the same bits whatever part of a tensor they compute
  bool tf32 = false;                    ///< a GPU may round the factors of f32 products and convolutions to tf32
  /// From a tuning file: what measured fastest per problem, such as {"gemm f32 1x64x128x64 nn", "generated"}; "gemm"
  /// stands for every product without a choice of its own.
  std::map<std::string, std::string> choices;
  std::vector<GemmRecord> records;  ///< from a tuning file: algorithms of a GPU's library
  CpuRates rates;                   ///< of a CPU target, for predictions

  bool is_cuda() const { return cuda.compute != 0; }
  int lanes(DType dtype) const { return vector_bytes / bytes_of(dtype); }
};

/// "cpu", "cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:native", "sm_80" and so on; E0404 lists the known names, and for
/// another "sm_..." the target that would fit it. "cpu" is x86-64-v3.
Result<Target> find_target(std::string_view name);
std::vector<std::string> target_names();
/// The targets of a list such as "cpu,sm_80,sm_90a", each once, in its order. E0404 also for an empty or repeated name.
Result<std::vector<Target>> find_targets(std::string_view list);

}  // namespace nabla::ir
