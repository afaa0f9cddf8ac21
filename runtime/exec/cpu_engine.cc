// Steps on this machine's CPUs: native kernels over the thread pool, oneDNN, memory of the process.
#include <cstring>
#include <map>

#include "runtime/device/kernel_object.h"
#include "runtime/device/pool.h"
#include "runtime/exec/arena.h"
#include "runtime/exec/check_nan.h"
#include "runtime/exec/engine.h"
#include "runtime/exec/trace.h"
#include "runtime/exec/walker.h"
#include "runtime/format/program_check.h"

namespace nabla::exec {
namespace {

struct KernelJob {
  device::KernelFunction function;
  void* const* args;
  const long* extents;
};

void run_kernel(void* context, int64_t begin, int64_t end, int) {
  auto* job = static_cast<KernelJob*>(context);
  job->function(job->args, job->extents, begin, end);
}

struct CopyJob {
  const char* from;
  char* to;
  int64_t bytes;
};

constexpr int64_t kCopyBlock = 256 << 10;

void run_copy(void* context, int64_t begin, int64_t end, int) {
  auto* job = static_cast<CopyJob*>(context);
  int64_t first = begin * kCopyBlock, last = std::min(end * kCopyBlock, job->bytes);
  std::memcpy(job->to + first, job->from + first, static_cast<size_t>(last - first));
}

struct CpuMachine {
  const RunRequest& request;
  device::ThreadPool& pool;
  Engine& engine;
  std::optional<Diagnostic> failure = std::nullopt;  ///< of a debug instruction, or of other ranks

  bool stopped() const { return request.stopped(); }
  bool stops_all_loops() const { return request.stop_all_loops; }
  bool watched() const { return request.trace != nullptr || request.check != nullptr; }
  int64_t begin(uint32_t step, void* const* slots) {
    if (request.check != nullptr) request.check->before(request.bound.operands[step], slots);
    return request.trace == nullptr ? 0 : now_ns();
  }
  bool end(uint32_t step, void* const* slots, int64_t mark) {
    if (request.trace != nullptr) request.trace->span(request.bound.labels[step], mark, now_ns());
    return request.check == nullptr || request.check->after(request.bound.operands[step], slots);
  }
  bool kernel(const Step& s, void* const* slots) {
    auto function = reinterpret_cast<device::KernelFunction>(const_cast<void*>(s.kernel));
    const long* extents = request.bound.extents.data() + s.first_extent;
    if (s.max_threads == 1 || s.units <= 1) {
      if (s.units > 0) function(slots, extents, 0, s.units);
      return true;
    }
    KernelJob job{function, slots, extents};
    pool.run(run_kernel, &job, s.units, s.max_threads);
    return true;
  }
  bool library(const Step& s, void* const* slots) { return s.library->run(slots); }
  bool copy(const Step& s, void* const* slots) {
    CopyJob job{static_cast<const char*>(slots[0]), static_cast<char*>(slots[1]), s.units};
    pool.run(run_copy, &job, (s.units + kCopyBlock - 1) / kCopyBlock, 0);
    return true;
  }
  bool debug(const Control& control, void* const* slots) {
    if (!request.debug) return true;
    Status handed = hand_out(engine, request, control, slots);
    if (!handed.ok()) failure = handed.errors()[0];
    return handed.ok();
  }
  bool communicate(const Control& c, void* const* slots) {
    Status done = c.kind == Control::Kind::kWait ? request.peers->wait(c.ticket) : start_exchange(*request.peers, c, slots);
    if (!done.ok()) failure = done.errors()[0];
    return done.ok();
  }
  bool read(const void* at, int bytes, int64_t& value) {
    value = bytes == 1 ? *static_cast<const uint8_t*>(at) : *static_cast<const int32_t*>(at);
    return true;
  }
};

class CpuEngine final : public Engine {
 public:
  CpuEngine(const format::Bundle& bundle, const format::Program& program, const EngineOptions& options)
      : bundle_(bundle), program_(program), pool_(options.threads, options.pin_caller) {}

  Status load() {
    if (program_.libraries() != nullptr)
      for (const format::Library* library : *program_.libraries())
        if (format::view(library->name()) != "onednn")
          return error(Code::kMissingLibrary, "{} needs the library `{}`, which this runtime does not know",
                       bundle_.what(), format::view(library->name()));
    std::map<std::string_view, device::KernelObject*> loaded;
    for (uint32_t i = 0; program_.kernels() != nullptr && i < program_.kernels()->size(); ++i) {
      const format::Kernel& kernel = *program_.kernels()->Get(i);
      std::string_view name = format::view(kernel.object());
      device::KernelObject*& object = loaded[name];
      if (object == nullptr) {
        objects_.push_back(NABLA_TRY(device::KernelObject::load(bundle_.member(name), std::string(name))));
        object = objects_.back().get();
      }
      kernels_.push_back(NABLA_TRY(object->find(std::string(format::view(kernel.symbol())))));
    }
    arena_ = NABLA_TRY(Arena::allocate(program_.arena_bytes()));
    return Ok{};
  }

