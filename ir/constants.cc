#include "ir/constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "ir/raw.h"
#include "ir/verifier.h"
#include "runtime/format/sha256.h"

namespace nabla::ir {
namespace {

std::span<const uint8_t> bytes_of_literal(const Literal& literal) {
  return {static_cast<const uint8_t*>(literal.data()), static_cast<size_t>(literal.size_bytes())};
}

uint64_t bits_at(const Literal& literal, int64_t index) {
  uint64_t bits = 0;
  size_t size = static_cast<size_t>(bytes_of(literal.dtype()));
  std::memcpy(&bits, static_cast<const char*>(literal.data()) + index * static_cast<int64_t>(size), size);
  return bits;
}

bool parse_bits(std::string_view digits, int bytes, uint64_t& bits) {
  auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  return ec == std::errc() && end == digits.data() + digits.size() && (bytes == 8 || bits >> (8 * bytes) == 0);
}

bool parse_float(std::string_view text, double& value) {
  bool negative = text.starts_with("-");
  std::string_view rest = text.substr(negative ? 1 : 0);
  if (rest == "nan")
    value = std::nan("");
  else if (rest == "inf")
    value = HUGE_VAL;
  else {
    if (rest.empty() || rest[0] < '0' || rest[0] > '9') return false;
    auto [end, ec] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (ec != std::errc() || end != rest.data() + rest.size()) return false;
  }
  if (negative) value = -value;
  return true;
}

bool parse_integer(std::string_view text, Literal& literal, int64_t index) {
  DType dtype = literal.dtype();
  int64_t value = 0;
  std::from_chars_result r{};
  if (is_unsigned(dtype)) {
    uint64_t bits = 0;
    r = std::from_chars(text.data(), text.data() + text.size(), bits);
    value = static_cast<int64_t>(bits);
  } else {
    r = std::from_chars(text.data(), text.data() + text.size(), value);
  }
  if (r.ec != std::errc() || r.ptr != text.data() + text.size()) return false;
  literal.set_i(index, value);
  return literal.get_i(index) == value;
}

}  // namespace

ExternalRef ConstantWriter::add(const Literal& literal) {
  std::string hash = format::sha256_hex(bytes_of_literal(literal));
  auto [it, fresh] = known_.try_emplace({literal.dtype(), hash});
  if (fresh) {
    size_t aligned = (section_.size() + kConstantAlignment - 1) / kConstantAlignment * kConstantAlignment;
    section_.resize(aligned, '\0');
    it->second = {section_.size(), static_cast<uint64_t>(literal.size_bytes()), hash};
    section_.append(static_cast<const char*>(literal.data()), static_cast<size_t>(literal.size_bytes()));
  }
  return it->second;
}

Result<int64_t> checked_count(const std::vector<int64_t>& shape) {
  if (shape.size() > static_cast<size_t>(kMaxRank))
    return error(Code::kTooLarge, "a literal has {} dimensions, at most {} are allowed", shape.size(), kMaxRank);
  int64_t count = 1, product = 1;
  for (int64_t d : shape) {
    if (d < 0) return error(Code::kCorrupt, "a literal has the negative extent {}", d);
    int64_t factor = std::max<int64_t>(d, 1);
    if (product > kMaxElements / factor)
      return error(Code::kTooLarge, "a literal of shape {} has more than {} elements", shape_str(shape), kMaxElements);
    product *= factor;
    count *= d;
  }
  return count;
}

Result<Literal> ConstantReader::get(DType dtype, const std::vector<int64_t>& shape, const ExternalRef& ref) {
  int64_t count = NABLA_TRY(checked_count(shape));
  uint64_t bytes = static_cast<uint64_t>(count) * static_cast<uint64_t>(bytes_of(dtype));
  if (bytes != ref.bytes)
    return error(Code::kCorrupt, "constant at offset {}: {}{} takes {} bytes, {} are stated", ref.offset,
                 name_of(dtype), shape_str(shape), bytes, ref.bytes);
  if (ref.offset % kConstantAlignment != 0 || ref.offset > section_.size() || bytes > section_.size() - ref.offset)
    return error(Code::kCorrupt, "constant at offset {} with {} bytes: not inside the constants' {} bytes", ref.offset,
                 bytes, section_.size());
  auto it = known_.find({ref.offset, dtype});
  if (it != known_.end() && it->second.size() == count) return it->second.reshaped(shape);
  copied_ += bytes;
  if (copied_ > section_.size()) return error(Code::kCorrupt, "constant at offset {} overlaps another one", ref.offset);
  Literal literal = Literal::from_bytes(dtype, shape, section_.data() + ref.offset);
  if (format::sha256_hex(bytes_of_literal(literal)) != ref.sha256)
    return error(Code::kCorrupt, "constant at offset {}: its bytes do not have the stated hash", ref.offset);
  (void)NABLA_TRY(check_bools(literal));
  known_.insert_or_assign({ref.offset, dtype}, literal);
  return literal;
}

Status check_bools(const Literal& literal) {
  if (literal.dtype() != DType::kBool) return Ok{};
  for (uint8_t b : bytes_of_literal(literal))
    if (b > 1) return error(Code::kCorrupt, "a bool element has the byte {}", b);
  return Ok{};
}

bool is_splat(const Literal& literal) {
  if (literal.size() < 2 || literal.size_bytes() > kMaxSplatBytes) return false;
  const char* data = static_cast<const char*>(literal.data());
  size_t size = static_cast<size_t>(bytes_of(literal.dtype()));
  // Equal to itself shifted by one element.
  return std::memcmp(data, data + size, static_cast<size_t>(literal.size_bytes()) - size) == 0;
}

std::string element_text(const Literal& literal, int64_t index) {
  DType dtype = literal.dtype();
  if (dtype == DType::kBool) return literal.get_i(index) ? "true" : "false";
  if (is_unsigned(dtype)) return fmt::format("{}", static_cast<uint64_t>(literal.get_i(index)));
  if (!is_float(dtype)) return fmt::format("{}", literal.get_i(index));
  double value = literal.get(index);
  std::string text = dtype == DType::kF64 ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
  Literal back(dtype, {});
  if (parse_element(text, back, 0) && bits_at(back, 0) == bits_at(literal, index)) return text;
  return fmt::format("0x{:0{}x}", bits_at(literal, index), 2 * bytes_of(dtype));
}

bool parse_element(std::string_view text, Literal& literal, int64_t index) {
  DType dtype = literal.dtype();
  if (dtype == DType::kBool) {
    if (text != "true" && text != "false") return false;
    literal.set_i(index, text == "true");
    return true;
  }
  if (text.starts_with("0x")) {
    uint64_t bits = 0;
    int bytes = bytes_of(dtype);
    if (!parse_bits(text.substr(2), bytes, bits)) return false;
    std::memcpy(static_cast<char*>(literal.mutable_data()) + index * bytes, &bits, static_cast<size_t>(bytes));
    return true;
  }
  if (!is_float(dtype)) return parse_integer(text, literal, index);
  double value = 0;
  if (!parse_float(text, value)) return false;
  literal.set(index, value);
  return true;
}

std::string float_text(double value) {
  std::string text = element_text(Literal::scalar(DType::kF64, value), 0);
  if (text.starts_with("0x")) return "bits(" + text + ")";
  return text.find_first_of(".eni") == std::string::npos ? text + ".0" : text;
}

}  // namespace nabla::ir
