#include "runtime/exec/plan.h"

#include <algorithm>
#include <cstring>
#include <string_view>

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

std::vector<int64_t> list(const flatbuffers::Vector<int64_t>* values) {
  return values == nullptr ? std::vector<int64_t>() : std::vector<int64_t>(values->begin(), values->end());
}

std::string_view view(const flatbuffers::String* text) {
  return text == nullptr ? std::string_view() : std::string_view(text->c_str(), text->size());
}

/// The operands of an instruction, in the order of its slots.
std::vector<const format::Address*> operands_of(const format::Instruction& instruction) {
  switch (instruction.action_type()) {
    case format::Action::Launch: {
      const auto* args = instruction.action_as_Launch()->args();
      return args == nullptr ? std::vector<const format::Address*>()
                             : std::vector<const format::Address*>(args->begin(), args->end());
    }
    case format::Action::Gemm: {
      const format::Gemm& gemm = *instruction.action_as_Gemm();
      return {gemm.a(), gemm.b(), gemm.c()};
    }
    case format::Action::Convolution: {
      const format::Convolution& c = *instruction.action_as_Convolution();
      return {c.input(), c.filter(), c.output(), c.workspace()};
    }
    default: {
      const format::Copy& copy = *instruction.action_as_Copy();
      return {copy.from(), copy.to()};
    }
  }
}

/// Addresses and labels of one list of instructions.
class Planner {
 public:
  Planner(const format::Program& program, const Binder& binder) : program_(program), binder_(binder) {}

  Plan run(const flatbuffers::Vector<flatbuffers::Offset<format::Instruction>>* instructions) {
    plan_.instructions = instructions;
    if (instructions == nullptr) return std::move(plan_);
    for (const format::Instruction* instruction : *instructions) {
      plan_.first_slots.push_back(static_cast<uint32_t>(plan_.slots.size()));
      for (const format::Address* address : operands_of(*instruction)) add_slot(address);
      if (binder_.trace != nullptr) add_label(*instruction);
    }
    return std::move(plan_);
  }

 private:
  void add_slot(const format::Address* address) {
    char* base = nullptr;
    if (address != nullptr) {
      auto slot = static_cast<uint32_t>(plan_.slots.size());
      switch (address->base()) {
        case format::BaseKind::Arena:
          base = binder_.arena + address->offset();
          break;
        // Kernels take one kind of pointer; the reader has checked that nothing is written to the constants.
        case format::BaseKind::Constants:
          base = const_cast<char*>(binder_.constants) + address->offset();
          break;
        case format::BaseKind::Input:
          plan_.input_patches.push_back({slot, address->index(), address->offset()});
          break;
        case format::BaseKind::Output:
          plan_.output_patches.push_back({slot, address->index(), address->offset()});
          break;
      }
    }
    plan_.slots.push_back(base);
  }

  void add_label(const format::Instruction& instruction) {
    std::string_view category = instruction.action_type() == format::Action::Launch ? "kernel"
                                : instruction.action_type() == format::Action::Copy ? "copy"
                                                                                    : "library";
    TraceRecorder::Label label{.name = view(instruction.label()), .category = category};
    const auto* locations = program_.locations();
    if (locations != nullptr && instruction.location() < locations->size()) {
      const format::Location& location = *locations->Get(instruction.location());
      label.file = view(location.file());
      label.line = location.line();
      label.text = view(location.text());
    }
    plan_.step_labels.push_back(binder_.trace->add_label(label));
  }

  const format::Program& program_;
  const Binder& binder_;
  Plan plan_;
};

/// The steps of a plan at the sizes of a table.
class StepBinder {
 public:
  StepBinder(const std::vector<int64_t>& table, const Binder& binder, Bound& bound)
      : table_(table), binder_(binder), bound_(bound) {}

