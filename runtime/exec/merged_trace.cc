#include "runtime/exec/merged_trace.h"

#include <algorithm>

namespace nabla::exec {
namespace {

constexpr int kRounds = 16;

Track track_of(const TraceRecorder& trace, uint32_t rank) { return {&trace, fmt::format("rank {}", rank)}; }

// By how much the clock of a rank is ahead of that of rank 0, which alone learns it (Cristian, "Probabilistic clock
// synchronization", 1989): of the round that took least.
Result<int64_t> clock_ahead(uint32_t rank, bool root, const Pass& pass, int64_t& least) {
  int64_t ahead = 0;
  least = INT64_MAX;
  for (int round = 0; round < kRounds; ++round) {
    int64_t asked = now_ns(), theirs = 0;
    (void)NABLA_TRY(pass(0, rank, &asked, sizeof asked));
    if (!root) theirs = now_ns();
    (void)NABLA_TRY(pass(rank, 0, &theirs, sizeof theirs));
    int64_t took = now_ns() - asked;
    if (root && took < least) least = took, ahead = theirs - (asked + took / 2);
  }
  return ahead;
}

// Of another rank, whose trace begins at `zero` on its own clock.
Result<TraceText> fetched(const TraceRecorder& own, uint32_t rank, bool root, int64_t zero, const Pass& pass) {
  (void)NABLA_TRY(pass(0, rank, &zero, sizeof zero));
  TraceText text;
  if (!root) text = trace_text(track_of(own, rank), rank + 1, zero);
  uint64_t sizes[] = {text.events.size(), text.dropped};
  (void)NABLA_TRY(pass(rank, 0, sizes, sizeof sizes));
  text.events.resize(sizes[0]), text.dropped = sizes[1];
  (void)NABLA_TRY(pass(rank, 0, text.events.data(), text.events.size()));
  return text;
}

}  // namespace

Result<std::optional<std::string>> merged_trace(const TraceRecorder& own, uint32_t rank, uint32_t ranks, const Pass& pass,
                                                const std::string& more) {
  const bool root = rank == 0;
  std::vector<int64_t> ahead(ranks, 0);
  int64_t zero = first_ns(own), worst = 0;
  for (uint32_t r = 1; r < ranks; ++r) {
    if (!root && r != rank) continue;
    int64_t took = 0, first = first_ns(own);
    ahead[r] = NABLA_TRY(clock_ahead(r, root, pass, took));
    (void)NABLA_TRY(pass(r, 0, &first, sizeof first));
    if (root && first != INT64_MAX) zero = std::min(zero, first - ahead[r]);
    worst = std::max(worst, took);
  }
  std::vector<TraceText> texts;
  if (root) texts.push_back(trace_text(track_of(own, 0), 1, zero));
  for (uint32_t r = 1; r < ranks; ++r)
    if (root || r == rank) texts.push_back(NABLA_TRY(fetched(own, r, root, zero + ahead[r], pass)));
  if (!root) return std::optional<std::string>();
  std::string clocks;
  for (int64_t ns : ahead) clocks += fmt::format("{}{:.1f}", clocks.empty() ? "" : ", ", static_cast<double>(ns) * 1e-3);
  texts[0].notes.push_back(fmt::format("clocks of the ranks are ahead of rank 0's by {} us, to {:.1f} us; corrected", clocks,
                                       static_cast<double>(worst) / 2e3));
  return std::optional(trace_json(texts, more));
}

}  // namespace nabla::exec
