// Running entries on arrays of random numbers, and timing them.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/exec/session.h"

namespace nabla::gpu_check {

/// A bundle of the folder on one target; empty: the first that this machine can run.
Result<std::unique_ptr<exec::Session>> open(const std::string& folder, const std::string& name,
                                            const std::string& target, const std::string& trace = "");

/// An array for every input of an entry: floats in [-2, 2), integers in [0, integers).
std::vector<Literal> drawn_inputs(const exec::EntryInfo& entry, int64_t integers, std::mt19937_64& random);
/// Arrays for its results, every byte of which is 0xff: NaN in every format.
std::vector<Literal> poisoned_outputs(const exec::EntryInfo& entry);

/// Runs the entry on whole arrays.
Status run(exec::Session& session, int entry, const std::vector<Literal>& inputs, std::vector<Literal>& outputs);
/// The same by the entry's name with random inputs, for its effect on state.
Status run_once(exec::Session& session, const std::string& entry, int64_t integers, std::mt19937_64& random);

inline constexpr int kSteps = 11;  ///< training steps whose losses are compared
/// The largest error of two lists in units of 1 + |want|. Infinite if an error is NaN, or if the lists have different lengths.
double largest_error(const std::vector<double>& got, const std::vector<double>& want);
/// Runs entry `init`, then entry `step` `steps` times on one batch. Returns the losses, which are result 0 of `step`. The same seed gives
/// the same parameters and the same batch on every machine.
Result<std::vector<double>> losses_of(exec::Session& session, int64_t vocabulary, int steps, uint64_t seed);

/// The values of `figures`, such as "name,clocks.sm", that nvidia-smi reports for the first GPU. Empty if there is no nvidia-smi.
std::string nvidia_smi(const std::string& figures);
/// Seconds of a clock that only runs forward.
double now();

struct Timing {
  double seconds = 0;  ///< median of the runs
  int runs = 0;
};
/// Runs it three times, then again and again for `budget` seconds, at least five times.
Result<Timing> time_entry(exec::Session& session, const std::string& entry, int64_t integers, double budget,
                          std::mt19937_64& random);

}  // namespace nabla::gpu_check
