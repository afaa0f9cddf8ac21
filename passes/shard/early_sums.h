// Sums over microbatches that the microbatches themselves need.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/op_def.h"

namespace nabla::passes {

/// Does the node combine or collect over this axis?
bool joins(const ir::Node& n, const std::string& axis);

/// A function in two, of which the second takes what the first returns after its own parameters.
struct Stages {
  ir::Function first, second;
  std::vector<size_t> params;  ///< of the function, those that the first takes
};

/// A function of one microbatch, which may need what is combined over all of them: the sum of a mask by which a mean is divided. Where
/// that follows from inputs alone, it is cheap next to the rest, and the first stage computes it; nothing where there is none.
/// `inside` says of every parameter whether it is a part along the axis; the first `reads` are state.
std::optional<Stages> early_sums(const ir::Function& f, const std::string& axis, const std::vector<bool>& inside, size_t reads,
                                 const ir::OpTable& ops, const ir::Module& module);

/// The stages as one function again, once each of them is.
ir::Function joined(const Stages& stages, const std::string& name, const ir::OpTable& ops, const ir::Module& module);

}  // namespace nabla::passes
