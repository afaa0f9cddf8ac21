// Checks of ranks.fb, which already passed the FlatBuffers verifier: that classes divide the ranks, that whoever
// communicates has partners who do too, and that the parts of every tensor make the whole.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/format/program_check.h"
#include "runtime/format/program_generated.h"
#include "runtime/format/ranks_generated.h"

namespace nabla::format {

inline constexpr uint32_t kMaxRanks = 1 << 20;

/// What needs no programs. E0103 for a newer table, E0104 for one that contradicts itself, E0106 above a limit.
Status check_ranks(const Ranks& ranks, const std::string& what);

/// What programs of a class may name. Requires check_ranks.
CommunicationRow row_of(const Ranks& ranks, uint32_t class_index);

/// By class, its programs, each with the same entries and state.
using ClassPrograms = std::vector<std::vector<const Program*>>;

/// That every state leaf, input and output of every class has one place in a whole, that the parts fit, and that the
/// owned ones divide it. Requires check_ranks. E0104, E0106.
Status check_wholes(const Ranks& ranks, const ClassPrograms& programs, const std::string& what);

/// That programs which communicate with each other do it in the same order with the same sizes: those of one class for
/// different targets, classes that share a group, and the two ends of a channel. Entries of one name run together.
/// Requires check_ranks, and programs whose own checks passed. E0104.
Status check_partners(const Ranks& ranks, const ClassPrograms& programs, const std::string& what);

/// That no class waits for what its partners start only after something that waits for it: a send ends when its receive
/// has begun, a collective when all members have begun it. Requires check_partners. E0104 with the instruction.
Status check_progress(const Ranks& ranks, const ClassPrograms& programs, const std::string& what);

}  // namespace nabla::format
