#include "cli/nabla_run/option_rows.h"

#include <string_view>

namespace nabla::cli {
namespace {

using Kind = OptionDomain::Kind;

constexpr OptionDomain kFile{Kind::kFile}, kName{Kind::kName};
constexpr OptionDomain kPositive{Kind::kWhole, 1, INT64_MAX, "a whole number of at least 1"};
constexpr OptionDomain kCount{Kind::kWhole, 0, INT64_MAX, "a whole number"};

constexpr OptionDomain ranks_from(uint64_t low) { return {Kind::kWhole, low, 1u << 20, "a number of ranks"}; }

// The place of an option: a member of RunOptions or of JobOptions.
#define NABLA_RUN(member) [](RunOptions& run, JobOptions&) -> OptionPlace { return &run.member; }
#define NABLA_JOB(member) [](RunOptions&, JobOptions& job) -> OptionPlace { return &job.member; }

constexpr OptionRow kRows[] = {
    {"--state", "", NABLA_RUN(state), "start from this .safetensors file", kFile, Alike::kContent},
    {"--weights", "", NABLA_RUN(weights), "load tensors of this .safetensors or .npz file into the state", kFile, Alike::kContent},
    {"--weights-map", "", NABLA_RUN(weight_maps), "PATTERN=TARGET[:transpose|:reshape], see below; may be repeated", {}, Alike::kValue,
     kNeedsWeights},
    {"--weights-partial", "", NABLA_RUN(weights_partial), "leaves without a tensor are allowed", {}, Alike::kPresence, kNeedsWeights},
    {"--save-state", "", NABLA_RUN(save_state), "write the state here at the end", kFile, Alike::kPresence},
    {"--seed", "", NABLA_RUN(seed), "of shuffling and of inputs named `seed` [0, or that of --state]",
     {Kind::kWhole, 0, UINT64_MAX, "a whole number below 2^64"}, Alike::kValue},
    {"--threads", "", NABLA_RUN(threads), "of a program for CPUs, of each rank [the ranks share the CPUs of the process]",
     {Kind::kWhole, 1, 1024, "a number from 1 to 1024"}},
    {"--require-signature", "", NABLA_RUN(signers), "FILE with a public key that has signed the bundle (nablac sign); of several, one",
     kFile},
    {"--target", "", NABLA_RUN(target), "the bundle's program for this target [the first that can run here]", kName},
    {"--class", "", NABLA_RUN(rank_class), "of a bundle for several ranks: run one rank of this class alone [all ranks]",
     kName},
    {"--comm-timeout", "", NABLA_RUN(comm_timeout_s), "seconds that a rank waits for others [300; of several processes 60]",
     {Kind::kWhole, 1, 86400, "a number of seconds from 1 to 86400"}, Alike::kValue},
    {"--trace", "", NABLA_RUN(trace), "write a Chrome trace (Perfetto) of every instruction", kFile, Alike::kPresence},
    {"--profile", "", NABLA_RUN(profile),
     "print a table of kernels and library calls: time, calls, GFLOP/s, GB/s, share of peak, source line"},
    {"--metrics", "", NABLA_RUN(metrics), "write every run's scalar outputs as JSON lines", kFile},
    {"--tensorboard", "", NABLA_RUN(tensorboard), "DIR for an event file of TensorBoard with the same scalars", kFile},
    {"--prometheus", "", NABLA_RUN(prometheus), "PORT of 127.0.0.1 where GET /metrics tells how the run is doing",
     {Kind::kWhole, 1, 65535, "a port from 1 to 65535"}},
    {"--loss-curve", "", NABLA_RUN(loss_curve), "draw the training metric as SVG", kFile},
    {"--check-nan", "", NABLA_RUN(check_nan), "stop at the first instruction that makes NaN or infinity; slow", {}, Alike::kPresence},
    {"--sync-debug", "", NABLA_RUN(sync_debug), "wait after every instruction of a GPU, to name one that fails; slow"},
    {"--json", "", NABLA_RUN(json), "print the results of --bench, and of --profile beside it, as JSON lines"},

    {"--entry", "Entries", NABLA_JOB(entry), "the entry to run; may be repeated", kName, Alike::kValue},
    {"--input", "Entries", NABLA_JOB(inputs),
     "NAME=FILE.npy|.npz[:ARRAY]|.safetensors[:ARRAY], or NAME=NUMBER for a scalar; once per input", {}, Alike::kContent},
    {"--output", "Entries", NABLA_JOB(outputs), "NAME=FILE.npy|.safetensors, written after the last run; once per output"},
    {"--data", "Entries", NABLA_JOB(data), "FILE.npz|.safetensors of samples, see below", kFile, Alike::kContent},
    {"--map", "Entries", NABLA_JOB(maps), "INPUT=ARRAY of --data; once per input", {}, Alike::kValue, kNeedsData},
    {"--batch", "Entries", NABLA_JOB(batch), "samples of a run, where the program leaves it open [the most it takes]", kPositive,
     Alike::kValue, kNeedsData},
    {"--steps", "Entries", NABLA_JOB(steps), "runs of the entry [1, or as --epochs says]", kPositive, Alike::kValue},
    {"--epochs", "Entries", NABLA_JOB(epochs), "passes over --data [1]", kPositive, Alike::kValue, kNeedsData},
    {"--start-step", "Entries", NABLA_JOB(start_step), "number of the first run [1, or as --state continues]", kPositive, Alike::kValue},
    {"--skip", "Entries", NABLA_JOB(skip), "batches of --data that come before [as --start-step or --state says]", kCount, Alike::kValue,
     kNeedsData},
    {"--bench", "Entries", NABLA_JOB(bench), "time this many runs; inputs without a value are zeros", kPositive, Alike::kValue},

    {"--engine", "Ranks", NABLA_RUN(ranks.engine),
     "of a bundle for several ranks: `local`: threads of this process; `mpi`: processes; `nccl`: processes with a GPU each",
     {Kind::kEngine}},
    {"--np", "Ranks", NABLA_RUN(ranks.np), "processes that --engine mpi or nccl starts [as the bundle says]", ranks_from(1),
     Alike::kNothing, kNeedsProcesses},
    {"--hosts", "Ranks", NABLA_RUN(ranks.hosts), "FILE of lines HOST[:SLOTS]: where --engine mpi starts them [here]", kFile,
     Alike::kNothing, kNeedsProcesses},
    {"--rank", "Ranks", NABLA_RUN(ranks.flags.rank), "which rank this process is, where no launcher says so", ranks_from(0)},
    {"--world-size", "Ranks", NABLA_RUN(ranks.flags.world_size), "how many ranks there are, beside --rank", ranks_from(1)},
    {"--local-rank", "Ranks", NABLA_RUN(ranks.flags.local_rank), "which rank of this machine it is, beside --rank", ranks_from(0)},
    {"--rendezvous", "Ranks", NABLA_RUN(ranks.flags.rendezvous), "HOST:PORT where the ranks meet [an address of rank 0's machine]",
     {Kind::kAddress}, Alike::kNothing, kNeedsProcesses},
    {"--heartbeat", "Ranks", NABLA_RUN(ranks.heartbeat_s),
     "seconds between two signs of life; after 5 of them without one a rank is lost [1]", {Kind::kSeconds, 20, 600'000}, Alike::kValue,
     kNeedsProcesses},
    {"--join-timeout", "Ranks", NABLA_RUN(ranks.join_s), "seconds that all ranks may take to come [60]",
     {Kind::kSeconds, 100, 86'400'000}, Alike::kNothing, kNeedsProcesses},
    {"--reports", "Ranks", NABLA_RUN(ranks.reports),
     "folder for what ranks were at when a run of several processes failed [of its own]", kFile, Alike::kNothing, kNeedsProcesses},
    {"--postmortem", "Ranks", NABLA_RUN(postmortem), "tell what the reports in this folder say, and run nothing", kFile},
    {"--max-restarts", "Ranks", NABLA_RUN(ranks.max_restarts),
     "start the ranks of --engine mpi or nccl again so often after one was lost [0]",
     {Kind::kWhole, 0, 1000, "a number from 0 to 1000"}, Alike::kNothing, kNeedsProcesses | kNeedsCheckpoints},
    {"--check-messages", "Ranks", NABLA_RUN(ranks.check_messages), "compare a checksum of every message between processes; slower", {},
     Alike::kPresence, kNeedsProcesses},

    {"--checkpoint-dir", "Checkpoints", NABLA_RUN(checkpoints.dir), "folder for checkpoints, which all ranks share", kFile,
     Alike::kPresence},
    {"--checkpoint-every", "Checkpoints", NABLA_RUN(checkpoints.every), "steps from one to the next [one at the end]", kPositive,
     Alike::kValue, kNeedsCheckpoints},
    {"--checkpoint-keep", "Checkpoints", NABLA_RUN(checkpoints.keep), "so many of the newest stay [3]", kPositive, Alike::kNothing,
     kNeedsCheckpoints},
    {"--checkpoint-keep-every", "Checkpoints", NABLA_RUN(checkpoints.keep_every), "and those of steps that are multiples [none]",
     kPositive, Alike::kNothing, kNeedsCheckpoints},
    {"--checkpoint-required", "Checkpoints", NABLA_RUN(checkpoints.required), "one that cannot be written ends the run [a warning]", {},
     Alike::kPresence, kNeedsCheckpoints},
    {"--resume", "Checkpoints", NABLA_RUN(checkpoints.resume), "`latest`, a step, or a folder DIR/step-...: go on from there", kFile,
     Alike::kValue, kNeedsCheckpoints},
};

#undef NABLA_RUN
#undef NABLA_JOB

constexpr const char* kTypeNames[] = {"TEXT", "TEXT", "TEXT", "", "INT", "INT", "FLOAT", "INT", "UINT", "UINT", "TEXT"};
static_assert(std::size(kTypeNames) == std::variant_size_v<OptionPlace>);

// Tells the type of the place of an option. Nobody stores anything there.
OptionPlace example_place(const OptionRow& row) {
  static RunOptions run;
  static JobOptions job;
  return row.place(run, job);
}

}  // namespace

bool OptionRow::of_entry() const { return group == std::string_view("Entries"); }
bool OptionRow::is_flag() const { return std::holds_alternative<bool*>(example_place(*this)); }
const char* OptionRow::type_name() const { return kTypeNames[example_place(*this).index()]; }
bool OptionRow::is_list() const {
  const OptionPlace at = example_place(*this);
  return std::holds_alternative<std::vector<std::string>*>(at) || std::holds_alternative<std::vector<Assignment>*>(at);
}

std::span<const OptionRow> option_rows() { return kRows; }

}  // namespace nabla::cli
