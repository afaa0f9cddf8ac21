// Records what ran when, as a Chrome trace (open it in Perfetto or chrome://tracing).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/diagnostic.h"

namespace nabla::exec {

/// Monotonic nanoseconds.
int64_t now_ns();

class TraceRecorder {
 public:
  /// What a span is called and where it comes from; the views must outlive the recorder.
  struct Label {
    std::string_view name;
    std::string_view category;  ///< "entry", "kernel", "library" or "copy"
    std::string_view file;      ///< empty: no source location
    uint32_t line = 0;
    std::string_view text;  ///< of the source line
  };

  /// Registers a label and returns its number.
  uint32_t add_label(const Label& label);
  /// Once the recorder holds kMaxSpans spans, further ones are only counted.
  void span(uint32_t label, int64_t begin_ns, int64_t end_ns);
  /// Counts a span that could not be recorded.
  void drop() { ++dropped_; }
  /// A line for people, in the trace's other data.
  void note(std::string line) { notes_.push_back(std::move(line)); }
  size_t size() const { return spans_.size(); }

  std::string json() const;
  /// E0803 when it cannot be written.
  Status write(const std::string& path) const;

  static constexpr size_t kMaxSpans = 4'000'000;

 private:
  struct Span {
    uint32_t label;
    int64_t begin_ns;
    int64_t end_ns;
  };
  std::vector<Label> labels_;
  std::vector<Span> spans_;
  std::vector<std::string> notes_;
  uint64_t dropped_ = 0;
};

}  // namespace nabla::exec
