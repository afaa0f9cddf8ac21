// Checkpoints on disk: folders DIR/step-00000100, and what becomes of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/format/file.h"

namespace nabla::checkpoint {

/// "step-00000100"
std::string name_of(int64_t step);
/// Of the name of a folder; nothing for other names.
std::optional<int64_t> step_of(std::string_view name);
/// The folder of a checkpoint that is being written by this start of a job: "step-00000100.tmp".
std::string unfinished(int64_t step, uint32_t epoch);

/// Makes DIR, and those above it. E0803 when it cannot be made, or nothing can be written there.
Status make_folder(const std::string& dir);
/// Keeps other runs from writing there, as long as it lives or its process does.
class FolderLock {
 public:
  /// E0803 when another run has it, and keeps it for some seconds. File systems without locks are not locked.
  static Result<FolderLock> take(const std::string& dir);
  FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};
/// Steps of the folders that look like committed checkpoints, ascending. Empty where there is no DIR. E0802.
Result<std::vector<int64_t>> steps_in(const std::string& dir);
/// Removes what unfinished writes have left.
void remove_unfinished(const std::string& dir);
/// Removes a checkpoint, or an unfinished one: its manifest first, so that what is left of it is none.
void remove_checkpoint(const std::string& folder);

struct Retention {
  int64_t last = 3;   ///< so many stay
  int64_t every = 0;  ///< and those whose step is a multiple; 0: none
};
/// Of ascending steps those that go after `written` has been committed. Steps above it are left alone.
std::vector<int64_t> superseded(const std::vector<int64_t>& steps, int64_t written, const Retention& keep);

/// Writes a new file of its pieces and waits until the disk has it. Space is taken before anything is written, where the file
/// system can. E0803.
Result<File> write_part(const std::string& folder, const std::string& name, std::span<const format::Bytes> pieces);
/// The second phase: manifest, sync, and DIR/UNFINISHED becomes DIR/step-N, at once, also where there is one. E0803.
Status commit(const std::string& dir, const std::string& unfinished, const Manifest& manifest);

}  // namespace nabla::checkpoint
