#include "runtime/comm/engines.h"

#include <algorithm>
#include <vector>

namespace nabla::comm {
namespace {

constexpr Engine kEngines[] = {
    {.kind = Engine::Kind::kLocal, .name = "local", .processes = false, .needs_gpus = false, .checks_messages = false,
     .meets_alone = false, .starts_alone = false},
    {.kind = Engine::Kind::kMpi, .name = "mpi", .processes = true, .needs_gpus = false, .checks_messages = true,
     .meets_alone = false, .starts_alone = false},
    {.kind = Engine::Kind::kNccl, .name = "nccl", .processes = true, .needs_gpus = true, .checks_messages = false,
     .meets_alone = true, .starts_alone = true},
};

}  // namespace

std::span<const Engine> engines() { return kEngines; }

const Engine* engine_named(std::string_view name) {
  const Engine* at = std::find_if(std::begin(kEngines), std::end(kEngines), [&](const Engine& e) { return e.name == name; });
  return at == std::end(kEngines) ? nullptr : at;
}

std::string engine_names(bool processes_alone, std::string_view quote) {
  std::vector<std::string> names;
  for (const Engine& e : kEngines)
    if (e.processes || !processes_alone) names.push_back(std::string(quote) + e.name + std::string(quote));
  std::string out = names[0];
  for (size_t i = 1; i < names.size(); ++i) out += (i + 1 < names.size() ? ", " : " or ") + names[i];
  return out;
}

}  // namespace nabla::comm
