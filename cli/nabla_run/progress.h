// How far training has come, kept beside the saved state, so that another process goes on as if it were the same one.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "runtime/base/diagnostic.h"
#include "runtime/format/safetensors.h"

namespace nabla::cli {

/// Of one entry. The order of the data follows from the seed and the epoch.
struct Progress {
  uint64_t seed = 0;
  int64_t step = 0;                 ///< runs that are done
  int64_t epoch = 0, position = 0;  ///< whole passes over the data, and batches of the one that has begun
  int64_t samples = 0, batch = 0;   ///< of the data; 0: it ran without
};
using ProgressOf = std::map<std::string, Progress>;  ///< by entry

/// One key "nabla.progress.ENTRY" for each entry.
format::Metadata progress_metadata(const ProgressOf& progress);
/// Other keys are left alone. E0706 for one of ours that is damaged; `what` names the file.
Result<ProgressOf> read_progress(const format::Metadata& metadata, const std::string& what);

}  // namespace nabla::cli
