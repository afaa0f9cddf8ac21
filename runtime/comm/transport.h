// Messages between the ranks of several processes: what an engine for them has to bring. Everything else, collectives
// among them, is made of these (peers.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/diagnostic.h"

namespace nabla::comm {

/// Used by one thread. Messages of one sender, receiver and tag arrive in the order of their sends. E0610 when a call
/// fails.
class Transport {
 public:
  using Request = uint32_t;
  static constexpr uint32_t kMostTag = (1u << 30) - 1;
  static constexpr uint64_t kMostBytes = 1u << 30;  ///< of one message

  virtual ~Transport() = default;
  virtual std::string name() const = 0;  ///< "mpi"
  virtual uint32_t rank() const = 0;
  virtual uint32_t ranks() const = 0;

  /// Begin; the bytes are left alone until `test` says that it is done.
  virtual Result<Request> send(uint32_t to, uint32_t tag, const void* from, uint64_t bytes) = 0;
  virtual Result<Request> recv(uint32_t from, uint32_t tag, void* to, uint64_t bytes) = 0;
  /// Is it done? The request is then gone. E0609 for a message of another size than what was expected. Does not wait.
  virtual Result<bool> test(Request request) = 0;
  /// Ends the use of all other ranks in order: they close too. After a failure the transport is destroyed without.
  virtual Status close() = 0;
};

/// Waits until what was begun is done. E0611 "rank 1: NAME is not done in 30 s".
Status finish(Transport& transport, Result<Transport::Request> begun, double timeout_s, const std::string& name);

}  // namespace nabla::comm
