#include "runtime/checkpoint/crowd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstring>
#include <thread>

#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/reader.h"

namespace {
thread_local int opened = 0;
}

// Counts the files that a thread opens, whoever opens them.
extern "C" int open(const char* path, int flags, ...) {
  ++opened;
  mode_t mode = 0;
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

namespace nabla::checkpoint {
namespace {

constexpr uint64_t kHeader = 100;  // bytes of a file before its pieces, as for any other writer

/// Calls `f` with the place of every element of a box within the leaf, row-major, and its number in the leaf.
template <class F>
void each_element(const exec::Box& box, const std::vector<int64_t>& shape, const F& f) {
  int64_t count = 1;
  for (int64_t n : box.size) count *= n;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, number = 0, below = 1;
    bool inside = true;
    for (size_t d = shape.size(); d-- > 0; rest /= box.size[d]) {
      int64_t at = box.begin[d] + rest % box.size[d];
      inside = inside && at < shape[d];
      number += at * below, below *= shape[d];
    }
    if (inside) f(i, number);
  }
}

Status check_values(const Crowd& crowd, uint32_t rank, const std::vector<exec::StateView>& views) {
  std::vector<std::optional<exec::Box>> needed = crowd.layout.needed_by(rank);
  for (size_t leaf = 0; leaf < needed.size(); ++leaf) {
    if (!needed[leaf]) continue;
    int64_t count = 1;
    for (int64_t n : needed[leaf]->size) count *= n;
    std::vector<float> values(static_cast<size_t>(count), -1);
    for (const exec::StateView& v : views)
      if (v.leaf == static_cast<int>(leaf)) exec::copy_overlap({v.begin, v.extent}, v.data, *needed[leaf], values.data(), sizeof(float));
    bool same = true;
    each_element(*needed[leaf], crowd.leaves[leaf].shape,
                 [&](int64_t i, int64_t number) { same = same && values[static_cast<size_t>(i)] == static_cast<float>(number); });
    if (!same) return error(Code::kStateMismatch, "rank {} has other values of `{}`", rank, crowd.leaves[leaf].name);
  }
  return Ok{};
}

/// A digit of `count` values; none of one.
Digits over(uint32_t stride, uint32_t count) { return count < 2 ? Digits() : Digits{{stride, count}}; }

Layout::Share share_of(int leaf, uint32_t first, std::vector<Cut> cuts, Digits ranks) {
  Layout::Share out{{leaf, first, std::move(cuts), std::nullopt}, std::move(ranks)};
  out.bytes = sizeof(float);
  for (const Cut& c : out.parts.cuts) out.bytes *= static_cast<uint64_t>(c.extent);
  return out;
}

}  // namespace

Crowd::Crowd(uint32_t dp_size, uint32_t tp_size, int count) : dp(dp_size), tp(tp_size) {
  const Digits in_dp = over(tp, dp), in_tp = over(1, tp), in_all = over(1, dp * tp);
  std::vector<Layout::Share> shares;
  for (int i = 0; i < count; ++i) {
    int64_t rows = dp * 2, columns = tp * 2;
    std::vector<Cut> cuts{{0, rows, {}}, {0, columns, {}}};
    if (i % 5 == 1) cuts[0] = {0, 2, in_dp};
    if (i % 5 == 2) cuts = {{0, 2, in_dp}, {0, 2, in_tp}};
    if (i % 5 == 3) cuts[0] = {0, 2, in_all}, rows = dp * tp * 2 - 1;
    if (i % 5 == 4) cuts[1] = {0, 2, in_tp};
    leaves.push_back({fmt::format("layers.{}.weight", i), DType::kF32, {rows, columns}});
    shares.push_back(share_of(i, 0, std::move(cuts), in_all));
  }
  layout = Layout(leaves.size(), std::move(shares));
}

Crowd::Crowd(const Job& job) : dp(job.dp), tp(job.tp), stages(job.stages) {
  const uint32_t below = job.stages_last ? stages : 1;  // ranks between two that are neighbours in tp
  const Digits in_dp = over(below * tp, dp), in_tp = over(below, tp);
  Digits ranks = in_dp;
  ranks.insert(ranks.end(), in_tp.begin(), in_tp.end());
  std::vector<Layout::Share> shares;
  auto first = [&](uint32_t stage) { return job.stages_last ? stage : stage * dp * tp; };
  // A leaf of some stages. A matrix has columns over tp, and rows over dp if `in_rows`; otherwise it is a column. The first of the stages
  // owns it.
  auto add = [&](const std::string& name, const std::vector<uint32_t>& of, bool in_rows, bool matrix) {
    const int64_t extent = 4, rows = extent * dp - 1, columns = matrix ? 32 * tp : 1;  // over dp, the last row is padding
    std::vector<Cut> cuts{{0, in_rows ? extent : rows, in_rows ? in_dp : Digits()}, {0, matrix ? 32 : 1, matrix ? in_tp : Digits()}};
    for (uint32_t stage : of) {
      shares.push_back(share_of(static_cast<int>(leaves.size()), first(stage), cuts, ranks));
      shares.back().copy = stage != of[0];
    }
    leaves.push_back({name, DType::kF32, {rows, columns}});
  };
  std::vector<uint32_t> all;
  for (uint32_t s = 0; s < stages; ++s) all.push_back(s);
  for (uint32_t s = 0; s < stages; ++s) {
    const std::string of = fmt::format("stages.{}.", s);
    for (const std::string kind : {"", "m."}) {
      const bool in_dp_too = job.zero == 3 || (job.zero > 0 && !kind.empty());
      for (const char* name : {"attention", "mlp"}) add(kind + of + name, {s}, in_dp_too, true);
      add(kind + of + "scale", {s}, in_dp_too, false);
      if (s == 0) add(kind + "embedding", stages > 1 ? std::vector{0u, stages - 1} : std::vector{0u}, in_dp_too, true);
    }
  }
  leaves.push_back({"steps", DType::kF32, {}});
  for (uint32_t s : all) {
    shares.push_back(share_of(static_cast<int>(leaves.size()) - 1, first(s), {}, ranks));
    shares.back().copy = s != 0;
  }
  layout = Layout(leaves.size(), std::move(shares));
}

Manifest Crowd::manifest_of(std::vector<Placement> placements) const {
  std::string by = fmt::format("{} ranks of mesh pod (pp={}, dp={}, tp={})", ranks(), stages, dp, tp);
  Manifest out{1, 0, std::move(by), {}, leaves, {}, std::move(placements)};
  for (uint32_t r = 0; r < ranks(); ++r) out.files.push_back({fmt::format("rank-{}.safetensors", r), uint64_t{1} << 40, 0});
  for (uint32_t r = 0; r < ranks(); ++r) {
    uint64_t bytes = kHeader;
    Result<std::vector<Piece>> pieces = out.pieces_of(r);
    for (const Piece& p : *pieces) bytes += p.bytes;
    out.files[r].size = bytes;
  }
  return out;
}

Status Crowd::write(const std::string& dir, Manifest m) const {
  (void)NABLA_TRY(make_folder(dir));
  const std::string folder = unfinished(m.step, m.epoch);
  for (uint32_t r = 0; r < ranks(); ++r) {
    std::string bytes(m.files[r].size, '.');
    for (const Piece& p : NABLA_TRY(m.pieces_of(r)))
      each_element({p.begin, p.extent}, leaves[static_cast<size_t>(p.leaf)].shape, [&](int64_t i, int64_t number) {
        float value = static_cast<float>(number);
        std::memcpy(bytes.data() + *p.offset + static_cast<uint64_t>(i) * sizeof value, &value, sizeof value);
      });
    format::Bytes part = format::as_bytes(bytes);
    m.files[r] = NABLA_TRY(write_part(dir + "/" + folder, m.files[r].name, {&part, 1}));
  }
  return commit(dir, folder, m);
}

Result<int> resume(const Crowd& crowd, const std::string& dir) {
  LocalMeeting meeting;
  std::vector<Status> ends(crowd.ranks(), Ok{});
  std::vector<int> opens(crowd.ranks());
  std::vector<std::thread> threads;
  auto one = [&](uint32_t rank) -> Status {
    auto found = NABLA_TRY(find({dir, "latest", nullptr}, crowd.leaves, {&meeting, rank, crowd.ranks(), 0}));
    if (!found) return error(Code::kNoCheckpoint, "`{}` has no checkpoint", dir);
    std::vector<exec::StateView> views = NABLA_TRY(found->views(crowd.leaves, crowd.layout, rank));
    opens[rank] = opened;
    return check_values(crowd, rank, views);
  };
  for (uint32_t r = 0; r < crowd.ranks(); ++r) threads.emplace_back([&, r] { ends[r] = one(r); });
  for (std::thread& t : threads) t.join();
  for (const Status& s : ends) (void)NABLA_TRY(Status(s));
  return *std::max_element(opens.begin(), opens.end());
}

}  // namespace nabla::checkpoint
