// Splits the memory of an entry by use: state, gradients, temporaries, inputs and outputs.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/module.h"
#include "ir/state_roles.h"

namespace nabla::ir {

/// Bytes of the state in one kind of memory. The sum of all fields is what the memory plan reserves.
struct StateBytes {
  bool by_role = false;  ///< the roles of leaves are known; otherwise all leaves count as `other`
  int64_t parameters = 0, optimizer = 0, other = 0;
  int64_t gaps = 0;  ///< for alignment
};
/// Bytes of an entry by use, at the largest sizes. `state`, `gradients` and `temporaries` add up to the peak of a run.
struct EntryMemory {
  StateBytes state;                ///< on the device; its gaps include those between temporaries
  std::optional<StateBytes> host;  ///< in the host's memory beside a GPU's; nothing if no leaf is there
  int64_t gradients = 0;           ///< values at the peak from which new values of parameters follow, before the state is read
  int64_t temporaries = 0;         ///< all other values at the peak, scratch memory, and what loops and branches use
  int64_t inputs = 0, outputs = 0;  ///< in the caller's memory
};
/// `roles` may be unknown.
EntryMemory memory_by_use(const Module& flat, const Module& planned, const Entry& entry, const std::optional<StateRoles>& roles);

}  // namespace nabla::ir
