// The part of an eager function that values are computed from, and computing it.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "frontend/cpp/frame.h"
#include "ir/module.h"

namespace nabla::python {

/// What values of a function are computed from: its own nodes, down to those that are given.
struct Part {
  ir::Function function;
  std::vector<int> arguments;  ///< ids of the parameters
};
Part part_of(const ir::Function& f, const std::vector<int>& ids, const std::function<bool(int)>& is_given);

/// A module whose one entry is the part, with what it calls of `context`. Its mesh stays where one of them lays values
/// out.
ir::Module module_of_part(const ir::Module& context, ir::Function part);

/// The entry's results. All of them are computed whole, whatever their layouts: one process has one memory. Throws Error.
std::vector<Literal> evaluate_part(ir::Module module, std::vector<Literal> arguments);

/// How the results of the first entry's function are laid out, by propagation from its parameters and `shard` nodes:
/// parameters without a layout are whole on every rank. A gradient by what is laid out lies as that. Null for what follows
/// from nothing that is laid out. Throws Error.
std::vector<ir::ShardingRef> layouts_of_results(const ir::Module& module);
/// By which value this one is a gradient; nullopt: it is none. `makers` are ir::producers(f).
std::optional<ir::ValueId> primal_of(const ir::Function& f, const std::vector<int>& makers, ir::ValueId id);
/// So of a value of a function that is being made, by what is known of it up to now.
ir::ShardingRef layout_of_value(const Frame& frame, int id);

}  // namespace nabla::python
