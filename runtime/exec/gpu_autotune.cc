#include "runtime/exec/gpu_autotune.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/spin.h"

namespace nabla::exec {

using device::CudaAddress;
using device::CudaEvent;
using device::CudaGraphExec;
using device::GpuLibraryCall;
using device::LibraryAlgorithm;

namespace {

constexpr int64_t kWarmUpNs = 30'000'000;
constexpr int kRounds = 5, kMostRuns = 8;
constexpr float kFillMs = 0.2f;    // so long a captured graph is to take
constexpr float kSlower = 1.1f;    // than the best: out after a round
constexpr size_t kBlock = 1 << 20; // bytes that are made here; the GPU copies them on

}  // namespace

void fill_with_numbers(std::span<unsigned char> bytes) {
  uint64_t x = 0x9e3779b97f4a7c15;
  for (unsigned char& b : bytes) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;  // Marsaglia, Xorshift RNGs, 2003
    b = static_cast<unsigned char>((x >> 32 & 0x87) | 0x38);
  }
}

/// What a measurement has on the GPU.
struct Autotuner::Scratch {
  explicit Scratch(const device::CudaDriver& d) : driver(d) {}
  ~Scratch() {
    for (CudaGraphExec graph : graphs) (void)driver.exec_destroy(graph);
    if (memory != 0) (void)driver.memory_free(memory);
    for (CudaEvent event : {start, end})
      if (event != nullptr) (void)driver.event_destroy(event);
  }
  const device::CudaDriver& driver;
  CudaAddress memory = 0;
  std::vector<void*> operands;
  CudaEvent start = nullptr, end = nullptr;
  std::vector<CudaGraphExec> graphs;
};

struct Autotuner::Entrant {
  LibraryAlgorithm algorithm;
  CudaGraphExec graph = nullptr;
  int runs = 1;       // in the graph
  float least = -1;   // milliseconds of a run; -1: not measured yet
};

Status Autotuner::prepare(Scratch& scratch, const std::vector<int64_t>& sizes) {
  uint64_t total = 0;
  std::vector<uint64_t> offsets;
  for (int64_t bytes : sizes) offsets.push_back(total), total += static_cast<uint64_t>((bytes + 255) / 256 * 256);
  if (int status = driver_.memory_alloc(&scratch.memory, total); status != device::kCudaOk) {
    scratch.memory = 0;
    return status == device::kCudaOutOfMemory ? Status(Ok{}) : driver_.failure("allocating memory to measure library calls", status);
  }
  for (uint64_t offset : offsets) scratch.operands.push_back(reinterpret_cast<void*>(scratch.memory + offset));
  std::vector<unsigned char> block(std::min<size_t>(total, kBlock));
  fill_with_numbers(block);
  (void)NABLA_TRY(driver_.check("filling memory", driver_.copy_in(scratch.memory, block.data(), block.size(), stream_)));
  for (uint64_t done = block.size(); done < total;) {  // what is there is copied after itself
    uint64_t more = std::min(done, total - done);
    (void)NABLA_TRY(driver_.check("filling memory", driver_.copy_within(scratch.memory + done, scratch.memory, more, stream_)));
    done += more;
  }
  (void)NABLA_TRY(driver_.check("filling memory", driver_.stream_synchronize(stream_)));
  for (CudaEvent* event : {&scratch.start, &scratch.end})
    (void)NABLA_TRY(driver_.check("making an event", driver_.event_create(event, 0)));
  return Ok{};
}

// Milliseconds of `run` in the stream; -1 where it gives false.
Result<float> Autotuner::time(const Scratch& scratch, const std::function<bool()>& run) {
  float out = -1;
  (void)NABLA_TRY(driver_.check("recording an event", driver_.event_record(scratch.start, stream_)));
  bool ran = run();
  (void)NABLA_TRY(driver_.check("recording an event", driver_.event_record(scratch.end, stream_)));
  (void)NABLA_TRY(driver_.check("measuring a library call", driver_.stream_synchronize(stream_)));
  if (ran) (void)NABLA_TRY(driver_.check("reading an event", driver_.event_elapsed(&out, scratch.start, scratch.end)));
  return out;
}

// Makes the graph of a candidate. False: it does not run, or cannot be captured, as a step would be.
Result<bool> Autotuner::enter(Scratch& scratch, GpuLibraryCall& call, Entrant& entrant) {
  call.use(entrant.algorithm);
  auto run = [&] { return call.run(scratch.operands.data()); };
  if (NABLA_TRY(time(scratch, run)) < 0) return false;  // its first run may load code, which no capture may
  const float one = NABLA_TRY(time(scratch, run));
  if (one < 0) return false;
  entrant.runs = one > 0 ? std::clamp(static_cast<int>(std::ceil(kFillMs / one)), 1, kMostRuns) : kMostRuns;
  (void)NABLA_TRY(driver_.begin_recording(stream_));
  bool issued = true;
  for (int i = 0; i < entrant.runs && issued; ++i) issued = run();
  if (driver_.end_recording(stream_, issued, entrant.graph) != device::kCudaOk || !issued) return false;
  scratch.graphs.push_back(entrant.graph);
  return true;
}

Status Autotuner::warm_up(CudaGraphExec graph) {
  if (std::exchange(warm_, true)) return Ok{};
  for (int64_t begin = now_ns(); now_ns() - begin < kWarmUpNs;) {
    (void)NABLA_TRY(driver_.check("launching a graph", driver_.graph_launch(graph, stream_)));
    (void)NABLA_TRY(driver_.check("measuring a library call", driver_.stream_synchronize(stream_)));
  }
  return Ok{};
}

Result<LibraryAlgorithm> Autotuner::fastest(GpuLibraryCall& call, const std::vector<LibraryAlgorithm>& candidates) {
  if (candidates.size() == 1) return candidates[0];
  Scratch scratch(driver_);
  (void)NABLA_TRY(prepare(scratch, call.operand_bytes()));
  if (scratch.memory == 0) return candidates[0];
  std::vector<Entrant> entrants;
  for (const LibraryAlgorithm& algorithm : candidates) {
    Entrant entrant{algorithm};
    if (NABLA_TRY(enter(scratch, call, entrant))) entrants.push_back(entrant);
  }
  if (entrants.empty()) return candidates[0];
  (void)NABLA_TRY(warm_up(entrants[0].graph));
  for (int round = 0; round < kRounds && entrants.size() > 1; ++round) {
    for (Entrant& e : entrants) {
      int launched = device::kCudaOk;
      float now = NABLA_TRY(time(scratch, [&] { return (launched = driver_.graph_launch(e.graph, stream_)) == device::kCudaOk; }));
      (void)NABLA_TRY(driver_.check("launching a graph", launched));
      now /= static_cast<float>(e.runs);
      e.least = e.least < 0 ? now : std::min(e.least, now);
    }
    const float most = std::ranges::min_element(entrants, {}, &Entrant::least)->least * kSlower;
    std::erase_if(entrants, [&](const Entrant& e) { return e.least > most; });
  }
  return std::ranges::min_element(entrants, {}, &Entrant::least)->algorithm;
}

}  // namespace nabla::exec
