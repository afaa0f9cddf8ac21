// Zip archives: bundles and .npz files. Written stored, aligned and without clock times, so that the same members
// give the same bytes. Read from memory with every offset checked; also when other bytes stand before the archive.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/format/file.h"

namespace nabla::format {

class ZipWriter {
 public:
  /// Adds a stored member whose data start at a multiple of 64. Names are unique and relative.
  void add(const std::string& name, Bytes data);
  /// Adds a deflated member (without alignment).
  void add_deflated(const std::string& name, Bytes data);
  /// The whole archive. E0106 when it would need the 64-bit zip fields (4 GiB or 65535 members).
  Result<std::string> finish() &&;

 private:
  void append(const std::string& name, Bytes data, uint64_t raw_size, uint32_t crc, uint16_t method);
  std::string archive_;
  std::string directory_;
  uint64_t count_ = 0;
};

struct ZipMember {
  std::string name;
  uint16_t method = 0;  ///< 0 stored, 8 deflated
  uint32_t crc = 0;
  uint64_t size = 0;  ///< once inflated
  Bytes data;         ///< as stored in the archive
};

class ZipReader {
 public:
  /// Reads the directory of the archive at the end of `bytes`, which must outlive the reader. `what` names the file
  /// in messages. E0105 when there is no zip, E0104 when it is damaged, E0106 above the limits.
  static Result<ZipReader> open(Bytes bytes, std::string what);

  const std::vector<ZipMember>& members() const { return members_; }
  /// Whether all bytes but the members' are those that ZipWriter writes, in front of which only an executable may
  /// stand. E0104 says where they are not.
  Status check_every_byte() const;
  /// Null when there is none.
  const ZipMember* find(std::string_view name) const;
  /// The member's contents, inflated if need be, CRC checked. E0104 when damaged.
  Result<std::string> read(const ZipMember& member) const;

 private:
  std::string what_;
  Bytes before_, all_;
  std::vector<ZipMember> members_;
};

/// True when an archive's end record stands at the very end of `bytes`: how an executable with a bundle is told.
bool ends_with_zip(Bytes bytes);

/// CRC-32 of what `before` is that of, followed by `bytes`.
uint32_t crc32_of(Bytes bytes, uint32_t before = 0);

}  // namespace nabla::format
