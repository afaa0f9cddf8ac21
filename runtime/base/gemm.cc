#include "runtime/base/gemm.h"

#include <fmt/format.h>

#include <iterator>

namespace nabla {

namespace {

constexpr std::string_view kActivations[] = {"none", "relu", "gelu"};

}  // namespace

std::string_view name_of(Activation activation) { return kActivations[static_cast<int>(activation)]; }

std::optional<Activation> find_activation(std::string_view name) {
  for (size_t i = 0; i < std::size(kActivations); ++i)
    if (kActivations[i] == name) return static_cast<Activation>(i);
  return std::nullopt;
}

std::string key_of(const GemmProblemOf<int64_t>& p) {
  return fmt::format("gemm {} {}x{}x{}x{} {}{}", name_of(p.dtype), p.batch, p.m, p.n, p.k, p.transpose_a ? 't' : 'n',
                     p.transpose_b ? 't' : 'n');
}

double flops_of(const GemmProblemOf<int64_t>& p) {
  return 2.0 * static_cast<double>(p.batch) * static_cast<double>(p.m) * static_cast<double>(p.n) *
         static_cast<double>(p.k);
}

}  // namespace nabla
