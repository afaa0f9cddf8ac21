// Records what ran when, as a Chrome trace (open it in Perfetto or chrome://tracing).
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/base/dtype.h"

namespace nabla::exec {

/// Monotonic nanoseconds.
int64_t now_ns();
/// Text as a string of JSON; bytes that are no UTF-8 are replaced.
std::string json_quoted(std::string_view text);

class TraceRecorder {
 public:
  /// What a span is called, what it does and where it comes from; the views must outlive the recorder.
  struct Label {
    std::string_view name;
    std::string_view category;  ///< "entry", "kernel", "library", "copy", "transfer", "comm" or "control"
    std::string_view file;      ///< empty: no source location
    uint32_t line = 0;
    std::string_view text;     ///< of the source line
    std::string problem = {};  ///< that a library solves, with its sizes: "gemm f32 1x64x128x64 nt by sgemm"
    double flops = 0;          ///< floating-point operations; 0: none, or unknown
    double bytes = 0;          ///< of what is read and what is written; 0: none, or unknown
    DType dtype = DType::kF32;  ///< in which it computes
    auto operator<=>(const Label&) const = default;
  };
  struct Span {
    uint32_t label;
    int64_t begin_ns;
    int64_t end_ns;
  };

  /// Holds `most` spans.
  explicit TraceRecorder(size_t most = kMaxSpans) : most_(most) {}
  /// The number of a label; the same for equal ones.
  uint32_t add_label(const Label& label);
  /// Once the recorder holds as many spans as it may, further ones are only counted.
  void span(uint32_t label, int64_t begin_ns, int64_t end_ns);
  /// Counts a span that could not be recorded.
  void drop() { ++dropped_; }
  /// A line for people, in the trace's other data.
  void note(std::string line) { notes_.push_back(std::move(line)); }
  const std::vector<std::string>& notes() const { return notes_; }
  const std::vector<Label>& labels() const { return labels_; }
  /// Those of an entry's instructions stand before its own.
  const std::vector<Span>& spans() const { return spans_; }
  uint64_t dropped() const { return dropped_; }

  /// `more`: members of the JSON object beside the events, each followed by a comma; may be empty.
  std::string json(const std::string& more = "") const;

  static constexpr size_t kMaxSpans = 1'000'000;  ///< some 200 MB of JSON, written in a second

 private:
  size_t most_;
  std::vector<Label> labels_;
  std::map<Label, uint32_t> known_;
  std::vector<Span> spans_;
  std::vector<std::string> notes_;
  uint64_t dropped_ = 0;
};

/// What one of several ranks recorded, and how its track is called.
struct Track {
  const TraceRecorder* trace;
  std::string name;
};
/// One trace with a process for each track, numbered from 1, on the common clock of this machine.
std::string trace_json(const std::vector<Track>& tracks, const std::string& more = "");

/// The same in parts, which several machines may make.
struct TraceText {
  std::string events;              ///< of JSON, with commas between them
  std::vector<std::string> notes;
  uint64_t dropped = 0;
};
/// As process `pid` of a trace that begins at `zero` on the track's clock.
TraceText trace_text(const Track& track, size_t pid, int64_t zero);
/// When the first span begins; INT64_MAX: there is none.
int64_t first_ns(const TraceRecorder& trace);
std::string trace_json(const std::vector<TraceText>& texts, const std::string& more);

}  // namespace nabla::exec
