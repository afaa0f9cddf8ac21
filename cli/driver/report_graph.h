// The graph half of the report: nodes before fusion, and the instructions and buffers that they became.
#pragma once

#include <map>
#include <nlohmann/json.hpp>

#include "ir/dim.h"
#include "ir/module.h"
#include "ir/op_def.h"

namespace nabla::driver {

/// A size as text for people, and in postfix for evaluation: {"text": "8*n+1", "postfix": "8 n * 1 +"}.
nlohmann::ordered_json formula(const ir::Dim& size);
/// "model.cc:14"; empty where unknown.
std::string place_of(const LocationRef& at);
/// Views and constants are no instructions of the program.
bool is_instruction(const ir::Node& node);
/// The kernel that a launch runs, or the op's name.
std::string made_by(const ir::Node& node);

/// What a function costs by itself and by what its loops and branches run: a loop counts its trips, a branch the
/// costlier side, a while one round. A total beyond int64 stays at its maximum.
struct Work {
  ir::Dim flops = 0;
  bool at_least = false;  ///< there is a while inside, or the total is at the end of int64
};
Work work_of(const ir::Function& f, const ir::Module& m);
/// FLOPs that a planned function runs again because `--remat-bytes` drops values and computes them a second time: those of every
/// instruction after the first that computes the same nodes by the same kernel. `flat` has the nodes.
ir::Dim flops_again(const ir::Function& f, const ir::Module& planned, const ir::Module& flat);
/// Bytes that the instructions of a planned function read and write, counted likewise.
ir::Dim moved_by(const ir::Function& f, const ir::Module& planned);

/// Adds "sizes", "types", "places" and "functions" to the report (docs/bundle-format.md). `calls` gives the rows of
/// library calls.
void add_graph(const ir::Module& flat, const ir::Module& planned, const std::map<const ir::Node*, int>& calls,
               nlohmann::ordered_json& report);

}  // namespace nabla::driver
