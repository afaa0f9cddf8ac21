#include "runtime/format/bundle_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/base/option_name.h"
#include "runtime/base/version.h"
#include "runtime/format/members.h"
#include "runtime/format/program_check.h"
#include "runtime/format/program_generated.h"
#include "runtime/format/ranks_check.h"
#include "runtime/format/ranks_generated.h"
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
    if (member.name == kManifestMember || member.name == kSignatureMember) continue;
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

// Whoever runs one program of a class could run another: they have the same entries and state.
Status check_same_border(const std::vector<const Program*>& programs, const std::string& what) {
  const Program& first = *programs[0];
  for (const Program* p : programs) {
    if (p == &first) continue;
    bool fits = size_of(first.entries()) == size_of(p->entries()) && size_of(first.state()) == size_of(p->state());
    for (uint32_t i = 0; fits && i < size_of(first.entries()); ++i) {
      const Entry &a = *first.entries()->Get(i), &b = *p->entries()->Get(i);
      fits = name_of(a.name()) == name_of(b.name()) && same(a.inputs(), b.inputs()) && same(a.outputs(), b.outputs());
    }
    for (uint32_t i = 0; fits && i < size_of(first.state()); ++i)
      fits = same(*first.state()->Get(i)->tensor(), *p->state()->Get(i)->tensor());
    if (!fits)
      return error(Code::kCorrupt, "{}: the programs for {} and {} do not have the same entries and state", what,
                   name_of(first.target()), name_of(p->target()));
  }
  return Ok{};
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-';
  });
}

// "programs/main.fb", or the same in a class's folder.
bool is_program(std::string_view name) {
  if (name.starts_with("class/")) name.remove_prefix(std::min(name.find('/', 6), name.size() - 1) + 1);
  return name.starts_with(kProgramFolder);
}

// A class and the members that hold its programs.
struct ListedClass {
  std::string name;
  std::vector<std::string> members;
  CommunicationRow row;
};

// Of a bundle for one rank: main.fb first, the others in their order.
std::vector<ListedClass> only_class(const std::vector<std::string>& names) {
  ListedClass out{"main", {std::string(kProgramMember)}, {}};
  for (const std::string& name : names)
    if (name.starts_with(kProgramFolder) && name != kProgramMember) out.members.push_back(name);
  return {out};
}

// Every program is of one class.
Result<std::vector<ListedClass>> classes_of_table(const Ranks& ranks, const std::vector<std::string>& names,
                                             const std::string& what) {
  std::vector<ListedClass> out;
  std::set<std::string> listed;
  for (uint32_t c = 0; c < ranks.classes()->size(); ++c) {
    const Class& k = *ranks.classes()->Get(c);
    out.push_back({k.name()->str(), {}, row_of(ranks, c)});
    if (!is_plain_name(out.back().name))
      return error(Code::kCorrupt, "{}: a class is named `{}`", what, out.back().name);
    for (uint32_t i = 0; i < size_of(k.programs()); ++i) {
      std::string name(view(k.programs()->Get(i)));
      if (!name.starts_with(class_folder(out.back().name) + std::string(kProgramFolder)) || !listed.insert(name).second)
        return error(Code::kCorrupt, "{}: `{}` is no program of class `{}`, or stands twice", what, name,
                     out.back().name);
      out.back().members.push_back(std::move(name));
    }
    if (out.back().members.empty())
      return error(Code::kCorrupt, "{}: class `{}` has no program", what, out.back().name);
  }
  for (const std::string& name : names)
    if (is_program(name) && !listed.count(name))
      return error(Code::kCorrupt, "{}: program `{}` is of no class", what, name);
  return out;
}

Status check_targets(const BundleClass& k, const std::string& what) {
  std::set<std::string_view> targets;
  for (const Program* p : k.programs)
    if (!targets.insert(view(p->target())).second)
      return error(Code::kCorrupt, "{}: two programs of class `{}` are for {}", what, k.name, view(p->target()));
  return Ok{};
}

}  // namespace

std::string targets_of(const BundleClass& of, const char* between) {
  std::string out;
  for (const Program* p : of.programs) out += fmt::format("{}{}", out.empty() ? "" : between, view(p->target()));
  return out;
}

