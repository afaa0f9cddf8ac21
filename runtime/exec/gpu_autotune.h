// Which of a library's algorithms is the fastest for a call: timed on the GPU as steps will run it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/device/cuda_driver.h"
#include "runtime/device/gpu_library.h"

namespace nabla::exec {

/// Numbers for operands of any dtype: the first bit of each byte and its last three are random, so that floats are normal
/// numbers (of 8 to 32 bits |x| from 2^-15 to 2, of 64 from 2^-125). Constant operands toggle few wires: with them a chip would run faster
/// than its power allows with real ones.
void fill_with_numbers(std::span<unsigned char> bytes);

class Autotuner {
 public:
  /// The GPU's context is current in all calls; everything outlives the object.
  Autotuner(const device::CudaDevice& device, device::CudaStream stream) : device_(device), driver_(*device.driver), stream_(stream) {}

  /// The fastest of the candidates, on operands of the call's own sizes; the first of them where there is no memory to measure with.
  /// Each is captured into a graph, as in a step, with as many runs as fill 0.2 ms, eight at most: of a short call only its kernels
  /// count, not the host. The GPU is kept busy for 30 ms before the first measurement, in which clocks rise. Candidates take
  /// turns in five rounds, so that what slows the chip down slows all of them; the least time counts, and who is a tenth slower than the
  /// best after a round is out. E0607, E0804.
  Result<device::LibraryAlgorithm> fastest(device::GpuLibraryCall& call, const std::vector<device::LibraryAlgorithm>& candidates);

 private:
  struct Scratch;
  struct Entrant;
  Status prepare(Scratch& scratch, const std::vector<int64_t>& sizes);
  Result<float> time(const Scratch& scratch, const std::function<bool()>& run);
  Result<bool> enter(Scratch& scratch, device::GpuLibraryCall& call, Entrant& entrant);
  Status warm_up(device::CudaGraphExec graph);

  const device::CudaDevice& device_;
  const device::CudaDriver& driver_;
  device::CudaStream stream_;
  bool warm_ = false;
};

}  // namespace nabla::exec
