#include "cli/nabla_run_options.h"

#include <algorithm>
#include <set>

#include "cli/validators.h"
#include "runtime/base/option_error.h"
#include "runtime/base/version.h"

namespace nabla::cli {
namespace {

constexpr const char* kFooter = R"(
Several entries run one after the other in one process and share the state. Options after an --entry belong to it:
  nabla-run model.nbundle --entry step --data train.npz --epochs 40 --entry eval --data test.npz
With one --entry or none its options may stand anywhere; an entry may be left out when the bundle has only one.

Data. The arrays of --data have the samples on their first axis and feed the inputs of the same name, or those named by
--map INPUT=ARRAY. The batch size is the first extent of those inputs; where it is a symbol, the most that program and
data allow, or --batch.
  An entry that writes state is training: samples are shuffled in every epoch (by --seed), the last partial batch is
  dropped. State that has no value yet is first made by the entry `init`, if there is one.
  Any other entry is evaluation: every sample is used once, in order. The last batch is filled up by repeating samples;
  an f32[batch] input named `mask` gets 1 for each real sample and 0 for each repeated one. Scalar outputs must be means
  over the ones of the mask; they are averaged over the batches by the number of real samples. Without `mask` the
  number of samples must be a multiple of the batch. Outputs with the batch as first axis are joined for --output.

A name may hold `=`: in NAME=VALUE the longest name of the entry that stands in front of a `=` counts.
Bools in files are bytes of 0 or 1; an array that holds others is refused when it is used.

Inputs without a value: `seed` gets --seed (u32[2]: its high and low half), `step` counts the entry's runs from 1.
State names, dtypes and shapes in --state must be exactly the program's.

Going on. --save-state also keeps how far each entry has trained: its runs, its place in the data and its seed. With
--state training goes on there: --steps and --epochs count what is added, so that 100 steps and then 100 more leave the
same bits as 200. --start-step and --skip say it otherwise: --start-step 1 begins anew. With data of another size or
batch the order of samples begins anew.

Weights. The tensors of --weights go to the state leaves of their names, or as rows of --weights-map say: in
  --weights-map 'h.*.attn.weight=blocks.*.attn.w:transpose'
`*` stands for a part of the name and fills the `*` of the target; the last row that matches a tensor counts; :transpose
turns a matrix round (PyTorch's Linear is [out,in]), :reshape keeps the elements and their order. Dtypes are converted.
What was loaded, converted, kept and not used is told on stderr. Weights go over --state. Every leaf needs a tensor or a
value from --state; with --weights-partial the others are made by the entry `init`, if there is one.

Checkpoints. With --checkpoint-dir the state goes to DIR/step-00000100 and so on while the run goes on: every
--checkpoint-every steps, at the end, and when a signal stops the run. With --resume latest a run goes on from the newest
one that is whole, as if it had not been interrupted; --steps and --epochs are then those of the job in all, so that the
same line can be started again and again until it is done. Any mesh of the same program can resume.

Several processes. A bundle for several ranks runs on threads of this process, or with --engine mpi on processes that
mpirun starts; under mpirun every process is one rank. With --engine nccl it runs on processes with a GPU each, here or as
torchrun, Kubernetes, srun or mpirun have started them. Every process reads its own part of weights, state and data; rank 0
prints and writes what there is to print and to write. When a rank is lost, stalls or fails, all others end with the
first cause, and --postmortem tells from their reports what each was at.

Exit codes: 0 done; 1 an error, described on stderr; 2 a wrong command line;
130 stopped by SIGINT or SIGTERM before the work was done. Of several processes and with --checkpoint-dir, those of
docs/ranks.md.)";

/// The options of one part of the line: all that may be given anywhere, and those of one entry.
struct Part {
  JobOptions job;
  std::optional<std::string> bundle, state, weights, save_state, trace, metrics, tensorboard, loss_curve, target, rank_class;
  std::optional<uint64_t> seed;
  std::optional<int> threads, comm_timeout;
  std::optional<uint16_t> prometheus;
  std::optional<std::string> engine, hosts, rendezvous, reports, postmortem;
  std::optional<uint32_t> np, rank, world_size, local_rank;
  std::optional<double> heartbeat, join_timeout;
  std::optional<int> max_restarts;
  std::optional<std::string> checkpoint_dir, resume;
  std::optional<int64_t> checkpoint_every, checkpoint_keep, checkpoint_keep_every;
  bool checkpoint_required = false;
  bool json = false, check_nan = false, sync_debug = false, profile = false, weights_partial = false, check_messages = false;
  std::vector<std::string> inputs, outputs, maps, weight_maps, signers;