Result<CheckedPrograms> check_programs(const std::vector<std::string>& names, const FindMember& find,
                                       const std::string& what) {
  CheckedPrograms out;
  std::vector<ListedClass> listed = only_class(names);
  if (std::optional<Bytes> table = find(kRanksMember)) {
    (void)NABLA_TRY(check_ranks_bytes(*table, what));
    out.ranks = GetRanks(table->data());
    listed = NABLA_TRY(classes_of_table(*out.ranks, names, what));
  }
  auto member_size = [&](std::string_view name) -> int64_t {
    std::optional<Bytes> bytes = find(name);
    return bytes ? static_cast<int64_t>(bytes->size()) : -1;
  };
  for (const ListedClass& k : listed) {
    out.classes.push_back({k.name, out.ranks ? class_folder(k.name) : "", {}});
    for (const std::string& member : k.members) {
      std::optional<Bytes> bytes = find(member);
      if (!bytes) return error(Code::kCorrupt, "{}: member `{}` is missing", what, member);
      (void)NABLA_TRY(check_program_bytes(*bytes, what, member_size, k.row));
      out.classes.back().programs.push_back(GetProgram(bytes->data()));
    }
    (void)NABLA_TRY(check_targets(out.classes.back(), what));
    (void)NABLA_TRY(check_same_border(out.classes.back().programs, what));
  }
  if (out.ranks == nullptr) return out;
  ClassPrograms programs;
  for (const BundleClass& k : out.classes) programs.push_back(k.programs);
  (void)NABLA_TRY(check_wholes(*out.ranks, programs, what));
  (void)NABLA_TRY(check_partners(*out.ranks, programs, what));
  (void)NABLA_TRY(check_progress(*out.ranks, programs, what));
  return out;
}

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
  std::vector<std::string> names;
  for (const ZipMember& member : bundle.zip_.members()) names.push_back(member.name);
  auto find = [&](std::string_view name) -> std::optional<Bytes> {
    const ZipMember* member = bundle.zip_.find(name);
    return member == nullptr ? std::nullopt : std::optional<Bytes>(member->data);
  };
  CheckedPrograms programs = NABLA_TRY(check_programs(names, find, what));
  (void)NABLA_TRY(check_hashes(bundle.zip_, manifest, what));
  bundle.classes_ = std::move(programs.classes);
  bundle.ranks_ = programs.ranks;
  bundle.file_ = std::move(file);
  bundle.what_ = std::move(what);
  return bundle;
}

Result<const BundleClass*> Bundle::need_class(std::string_view name) const {
  std::vector<std::string> known;
  std::string list;
  for (const BundleClass& k : classes_) {
    if (k.name == name || (name.empty() && classes_.size() == 1)) return &k;
    known.push_back(k.name);
    list += (list.empty() ? "" : ", ") + k.name;
  }
  Diagnostic d = error(Code::kUnknownName, "{} has no class `{}`; it has {}{}", what_, name, list,
                       did_you_mean(std::string(name), known));
  if (name.empty()) d.message = fmt::format("{} has programs for ranks of several classes: {}", what_, list);
  d.help = fmt::format("name one of them with {}", OptionName{"class"});
  return d;
}

Bytes Bundle::member(std::string_view name) const {
  const ZipMember* member = zip_.find(name);
  return member == nullptr ? Bytes{} : member->data;
}

Status check_program_bytes(Bytes bytes, const std::string& what,
                           const std::function<int64_t(std::string_view)>& member_size, const CommunicationRow& row) {
  if (bytes.size() < 8 || !ProgramBufferHasIdentifier(bytes.data()))
    return error(Code::kCorrupt, "{}: the program does not have the identifier {}", what, ProgramIdentifier());
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), 64, 100'000'000);
  if (!VerifyProgramBuffer(verifier)) return error(Code::kCorrupt, "{}: the program is not a valid FlatBuffer", what);
  return ProgramCheck(*GetProgram(bytes.data()), what, member_size, row).run();
}

Status check_ranks_bytes(Bytes bytes, const std::string& what) {
  if (bytes.size() < 8 || !RanksBufferHasIdentifier(bytes.data()))
    return error(Code::kCorrupt, "{}: the rank table does not have the identifier {}", what, RanksIdentifier());
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), 64, 100'000'000);
  if (!VerifyRanksBuffer(verifier))
    return error(Code::kCorrupt, "{}: the rank table is not a valid FlatBuffer", what);
  return check_ranks(*GetRanks(bytes.data()), what);
}

}  // namespace nabla::format
