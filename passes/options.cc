#include "passes/options.h"

namespace nabla::passes {
namespace {

constexpr std::string_view kOffload[] = {"none", "opt", "params", "all"};
constexpr std::string_view kSearchedValues[] = {"found", "propagated"};
constexpr std::string_view kIdleAxes[] = {"note", "error"};
constexpr std::string_view kGradSync[] = {"last", "each", "shares"};
constexpr std::string_view kReduceDType[] = {"", "f32", "bf16", "f16"};
constexpr std::string_view kKernelsOf[] = {"fused", "op"};

}  // namespace

std::span<const std::string_view> names_of(Offload) { return kOffload; }
std::span<const std::string_view> names_of(SearchedValues) { return kSearchedValues; }
std::span<const std::string_view> names_of(IdleAxes) { return kIdleAxes; }
std::span<const std::string_view> names_of(GradSync) { return kGradSync; }
std::span<const std::string_view> names_of(ReduceDType) { return kReduceDType; }
std::span<const std::string_view> names_of(KernelsOf) { return kKernelsOf; }

GradSync grad_sync_of(const PassOptions& options) {
  return options.partition.grad_sync.value_or(options.apply_strategy.zero >= 2 ? GradSync::kShares : GradSync::kLast);
}

}  // namespace nabla::passes
