#include "runtime/signature/signature.h"

#include <sodium.h>

#include <algorithm>
#include <fstream>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "runtime/signature/parts.h"

// Nothing here calls sodium_init, which would link all algorithms of libsodium into nabla-run. It chooses between implementations and
// starts the random numbers. Ed25519 and SHA-512 have one implementation each, and a check needs no random numbers.
namespace nabla::signature {
namespace {

using Json = nlohmann::json;

std::string_view word(bool secret) { return secret ? "secret" : "public"; }

}  // namespace

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

Status check(format::Bytes bundle, const std::vector<std::string>& public_keys, const std::string& what) {
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
  const auto* signed_bytes = reinterpret_cast<const unsigned char*>(said.data());
  if (crypto_sign_ed25519_verify_detached(signature->data(), signed_bytes, said.size(), key->data()) != 0)
    return error(Code::kNotSigned, "{}: the signature by key {} is not one of this bundle", what, text("key"));
  return Ok{};
}

}  // namespace nabla::signature
