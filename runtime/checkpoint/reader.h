// Finds committed checkpoints, and loads them into ranks of any mesh.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/meeting.h"
#include "runtime/exec/session.h"
#include "runtime/format/file.h"

namespace nabla::checkpoint {

class Checkpoint {
 public:
  /// Reads the manifest. E0801, E0802, errors of Manifest::parse, E0104 where its step is not that of the folder's name.
  static Result<Checkpoint> open(const std::string& folder);
  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  /// Reads all of a file. E0104 if its size or checksum differs, or if it is too small for its pieces. With `keep` the file stays open,
  /// because it is needed again.
  Status check_file(uint32_t file, bool keep = false);
  /// Loads the shards of the ranks in this process. Requires the same model (check_model) and checked files. `layout` and `rank` are
  /// needed if this process runs one of several ranks.
  Status load(exec::Session& session, const Layout& layout = {}, uint32_t rank = 0);
  /// What `load` passes to Session::set_pieces: the pieces of the files that have something of what the rank needs. Other files are
  /// not opened. The views live as long as the checkpoint.
  Result<std::vector<exec::StateView>> views(const std::vector<Leaf>& leaves, const Layout& layout, uint32_t rank);

 private:
  Checkpoint(std::string folder, Manifest manifest) : folder_(std::move(folder)), manifest_(std::move(manifest)) {}
  /// Opened once. E0104 when its size is another.
  Result<format::Bytes> file(uint32_t index);

  std::string folder_;
  Manifest manifest_;
  std::map<uint32_t, std::shared_ptr<const format::FileBytes>> open_;
};

/// The files in which a rank finds all that it needs. `layout` is that of the program with these leaves. If it is that of one rank, or if
/// one process runs all ranks, everything is needed.
std::set<uint32_t> files_with(const Manifest& manifest, const std::vector<Leaf>& leaves, const Layout& layout, uint32_t rank);

struct Wanted {
  std::string dir;
  std::string which;  ///< "latest", a step, or a folder
  std::function<void(const std::string&)> warn;  ///< called by the first process, for every one that is left out
};
/// All processes call it and get the same one, of which each has checked its share of the files. Nothing: `latest` is wanted, and
/// there is none. No-checkpoint (E0616) when there is none that is valid, or not the one wanted; E0706 for another model.
Result<std::optional<Checkpoint>> find(const Wanted& wanted, const std::vector<Leaf>& leaves, const Party& party);

}  // namespace nabla::checkpoint
