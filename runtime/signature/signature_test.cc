#include "runtime/signature/sign.h"
#include "runtime/signature/signature.h"

#include <gtest/gtest.h>

#include <fstream>

#include "runtime/exec/test_bundle.h"
#include "runtime/format/bundle_reader.h"

namespace nabla::signature {
namespace {

std::string bundle_bytes() {
  auto file = format::FileBytes::map(exec::write_toy_bundle("signed.nbundle"));
  return std::string(format::as_text((*file)->bytes()));
}
std::string refusal(const std::string& bytes, const std::vector<std::string>& keys) {
  Status s = check(format::as_bytes(bytes), keys, "b");
  if (s.ok()) return "";
  EXPECT_EQ(s.errors()[0].code, Code::kNotSigned) << s.errors()[0].message;
  return s.errors()[0].message;
}

// RFC 8032, section 7.1, test 1: the public key of this seed.
TEST(Signature, KeysAreThoseOfTheStandard) {
  std::string signed_bytes =
      *sign(format::as_bytes(bundle_bytes()), "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60", "b");
  EXPECT_EQ(refusal(signed_bytes, {"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"}), "");
}

TEST(Signature, HoldsForItsBundleAndKeyAlone) {
  KeyPair mine = new_key_pair(), other = new_key_pair();
  EXPECT_NE(mine.secret_key, other.secret_key);
  std::string plain = bundle_bytes(), bytes = *sign(format::as_bytes(plain), mine.secret_key, "b");
  EXPECT_EQ(refusal(bytes, {mine.public_key}), "");
  EXPECT_EQ(refusal(bytes, {other.public_key, mine.public_key}), "");
  EXPECT_EQ(refusal(plain, {mine.public_key}), "b is not signed");
  EXPECT_EQ(refusal(bytes, {other.public_key}), "b is signed by key " + mine.public_key + ", and asked for is " + other.public_key);
  // It is a bundle like others, and signing again replaces the signature.
  auto opened = format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(bytes)), "b");
  EXPECT_TRUE(opened.ok()) << to_string(opened.errors());
  std::string again = *sign(format::as_bytes(bytes), other.secret_key, "b");
  EXPECT_EQ(again.size(), bytes.size());
  EXPECT_EQ(refusal(again, {other.public_key}), "");
  EXPECT_EQ(*sign(format::as_bytes(again), mine.secret_key, "b"), bytes);
}

// Every byte of a signed bundle counts: for the signature, or for the hashes that it vouches for.
TEST(Signature, NoByteCanBeChanged) {
  KeyPair key = new_key_pair();
  std::string bytes = *sign(format::as_bytes(bundle_bytes()), key.secret_key, "b");
  size_t step = std::max<size_t>(1, bytes.size() / 3000);
  for (size_t i = 0; i < bytes.size(); i += step) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    bool vouched = check(format::as_bytes(changed), {key.public_key}, "b").ok();
    EXPECT_FALSE(vouched && format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(changed)), "b").ok()) << i;
  }
}

TEST(Signature, ForeignFilesAndKeysAreRefused) {
  std::string path = testing::TempDir() + "/key";
  auto read = [&](const std::string& text, bool secret) {
    std::ofstream(path) << text;
    return read_key(path, secret);
  };
  KeyPair key = new_key_pair();
  EXPECT_EQ(*read(key_file(key.public_key, false), false), key.public_key);
  EXPECT_EQ(*read(key_file(key.secret_key, true), true), key.secret_key);
  EXPECT_EQ(read(key_file(key.public_key, false), true).errors()[0].message, path + " holds a public key; a secret key is needed here");
  for (const char* bad : {"", "nabla-public-key ed25519 12", "nabla-public-key rsa 00", "-----BEGIN PUBLIC KEY-----"})
    EXPECT_EQ(read(bad, false).errors()[0].code, Code::kForeignFile) << bad;
  std::string two = key_file(key.public_key, false) + "\n# old\n" + key_file(key.public_key, false);
  EXPECT_EQ(read(two, false).errors()[0].message, path + " holds more than one key: `#` is written after the first");
  EXPECT_EQ(*read(key_file(key.public_key, false) + "\n\n", false), key.public_key);
  EXPECT_EQ(read_key(path + "/none", false).errors()[0].code, Code::kNotFound);
  std::string executable = std::string(4096, '\x7f') + bundle_bytes();
  EXPECT_EQ(sign(format::as_bytes(executable), key.secret_key, "b").errors()[0].code, Code::kForeignFile);
  EXPECT_FALSE(check(format::as_bytes(std::string("PK nothing")), {key.public_key}, "b").ok());
}

}  // namespace
}  // namespace nabla::signature