  Status add(const format::Instruction& instruction, uint32_t first_slot) {
    Step step;
    step.first_slot = first_slot;
    step.first_extent = static_cast<uint32_t>(bound_.extents.size());
    switch (instruction.action_type()) {
      case format::Action::Launch:
        launch(*instruction.action_as_Launch(), step);
        break;
      case format::Action::Gemm:
        step.library = NABLA_TRY(gemm(*instruction.action_as_Gemm()));
        break;
      case format::Action::Convolution:
        step.library = NABLA_TRY(convolution(*instruction.action_as_Convolution()));
        break;
      default:
        step.units = static_cast<int64_t>(instruction.action_as_Copy()->bytes());
    }
    bound_.steps.push_back(step);
    return Ok{};
  }

 private:
  void launch(const format::Launch& launch, Step& step) {
    step.kernel = binder_.kernels[launch.kernel()];
    step.units = size_at(launch.units_size(), launch.units(), table_);
    step.max_threads = launch.max_threads();
    // The bound on threads is what pays at the largest size.
    if (step.units < launch.units() && step.max_threads > 1)
      step.max_threads = static_cast<int32_t>(
          std::max<int64_t>(1, (step.max_threads * step.units + launch.units() - 1) / launch.units()));
    if (launch.extents() != nullptr)
      for (uint32_t size : *launch.extents()) bound_.extents.push_back(table_[size]);
  }

  Result<device::LibraryCall*> gemm(const format::Gemm& gemm) {
    device::OneDnn* library = NABLA_TRY(binder_.onednn());
    device::GemmSpec spec;
    spec.dtype = dtype_of(gemm.dtype());
    spec.batch = gemm.batch(), spec.m = gemm.m(), spec.n = gemm.n(), spec.k = gemm.k();
    spec.transpose_a = gemm.transpose_a(), spec.transpose_b = gemm.transpose_b();
    spec.lda = gemm.lda(), spec.ldb = gemm.ldb(), spec.ldc = gemm.ldc();
    spec.stride_a = gemm.stride_a(), spec.stride_b = gemm.stride_b(), spec.stride_c = gemm.stride_c();
    spec.implementation = view(gemm.implementation());
    int64_t* fields[] = {&spec.batch, &spec.m,   &spec.n,        &spec.k,        &spec.lda,
                         &spec.ldb,   &spec.ldc, &spec.stride_a, &spec.stride_b, &spec.stride_c};
    if (gemm.sizes() != nullptr && gemm.sizes()->size() > 0)
      for (uint32_t i = 0; i < std::size(fields); ++i) *fields[i] = size_at(gemm.sizes()->Get(i), *fields[i], table_);
    return library->gemm(spec);
  }

  Result<device::LibraryCall*> convolution(const format::Convolution& c) {
    device::OneDnn* library = NABLA_TRY(binder_.onednn());
    device::ConvolutionSpec spec;
    spec.kind = static_cast<device::ConvolutionKind>(c.kind());
    spec.dtype = dtype_of(c.dtype());
    spec.input_shape = list(c.input_shape());
    spec.filter_shape = list(c.filter_shape());
    spec.output_shape = list(c.output_shape());
    spec.input_shape[0] = spec.output_shape[0] = size_at(c.batch_size(), spec.input_shape[0], table_);
    spec.strides = list(c.strides());
    spec.dilations = list(c.dilations());
    spec.padding_low = list(c.padding_low());
    spec.padding_high = list(c.padding_high());
    spec.groups = c.groups();
    spec.workspace_bytes = c.workspace() == nullptr ? 0 : c.workspace()->bytes();
    return library->convolution(spec);
  }

  const std::vector<int64_t>& table_;
  const Binder& binder_;
  Bound& bound_;
};

