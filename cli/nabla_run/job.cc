#include "cli/nabla_run/job.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <numeric>
#include <optional>

#include "cli/nabla_run/checkpoint.h"
#include "cli/nabla_run/data.h"
#include "runtime/base/option_error.h"
#include "runtime/comm/recorder.h"
#include "runtime/control/keeper.h"
#include "runtime/exec/trace.h"

namespace nabla::cli {
namespace {

volatile sig_atomic_t stop_asked = 0;
Stops stops = Stops::kAlone;
int64_t first_asked_us = 0;

void on_signal(int signal, siginfo_t* info, void*) {
  static constexpr char kSaid[] = "note: stopping; a second signal stops at once\n";
  int64_t now = comm::steady_us();
  if (stop_asked == 0) {
    first_asked_us = now;
    stop_asked = 1;
    if (stops != Stops::kRank) (void)!::write(2, kSaid, sizeof kSaid - 1);
    return;
  }
  bool of_keeper = stops == Stops::kRank && info->si_code == SI_QUEUE && info->si_pid == ::getppid();
  bool soon = stops != Stops::kAlone && static_cast<double>(now - first_asked_us) < control::kTogetherS * 1e6;
  if (of_keeper ? info->si_value.sival_int < 2 : soon) return;
  stop_asked = 2;
  if (stops != Stops::kStarter) ::signal(signal, SIG_DFL), ::raise(signal);
}

Steering& steering() {
  static Steering s;
  return s;
}
bool may_run() { return steering().may_run ? steering().may_run() : stop_asked == 0; }

using exec::EntryInfo;
using exec::Session;
using exec::TensorInfo;

bool is_scalar(const TensorInfo& t) { return t.shape.empty(); }
bool is_array(const TensorInfo& t) { return !is_scalar(t); }

/// One entry with the arrays of its inputs and outputs.
class Job {
 public:
  Job(Session& session, const RunOptions& options, const JobOptions& job, int entry, ProgressOf& progress,
      Checkpoints* checkpoints)
      : session_(session),
        options_(options),
        job_(job),
        index_(entry),
        entry_(session.entries()[entry]),
        progress_(progress),
        checkpoints_(checkpoints) {}

  bool training() const { return !entry_.writes.empty(); }
  Status prepare(Reporter& reporter, ArrayFiles& files);
  Status run(Reporter& reporter);

 private:
  Status take_inputs(ArrayFiles& files);
  Status take_data(Reporter& reporter, ArrayFiles& files);
  Status take_remaining(Reporter& reporter);
  Status check_outputs();
  Result<bool> fill_special(size_t input);
  Status check_start() const;
  uint64_t seed() const;
  Progress start(Reporter& reporter) const;
  Result<int64_t> goal(const Progress& from, int64_t runs, Reporter& reporter);
  Status done_with(const Progress& p);
  Status run_once(int64_t step);
  Status collect(const std::function<bool(const TensorInfo&)>& asked);
  Status next_step(int64_t step, int64_t before, Reporter& reporter);
  Status set_sizes();
  Status set_rows(int64_t samples);
  Literal result(size_t i) const;
  Status train(Reporter& reporter);
  Status evaluate(Reporter& reporter);
  Status repeat(Reporter& reporter);
  Status bench(Reporter& reporter);
  Status write_outputs();
  std::vector<Metric> metrics() const;
  bool has_metrics() const {
    return std::any_of(entry_.outputs.begin(), entry_.outputs.end(), is_scalar);
  }
  /// True when the first dimension of the array is the batch. Requires data.
  bool has_batch(const TensorInfo& info) const {
    if (info.shape.empty()) return false;
    if (!data_->open()) return info.shape[0] == data_->batch();
    return !info.is_static() && info.sizes[0] == entry_.inputs[data_->inputs()[0]].sizes[0];
  }
  bool is_per_sample(const TensorInfo& info) const { return info.shape.size() == 1 && has_batch(info); }
  /// Whether the output has a row per sample, which --output joins.
  bool joined(size_t output) const { return data_ && !training() && has_batch(entry_.outputs[output]); }

