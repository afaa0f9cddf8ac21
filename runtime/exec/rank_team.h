// Ranks of a bundle on the threads of this process, all or some, seen from outside as one program on whole arrays.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"

namespace nabla::exec {

class Rank;

class RankTeam {
 public:
  static constexpr uint32_t kMostRanks = 256;  ///< a thread each

  /// The bundle, which is for several ranks, outlives the team. E0106 for more ranks here than kMostRanks, and errors of
  /// choose_program, Rank::create and SessionOptions::world.
  static Result<std::unique_ptr<RankTeam>> create(const format::Bundle& bundle, const SessionOptions& options);
  ~RankTeam();

  /// Of wholes. Their symbols are those of parts.
  std::vector<EntryInfo> entries() const;
  std::vector<TensorInfo> leaves() const;
  /// Of the ranks here.
  Rank& first();
  Rank& rank(uint32_t r);
  /// The ranks that run in this process, and how many there are.
  const std::vector<uint32_t>& here() const;
  uint32_t count() const;
  /// What the first rank here has exchanged since the team was made.
  std::vector<ExchangeCount> exchanges() const;
  /// "4 ranks of mesh pod (dp=2, tp=2) on this machine, 1 thread each", or "..., on NVIDIA H100 80GB HBM3"
  std::string str() const;

  /// As those of Session, on whole arrays. set_shapes: E0703 for an extent that its shards do not divide.
  Status set_shapes(int entry, std::span<const int64_t* const> shapes);
  const std::vector<int64_t>& output_shape(int entry, int output) const;
  Status run(int entry, std::span<const void* const> inputs, std::span<void* const> outputs);
  Status collect(int entry, std::span<void* const> outputs);
  std::pair<int64_t, int64_t> rows_here(int entry, int input) const;
  bool loops(int entry) const;
  /// As comm::World::pass.
  Status pass(uint32_t from, uint32_t to, void* data, uint64_t bytes);
  Status get_leaf(int leaf, void* to) const;
  Status set_leaf(int leaf, std::span<const StateView> pieces);
  std::vector<StatePiece> pieces() const;
  Status get_piece(const StatePiece& piece, void* to) const;

 private:
  struct Impl;
  explicit RankTeam(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nabla::exec
