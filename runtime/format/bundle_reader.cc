#include "runtime/format/bundle_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/format/bundle_writer.h"
#include "runtime/format/program_check.h"
#include "runtime/format/program_generated.h"
#include "runtime/format/sha256.h"

namespace nabla::format {
namespace {

using Json = nlohmann::json;

Result<Json> read_manifest(const ZipReader& zip, const std::string& what) {
  const ZipMember* member = zip.find(kManifestMember);
  if (member == nullptr)
    return error(Code::kForeignFile, "{}: a zip archive, but not a bundle: no {}", what, kManifestMember);
  if (member->size > kMaxManifest)
    return error(Code::kTooLarge, "{}: a manifest of {} bytes; at most {}", what, member->size, kMaxManifest);
  std::string text = NABLA_TRY(zip.read(*member));
  Json manifest = Json::parse(text, nullptr, false);
  if (manifest.is_discarded() || !manifest.is_object())
    return error(Code::kCorrupt, "{}: the manifest is not a JSON object", what);
  auto format = manifest.find("format");
  if (format == manifest.end() || *format != "nabla-bundle")
    return error(Code::kForeignFile, "{}: a zip archive with a manifest, but not a Nabla bundle", what);
  auto version = manifest.find("version");
  if (version == manifest.end() || !version->is_number_unsigned() || *version == 0)
    return error(Code::kCorrupt, "{}: the manifest states no version", what);
  if (version->get<uint64_t>() > static_cast<uint64_t>(kBundleVersion))
    return error(Code::kNewerVersion, "{}: bundle version {}; this program reads up to {}", what,
                 version->get<uint64_t>(), kBundleVersion);
  return manifest;
}

Status check_hashes(const ZipReader& zip, const Json& manifest, const std::string& what) {
  auto hashes = manifest.find("sha256");
  if (hashes == manifest.end() || !hashes->is_object())
    return error(Code::kCorrupt, "{}: the manifest has no hashes", what);
  for (const auto& [name, value] : hashes->items())
    if (zip.find(name) == nullptr) return error(Code::kCorrupt, "{}: member `{}` is missing", what, name);
  for (const ZipMember& member : zip.members()) {
    if (member.name == kManifestMember) continue;
    auto stated = hashes->find(member.name);
    if (stated == hashes->end() || !stated->is_string())
      return error(Code::kCorrupt, "{}: member `{}` has no hash in the manifest", what, member.name);
    std::string actual = sha256_hex(member.data);
    if (*stated != actual)
      return error(Code::kCorrupt, "{}: member `{}` is damaged: its SHA-256 is {}, the manifest says {}", what,
                   member.name, actual, stated->get_ref<const std::string&>());
  }
  return Ok{};
}

std::string name_of(const flatbuffers::String* text) { return text == nullptr ? std::string() : text->str(); }

bool same(const Tensor& a, const Tensor& b) {
  auto shape = [](const Tensor& t) {
    return t.shape() == nullptr ? std::vector<int64_t>() : std::vector<int64_t>(t.shape()->begin(), t.shape()->end());
  };
  return name_of(a.name()) == name_of(b.name()) && a.dtype() == b.dtype() && shape(a) == shape(b);
}
using Tensors = flatbuffers::Vector<flatbuffers::Offset<Tensor>>;
bool same(const Tensors* a, const Tensors* b) {
  if (a == nullptr || b == nullptr) return (a == nullptr || a->size() == 0) && (b == nullptr || b->size() == 0);
  return std::equal(a->begin(), a->end(), b->begin(), b->end(),
                    [](const Tensor* x, const Tensor* y) { return same(*x, *y); });
}

// Whoever runs one program of a bundle could run another: they have the same entries and state.
Status check_same_border(const std::vector<const Program*>& programs, const std::string& what) {
  const Program& first = *programs[0];
  for (const Program* p : programs) {
    if (p == &first) continue;
    auto count = [](const auto* list) { return list == nullptr ? 0u : list->size(); };
    bool fits = count(first.entries()) == count(p->entries()) && count(first.state()) == count(p->state());
    for (uint32_t i = 0; fits && i < count(first.entries()); ++i) {
      const Entry &a = *first.entries()->Get(i), &b = *p->entries()->Get(i);
      fits = name_of(a.name()) == name_of(b.name()) && same(a.inputs(), b.inputs()) && same(a.outputs(), b.outputs());
    }
    for (uint32_t i = 0; fits && i < count(first.state()); ++i)
      fits = same(*first.state()->Get(i)->tensor(), *p->state()->Get(i)->tensor());
    if (!fits)
      return error(Code::kCorrupt, "{}: the programs for {} and {} do not have the same entries and state", what,
                   name_of(first.target()), name_of(p->target()));
  }
  return Ok{};
}

}  // namespace

Result<Bundle> Bundle::open(const std::string& path) { return from_bytes(NABLA_TRY(FileBytes::map(path)), path); }

Result<Bundle> Bundle::from_bytes(std::shared_ptr<const FileBytes> file, std::string what) {
  Bundle bundle;
  Result<ZipReader> zip = ZipReader::open(file->bytes(), what);
  if (!zip.ok()) {
    if (zip.errors()[0].code == Code::kForeignFile)
      zip.errors()[0].help = "bundles (.nbundle) are what `nablac compile` makes of a module (.nir, .nir.json or .nbl)";
    return std::move(zip.errors());
  }
  bundle.zip_ = std::move(*zip);
  for (const ZipMember& member : bundle.zip_.members()) {
    if (member.name == kManifestMember) continue;
    if (member.method != 0 || reinterpret_cast<uintptr_t>(member.data.data()) % 64 != 0) {
      bool bundle_like = bundle.zip_.find(kManifestMember) != nullptr;
      return error(bundle_like ? Code::kCorrupt : Code::kForeignFile,
                   "{}: member `{}` is not stored at a multiple of 64 bytes, as a bundle's members are", what,
                   member.name);
    }
  }
  Json manifest = NABLA_TRY(read_manifest(bundle.zip_, what));
  (void)NABLA_TRY(bundle.zip_.check_every_byte());
  if (bundle.member(kProgramMember).empty())
    return error(Code::kCorrupt, "{}: member `{}` is missing", what, kProgramMember);
  auto member_size = [&](std::string_view name) -> int64_t {
    const ZipMember* member = bundle.zip_.find(name);
    return member == nullptr ? -1 : static_cast<int64_t>(member->size);
  };
  std::vector<const Program*> programs;
  for (const ZipMember& member : bundle.zip_.members()) {
    if (!member.name.starts_with(kProgramFolder)) continue;
    (void)NABLA_TRY(check_program_bytes(member.data, what, member_size));
    const Program* program = GetProgram(member.data.data());
    programs.insert(member.name == kProgramMember ? programs.begin() : programs.end(), program);
  }
  (void)NABLA_TRY(check_hashes(bundle.zip_, manifest, what));
  (void)NABLA_TRY(check_same_border(programs, what));
  bundle.programs_ = std::move(programs);
  bundle.file_ = std::move(file);
  bundle.what_ = std::move(what);
  return bundle;
}

Bytes Bundle::member(std::string_view name) const {
  const ZipMember* member = zip_.find(name);
  return member == nullptr ? Bytes{} : member->data;
}

Status check_program_bytes(Bytes bytes, const std::string& what,
                           const std::function<int64_t(std::string_view)>& member_size) {
  if (bytes.size() < 8 || !ProgramBufferHasIdentifier(bytes.data()))
    return error(Code::kCorrupt, "{}: the program does not have the identifier {}", what, ProgramIdentifier());
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), 64, 100'000'000);
  if (!VerifyProgramBuffer(verifier)) return error(Code::kCorrupt, "{}: the program is not a valid FlatBuffer", what);
  return ProgramCheck(*GetProgram(bytes.data()), what, member_size).run();
}

}  // namespace nabla::format
