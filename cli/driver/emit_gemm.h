// Matrix products and convolutions of libraries as instructions.
#pragma once

#include "cli/driver/emit_sizes.h"
#include "ir/module.h"
#include "ir/target.h"

namespace nabla::driver {

/// All of the instruction but its addresses and its alternative.
format::GemmT gemm_of(const ir::Node& node, const ir::Function& function, const ir::Target& target, SizeTable& sizes);
format::ConvolutionT convolution_of(const ir::Node& node, const ir::Function& function, const ir::Target& target,
                                    SizeTable& sizes);
/// The target's records that belong to library calls of the program.
std::vector<std::unique_ptr<format::GemmRecordT>> records_of(const ir::Module& planned, const ir::Target& target);
/// Which library has an implementation, and where it is found.
std::unique_ptr<format::LibraryT> library_of(const std::string& implementation);

}  // namespace nabla::driver
