// The algorithms that measured fastest on this machine's GPU, in a file that later loads read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/base/gemm_record.h"

namespace nabla::exec {

/// `gemm.records` in $NABLA_CACHE, else where generated code is kept too: `nabla` in $XDG_CACHE_HOME or ~/.cache. Empty
/// where the environment names none of them.
std::string gemm_records_file();

/// The records of a file. Lines that are none are passed over: it is a cache, and what is missing is measured again.
std::vector<GemmRecord> read_gemm_records(const std::string& file);
/// Adds records to those of a file, in the place of older ones, and makes its folder where it is not there. E0803.
Status keep_gemm_records(const std::string& file, const std::vector<GemmRecord>& records);

}  // namespace nabla::exec