  bool has_job_options() const {
    return !inputs.empty() || !outputs.empty() || !maps.empty() || !job.data.empty() || job.steps || job.epochs ||
           job.bench || job.batch || job.start_step || job.skip;
  }
};

CLI::Validator positive() { return whole(1, INT64_MAX, "a whole number of at least 1"); }

void declare_ranks(CLI::App& app, Part& part) {
  auto ranks = [&](const char* name, std::optional<uint32_t>& to, const char* doc, uint64_t low) {
    app.add_option(name, to, doc)->check(whole(low, 1u << 20, "a number of ranks"))->group("Ranks");
  };
  app.add_option("--engine", part.engine,
                 "of a bundle for several ranks: `local`: threads of this process; `mpi`: processes; `nccl`: processes with a GPU each")
      ->check(CLI::IsMember({"local", "mpi", "nccl"}))
      ->group("Ranks");
  ranks("--np", part.np, "processes that --engine mpi or nccl starts [as the bundle says]", 1);
  app.add_option("--hosts", part.hosts, "FILE of lines HOST[:SLOTS]: where --engine mpi starts them [here]")
      ->check(file_name())
      ->group("Ranks");
  ranks("--rank", part.rank, "which rank this process is, where no launcher says so", 0);
  ranks("--world-size", part.world_size, "how many ranks there are, beside --rank", 1);
  ranks("--local-rank", part.local_rank, "which rank of this machine it is, beside --rank", 0);
  app.add_option("--rendezvous", part.rendezvous, "HOST:PORT where the ranks meet [an address of rank 0's machine]")
      ->check(CLI::Validator([](std::string& text) { return std::string(text.empty() ? "it is empty, not HOST:PORT" : ""); }, ""))
      ->group("Ranks");
  app.add_option("--heartbeat", part.heartbeat, "seconds between two signs of life; after 5 of them without one a rank is lost [1]")
      ->check(seconds(0.02, 600))
      ->group("Ranks");
  app.add_option("--join-timeout", part.join_timeout, "seconds that all ranks may take to come [60]")
      ->check(seconds(0.1, 86400))
      ->group("Ranks");
  app.add_option("--reports", part.reports, "folder for what ranks were at when a run of several processes failed [of its own]")
      ->check(file_name())
      ->group("Ranks");
  app.add_option("--postmortem", part.postmortem, "tell what the reports in this folder say, and run nothing")
      ->check(file_name())
      ->group("Ranks");
  app.add_option("--max-restarts", part.max_restarts, "start the ranks of --engine mpi or nccl again so often after one was lost [0]")
      ->check(whole(0, 1000, "a number from 0 to 1000"))
      ->group("Ranks");
  app.add_flag("--check-messages", part.check_messages, "compare a checksum of every message between processes; slower")
      ->group("Ranks");
}

void declare_checkpoints(CLI::App& app, Part& part) {
  auto number = [&](const char* name, std::optional<int64_t>& to, const char* doc) {
    app.add_option(name, to, doc)->check(positive())->group("Checkpoints");
  };
  app.add_option("--checkpoint-dir", part.checkpoint_dir, "folder for checkpoints, which all ranks share")
      ->check(file_name())
      ->group("Checkpoints");
  number("--checkpoint-every", part.checkpoint_every, "steps from one to the next [one at the end]");
  number("--checkpoint-keep", part.checkpoint_keep, "so many of the newest stay [3]");
  number("--checkpoint-keep-every", part.checkpoint_keep_every, "and those of steps that are multiples [none]");
  app.add_flag("--checkpoint-required", part.checkpoint_required, "one that cannot be written ends the run [a warning]")
      ->group("Checkpoints");
  app.add_option("--resume", part.resume, "`latest`, a step, or a folder DIR/step-...: go on from there")
      ->check(file_name())
      ->group("Checkpoints");
}

void declare(CLI::App& app, Part& part, bool carries_bundle) {
  app.footer(kFooter);
  app.set_version_flag("--version", version_text("nabla-run"), "Print the versions and exit");
  app.get_formatter()->column_width(34);
  if (!carries_bundle) app.add_option("BUNDLE", part.bundle, "the compiled program");
  app.add_option("--entry", part.job.entry, "the entry to run; may be repeated")->group("Entries");
  auto one_of_several = [&](const char* name, std::vector<std::string>& texts, const char* doc) {
    return app.add_option(name, texts, doc)
        ->allow_extra_args(false)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  one_of_several("--input", part.inputs,
                 "NAME=FILE.npy|.npz[:ARRAY]|.safetensors[:ARRAY], or NAME=NUMBER for a scalar; once per input")
      ->group("Entries");
  one_of_several("--output", part.outputs, "NAME=FILE.npy|.safetensors, written after the last run; once per output")
      ->group("Entries");
  app.add_option("--data", part.job.data, "FILE.npz|.safetensors of samples, see below")
      ->check(file_name())
      ->group("Entries");
  one_of_several("--map", part.maps, "INPUT=ARRAY of --data; once per input")->group("Entries");
  app.add_option("--batch", part.job.batch, "samples of a run, where the program leaves it open [the most it takes]")
      ->check(positive())
      ->group("Entries");
  app.add_option("--steps", part.job.steps, "runs of the entry [1, or as --epochs says]")
      ->check(positive())
      ->group("Entries");
  app.add_option("--epochs", part.job.epochs, "passes over --data [1]")->check(positive())->group("Entries");
  app.add_option("--start-step", part.job.start_step, "number of the first run [1, or as --state continues]")
      ->check(positive())
      ->group("Entries");
  app.add_option("--skip", part.job.skip, "batches of --data that come before [as --start-step or --state says]")
      ->check(whole(0, INT64_MAX, "a whole number"))
      ->group("Entries");
  app.add_option("--bench", part.job.bench, "time this many runs; inputs without a value are zeros")
      ->check(positive())
      ->group("Entries");
  app.add_option("--state", part.state, "start from this .safetensors file")->check(file_name());
  app.add_option("--weights", part.weights, "load tensors of this .safetensors or .npz file into the state")
      ->check(file_name());
  one_of_several("--weights-map", part.weight_maps, "PATTERN=TARGET[:transpose|:reshape], see below; may be repeated");
  app.add_flag("--weights-partial", part.weights_partial, "leaves without a tensor are allowed");
  app.add_option("--save-state", part.save_state, "write the state here at the end")->check(file_name());
  app.add_option("--seed", part.seed, "of shuffling and of inputs named `seed` [0, or that of --state]")
      ->check(whole(0, UINT64_MAX, "a whole number below 2^64"));
  app.add_option("--threads", part.threads, "of a program for CPUs, of each rank [the ranks share the CPUs of the process]")
      ->check(whole(1, 1024, "a number from 1 to 1024"));
  one_of_several("--require-signature", part.signers, "FILE with a public key that has signed the bundle (nablac sign); of several, one");
  app.add_option("--target", part.target, "the bundle's program for this target [the first that can run here]");
  app.add_option("--class", part.rank_class, "of a bundle for several ranks: run one rank of this class alone [all ranks]");
  app.add_option("--comm-timeout", part.comm_timeout, "seconds that a rank waits for others [300; of several processes 60]")
      ->check(whole(1, 86400, "a number of seconds from 1 to 86400"));
  declare_ranks(app, part);
  declare_checkpoints(app, part);
  app.add_option("--trace", part.trace, "write a Chrome trace (Perfetto) of every instruction")->check(file_name());
  app.add_flag("--profile", part.profile,
               "print a table of kernels and library calls: time, calls, GFLOP/s, GB/s, share of peak, source line");
  app.add_option("--metrics", part.metrics, "write every run's scalar outputs as JSON lines")->check(file_name());
  app.add_option("--tensorboard", part.tensorboard, "DIR for an event file of TensorBoard with the same scalars")->check(file_name());
  app.add_option("--prometheus", part.prometheus, "PORT of 127.0.0.1 where GET /metrics tells how the run is doing")
      ->check(whole(1, 65535, "a port from 1 to 65535"));
  app.add_option("--loss-curve", part.loss_curve, "draw the training metric as SVG")->check(file_name());
  app.add_flag("--check-nan", part.check_nan, "stop at the first instruction that makes NaN or infinity; slow");
  app.add_flag("--sync-debug", part.sync_debug, "wait after every instruction of a GPU, to name one that fails; slow");
  app.add_flag("--json", part.json, "print the results of --bench, and of --profile beside it, as JSON lines");
}

Result<std::vector<Assignment>> assignments(const std::vector<std::string>& texts, const std::string& option) {
  std::vector<Assignment> out;
  for (const std::string& text : texts) {
    size_t at = text.find('=');
    if (at == 0 || at == text.npos || at + 1 == text.size())
      return option_error(fmt::format("such as {} x=x.npy", option), "{} takes NAME=VALUE, not `{}`", option, text);
    out.push_back({text.substr(0, at), text.substr(at + 1)});
  }
  return out;
}

/// Splits the line before every --entry but the first, when nothing of an entry stands before that one.
std::vector<std::vector<std::string>> split(const std::vector<std::string>& args) {
  std::vector<std::vector<std::string>> parts(1);
  for (const std::string& arg : args) {
    if (arg == "--entry" || arg.starts_with("--entry=")) parts.emplace_back();
    parts.back().push_back(arg);
  }
  return parts;
}

template <class T>
Status merge(std::optional<T>& into, const std::optional<T>& from, const char* name) {
  if (into && from) return option_error("give it once", "{} is given twice", name);
  if (from) into = from;
  return Ok{};
}

Status merge_globals(Part& all, const Part& part) {
  (void)NABLA_TRY(merge(all.bundle, part.bundle, "BUNDLE"));
  (void)NABLA_TRY(merge(all.state, part.state, "--state"));
  (void)NABLA_TRY(merge(all.weights, part.weights, "--weights"));
  (void)NABLA_TRY(merge(all.save_state, part.save_state, "--save-state"));
  (void)NABLA_TRY(merge(all.trace, part.trace, "--trace"));
  (void)NABLA_TRY(merge(all.metrics, part.metrics, "--metrics"));
  (void)NABLA_TRY(merge(all.tensorboard, part.tensorboard, "--tensorboard"));
  (void)NABLA_TRY(merge(all.prometheus, part.prometheus, "--prometheus"));
  (void)NABLA_TRY(merge(all.loss_curve, part.loss_curve, "--loss-curve"));
  (void)NABLA_TRY(merge(all.seed, part.seed, "--seed"));
  (void)NABLA_TRY(merge(all.threads, part.threads, "--threads"));
  (void)NABLA_TRY(merge(all.target, part.target, "--target"));
  (void)NABLA_TRY(merge(all.rank_class, part.rank_class, "--class"));
  (void)NABLA_TRY(merge(all.comm_timeout, part.comm_timeout, "--comm-timeout"));
  (void)NABLA_TRY(merge(all.engine, part.engine, "--engine"));
  (void)NABLA_TRY(merge(all.np, part.np, "--np"));
  (void)NABLA_TRY(merge(all.hosts, part.hosts, "--hosts"));
  (void)NABLA_TRY(merge(all.rank, part.rank, "--rank"));
  (void)NABLA_TRY(merge(all.world_size, part.world_size, "--world-size"));
  (void)NABLA_TRY(merge(all.local_rank, part.local_rank, "--local-rank"));
  (void)NABLA_TRY(merge(all.rendezvous, part.rendezvous, "--rendezvous"));
  (void)NABLA_TRY(merge(all.heartbeat, part.heartbeat, "--heartbeat"));
  (void)NABLA_TRY(merge(all.join_timeout, part.join_timeout, "--join-timeout"));
  (void)NABLA_TRY(merge(all.reports, part.reports, "--reports"));
  (void)NABLA_TRY(merge(all.postmortem, part.postmortem, "--postmortem"));
  (void)NABLA_TRY(merge(all.max_restarts, part.max_restarts, "--max-restarts"));
  (void)NABLA_TRY(merge(all.checkpoint_dir, part.checkpoint_dir, "--checkpoint-dir"));
  (void)NABLA_TRY(merge(all.checkpoint_every, part.checkpoint_every, "--checkpoint-every"));
  (void)NABLA_TRY(merge(all.checkpoint_keep, part.checkpoint_keep, "--checkpoint-keep"));
  (void)NABLA_TRY(merge(all.checkpoint_keep_every, part.checkpoint_keep_every, "--checkpoint-keep-every"));
  (void)NABLA_TRY(merge(all.resume, part.resume, "--resume"));
  all.checkpoint_required = all.checkpoint_required || part.checkpoint_required;
  all.json = all.json || part.json;
  all.check_nan = all.check_nan || part.check_nan;
  all.sync_debug = all.sync_debug || part.sync_debug;
  all.profile = all.profile || part.profile;
  all.check_messages = all.check_messages || part.check_messages;
  all.weights_partial = all.weights_partial || part.weights_partial;
  all.signers.insert(all.signers.end(), part.signers.begin(), part.signers.end());
  all.weight_maps.insert(all.weight_maps.end(), part.weight_maps.begin(), part.weight_maps.end());
  return Ok{};
}

/// Parses one part; a help text ends up in `text`.
Result<Part> parse_part(const std::vector<std::string>& args, bool carries_bundle, std::string& text) {
  CLI::App app("Runs a program that nablac compiled.", "nabla-run");
  Part part;
  declare(app, part, carries_bundle);
  if (std::string said = NABLA_TRY(parse(app, args)); !said.empty()) text = std::move(said);
  part.job.inputs = NABLA_TRY(assignments(part.inputs, "--input"));
  part.job.outputs = NABLA_TRY(assignments(part.outputs, "--output"));
  part.job.maps = NABLA_TRY(assignments(part.maps, "--map"));
  return part;
}

constexpr const char* kDataHelp = "name the samples: --data FILE.npz or FILE.safetensors";

Status check_job(const JobOptions& job) {
  std::string of = job.entry.empty() ? "" : fmt::format(" (of --entry {})", job.entry);
  if (job.epochs && job.data.empty()) return option_error(kDataHelp, "--epochs needs --data{}", of);
  if (!job.maps.empty() && job.data.empty()) return option_error(kDataHelp, "--map needs --data{}", of);
  if (job.steps && job.epochs)
    return option_error("leave one out: --epochs N is N times all of --data", "--steps and --epochs exclude each other{}", of);
  if (job.bench && (job.steps || job.epochs))
    return option_error("leave them out: --bench N is N runs", "--bench excludes --steps and --epochs{}", of);
  if (job.batch && job.data.empty()) return option_error(kDataHelp, "--batch needs --data{}", of);
  if (job.skip && job.data.empty()) return option_error(kDataHelp, "--skip needs --data{}", of);
  if (job.bench && (job.start_step || job.skip))
    return option_error("leave them out: measured runs continue nothing", "--bench excludes --start-step and --skip{}", of);
  return Ok{};
}

Result<CheckpointOptions> checkpoint_options(const Part& all, const std::vector<JobOptions>& jobs) {
  const char* needs = all.checkpoint_every          ? "--checkpoint-every"
                      : all.checkpoint_keep         ? "--checkpoint-keep"
                      : all.checkpoint_keep_every   ? "--checkpoint-keep-every"
                      : all.checkpoint_required     ? "--checkpoint-required"
                      : all.resume                  ? "--resume"
                      : all.max_restarts.value_or(0) ? "--max-restarts"
                                                    : nullptr;
  if (!all.checkpoint_dir && needs != nullptr)
    return option_error("name the folder of checkpoints: --checkpoint-dir DIR", "{} needs --checkpoint-dir", needs);
  if (all.resume && all.state)
    return option_error("leave one out: a checkpoint has all of the state", "--resume and --state exclude each other");
  for (const JobOptions& job : jobs) {
    if (all.checkpoint_dir && job.bench)
      return option_error("leave one out: measured runs keep no checkpoints", "--bench and --checkpoint-dir exclude each other");
    if (all.resume && (job.start_step || job.skip))
      return option_error("leave it out",
                          "--resume excludes --{}: the checkpoint says where to go on", job.start_step ? "start-step" : "skip");
  }
  return CheckpointOptions{all.checkpoint_dir.value_or(""), all.checkpoint_every, all.checkpoint_keep.value_or(3),
                           all.checkpoint_keep_every.value_or(0), all.checkpoint_required, all.resume.value_or("")};
}

}  // namespace

Status split_at_names(std::vector<Assignment>& assignments, const std::vector<std::string>& known,
                      const std::string& option) {
  std::set<std::string> seen;
  for (Assignment& a : assignments) {
    std::string text = a.name + "=" + a.value;
    for (const std::string& name : known)
      if (name.size() > a.name.size() && text.size() > name.size() + 1 && text.starts_with(name + "="))
        a = {name, text.substr(name.size() + 1)};
    if (!seen.insert(a.name).second) return option_error("name it once", "{} names `{}` twice", option, a.name);
  }
  return Ok{};
}

Result<CommandLine> parse_command_line(const std::vector<std::string>& args, bool carries_bundle) {
  CommandLine line;
  Part all;
  std::vector<std::vector<std::string>> texts = split(args);
  Part first = NABLA_TRY(parse_part(texts[0], carries_bundle, line.text));
  std::vector<Part> parts;
  for (size_t i = 1; i < texts.size(); ++i) parts.push_back(NABLA_TRY(parse_part(texts[i], carries_bundle, line.text)));
  if (!line.text.empty()) return line;
  if (first.has_job_options() && parts.size() > 1)
    return option_error("such as --entry step --data FILE --entry eval --data FILE",
                        "with several entries, the options of an entry stand after its --entry");
  if (first.has_job_options() && parts.size() == 1) {
    // One entry: its options may stand on both sides, so the whole line is one part.
    parts[0] = NABLA_TRY(parse_part(args, carries_bundle, line.text));
  } else if (parts.empty()) {
    parts.push_back(std::move(first));
  } else {
    (void)NABLA_TRY(merge_globals(all, first));
  }
  RunOptions& out = line.options;
  for (Part& part : parts) {
    (void)NABLA_TRY(merge_globals(all, part));
    (void)NABLA_TRY(check_job(part.job));
    out.jobs.push_back(std::move(part.job));
  }
  if (all.json && std::none_of(out.jobs.begin(), out.jobs.end(), [](const JobOptions& j) { return j.bench; }))
    return option_error("say how many runs to measure: --bench N", "--json prints the results of --bench, which is not given");
  if (!all.weights && (all.weights_partial || !all.weight_maps.empty()))
    return option_error("name the file of tensors: --weights FILE",
                        "{} needs --weights", all.weights_partial ? "--weights-partial" : "--weights-map");
  for (const JobOptions& job : out.jobs)
    if (all.weights && job.entry == "init")
      return option_error("leave --entry init out", "--entry init would overwrite what --weights loads; --weights-partial runs it first");
  if (!all.bundle && !carries_bundle && !all.postmortem)
    return option_error("name what nablac compile wrote: nabla-run FILE.nbundle", "BUNDLE is missing");
  if (all.check_messages && all.engine == "nccl")
    return option_error("leave it out, or use --engine mpi",
                        "--check-messages: what goes from GPU to GPU by --engine nccl has no checksums");
  out.checkpoints = NABLA_TRY(checkpoint_options(all, out.jobs));
  out.bundle = all.bundle.value_or("");
  out.state = all.state.value_or("");
  out.weights = all.weights.value_or("");
  out.weight_maps = std::move(all.weight_maps);
  out.signers = std::move(all.signers);
  out.weights_partial = all.weights_partial;
  out.save_state = all.save_state.value_or("");
  out.trace = all.trace.value_or("");
  out.metrics = all.metrics.value_or("");
  out.tensorboard = all.tensorboard.value_or("");
  out.prometheus = all.prometheus;
  out.loss_curve = all.loss_curve.value_or("");
  out.seed = all.seed;
  out.threads = all.threads.value_or(0);
  out.json = all.json;
  out.check_nan = all.check_nan;
  out.sync_debug = all.sync_debug;
  out.profile = all.profile;
  out.target = all.target.value_or("");
  out.rank_class = all.rank_class.value_or("");
  out.comm_timeout_s = all.comm_timeout;
  out.postmortem = all.postmortem.value_or("");
  out.ranks = {all.engine.value_or(""),
               all.np,
               all.hosts.value_or(""),
               {all.rank, all.world_size, all.local_rank, all.rendezvous.value_or("")},
               all.heartbeat.value_or(1),
               all.join_timeout.value_or(60),
               all.reports.value_or(""),
               all.max_restarts.value_or(0),
               all.check_messages,
               all.heartbeat ? "--heartbeat" : all.join_timeout ? "--join-timeout" : ""};
  return line;
}

}  // namespace nabla::cli
