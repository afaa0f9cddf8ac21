#include "ir/reference/ranks.h"

#include <algorithm>

#include "ir/op_def.h"
#include "ir/reference/interpreter.h"
#include "ir/reference/meeting.h"

namespace nabla::ir {
namespace {

// Where the part of a rank begins, how long it is, and how much of it is no padding.
struct Box {
  std::vector<int64_t> begins, sizes, counts;
};

Box box_of(const Mesh& mesh, const Sharding& s, const std::vector<int64_t>& shape, int64_t rank) {
  Box out{{}, shape, {}};
  for (size_t d = 0; d < shape.size(); ++d) {
    PartOfDim part = part_of_dim(shape[d], shards(mesh, s.dims[d].axes), coordinate(mesh, s.dims[d].axes, rank));
    out.sizes[d] = part.size;
    out.begins.push_back(part.begin);
    out.counts.push_back(part.count);
  }
  return out;
}

// f(position in the part, position in the whole)
template <class F>
void for_each_element(const Box& box, const std::vector<int64_t>& shape, F f) {
  int64_t count = count_of(box.counts);
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = 0, own = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      at = at * shape[d] + box.begins[d] + index[d];
      own = own * box.sizes[d] + index[d];
    }
    f(own, at);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < box.counts[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace

Result<std::vector<std::vector<Literal>>> interpret_ranks(const Module& module, std::string_view function,
                                                          std::vector<std::vector<Literal>> args) {
  const Mesh* mesh = module.mesh();
  if (!mesh) return error(Code::kBadSharding, "the module has no mesh, so that it has no ranks");
  int64_t ranks = mesh->ranks();
  if (ranks > kMostRanks)
    return error(Code::kTooLarge, "mesh {} has {} ranks: at most {} run in one process", mesh->name, ranks,
                 kMostRanks);
  if (args.size() != static_cast<size_t>(ranks))
    return error(Code::kOperandCount, "mesh {} has {} ranks, arguments are given for {}", mesh->name, ranks,
                 args.size());
  std::vector<Result<std::vector<Literal>>> results(ranks, std::vector<Literal>());
  std::optional<Diagnostic> failure = run_together(
      *mesh, nullptr, [&](int64_t r, Peers& peers) { results[r] = interpret(module, function, std::move(args[r]), &peers); });
  for (auto& result : results)
    if (!result.ok()) return std::move(result.errors());
  if (failure) return *failure;
  std::vector<std::vector<Literal>> out;
  for (auto& result : results) out.push_back(std::move(*result));
  return out;
}

std::vector<Literal> cut(const Mesh& mesh, const Sharding& sharding, const Literal& whole) {
  std::vector<Literal> out;
  int64_t width = bytes_of(whole.dtype());
  const auto* from = static_cast<const char*>(whole.data());
  for (int64_t r = 0; r < mesh.ranks(); ++r) {
    Box box = box_of(mesh, sharding, whole.shape(), r);
    Literal part(whole.dtype(), box.sizes);
    auto* to = static_cast<char*>(part.mutable_data());
    for_each_element(box, whole.shape(),
                     [&](int64_t i, int64_t at) { std::copy_n(from + at * width, width, to + i * width); });
    out.push_back(std::move(part));
  }
  return out;
}

Result<Literal> join(const Mesh& mesh, const Sharding& sharding, const std::vector<int64_t>& shape,
                     const std::vector<Literal>& parts, bool tolerant) {
  Literal out(parts[0].dtype(), shape);
  int64_t width = bytes_of(out.dtype());
  auto* to = static_cast<char*>(out.mutable_data());
  std::vector<int64_t> owner(static_cast<size_t>(out.size()), -1);
  for (int64_t r = 0; r < mesh.ranks(); ++r) {
    int64_t other = -1;
    const auto* from = static_cast<const char*>(parts[r].data());
    for_each_element(box_of(mesh, sharding, shape, r), shape, [&](int64_t i, int64_t at) {
      if (owner[at] < 0) {
        owner[at] = r;
        std::copy_n(from + i * width, width, to + at * width);
      } else if (!std::equal(from + i * width, from + (i + 1) * width, to + at * width)) {
        other = owner[at];
      }
    });
    if (other >= 0 && !tolerant)
      return error(Code::kInvalidModule, "ranks {} and {} have different values of one part of {}", other, r,
                   sharding.str());
  }
  return out;
}

}  // namespace nabla::ir
