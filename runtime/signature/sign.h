// Signs bundles. Signing is separate from checking, because nabla-run only checks.
#pragma once

#include <string>

#include "runtime/base/diagnostic.h"
#include "runtime/format/file.h"

namespace nabla::signature {

/// 32 bytes as 64 hexadecimal digits. A secret key is the seed of a pair (RFC 8032, section 5.1.5).
struct KeyPair {
  std::string public_key, secret_key;
};
KeyPair new_key_pair();

/// The bytes of a bundle whose last member is a signature. A signature that the bundle had is replaced. `what` names the bundle. E0105
/// if the bytes are no bundle file, but for example an executable that carries one.
Result<std::string> sign(format::Bytes bundle, const std::string& secret_key, const std::string& what);

}  // namespace nabla::signature
