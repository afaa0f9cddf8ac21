// Finds committed checkpoints, and loads them into ranks of any mesh.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/meeting.h"
#include "runtime/exec/session.h"

namespace nabla::checkpoint {

class Checkpoint {
 public:
  /// Reads the manifest. E0801, E0802, errors of Manifest::parse, E0104 where its step is not that of the folder's name.
  static Result<Checkpoint> open(const std::string& folder);
  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  /// Reads a file whole. E0104 when its size or checksum is another.
  Status check_file(size_t file) const;
  /// Fills what the ranks here have; other elements are not read. The model is the same (check_model), and files are checked.
  Status load(exec::Session& session) const;

 private:
  Checkpoint(std::string folder, Manifest manifest) : folder_(std::move(folder)), manifest_(std::move(manifest)) {}
  std::string folder_;
  Manifest manifest_;
};

struct Wanted {
  std::string dir;
  std::string which;  ///< "latest", a step, or a folder
  std::function<void(const std::string&)> warn;  ///< called by the first process, for every one that is left out
};
/// All processes call it and get the same one, of which each has checked its share of the files. Nothing: `latest` is wanted, and
/// there is none. No-checkpoint (E0616) when there is none that is valid, or not the one wanted; E0706 for another model.
Result<std::optional<Checkpoint>> find(const Wanted& wanted, const std::vector<Leaf>& leaves, const Party& party);

}  // namespace nabla::checkpoint
