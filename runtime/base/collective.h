// The collectives that ranks of a group run together, one row for each. The records of ops, the cost model, the checks of a bundle and
// the engines read the rows.
#pragma once

#include <cstdint>

namespace nabla {

/// In the order of the schema (runtime/format/program.fbs).
enum class CollectiveKind : uint8_t { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kPermute, kBroadcast };

struct CollectiveDef {
  enum class Extent : uint8_t {
    kSame,   ///< as long as the operand
    kWhole,  ///< the operands of all members
    kPart,   ///< one part of the operand for each member
  };
  CollectiveKind kind;
  const char* name;  ///< of its op: "all_reduce"
  Extent result;     ///< against the operand
  bool combines;     ///< members' elements, by a sum or another reduction
  bool cuts;         ///< the operand, into one part for each member
  // Costs in a group of n members, n at least 2. Bytes are given as multiples of the size of a member's operand.
  /// Messages that a member waits for one after the other. `halvings` is log2(n), rounded up.
  int64_t (*rounds)(int64_t halvings);
  double (*sent)(double n);   ///< bytes that a member sends
  double (*moved)(double n);  ///< bytes that a member reads and writes if the members are threads of one process
};

const CollectiveDef& collective_def(CollectiveKind kind);

/// Bytes of the result of an operand of so many bytes, in a group of so many members.
template <class T>
T result_bytes(const CollectiveDef& def, T operand, T members) {
  if (def.result == CollectiveDef::Extent::kWhole) return operand * members;
  return def.result == CollectiveDef::Extent::kPart ? operand / members : operand;
}

}  // namespace nabla
