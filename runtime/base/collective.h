// What the ranks of a group can do together, one row for each collective. Records of ops, the compiler's costs, the checks of a bundle
// and the engines read the rows.
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
  // Of n members, at least 2. Times are counted in messages that a member waits for one after the other, where `halvings` is log2(n)
  // rounded up. Bytes are counted in the bytes of a member's operand.
  int64_t (*rounds)(int64_t halvings);
  double (*sent)(double n);   ///< by a member, to others
  double (*moved)(double n);  ///< read and written by a member that is a thread beside the others
};

const CollectiveDef& collective_def(CollectiveKind kind);

/// Bytes of the result of an operand of so many bytes, in a group of so many members.
template <class T>
T result_bytes(const CollectiveDef& def, T operand, T members) {
  if (def.result == CollectiveDef::Extent::kWhole) return operand * members;
  return def.result == CollectiveDef::Extent::kPart ? operand / members : operand;
}

}  // namespace nabla
