// The mesh that a compile's options ask for, and which of them need one.
#pragma once

#include "cli/driver/compile.h"

namespace nabla::driver {

/// The module for other numbers of ranks along the axes of its mesh; as it is where the option is empty. A module without
/// a mesh gets one of these axes, in this order, where `make` is set. E0901 without a mesh and for other texts than
/// "dp=4,tp=2", E0210 for an unknown axis and where a layout does not fit any more.
Result<ir::Module> with_mesh(const ir::Module& module, const std::vector<std::string>& mesh, bool make = false);
/// The module with the mesh and the microbatches of the options. A temporal axis that it did not have is one of the data axes
/// of `apply-strategy` from then on, in the options.
Result<ir::Module> spread_over_mesh(const ir::Module& module, CompileOptions& options);
/// E0901 with help where one of `given`, names of options without dashes ("zero"), is one that nothing of the module obeys under
/// `options`: of ranks without a mesh, of microbatches or of buckets without any.
Status check_spread(const ir::Module& module, const CompileOptions& options, const std::vector<std::string>& given);
/// Whether a leaf or a value of the module is laid out along the axis, or said to be the same along it.
bool lies_along(const ir::Module& module, const std::string& axis);

}  // namespace nabla::driver
