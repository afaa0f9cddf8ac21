// Whole files: read-only maps, and writes that leave either the complete new file or what was there before.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/diagnostic.h"

namespace nabla::format {

using Bytes = std::span<const uint8_t>;

inline Bytes as_bytes(std::string_view text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }
inline std::string_view as_text(Bytes b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

/// The bytes of a file, aligned to at least 64. Shared: the map lives as long as one of its owners.
class FileBytes {
 public:
  /// Maps `path` read only. E0801 when it cannot be opened (or is a folder), E0802 when it cannot be mapped.
  static Result<std::shared_ptr<const FileBytes>> map(const std::string& path);
  /// An aligned copy, for bytes that come from elsewhere.
  static std::shared_ptr<const FileBytes> copy_of(Bytes bytes);
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  Bytes bytes() const { return {data_, size_}; }

 private:
  FileBytes(uint8_t* data, size_t size, bool mapped) : data_(data), size_(size), mapped_(mapped) {}
  uint8_t* data_;
  size_t size_;
  bool mapped_;
};

/// E0803 for `problem`, an errno: "cannot write `PATH`: REASON". The advice is to free space where that is the reason.
Diagnostic write_failure(const std::string& path, int problem);
/// What `path` means once symbolic links are followed; a link to nothing means the file that it would make.
std::string follow_links(const std::string& path);

/// Writes `pieces` one after the other to a file beside `path`, syncs, and renames it to `path`. Symbolic
/// links are followed; a file that was there keeps its mode (an executable gets the right to run beside every right to
/// read) and where possible its owner, and one that the process may not write is refused. A path that exists and is no
/// regular file (a pipe, a device) is written directly. E0803 on failure; nothing is left. Nor of a process that is killed
/// meanwhile, where the file system has files without names; where it has none, `path`.PID.tmp of a dead process goes with the next
/// write of the same file.
Status write_file(const std::string& path, std::span<const Bytes> pieces, bool executable = false);
Status write_file(const std::string& path, std::string_view text);

}  // namespace nabla::format
