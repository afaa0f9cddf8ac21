// What a checkpoint consists of: docs/checkpoints.md. A folder without a valid manifest is no checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/base/dtype.h"
#include "runtime/checkpoint/placement.h"
#include "runtime/exec/session.h"
#include "runtime/format/safetensors.h"

namespace nabla::checkpoint {

inline constexpr const char* kManifest = "manifest.json";

/// A file of the folder, which one process has written.
struct File {
  std::string name;  ///< "rank-3.safetensors"
  uint64_t size = 0;
  uint32_t checksum = 0;  ///< CRC-32 of all its bytes
};

/// A part of a leaf in a file.
struct Piece {
  int leaf = 0;
  std::vector<int64_t> begin, extent;
  uint32_t file = 0;
  std::optional<uint64_t> offset;  ///< in the file
  uint64_t bytes = 0;
};

struct Leaf {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::string str() const;  ///< "f32[2,3]"
};

struct Manifest {
  /// Version 1 lists every piece by itself; it is read, and not written. Version 3 has copies; without copies, version 2 is written.
  static constexpr int64_t kVersion = 3;

  int64_t step = 0;
  uint32_t epoch = 0;      ///< of the start that wrote it
  std::string written_by;  ///< "4 ranks of mesh pod (dp=2, tp=2)"; for people
  format::Metadata metadata;
  std::vector<Leaf> leaves;
  std::vector<File> files;
  std::vector<Placement> placements;  ///< have every element of every leaf once, without copies

  /// The pieces of a file. Those without an offset follow each other in the order of the placements, and end with the file. E0104
  /// when they do not fit into it.
  Result<std::vector<Piece>> pieces_of(uint32_t file) const;

  std::string text() const;
  /// E0103 of a newer version, E0104 when it is damaged: also its own digest is compared, and every number is within its bounds.
  static Result<Manifest> parse(std::string_view text, const std::string& what);
};

/// The pieces of leaves that these placements put into the file, in the order of the placements. A piece has an offset if its placement
/// has one.
std::vector<Piece> pieces_in(uint32_t file, const std::vector<Leaf>& leaves, const std::vector<Placement>& placements);

std::vector<Leaf> leaves_of(const exec::Session& session);
/// E0706 that names the first leaf which one of both lacks or has with another type.
Status check_model(const Manifest& manifest, const std::vector<Leaf>& leaves, const std::string& what);

}  // namespace nabla::checkpoint
