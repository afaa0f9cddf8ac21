#include "runtime/base/literal.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <cstdlib>
#include <cstring>
#include <new>

#include "runtime/base/check.h"

namespace nabla {
namespace {
std::shared_ptr<char> allocate(int64_t bytes, bool zero = true) {
  size_t rounded = (static_cast<size_t>(bytes) + 127) / 64 * 64;
  auto* p = static_cast<char*>(std::aligned_alloc(64, rounded));
  if (p == nullptr) throw std::bad_alloc();  // for main, as from every container
#if defined(__linux__)
  // Large arrays in large pages: their first use else takes longer than the sums that they are made for.
  constexpr uintptr_t kLarge = uintptr_t{4} << 20, kPage = uintptr_t{4} << 10;
  if (rounded >= kLarge) {
    auto first = (reinterpret_cast<uintptr_t>(p) + kPage - 1) / kPage * kPage;
    ::madvise(reinterpret_cast<void*>(first), rounded - (first - reinterpret_cast<uintptr_t>(p)), MADV_HUGEPAGE);
  }
#endif
  if (zero) std::memset(p, 0, rounded);
  return std::shared_ptr<char>(p, [](char* q) { std::free(q); });
}
}  // namespace

int64_t count_of(std::span<const int64_t> shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

std::vector<int64_t> strides_of(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (int i = static_cast<int>(shape.size()) - 2; i >= 0; --i) strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

std::string shape_str(std::span<const int64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? "," : "") + std::to_string(shape[i]);
  return out + "]";
}

Literal::Literal(DType dtype, std::vector<int64_t> shape)
    : dtype_(dtype), shape_(std::move(shape)), size_(count_of(shape_)), data_(allocate(size_ * bytes_of(dtype))) {}

Literal Literal::uninitialized(DType dtype, std::vector<int64_t> shape) {
  Literal out;
  out.dtype_ = dtype;
  out.shape_ = std::move(shape);
  out.size_ = count_of(out.shape_);
  out.data_ = allocate(out.size_bytes(), /*zero=*/false);
  return out;
}

Literal Literal::scalar(DType dtype, double value) {
  Literal out(dtype, {});
  out.set(0, value);
  return out;
}

Literal Literal::scalar_int(DType dtype, int64_t value) {
  Literal out(dtype, {});
  out.set_i(0, value);
  return out;
}

Literal Literal::from_bytes(DType dtype, std::vector<int64_t> shape, const void* data) {
  Literal out(dtype, std::move(shape));
  if (out.size_ > 0) std::memcpy(out.data_.get(), data, out.size_bytes());
  return out;
}

Literal Literal::shared(DType dtype, std::vector<int64_t> shape, std::shared_ptr<char> bytes) {
  Literal out;
  out.dtype_ = dtype;
  out.shape_ = std::move(shape);
  out.size_ = count_of(out.shape_);
  out.data_ = std::move(bytes);
  out.foreign_ = true;
  return out;
}

void* Literal::mutable_data() {
  if (data_.use_count() > 1 || foreign_) {
    foreign_ = false;
    auto fresh = allocate(size_bytes());
    std::memcpy(fresh.get(), data_.get(), size_bytes());
    data_ = std::move(fresh);
  }
  return data_.get();
}

Literal Literal::reshaped(std::vector<int64_t> shape) const {
  NABLA_CHECK(count_of(shape) == size_, "reshape {} to {}", shape_str(shape_), shape_str(shape));
  Literal out = *this;
  out.shape_ = std::move(shape);
  return out;
}

// Integers have more bits than a double: they are rounded once, to the float that is wanted.
static void set_integer(Literal& out, int64_t i, uint64_t v, bool is_negative) {
  bool large = !is_negative && v >> 63 != 0 && is_float(out.dtype());
  out.set_i(i, static_cast<int64_t>(large ? v >> 1 | (v & 1) : v));
  if (large) out.set(i, 2 * out.get(i));
}

Literal Literal::converted(DType to) const {
  Literal out(to, shape_);
  for (int64_t i = 0; i < size_; ++i) {
    if (to == DType::kBool)
      out.set_i(i, is_float(dtype_) ? get(i) != 0 : get_i(i) != 0);
    else if (!is_float(dtype_))
      set_integer(out, i, static_cast<uint64_t>(get_i(i)), is_signed(dtype_) && get_i(i) < 0);
    else
      out.set(i, get(i));
  }
  return out;
}

bool Literal::operator==(const Literal& other) const {
  return dtype_ == other.dtype_ && shape_ == other.shape_ &&
         (data_ == other.data_ || size_ == 0 || std::memcmp(data(), other.data(), size_bytes()) == 0);
}

std::string Literal::str(int64_t limit) const {
  std::string out = fmt::format("{}{} {{", name_of(dtype_), shape_str(shape_));
  for (int64_t i = 0; i < std::min(size_, limit); ++i) {
    if (i) out += ", ";
    out += is_float(dtype_) ? fmt::format("{}", get(i)) : fmt::format("{}", get_i(i));
  }
  return out + (size_ > limit ? ", ...}" : "}");
}

}  // namespace nabla
