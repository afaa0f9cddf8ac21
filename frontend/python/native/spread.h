// How programs and functions are spread over ranks: the options of `nablac compile` for that.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/driver/compile.h"

namespace nabla::python {

/// Options of `nablac compile` that say how a program is spread over ranks, by their names.
using Spread = std::map<std::string, std::string>;

void set_spread(driver::CompileOptions& options, const Spread& spread);
/// E0901 for options that need a mesh where there is none, and of which no pass says so.
void check_spread(const ir::Module& module, const driver::CompileOptions& options, const Spread& spread);

/// A parameter of a function and the result that is its new value.
using Update = std::pair<size_t, size_t>;
/// The module of one entry without state, with the mesh, the layouts and the data axes of the options, which are used up. A parameter
/// is treated as a leaf of the state if it is updated, if the function differentiates with respect to it or closes over it, or if `layouts`
/// names it; the others are inputs. The first parameters are `arguments` of a call; what the function closes over follows. `remarks` gets
/// those of the strategy. Throws Error.
ir::Module with_strategy(const ir::Module& module, size_t arguments, const std::vector<Update>& updates, driver::CompileOptions& options,
                         std::vector<std::string>& remarks);

}  // namespace nabla::python
