#include "runtime/signature/parts.h"

#include "runtime/format/members.h"

namespace nabla::signature {

// The text begins with its purpose, so that a signature of something else is not one of a bundle.
std::string signed_text(format::Bytes manifest) { return "nabla bundle signature 1\n" + std::string(format::as_text(manifest)); }

Result<Parts> parts_of(format::Bytes bundle, const std::string& what) {
  format::ZipReader zip = NABLA_TRY(format::ZipReader::open(bundle, what));
  Parts out{std::move(zip), nullptr, nullptr};
  out.manifest = out.zip.find(format::kManifestMember);
  out.signature = out.zip.find(format::kSignatureMember);
  if (out.manifest == nullptr || out.manifest->method != 0) return error(Code::kForeignFile, "{}: no Nabla bundle", what);
  return out;
}

}  // namespace nabla::signature
