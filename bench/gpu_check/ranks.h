// Jobs of several ranks by the engine `nccl`, on one GPU. NCCL refuses two ranks on one GPU of one host; each rank says that it is a
// host of its own (NCCL_HOSTID), so that their values go through sockets: right or wrong, but not fast.
#pragma once

#include <string>

#include "bench/gpu_check/check.h"

namespace nabla::gpu_check {

/// NCCL's version, "2.28.9"; empty where it is not there.
std::string nccl_version();

/// Runs the suite of engines (`suite`: the sizes of a grid's axes), trains `bundle` and compares its losses with those of the bundle
/// `cpu` on threads, or kills rank 1 (`killed`) and looks at how rank 0 ends. The row has `ok`; `error` and `tolerance` of losses;
/// seconds to the end and the exit code after a kill; `note` where NCCL is not there. An error names the first rank that failed.
Result<nlohmann::json> ranks(const Check& check, const nlohmann::json& plan, double limit_s);

}  // namespace nabla::gpu_check
