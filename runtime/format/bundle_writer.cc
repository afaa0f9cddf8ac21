#include "runtime/format/bundle_writer.h"

#include <nlohmann/json.hpp>
#include <set>

#include "runtime/base/dtype.h"
#include "runtime/format/bundle_reader.h"
#include "runtime/format/program_generated.h"
#include "runtime/format/sha256.h"
#include "runtime/format/zip.h"

namespace nabla::format {
namespace {

using Json = nlohmann::ordered_json;

// Stands once in the bytes of every program that is linked with this file. Volatile: write_executable changes it there.
constexpr volatile char kCarrier[] = "nabla: a bundle at the end of this file: 0";

Json tensor_json(const TensorT& tensor) {
  auto dtype = static_cast<int>(tensor.dtype);
  Json out = {{"name", tensor.name}, {"dtype", name_of(static_cast<nabla::DType>(dtype))}, {"shape", tensor.shape}};
  if (!tensor.symbols.empty()) out["symbols"] = tensor.symbols;
  return out;
}

Json tensors_json(const std::vector<std::unique_ptr<TensorT>>& tensors) {
  Json out = Json::array();
  for (const auto& tensor : tensors) out.push_back(tensor_json(*tensor));
  return out;
}

Json entry_json(const ProgramT& program, const EntryT& entry) {
  auto names = [&](const std::vector<uint32_t>& leaves) {
    Json out = Json::array();
    for (uint32_t leaf : leaves) out.push_back(program.state[leaf]->tensor->name);
    return out;
  };
  return {
      {"name", entry.name},          {"inputs", tensors_json(entry.inputs)}, {"outputs", tensors_json(entry.outputs)},
      {"reads", names(entry.reads)}, {"writes", names(entry.writes)},        {"flops", entry.flops},
      {"bytes", entry.bytes}};
}

Json program_json(const ProgramT& program, const std::string& member) {
  Json requires_ = {{"cpu_features", program.cpu_features}, {"libraries", Json::array()}};
  if (program.compute != 0) requires_["compute"] = program.compute;
  for (const auto& library : program.libraries)
    requires_["libraries"].push_back(
        {{"name", library->name}, {"soname", library->soname}, {"min_version", library->min_version}});
  return {
      {"member", member}, {"target", program.target}, {"requires", requires_}, {"arena_bytes", program.arena_bytes}};
}

std::string member_of(const std::vector<const ProgramT*>& programs, size_t i) {
  return i == 0 ? std::string(kProgramMember) : fmt::format("{}{}.fb", kProgramFolder, programs[i]->target);
}

std::string manifest_text(const std::vector<const ProgramT*>& programs, const std::vector<BundleMember>& members) {
  Json manifest = {{"format", "nabla-bundle"}, {"version", kBundleVersion}};
  const ProgramT& program = *programs[0];
  manifest["programs"] = Json::array();
  for (size_t i = 0; i < programs.size(); ++i)
    manifest["programs"].push_back(program_json(*programs[i], member_of(programs, i)));
  manifest["entries"] = Json::array();
  for (const auto& entry : program.entries) manifest["entries"].push_back(entry_json(program, *entry));
  manifest["state"] = Json::array();
  for (const auto& leaf : program.state) manifest["state"].push_back(tensor_json(*leaf->tensor));
  manifest["sha256"] = Json::object();
  for (const BundleMember& member : members) manifest["sha256"][member.name] = sha256_hex(as_bytes(member.bytes));
  return manifest.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Before it is packed: what has too many instructions may not fit into a FlatBuffer either.
Status check_count(const ProgramT& program) {
  uint64_t count = 0;
  for (const auto& block : program.blocks) count += block->instructions.size();
  for (const auto& entry : program.entries) {
    count += entry->instructions.size();
    for (const auto& variant : entry->variants) count += variant->instructions.size();
  }
  if (count <= kMaxInstructions) return Ok{};
  return error(Code::kTooLarge, "the program has {} instructions, the limit is {}", count, kMaxInstructions);
}

Result<std::string> packed(const std::vector<const ProgramT*>& programs, const std::vector<BundleMember>& members) {
  std::vector<BundleMember> all;
  for (size_t i = 0; i < programs.size(); ++i) {
    (void)NABLA_TRY(check_count(*programs[i]));
    flatbuffers::FlatBufferBuilder builder;
    FinishProgramBuffer(builder, Program::Pack(builder, programs[i]));
    all.push_back({member_of(programs, i),
                   std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize())});
  }
  all.insert(all.end(), members.begin(), members.end());
  std::set<std::string_view> names{kManifestMember};
  for (const BundleMember& member : all)
    if (!names.insert(member.name).second)
      return error(Code::kDuplicateName, "two members of the bundle are named `{}`", member.name);
  // What the loader would refuse must not be written; the check comes first because the manifest follows indices.
  auto member_size = [&](std::string_view name) -> int64_t {
    for (const BundleMember& member : members)
      if (member.name == name) return static_cast<int64_t>(member.bytes.size());
    return -1;
  };
  for (size_t i = 0; i < programs.size(); ++i)
    (void)NABLA_TRY(check_program_bytes(as_bytes(all[i].bytes), "the program", member_size));
  std::string manifest = manifest_text(programs, all);
  if (manifest.size() > kMaxManifest)
    return error(Code::kTooLarge, "the program's manifest takes {} bytes, the limit is {}", manifest.size(),
                 kMaxManifest);
  ZipWriter zip;
  zip.add(std::string(kManifestMember), as_bytes(manifest));
  for (const BundleMember& member : all) zip.add(member.name, as_bytes(member.bytes));
  return std::move(zip).finish();
}

}  // namespace

Result<std::string> bundle_bytes(const std::vector<const ProgramT*>& programs,
                                 const std::vector<BundleMember>& members) {
  Result<std::string> out = packed(programs, members);
  if (out.ok()) return out;
  // The limits are those of the loader, which blames the file; here it is the program that is too large.
  for (Diagnostic& d : out.errors()) {
    if (d.code != Code::kTooLarge) continue;
    d.code = Code::kOverBudget;
    d.help = "shrink the program: write repeated work as scan or while_loop, or make several programs of it";
  }
  return out;
}

Status write_bundle(const std::string& path, const ProgramT& program, const std::vector<BundleMember>& members) {
  return write_file(path, NABLA_TRY(bundle_bytes(program, members)));
}

bool carries_bundle() { return kCarrier[sizeof kCarrier - 2] == '1'; }

Status write_executable(const std::string& path, Bytes runtime, std::string_view bundle) {
  std::string program(as_text(runtime)), mark;
  for (size_t i = 0; i < sizeof kCarrier; ++i) mark += kCarrier[i];
  size_t at = program.find(mark);
  if (at == program.npos || program.find(mark, at + 1) != program.npos)
    return error(Code::kForeignFile, "the runtime for `{}` ({} bytes) is not a nabla-run that can carry a bundle", path,
                 program.size());
  program[at + mark.size() - 2] = '1';
  // Member data are aligned relative to the archive, which therefore starts on a page.
  constexpr size_t kPage = 4096;
  std::string padding((kPage - runtime.size() % kPage) % kPage, '\0');
  Bytes pieces[] = {as_bytes(program), as_bytes(padding), as_bytes(bundle)};
  return write_file(path, pieces, true);
}

}  // namespace nabla::format
