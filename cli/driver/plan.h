// What one model costs on meshes and under strategies, before any rank is there: a row each.
#pragma once

#include <string>
#include <vector>

#include "cli/driver/compile.h"

namespace nabla::driver {

struct PlanOptions {
  int64_t ranks = 1;
  std::string entry;      ///< empty: the first that computes gradients, or the first of all
  std::string axes;       ///< "dp,tp": those of a module without a mesh; empty: dp
  passes::Names data_axes;  ///< one or several, also where layouts are searched; empty: "dp" where the mesh has it, else its first
                          ///< axis, and a search lays out the batch itself
  std::optional<passes::Bytes> max_bytes;  ///< what a rank may need where layouts are searched, or its state where nothing keeps that
  CompileOptions compile;  ///< target, microbatches and options of passes, for every row; `mesh` is not looked at
};

struct PlanRow {
  std::string mesh;  ///< "dp=4,tp=1": what --mesh takes
  int zero = 0;
  int64_t state_bytes = 0, memory_bytes = 0;  ///< of a rank: its state; all that it needs
  int64_t sent_bytes = 0;                     ///< by a rank, in a run of the entry
  double exchange_us = 0, compute_us = 0;     ///< by the models of ir/cost
  int64_t host_bytes = 0;                     ///< of its state, in the host's memory beside a GPU's
  double transfer_us = 0;                     ///< of copies between the two: those of the longer direction
  std::string predicted_for = {};             ///< of a GPU target: its line `gpu_text` (report.h)
  std::string refusal;                        ///< why there is no such program; empty: there is
  int64_t ranks = 1;
  double flops = 0;                           ///< of a rank, in a run of the entry
  double work = 1;                            ///< what all ranks compute, in units of what one rank alone would
  bool searched = false;                      ///< laid out as --auto-shard finds best, without `zero`
  std::string layouts;                        ///< of all values and state leaves, as text; rows of one mesh with equal ones are one program
  std::string same_as;                        ///< the stage of the row above that has the same layouts; empty: there is none
  std::string stage() const { return searched ? "auto" : std::to_string(zero); }
  double step_us() const { return exchange_us + compute_us + transfer_us; }
};

/// All meshes of so many ranks over the axes of the module's mesh, each with `zero` 0, 1 and 3, and 2 of microbatches, where ranks lie
/// along the data axis, and as a search lays it out; the quickest first, those that are refused last. After them comes one rank alone,
/// to which they compare, unless that is what is asked for. `progress` is told which row is made, of how many. E0901 where the data
/// axis is none of the mesh, for `axes` of a module with one, and for an unknown entry or none to choose.
Result<std::vector<PlanRow>> plan_of(const ir::Module& module, const PlanOptions& options,
                                     const std::function<void(size_t done, size_t all)>& progress = {});

/// What a row is compiled with.
Result<CompileOptions> options_of(const ir::Module& module, const PlanOptions& options, const PlanRow& row);

struct Timed {
  double predicted = 0, measured = 0;
};
/// Of pairs that are predicted to differ by more than a factor: how many there are, and how many the measured times put in the same
/// order.
struct Order {
  int64_t pairs = 0, confirmed = 0;
};
Order order_of(const std::vector<Timed>& rows, double factor);

inline constexpr int64_t kNoLimit = INT64_MAX;
/// A table for people. Rows that need more than `max_bytes` stand below the others, and say so; a refusal is printed once, with the
/// rows for which it holds.
std::string plan_text(const std::vector<PlanRow>& rows, int64_t max_bytes);
std::string plan_json(const std::vector<PlanRow>& rows);

}  // namespace nabla::driver
