#include "cli/nabla_run/report.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "runtime/base/text.h"
#include "runtime/exec/trace.h"
#include "runtime/format/file.h"

namespace nabla::cli {
namespace {

constexpr int kBarWidth = 24;
constexpr int64_t kDrawEveryNs = 100'000'000, kFlushEveryNs = 1'000'000'000;
constexpr int64_t kPlainLines = 10;

std::string json_string(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string clock_str(double seconds) {
  auto s = static_cast<int64_t>(std::ceil(seconds));
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string rate_str(double per_second) {
  return per_second < 100 ? fmt::format("{:.1f}", per_second) : fmt::format("{:.0f}", per_second);
}

}  // namespace

std::string metrics_str(const std::vector<Metric>& metrics) {
  std::string out;
  for (const Metric& m : metrics)
    out += fmt::format("{}{} {:.5g}", out.empty() ? "" : "  ", printable(m.name), m.value);
  return out;
}

Reporter::~Reporter() {
  clear_bar();
  if (metrics_file_ != nullptr) std::fclose(metrics_file_);
}

Status Reporter::open_metrics(const std::string& path) {
  if (path.empty()) return Ok{};
  metrics_path_ = path;
  metrics_file_ = std::fopen(path.c_str(), "w");
  if (metrics_file_ == nullptr) return format::write_failure(path, errno);
  return Ok{};
}

Status Reporter::open_events(const std::string& folder) {
  if (!folder.empty()) events_ = NABLA_TRY(EventFile::create(folder));
  return Ok{};
}

Status Reporter::close() {
  if (events_ != nullptr) (void)NABLA_TRY(events_->close());
  if (metrics_file_ == nullptr) return Ok{};
  bool failed = std::fclose(metrics_file_) != 0 || metrics_problem_ != 0;
  metrics_file_ = nullptr;
  if (failed) return format::write_failure(metrics_path_, metrics_problem_ != 0 ? metrics_problem_ : errno);
  return Ok{};
}

void Reporter::begin(const exec::EntryInfo& entry, bool training, int64_t total, int64_t per_epoch, int64_t samples_per_run,
                     int64_t before) {
  entry_ = entry.name;
  predicted_us_ = entry.predicted_us;
  training_ = training;
  total_ = total;
  per_epoch_ = per_epoch;
  samples_per_run_ = samples_per_run;
  before_ = done_ = before;
  if (training) trained_steps_ = std::max(trained_steps_, before);
  last_.clear();
  line_every_ = std::max<int64_t>(1, (total - before + kPlainLines - 1) / kPlainLines);
  // Whole epochs read better than odd step numbers.
  if (training && per_epoch > 0 && line_every_ > per_epoch) line_every_ = line_every_ / per_epoch * per_epoch;
  start_ns_ = exec::now_ns();
  last_draw_ns_ = 0;
}

void Reporter::write_metrics(int64_t step, int64_t epoch, const std::vector<Metric>& metrics) {
  if (listener_) listener_(step, metrics);
  if (metrics.empty()) return;
  if (events_ != nullptr) {
    std::vector<std::pair<std::string, double>> scalars;
    for (const Metric& m : metrics) scalars.emplace_back(entry_ + "/" + m.name, m.value);
    events_->add(step, scalars);
  }
  if (metrics_file_ == nullptr) return;
  std::string line = fmt::format("{{\"entry\": {}, \"step\": {}, \"epoch\": {}", json_string(entry_), step, epoch);
  for (const Metric& m : metrics)
    line += std::isfinite(m.value) ? fmt::format(", {}: {:.9g}", json_string(m.name), m.value)
                                   : fmt::format(", {}: null", json_string(m.name));
  line += "}\n";
  bool failed = std::fputs(line.c_str(), metrics_file_) < 0;
  int64_t now = exec::now_ns();
  if (!failed && now - last_flush_ns_ > kFlushEveryNs) last_flush_ns_ = now, failed = std::fflush(metrics_file_) != 0;
  if (failed && metrics_problem_ == 0) metrics_problem_ = errno;
}

Status Reporter::written() const {
  if (events_ != nullptr) (void)NABLA_TRY(events_->written());
  if (metrics_problem_ == 0) return Ok{};
  return format::write_failure(metrics_path_, metrics_problem_);
}

void Reporter::step(int64_t step, int64_t epoch, const std::vector<Metric>& metrics) {
  done_ = step;
  last_ = metrics;
  if (training_) {
    ++trained_steps_;
    trained_epochs_ = epoch;
    if (want_curve_ && !metrics.empty()) {
      auto named = std::find_if(metrics.begin(), metrics.end(), [](const Metric& m) { return m.name == "loss"; });
      const Metric& drawn = named == metrics.end() ? metrics.front() : *named;
      curve_.metric = drawn.name;
      curve_.values.push_back(drawn.value);
      curve_.per_epoch = per_epoch_;
    }
  }
  write_metrics(training_ ? trained_steps_ : step, training_ ? epoch : trained_epochs_, metrics);
  if (isatty(STDERR_FILENO)) {
    draw_bar(step, metrics);
  } else if (total_ - before_ > 1 && (step % line_every_ == 0 || step == total_)) {
    std::string of_epoch = per_epoch_ > 0 ? fmt::format("  epoch {}", epoch) : "";
    say(lines_, "{}: step {}/{}{}  {}\n", entry_, step, total_, of_epoch, metrics_str(metrics));
    std::fflush(lines_);
  }
}

void Reporter::progress(int64_t done) {
  done_ = done;
  if (isatty(STDERR_FILENO)) draw_bar(done, {});
}

void Reporter::draw_bar(int64_t done, const std::vector<Metric>& metrics) {
  int64_t now = exec::now_ns();
  if (total_ - before_ <= 1 || (now - last_draw_ns_ < kDrawEveryNs && done != total_)) return;
  last_draw_ns_ = now;
  double fraction = static_cast<double>(done) / static_cast<double>(total_);
  double seconds = static_cast<double>(now - start_ns_) / 1e9;
  double rate = seconds > 0 ? static_cast<double>(done - before_) / seconds : 0;
  std::string samples = samples_per_run_ > 0 ? fmt::format("  {} samples/s", rate_str(rate * static_cast<double>(samples_per_run_))) : "";
  int eighths = static_cast<int>(fraction * kBarWidth * 8);
  std::string bar;
  for (int i = 0; i < kBarWidth; ++i) {
    static const char* const kBlocks[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
    bar += kBlocks[std::clamp(eighths - i * 8, 0, 8)];
  }
  std::string epoch = training_ && per_epoch_ > 0 ? fmt::format(" epoch {}/{}", (done - 1) / per_epoch_ + 1,
                                                                (total_ + per_epoch_ - 1) / per_epoch_)
                                                  : "";
  std::fputs(fmt::format("\r\x1b[K{}{} ▕{}▏ {:3.0f}%  {}  {} step/s{}  ETA {}", printable(entry_), epoch, bar,
                         fraction * 100, metrics_str(metrics), rate_str(rate), samples,
                         clock_str(rate > 0 ? static_cast<double>(total_ - done) / rate : 0))
                 .c_str(),
             stderr);
  bar_shown_ = true;
}

void Reporter::clear_bar() {
  if (bar_shown_) std::fputs("\r\x1b[K", stderr);
  bar_shown_ = false;
}

void Reporter::evaluated(int64_t samples, const std::vector<Metric>& metrics) {
  clear_bar();
  write_metrics(trained_steps_, trained_epochs_, metrics);
  std::string values = metrics.empty() ? "" : metrics_str(metrics) + "  ";
  say(lines_, "{}: {}({} samples in {} runs)\n", entry_, values, samples, done_);
  std::fflush(lines_);
  last_.clear();
  total_ = 0;
}

void Reporter::end() {
  clear_bar();
  if (total_ == 0) return;
  double seconds = static_cast<double>(exec::now_ns() - start_ns_) / 1e9;
  std::string values = last_.empty() ? "" : metrics_str(last_) + "  ";
  if (done_ == before_) {
    say(lines_, "{}: stopped before its first step\n", entry_);
  } else if (total_ - before_ == 1) {
    say(lines_, "{}: {}done\n", entry_, values);
  } else {
    std::string samples =
        samples_per_run_ > 0
            ? fmt::format(", {} samples/s",
                          rate_str(static_cast<double>((done_ - before_) * samples_per_run_) / seconds))
            : "";
    double of_one_ms = seconds * 1e3 / static_cast<double>(std::max<int64_t>(1, done_ - before_));
    std::string predicted = predicted_us_ > 0 ? fmt::format(", {:.3g} ms a step, predicted {:.3g} ms", of_one_ms, predicted_us_ / 1e3) : "";
    say(lines_, "{}: {}{} steps in {:.2f} s, {} steps/s{}{}\n", entry_, values, done_ - before_, seconds,
        rate_str(static_cast<double>(done_ - before_) / seconds), samples, predicted);
  }
  std::fflush(lines_);
}

void Reporter::note(const std::string& text) {
  if (quiet_) return;
  clear_bar();
  std::fputs((printable(text) + "\n").c_str(), stderr);
}

}  // namespace nabla::cli
