#include "codegen/cuda/scan_printer.h"

#include <algorithm>

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

constexpr int64_t kShort = 16;        // a thread takes such rows: neighbours read the same lines
constexpr int64_t kManyWarps = 2048;  // with a strip each, enough for a GPU
constexpr int64_t kSector = 32;       // bytes that memory moves at least

/// Threads of a team, and how many neighbouring rows it takes.
struct Cut {
  int size = 1, columns = 1;
};

// By the upper bounds of sizes.
Cut cut(const Procedure& p, int bytes, int state) {
  int64_t outer = p.numbers[0].bounds().max, count = p.numbers[1].bounds().max, inner = p.numbers[2].bounds().max;
  if (count <= kShort) return {};
  Cut out{32, 1};
  while (out.columns < 32 && out.columns < inner) out.columns *= 2;
  auto strips = [&] {
    return static_cast<double>(outer) * static_cast<double>((inner + out.columns - 1) / out.columns);
  };
  while (out.columns > 1 && out.columns * bytes > kSector && strips() < kManyWarps) out.columns /= 2;
  double elements = static_cast<double>(count) * out.columns;  // of a strip
  if (strips() >= kManyWarps || elements <= 512) return out;
  out.size = strips() < 128 && elements > 8192 && state <= 8 ? 1024 : 256;  // of 1,024 each has 64 registers
  return out;
}

}  // namespace

bool is_scan(const Kernel& k) {
  if (!k.procedure) return false;
  std::string_view name = k.procedure->def->name;
  return name.starts_with("cum");
}

ScanGrid scan_grid(const Kernel& k, const ir::Target& target) {
  const Procedure& p = *k.procedure;
  auto with_role = [&](BufferRole role) {
    return *std::find_if(k.buffers.begin(), k.buffers.end(), [&](const Buffer& b) { return b.role == role; });
  };
  const Buffer x = with_role(BufferRole::kIn), y = with_role(BufferRole::kOut);
  bool places = p.numbers.size() == 4;  // no `exclusive`
  bool large = bytes_of(x.dtype) == 8 || p.numbers[1].bounds().max > INT32_MAX;
  int state = places ? (large ? 16 : 8) : std::max(bytes_of(x.dtype), 4);
  auto [size, columns] = cut(p, bytes_of(x.dtype), state);
  ScanGrid out;
  out.launch.threads = std::max(size, 256);
  if (size > 32) out.launch.shared_bytes = 2 * columns * size / 32 * state;
  ir::Dim teams = p.numbers[0] * ir::Dim::ceildiv(p.numbers[2], columns);
  int64_t full = int64_t{target.cuda.multiprocessors} * (target.cuda.resident_threads / out.launch.threads) * 8;
  out.launch.blocks = ir::Dim::max(ir::Dim::min(ir::Dim::ceildiv(teams, out.launch.threads / size), full), 1);
  std::string args;
  for (const ir::Dim& n : p.numbers) args += ", " + size_text(n);
  out.call = fmt::format("nb_team_{}<{}, {}{}>({}{}, {}, {});", p.def->name, size, columns,
                         places ? (large ? ", long" : ", int") : "", size > 32 ? "room_" : "nullptr", args,
                         cpp_name(y.name), cpp_name(x.name));
  return out;
}

}  // namespace nabla::codegen
