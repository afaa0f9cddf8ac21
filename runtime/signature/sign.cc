#include "runtime/signature/sign.h"

#include <sodium.h>

#include <nlohmann/json.hpp>

#include "runtime/format/members.h"
#include "runtime/signature/parts.h"

namespace nabla::signature {
namespace {

using Json = nlohmann::ordered_json;
static_assert(kKeyBytes == crypto_sign_PUBLICKEYBYTES && kKeyBytes == crypto_sign_SEEDBYTES && kSignatureBytes == crypto_sign_BYTES);

std::string hex(const unsigned char* bytes, size_t n) {
  std::string out(2 * n + 1, '\0');
  sodium_bin2hex(out.data(), out.size(), bytes, n);
  out.pop_back();
  return out;
}

void begin() { NABLA_CHECK(sodium_init() >= 0, "the system has no randomness"); }

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

}  // namespace nabla::signature
