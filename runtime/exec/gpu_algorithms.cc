#include "runtime/exec/gpu_algorithms.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "runtime/exec/gemm_records.h"
#include "runtime/format/program_check.h"

namespace nabla::exec {
namespace {

using device::CudaAddress;
using device::CudaEvent;
using device::GpuLibraryCall;
using device::LibraryAlgorithm;
using format::view;

constexpr int kRuns = 5;             // that are measured together, after one that is not
constexpr unsigned char kByte = 59;  // every operand is filled with it: small numbers in every format

/// Device memory and events of a measurement.
struct Scratch {
  explicit Scratch(const device::CudaDriver& d) : driver(d) {}
  ~Scratch() {
    if (memory != 0) (void)driver.memory_free(memory);
    for (CudaEvent event : {start, end})
      if (event != nullptr) (void)driver.event_destroy(event);
  }
  const device::CudaDriver& driver;
  CudaAddress memory = 0;
  CudaEvent start = nullptr, end = nullptr;
};

}  // namespace

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
    auto measured = fastest(call, candidates);
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

Result<LibraryAlgorithm> GpuAlgorithms::fastest(GpuLibraryCall& call, const std::vector<LibraryAlgorithm>& candidates) {
  if (candidates.size() == 1) return candidates[0];
  const device::CudaDriver& driver = *device_.driver;
  Scratch scratch(driver);
  uint64_t total = 0;
  std::vector<CudaAddress> offsets;
  for (int64_t bytes : call.operand_bytes())
    offsets.push_back(total), total += static_cast<uint64_t>((bytes + 255) / 256 * 256);
  if (int status = driver.memory_alloc(&scratch.memory, total); status != device::kCudaOk) {
    scratch.memory = 0;
    if (status == device::kCudaOutOfMemory) return candidates[0];
    return driver.failure("allocating memory to measure library calls", status);
  }
  (void)NABLA_TRY(driver.check("filling memory", driver.fill(scratch.memory, kByte, total, stream_)));
  for (CudaEvent* event : {&scratch.start, &scratch.end})
    (void)NABLA_TRY(driver.check("making an event", driver.event_create(event, 0)));
  std::vector<void*> operands;
  for (CudaAddress offset : offsets) operands.push_back(reinterpret_cast<void*>(scratch.memory + offset));
  LibraryAlgorithm best = candidates[0];
  float least = -1;
  for (const LibraryAlgorithm& candidate : candidates) {
    call.use(candidate);
    float now = -1;
    for (int run = 0; run <= kRuns; ++run) {
      if (run == 1) (void)NABLA_TRY(driver.check("recording an event", driver.event_record(scratch.start, stream_)));
      if (!call.run(operands.data())) break;
      if (run < kRuns) continue;
      (void)NABLA_TRY(driver.check("recording an event", driver.event_record(scratch.end, stream_)));
      (void)NABLA_TRY(driver.check("measuring a library call", driver.stream_synchronize(stream_)));
      (void)NABLA_TRY(driver.check("reading an event", driver.event_elapsed(&now, scratch.start, scratch.end)));
    }
    if (now >= 0 && (least < 0 || now < least)) best = candidate, least = now;
  }
  return best;
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
