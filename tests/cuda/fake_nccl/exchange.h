// What ranks of the fake NCCL leave for each other: files in the folder that their unique id names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace nabla::fake_nccl {

enum class Kind : int32_t { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kSend, kRecv };
const char* name_of(Kind kind);

/// What all members of a collective have to agree on.
struct Call {
  Kind kind = Kind::kAllReduce;
  int32_t type = 0, op = 0, root = 0;
  uint64_t count = 0;
  bool operator==(const Call&) const = default;
  /// "ncclAllReduce of 4 elements of type 7 by 0"
  std::string str() const;
};

/// 0: there is no such ncclDataType_t.
size_t bytes_of(int type);

/// Appears whole, or not at all.
void write(const std::string& path, const std::string& bytes);
bool there(const std::string& path);
std::string read(const std::string& path);

/// A call and its bytes as a file holds them.
std::string packed(const Call& call, const void* data, size_t bytes);
Call call_of(const std::string& file);
const char* data_of(const std::string& file);

/// What a member has of a collective when all have come: `files` are those of the members.
std::vector<char> result_of(const Call& call, uint32_t me, const std::vector<std::string>& files);

}  // namespace nabla::fake_nccl