  Session& session_;
  const RunOptions& options_;
  const JobOptions& job_;
  int index_;
  const EntryInfo& entry_;
  ProgressOf& progress_;
  Checkpoints* checkpoints_;
  bool was_done_ = false;  ///< the run that a checkpoint comes from has done it all
  std::vector<Literal> inputs_, outputs_;
  std::vector<bool> given_;
  std::vector<const void*> input_data_;
  std::vector<void*> output_data_;
  std::vector<std::vector<int64_t>> shapes_;  ///< of the inputs in the next run
  std::optional<Dataset> data_;
  std::vector<std::pair<int64_t, int64_t>> rows_;  ///< of each input that the data feed, those that are read here
  int step_input_ = -1, mask_input_ = -1;
  std::vector<std::string> joined_bytes_;  ///< of the outputs that --output asks for
};

std::vector<std::string> names_of(const std::vector<TensorInfo>& tensors) {
  std::vector<std::string> out;
  for (const TensorInfo& tensor : tensors) out.push_back(tensor.name);
  return out;
}

Result<int> find_tensor(const std::vector<TensorInfo>& tensors, const std::string& name, const std::string& entry,
                        std::string_view role) {
  std::vector<std::string> names = names_of(tensors);
  auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<int>(found - names.begin());
  std::string list;
  for (const std::string& n : names) list += fmt::format("{}`{}`", list.empty() ? "" : ", ", n);
  return error(Code::kUnknownInput, "entry `{}` has no {} `{}`; it has {}{}", entry, role, name,
               list.empty() ? "none" : list, did_you_mean(name, names));
}

Status Job::take_inputs(ArrayFiles& files) {
  for (const TensorInfo& input : entry_.inputs) inputs_.emplace_back(input.dtype, input.shape);
  given_.assign(inputs_.size(), false);
  for (const Assignment& assignment : job_.inputs) {
    int input = NABLA_TRY(find_tensor(entry_.inputs, assignment.name, entry_.name, "input"));
    inputs_[input] = NABLA_TRY(read_input(assignment, entry_.inputs[input], files));
    given_[input] = true;
  }
  return Ok{};
}

Status Job::take_data(Reporter& reporter, ArrayFiles& files) {
  if (job_.data.empty()) return Ok{};
  std::vector<std::string> notes;
  data_ = NABLA_TRY(Dataset::load(job_, entry_, given_, files, notes));
  for (const std::string& note : notes) reporter.note(fmt::format("note: {}", note));
  for (size_t i = 0; i < data_->inputs().size(); ++i) {
    int input = data_->inputs()[i];
    given_[input] = true;
    inputs_[input] = Literal(entry_.inputs[input].dtype, data_->batch_shape(i, 0));  // set_sizes makes room for the rows of this process
  }
  int64_t samples = data_->samples(), batch = data_->batch();
  if (job_.bench) return Ok{};
  if (training()) {
    if (samples < batch)
      return error(Code::kInputShape, "{} has {} samples, less than one batch of {} for entry `{}`", job_.data, samples,
                   batch, entry_.name);
    return Ok{};
  }
  if (job_.steps || job_.epochs)
    return option_error("leave it out, or name an entry that trains",
                        "entry `{}` writes no state: it runs over all of --data once, without --{}", entry_.name,
                        job_.steps ? "steps" : "epochs");
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (!given_[i] && entry_.inputs[i].name == "mask" && entry_.inputs[i].dtype == DType::kF32 &&
        is_per_sample(entry_.inputs[i])) {
      mask_input_ = static_cast<int>(i);
      given_[i] = true;
    }
  if (samples % batch != 0 && mask_input_ < 0 && has_metrics() && !data_->open())
    return error(Code::kInputShape,
                 "{} has {} samples, which is no multiple of the batch of {}: entry `{}` needs an input `mask` "
                 "f32[{}], over the ones of which its scalar outputs are means",
                 job_.data, samples, batch, entry_.name, batch);
  return Ok{};
}

Result<bool> Job::fill_special(size_t i) {
  const TensorInfo& input = entry_.inputs[i];
  uint64_t seed = this->seed();
  bool scalar = input.shape.empty() && is_integer(input.dtype) && bytes_of(input.dtype) >= 4;
  if (input.name == "seed" && input.dtype == DType::kU32 && input.shape == std::vector<int64_t>{2}) {
    inputs_[i].set_i(0, static_cast<int64_t>(seed >> 32));
    inputs_[i].set_i(1, static_cast<int64_t>(seed & 0xFFFFFFFF));
    return true;
  }
  if (input.name == "seed" && scalar) {
    inputs_[i].set_i(0, static_cast<int64_t>(seed));
    bool negative = is_signed(input.dtype) && inputs_[i].get_i(0) < 0;
    if (static_cast<uint64_t>(inputs_[i].get_i(0)) != seed || negative)
      return option_error("choose a smaller one", "--seed {} does not fit input `seed`, which is {}", seed, input.type_str());
    return true;
  }
  if (input.name == "step" && (scalar || (input.shape.empty() && is_float(input.dtype)))) {
    step_input_ = static_cast<int>(i);
    return true;
  }
  return false;
}

Status Job::check_start() const {
  const char* option = job_.start_step ? "--start-step" : job_.skip ? "--skip" : nullptr;
  if (option == nullptr || training()) return Ok{};
  return option_error(fmt::format("leave {} out", option), "entry `{}` writes no state: there is nothing that {} could continue",
                      entry_.name, option);
}

uint64_t Job::seed() const {
  auto known = progress_.find(entry_.name);
  return options_.seed.value_or(known == progress_.end() ? 0 : known->second.seed);
}

// How far the entry has come before this job, in this process or in that which saved the state.
Progress Job::start(Reporter& reporter) const {
  Progress p;
  if (auto known = progress_.find(entry_.name); known != progress_.end()) p = known->second;
  int64_t samples = data_ ? data_->samples() : 0, batch = data_ ? data_->batch() : 0;
  int64_t batches = data_ ? samples / batch : 1;
  bool resumed = checkpoints_ != nullptr && checkpoints_->resumed();  // the checkpoint says it all
  const std::optional<int64_t> none, &start_step = resumed ? none : job_.start_step, &skipped = resumed ? none : job_.skip;
  bool other = p.step > 0 && !skipped && !start_step && (p.samples != samples || p.batch != batch);
  if (other && data_)
    reporter.note(
        fmt::format("note: entry `{}` goes on after step {}, but its data had {} samples in batches of {}; their "
                    "order begins anew",
                    entry_.name, p.step, p.samples, p.batch));
  int64_t skip = other ? 0 : p.epoch * batches + p.position;
  if (start_step) p.step = skip = *start_step - 1;
  if (skipped) skip = *skipped;
  return {seed(), p.step, skip / batches, skip % batches, samples, batch};
}

// The number of the job's last run.
Result<int64_t> Job::goal(const Progress& from, int64_t runs, Reporter& reporter) {
  if (runs > INT64_MAX - from.step) return option_error("ask for fewer", "{} steps after step {} are too many", runs, from.step);
  if (checkpoints_ == nullptr) return from.step + runs;
  int64_t out = checkpoints_->goal(entry_.name, from.step, runs, job_.start_step);
  was_done_ = checkpoints_->resumed() && from.step >= out;
  if (was_done_) reporter.note(fmt::format("note: entry `{}` has done its {} steps already", entry_.name, out));
  return out;
}

Status Job::done_with(const Progress& p) {
  progress_[entry_.name] = p;
  return checkpoints_ != nullptr ? checkpoints_->after_run(progress_) : Ok{};
}

Status Job::take_remaining(Reporter& reporter) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (given_[i] || NABLA_TRY(fill_special(i))) continue;
    const TensorInfo& input = entry_.inputs[i];
    if (!job_.bench) {
      Diagnostic d = error(Code::kInputMissing, "input `{}` ({}) of entry `{}` has no value", input.name, input.type_str(), entry_.name);
      d.help = fmt::format("pass --input {}=FILE, or --data FILE, an archive with an array for it", input.name);
      return d;
    }
    reporter.note(fmt::format("note: input `{}` has no value; --bench uses zeros", input.name));
  }
  return Ok{};
}

