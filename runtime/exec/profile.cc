#include "runtime/exec/profile.h"

#include <algorithm>
#include <map>

#include "runtime/base/text.h"

namespace nabla::exec {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return (values[values.size() / 2] + values[(values.size() - 1) / 2]) / 2;
}

/// The operations of a second in this type; 0: unknown. Libraries may have faster ways for the narrow ones.
double peak(DType dtype, const device::Limits& limits) {
  if (dtype == DType::kF64) return limits.flops / 2;
  return dtype == DType::kF32 ? limits.flops : 0;
}

/// Seconds that a call needs at least on this machine; 0: unknown.
double least(const TraceRecorder::Label& label, const device::Limits& limits) {
  double most = peak(label.dtype, limits), moved = limits.bytes_per_second(label.bytes);
  double computing = most > 0 ? label.flops / most : 0;
  return std::max(computing, moved > 0 ? label.bytes / moved : 0);
}

std::string source_of(const TraceRecorder::Label& label) {
  return label.file.empty() ? "" : fmt::format("{}:{}", label.file, label.line);
}

// What rows are told apart by.
std::string key_of(const TraceRecorder::Label& label) {
  return fmt::format("{}\n{}\n{}\n{}", label.name, label.category, label.problem, source_of(label));
}

/// The runs of one entry.
class Collector {
 public:
  Collector(const TraceRecorder& trace, const device::Limits& limits) : trace_(trace), limits_(limits) {}

  /// A run: its instructions' spans and how long it took.
  void add(const std::vector<TraceRecorder::Span>& spans, double seconds) {
    runs_.push_back(seconds);
    for (const TraceRecorder::Span& span : spans) {
      const TraceRecorder::Label& label = trace_.labels()[span.label];
      if (label.category == "control") continue;
      Sum& sum = sums_[key_of(label)];
      sum.label = &label;
      sum.seconds.resize(runs_.size());
      sum.seconds.back() += static_cast<double>(span.end_ns - span.begin_ns) * 1e-9;
      double needed = least(label, limits_);
      sum.calls.resize(runs_.size());
      Counts& counts = sum.calls.back();
      counts.calls += 1, counts.flops += label.flops, counts.bytes += label.bytes, counts.least += needed;
      sum.known = sum.known && needed > 0;
    }
  }

  EntryProfile profile(std::string entry) {
    size_t skipped = runs_.size() > 1 ? 1 : 0;
    EntryProfile out{.entry = std::move(entry), .runs = static_cast<int64_t>(runs_.size() - skipped)};
    runs_.erase(runs_.begin(), runs_.begin() + static_cast<int64_t>(skipped));
    out.seconds = median(runs_);
    std::vector<ProfileRow> rows;
    for (auto& [key, sum] : sums_) {
      sum.seconds.resize(runs_.size() + skipped);
      sum.seconds.erase(sum.seconds.begin(), sum.seconds.begin() + static_cast<int64_t>(skipped));
      ProfileRow row{std::string(sum.label->name), std::string(sum.label->category), sum.label->problem,
                     source_of(*sum.label)};
      row.seconds = median(sum.seconds);
      Counts all;
      for (size_t i = skipped; i < sum.calls.size(); ++i) {
        const Counts& c = sum.calls[i];
        all.calls += c.calls, all.flops += c.flops, all.bytes += c.bytes, all.least += c.least;
      }
      auto runs = static_cast<double>(out.runs);
      row.calls = all.calls / runs, row.flops = all.flops / runs, row.bytes = all.bytes / runs;
      if (sum.known && row.seconds > 0) row.of_peak = all.least / runs / row.seconds;
      if (row.calls > 0) rows.push_back(std::move(row));
    }
    // Numbers are sorted, not rows: nabla-run is to stay small.
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = 0; i < rows.size(); ++i) order.emplace_back(-rows[i].seconds, i);
    std::sort(order.begin(), order.end());
    for (const auto& [seconds, i] : order) out.rows.push_back(std::move(rows[i]));
    return out;
  }

 private:
  struct Counts {
    double calls = 0, flops = 0, bytes = 0, least = 0;
  };
  struct Sum {
    const TraceRecorder::Label* label = nullptr;
    std::vector<double> seconds;  ///< by run; those of runs without a call may be missing at the end
    std::vector<Counts> calls;    ///< likewise
    bool known = true;            ///< the least time of every call
  };

  const TraceRecorder& trace_;
  const device::Limits& limits_;
  std::vector<double> runs_;
  std::map<std::string, Sum> sums_;
};

// "-" where unknown.
std::string rate(double amount, double seconds) {
  return amount > 0 && seconds > 0 ? fmt::format("{:.3g}", amount / seconds * 1e-9) : "-";
}

std::string bytes_str(int64_t bytes) {
  return bytes >= 1 << 20 ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10);
}

}  // namespace

double EntryProfile::between() const {
  double out = seconds;
  for (const ProfileRow& row : rows) out -= row.seconds;
  return std::max(out, 0.0);
}

