#include "cli/nabla_run/run.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "cli/exit_codes.h"
#include "cli/nabla_run/checkpoint.h"
#include "cli/nabla_run/curve.h"
#include "cli/nabla_run/data.h"
#include "cli/nabla_run/exposition.h"
#include "cli/nabla_run/job.h"
#include "cli/nabla_run/options.h"
#include "cli/nabla_run/ranks.h"
#include "cli/nabla_run/report.h"
#include "cli/nabla_run/supervise.h"
#include "runtime/base/option_error.h"
#include "runtime/base/system.h"
#include "runtime/exec/profile.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"
#include "runtime/format/executable.h"
#include "runtime/format/process.h"
#include "runtime/format/ranks_generated.h"
#include "runtime/format/sha256.h"
#include "runtime/signature/signature.h"

namespace nabla::cli {
namespace {

/// This executable's bytes when a bundle stands at their end, else null.
std::shared_ptr<const format::FileBytes> own_bundle() {
  auto file = format::FileBytes::map("/proc/self/exe");
  if (!file.ok() || !format::ends_with_zip((*file)->bytes())) return nullptr;
  return *file;
}

/// The bundle of the line, or the one that this executable carries, signed by whom the line asks for.
Result<std::shared_ptr<const format::FileBytes>> bundle_bytes(const RunOptions& options, std::shared_ptr<const format::FileBytes> own) {
  std::string what = own != nullptr ? "the bundle of this executable" : options.bundle;
  if (own == nullptr) own = NABLA_TRY(format::FileBytes::map(options.bundle));
  std::vector<std::string> keys;
  for (const std::string& file : options.signers) keys.push_back(NABLA_TRY(signature::read_key(file, false)));
  if (!keys.empty()) (void)NABLA_TRY(signature::check(own->bytes(), keys, what));
  return own;
}

using Boards = std::vector<std::unique_ptr<comm::Board>>;

/// `boards`: of the ranks of this process, where somebody looks at them.
Result<std::unique_ptr<exec::Session>> open_session(const RunOptions& options, format::Bundle bundle, const RankProcess* rank,
                                                    const Boards& boards) {
  exec::SessionOptions settings{.threads = options.threads,
                                .trace = options.trace,
                                .profile = options.profile,
                                .check_nan = options.check_nan,
                                .target = options.target,
                                .rank_class = options.rank_class,
                                .sync_debug = options.sync_debug,
                                .stop = stop_flag(),
                                // State is updated where it lies: a step whose state is to be saved comes to its end.
                                .stop_all_loops = options.save_state.empty() && options.checkpoints.dir.empty(),
                                .pin_caller = true};
  if (options.comm_timeout_s) settings.comm_timeout_s = static_cast<double>(*options.comm_timeout_s);
  if (!boards.empty()) settings.board = [&](uint32_t r) { return boards[r].get(); };
  if (rank != nullptr) rank->apply(settings);
  return exec::Session::create(std::move(bundle), settings);
}

/// Everything that the line names is there to be used, before anything runs.
Status check_line(const RunOptions& options, bool first) {
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
  if (!first) outputs.clear();  // of several processes only that of rank 0 writes
  return format::check_files(inputs, outputs);
}

/// Where --prometheus is given, and this process answers.
Result<std::unique_ptr<Exposition>> expose(const RunOptions& options, const format::Bundle& bundle, const RankProcess* rank,
                                           Boards& boards) {
  if (!options.prometheus || (rank != nullptr && rank->rank() != 0)) return std::unique_ptr<Exposition>();
  std::vector<Exposition::Rank> ranks;
  if (rank != nullptr) ranks.push_back({rank->rank(), &rank->board()});
  for (uint32_t r = 0; rank == nullptr && bundle.ranks() != nullptr && r < bundle.ranks()->count(); ++r)
    ranks.push_back({r, boards.emplace_back(std::make_unique<comm::Board>()).get()});
  return Exposition::start(static_cast<uint16_t>(*options.prometheus), std::move(ranks));
}

/// `rank`: null where no other process takes part. What this process does not do of the options it takes out of them.
Status run(RunOptions& options, format::Bundle bundle, RankProcess* rank) {
  Boards boards;  // outlive who looks at them and who writes to them
  auto exposition = NABLA_TRY(expose(options, bundle, rank, boards));
  checkpoint::Layout layout = options.checkpoints.dir.empty() ? checkpoint::Layout() : checkpoint::Layout(bundle);
  auto session = NABLA_TRY(open_session(options, std::move(bundle), rank, boards));
  bool first = session->first();
  if (!first) options.metrics.clear(), options.tensorboard.clear(), options.loss_curve.clear(), options.profile = false;
  for (JobOptions& job : options.jobs) (void)NABLA_TRY(split_at_names(*session, job));
  (void)NABLA_TRY(check_line(options, first));
  std::string team = session->team();
  if (team.empty() && options.comm_timeout_s)
    return option_error("leave it out", "--comm-timeout: one rank runs, and waits for no other");
  if (!team.empty() && first) std::fprintf(stderr, "%s\n", team.c_str());
  Reporter reporter(!options.loss_curve.empty(), !first, options.json ? stderr : stdout);
  ProgressOf progress;
  std::unique_ptr<Checkpoints> checkpoints;
  if (!options.checkpoints.dir.empty()) checkpoints = NABLA_TRY(Checkpoints::begin(*session, options, rank, std::move(layout), progress));
  bool resumed = checkpoints != nullptr && checkpoints->resumed();
  if (!options.state.empty() && !resumed) {
    format::Metadata metadata;
    (void)NABLA_TRY(session->load_state(options.state, &metadata));
    progress = NABLA_TRY(read_progress(metadata, options.state));
  }
  for (const JobOptions& job : options.jobs)
    if (!job.entry.empty()) (void)NABLA_TRY(session->need_entry(job.entry));
  if (!options.weights.empty() && !resumed) {
    exec::WeightOptions weights{options.weights, options.weight_maps, options.weights_partial,
                                [&] { return run_init(*session, options, progress, reporter); }};
    std::string lines = NABLA_TRY(session->load_weights(weights));
    if (first) std::fputs(lines.c_str(), stderr);
  }
  std::vector<std::function<Status(Reporter&)>> jobs;
  {
    ArrayFiles files;
    for (const JobOptions& job : options.jobs)
      jobs.push_back(NABLA_TRY(prepare_job(*session, options, job, progress, checkpoints.get(), files, reporter)));
  }
  (void)NABLA_TRY(reporter.open_metrics(options.metrics));
  (void)NABLA_TRY(reporter.open_events(options.tensorboard));
  reporter.listen([&](int64_t step, const std::vector<Metric>& metrics) {
    if (exposition) exposition->update(step, metrics);
    if (rank != nullptr && first) rank->say(metrics_str(metrics));
  });
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
  bool together = rank == nullptr || ran.ok() || cut;  // an error may be that of this process alone
  if (checkpoints) (void)NABLA_TRY(checkpoints->end(progress, usable && together));
  if (!ran.ok() && !cut) return ran;
  (void)NABLA_TRY(reporter.close());
  if (!options.loss_curve.empty()) {
    if (reporter.curve().values.empty() && !interrupted())
      return option_error("leave it out, or run an entry that trains",
                          "--loss-curve: no entry that writes state and has a scalar output was run");
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
  if (checkpoints && !checkpoints->newest().empty()) d.notes.push_back(fmt::format("the checkpoint is {}", checkpoints->newest()));
  if (usable && !options.save_state.empty()) d.notes.push_back(fmt::format("the state is in {}", options.save_state));
  return d;
}

int report(const Diagnostics& errors, bool fine) {
  std::fputs(to_string(errors).c_str(), stderr);
  return exit_code(errors.front().code, fine);
}

uint32_t count_of_ranks(const format::Bundle& bundle) { return bundle.ranks() == nullptr ? 1 : bundle.ranks()->count(); }

/// Can ranks exchange values of this bundle from GPU to GPU, where the line asks for that? Asked before any library is opened.
Status check_engine(const format::Bundle& bundle, const RankOptions& ranks) {
  if (!ranks.engine || !ranks.engine->needs_gpus) return Ok{};
  for (const format::BundleClass& of : bundle.classes()) {
    if (std::none_of(of.programs.begin(), of.programs.end(), [](const format::Program* p) { return p->compute() > 0; }))
      return option_error("compile it for GPUs (nablac compile --target sm_90a), or run it with --engine mpi",
                          "--engine {} moves values from GPU to GPU, and {} is for CPUs alone: {}", ranks.engine->name, bundle.what(),
                          format::targets_of(of));
  }
  return Ok{};
}

/// A line that begins with whose it is: all ranks write to the same stderr. What to do rank 0 says; so does this one with `help`.
int rank_failed(uint32_t rank, const Diagnostic& why, bool help = false) {
  std::string text = why.message.substr(0, why.message.find('\n'));
  text = printable(fmt::format("rank {}: error[{}]: {}", rank, code_name(why.code), text), "") + "\n";
  if (help) text += fmt::format("   = help: {}\n", printable(why.help.empty() ? code_info(why.code).help : why.help));
  std::fputs(text.c_str(), stderr);
  return exit_code(why.code, true);
}

Diagnostic other_size(uint32_t ranks, const Launched& launched) {
  Diagnostic d = error(Code::kRanksDisagree, "the bundle is for {} rank{}, and {} has started {}", ranks, ranks == 1 ? "" : "s",
                       launched.by, launched.ranks);
  d.help = fmt::format("let it start {}, or take a bundle that is compiled for {} ranks", ranks, launched.ranks);
  return d;
}

/// What one of several processes does, in the process that is kept.
Result<int> run_rank(RunOptions& options, const Launched& launched, const Hooks& hooks, control::Shared& shared,
                     std::shared_ptr<const format::FileBytes> own, const std::string& program) {
  std::shared_ptr<const format::FileBytes> file = NABLA_TRY(bundle_bytes(options, std::move(own)));
  format::Bundle bundle = NABLA_TRY(format::Bundle::from_bytes(file, options.bundle.empty() ? program : options.bundle));
  (void)NABLA_TRY(check_engine(bundle, options.ranks));
  const std::string mesh = bundle.ranks() == nullptr ? "one rank" : exec::ranks_of(*bundle.ranks());
  const uint32_t ranks = count_of_ranks(bundle);
  // Who meets at an address may wait for long for others, which are not there.
  if (ranks != launched.ranks && options.ranks.engine && options.ranks.engine->meets_alone) return other_size(ranks, launched);
  std::unique_ptr<RankProcess> rank =
      NABLA_TRY(RankProcess::begin(options, launched, hooks, shared, format::sha256_hex(file->bytes()), mesh));
  // A rank alone with a bundle of another size has been told so by now, and the others with it: here all have the same one.
  if (ranks != launched.ranks) {
    (void)NABLA_TRY(rank->end(exit_code(Code::kRanksDisagree, true)));
    return other_size(ranks, launched);
  }
  steer_jobs({[&] { return rank->may_run(); }, [&] { return rank->stopped(); }});
  Status status = Ok{};
  try {
    status = run(options, std::move(bundle), rank.get());
  } catch (const std::bad_alloc&) {
    status = error(Code::kOutOfMemory, "the arrays of rank {} do not fit into memory", launched.rank);
  }
  if (status.ok()) status = format::flush_stdout();
  bool stopped = !status.ok() && status.errors().front().code == Code::kInterrupted && rank->stopped();
  if (stopped && launched.rank == 0) std::fputs(to_string(status.errors()).c_str(), stderr);
  const int code_of_end = stopped ? exit_code(Code::kInterrupted, true) : 0;
  Status ended = status.ok() || stopped ? rank->end(code_of_end) : status;
  // The threads and the transport of a rank that failed may wait for others: nothing of it is taken down in order.
  if (!ended.ok()) {
    int code = rank_failed(launched.rank, rank->failed(ended.errors().front()));
    std::fflush(stdout), std::fflush(stderr);
    ::_exit(code);
  }
  return code_of_end;
}

/// What the options ask for that only ranks of several processes have.
Status check_alone(const std::string& option) {
  if (option.empty()) return Ok{};
  return option_error(fmt::format("leave {} out, or add --engine mpi", option),
                      "{}: this process runs all ranks by itself; several processes need --engine {}", option,
                      comm::engine_names(true));
}

int run_as(RunOptions& options, const std::vector<std::string>& args, std::shared_ptr<const format::FileBytes> own,
           const std::string& program, const Hooks& hooks) {
  Result<Launched> launched = cli::launched(options.ranks.flags, [](const char* name) { return std::getenv(name); });
  if (!launched.ok()) return report(launched.errors(), false);
  const comm::Engine* engine = options.ranks.engine;
  if (const std::string& reports = options.ranks.reports; !reports.empty())
    if (Status writable = control::check_reports(reports); !writable.ok()) return report(writable.errors(), true);
  if (launched->ranks > 1) {
    if (engine && !engine->processes)
      return report({option_error("leave --engine out where something else starts the processes",
                                  "--engine {} runs all ranks in one process, and {} has started {}", engine->name, launched->by,
                                  launched->ranks)},
                    true);
    if (!launched->mpi && !engine)
      return report({option_error("use mpirun, srun, or nabla-run --engine mpi; with a GPU each, --engine nccl",
                                  "{} has started {} processes, which find each other by MPI alone", launched->by, launched->ranks)},
                    true);
    if (Status fits = check_meeting(options, *launched); !fits.ok()) return report(fits.errors(), true);
    stop_jobs_on_signals(Stops::kRank);
    Result<control::Shared*> memory = control::share();
    if (!memory.ok()) return report(memory.errors(), true);
    control::Shared& shared = **memory;
    int ends_with = 0;
    Result<bool> is_rank = keep(options, *launched, shared, ends_with);
    if (!is_rank.ok()) return rank_failed(launched->rank, is_rank.errors().front(), true);
    if (!*is_rank) return ends_with;
    if (int null = launched->rank == 0 ? -1 : ::open("/dev/null", O_WRONLY); null >= 0) ::dup2(null, STDOUT_FILENO);
    Result<int> code = run_rank(options, *launched, hooks, shared, std::move(own), program);
    if (code.ok()) return *code;
    if (launched->rank == 0) return report(code.errors(), true);
    // Rank 0 knows nothing of what comes before they meet, and where they meet at an address each may have a log of its own.
    return rank_failed(launched->rank, code.errors().front(), !shared.met || launched->meets(engine));
  }
  Result<std::shared_ptr<const format::FileBytes>> file = bundle_bytes(options, std::move(own));
  bool starts = engine && engine->processes, fine = starts || !options.checkpoints.dir.empty();
  if (!file.ok()) return report(file.errors(), fine);
  Result<format::Bundle> bundle = format::Bundle::from_bytes(*file, options.bundle.empty() ? program : options.bundle);
  if (!bundle.ok()) return report(bundle.errors(), fine);
  if (starts) {
    if (Status fits = check_engine(*bundle, options.ranks); !fits.ok()) return report(fits.errors(), true);
    uint32_t ranks = count_of_ranks(*bundle);
    stop_jobs_on_signals(Stops::kStarter);
    return run_ranks(options, args, ranks);
  }
  Status status = check_alone(options.for_processes);
  if (uint32_t ranks = count_of_ranks(*bundle); !launched->by.empty() && ranks > 1 && options.rank_class.empty() && !engine)
    std::fprintf(stderr, "note: %s has started one process, which runs all %u ranks as threads\n", launched->by.c_str(), ranks);
  try {
    if (status.ok()) status = run(options, std::move(*bundle), nullptr);
    if (status.ok()) status = format::flush_stdout();
    return status.ok() ? 0 : report(status.errors(), fine);
  } catch (const std::bad_alloc&) {
    return report({error(Code::kOutOfMemory, "the arrays of this run do not fit into memory")}, fine);
  }
}

int tell_postmortem(const std::string& folder) {
  Result<std::string> text = control::postmortem(folder);
  if (!text.ok()) return report(text.errors(), false);
  std::fputs(printable(*text, "\n").c_str(), stdout);
  Status printed = format::flush_stdout();
  return printed.ok() ? 0 : report(printed.errors(), false);
}

}  // namespace

int nabla_run_main(int argc, const char* const* argv, const Hooks& hooks) {
  format::prepare_process(true);
  raise_open_files();
  stop_jobs_on_signals(Stops::kAlone);
  std::shared_ptr<const format::FileBytes> own = own_bundle();
  if (own == nullptr && format::carries_bundle()) {
    Diagnostic d = error(Code::kCorrupt, "{}: this executable had a bundle appended, and it is cut or gone",
                         argc > 0 ? argv[0] : "nabla-run");
    d.help = "write it again with `nablac compile --emit=exe`, and do not strip it";
    return report({d}, false);
  }
  std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  Result<CommandLine> line = parse_command_line(args, own != nullptr);
  if (!line.ok()) return report(line.errors(), false);
  if (!line->text.empty()) {
    std::fputs(line->text.c_str(), stdout);
    Status printed = format::flush_stdout();
    return printed.ok() ? 0 : report(printed.errors(), false);
  }
  if (!line->options.postmortem.empty()) return tell_postmortem(line->options.postmortem);
  return run_as(line->options, args, std::move(own), argc > 0 ? argv[0] : "nabla-run", hooks);
}

}  // namespace nabla::cli
