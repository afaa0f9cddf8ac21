// Checks signed bundles: Ed25519 (RFC 8032) over the manifest, which holds the hashes of all other members.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/format/file.h"

namespace nabla::signature {

/// A key file is one line: "nabla-public-key ed25519 3b6a..." or "nabla-secret-key ed25519 9d61...". E0801, E0105.
std::string key_file(const std::string& key, bool secret);
Result<std::string> read_key(const std::string& path, bool secret);

/// Has one of these keys signed the bundle's manifest? E0109 says who has, if anybody. That the manifest is true to the
/// members, format::Bundle checks.
Status check(format::Bytes bundle, const std::vector<std::string>& public_keys, const std::string& what);

}  // namespace nabla::signature
