// Problems of libraries in the bundle's format: where their fields are read and written.
#pragma once

#include "runtime/base/convolution.h"
#include "runtime/base/gemm.h"
#include "runtime/format/program_generated.h"

namespace nabla::format {

/// What an instruction calls a library for, at the bounds of all sizes.
GemmProblemOf<int64_t> problem_of(const Gemm& gemm);
/// Without implementation, workspace and alignment.
ConvolutionSpec problem_of(const Convolution& convolution);

/// Fills in the problem, at the bounds of all sizes; references, operands and the rest are the caller's.
void set_problem(GemmT& gemm, const GemmProblemOf<int64_t>& problem);
void set_problem(ConvolutionT& convolution, const ConvolutionSpec& problem);

}  // namespace nabla::format
