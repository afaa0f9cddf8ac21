// How a bill names nodes, sizes and places of a program.
#pragma once

#include <string>
#include <string_view>

#include "ir/dim.h"
#include "ir/module.h"

namespace nabla::ir {

/// Returns a location as text: "model.cc:14". The text is empty if the location is unknown.
std::string place_of(const LocationRef& at);
/// Returns whether the runtime executes the node. It executes neither views nor constants.
bool is_instruction(const Node& node);
/// Returns the name of the kernel that a launch runs, and the name of the op for any other node.
std::string made_by(const Node& node);
/// A size in postfix notation, for evaluation by readers of a report: "8 n * 1 +" is 8*n + 1.
std::string postfix_of(const Dim& size);
/// A number of things of the kind `what`: "1 entry", "2 entries", "3 classes".
std::string counted(int64_t n, std::string_view what);

}  // namespace nabla::ir