Status Job::check_outputs() {
  for (const TensorInfo& output : entry_.outputs) outputs_.emplace_back(output.dtype, output.shape);
  joined_bytes_.resize(outputs_.size());
  for (const Assignment& output : job_.outputs) {
    (void)NABLA_TRY(find_tensor(entry_.outputs, output.name, entry_.name, "output"));
    (void)NABLA_TRY(check_output_name(output));
  }
  return Ok{};
}

Status Job::prepare(Reporter& reporter, ArrayFiles& files) {
  (void)NABLA_TRY(check_start());
  (void)NABLA_TRY(take_inputs(files));
  (void)NABLA_TRY(take_data(reporter, files));
  (void)NABLA_TRY(take_remaining(reporter));
  (void)NABLA_TRY(check_outputs());
  // From here on the arrays stay where they are: those that are filled before a run are this job's own, and those of
  // files are only read.
  for (const Literal& input : inputs_) input_data_.push_back(input.data());
  for (Literal& output : outputs_) output_data_.push_back(output.mutable_data());
  for (const Literal& input : inputs_) shapes_.push_back(input.shape());
  return data_ ? set_rows(data_->batch()) : set_sizes();
}

// Sets the sizes of runs with so many samples. If the entry takes only multiples of a size, such as the number of ranks, a mask lets it
// have more rows: the mask leaves these out.
Status Job::set_rows(int64_t samples) {
  const bool masked = mask_input_ >= 0 && data_->open();
  const int64_t most = masked ? entry_.inputs[mask_input_].shape[0] : samples;
  Status first = Ok{};
  for (int64_t rows = samples; rows <= most; ++rows) {
    for (int input : data_->inputs()) shapes_[input][0] = rows;
    if (masked) shapes_[mask_input_][0] = rows;
    Status set = set_sizes();
    if (set.ok()) return set;
    if (rows == samples) first = std::move(set);
  }
  return first;
}

