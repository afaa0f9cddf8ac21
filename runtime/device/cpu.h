// What this CPU and this process may use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nabla::device {

/// True when the CPU has the feature and the system saves its registers. `name` is as in /proc/cpuinfo
/// ("avx512_bf16"); names that this runtime does not know give false.
bool cpu_has(std::string_view name);

/// The CPUs that this process may run on; at least one.
std::vector<int> allowed_cpus();

}  // namespace nabla::device
