#include "runtime/exec/gpu_algorithms.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "runtime/exec/gemm_records.h"
#include "runtime/format/program_check.h"

namespace nabla::exec {

using device::GpuLibraryCall;
using device::LibraryAlgorithm;
using format::view;

void GpuAlgorithms::note(const std::string& text) {
  if (std::find(noted_.begin(), noted_.end(), text) != noted_.end()) return;
  noted_.push_back(text);
  std::fprintf(stderr, "note: %s\n", text.c_str());
}

// Read when the first call wants an algorithm.
void GpuAlgorithms::read_records() {
  if (std::exchange(read_, true)) return;
  if (program_.gemm_records() != nullptr)
    for (const format::GemmRecord* r : *program_.gemm_records()) {
      records_.push_back(
          {std::string(view(r->gpu())), std::string(view(r->library())), std::string(view(r->problem())), {}});
      if (r->algorithm() != nullptr) records_.back().algorithm.assign(r->algorithm()->begin(), r->algorithm()->end());
    }
  std::vector<GemmRecord> kept = read_gemm_records(gemm_records_file());
  records_.insert(records_.end(), kept.begin(), kept.end());
}

Status GpuAlgorithms::choose(GpuLibraryCall& call, const char* library, const std::string& version) {
  read_records();
  GemmRecord record{device_.name, version, call.key(), {}};
  if (std::optional<LibraryAlgorithm> known = recorded(record)) {
    if (call.accepts(*known)) {
      call.use(*known);
      return Ok{};
    }
    note(fmt::format("{} refuses the recorded algorithm of {}", library, record.problem));
  }
  std::vector<LibraryAlgorithm> candidates = NABLA_TRY(call.candidates(loading_ ? kCandidates : 1));
  LibraryAlgorithm best = candidates[0];
  if (loading_) {
    auto measured = tuner_.fastest(call, candidates);
    if (!measured.ok()) note(fmt::format("{} cannot be measured: {}", library, measured.errors()[0].message));
    if (measured.ok()) {
      best = *measured;
      record.algorithm.assign(reinterpret_cast<const char*>(best.data()), sizeof best);
      measured_.push_back(std::move(record));
    }
  }
  call.use(best);
  return Ok{};
}

std::optional<LibraryAlgorithm> GpuAlgorithms::recorded(const GemmRecord& wanted) const {
  for (const GemmRecord& r : records_) {
    LibraryAlgorithm out;
    if (!r.replaces(wanted) || r.algorithm.size() != sizeof out) continue;
    std::memcpy(out.data(), r.algorithm.data(), sizeof out);
    return out;
  }
  return std::nullopt;
}

void GpuAlgorithms::loaded() {
  loading_ = false;
  if (measured_.empty()) return;
  std::vector<GemmRecord> fresh = std::move(measured_);
  measured_.clear();
  std::string file = gemm_records_file();
  Status kept = Ok{};
  if (!file.empty()) kept = keep_gemm_records(file, fresh);
  if (file.empty()) note("measured library calls are not kept: neither $NABLA_CACHE nor $HOME is set");
  if (!kept.ok()) note(fmt::format("measured library calls are not kept: {}", kept.errors()[0].message));
}

}  // namespace nabla::exec
