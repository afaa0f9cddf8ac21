#include "runtime/format/bundle_writer.h"

#include <nlohmann/json.hpp>
#include <set>

#include "runtime/base/dtype.h"
#include "runtime/format/bundle_reader.h"
#include "runtime/format/program_generated.h"
#include "runtime/format/rank_digits.h"
#include "runtime/format/ranks_generated.h"
#include "runtime/format/sha256.h"
#include "runtime/format/zip.h"

namespace nabla::format {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson tensor_json(const TensorT& tensor) {
  auto dtype = static_cast<int>(tensor.dtype);
  OrderedJson out = {{"name", tensor.name}, {"dtype", name_of(static_cast<nabla::DType>(dtype))}, {"shape", tensor.shape}};
  if (!tensor.symbols.empty()) out["symbols"] = tensor.symbols;
  return out;
}

OrderedJson tensors_json(const std::vector<std::unique_ptr<TensorT>>& tensors) {
  OrderedJson out = OrderedJson::array();
  for (const auto& tensor : tensors) out.push_back(tensor_json(*tensor));
  return out;
}

OrderedJson entry_json(const ProgramT& program, const EntryT& entry) {
  auto names = [&](const std::vector<uint32_t>& leaves) {
    OrderedJson out = OrderedJson::array();
    for (uint32_t leaf : leaves) out.push_back(program.state[leaf]->tensor->name);
    return out;
  };
  return {
      {"name", entry.name},          {"inputs", tensors_json(entry.inputs)}, {"outputs", tensors_json(entry.outputs)},
      {"reads", names(entry.reads)}, {"writes", names(entry.writes)},        {"flops", entry.flops},
      {"bytes", entry.bytes}};
}

OrderedJson program_json(const ProgramT& program, const std::string& member) {
  OrderedJson requires_ = {{"cpu_features", program.cpu_features}, {"libraries", OrderedJson::array()}};
  if (program.compute != 0) requires_["compute"] = program.compute;
  if (program.cuda != 0) requires_["cuda"] = fmt::format("{}.{}", program.cuda / 1000, program.cuda % 1000 / 10);
  for (const auto& library : program.libraries)
    requires_["libraries"].push_back(
        {{"name", library->name}, {"soname", library->soname}, {"min_version", library->min_version}});
  return {
      {"member", member}, {"target", program.target}, {"requires", requires_}, {"arena_bytes", program.arena_bytes}};
}

/// A program and the member that holds it.
struct ListedMember {
  const ProgramT* program;
  std::string member;
  uint32_t class_index;
};

/// The first program of a class is main.fb.
std::vector<ListedMember> listed_members(RanksT* ranks, const std::vector<std::vector<const ProgramT*>>& programs) {
  std::vector<ListedMember> out;
  for (uint32_t c = 0; c < programs.size(); ++c)
    for (const ProgramT* p : programs[c]) {
      std::string name =
          p == programs[c][0] ? std::string(kProgramMember) : fmt::format("{}{}.fb", kProgramFolder, p->target);
      if (ranks) name = class_folder(ranks->classes[c]->name) + name;
      if (ranks) ranks->classes[c]->programs.push_back(name);
      out.push_back({p, std::move(name), c});
    }
  return out;
}

/// Entries and state, which all programs of a class have.
void add_border(OrderedJson& out, const ProgramT& program) {
  out["entries"] = OrderedJson::array();
  for (const auto& entry : program.entries) out["entries"].push_back(entry_json(program, *entry));
  out["state"] = OrderedJson::array();
  for (const auto& leaf : program.state) out["state"].push_back(tensor_json(*leaf->tensor));
}

OrderedJson wholes_json(const std::vector<std::unique_ptr<WholeT>>& wholes) {
  OrderedJson out = OrderedJson::array();
  for (const auto& w : wholes) {
    auto dtype = static_cast<nabla::DType>(w->dtype);
    out.push_back({{"name", w->name}, {"dtype", name_of(dtype)}, {"shape", w->shape}});
    if (!w->entry.empty()) out.back()["entry"] = w->entry;
  }
  return out;
}

OrderedJson ranks_json(const RanksT& ranks) {
  OrderedJson out = {{"count", ranks.count}, {"meshes", OrderedJson::array()}, {"groups", OrderedJson::array()}};
  for (const auto& mesh : ranks.meshes) {
    OrderedJson axes = OrderedJson::object();
    for (const auto& axis : mesh->axes) axes[axis->name] = axis->size;
    out["meshes"].push_back({{"name", mesh->name}, {"axes", axes}});
  }
  for (const auto& group : ranks.groups)
    out["groups"].push_back({{"name", group->name}, {"members", count_of(group->digits)}});
  out["state"] = wholes_json(ranks.state);
  out["inputs"] = wholes_json(ranks.inputs);
  out["outputs"] = wholes_json(ranks.outputs);
  return out;
}

std::string manifest_text(const RanksT* ranks, const std::vector<ListedMember>& programs,
                          const std::vector<BundleMember>& members) {
  OrderedJson manifest = {{"format", "nabla-bundle"}, {"version", ranks ? kBundleVersion : kOneRankVersion}};
  manifest["programs"] = OrderedJson::array();
  for (const ListedMember& p : programs) {
    manifest["programs"].push_back(program_json(*p.program, p.member));
    if (ranks) manifest["programs"].back()["class"] = ranks->classes[p.class_index]->name;
  }
  if (!ranks) add_border(manifest, *programs[0].program);
  if (ranks) manifest["ranks"] = ranks_json(*ranks);
  const ListedMember* before = nullptr;
  for (const ListedMember& p : programs) {
    if (ranks && (!before || before->class_index != p.class_index)) {
      const ClassT& k = *ranks->classes[p.class_index];
      OrderedJson row = {{"name", k.name}, {"ranks", count_of(k.digits)}};
      add_border(row, *p.program);
      manifest["classes"].push_back(std::move(row));
    }
    before = &p;
  }
  manifest["sha256"] = OrderedJson::object();
  for (const BundleMember& member : members) manifest["sha256"][member.name] = sha256_hex(as_bytes(member.bytes));
  return manifest.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
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

template <class Finish>
std::string flat(const Finish& finish) {
  flatbuffers::FlatBufferBuilder builder;
  finish(builder);
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

Result<std::string> packed(RanksT* ranks, const std::vector<std::vector<const ProgramT*>>& programs,
                           const std::vector<BundleMember>& members) {
  std::vector<BundleMember> all;
  std::vector<ListedMember> list = listed_members(ranks, programs);
  for (const ListedMember& p : list) {
    (void)NABLA_TRY(check_count(*p.program));
    all.push_back({p.member, flat([&](auto& b) { FinishProgramBuffer(b, Program::Pack(b, p.program)); })});
  }
  if (ranks)
    all.push_back({std::string(kRanksMember), flat([&](auto& b) { FinishRanksBuffer(b, Ranks::Pack(b, ranks)); })});
  all.insert(all.end(), members.begin(), members.end());
  std::set<std::string_view> names{kManifestMember};
  for (const BundleMember& member : all)
    if (!names.insert(member.name).second)
      return error(Code::kDuplicateName, "two members of the bundle are named `{}`", member.name);
  // What the loader would refuse must not be written; the check comes first because the manifest follows indices.
  auto find = [&](std::string_view name) -> std::optional<Bytes> {
    for (const BundleMember& member : all)
      if (member.name == name) return as_bytes(member.bytes);
    return std::nullopt;
  };
  (void)NABLA_TRY(check_programs(std::vector<std::string>(names.begin(), names.end()), find, "the program"));
  std::string manifest = manifest_text(ranks, list, all);
  if (manifest.size() > kMaxManifest)
    return error(Code::kTooLarge, "the program's manifest takes {} bytes, the limit is {}", manifest.size(),
                 kMaxManifest);
  ZipWriter zip;
  zip.add(std::string(kManifestMember), as_bytes(manifest));
  for (const BundleMember& member : all) zip.add(member.name, as_bytes(member.bytes));
  return std::move(zip).finish();
}

// The limits are those of the loader, which blames the file; here it is the program that is too large.
Result<std::string> of_program(Result<std::string> out) {
  if (out.ok()) return out;
  for (Diagnostic& d : out.errors()) {
    if (d.code != Code::kTooLarge) continue;
    d.code = Code::kOverBudget;
    d.help = "shrink the program: write repeated work as scan or while_loop, or make several programs of it";
  }
  return out;
}

}  // namespace

Result<std::string> bundle_bytes(const std::vector<const ProgramT*>& programs,
                                 const std::vector<BundleMember>& members) {
  return of_program(packed(nullptr, {programs}, members));
}

Result<std::string> bundle_bytes(RanksT ranks, const std::vector<std::vector<const ProgramT*>>& programs,
                                 const std::vector<BundleMember>& members) {
  NABLA_CHECK(ranks.classes.size() == programs.size(), "programs of {} classes for {}", programs.size(),
              ranks.classes.size());
  return of_program(packed(&ranks, programs, members));
}

Status write_bundle(const std::string& path, const ProgramT& program, const std::vector<BundleMember>& members) {
  return write_file(path, NABLA_TRY(bundle_bytes(program, members)));
}

}  // namespace nabla::format
