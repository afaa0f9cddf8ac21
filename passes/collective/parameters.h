// What ranks gather of parameters.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "ir/op_def.h"

namespace nabla::passes {

/// By value: is it a parameter of the function, or what movements, conversions and fences alone make of one? A rank can make that at
/// any time, of what it has from the beginning on: masters in f32 that are gathered in bf16, layers that are slices of one leaf.
std::vector<bool> brought_from_parameters(const ir::Function& f);

/// Where a value comes from that is brought from a parameter, or from a slice of one in a trip of a loop. Equal ones are equal values.
struct Origin {
  std::string root;                                           ///< the parameter
  std::vector<std::pair<const ir::OpDef*, ir::Attrs>> steps;  ///< what is made of it, but for fences; a loop stands for its slice
  int stacked = 0;                                            ///< of so many loops it is what all trips make, one after the other
  bool operator==(const Origin&) const = default;
};
using Origins = std::vector<std::optional<Origin>>;

/// Is it a loop whose trips are counted, which slices and stacks?
bool is_loop(const ir::Function& f, const ir::Node& n);
/// Of every value of the function, given those of its parameters. Loops hand on what they make of slices.
Origins origins_of(const ir::Function& f, Origins params, const ir::Module& module);
/// Of the parameters of a function that the branch or loop `n` runs, given those of the values around it. Carries have none.
Origins origins_inside(const ir::Function& f, const ir::Node& n, const Origins& around);
/// What an all_gather makes, whichever time it is made; nothing for other nodes.
std::optional<Origin> gathered_origin(const ir::Node& n, const Origins& of);

}  // namespace nabla::passes
