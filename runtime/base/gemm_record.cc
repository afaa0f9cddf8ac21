#include "runtime/base/gemm_record.h"

#include <utility>

namespace nabla {
namespace {

constexpr std::string_view kWord = "record ", kBar = " | ", kEquals = " = ", kDigits = "0123456789abcdef";

}  // namespace

std::string GemmRecord::str() const {
  std::string out;
  for (std::string_view part :
       {kWord, std::string_view(gpu), kBar, std::string_view(library), kBar, std::string_view(problem), kEquals})
    out += part;
  for (unsigned char byte : algorithm) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::optional<GemmRecord> GemmRecord::parse(std::string_view line) {
  if (!line.starts_with(kWord)) return std::nullopt;
  line.remove_prefix(kWord.size());
  GemmRecord out;
  for (auto [part, end] :
       {std::pair(&out.gpu, kBar), std::pair(&out.library, kBar), std::pair(&out.problem, kEquals)}) {
    size_t at = line.find(end);
    if (at == std::string_view::npos || at == 0) return std::nullopt;
    *part = line.substr(0, at);
    line.remove_prefix(at + end.size());
  }
  if (line.empty() || line.size() % 2 != 0) return std::nullopt;
  for (size_t i = 0; i < line.size(); i += 2) {
    size_t high = kDigits.find(line[i]), low = kDigits.find(line[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    out.algorithm += static_cast<char>(high << 4 | low);
  }
  return out;
}

}  // namespace nabla
