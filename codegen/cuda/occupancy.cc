#include "codegen/cuda/occupancy.h"

#include <algorithm>

namespace nabla::codegen {
namespace {

constexpr int kWarp = 32, kBlockThreads = 1024;
constexpr int kRegisterUnit = 256;  // registers are given to a warp in these
constexpr int kWarpUnit = 4;        // the four parts of a multiprocessor hold the same number of warps
constexpr int kSharedUnit = 128;

int round_up(int n, int unit) { return (n + unit - 1) / unit * unit; }

int resident_blocks(int compute) { return compute == 86 ? 16 : compute == 89 || compute == 120 ? 24 : 32; }

int warps_of(int threads) { return (threads + kWarp - 1) / kWarp; }

// Warps that the registers of a multiprocessor are enough for.
int register_warps(const CubinKernel& kernel, const ir::CudaFacts& facts) {
  int each = round_up(std::max(kernel.registers, 1) * kWarp, kRegisterUnit);
  return facts.registers / each / kWarpUnit * kWarpUnit;
}

}  // namespace

Occupancy occupancy(const CubinKernel& kernel, const ir::Target& target, int threads, int dynamic_shared_bytes) {
  const ir::CudaFacts& facts = target.cuda;
  if (threads < 1 || !check_launch(kernel, target, threads, dynamic_shared_bytes).ok()) return {};
  int warps = warps_of(threads);
  int shared = round_up(kernel.static_shared_bytes + dynamic_shared_bytes + kReservedShared, kSharedUnit);
  int blocks = std::min({resident_blocks(facts.compute), facts.resident_threads / kWarp / warps,
                         register_warps(kernel, facts) / warps, facts.shared_bytes / shared});
  return {blocks, blocks * warps};
}

Status check_launch(const CubinKernel& kernel, const ir::Target& target, int threads, int dynamic_shared_bytes,
                    std::string_view called) {
  const std::string_view name = called.empty() ? std::string_view(kernel.name) : called;
  const ir::CudaFacts& facts = target.cuda;
  if (threads > kBlockThreads)
    return error(Code::kNvrtcFailed, "kernel `{}` has blocks of {} threads; {} allows {}", name, threads,
                 target.name, kBlockThreads);
  if (kernel.max_threads > 0 && threads > kernel.max_threads)
    return error(Code::kNvrtcFailed,
                 "kernel `{0}` is launched with blocks of {1} threads; its text says __launch_bounds__({2}), at most {2}",
                 name, threads, kernel.max_threads);
  if (int most = register_warps(kernel, facts); warps_of(threads) > most)
    return error(
        Code::kNvrtcFailed,
        "kernel `{}` takes {} registers a thread: blocks of {} threads do not fit the {} registers of {}, which "
        "are enough for {} threads",
        name, kernel.registers, threads, facts.registers, target.name, most * kWarp);
  if (kernel.static_shared_bytes > kStaticShared)
    return error(Code::kNvrtcFailed, "kernel `{}` takes {} bytes of static shared memory; a block may have {}",
                 name, kernel.static_shared_bytes, kStaticShared);
  // The limit of the chip itself: a kernel of the user's may need more than every GPU that its program could run on has.
  const int chip = facts.shared_bytes - kReservedShared;
  if (int64_t all = int64_t{kernel.static_shared_bytes} + dynamic_shared_bytes; all > chip)
    return error(Code::kNvrtcFailed,
                 "kernel `{}` takes {} bytes of shared memory, {} of them dynamic; a block on {} may have {}",
                 name, all, dynamic_shared_bytes, target.name, chip);
  return Ok{};
}

}  // namespace nabla::codegen
