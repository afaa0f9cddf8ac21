// Literals outside the module's own text: the external section, and the text of single elements. Internal to ir.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/diagnostic.h"
#include "runtime/base/literal.h"

namespace nabla::ir {

/// Where a literal's bytes stand in the external section.
struct ExternalRef {
  uint64_t offset = 0, bytes = 0;
  std::string sha256;
};

/// Builds an external section. Equal literals share their bytes.
class ConstantWriter {
 public:
  ExternalRef add(const Literal& literal);
  const std::string& section() const { return section_; }

 private:
  std::string section_;
  std::map<std::pair<DType, std::string>, ExternalRef> known_;
};

/// Reads an external section, which must outlive it.
class ConstantReader {
 public:
  explicit ConstantReader(std::string_view section = {}) : section_(section) {}
  /// E0104 when the reference is out of bounds, overlaps others, does not fit the type, or the bytes have another
  /// hash.
  Result<Literal> get(DType dtype, const std::vector<int64_t>& shape, const ExternalRef& ref);

 private:
  std::string_view section_;
  uint64_t copied_ = 0;
  std::map<std::pair<uint64_t, DType>, Literal> known_;
};

/// Number of elements of a literal of this shape: E0104 for negative extents, E0106 above 2^48 elements.
Result<int64_t> checked_count(const std::vector<int64_t>& shape);
/// E0104 when a bool element is neither 0 nor 1.
Status check_bools(const Literal& literal);

/// Whether the text form writes the literal as one repeated element: more than one element, all of the same bits, and
/// at most kMaxSplatBytes (a reader must not be made to allocate more by a short text).
bool is_splat(const Literal& literal);
inline constexpr int64_t kMaxSplatBytes = int64_t{16} << 20;

/// The shortest text that parse_element reads back to the same bits: a decimal number, true, nan, -inf, or a bit
/// pattern such as 0x7fc00001.
std::string element_text(const Literal& literal, int64_t index);
/// Sets an element from its text; false when it is no number of that dtype or out of its range.
bool parse_element(std::string_view text, Literal& literal, int64_t index);
/// The same for float attributes: always holds one of ". e n i", or is "bits(0x...)".
std::string float_text(double value);

}  // namespace nabla::ir
