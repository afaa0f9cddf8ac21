// Which files have which parts of a leaf, without a list of all parts: 2,048 ranks that share 900 leaves are 900 placements.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "runtime/exec/parts.h"
#include "runtime/format/bundle_reader.h"

namespace nabla::checkpoint {

/// A digit of a number in a mixed radix: number / stride % count. In a list the first is the most significant.
struct Digit {
  uint32_t stride = 1, count = 2;
};
using Digits = std::vector<Digit>;

/// A dimension of the parts of a placement: part k begins at `begin + k * extent`, for every k that the digits can make.
struct Cut {
  int64_t begin = 0, extent = 0;
  Digits digits;  ///< of the number of a file; together they are k
};

/// Parts of a leaf. File `first` has part 0 of every dimension, and the files that differ from it in the digits of the cuts have the
/// others. Example: f32[8,6] over 4 files with cuts {0, 2, (stride 1, count 4)} and {0, 6, none}: file r has rows 2r and 2r + 1.
/// Elements beyond the end of the leaf are padding, and no file has them. With `copies` (stride 4, count 2) in the example, files 4 to 7
/// have the same as files 0 to 3.
struct Placement {
  int leaf = 0;
  uint32_t first = 0;
  std::vector<Cut> cuts;
  std::optional<uint64_t> offset;  ///< in the file; nothing: it follows from the order (Manifest::pieces_of)
  Digits copies{};                 ///< files that differ in these digits alone have equal parts
  bool copy = false;               ///< other placements have all elements of the leaf without this one

  /// The part that a file has; nothing: it has none.
  std::optional<exec::Box> part_of(uint32_t file) const;
  /// Adds the files that have the elements of `box`. Of equal parts it adds one, and none if one of their files is in `to`.
  void add_files(const exec::Box& box, std::set<uint32_t>& to) const;
  /// All parts together, which are a box too.
  exec::Box hull(const std::vector<int64_t>& shape) const;
  /// Do the digits number the parts and files without doubt, and are all files below `files`?
  bool is_sound(uint32_t files) const;
};

/// The shards of the state that every rank of a program has, and which rank writes which of them.
class Layout {
 public:
  struct Share {
    Placement parts;      ///< its `copies` and `copy` are chosen by the layout
    Digits ranks;         ///< all ranks that have a part: `parts.first` and those that differ from it in these digits alone
    bool copy = false;    ///< another share has the same elements and writes them
    uint64_t bytes = 0;   ///< of one part
    bool written = true;  ///< chosen by the layout
    /// The part that a rank has.
    exec::Box box_of(uint32_t rank) const;
  };
  /// That of one rank.
  Layout() = default;
  explicit Layout(const format::Bundle& bundle);
  Layout(size_t leaves, std::vector<Share> shares);
  bool of_one() const { return shares_.empty(); }
  /// The parts that are written: every element of every leaf, and copies of some (copies.h).
  std::vector<Placement> written() const;
  /// By leaf, what a rank needs, which includes copies of parts that other ranks write. Nothing: it has nothing of the leaf.
  std::vector<std::optional<exec::Box>> needed_by(uint32_t rank) const;
  /// By leaf, the file in which the rank finds all that it needs of it, if a run with this layout wrote the checkpoint. Nothing: the
  /// rank has nothing of the leaf, or has to look for it in files of other classes.
  std::vector<std::optional<uint32_t>> files_for(uint32_t rank) const;

 private:
  size_t leaves_ = 0;
  std::vector<Share> shares_;
};

}  // namespace nabla::checkpoint