// Takes the sizes of the next runs from shapes_. A process stores only those rows of a batch that its ranks read. A session gets the
// address at which the global batch would begin, and reads no other rows.
Status Job::set_sizes() {
  std::vector<const int64_t*> shapes;
  for (const std::vector<int64_t>& shape : shapes_) shapes.push_back(shape.data());
  (void)NABLA_TRY(session_.set_shapes(index_, shapes));
  rows_.clear();
  for (size_t i = 0; data_ && i < data_->inputs().size(); ++i) {
    int input = data_->inputs()[i];
    auto& [begin, end] = rows_.emplace_back(session_.rows_here(index_, input));
    end = std::min(end, shapes_[input][0]);
    Literal& own = inputs_[input];
    if (own.shape()[0] < end - begin) own = Literal(own.dtype(), data_->batch_shape(i, end - begin));
    int64_t before = own.shape()[0] == 0 ? 0 : begin * (own.size_bytes() / own.shape()[0]);
    input_data_[input] = reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(own.data()) - static_cast<uintptr_t>(before));
  }
  return Ok{};
}

// What the last run left in output i.
Literal Job::result(size_t i) const {
  return Literal::from_bytes(outputs_[i].dtype(), session_.output_shape(index_, static_cast<int>(i)),
                             outputs_[i].data());
}

Status Job::run_once(int64_t step) {
  if (step_input_ >= 0) inputs_[step_input_].set(0, static_cast<double>(step));
  (void)NABLA_TRY(session_.run(index_, input_data_, output_data_));
  return collect(is_scalar);
}

// Brings those outputs of the last run together that are asked for, where ranks run elsewhere too.
Status Job::collect(const std::function<bool(const TensorInfo&)>& asked) {
  if (session_.alone()) return Ok{};
  std::vector<void*> to(output_data_);
  for (size_t i = 0; i < to.size(); ++i)
    if (!asked(entry_.outputs[i])) to[i] = nullptr;
  return session_.collect(index_, to);
}

// Where a signal ends it in the middle, the steps `before` it are reported. Where these cannot be written, it does not begin.
Status Job::next_step(int64_t step, int64_t before, Reporter& reporter) {
  (void)NABLA_TRY(reporter.written());
  Status ran = run_once(step);
  if (!ran.ok() && ran.errors().front().code == Code::kInterrupted && before > 0) reporter.end();
  return ran;
}

std::vector<Metric> Job::metrics() const {
  std::vector<Metric> out;
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (entry_.outputs[i].shape.empty()) out.push_back({entry_.outputs[i].name, outputs_[i].get(0)});
  return out;
}

Status Job::train(Reporter& reporter) {
  int64_t batches = data_->samples() / data_->batch();
  if (job_.epochs && *job_.epochs > INT64_MAX / batches)
    return option_error("ask for fewer", "--epochs {} of {} steps each are too many", *job_.epochs, batches);
  int64_t total = job_.steps ? *job_.steps : job_.epochs.value_or(1) * batches;
  Progress p = start(reporter);
  int64_t goal = NABLA_TRY(this->goal(p, total, reporter));
  if (was_done_) return Ok{};
  reporter.begin(entry_, true, goal, batches, data_->batch(), p.step);
  Order order(data_->samples(), p.seed, p.epoch);
  for (int64_t i = 0; p.step < goal && may_run(); ++i) {
    data_->fill(order, p.position * data_->batch(), rows_, inputs_);
    (void)NABLA_TRY(next_step(++p.step, i, reporter));
    reporter.step(p.step, p.epoch + 1, metrics());
    if (++p.position == batches) {
      p.position = 0;
      order = Order(data_->samples(), p.seed, ++p.epoch);
    }
    (void)NABLA_TRY(done_with(p));
  }
  reporter.end();
  return Ok{};
}

