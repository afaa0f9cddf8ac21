#include "runtime/checkpoint/reader.h"

#include <algorithm>
#include <map>

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
  return error(Code::kNoCheckpoint, "`{}` has no checkpoint of step {}; it has {}", wanted.dir, wanted.which,
               list.empty() ? "none" : "those of " + list);
}

std::string reason_of(const Diagnostics& why) { return why.front().message; }

/// What one process finds wrong with its share; empty: nothing.
std::string check_share(const std::string& folder, const Party& party) {
  Result<Checkpoint> opened = Checkpoint::open(folder);
  if (!opened.ok()) return reason_of(opened.errors());
  for (size_t i = party.process; i < opened->manifest().files.size(); i += party.processes)
    if (Status fine = opened->check_file(i); !fine.ok()) return reason_of(fine.errors());
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
        return "+" + folder;
      }
    }
    return ended_ ? *ended_ : reasons_.empty() ? "-" : "!" + text_of(none_valid());
  }
  void refuse(const std::string& folder, const std::string& reason) {
    reasons_ += fmt::format("{}{}", reasons_.empty() ? "" : "; ", reason);
    if (!left_.only_one && wanted_.warn) wanted_.warn(fmt::format("warning: checkpoint `{}` is left out: {}", folder, reason));
  }

 private:
  Diagnostic none_valid() const { return error(Code::kNoCheckpoint, "no valid checkpoint: {}", reasons_); }

  const Wanted& wanted_;
  const std::vector<Leaf>& leaves_;
  Candidates left_;
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

Status Checkpoint::check_file(size_t index) const {
  const File& file = manifest_.files[index];
  std::string path = folder_ + "/" + file.name;
  std::shared_ptr<const format::FileBytes> bytes = NABLA_TRY(format::FileBytes::map(path));
  if (bytes->bytes().size() != file.size)
    return error(Code::kCorrupt, "{}: damaged: it has {} bytes, not {}", path, bytes->bytes().size(), file.size);
  uint32_t got = format::crc32_of(bytes->bytes());
  if (got != file.checksum) return error(Code::kCorrupt, "{}: damaged: its checksum is {:08x}, not {:08x}", path, got, file.checksum);
  return Ok{};
}

Status Checkpoint::load(exec::Session& session) const {
  std::vector<std::shared_ptr<const format::FileBytes>> files;
  for (const File& file : manifest_.files) {
    files.push_back(NABLA_TRY(format::FileBytes::map(folder_ + "/" + file.name)));
    if (files.back()->bytes().size() != file.size)
      return error(Code::kCorrupt, "{}/{}: it has {} bytes, not {}", folder_, file.name, files.back()->bytes().size(), file.size);
  }
  std::map<std::string, int> leaves;
  for (size_t i = 0; i < session.state_leaves().size(); ++i) leaves[session.state_leaves()[i].name] = static_cast<int>(i);
  std::vector<exec::StateView> views;
  for (const Piece& piece : manifest_.pieces)
    views.push_back({leaves.at(manifest_.leaves[static_cast<size_t>(piece.leaf)].name), piece.begin, piece.extent,
                     files[piece.file]->bytes().data() + piece.offset});
  return session.set_pieces(views);
}

Result<std::optional<Checkpoint>> find(const Wanted& wanted, const std::vector<Leaf>& leaves, const Party& party) {
  std::optional<Chooser> chooser;
  if (party.first()) chooser.emplace(wanted, leaves);
  for (int round = 0;; ++round) {
    std::string key = fmt::format("resume/{}/", round);
    if (chooser) (void)NABLA_TRY(party.put(key + "try", chooser->next()));
    std::string said = NABLA_TRY(party.get(key + "try")), rest = said.substr(1);
    if (said[0] == '-') return std::optional<Checkpoint>();
    if (said[0] == '!') return diagnostic_of(rest);
    (void)NABLA_TRY(party.put(key + std::to_string(party.process), check_share(rest, party)));
    std::string wrong;
    for (uint32_t p = 0; p < party.processes && wrong.empty(); ++p) wrong = NABLA_TRY(party.get(key + std::to_string(p)));
    if (wrong.empty()) return std::optional<Checkpoint>(NABLA_TRY(Checkpoint::open(rest)));
    if (chooser) chooser->refuse(rest, wrong);
  }
}

}  // namespace nabla::checkpoint
