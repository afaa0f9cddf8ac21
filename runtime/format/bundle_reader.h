// Opens bundles. Nothing of a bundle is used before all of it has been checked.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/base/dtype.h"
#include "runtime/format/file.h"
#include "runtime/format/zip.h"

namespace nabla::format {

/// A size's program never needs more room; readers refuse one that does.
inline constexpr int kMaxSizeStack = 32;
/// Of all entries, variants and blocks together.
inline constexpr uint64_t kMaxInstructions = uint64_t{1} << 22;
inline constexpr uint64_t kMaxBytes = kMaxArrayBytes;
inline constexpr size_t kMaxManifest = 64 << 20;

/// Of one grid on a GPU; shared memory is what the largest known GPU gives a block.
inline constexpr int64_t kMaxBlocks = 0x7fffffff;
/// Of an entry: combinations of declared bounds, which a GPU prepares when it loads the program.
inline constexpr size_t kMaxBuckets = 64;
inline constexpr uint32_t kMaxBlockThreads = 1024, kMaxBlockShared = 227 << 10;

struct Program;

/// A verified bundle; it keeps its file mapped.
class Bundle {
 public:
  /// A bundle file, or an executable that carries one. In this order: the zip's structure, the FlatBuffers verifier,
  /// the bounds of every address, kernel, location and state index, and the hashes. E0801 when there is no file,
  /// E0105 when it is something else, E0103 when a newer version wrote it, E0104 when it is damaged.
  static Result<Bundle> open(const std::string& path);
  /// The same on bytes in memory; `what` names them in messages.
  static Result<Bundle> from_bytes(std::shared_ptr<const FileBytes> file, std::string what);

  const std::string& what() const { return what_; }
  /// The first program; `programs` are all, each for another target.
  const Program& program() const { return *programs_[0]; }
  const std::vector<const Program*>& programs() const { return programs_; }
  /// A member's bytes, aligned to 64; empty when there is none.
  Bytes member(std::string_view name) const;
  const std::vector<ZipMember>& members() const { return zip_.members(); }

 private:
  Bundle() = default;
  std::shared_ptr<const FileBytes> file_;
  std::string what_;
  ZipReader zip_;
  std::vector<const Program*> programs_;
};

/// The checks of a program alone: the FlatBuffers verifier, then semantic bounds. `member_size` gives the size of the
/// bundle's member of a name, or -1. Errors as Bundle::open.
Status check_program_bytes(Bytes bytes, const std::string& what,
                           const std::function<int64_t(std::string_view)>& member_size);

}  // namespace nabla::format
