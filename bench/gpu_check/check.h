// The parts of a check; each adds rows to the result.
#pragma once

#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "runtime/base/diagnostic.h"

namespace nabla::gpu_check {

struct Check {
  std::string folder;    ///< of plan.json and the bundles
  nlohmann::json plan;   ///< what gpu_check_pack wrote
  double seconds = 0.5;  ///< for each timing
  std::mt19937_64 random;
  nlohmann::json result = nlohmann::json::object();
  int failures = 0;
  std::string results;  ///< where `keep` writes; empty: nowhere

  /// Writes all that has been found so far: what comes next may take the process with it.
  Status keep(bool complete = false);
};

/// Every kind of kernel on random inputs against the CPU's program: result["values"] has a row per entry with its
/// largest error, in units of the tolerance. A wrong value, or one that is not written, is a failure.
Status check_values(Check& check);
/// One launch, one link of a chain in a replayed graph and in one that is issued: result["launches"], in microseconds.
Status measure_launches(Check& check);
/// A copy and products, against the datasheet: result["ceilings"].
Status measure_ceilings(Check& check);
/// Training steps: result["training"] with tokens per second and model FLOPs utilisation, and result["kernels"], the
/// share of each kernel of the last model. A loss that is not finite, or does not fall on a repeated batch, is a
/// failure.
Status measure_training(Check& check);

/// result["rows"] as lines for people.
std::string table(const nlohmann::json& result);

}  // namespace nabla::gpu_check
