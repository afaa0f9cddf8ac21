// What signing and checking share.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "runtime/base/diagnostic.h"
#include "runtime/format/file.h"
#include "runtime/format/zip.h"

namespace nabla::signature {

constexpr size_t kKeyBytes = 32, kSignatureBytes = 64;  ///< RFC 8032; the seed of a secret key is as long as a public key

template <size_t N>
using ByteArray = std::array<unsigned char, N>;

/// Decodes 2 N hexadecimal digits. Nothing if the text has another form.
template <size_t N>
std::optional<ByteArray<N>> bytes_of(const std::string& text) {
  auto digit = [](char c) {
    const bool decimal = c >= '0' && c <= '9', lower = c >= 'a' && c <= 'f', upper = c >= 'A' && c <= 'F';
    return decimal ? c - '0' : lower ? c - 'a' + 10 : upper ? c - 'A' + 10 : -1;
  };
  if (text.size() != 2 * N) return std::nullopt;
  ByteArray<N> out;
  for (size_t i = 0; i < N; ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out[i] = static_cast<unsigned char>(16 * high + low);
  }
  return out;
}

/// What is signed.
std::string signed_text(format::Bytes manifest);

/// The archive's manifest, and its signature or null.
struct Parts {
  format::ZipReader zip;
  const format::ZipMember *manifest, *signature;
};
/// E0105 for what is no bundle, which `what` names.
Result<Parts> parts_of(format::Bytes bundle, const std::string& what);

}  // namespace nabla::signature
