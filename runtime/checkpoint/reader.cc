#include "runtime/checkpoint/reader.h"

#include <algorithm>
#include <tuple>

#include "runtime/checkpoint/folder.h"
#include "runtime/format/file.h"
#include "runtime/format/zip.h"

namespace nabla::checkpoint {
namespace {

std::string base_name(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return folder.substr(folder.rfind('/') + 1);
}

/// Which folders are tried one after the other.
struct Candidates {
  std::vector<std::string> folders;
  bool only_one = false;  ///< it is wanted by name
};

Result<Candidates> candidates(const Wanted& wanted) {
  bool is_step = wanted.which.find_first_not_of("0123456789") == std::string::npos;
  if (!is_step && wanted.which != "latest") return Candidates{{wanted.which}, true};
  std::vector<int64_t> steps = NABLA_TRY(steps_in(wanted.dir));
  Candidates out;
  if (wanted.which == "latest") {
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) out.folders.push_back(wanted.dir + "/" + name_of(*step));
    return out;
  }
  std::string list;
  for (int64_t step : steps) {
    if (std::to_string(step) == wanted.which) return Candidates{{wanted.dir + "/" + name_of(step)}, true};
    list += fmt::format("{}{}", list.empty() ? "" : ", ", step);
  }
  Diagnostic d = error(Code::kNoCheckpoint, "`{}` has no checkpoint of step {}; it has {}", wanted.dir, wanted.which,
                       list.empty() ? "none" : "those of " + list);
  if (!list.empty()) d.help = fmt::format("--resume takes one of {}, or latest", list);
  return d;
}

/// Has the box no element of a leaf of this shape?
bool is_padding(const exec::Box& box, const std::vector<int64_t>& shape) {
  return !exec::overlaps(box, {std::vector<int64_t>(shape.size(), 0), shape});
}

/// Has `part` all elements of `box` within a leaf of this shape?
bool has_all_of(const exec::Box& part, const exec::Box& box, const std::vector<int64_t>& shape) {
  for (size_t d = 0; d < shape.size(); ++d)
    if (part.begin[d] > box.begin[d] || part.begin[d] + part.size[d] < std::min(box.begin[d] + box.size[d], shape[d])) return false;
  return true;
}

std::string reason_of(const Diagnostics& why) { return why.front().message; }

/// What one process finds wrong with its share of the files; empty: nothing. The first file of its share is that of the same rank,
/// which it needs again where the mesh is the same.
std::string check_share(Checkpoint& checkpoint, const Party& party) {
  for (size_t i = party.process; i < checkpoint.manifest().files.size(); i += party.processes)
    if (Status fine = checkpoint.check_file(static_cast<uint32_t>(i), i == party.process); !fine.ok()) return reason_of(fine.errors());
  return "";
}

/// The first process: what all check next ("+FOLDER"), or how it ends ("-": none, "!": an error), and what was wrong before.
class Chooser {
 public:
  Chooser(const Wanted& wanted, const std::vector<Leaf>& leaves) : wanted_(wanted), leaves_(leaves) {
    Result<Candidates> found = candidates(wanted);
    if (found.ok())
      left_ = std::move(*found);
    else
      ended_ = "!" + text_of(found.errors().front());
  }

  std::string next() {
    while (!ended_ && next_ < left_.folders.size()) {
      const std::string& folder = left_.folders[next_++];
      Result<Checkpoint> opened = Checkpoint::open(folder);
      if (!opened.ok()) {
        refuse(folder, reason_of(opened.errors()));
      } else if (Status fits = check_model(opened->manifest(), leaves_, folder); !fits.ok()) {
        ended_ = "!" + text_of(fits.errors().front());
      } else {
        opened_ = std::move(*opened);
        return "+" + folder;
      }
    }
    return ended_ ? *ended_ : reasons_.empty() ? "-" : "!" + text_of(none_valid());
  }
  /// The checkpoint that `next` has named, which this process has open.
  Checkpoint take() { return std::move(*opened_); }
  void refuse(const std::string& folder, const std::string& reason) {
    reasons_ += fmt::format("{}{}", reasons_.empty() ? "" : "; ", reason);
    if (!left_.only_one && wanted_.warn) wanted_.warn(fmt::format("warning: checkpoint `{}` is left out: {}", folder, reason));
  }

 private:
  Diagnostic none_valid() const { return error(Code::kNoCheckpoint, "no valid checkpoint: {}", reasons_); }

  const Wanted& wanted_;
  const std::vector<Leaf>& leaves_;
  Candidates left_;
  std::optional<Checkpoint> opened_;
  size_t next_ = 0;
  std::optional<std::string> ended_;
  std::string reasons_;
};

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& folder) {
  std::string path = folder + "/" + kManifest;
  std::shared_ptr<const format::FileBytes> bytes = NABLA_TRY(format::FileBytes::map(path));
  Manifest manifest = NABLA_TRY(Manifest::parse(format::as_text(bytes->bytes()), path));
  std::optional<int64_t> step = step_of(base_name(folder));
  if (step && *step != manifest.step) return error(Code::kCorrupt, "{}: damaged: it is that of step {}", path, manifest.step);
  return Checkpoint(folder, std::move(manifest));
}

