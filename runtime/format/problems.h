// Calls of libraries in the bundle's format: where the fields of their problems, and their operands, are read and written.
#pragma once

#include <vector>

#include "runtime/base/convolution.h"
#include "runtime/base/gemm.h"
#include "runtime/format/problem_places.h"
#include "runtime/format/program_generated.h"

namespace nabla::format {

/// What an instruction calls a library for, at the bounds of all sizes.
GemmProblemOf<int64_t> problem_of(const Gemm& gemm);
/// Without implementation, workspace and alignment.
ConvolutionSpec problem_of(const Convolution& convolution);

/// Fills in the problem, at the bounds of all sizes; references, operands and the rest are the caller's.
void set_problem(GemmT& gemm, const GemmProblemOf<int64_t>& problem);
void set_problem(ConvolutionT& convolution, const ConvolutionSpec& problem);
/// References for the sizes of the problem in the order of its fields; all 0 where every size is static.
void set_sizes(GemmT& gemm, const std::vector<uint32_t>& references);
void set_sizes(ConvolutionT& convolution, const std::vector<uint32_t>& references);

inline constexpr std::tuple kGemmRoles{
    RolePlace<&Gemm::a, &GemmT::a>{"a"},
    RolePlace<&Gemm::b, &GemmT::b>{"b"},
    RolePlace<&Gemm::c, &GemmT::c>{"c"},
    RolePlace<&Gemm::bias, &GemmT::bias>{"bias"},
    RolePlace<&Gemm::workspace, &GemmT::workspace>{"workspace"},
    RolePlace<&Gemm::addend, &GemmT::addend>{"addend"},
};
inline constexpr std::tuple kConvolutionRoles{
    RolePlace<&Convolution::input, &ConvolutionT::input>{"input"},
    RolePlace<&Convolution::filter, &ConvolutionT::filter>{"filter"},
    RolePlace<&Convolution::output, &ConvolutionT::output>{"output"},
    RolePlace<&Convolution::workspace, &ConvolutionT::workspace>{"workspace"},
};
inline const auto& roles_of(const Gemm&) { return kGemmRoles; }
inline const auto& roles_of(const GemmT&) { return kGemmRoles; }
inline const auto& roles_of(const Convolution&) { return kConvolutionRoles; }
inline const auto& roles_of(const ConvolutionT&) { return kConvolutionRoles; }

/// The addresses of a call in the order of its roles; null: the call has none of this role.
template <class Table>
std::vector<const Address*> addresses_of_call(const Table& call) {
  std::vector<const Address*> out;
  for_each_address(roles_of(call), call, [&](std::string_view, const Address* address) { out.push_back(address); });
  return out;
}

}  // namespace nabla::format