  char* arena() override { return arena_.data(); }
  const char* constants() override {
    return reinterpret_cast<const char*>(bundle_.member(format::constants_member(program_)).data());
  }
  const void* kernel(uint32_t index) const override { return reinterpret_cast<const void*>(kernels_[index]); }
  Result<device::LibraryCall*> gemm(const device::GemmSpec& spec, bool) override {
    return NABLA_TRY(onednn())->gemm(spec);
  }
  Result<device::LibraryCall*> convolution(const ConvolutionSpec& spec, bool) override {
    return NABLA_TRY(onednn())->convolution(spec);
  }
  Status bind(const Plan&, Bound&) override { return Ok{}; }

  Status run(const RunRequest& r) override {
    r.plan.patch(r.inputs, r.outputs);
    int64_t start = r.trace == nullptr ? 0 : now_ns();
    CpuMachine machine{r, pool_, *this};
    int64_t failed = Walker<CpuMachine>(r.plan, r.bound, machine).run();
    if (failed >= 0) return machine.failure ? *machine.failure : failure(r, failed);
    if (r.trace != nullptr) r.trace->span(r.plan.entry_label, start, now_ns());
    return Ok{};
  }

  Status upload(void* to, const void* from, size_t bytes) override { return copy(to, from, bytes); }
  Status download(void* to, const void* from, size_t bytes) override { return copy(to, from, bytes); }
  const void* look(const void* at, size_t, std::vector<char>&) override { return at; }
  bool host_memory() const override { return true; }
  int threads() const override { return pool_.size(); }
  device::Limits limits() override { return device::measure_limits(pool_); }

 private:
  static Status copy(void* to, const void* from, size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return Ok{};
  }

  Diagnostic failure(const RunRequest& r, int64_t step) const {
    const format::Instruction& i = *r.plan.instructions[step];
    std::string entry(format::view(program_.entries()->Get(r.entry)->name()));
    if (r.check != nullptr && r.check->found()) return r.check->report(program_, entry, i);
    if (r.stopped()) return stopped_in(entry, i);
    return error(Code::kMissingLibrary, "entry `{}`: the library call of instruction {} `{}` failed", entry, step,
                 format::view(i.label()));
  }

  /// Opens the program's oneDNN when an instruction needs it.
  Result<device::OneDnn*> onednn() {
    if (onednn_ != nullptr) return onednn_.get();
    if (program_.libraries() == nullptr || program_.libraries()->size() == 0)
      return error(Code::kCorrupt, "the program calls oneDNN, but does not name it among its libraries");
    const format::Library& library = *program_.libraries()->Get(0);
    onednn_ = NABLA_TRY(device::OneDnn::open(std::string(format::view(library.soname())),
                                             std::string(format::view(library.min_version())), pool_));
    return onednn_.get();
  }

  const format::Bundle& bundle_;
  const format::Program& program_;
  device::ThreadPool pool_;
  Arena arena_;
  std::vector<std::unique_ptr<device::KernelObject>> objects_;
  std::vector<device::KernelFunction> kernels_;
  std::unique_ptr<device::OneDnn> onednn_;
};

}  // namespace

Diagnostic stopped_in(const std::string& entry, const format::Instruction& at) {
  bool loop = at.action_type() == format::Action::Loop || at.action_type() == format::Action::While;
  Diagnostic d = error(Code::kInterrupted, "entry `{}`: stopped by a signal {} `{}`", entry,
                       loop ? "inside its loop" : "before its instruction", format::view(at.label()));
  d.help = loop ? "run it again; a loop that never ends needs a condition that becomes false" : "run it again";
  return d;
}

Result<std::unique_ptr<Engine>> make_cpu_engine(const format::Bundle& bundle, const format::Program& program,
                                                const EngineOptions& options) {
  auto engine = std::make_unique<CpuEngine>(bundle, program, options);
  if (engine->threads() < options.threads)
    return error(Code::kOutOfMemory, "the system gives {} of {} threads", engine->threads(), options.threads);
  (void)NABLA_TRY(engine->load());
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace nabla::exec
