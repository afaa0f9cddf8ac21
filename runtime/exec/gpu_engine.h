// Steps on a GPU: one stream for kernels, one arena in device memory; state in the host's memory, if the program has such, is
// copied by two streams more (gpu_transfers.h). Tuples of sizes whose launches are the same share them: the
// first run issues the steps one by one; the second records them as a CUDA graph, which it and all later ones replay,
// at the sizes that lie in device memory. Steps with a While or a Branch are always issued one by one, because this
// machine decides there, and so are steps with exchanges between ranks, which go through its memory (gpu_exchanges.h), or
// from GPU to GPU beside the kernels (comm/stream.h).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device/cublaslt.h"
#include "runtime/device/cudnn.h"
#include "runtime/exec/engine.h"
#include "runtime/exec/gpu_calls.h"
#include "runtime/exec/gpu_exchanges.h"
#include "runtime/exec/gpu_staging.h"
#include "runtime/exec/gpu_transfers.h"
#include "runtime/exec/plan.h"

namespace nabla::exec {

struct GpuGrid {
  device::CudaFunction function = nullptr;
  unsigned threads = 0, shared_bytes = 0;
  int parameters = -1;  ///< pointers that it takes, then maps; -1: the driver does not tell
  const format::Grid* grid = nullptr;
  /// CUtensorMaps that it takes after all pointers.
  uint32_t maps() const { return grid->maps() == nullptr ? 0 : grid->maps()->size(); }
};

/// What Step.kernel points to.
struct GpuKernel {
  std::vector<GpuGrid> grids;
};

struct GpuBound;

/// What one graph records.
struct GpuLaunches {
  GpuLaunches(std::shared_ptr<const device::CudaDriver> d, device::CudaContext c) : driver(std::move(d)), context(c) {}
  ~GpuLaunches();
  /// Destroys the graph, which may be running: it ends by itself. What it exchanges stays.
  void drop();

  std::shared_ptr<const device::CudaDriver> driver;
  device::CudaContext context;
  device::CudaAddress extents = 0;    ///< Bound.extents of `current` in device memory; 0: there are none
  const GpuBound* current = nullptr;  ///< null: nobody's
  int64_t nodes = 0;                  ///< of the graph, with loops unrolled; kDecides, kExchanges: it cannot be one
  device::CudaGraphExec graph = nullptr;
  bool ran = false;
  std::shared_ptr<comm::StreamGraph> exchanged;  ///< null: the graph exchanges nothing
  std::vector<GpuExchanges::Recorded> exchanges;  ///< in the order in which the graph starts and awaits them
};

struct GpuBound final : EngineBound {
  explicit GpuBound(std::shared_ptr<GpuLaunches> l) : launches(std::move(l)) {}
  ~GpuBound() override {
    if (launches->current == this) launches->current = nullptr;
  }
  std::shared_ptr<GpuLaunches> launches;
};

class GpuEngine final : public Engine {
 public:
  /// A graph of more nodes costs more to make than it saves; such a step is issued one by one.
  static constexpr int64_t kMaxNodes = 1 << 16;
  /// Of GpuLaunches::nodes: the host decides in the step, or takes part in its exchanges, as in all messages.
  static constexpr int64_t kDecides = -1, kExchanges = -2;

  /// `options`: its `sync_debug` and its `peers`.
  GpuEngine(const format::Bundle& bundle, const format::Program& program, device::CudaDevice device, const EngineOptions& options);
  ~GpuEngine() override;
  Status load();

  char* arena() override { return reinterpret_cast<char*>(arena_); }
  char* host_arena() override { return transfers_->memory(); }
  const char* constants() override { return reinterpret_cast<const char*>(constants_); }
  const void* kernel(uint32_t index) const override { return &kernels_[index]; }
  Result<device::LibraryCall*> gemm(const device::GemmSpec& spec, bool fallback) override {
    (void)NABLA_TRY(enter());
    return libraries_->call(spec, fallback);
  }
  Result<device::LibraryCall*> convolution(const ConvolutionSpec& spec, bool fallback) override {
    (void)NABLA_TRY(enter());
    return libraries_->call(spec, fallback);
  }
  Status bind(const Plan& plan, Bound& bound) override;
  bool shares_launches() const override { return true; }
  Status run(const RunRequest& request) override;
  Status upload(void* to, const void* from, size_t bytes) override;
  Status download(void* to, const void* from, size_t bytes) override;
  const void* look(const void* at, size_t bytes, std::vector<char>& room) override;
  bool host_memory() const override { return false; }
  int threads() const override { return 1; }

 private:
  friend class GpuMachine;
  struct Module {
    std::string name;
    device::CudaModule module;
  };
  void drop_graphs();
  Status load_kernels();
  Result<device::CudaModule> module_of(const std::string& name);
  Result<GpuGrid> load_grid(const format::Grid& grid, const std::string& object);
  Status read_parameters(GpuGrid& grid, const std::string& object) const;
  Status ask_for_shared(device::CudaFunction function, unsigned dynamic, const std::string& symbol);
  Status allocate(std::string_view what, uint64_t bytes, device::CudaAddress& out);
  Status place_arrays();
  Status check_parameters(const Plan& plan, const Bound& bound) const;
  /// `by_peers`: whether what failed is to be said as it is, because other ranks say it too.
  Status issue(const RunRequest& request, bool& by_peers);
  Status record(const RunRequest& request, GpuLaunches& launches, bool& by_peers);
  Status record_steps(const RunRequest& request, GpuLaunches& launches, bool& by_peers);
  Status place_sizes(const Bound& bound);
  Status run_steps(const RunRequest& request, bool& by_peers);
  void note_graph(const RunRequest& request, const GpuLaunches& launches) const;
  std::string_view entry_name(const RunRequest& request) const;
  /// Makes the context this thread's.
  Status enter() { return driver_.check("choosing the GPU", driver_.context_set(context_)); }

  const format::Bundle& bundle_;
  const format::Program& program_;
  device::CudaDevice device_;
  const device::CudaDriver& driver_;
  bool sync_debug_;
  comm::StreamCommunicator* peers_;  ///< null: exchanges go through the host
  device::CudaContext context_ = nullptr;
  device::CudaStream stream_ = nullptr;
  std::vector<Module> modules_;
  std::vector<GpuKernel> kernels_;
  device::CudaAddress arena_ = 0, constants_ = 0, arrays_ = 0;
  /// By plan and by what is the same in every run of a graph.
  std::map<std::pair<const Plan*, std::vector<int64_t>>, std::weak_ptr<GpuLaunches>> launches_;
  std::optional<GpuStaging> staging_;
  std::optional<GpuTransfers> transfers_;
  std::optional<GpuExchanges> exchanges_;
  std::optional<GpuAlgorithms> algorithms_;
  std::optional<GpuLibraries<device::CublasLt, device::Cudnn>> libraries_;
  struct Arrays {
    std::vector<void*> inputs, outputs;  ///< device addresses
  };
  std::vector<Arrays> entries_;            ///< one per entry; all in `arrays_`, as one entry runs at a time
  std::vector<void*> args_;                ///< of the launch being issued
  std::vector<device::CudaTensorMap> maps_;  // its last arguments; a launch takes copies of them
  std::vector<device::CudaEvent> events_;  ///< of traces
};

}  // namespace nabla::exec