Profile profile_of(const TraceRecorder& trace, const device::Limits& limits) {
  std::vector<uint32_t> order;
  std::map<uint32_t, Collector> entries;
  std::vector<TraceRecorder::Span> pending;
  for (const TraceRecorder::Span& span : trace.spans()) {
    if (trace.labels()[span.label].category != "entry") {
      pending.push_back(span);
      continue;
    }
    // Those of a run that failed are nobody's.
    std::erase_if(pending, [&](const TraceRecorder::Span& s) { return s.end_ns < span.begin_ns; });
    auto [it, fresh] = entries.try_emplace(span.label, trace, limits);
    if (fresh) order.push_back(span.label);
    it->second.add(pending, static_cast<double>(span.end_ns - span.begin_ns) * 1e-9);
    pending.clear();
  }
  Profile out{.limits = limits, .dropped = trace.dropped()};
  for (uint32_t label : order)
    out.entries.push_back(entries.at(label).profile(std::string(trace.labels()[label].name)));
  return out;
}

std::string str(const Profile& profile, size_t most) {
  const device::Limits& limits = profile.limits;
  std::string out;
  for (const EntryProfile& e : profile.entries) {
    out += fmt::format("{}: {:.1f} us a run, the median of {}; {:.1f} us of it between instructions\n",
                       printable(e.entry), e.seconds * 1e6, e.runs, e.between() * 1e6);
    if (e.rows.empty()) continue;
    out += fmt::format("{:>6} {:>11} {:>7} {:>8} {:>8} {:>8}  {:<44} {}\n", "share", "time/us", "calls", "GFLOP/s",
                       "GB/s", "of peak", "what", "source");
    double rest = 0;
    for (size_t i = 0; i < e.rows.size(); ++i) {
      const ProfileRow& r = e.rows[i];
      if (i >= most) {
        rest += r.seconds;
        continue;
      }
      double share = e.seconds > 0 ? 100 * r.seconds / e.seconds : 0;
      out += fmt::format("{:5.1f}% {:11.2f} {:>7.4g} {:>8} {:>8} {:>8}  {:<44} {}\n", share, r.seconds * 1e6, r.calls,
                         rate(r.flops, r.seconds), rate(r.bytes, r.seconds),
                         r.of_peak < 0 ? "-" : fmt::format("{:.0f} %", 100 * r.of_peak),
                         printable(r.problem.empty() ? r.name : r.problem), printable(r.source));
    }
    if (e.rows.size() > most)
      out += fmt::format("{:5.1f}% {:11.2f}  in {} more\n", e.seconds > 0 ? 100 * rest / e.seconds : 0, rest * 1e6,
                         e.rows.size() - most);
  }
  if (profile.dropped > 0)
    out += fmt::format("of the first {} instructions that ran; {} later ones are not counted\n",
                       TraceRecorder::kMaxSpans, profile.dropped);
  if (!profile.entries.empty() && !limits.copies.empty()) {
    out += limits.flops > 0 ? fmt::format("peak: {:.0f} GFLOP/s of f32", limits.flops * 1e-9) : "peak:";
    out += "; copies of";
    for (size_t i = 0; i < limits.copies.size(); ++i)
      out += fmt::format("{} {} {:.0f}", i == 0 ? "" : ",", bytes_str(limits.copies[i].bytes),
                         limits.copies[i].bytes_per_second * 1e-9);
    out += " GB/s; measured now\n";
  }
  return out;
}

std::string json(const Profile& profile) {
  std::string out;
  for (const EntryProfile& e : profile.entries) {
    out += fmt::format("{}{{\"entry\": {}, \"runs\": {}, \"seconds\": {:.9g}, \"rows\": [", out.empty() ? "" : ", ",
                       json_quoted(e.entry), e.runs, e.seconds);
    std::string comma;
    for (const ProfileRow& r : e.rows) {
      out += comma + "{";
      for (const auto& [name, text] : {std::pair<const char*, const std::string*>("name", &r.name),
                                       {"kind", &r.kind},
                                       {"problem", &r.problem},
                                       {"source", &r.source}})
        out += fmt::format("\"{}\": {}, ", name, json_quoted(*text));
      out += fmt::format(
          "\"calls\": {:.9g}, \"seconds\": {:.9g}, \"flops\": {:.17g}, \"bytes\": {:.17g}, \"of_peak\": {:.6g}}}",
          r.calls, r.seconds, r.flops, r.bytes, r.of_peak);
      comma = ", ";
    }
    out += "]}";
  }
  return "[" + out + "]";
}

std::string str(const std::vector<ExchangeCount>& exchanges) {
  std::string out;
  for (const ExchangeCount& e : exchanges)
    out += fmt::format("{}{} {} of {} over {}, {} ranks: {} bytes\n", out.empty() ? "rank 0 exchanged in all runs:\n" : "", e.calls,
                       e.op, name_of(e.dtype), printable(e.group), e.ranks, e.payload_bytes);
  return out;
}

std::string json(const std::vector<ExchangeCount>& exchanges) {
  std::string out;
  for (const ExchangeCount& e : exchanges)
    out += fmt::format("{}{{\"op\": \"{}\", \"group\": {}, \"ranks\": {}, \"dtype\": \"{}\", \"calls\": {}, \"payload_bytes\": {}}}",
                       out.empty() ? "" : ", ", e.op, json_quoted(e.group), e.ranks, name_of(e.dtype), e.calls, e.payload_bytes);
  return "[" + out + "]";
}

}  // namespace nabla::exec
