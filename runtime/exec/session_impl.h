// What the files of Session share.
#pragma once

#include <memory>

#include "runtime/exec/rank.h"
#include "runtime/exec/rank_team.h"
#include "runtime/exec/session.h"

namespace nabla::exec {

/// One rank that runs alone, or a team of all.
struct Session::Impl {
  explicit Impl(format::Bundle b) : bundle(std::move(b)) {}

  Rank& first() const { return team ? team->first() : *alone; }
  bool has_spans() const;
  Status write_trace(bool together);

  format::Bundle bundle;
  std::unique_ptr<Rank> alone;
  std::unique_ptr<RankTeam> team;
  bool profiled = false;
  std::string trace;  ///< the file that `finish` writes; empty: none
  bool traces_together = false;
};

/// All of a leaf.
StatePiece whole_piece(int index, const TensorInfo& leaf);

}  // namespace nabla::exec
