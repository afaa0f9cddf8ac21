#include "runtime/base/gemm.h"

#include <iterator>

namespace nabla {

namespace {

constexpr std::string_view kActivations[] = {"none", "relu", "gelu"};

}  // namespace

std::span<const std::string_view> names_of(Activation) { return kActivations; }
std::string_view name_of(Activation activation) { return kActivations[static_cast<int>(activation)]; }

std::optional<Activation> find_activation(std::string_view name) {
  for (size_t i = 0; i < std::size(kActivations); ++i)
    if (kActivations[i] == name) return static_cast<Activation>(i);
  return std::nullopt;
}

double flops_of(const GemmProblemOf<int64_t>& p) {
  return 2.0 * static_cast<double>(p.batch) * static_cast<double>(p.m) * static_cast<double>(p.n) *
         static_cast<double>(p.k);
}

}  // namespace nabla