Result<format::Bytes> Checkpoint::file(uint32_t index) {
  const File& file = manifest_.files[index];
  std::shared_ptr<const format::FileBytes>& bytes = open_[index];
  std::string path = folder_ + "/" + file.name;
  if (bytes == nullptr) bytes = NABLA_TRY(format::FileBytes::map(path));
  if (bytes->bytes().size() == file.size) return bytes->bytes();
  return error(Code::kCorrupt, "{}: damaged: it has {} bytes, not {}", path, bytes->bytes().size(), file.size);
}

Status Checkpoint::check_file(uint32_t index, bool keep) {
  const File& file = manifest_.files[index];
  uint32_t got = format::crc32_of(NABLA_TRY(this->file(index)));
  if (!keep) open_.erase(index);
  if (got != file.checksum)
    return error(Code::kCorrupt, "{}/{}: damaged: its checksum is {:08x}, not {:08x}", folder_, file.name, got, file.checksum);
  (void)NABLA_TRY(manifest_.pieces_of(index));
  return Ok{};
}

Result<std::vector<exec::StateView>> Checkpoint::views(const std::vector<Leaf>& leaves, const Layout& layout, uint32_t rank) {
  std::map<std::string, int> numbers;
  for (size_t i = 0; i < leaves.size(); ++i) numbers[leaves[i].name] = static_cast<int>(i);
  std::vector<exec::StateView> out;
  std::set<std::tuple<int, std::vector<int64_t>, std::vector<int64_t>>> known;  // a copy is not read again
  for (uint32_t index : files_with(manifest_, leaves, layout, rank)) {
    format::Bytes bytes = NABLA_TRY(file(index));
    for (Piece& piece : NABLA_TRY(manifest_.pieces_of(index)))
      if (known.emplace(piece.leaf, piece.begin, piece.extent).second)
        out.push_back({numbers.at(manifest_.leaves[static_cast<size_t>(piece.leaf)].name), std::move(piece.begin),
                       std::move(piece.extent), bytes.data() + *piece.offset});
  }
  return out;
}

Status Checkpoint::load(exec::Session& session, const Layout& layout, uint32_t rank) {
  return session.set_pieces(NABLA_TRY(views(leaves_of(session), layout, rank)));
}

// If a run with the same layout wrote the checkpoint, the layout knows the files.
std::set<uint32_t> files_with(const Manifest& manifest, const std::vector<Leaf>& leaves, const Layout& layout, uint32_t rank) {
  struct Need {
    exec::Box box;
    std::optional<uint32_t> file;
    bool met = false;
  };
  std::map<std::string, Need> needs;
  std::vector<std::optional<exec::Box>> boxes = layout.needed_by(rank);
  std::vector<std::optional<uint32_t>> files = layout.files_for(rank);
  for (size_t i = 0; i < boxes.size(); ++i)
    if (boxes[i] && !is_padding(*boxes[i], leaves[i].shape)) needs[leaves[i].name] = {*boxes[i], files[i]};
  std::set<uint32_t> out;
  for (const Placement& p : manifest.placements) {
    auto need = needs.find(manifest.leaves[static_cast<size_t>(p.leaf)].name);
    if (need == needs.end() || !need->second.file) continue;
    std::optional<exec::Box> part = p.part_of(*need->second.file);
    if (part && has_all_of(*part, need->second.box, manifest.leaves[static_cast<size_t>(p.leaf)].shape))
      need->second.met = true, out.insert(*need->second.file);
  }
  for (const Placement& p : manifest.placements) {
    const Leaf& leaf = manifest.leaves[static_cast<size_t>(p.leaf)];
    if (p.copy) continue;
    if (layout.of_one()) p.add_files({std::vector<int64_t>(leaf.shape.size(), 0), leaf.shape}, out);
    else if (auto need = needs.find(leaf.name); need != needs.end() && !need->second.met) p.add_files(need->second.box, out);
  }
  return out;
}

// Every process reports to the first one what it has found, and the first one publishes one verdict: 2 N reads of the store for N ranks.
Result<std::optional<Checkpoint>> find(const Wanted& wanted, const std::vector<Leaf>& leaves, const Party& party) {
  std::optional<Chooser> chooser;
  if (party.first()) chooser.emplace(wanted, leaves);
  for (int round = 0;; ++round) {
    std::string key = fmt::format("resume/{}/", round);
    if (chooser) (void)NABLA_TRY(party.put(key + "try", chooser->next()));
    std::string said = NABLA_TRY(party.get(key + "try")), rest = said.substr(1);
    if (said[0] == '-') return std::optional<Checkpoint>();
    if (said[0] == '!') return diagnostic_of(rest);
    Result<Checkpoint> opened = chooser ? chooser->take() : Checkpoint::open(rest);
    std::string wrong = opened.ok() ? check_share(*opened, party) : reason_of(opened.errors());
    if (chooser) {
      for (uint32_t p = 1; p < party.processes; ++p)
        if (std::string theirs = NABLA_TRY(party.get(key + std::to_string(p))); wrong.empty()) wrong = std::move(theirs);
      (void)NABLA_TRY(party.put(key + "all", wrong));
    } else {
      (void)NABLA_TRY(party.put(key + std::to_string(party.process), wrong));
      wrong = NABLA_TRY(party.get(key + "all"));
    }
    if (wrong.empty()) return std::optional<Checkpoint>(NABLA_TRY(std::move(opened)));
    if (chooser) chooser->refuse(rest, wrong);
  }
}

}  // namespace nabla::checkpoint
