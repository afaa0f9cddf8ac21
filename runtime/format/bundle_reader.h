// Opens bundles. Nothing of a bundle is used before all of it has been checked.
#pragma once

#include <functional>
#include <memory>
#include <optional>
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
struct Ranks;

/// What the programs of a class may name: by group, how many members it has; by channel, which end it is.
struct CommunicationRow {
  std::vector<uint32_t> groups;
  struct Channel {
    bool sends;
    uint64_t bytes;  ///< of a message, at most
  };
  std::vector<Channel> channels;
};

/// The ranks that run the same programs.
struct BundleClass {
  std::string name;
  std::string folder;                    ///< of its members: "class/NAME/"; of a bundle for one rank ""
  std::vector<const Program*> programs;  ///< at least one, each for another target, with the same entries and state
};
/// "sm_90a, cpu:x86-64-v3": what the class's programs are for, in their order.
std::string targets_of(const BundleClass& of, const char* between = ", ");

/// A verified bundle; it keeps its file mapped.
class Bundle {
 public:
  /// A bundle file, or an executable that carries one. In this order: the zip's structure, the FlatBuffers verifier,
  /// the bounds of every address, kernel, location and state index, the hashes, and what ranks do with each other.
  /// E0801 when there is no file, E0105 when it is something else, E0103 when a newer version wrote it, E0104 when it
  /// is damaged.
  static Result<Bundle> open(const std::string& path);
  /// The same on bytes in memory; `what` names them in messages.
  static Result<Bundle> from_bytes(std::shared_ptr<const FileBytes> file, std::string what);

  const std::string& what() const { return what_; }
  /// At least one. A bundle for one rank has one, named "main".
  const std::vector<BundleClass>& classes() const { return classes_; }
  /// The class of this name, or for "" the only one. E0107 with the names that there are.
  Result<const BundleClass*> need_class(std::string_view name) const;
  /// The global picture of a bundle for several ranks; null: it is for one.
  const Ranks* ranks() const { return ranks_; }
  /// A member's bytes, aligned to 64; empty when there is none.
  Bytes member(std::string_view name) const;
  const std::vector<ZipMember>& members() const { return zip_.members(); }

 private:
  Bundle() = default;
  std::shared_ptr<const FileBytes> file_;
  std::string what_;
  ZipReader zip_;
  std::vector<BundleClass> classes_;
  const Ranks* ranks_ = nullptr;
};

/// The checks of a program alone: the FlatBuffers verifier, then semantic bounds. `member_size` gives the size of the
/// bundle's member of a name, or -1; `row` is that of the program's class. Errors as Bundle::open.
Status check_program_bytes(Bytes bytes, const std::string& what,
                           const std::function<int64_t(std::string_view)>& member_size,
                           const CommunicationRow& row = {});
/// The checks of a rank table alone.
Status check_ranks_bytes(Bytes bytes, const std::string& what);

/// The programs of a bundle by class, and its rank table if it has one: all checks but those of the hashes. `names` are
/// its members, and `find` gives the bytes of one.
struct CheckedPrograms {
  std::vector<BundleClass> classes;
  const Ranks* ranks = nullptr;
};
using FindMember = std::function<std::optional<Bytes>(std::string_view name)>;
Result<CheckedPrograms> check_programs(const std::vector<std::string>& names, const FindMember& find,
                                       const std::string& what);

}  // namespace nabla::format
