// Issues the steps of one run into a GPU's stream; the Machine of walker.h.
#pragma once

#include <optional>
#include <vector>

#include "runtime/exec/gpu_engine.h"
#include "runtime/exec/trace.h"

namespace nabla::exec {

class GpuMachine {
 public:
  GpuMachine(GpuEngine& engine, const RunRequest& request);

  bool stopped() const { return request_.stopped(); }
  bool stops_all_loops() const { return request_.stop_all_loops; }
  bool watched() const { return request_.trace != nullptr || request_.check != nullptr || engine_.sync_debug_; }
  int64_t begin(uint32_t step, void* const* slots);
  bool end(uint32_t step, void* const* slots, int64_t mark);
  bool kernel(const Step& s, void* const* slots);
  bool library(const Step& s, void* const* slots) {
    return s.library->run(slots) || ok(static_cast<device::GpuLibraryCall*>(s.library)->failure());
  }
  bool copy(const Step& s, void* const* slots);
  bool read(const void* at, int bytes, int64_t& value);
  bool communicate(const Control& c, void* const* slots);
  bool debug(const Control& control, void* const* slots) { return ok(hand_out(engine_, request_, control, slots)); }

  /// Of the last call that failed.
  const std::optional<Diagnostic>& failure() const { return failure_; }
  /// Is that what other ranks, or the way to them, are to blame for?
  bool by_peers() const { return by_peers_; }
  /// Starts the clock of a trace.
  Status start_trace();
  /// Waits, and gives the trace its spans.
  Status finish_trace();

 private:
  bool ok(std::string_view what, int status);
  bool ok(Status status);
  bool make_map(const format::TensorMap& map, const void* array, device::CudaTensorMap& out);
  /// Records an event and returns its number; -1: there are too many.
  int64_t event();

  GpuEngine& engine_;
  const RunRequest& request_;
  const device::CudaDriver& driver_;
  device::CudaAddress extents_;
  std::optional<Diagnostic> failure_;
  bool by_peers_ = false;

  struct Span {
    uint32_t label;
    int64_t begin, end;  ///< events
  };
  std::vector<Span> spans_;
  int64_t used_ = 0;   ///< events of this run
  int64_t start_ = 0;  ///< this machine's clock at event 0
};

}  // namespace nabla::exec
