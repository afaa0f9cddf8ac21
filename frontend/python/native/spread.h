// The options of `nablac compile` that shard a program over ranks, for programs and for jitted functions.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/driver/compile.h"

namespace nabla::python {

/// The values of these options by their names without dashes, such as {"zero": "1"}.
using Spread = std::map<std::string, std::string>;

/// A number of bytes. Throws E0901 with the name of the option for other texts.
passes::Bytes bytes_of(const std::string& text, const std::string& option);
void set_spread(driver::CompileOptions& options, const Spread& spread);
/// Throws E0901 if an option needs a mesh, there is none, and no pass checks it.
void check_spread(const ir::Module& module, const driver::CompileOptions& options, const Spread& spread);

/// A parameter of a function and the result that is its new value.
using Update = std::pair<size_t, size_t>;
/// Applies the mesh, the layouts and the data axes of `options` to a module with one entry and no state, and removes them from `options`.
/// These parameters are treated as leaves of the state: those that are updated, those with respect to which the function differentiates,
/// those that `layouts` names, and captured tensors. The others are inputs. The first `arguments` parameters are arguments of a call,
/// and captured tensors follow. Appends the notes of the strategy to `remarks`. Throws Error.
ir::Module with_strategy(const ir::Module& module, size_t arguments, const std::vector<Update>& updates, driver::CompileOptions& options,
                         std::vector<ir::Remark>& remarks);

}  // namespace nabla::python
