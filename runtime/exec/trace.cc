#include "runtime/exec/trace.h"

#include <time.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace nabla::exec {

std::string json_quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec;
}

uint32_t TraceRecorder::add_label(const Label& label) {
  auto [it, fresh] = known_.try_emplace(label, static_cast<uint32_t>(labels_.size()));
  if (fresh) labels_.push_back(label);
  return it->second;
}

void TraceRecorder::span(uint32_t label, int64_t begin_ns, int64_t end_ns) {
  if (spans_.size() < kMaxSpans) {
    spans_.push_back({label, begin_ns, end_ns});
  } else {
    ++dropped_;
  }
}

std::string TraceRecorder::json(const std::string& more) const {
  std::vector<std::string> fixed;  // what all spans of a label share
  for (const Label& label : labels_) {
    std::string args;
    auto add = [&](std::string_view key, const std::string& value) {
      args += fmt::format("{}\"{}\": {}", args.empty() ? "" : ", ", key, value);
    };
    if (!label.file.empty()) add("source", json_quoted(fmt::format("{}:{}", label.file, label.line)));
    if (!label.text.empty()) add("text", json_quoted(label.text));
    if (!label.problem.empty()) add("problem", json_quoted(label.problem));
    if (label.flops > 0) add("flops", fmt::format("{:.0f}", label.flops));
    if (label.bytes > 0) add("bytes", fmt::format("{:.0f}", label.bytes));
    fixed.push_back(fmt::format("\"name\": {}, \"cat\": {}, \"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"args\": {{{}}}",
                                json_quoted(label.name), json_quoted(label.category), args));
  }
  std::string out =
      "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n"
      "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"args\": {\"name\": \"nabla-run\"}},\n"
      "{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": 1, \"args\": {\"name\": \"steps\"}}";
  // An entry's span is recorded after those of its instructions, so the first one is not the earliest.
  int64_t zero = spans_.empty() ? 0 : spans_.front().begin_ns;
  for (const Span& span : spans_) zero = std::min(zero, span.begin_ns);
  auto us = [](int64_t ns) { return std::pair(ns / 1000, ns % 1000); };
  size_t bytes = out.size();
  for (const Span& span : spans_) bytes += fixed[span.label].size() + 64;
  out.reserve(bytes);
  for (const Span& span : spans_) {
    auto [ts, ts_ns] = us(span.begin_ns - zero);
    auto [dur, dur_ns] = us(span.end_ns - span.begin_ns);
    fmt::format_to(std::back_inserter(out), ",\n{{{}, \"ts\": {}.{:03}, \"dur\": {}.{:03}}}", fixed[span.label], ts, ts_ns,
                   dur, dur_ns);
  }
  std::string notes;
  for (const std::string& note : notes_) notes += (notes.empty() ? "" : ", ") + json_quoted(note);
  out += fmt::format("\n], {}\"otherData\": {{\"dropped_spans\": {}, \"notes\": [{}]}}}}\n", more, dropped_, notes);
  return out;
}

}  // namespace nabla::exec
