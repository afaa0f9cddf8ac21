#include "cli/nabla_run_main.h"

#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "cli/nabla_run_curve.h"
#include "cli/nabla_run_data.h"
#include "cli/nabla_run_job.h"
#include "cli/nabla_run_options.h"
#include "cli/nabla_run_report.h"
#include "runtime/exec/profile.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"
#include "runtime/format/executable.h"
#include "runtime/format/process.h"

namespace nabla::cli {
namespace {

/// This executable's bytes when a bundle stands at their end, else null.
std::shared_ptr<const format::FileBytes> own_bundle() {
  auto file = format::FileBytes::map("/proc/self/exe");
  if (!file.ok() || !format::ends_with_zip((*file)->bytes())) return nullptr;
  return *file;
}

Result<std::unique_ptr<exec::Session>> open_session(const RunOptions& options,
                                                    std::shared_ptr<const format::FileBytes> own,
                                                    const std::string& program) {
  exec::SessionOptions settings{.threads = options.threads,
                                .trace = options.trace,
                                .profile = options.profile,
                                .check_nan = options.check_nan,
                                .target = options.target,
                                .rank_class = options.rank_class,
                                .sync_debug = options.sync_debug,
                                .stop = stop_flag(),
                                // State is updated where it lies: a step whose state is to be saved comes to its end.
                                .stop_all_loops = options.save_state.empty(),
                                .pin_caller = true};
  if (options.comm_timeout_s) settings.comm_timeout_s = static_cast<double>(*options.comm_timeout_s);
  if (own == nullptr) return exec::Session::open(options.bundle, settings);
  return exec::Session::create(NABLA_TRY(format::Bundle::from_bytes(std::move(own), program)), settings);
}

/// Everything that the line names is there to be used, before anything runs.
Status check_line(const RunOptions& options) {
  std::vector<format::NamedFile> inputs{{"BUNDLE", options.bundle}};
  std::vector<format::NamedFile> outputs{
      {"--trace", options.trace}, {"--metrics", options.metrics}, {"--loss-curve", options.loss_curve}};
  for (const JobOptions& job : options.jobs) {
    inputs.push_back({"--data", job.data});
    for (const Assignment& input : job.inputs) inputs.push_back({"--input " + input.name, file_of(input)});
    for (const Assignment& output : job.outputs) outputs.push_back({"--output " + output.name, output.value});
  }
  // State may go back to where it came from.
  if (options.save_state != options.state) inputs.push_back({"--state", options.state});
  if (!options.weights.empty()) inputs.push_back({"--weights", options.weights});
  outputs.push_back({"--save-state", options.save_state});
  return format::check_files(inputs, outputs);
}

Status run(RunOptions options, std::shared_ptr<const format::FileBytes> own, const std::string& program) {
  auto session = NABLA_TRY(open_session(options, std::move(own), program));
  for (JobOptions& job : options.jobs) (void)NABLA_TRY(split_at_names(*session, job));
  (void)NABLA_TRY(check_line(options));
  std::string team = session->team();
  if (team.empty() && options.comm_timeout_s)
    return error(Code::kBadOption, "--comm-timeout: one rank runs, and waits for no other");
  if (!team.empty()) std::fprintf(stderr, "%s\n", team.c_str());
  Reporter reporter(!options.loss_curve.empty());
  ProgressOf progress;
  if (!options.state.empty()) {
    format::Metadata metadata;
    (void)NABLA_TRY(session->load_state(options.state, &metadata));
    progress = NABLA_TRY(read_progress(metadata, options.state));
  }
  for (const JobOptions& job : options.jobs)
    if (!job.entry.empty()) (void)NABLA_TRY(session->need_entry(job.entry));
  if (!options.weights.empty()) {
    exec::WeightOptions weights{options.weights, options.weight_maps, options.weights_partial,
                                [&] { return run_init(*session, options, progress, reporter); }};
    std::string lines = NABLA_TRY(session->load_weights(weights));
    std::fputs(lines.c_str(), stderr);
  }
  std::vector<std::function<Status(Reporter&)>> jobs;
  {
    ArrayFiles files;
    for (const JobOptions& job : options.jobs)
      jobs.push_back(NABLA_TRY(prepare_job(*session, options, job, progress, files, reporter)));
  }
  (void)NABLA_TRY(reporter.open_metrics(options.metrics));
  Status ran = Ok{};
  bool writes_state = false, any = false;  // the job that ran last; whether one did
  for (size_t i = 0; i < jobs.size() && ran.ok() && !interrupted(); ++i) {
    ran = jobs[i](reporter), any = true;
    const std::string& entry = options.jobs[i].entry;
    writes_state = !session->entries()[entry.empty() ? 0 : session->find_entry(entry)].writes.empty();
  }
  bool cut = !ran.ok() && ran.errors().front().code == Code::kInterrupted;  // in the middle of a run
  // What was trained is kept also when its predictions could not be written, or were not computed.
  bool usable = any && (ran.ok() || ran.errors().front().code == Code::kWriteFailed || (cut && !writes_state));
  if (usable && !options.save_state.empty())
    (void)NABLA_TRY(session->save_state(options.save_state, progress_metadata(progress)));
  if (!ran.ok() && !cut) return ran;
  (void)NABLA_TRY(reporter.close());
  if (!options.loss_curve.empty()) {
    if (reporter.curve().values.empty() && !interrupted())
      return error(Code::kBadOption, "--loss-curve: no entry that writes state and has a scalar output was run");
    std::string title = fmt::format("Training: {}", reporter.curve().metric);
    (void)NABLA_TRY(format::write_file(options.loss_curve, curve_svg(reporter.curve(), title)));
  }
  if (options.profile && options.json)
    say("{{\"profile\": {}, \"exchanges\": {}}}\n", exec::json(session->profile()), exec::json(session->exchanges()));
  if (options.profile && !options.json) say("{}{}", exec::str(session->profile()), exec::str(session->exchanges()));
  (void)NABLA_TRY(session->finish());
  if (!interrupted()) return Ok{};
  Diagnostic d =
      cut ? ran.errors().front() : error(Code::kInterrupted, "stopped by a signal before the work was done");
  if (usable && !options.save_state.empty()) d.notes.push_back(fmt::format("the state is in {}", options.save_state));
  return d;
}

int report(const Diagnostics& errors) {
  std::fputs(to_string(errors).c_str(), stderr);
  Code code = errors.front().code;
  return code == Code::kBadOption ? 2 : code == Code::kInterrupted ? 130 : 1;
}

}  // namespace

int nabla_run_main(int argc, const char* const* argv) {
  format::prepare_process(true);
  stop_jobs_on_signals();
  std::shared_ptr<const format::FileBytes> own = own_bundle();
  if (own == nullptr && format::carries_bundle()) {
    Diagnostic d = error(Code::kCorrupt, "{}: this executable had a bundle appended, and it is cut or gone",
                         argc > 0 ? argv[0] : "nabla-run");
    d.help = "write it again with `nablac compile --emit=exe`, and do not strip it";
    return report({d});
  }
  std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  Result<CommandLine> line = parse_command_line(args, own != nullptr);
  if (!line.ok()) return report(line.errors());
  if (!line->text.empty()) {
    std::fputs(line->text.c_str(), stdout);
    Status printed = format::flush_stdout();
    return printed.ok() ? 0 : report(printed.errors());
  }
  try {
    Status status = run(line->options, std::move(own), argc > 0 ? argv[0] : "nabla-run");
    if (status.ok()) status = format::flush_stdout();
    return status.ok() ? 0 : report(status.errors());
  } catch (const std::bad_alloc&) {
    return report({error(Code::kOutOfMemory, "the arrays of this run do not fit into memory")});
  }
}

}  // namespace nabla::cli
