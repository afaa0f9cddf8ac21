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
  if (spans_.size() < most_) {
    spans_.push_back({label, begin_ns, end_ns});
  } else {
    ++dropped_;
  }
}

namespace {

/// What all spans of a label share, for each label.
std::vector<std::string> fixed_parts(const TraceRecorder& trace, size_t pid) {
  std::vector<std::string> out;
  for (const TraceRecorder::Label& label : trace.labels()) {
    std::string args;
    auto add = [&](std::string_view key, const std::string& value) {
      args += fmt::format("{}\"{}\": {}", args.empty() ? "" : ", ", key, value);
    };
    if (!label.file.empty()) add("source", json_quoted(fmt::format("{}:{}", label.file, label.line)));
    if (!label.text.empty()) add("text", json_quoted(label.text));
    if (!label.problem.empty()) add("problem", json_quoted(label.problem));
    if (label.flops > 0) add("flops", fmt::format("{:.0f}", label.flops));
    if (label.bytes > 0) add("bytes", fmt::format("{:.0f}", label.bytes));
    out.push_back(fmt::format("\"name\": {}, \"cat\": {}, \"ph\": \"X\", \"pid\": {}, \"tid\": 1, \"args\": {{{}}}",
                              json_quoted(label.name), json_quoted(label.category), pid, args));
  }
  return out;
}

void add_spans(std::string& out, const TraceRecorder& trace, size_t pid, int64_t zero) {
  std::vector<std::string> fixed = fixed_parts(trace, pid);
  auto us = [](int64_t ns) { return std::pair(ns / 1000, ns % 1000); };
  size_t bytes = out.size();
  for (const TraceRecorder::Span& span : trace.spans()) bytes += fixed[span.label].size() + 64;
  out.reserve(bytes);
  for (const TraceRecorder::Span& span : trace.spans()) {
    auto [ts, ts_ns] = us(span.begin_ns - zero);
    auto [dur, dur_ns] = us(span.end_ns - span.begin_ns);
    fmt::format_to(std::back_inserter(out), ",\n{{{}, \"ts\": {}.{:03}, \"dur\": {}.{:03}}}", fixed[span.label], ts, ts_ns,
                   dur, dur_ns);
  }
}

}  // namespace

std::string TraceRecorder::json(const std::string& more) const { return trace_json({{this, "nabla-run"}}, more); }

int64_t first_ns(const TraceRecorder& trace) {
  // An entry's span is recorded after those of its instructions, so the first one is not the earliest.
  int64_t out = INT64_MAX;
  for (const TraceRecorder::Span& span : trace.spans()) out = std::min(out, span.begin_ns);
  return out;
}

TraceText trace_text(const Track& track, size_t pid, int64_t zero) {
  TraceText out{{}, track.trace->notes(), track.trace->dropped()};
  out.events = fmt::format("{{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": {}, \"args\": {{\"name\": {}}}}},\n"
                           "{{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": {}, \"tid\": 1, \"args\": {{\"name\": \"steps\"}}}}",
                           pid, json_quoted(track.name), pid);
  add_spans(out.events, *track.trace, pid, zero);
  return out;
}

std::string trace_json(const std::vector<TraceText>& texts, const std::string& more) {
  std::string out = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n", notes;
  uint64_t dropped = 0;
  for (const TraceText& text : texts) {
    out += (&text == &texts[0] ? "" : ",\n") + text.events;
    for (const std::string& note : text.notes) notes += (notes.empty() ? "" : ", ") + json_quoted(note);
    dropped += text.dropped;
  }
  out += fmt::format("\n], {}\"otherData\": {{\"dropped_spans\": {}, \"notes\": [{}]}}}}\n", more, dropped, notes);
  return out;
}

std::string trace_json(const std::vector<Track>& tracks, const std::string& more) {
  int64_t zero = INT64_MAX;
  for (const Track& track : tracks) zero = std::min(zero, first_ns(*track.trace));
  std::vector<TraceText> texts;
  for (size_t i = 0; i < tracks.size(); ++i) texts.push_back(trace_text(tracks[i], i + 1, zero));
  return trace_json(texts, more);
}

}  // namespace nabla::exec
