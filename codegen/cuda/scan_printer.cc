#include "codegen/cuda/scan_printer.h"

#include <algorithm>

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

constexpr int64_t kShort = 16;        // One thread scans a row that is as short; neighbouring threads read the same lines.
constexpr int64_t kManyWarps = 2048;  // So many warps, with a strip of rows each, keep a GPU busy.
constexpr int64_t kSector = 32;       // The bytes that memory moves at least.

/// The number of threads of a team, and how many neighbouring rows (a strip) the team scans together.
struct Cut {
  int size = 1, columns = 1;
};

// The cut follows from the upper bounds of sizes.
Cut cut(const Procedure& p, int bytes, int state) {
  int64_t outer = p.outer().bounds().max, count = p.count().bounds().max, inner = p.inner().bounds().max;
  if (count <= kShort) return {};
  Cut out{32, 1};
  while (out.columns < 32 && out.columns < inner) out.columns *= 2;
  auto strips = [&] {
    return static_cast<double>(outer) * static_cast<double>((inner + out.columns - 1) / out.columns);
  };
  while (out.columns > 1 && out.columns * bytes > kSector && strips() < kManyWarps) out.columns /= 2;
  double elements = static_cast<double>(count) * out.columns;  // The elements of one strip.
  if (strips() >= kManyWarps || elements <= 512) return out;
  out.size = strips() < 128 && elements > 8192 && state <= 8 ? 1024 : 256;  // A thread of 1,024 has 64 registers.
  return out;
}

}  // namespace

TemplateGrids scan_grids(const Kernel& k, const ir::Target& target) {
  const Procedure& p = *k.procedure;
  auto with_role = [&](BufferRole role) {
    return *std::find_if(k.buffers.begin(), k.buffers.end(), [&](const Buffer& b) { return b.role == role; });
  };
  const Buffer x = with_role(BufferRole::kIn), y = with_role(BufferRole::kOut);
  bool places = p.def->algorithm == Algorithm::kScanPosition;
  bool large = bytes_of(x.dtype) == 8 || p.count().bounds().max > INT32_MAX;
  int state = places ? (large ? 16 : 8) : std::max(bytes_of(x.dtype), 4);
  auto [size, columns] = cut(p, bytes_of(x.dtype), state);
  TemplateGrid out;
  out.launch.threads = std::max(size, 256);
  if (size > 32) out.launch.shared_bytes = 2 * columns * size / 32 * state;
  ir::Dim teams = p.outer() * ir::Dim::ceildiv(p.inner(), columns);
  int64_t full = int64_t{target.cuda.multiprocessors} * (target.cuda.resident_threads / out.launch.threads) * 8;
  out.launch.blocks = ir::Dim::max(ir::Dim::min(ir::Dim::ceildiv(teams, out.launch.threads / size), full), 1);
  std::string args;
  for (const ir::Dim& n : p.numbers) args += ", " + size_text(n);
  out.call = fmt::format("nb_team_{}<{}, {}{}>({}{}, {}, {});", p.def->name, size, columns,
                         places ? (large ? ", long" : ", int") : "", size > 32 ? "room_" : "nullptr", args,
                         cpp_name(y.name), cpp_name(x.name));
  return {std::move(out)};
}

}  // namespace nabla::codegen
