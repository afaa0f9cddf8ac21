// What benches are made of: a table of named measurements, timing helpers, and programs compiled in process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/exec/session.h"

namespace nabla::ir {
struct Module;
}

namespace nabla::bench {

struct Measurement {
  double value = 0;
  std::string unit;
  std::string peer;  ///< what it is compared with: a physical limit, a budget of the project; empty: nothing
  double peer_value = 0;
  double ratio = 0;       ///< above 1: better than the peer; of a physical limit: the share of it
  bool is_share = false;  ///< of a physical limit
};

/// Where the programs that some benches start are, and where they may write.
struct Paths {
  std::string bin;      ///< bazel-bin
  std::string scratch;  ///< an empty folder
};

struct Bench {
  std::string name;
  std::string what;  ///< one line
  std::function<Result<Measurement>(const Paths&)> run;
};

std::vector<Bench> machine_benches();  ///< peak_gflops_*, copy_gbs_*
std::vector<Bench> kernel_benches();   ///< gemm_*, fused_chain, masked_softmax_vs_plain, dispatch_us, ...
std::vector<Bench> digits_benches();   ///< digits_*
std::vector<Bench> charlm_benches();   ///< charlm_*, dynamic_len_16_vs_128, passes_48_layers_s, compile_scaling
std::vector<Bench> shard_benches();    ///< shard_48_layers_s, auto_shard_12_layers_s, charlm_local_2ranks_vs_1, ...
std::vector<Bench> checkpoint_benches();  ///< checkpoint_cost
std::vector<Bench> rank_benches();     ///< allreduce_*, charlm_4ranks_vs_1, ranks_256_s
std::vector<Bench> scale_benches();    ///< rendezvous_4096_s, manifest_2048_ranks_bytes, resume_1024_ranks_opens
std::vector<Bench> busy_benches();     ///< busy_ratio
std::vector<Bench> python_benches();   ///< py_*
std::vector<Bench> product_benches();  ///< compile_*, load_to_first_step_ms, nabla_run_*_bytes
std::vector<Bench> predicted_benches();  ///< gpt2_predicted_*, gpu_step_*, gpu_launches_gpt2

/// What fused multiply-adds reach on `threads` pinned threads, in one round of about a millisecond.
double peak_gflops(int threads);
/// Bytes read and written per second by one copy between arrays far larger than the caches.
double copy_gbs(int threads);

double now();
/// Seconds of one call of `f`: the best of `rounds` rounds, each as many calls as fit into `round_seconds`.
double best_seconds(const std::function<void()>& f, int rounds = 7, double round_seconds = 0.2);

Measurement plain(double value, std::string unit);
/// Smaller is better.
Measurement against_budget(double value, std::string unit, double budget);
/// Larger is better.
Measurement against_requirement(double value, std::string unit, double required);
/// The share of a limit of the machine that `work` reaches. Both give a rate, of one round; rounds alternate, so that
/// both see the same machine, and the best of each counts. A share above kMostShare is measured again, once.
Measurement share_of(std::string unit, std::string limit, const std::function<double()>& work,
                     const std::function<double()>& limit_rate);
/// Above it the limit was measured wrongly.
inline constexpr double kMostShare = 1.02;

/// Compiles for this machine, with a tuning file or deterministically if asked, and opens a session.
struct OpenOptions {
  std::string tuning_file = {};
  bool deterministic = false;
};
Result<std::unique_ptr<exec::Session>> open_program(const ir::Module& module, int threads, const OpenOptions& how = {});
/// What `nablac tune` does: measures the module's matrix products and writes the tuning file.
Status write_tuning(const ir::Module& module, int threads, const std::string& path);
/// How many nodes of an entry's planned function run: launches and library calls, not views and constants.
Result<int64_t> instructions_of(const ir::Module& module, const std::string& entry);
/// Arrays for an entry, filled with small numbers; integers are 0.
struct Buffers {
  std::vector<Literal> inputs, outputs;
  std::vector<const void*> in;
  std::vector<void*> out;
  explicit Buffers(const exec::EntryInfo& entry);
};
/// Seconds of one run of `entry`; state must have values.
Result<double> seconds_per_run(exec::Session& session, const std::string& entry);
/// E0802 for what a command printed, its first lines as notes.
Diagnostic unexpected_output(const std::string& what, const std::string& text);
/// Runs a command by /bin/sh and returns what it prints, its errors among it if asked; E0802 when it fails.
Result<std::string> output_of(const std::string& command, bool with_stderr = true);

}  // namespace nabla::bench
