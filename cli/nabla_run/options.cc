#include "cli/nabla_run/options.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "cli/nabla_run/option_rows.h"
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

// ---- The text of an option

// What is wrong with the text; empty: nothing.
std::string problem_with(const std::string& text, const OptionDomain& domain) {
  using Kind = OptionDomain::Kind;
  switch (domain.kind) {
    case Kind::kAny:
      break;
    case Kind::kName:
      return text.empty() ? "the name is empty" : "";
    case Kind::kFile:
      return file_name()(text);
    case Kind::kAddress:
      return text.empty() ? "it is empty, not HOST:PORT" : "";
    case Kind::kEngine:
      return comm::engine_named(text) ? "" : fmt::format("`{}` is not {}", text, comm::engine_names(false));
    case Kind::kWhole:
      return whole(domain.low, domain.high, domain.words)(text);
    case Kind::kSeconds:
      return seconds(static_cast<double>(domain.low) / 1000, static_cast<double>(domain.high) / 1000)(text);
  }
  return "";
}

Result<Assignment> assignment(const std::string& text, const char* flag) {
  const size_t at = text.find('=');
  if (at == 0 || at == text.npos || at + 1 == text.size())
    return option_error(fmt::format("such as {} x=x.npy", flag), "{} takes NAME=VALUE, not `{}`", flag, text);
  return Assignment{text.substr(0, at), text.substr(at + 1)};
}

// Converts the texts of one option and stores them. They have been checked by problem_with.
struct Store {
  const OptionRow& row;
  const std::vector<std::string>& texts;

  const std::string& text() const { return texts.back(); }
  Status operator()(std::string* to) const { return *to = text(), Ok{}; }
  Status operator()(std::vector<std::string>* to) const { return *to = texts, Ok{}; }
  Status operator()(std::vector<Assignment>* to) const {
    for (const std::string& t : texts) to->push_back(NABLA_TRY(assignment(t, row.flag)));
    return Ok{};
  }
  Status operator()(const comm::Engine** to) const { return *to = comm::engine_named(text()), Ok{}; }
  Status operator()(bool* to) const { return *to = CLI::detail::to_flag_value(text()) > 0, Ok{}; }
  template <class T>
  Status operator()(T* to) const {
    std::from_chars(text().data(), text().data() + text().size(), *to);
    return Ok{};
  }
  template <class T>
  Status operator()(std::optional<T>* to) const {
    return (*this)(&to->emplace());
  }
};

// ---- The line

CLI::Option* declare(CLI::App& app, const OptionRow& row) {
  if (row.is_flag()) return app.add_flag(row.flag, row.doc);
  CLI::Option* option = app.add_option(row.flag, CLI::callback_t([](const CLI::results_t&) { return true; }), row.doc);
  option->type_name(row.type_name())->allow_extra_args(false)->expected(1);
  if (row.is_list()) option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return option;
}

using Given = std::vector<const OptionRow*>;

/// The part of a command line that belongs to one entry. Its options of the whole run are stored in RunOptions.
struct Part {
  JobOptions job;
  Given given;  ///< in the order of the rows
  std::string bundle;

  bool names_entry_options() const {
    return std::any_of(given.begin(), given.end(),
                       [](const OptionRow* row) { return row->of_entry() && row->flag != std::string_view("--entry"); });
  }
};

