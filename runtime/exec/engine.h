// Where the steps of a program run: on this machine's CPUs, or on a GPU. Plans, sizes and addresses are the same for
// both; an engine owns the memory that addresses point into, and knows what a kernel is.
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/comm/stream.h"
#include "runtime/device/cuda_driver.h"
#include "runtime/device/limits.h"
#include "runtime/device/onednn.h"
#include "runtime/format/bundle_reader.h"
#include "runtime/format/program_generated.h"

namespace nabla::exec {

struct Plan;
struct Bound;
struct Control;
class NanCheck;
class TraceRecorder;

/// What an engine keeps for one tuple of symbol values.
struct EngineBound {
  virtual ~EngineBound() = default;
};

/// One run of an entry with the caller's arrays, in the order of its inputs and outputs.
struct RunRequest {
  int entry = 0;
  std::string_view name;  ///< of the entry
  int64_t count = 0;      ///< which run of the entry it is, from 1
  Plan& plan;
  Bound& bound;
  const void* const* inputs = nullptr;
  void* const* outputs = nullptr;
  TraceRecorder* trace = nullptr;                    ///< may be null
  NanCheck* check = nullptr;                         ///< may be null
  comm::Communicator* peers = nullptr;               ///< null: the program does not communicate
  bool debug = true;                                 ///< hand the operands of debug instructions to the process?
  const volatile std::sig_atomic_t* stop = nullptr;  ///< not 0: a while loop ends the run; may be null
  bool stop_all_loops = false;                       ///< so does everything else, between two steps
  bool stopped() const { return stop != nullptr && *stop != 0; }
};

/// Used by one thread at a time. Pointers that it gives are for its kernels: only the CPU's may be followed.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual char* arena() = 0;
  virtual const char* constants() = 0;
  /// State that lives in the host's memory beside a GPU's; null where the program has none.
  virtual char* host_arena() { return nullptr; }
  /// Of the program's kernel `index`: what Step.kernel holds.
  virtual const void* kernel(uint32_t index) const = 0;
  /// E0602 for a library that is not there. Null: run the `fallback`, which there is.
  virtual Result<device::LibraryCall*> gemm(const device::GemmSpec& spec, bool fallback) = 0;
  virtual Result<device::LibraryCall*> convolution(const ConvolutionSpec& spec, bool fallback) = 0;
  /// Called once for every new tuple, when its steps are complete.
  virtual Status bind(const Plan& plan, Bound& bound) = 0;
  /// Do the launches and library calls of a tuple serve all tuples of its bucket? EntrySizes::bucket.
  virtual bool shares_launches() const { return false; }
  /// Returns when all results are in the caller's arrays.
  virtual Status run(const RunRequest& request) = 0;

  /// Copies between the caller's memory and the engine's.
  virtual Status upload(void* to, const void* from, size_t bytes) = 0;
  virtual Status download(void* to, const void* from, size_t bytes) = 0;
  /// `bytes` at an address of the engine, to be read now: in place, or in `room`. Null when they cannot be had; the run
  /// then fails by itself.
  virtual const void* look(const void* at, size_t bytes, std::vector<char>& room) = 0;
  /// Do addresses of the engine lie in the caller's memory?
  virtual bool host_memory() const = 0;
  /// Threads of this machine that share the work.
  virtual int threads() const = 0;
  /// Measures what can be reached here at most; unknown for a GPU.
  virtual device::Limits limits() { return {}; }
};

/// Hands the operands of a debug instruction, which lie at `slots`, to the process. An error of its sink, or E0607.
Status hand_out(Engine& engine, const RunRequest& request, const Control& control, void* const* slots);
/// Starts an exchange with other ranks; `places` are where its operands lie in the host's memory, in the order of its slots.
Status start_exchange(comm::Communicator& peers, const Control& control, void* const* places);
/// E0805 for a run that was told to stop inside this loop, or before this instruction.
Diagnostic stopped_in(const std::string& entry, const format::Instruction& at);

struct EngineOptions {
  int threads = 0;
  bool pin_caller = false;
  bool sync_debug = false;
  comm::StreamCommunicator* peers = nullptr;  ///< of a GPU: ranks whose values stay on GPUs; null: they come through the host
};

/// E0601, E0602, E0604, E0804. The bundle outlives the engine.
Result<std::unique_ptr<Engine>> make_cpu_engine(const format::Bundle& bundle, const format::Program& program,
                                                const EngineOptions& options);
/// The same on a GPU: E0602, E0604, E0607, E0804.
Result<std::unique_ptr<Engine>> make_gpu_engine(const format::Bundle& bundle, const format::Program& program,
                                                device::CudaDevice device, const EngineOptions& options);

}  // namespace nabla::exec