Status Job::evaluate(Reporter& reporter) {
  int64_t samples = data_->samples(), batch = data_->batch();
  int64_t batches = (samples + batch - 1) / batch;
  reporter.begin(entry_, false, batches, 0, batch);
  const Order order(samples);
  std::vector<Metric> sums = metrics();
  for (Metric& sum : sums) sum.value = 0;
  for (int64_t b = 0; b < batches && may_run(); ++b) {
    int64_t real = std::min(batch, samples - b * batch);
    if (data_->open() && real < batch) (void)NABLA_TRY(set_rows(real));
    data_->fill(order, b * batch, rows_, inputs_);  // the rows of this process are those of the batch's size
    if (mask_input_ >= 0)
      for (int64_t i = 0; i < shapes_[mask_input_][0]; ++i) inputs_[mask_input_].set(i, i < real ? 1 : 0);
    (void)NABLA_TRY(run_once(b + 1));
    (void)NABLA_TRY(collect(is_array));
    std::vector<Metric> values = metrics();
    for (size_t i = 0; i < sums.size(); ++i) sums[i].value += values[i].value * static_cast<double>(real);
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (joined(i)) {
        Literal rows = result(i);
        joined_bytes_[i].append(static_cast<const char*>(rows.data()),
                                static_cast<size_t>(rows.size_bytes() / rows.shape()[0] * real));
      }
    reporter.progress(b + 1);
  }
  if (interrupted()) return Ok{};  // means over a part would look like results
  for (Metric& sum : sums) sum.value /= static_cast<double>(samples);
  reporter.evaluated(samples, sums);
  return Ok{};
}

Status Job::repeat(Reporter& reporter) {
  int64_t total = job_.steps.value_or(1);
  // Without an input that counts them, runs are all the same.
  bool counted = training() && (step_input_ >= 0 || checkpoints_ != nullptr);
  Progress p = counted || job_.start_step ? start(reporter) : Progress{};
  int64_t goal = counted ? NABLA_TRY(this->goal(p, total, reporter)) : total;
  if (was_done_) return Ok{};
  reporter.begin(entry_, training() && total > 1, goal, 0, 0, p.step);
  for (int64_t i = 0; p.step < goal && may_run(); ++i) {
    (void)NABLA_TRY(next_step(++p.step, i, reporter));
    reporter.step(p.step, 0, metrics());
    if (counted) (void)NABLA_TRY(done_with(p));
  }
  reporter.end();
  (void)NABLA_TRY(collect(is_array));
  if (!session_.first()) return Ok{};
  std::vector<std::string> written;
  for (const Assignment& output : job_.outputs) written.push_back(output.name);
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (!entry_.outputs[i].shape.empty() &&
        std::find(written.begin(), written.end(), entry_.outputs[i].name) == written.end())
      say("{} = {}\n", entry_.outputs[i].name, result(i).str());
  return Ok{};
}

Status Job::bench(Reporter& reporter) {
  constexpr int kWarmUp = 3;
  if (data_) data_->fill(Order(data_->samples()), 0, rows_, inputs_);
  std::vector<double> micros;
  for (int64_t i = -kWarmUp; i < *job_.bench; ++i) {
    if (!may_run()) return error(Code::kInterrupted, "stopped by a signal during --bench");
    int64_t start = exec::now_ns();
    (void)NABLA_TRY(run_once(std::max<int64_t>(i, 0) + 1));
    if (i >= 0) micros.push_back(static_cast<double>(exec::now_ns() - start) / 1e3);
  }
  std::sort(micros.begin(), micros.end());
  double median = (micros[micros.size() / 2] + micros[(micros.size() - 1) / 2]) / 2;
  if (options_.json) {
    say("{{\"entry\": \"{}\", \"runs\": {}, \"threads\": {}, \"min_us\": {:.3f}, \"median_us\": {:.3f}, "
        "\"max_us\": {:.3f}}}\n",
        entry_.name, micros.size(), session_.threads(), micros.front(), median, micros.back());
  } else {
    std::string gflops = entry_.flops > 0 ? fmt::format("  {:.1f} GFLOP/s at the minimum",
                                                        static_cast<double>(entry_.flops) / micros.front() / 1e3)
                                          : "";
    say("{}: min {:.2f} us  median {:.2f} us  max {:.2f} us  ({} runs, {} threads){}\n", entry_.name, micros.front(),
        median, micros.back(), micros.size(), session_.threads(), gflops);
  }
  return Ok{};
}

