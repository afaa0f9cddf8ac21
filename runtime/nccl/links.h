// The communicators of NCCL that one rank is a member of, none of which ever makes its thread wait without looking round.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/nccl/library.h"
#include "runtime/nccl/ranks.h"

namespace nabla::nccl {

/// What a rank is at, for errors: "rank 1 waits in all_reduce of 4 bytes of group dp (ranks 0, 1)". Called when there is one.
using What = std::function<std::string()>;

class Links {
 public:
  Links(std::shared_ptr<const Library> library, const RankOptions& options) : nccl_(std::move(library)), options_(options) {}
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  const Library& nccl() const { return *nccl_; }

  /// Connects the members, of which this rank is number `me`, and waits until it is done. All open the links that they share in
  /// the same order. `key` is that of no other link.
  Result<Comm> open(const std::string& key, const std::string& name, const std::vector<uint32_t>& members, uint32_t me);
  /// A call gave `status`: waits until it has done what it had to.
  Status done(int status, Comm comm, const What& what);
  /// Has anything happened that ends all waiting: an error of a communicator, of another rank? Cheap.
  Status look(const What& what);
  /// Has the waiting since `since_us` of comm::steady_us taken longer than it may for so many bytes?
  Status in_time(int64_t since_us, uint64_t bytes, const What& what) const;
  /// Ends what is under way. Nothing can be exchanged any more. `drop_graphs` destroys the graphs that hold exchanges, for which a
  /// communicator waits, and may itself wait for them to end.
  void abort(const std::function<void()>& drop_graphs = nullptr);
  /// In order: all other members close too, sooner or later.
  void close();

 private:
  Diagnostic failed(int status, Comm comm, const What& what) const;
  bool closed(Comm comm, int64_t limit_us);

  std::shared_ptr<const Library> nccl_;
  const RankOptions& options_;
  std::vector<Comm> comms_;
};

/// "ranks 0, 1, 2"
std::string ranks_text(const std::vector<uint32_t>& ranks);

}  // namespace nabla::nccl