/// False when a library call failed.
inline bool run_step(const Step& step, void* const* slots, const long* extents, device::ThreadPool& pool) {
  if (step.kernel != nullptr) {
    extents += step.first_extent;
    if (step.max_threads == 1 || step.units <= 1) {
      if (step.units > 0) step.kernel(slots, extents, 0, step.units);
      return true;
    }
    KernelJob job{step.kernel, slots, extents};
    pool.run(run_kernel, &job, step.units, step.max_threads);
    return true;
  }
  if (step.library != nullptr) return step.library->run(slots);
  CopyJob job{static_cast<const char*>(slots[0]), static_cast<char*>(slots[1]), step.units};
  if (step.units > 0) pool.run(run_copy, &job, (step.units + kCopyBlock - 1) / kCopyBlock, 0);
  return true;
}

}  // namespace

bool Plan::serves(const std::vector<int64_t>& values) const {
  for (size_t i = 0; i < fixed.size(); ++i)
    if (fixed[i] >= 0 && fixed[i] != values[i]) return false;
  return true;
}

int64_t Plan::run(const Bound& bound, device::ThreadPool& pool, const void* const* inputs, void* const* outputs,
                  TraceRecorder* trace) {
  for (const Patch& patch : input_patches)
    slots[patch.slot] = static_cast<char*>(const_cast<void*>(inputs[patch.index])) + patch.offset;
  for (const Patch& patch : output_patches) slots[patch.slot] = static_cast<char*>(outputs[patch.index]) + patch.offset;
  const long* extents = bound.extents.data();
  if (trace == nullptr) {
    for (const Step& step : bound.steps)
      if (!run_step(step, slots.data() + step.first_slot, extents, pool)) return &step - bound.steps.data();
    return -1;
  }
  int64_t start = now_ns();
  int64_t before = start;
  for (size_t i = 0; i < bound.steps.size(); ++i) {
    const Step& step = bound.steps[i];
    if (!run_step(step, slots.data() + step.first_slot, extents, pool)) return static_cast<int64_t>(i);
    int64_t after = now_ns();
    trace->span(step_labels[i], before, after);
    before = after;
  }
  trace->span(entry_label, start, now_ns());
  return -1;
}

EntryPlan plan_entry(const format::Program& program, const format::Entry& entry, const Binder& binder) {
  EntryPlan out;
  if (entry.variants() != nullptr)
    for (const format::Variant* variant : *entry.variants()) {
      out.plans.push_back(Planner(program, binder).run(variant->instructions()));
      out.plans.back().fixed = list(variant->values());
    }
  out.plans.push_back(Planner(program, binder).run(entry.instructions()));
  if (binder.trace != nullptr) {
    uint32_t label = binder.trace->add_label({.name = view(entry.name()), .category = "entry"});
    for (Plan& plan : out.plans) plan.entry_label = label;
  }
  return out;
}

Status bind_entry(EntryPlan& plan, const EntrySizes& sizes, const std::vector<int64_t>& values, const Binder& binder) {
  auto known = std::find_if(plan.tuples.begin(), plan.tuples.end(),
                            [&](const EntryPlan::Tuple& t) { return t.bound->values == values; });
  if (known != plan.tuples.end()) {
    plan.current = &*known;
    return Ok{};
  }
  EntryPlan::Tuple tuple{std::make_unique<Bound>(), nullptr};
  for (Plan& p : plan.plans)
    if (tuple.plan == nullptr && p.serves(values)) tuple.plan = &p;
  std::vector<int64_t> table = NABLA_TRY(sizes.evaluate(values));
  tuple.bound->values = values;
  tuple.bound->output_shapes = sizes.output_shapes(table);
  StepBinder steps(table, binder, *tuple.bound);
  for (size_t i = 0; i < tuple.plan->first_slots.size(); ++i)
    (void)NABLA_TRY(steps.add(*tuple.plan->instructions->Get(static_cast<uint32_t>(i)), tuple.plan->first_slots[i]));
  if (plan.tuples.size() == EntryPlan::kMaxTuples) plan.tuples.erase(plan.tuples.begin());
  plan.tuples.push_back(std::move(tuple));
  plan.current = &plan.tuples.back();
  return Ok{};
}

}  // namespace nabla::exec