Status Job::write_outputs() {
  if (job_.bench || (data_ && training())) (void)NABLA_TRY(collect(is_array));  // the others have
  if (!session_.first()) return Ok{};
  for (const Assignment& output : job_.outputs) {
    int i = NABLA_TRY(find_tensor(entry_.outputs, output.name, entry_.name, "output"));
    Literal value = result(i);
    if (joined(i) && !job_.bench) {
      std::vector<int64_t> shape = value.shape();
      shape[0] = data_->samples();
      value = Literal::from_bytes(value.dtype(), std::move(shape), joined_bytes_[i].data());
    }
    (void)NABLA_TRY(write_output(output.value, output.name, value));
  }
  return Ok{};
}

Status Job::run(Reporter& reporter) {
  Status status = job_.bench   ? bench(reporter)
                  : !data_     ? repeat(reporter)
                  : training() ? train(reporter)
                               : evaluate(reporter);
  if (!status.ok() || interrupted() || was_done_) return status;
  return write_outputs();
}

/// Runs `init` when training is about to read state that nothing has given a value.
Status initialize(Session& session, const RunOptions& options, int entry, ProgressOf& progress, Reporter& reporter) {
  const EntryInfo& info = session.entries()[entry];
  bool missing = std::any_of(info.reads.begin(), info.reads.end(), [&](int leaf) { return !session.has_value(leaf); });
  bool is_init = info.name == "init";
  if (!missing || info.writes.empty() || is_init || !options.state.empty()) return Ok{};
  return run_init(session, options, progress, reporter);
}

}  // namespace

Status split_at_names(const Session& session, JobOptions& job) {
  const std::vector<EntryInfo>& entries = session.entries();
  auto entry = std::find_if(entries.begin(), entries.end(), [&](const EntryInfo& e) {
    return job.entry.empty() ? entries.size() == 1 : e.name == job.entry;
  });
  if (entry == entries.end()) return Ok{};  // prepare_job says so
  (void)NABLA_TRY(split_at_names(job.inputs, names_of(entry->inputs), "--input"));
  (void)NABLA_TRY(split_at_names(job.maps, names_of(entry->inputs), "--map"));
  return split_at_names(job.outputs, names_of(entry->outputs), "--output");
}

Status run_init(Session& session, const RunOptions& options, ProgressOf& progress, Reporter& reporter) {
  int init = session.find_entry("init");
  if (init < 0) return Ok{};
  JobOptions plain{.entry = "init"};
  Job job(session, options, plain, init, progress, nullptr);
  ArrayFiles none;
  (void)NABLA_TRY(job.prepare(reporter, none));
  (void)NABLA_TRY(job.run(reporter));
  if (interrupted()) return error(Code::kInterrupted, "stopped by a signal while `init` ran");
  return Ok{};
}

Result<std::function<Status(Reporter&)>> prepare_job(Session& session, const RunOptions& options, const JobOptions& job,
                                                     ProgressOf& progress, Checkpoints* checkpoints, ArrayFiles& files,
                                                     Reporter& reporter) {
  if (job.entry.empty() && session.entries().size() != 1) {
    std::string list;
    for (const EntryInfo& entry : session.entries())
      list += fmt::format("{}`{}`", list.empty() ? "" : ", ", entry.name);
    return error(Code::kUnknownEntry, "which entry? Pass --entry with one of {}", list.empty() ? "none" : list);
  }
  int entry = job.entry.empty() ? 0 : NABLA_TRY(session.need_entry(job.entry));
  auto runner = std::make_shared<Job>(session, options, job, entry, progress, checkpoints);
  (void)NABLA_TRY(runner->prepare(reporter, files));
  return std::function<Status(Reporter&)>([=, &session, &options, &progress](Reporter& r) -> Status {
    (void)NABLA_TRY(initialize(session, options, entry, progress, r));
    return runner->run(r);
  });
}

void steer_jobs(Steering to) { steering() = std::move(to); }
bool interrupted() { return steering().stopped ? steering().stopped() : stop_asked != 0; }
int signals() { return stop_asked; }
const volatile sig_atomic_t* stop_flag() { return &stop_asked; }

void stop_jobs_on_signals(Stops who) {
  stops = who;
  struct sigaction ask {};
  ask.sa_sigaction = on_signal;
  ask.sa_flags = SA_RESTART | SA_SIGINFO;
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &ask, nullptr);
}

}  // namespace nabla::cli
