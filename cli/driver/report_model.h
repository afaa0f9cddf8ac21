// The time that a GPU's program is expected to take, kernel by kernel and entry by entry (codegen/cuda/model.h, ir/cost/time.h).
#pragma once

#include <map>
#include <nlohmann/json.hpp>

#include "cli/driver/report_time.h"
#include "codegen/compile_kernels.h"
#include "ir/module.h"

namespace nabla::driver {

/// `expected` of a kernel: for each grid what its schedule alone says, or what its machine code does.
nlohmann::ordered_json expected_of(const kernel_ir::Kernel& kernel, const ir::Target& target);
nlohmann::ordered_json expected_of(const std::vector<codegen::CodeGrid>& grids);

/// Adds `runs` to every entry of a report whose kernels and library calls stand in it: how often a run of the entry runs each kernel,
/// by name, and each row of the library's calls. Of a loop all trips, of a branch the side that needs longer at least, of a while one
/// round; at the largest sizes.
void add_runs(const ir::Module& planned, const std::map<const ir::Node*, int>& row_of, LeastTimes& times, nlohmann::ordered_json& report);

/// Sums up: `predicted_us` of kernels, with the instructions and sectors of a run, and `predicted` of entries.
void add_predictions(nlohmann::ordered_json& report);

}  // namespace nabla::driver