/// Reads one part. A help text ends up in `text`.
Result<Part> parse_part(const std::vector<std::string>& args, bool carries_bundle, RunOptions& run, std::string& text) {
  CLI::App app("Runs a program that nablac compiled.", "nabla-run");
  Part part;
  app.footer(kFooter);
  app.set_version_flag("--version", version_text("nabla-run"), "Print the versions and exit");
  app.get_formatter()->column_width(34);
  if (!carries_bundle) app.add_option("BUNDLE", part.bundle, "the compiled program");
  std::vector<CLI::Option*> options;
  for (const OptionRow& row : option_rows()) {
    options.push_back(declare(app, row));
    if (row.group[0]) options.back()->group(row.group);
  }
  if (std::string said = NABLA_TRY(parse(app, args)); !said.empty()) text = std::move(said);
  for (size_t i = 0; i < options.size(); ++i) {
    if (options[i]->count() == 0) continue;
    const OptionRow& row = option_rows()[i];
    for (const std::string& given : options[i]->results())
      if (std::string problem = problem_with(given, row.domain); !problem.empty())
        return option_error("`nabla-run --help` lists what it takes", "{}: {}", row.flag, problem);
    const OptionPlace place = row.place(run, part.job);
    (void)NABLA_TRY(std::visit(Store{row, options[i]->results()}, place));
    if (!row.is_flag() || *std::get<bool*>(place)) part.given.push_back(&row);
  }
  return part;
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

// Adds what a part has given. An option that has one value may stand in one part alone.
Status add_given(const Given& part, Given& all) {
  for (const OptionRow* row : part) {
    const bool again = std::find(all.begin(), all.end(), row) != all.end();
    if (again && !row->of_entry() && !row->is_flag() && !row->is_list())
      return option_error("give it once", "{} is given twice", row->flag);
    if (!again) all.push_back(row);
  }
  return Ok{};
}

// ---- What does not go together

// The first of the options that needs this. Null: none does. No restart needs nothing.
const OptionRow* first_that_needs(const Given& given, uint8_t need, const RunOptions& run) {
  for (const OptionRow& row : option_rows()) {
    const bool there = (row.needs & need) && std::find(given.begin(), given.end(), &row) != given.end();
    if (there && (row.flag != std::string_view("--max-restarts") || run.ranks.max_restarts > 0)) return &row;
  }
  return nullptr;
}

Status check_job(const JobOptions& job, const Given& given, const RunOptions& run) {
  std::string of = job.entry.empty() ? "" : fmt::format(" (of --entry {})", job.entry);
  if (const OptionRow* row = first_that_needs(given, kNeedsData, run); row && job.data.empty())
    return option_error("name the samples: --data FILE.npz or FILE.safetensors", "{} needs --data{}", row->flag, of);
  if (job.steps && job.epochs)
    return option_error("leave one out: --epochs N is N times all of --data", "--steps and --epochs exclude each other{}", of);
  if (job.bench && (job.steps || job.epochs))
    return option_error("leave them out: --bench N is N runs", "--bench excludes --steps and --epochs{}", of);
  if (job.bench && (job.start_step || job.skip))
    return option_error("leave them out: measured runs continue nothing", "--bench excludes --start-step and --skip{}", of);
  return Ok{};
}

Status check_checkpoints(const RunOptions& run, const Given& given) {
  const CheckpointOptions& c = run.checkpoints;
  if (const OptionRow* row = first_that_needs(given, kNeedsCheckpoints, run); row && c.dir.empty())
    return option_error("name the folder of checkpoints: --checkpoint-dir DIR", "{} needs --checkpoint-dir", row->flag);
  if (!c.resume.empty() && !run.state.empty())
    return option_error("leave one out: a checkpoint has all of the state", "--resume and --state exclude each other");
  for (const JobOptions& job : run.jobs) {
    if (!c.dir.empty() && job.bench)
      return option_error("leave one out: measured runs keep no checkpoints", "--bench and --checkpoint-dir exclude each other");
    if (!c.resume.empty() && (job.start_step || job.skip))
      return option_error("leave it out",
                          "--resume excludes --{}: the checkpoint says where to go on", job.start_step ? "start-step" : "skip");
  }
  return Ok{};
}

Status check_run(const RunOptions& run, const Given& given, bool carries_bundle) {
  if (run.json && std::none_of(run.jobs.begin(), run.jobs.end(), [](const JobOptions& j) { return j.bench; }))
    return option_error("say how many runs to measure: --bench N", "--json prints the results of --bench, which is not given");
  if (const OptionRow* row = first_that_needs(given, kNeedsWeights, run); row && run.weights.empty())
    return option_error("name the file of tensors: --weights FILE", "{} needs --weights", row->flag);
  for (const JobOptions& job : run.jobs)
    if (!run.weights.empty() && job.entry == "init")
      return option_error("leave --entry init out", "--entry init would overwrite what --weights loads; --weights-partial runs it first");
  if (run.bundle.empty() && !carries_bundle && run.postmortem.empty())
    return option_error("name what nablac compile wrote: nabla-run FILE.nbundle", "BUNDLE is missing");
  if (const comm::Engine* engine = run.ranks.engine; run.ranks.check_messages && engine && engine->processes && !engine->checks_messages)
    return option_error("leave it out, or use --engine mpi",
                        "--check-messages: what goes from GPU to GPU by --engine {} has no checksums", engine->name);
  return check_checkpoints(run, given);
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
  RunOptions& run = line.options;
  std::vector<std::vector<std::string>> texts = split(args);
  Part first = NABLA_TRY(parse_part(texts[0], carries_bundle, run, line.text));
  if (first.names_entry_options() && texts.size() > 2 && line.text.empty())
    return option_error("such as --entry step --data FILE --entry eval --data FILE",
                        "with several entries, the options of an entry stand after its --entry");
  if (first.names_entry_options() && texts.size() == 2) {
    // The line has one entry. Its options may be on both sides of --entry, so the whole line is parsed as one part.
    run = {}, texts = {args};
    first = NABLA_TRY(parse_part(args, carries_bundle, run, line.text));
  }
  std::vector<Part> parts{std::move(first)};
  for (size_t i = 1; i < texts.size(); ++i) parts.push_back(NABLA_TRY(parse_part(texts[i], carries_bundle, run, line.text)));
  if (!line.text.empty()) return line;
  Given given;
  for (Part& part : parts) {
    (void)NABLA_TRY(add_given(part.given, given));
    if (!part.bundle.empty() && !run.bundle.empty()) return option_error("give it once", "BUNDLE is given twice");
    if (!part.bundle.empty()) run.bundle = part.bundle;
    if (&part == parts.data() && parts.size() > 1) continue;  // before the first --entry
    (void)NABLA_TRY(check_job(part.job, part.given, run));
    run.jobs.push_back(std::move(part.job));
  }
  (void)NABLA_TRY(check_run(run, given, carries_bundle));
  if (const OptionRow* row = first_that_needs(given, kNeedsProcesses, run)) run.for_processes = row->flag;
  return line;
}

}  // namespace nabla::cli
