#include "runtime/exec/gpu_gemms.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "runtime/exec/gemm_records.h"
#include "runtime/format/program_check.h"

namespace nabla::exec {
namespace {

using device::CudaAddress;
using device::CudaEvent;
using device::GemmAlgorithm;
using device::GemmSpec;
using format::view;

constexpr int kRuns = 5;             // that are measured together, behind one that is not
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

int64_t bytes_of_matrices(const GemmSpec& s, int64_t rows, int64_t leading, int64_t stride) {
  return ((s.batch - 1) * stride + rows * leading) * bytes_of(s.dtype);
}

}  // namespace

void GpuGemms::note(const std::string& text) {
  if (std::find(noted_.begin(), noted_.end(), text) != noted_.end()) return;
  noted_.push_back(text);
  std::fprintf(stderr, "note: %s\n", text.c_str());
}

Result<device::CublasLt*> GpuGemms::library() {
  if (library_ != nullptr) return library_.get();
  if (no_library_) return *no_library_;
  const auto* libraries = program_.libraries();
  if (libraries == nullptr || libraries->size() == 0)
    return error(Code::kCorrupt, "{}: the program calls cuBLASLt, but does not name it among its libraries",
                 bundle_.what());
  const format::Library& wanted = *libraries->Get(0);
  auto opened =
      device::CublasLt::open(std::string(view(wanted.soname())), std::string(view(wanted.min_version())), stream_);
  if (!opened.ok()) {
    no_library_ = std::move(opened.errors()[0]);
    return *no_library_;
  }
  library_ = std::move(*opened);
  if (program_.gemm_records() != nullptr)
    for (const format::GemmRecord* r : *program_.gemm_records()) {
      records_.push_back(
          {std::string(view(r->gpu())), std::string(view(r->library())), std::string(view(r->problem())), {}});
      if (r->algorithm() != nullptr) records_.back().algorithm.assign(r->algorithm()->begin(), r->algorithm()->end());
    }
  std::vector<GemmRecord> kept = read_gemm_records(gemm_records_file());
  records_.insert(records_.end(), kept.begin(), kept.end());
  return library_.get();
}

Result<device::LibraryCall*> GpuGemms::call(const GemmSpec& spec, bool alternative) {
  if (auto known = calls_.find(spec); known != calls_.end()) return known->second.get();
  auto made = make(spec);
  if (made.ok()) return (calls_[spec] = std::move(*made)).get();
  if (!alternative || made.errors()[0].code != Code::kMissingLibrary) return made.errors();
  note(fmt::format("{}: {} of {} run as generated kernels: {}", bundle_.what(),
                   library_ == nullptr ? "matrix products" : "some matrix products", view(program_.target()),
                   made.errors()[0].message));
  return static_cast<device::LibraryCall*>(nullptr);
}

Result<std::unique_ptr<device::CublasLtGemm>> GpuGemms::make(const GemmSpec& spec) {
  device::CublasLt* library = NABLA_TRY(this->library());
  std::unique_ptr<device::CublasLtGemm> gemm = NABLA_TRY(library->gemm(spec));
  GemmRecord record{device_.name, library->version(), problem_key(spec), {}};
  if (std::optional<GemmAlgorithm> known = recorded(record)) {
    if (gemm->accepts(*known)) {
      gemm->use(*known);
      return gemm;
    }
    note(fmt::format("cuBLASLt refuses the recorded algorithm of {}", record.problem));
  }
  std::vector<GemmAlgorithm> candidates = NABLA_TRY(gemm->candidates(loading_ ? kCandidates : 1));
  GemmAlgorithm best = candidates[0];
  if (loading_) {
    best = NABLA_TRY(fastest(spec, *gemm, candidates));
    record.algorithm.assign(reinterpret_cast<const char*>(best.data()), sizeof best);
    measured_.push_back(std::move(record));
  }
  gemm->use(best);
  return gemm;
}

std::optional<GemmAlgorithm> GpuGemms::recorded(const GemmRecord& wanted) const {
  for (const GemmRecord& r : records_) {
    GemmAlgorithm out;
    if (!r.replaces(wanted) || r.algorithm.size() != sizeof out) continue;
    std::memcpy(out.data(), r.algorithm.data(), sizeof out);
    return out;
  }
  return std::nullopt;
}

Result<GemmAlgorithm> GpuGemms::fastest(const GemmSpec& s, device::CublasLtGemm& gemm,
                                        const std::vector<GemmAlgorithm>& candidates) {
  if (candidates.size() == 1) return candidates[0];
  const device::CudaDriver& driver = *device_.driver;
  Scratch scratch(driver);
  const int64_t bytes[] = {bytes_of_matrices(s, s.transpose_a ? s.k : s.m, s.lda, s.stride_a),
                           bytes_of_matrices(s, s.transpose_b ? s.n : s.k, s.ldb, s.stride_b),
                           bytes_of_matrices(s, s.m, s.ldc, s.stride_c), s.bias ? s.n * bytes_of(s.dtype) : 0,
                           s.workspace_bytes};
  uint64_t total = 0;
  CudaAddress offsets[5];
  for (int i = 0; i < 5; ++i) offsets[i] = total, total += static_cast<uint64_t>((bytes[i] + 255) / 256 * 256);
  if (int status = driver.memory_alloc(&scratch.memory, total); status != device::kCudaOk) {
    scratch.memory = 0;
    if (status == device::kCudaOutOfMemory) return candidates[0];
    return driver.failure("allocating memory to measure matrix products", status);
  }
  (void)NABLA_TRY(driver.check("filling memory", driver.fill(scratch.memory, kByte, total, stream_)));
  for (CudaEvent* event : {&scratch.start, &scratch.end})
    (void)NABLA_TRY(driver.check("making an event", driver.event_create(event, 0)));
  void* operands[5];
  for (int i = 0; i < 5; ++i) operands[i] = reinterpret_cast<void*>(scratch.memory + offsets[i]);
  GemmAlgorithm best = candidates[0];
  float least = -1;
  for (const GemmAlgorithm& candidate : candidates) {
    gemm.use(candidate);
    float now = -1;
    for (int run = 0; run <= kRuns; ++run) {
      if (run == 1) (void)NABLA_TRY(driver.check("recording an event", driver.event_record(scratch.start, stream_)));
      if (!gemm.run(operands)) break;
      if (run < kRuns) continue;
      (void)NABLA_TRY(driver.check("recording an event", driver.event_record(scratch.end, stream_)));
      (void)NABLA_TRY(driver.check("measuring a matrix product", driver.stream_synchronize(stream_)));
      (void)NABLA_TRY(driver.check("reading an event", driver.event_elapsed(&now, scratch.start, scratch.end)));
    }
    if (now >= 0 && (least < 0 || now < least)) best = candidate, least = now;
  }
  return best;
}

void GpuGemms::loaded() {
  loading_ = false;
  if (measured_.empty()) return;
  std::vector<GemmRecord> fresh = std::move(measured_);
  measured_.clear();
  std::string file = gemm_records_file();
  Status kept = Ok{};
  if (!file.empty()) kept = keep_gemm_records(file, fresh);
  if (file.empty()) note("measured matrix products are not kept: neither $NABLA_CACHE nor $HOME is set");
  if (!kept.ok()) note(fmt::format("measured matrix products are not kept: {}", kept.errors()[0].message));
}

}  // namespace nabla::exec
