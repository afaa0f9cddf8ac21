#include "tests/cuda/fake_nccl/exchange.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include <fmt/format.h>

#include "runtime/base/dtype.h"

namespace nabla::fake_nccl {
namespace {

// By ncclDataType_t.
constexpr DType kTypes[] = {DType::kI8,  DType::kU8,  DType::kI32, DType::kU32, DType::kI64,
                            DType::kU64, DType::kF16, DType::kF32, DType::kF64, DType::kBF16};

template <class T>
T folded(int op, T a, T b) {
  switch (op) {
    case 0: return a + b;
    case 1: return a * b;
    case 2: return std::max(a, b);
    default: return std::min(a, b);
  }
}

// As NVIDIA's library does: where one of the two is NaN an extreme is the other.
double folded(int op, double a, double b) {
  return op == 2 ? std::fmax(a, b) : op == 3 ? std::fmin(a, b) : op == 1 ? a * b : a + b;
}

/// In the order of the members, each step rounded to the type.
void combine(DType type, int op, char* into, const char* with, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (is_float(type)) {
      set_float(type, into, i, folded(op, get_float(type, into, i), get_float(type, with, i)));
      continue;
    }
    int64_t a = get_int(type, into, i), b = get_int(type, with, i);
    bool wide = is_unsigned(type) && op >= 2;
    auto as_unsigned = [](int64_t v) { return static_cast<uint64_t>(v); };
    // Signed sums and products wrap as unsigned ones do.
    uint64_t out = op >= 2 && !wide ? as_unsigned(folded(op, a, b)) : folded(op, as_unsigned(a), as_unsigned(b));
    set_int(type, into, i, static_cast<int64_t>(out));
  }
}

}  // namespace

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast", "ncclSend", "ncclRecv"};
  return kNames[static_cast<int>(kind)];
}

std::string Call::str() const { return fmt::format("{} of {} elements of type {} by {} from {}", name_of(kind), count, type, op, root); }

size_t bytes_of(int type) {
  return type >= 0 && type < static_cast<int>(std::size(kTypes)) ? static_cast<size_t>(nabla::bytes_of(kTypes[type])) : 0;
}

void write(const std::string& path, const std::string& bytes) {
  std::string fresh = fmt::format("{}.{}", path, ::getpid());  // processes may write the same file at once
  std::ofstream(fresh, std::ios::binary) << bytes;
  std::rename(fresh.c_str(), path.c_str());
}
bool there(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }
std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

std::string packed(const Call& call, const void* data, size_t bytes) {
  std::string out(reinterpret_cast<const char*>(&call), sizeof call);
  return out.append(static_cast<const char*>(data), bytes);
}
Call call_of(const std::string& file) {
  Call out;
  std::memcpy(&out, file.data(), std::min(sizeof out, file.size()));
  return out;
}
const char* data_of(const std::string& file) { return file.data() + sizeof(Call); }

std::vector<char> result_of(const Call& call, uint32_t me, const std::vector<std::string>& files) {
  size_t bytes = call.count * bytes_of(call.type);
  std::vector<char> out;
  auto add = [&](const char* from) { out.insert(out.end(), from, from + bytes); };
  if (call.kind == Kind::kBroadcast) return add(data_of(files[static_cast<size_t>(call.root)])), out;
  if (call.kind == Kind::kAllGather) {
    for (const std::string& file : files) add(data_of(file));
    return out;
  }
  size_t first = call.kind == Kind::kReduceScatter ? me * bytes : 0;
  add(data_of(files[0]) + first);
  for (size_t m = 1; m < files.size(); ++m)
    combine(kTypes[call.type], call.op, out.data(), data_of(files[m]) + first, static_cast<int64_t>(call.count));
  return out;
}

}  // namespace nabla::fake_nccl
