#include "runtime/signature/signature.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "runtime/format/members.h"
#include "runtime/format/zip.h"

namespace nabla::signature {
namespace {

using Json = nlohmann::ordered_json;
constexpr size_t kKeyBytes = crypto_sign_PUBLICKEYBYTES, kSignatureBytes = crypto_sign_BYTES;
static_assert(kKeyBytes == crypto_sign_SEEDBYTES);
/// What is signed begins so, lest a signature of something else pass for one of a bundle.
constexpr std::string_view kPurpose = "nabla bundle signature 1\n";

template <size_t N>
using ByteArray = std::array<unsigned char, N>;

std::string hex(const unsigned char* bytes, size_t n) {
  std::string out(2 * n + 1, '\0');
  sodium_bin2hex(out.data(), out.size(), bytes, n);
  out.pop_back();
  return out;
}

template <size_t N>
std::optional<ByteArray<N>> bytes_of(const std::string& text) {
  ByteArray<N> out;
  size_t n = 0;
  bool whole = text.size() == 2 * N && sodium_hex2bin(out.data(), N, text.data(), text.size(), nullptr, &n, nullptr) == 0 && n == N;
  return whole ? std::optional(out) : std::nullopt;
}

void begin() { NABLA_CHECK(sodium_init() >= 0, "the system has no randomness"); }

std::string signed_text(format::Bytes manifest) { return std::string(kPurpose) + std::string(format::as_text(manifest)); }

std::string_view word(bool secret) { return secret ? "secret" : "public"; }

/// The archive's manifest, and its signature where it has one.
struct Parts {
  format::ZipReader zip;
  const format::ZipMember *manifest, *signature;
};
Result<Parts> parts_of(format::Bytes bundle, const std::string& what) {
  format::ZipReader zip = NABLA_TRY(format::ZipReader::open(bundle, what));
  Parts out{std::move(zip), nullptr, nullptr};
  out.manifest = out.zip.find(format::kManifestMember);
  out.signature = out.zip.find(format::kSignatureMember);
  if (out.manifest == nullptr || out.manifest->method != 0) return error(Code::kForeignFile, "{}: no Nabla bundle", what);
  return out;
}

}  // namespace

KeyPair new_key_pair() {
  begin();
  ByteArray<kKeyBytes> seed, key;
  ByteArray<crypto_sign_SECRETKEYBYTES> secret;
  randombytes_buf(seed.data(), seed.size());
  crypto_sign_seed_keypair(key.data(), secret.data(), seed.data());
  KeyPair out{hex(key.data(), key.size()), hex(seed.data(), seed.size())};
  sodium_memzero(seed.data(), seed.size()), sodium_memzero(secret.data(), secret.size());
  return out;
}

std::string key_file(const std::string& key, bool secret) { return fmt::format("nabla-{}-key ed25519 {}\n", word(secret), key); }

Result<std::string> read_key(const std::string& path, bool secret) {
  std::ifstream file(path);
  if (!file) return error(Code::kNotFound, "the key file {} cannot be read", path);
  std::string kind, algorithm, key;
  file >> kind >> algorithm >> key;
  if (kind == fmt::format("nabla-{}-key", word(!secret)))
    return error(Code::kForeignFile, "{} holds a {} key; a {} key is needed here", path, word(!secret), word(secret));
  if (kind != fmt::format("nabla-{}-key", word(secret)) || algorithm != "ed25519" || !bytes_of<kKeyBytes>(key))
    return error(Code::kForeignFile, "{} holds no key: its line is `nabla-{}-key ed25519` and 64 hexadecimal digits", path, word(secret));
  if (std::string more; file >> more) {
    Diagnostic d = error(Code::kForeignFile, "{} holds more than one key: `{}` is written after the first", path, more);
    d.help = "give each key a file of its own";
    return d;
  }
  return key;
}

Result<std::string> sign(format::Bytes bundle, const std::string& secret_key, const std::string& what) {
  begin();
  if (format::as_text(bundle).substr(0, 2) != "PK")
    return error(Code::kForeignFile, "{}: only a bundle file can be signed; sign it before an executable is made of it", what);
  Parts parts = NABLA_TRY(parts_of(bundle, what));
  auto seed = bytes_of<kKeyBytes>(secret_key);
  if (!seed) return error(Code::kMisuse, "a secret key has 64 hexadecimal digits");
  ByteArray<kKeyBytes> key;
  ByteArray<crypto_sign_SECRETKEYBYTES> secret;
  ByteArray<kSignatureBytes> signature;
  crypto_sign_seed_keypair(key.data(), secret.data(), seed->data());
  std::string text = signed_text(parts.manifest->data);
  crypto_sign_detached(signature.data(), nullptr, reinterpret_cast<const unsigned char*>(text.data()), text.size(), secret.data());
  sodium_memzero(secret.data(), secret.size());
  Json member{{"algorithm", "ed25519"}, {"key", hex(key.data(), key.size())}, {"signature", hex(signature.data(), signature.size())}};
  format::ZipWriter out;
  for (const format::ZipMember& m : parts.zip.members())
    if (&m != parts.signature) out.add(m.name, m.data);
  std::string json = member.dump() + "\n";
  out.add(std::string(format::kSignatureMember), format::as_bytes(json));
  return std::move(out).finish();
}

Status check(format::Bytes bundle, const std::vector<std::string>& public_keys, const std::string& what) {
  begin();
  Parts parts = NABLA_TRY(parts_of(bundle, what));
  if (parts.signature == nullptr) return error(Code::kNotSigned, "{} is not signed", what);
  Json member = Json::parse(format::as_text(parts.signature->data), nullptr, false);
  auto text = [&](const char* name) {
    return member.is_object() && member.contains(name) && member[name].is_string() ? member[name].get<std::string>() : std::string();
  };
  auto key = bytes_of<kKeyBytes>(text("key"));
  auto signature = bytes_of<kSignatureBytes>(text("signature"));
  if (text("algorithm") != "ed25519" || !key || !signature) return error(Code::kNotSigned, "{}: its signature cannot be read", what);
  if (std::find(public_keys.begin(), public_keys.end(), text("key")) == public_keys.end())
    return error(Code::kNotSigned, "{} is signed by key {}, and asked for is {}", what, text("key"), fmt::join(public_keys, " or "));
  std::string said = signed_text(parts.manifest->data);
  if (crypto_sign_verify_detached(signature->data(), reinterpret_cast<const unsigned char*>(said.data()), said.size(), key->data()) != 0)
    return error(Code::kNotSigned, "{}: the signature by key {} is not one of this bundle", what, text("key"));
  return Ok{};
}

}  // namespace nabla::signature
