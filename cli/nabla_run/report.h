// What nabla-run tells while it runs: a progress bar or plain lines, the metrics file, and the points of the curve.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/nabla_run/curve.h"
#include "cli/nabla_run/events.h"
#include "runtime/base/diagnostic.h"
#include "runtime/base/text.h"
#include "runtime/exec/session.h"

namespace nabla::cli {

struct Metric {
  std::string name;
  double value = 0;
};

class Reporter {
 public:
  /// `quiet`: another process tells all this. `lines`: where lines for people go, stderr where stdout has JSON.
  explicit Reporter(bool want_curve, bool quiet = false, std::FILE* lines = stdout)
      : want_curve_(want_curve), quiet_(quiet), lines_(lines) {}
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  /// Opens the metrics file, when `path` is not empty. E0803 when that fails.
  Status open_metrics(const std::string& path);
  /// Writes the same as an event file of TensorBoard into `folder`, when that is not empty. E0803 when it cannot.
  Status open_events(const std::string& folder);
  /// Is called with each step and its scalar outputs.
  void listen(std::function<void(int64_t step, const std::vector<Metric>& metrics)> to) { listener_ = std::move(to); }

  /// A job begins. `per_epoch`: runs in an epoch, 0 when there are none; `before`: runs of the total that an earlier
  /// job has done.
  void begin(const exec::EntryInfo& entry, bool training, int64_t total, int64_t per_epoch, int64_t samples_per_run,
             int64_t before = 0);
  /// After a training run, or a run without data. `step` counts from 1.
  void step(int64_t step, int64_t epoch, const std::vector<Metric>& metrics);
  /// After each batch of an evaluation, whose metrics come at the end.
  void progress(int64_t done);
  /// After an evaluation: its metrics over all samples.
  void evaluated(int64_t samples, const std::vector<Metric>& metrics);
  void end();
  /// Prints a line between the others.
  void note(const std::string& text);

  /// E0803 when the metrics file or the event file could not be written so far. Lines reach it within a second of the run that gave them.
  Status written() const;
  /// E0803 when one of them could not be written completely.
  Status close();
  const Curve& curve() const { return curve_; }

 private:
  void write_metrics(int64_t step, int64_t epoch, const std::vector<Metric>& metrics);
  void draw_bar(int64_t done, const std::vector<Metric>& metrics);
  void clear_bar();

  bool want_curve_, quiet_;
  std::FILE* lines_;
  std::FILE* metrics_file_ = nullptr;
  std::unique_ptr<EventFile> events_;
  std::function<void(int64_t, const std::vector<Metric>&)> listener_;
  std::string metrics_path_;
  int metrics_problem_ = 0;  ///< errno of a line that could not be written
  Curve curve_;

  std::string entry_;
  double predicted_us_ = 0;  ///< of a run; 0: not told
  bool training_ = false;
  int64_t total_ = 0, per_epoch_ = 0, samples_per_run_ = 0, before_ = 0, done_ = 0;
  int64_t line_every_ = 1;
  int64_t start_ns_ = 0, last_draw_ns_ = 0, last_flush_ns_ = 0;
  bool bar_shown_ = false;
  int64_t trained_steps_ = 0, trained_epochs_ = 0;  ///< of all training jobs so far
  std::vector<Metric> last_;
};

/// Prints lines, to stdout unless another file is named, with control characters in names escaped; unlike fmt::print it does not
/// throw when the file is full or closed.
template <class... Args>
void say(std::FILE* to, fmt::format_string<Args...> format, Args&&... args) {
  std::fputs(printable(fmt::format(format, std::forward<Args>(args)...), "\n").c_str(), to);
}
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say(stdout, format, std::forward<Args>(args)...);
}

/// "loss 0.1234  accuracy 0.97"
std::string metrics_str(const std::vector<Metric>& metrics);

}  // namespace nabla::cli
