#include "runtime/exec/plan.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace nabla::exec {
namespace {

struct KernelJob {
  device::KernelFunction function;
  void* const* args;
};

constexpr long kNoExtents[1] = {0};

void run_kernel(void* context, int64_t begin, int64_t end, int) {
  auto* job = static_cast<KernelJob*>(context);
  job->function(job->args, kNoExtents, begin, end);
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

std::vector<int64_t> list(const flatbuffers::Vector<int64_t>* values) {
  return values == nullptr ? std::vector<int64_t>() : std::vector<int64_t>(values->begin(), values->end());
}

std::string_view view(const flatbuffers::String* text) {
  return text == nullptr ? std::string_view() : std::string_view(text->c_str(), text->size());
}

/// Binds the instructions of one entry, one after the other.
class EntryBinder {
 public:
  EntryBinder(const format::Program& program, const Binder& binder) : program_(program), binder_(binder) {}

  Status add(const format::Instruction& instruction) {
    Step step;
    step.first_slot = static_cast<uint32_t>(plan.slots.size());
    std::string_view category = "library";
    switch (instruction.action_type()) {
      case format::Action::Launch: {
        const format::Launch& launch = *instruction.action_as_Launch();
        if (launch.args() != nullptr)
          for (const format::Address* address : *launch.args()) add_slot(address);
        step.kernel = binder_.kernels[launch.kernel()];
        step.units = launch.units();
        step.max_threads = launch.max_threads();
        category = "kernel";
        break;
      }
      case format::Action::Gemm:
        step.library = NABLA_TRY(bind_gemm(*instruction.action_as_Gemm()));
        break;
      case format::Action::Convolution:
        step.library = NABLA_TRY(bind_convolution(*instruction.action_as_Convolution()));
        break;
      default: {
        const format::Copy& copy = *instruction.action_as_Copy();
        add_slot(copy.from());
        add_slot(copy.to());
        step.units = static_cast<int64_t>(copy.bytes());
        category = "copy";
      }
    }
    plan.steps.push_back(step);
    if (binder_.trace != nullptr) add_label(instruction, category);
    return Ok{};
  }

  Plan plan;

 private:
  void add_slot(const format::Address* address) {
    char* base = nullptr;
    if (address != nullptr) {
      auto slot = static_cast<uint32_t>(plan.slots.size());
      switch (address->base()) {
        case format::BaseKind::Arena:
          base = binder_.arena + address->offset();
          break;
        // Kernels take one kind of pointer; the reader has checked that nothing is written to the constants.
        case format::BaseKind::Constants:
          base = const_cast<char*>(binder_.constants) + address->offset();
          break;
        case format::BaseKind::Input:
          plan.input_patches.push_back({slot, address->index(), address->offset()});
          break;
        case format::BaseKind::Output:
          plan.output_patches.push_back({slot, address->index(), address->offset()});
          break;
      }
    }
    plan.slots.push_back(base);
  }

  Result<device::LibraryCall*> bind_gemm(const format::Gemm& gemm) {
    device::OneDnn* library = NABLA_TRY(binder_.onednn());
    device::GemmSpec spec;
    spec.dtype = dtype_of(gemm.dtype());
    spec.batch = gemm.batch(), spec.m = gemm.m(), spec.n = gemm.n(), spec.k = gemm.k();
    spec.transpose_a = gemm.transpose_a(), spec.transpose_b = gemm.transpose_b();
    spec.lda = gemm.lda(), spec.ldb = gemm.ldb(), spec.ldc = gemm.ldc();
    spec.stride_a = gemm.stride_a(), spec.stride_b = gemm.stride_b(), spec.stride_c = gemm.stride_c();
    spec.implementation = view(gemm.implementation());
    add_slot(gemm.a());
    add_slot(gemm.b());
    add_slot(gemm.c());
    return library->gemm(spec);
  }

  Result<device::LibraryCall*> bind_convolution(const format::Convolution& c) {
    device::OneDnn* library = NABLA_TRY(binder_.onednn());
    device::ConvolutionSpec spec;
    spec.kind = static_cast<device::ConvolutionKind>(c.kind());
    spec.dtype = dtype_of(c.dtype());
    spec.input_shape = list(c.input_shape());
    spec.filter_shape = list(c.filter_shape());
    spec.output_shape = list(c.output_shape());
    spec.strides = list(c.strides());
    spec.dilations = list(c.dilations());
    spec.padding_low = list(c.padding_low());
    spec.padding_high = list(c.padding_high());
    spec.groups = c.groups();
    spec.workspace_bytes = c.workspace() == nullptr ? 0 : c.workspace()->bytes();
    add_slot(c.input());
    add_slot(c.filter());
    add_slot(c.output());
    add_slot(c.workspace());
    return library->convolution(spec);
  }

  void add_label(const format::Instruction& instruction, std::string_view category) {
    TraceRecorder::Label label{.name = view(instruction.label()), .category = category};
    const auto* locations = program_.locations();
    if (locations != nullptr && instruction.location() < locations->size()) {
      const format::Location& location = *locations->Get(instruction.location());
      label.file = view(location.file());
      label.line = location.line();
      label.text = view(location.text());
    }
    plan.step_labels.push_back(binder_.trace->add_label(label));
  }

  const format::Program& program_;
  const Binder& binder_;
};

/// False when a library call failed.
inline bool run_step(const Step& step, void* const* slots, device::ThreadPool& pool) {
  if (step.kernel != nullptr) {
    if (step.max_threads == 1 || step.units <= 1) {
      if (step.units > 0) step.kernel(slots, kNoExtents, 0, step.units);
      return true;
    }
    KernelJob job{step.kernel, slots};
    pool.run(run_kernel, &job, step.units, step.max_threads);
    return true;
  }
  if (step.library != nullptr) return step.library->run(slots);
  CopyJob job{static_cast<const char*>(slots[0]), static_cast<char*>(slots[1]), step.units};
  if (step.units > 0) pool.run(run_copy, &job, (step.units + kCopyBlock - 1) / kCopyBlock, 0);
  return true;
}

}  // namespace

int64_t Plan::run(device::ThreadPool& pool, const void* const* inputs, void* const* outputs, TraceRecorder* trace) {
  for (const Patch& patch : input_patches)
    slots[patch.slot] = static_cast<char*>(const_cast<void*>(inputs[patch.index])) + patch.offset;
  for (const Patch& patch : output_patches) slots[patch.slot] = static_cast<char*>(outputs[patch.index]) + patch.offset;
  if (trace == nullptr) {
    for (const Step& step : steps)
      if (!run_step(step, slots.data() + step.first_slot, pool)) return &step - steps.data();
    return -1;
  }
  int64_t start = now_ns();
  int64_t before = start;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!run_step(steps[i], slots.data() + steps[i].first_slot, pool)) return static_cast<int64_t>(i);
    int64_t after = now_ns();
    trace->span(step_labels[i], before, after);
    before = after;
  }
  trace->span(entry_label, start, now_ns());
  return -1;
}

Result<Plan> bind_entry(const format::Program& program, const format::Entry& entry, const Binder& binder) {
  EntryBinder out(program, binder);
  if (entry.instructions() != nullptr)
    for (const format::Instruction* instruction : *entry.instructions()) (void)NABLA_TRY(out.add(*instruction));
  if (binder.trace != nullptr)
    out.plan.entry_label = binder.trace->add_label({.name = view(entry.name()), .category = "entry"});
  return std::move(out.plan);
}

}  // namespace nabla::exec
