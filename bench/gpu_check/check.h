// The tasks of a check. Each gives one row of the results, and runs in a process that it may take with it when a kernel
// breaks the GPU's context.
#pragma once

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/base/gemm_record.h"
#include "runtime/exec/session.h"

namespace nabla::gpu_check {

struct Task {
  std::string part, name;       ///< "values" "softmax"; part and name together are unique
  nlohmann::json plan;          ///< what gpu_check_pack wrote for it
  double limit_s = 60;          ///< after which it counts as hanging
  std::string str() const { return part + "/" + name; }
  /// Does it look at values alone, and measure nothing?
  bool is_value() const { return part == "values" || part == "libraries" || part == "ranks"; }
};

/// Every task of a plan in the order in which they run: values, libraries, ranks, launches, ceilings, training, kernels.
std::vector<Task> tasks_of(const nlohmann::json& plan);

/// A figure of the data sheet of the GPU whose driver reports the name `gpu`. `what` is "copy_gbs", its memory bandwidth, or
/// "f32_tflops" or "tensor_tflops". Returns `otherwise` for a GPU that is not known.
double sheet_of(const std::string& gpu, const std::string& what, double otherwise);

/// What a ceiling launches, "20 x gemm bf16 1x8192x3072x768 nn": a call of a library with the algorithm that measured fastest on this GPU,
/// as a line of `gemm.records`.
nlohmann::json with_records(const nlohmann::json& algorithms, const std::string& gpu, const std::vector<GemmRecord>& records);

/// What the tasks of one process share.
struct Check {
  Check(std::string from, nlohmann::json made, double each, uint64_t seed)
      : folder(std::move(from)), plan(std::move(made)), seconds(each), random(seed) {}

  std::string folder;    ///< of plan.json and the bundles
  nlohmann::json plan;   ///< what gpu_check_pack wrote
  double seconds = 0.5;  ///< for each timing
  std::string gpu;       ///< the driver's name of it; empty: not known
  std::mt19937_64 random;

  /// The session of a bundle, the last one of which is kept: the GPU has room for one large model.
  Result<exec::Session*> session(const std::string& bundle);
  /// The same for a bundle of the CPU.
  Result<exec::Session*> cpu_session(const std::string& bundle);

 private:
  struct Kept {
    std::string bundle;
    std::unique_ptr<exec::Session> session;
  };
  Result<exec::Session*> kept(Kept& one, const std::string& bundle, const std::string& target);
  Kept gpu_, cpu_;
};

/// Runs a task: its row, with `ok` false for a wrong value, a value that is not written, and a loss that is not finite or
/// does not fall on a repeated batch. An error where it could not run to its end.
///   values, and those of NVIDIA's libraries
///              largest `error` against the CPU's program, in units of |error| <= 1 + |want|, and the `tolerance`
///   ranks      of the engine `nccl`, on this one GPU: the suite of engines, `error` of losses as above, the end of a job whose rank
///              is killed
///   launches   microseconds of one launch, of a link of a chain in a replayed graph, and in one that is issued
///   ceilings   a copy's GB/s or a product's TFLOP/s, and their share of the datasheet of this machine's GPU; what was launched, and how
///              often in a run
///   training   tokens per second, model FLOPs utilisation: without what kernels compute again
///   kernels    microseconds and share of every kernel of a step
Result<nlohmann::json> run_task(Check& check, const Task& task);

/// Rows as a table for people; `machine` is the first line of the results.
std::string table(const nlohmann::json& machine, const std::vector<nlohmann::json>& rows);

}  // namespace nabla::gpu_check
