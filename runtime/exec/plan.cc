#include "runtime/exec/plan.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "runtime/format/problems.h"
#include "runtime/format/program_check.h"

namespace nabla::exec {
namespace {

std::vector<int64_t> list(const flatbuffers::Vector<int64_t>* values) {
  return values == nullptr ? std::vector<int64_t>() : std::vector<int64_t>(values->begin(), values->end());
}

std::string_view view(const flatbuffers::String* text) {
  return text == nullptr ? std::string_view() : std::string_view(text->c_str(), text->size());
}

constexpr int64_t kMostAlignment = 256;  // that anybody asks for

/// Addresses and structure of the instructions of one list and of the blocks that they refer to.
class Planner {
 public:
  Planner(const format::Program& program, const Binder& binder) : program_(program), binder_(binder) {}

  using Instructions = format::Instructions;
  /// Steps of one list stand side by side; those of nested blocks come after them.
  StepRange add_all(const Instructions* list) {
    StepRange range{static_cast<uint32_t>(plan.steps.size()), 0};
    range.last = range.first + (list == nullptr ? 0 : list->size());
    plan.steps.resize(range.last);
    plan.instructions.resize(range.last);
    std::map<uint32_t, uint32_t> around;
    around.swap(started_);
    for (uint32_t i = range.first; i < range.last; ++i) {
      plan.instructions[i] = list->Get(i - range.first);
      step_ = i;
      Step step = planned(*plan.instructions[i]);
      plan.steps[i] = step;
    }
    started_.swap(around);
    return range;
  }

  Plan plan;

 private:
  Step planned(const format::Instruction& instruction) {
    Step step;
    step.first_slot = static_cast<uint32_t>(plan.slots.size());
    switch (instruction.action_type()) {
      case format::Action::Launch: {
        const format::Launch& launch = *instruction.action_as_Launch();
        if (launch.args() != nullptr)
          for (const format::Address* address : *launch.args()) add_slot(address);
        step.kernel = binder_.engine.kernel(launch.kernel());
        step.args = launch.args() == nullptr ? 0 : launch.args()->size();
        break;
      }
      case format::Action::Gemm:
        add_call(*instruction.action_as_Gemm());
        break;
      case format::Action::Convolution:
        add_call(*instruction.action_as_Convolution());
        break;
      case format::Action::Copy: {
        const format::Copy& copy = *instruction.action_as_Copy();
        add_slot(copy.from());
        add_slot(copy.to());
        break;
      }
      default:
        step.control = planned_control(instruction);
    }
    return step;
  }

  int32_t planned_control(const format::Instruction& instruction) {
    auto index = static_cast<int32_t>(plan.controls.size());
    plan.controls.emplace_back();
    Control control;
    std::vector<uint32_t> blocks;
    if (const format::Loop* loop = instruction.action_as_Loop()) {
      control.reverse = loop->reverse();
      blocks = {loop->body()};
      counting_[loop->register_()] = {index, 0};
    } else if (const format::Call* call = instruction.action_as_Call()) {
      control.kind = Control::Kind::kCall;
      blocks = {call->block()};
      for (uint32_t i = 0; call->registers() != nullptr && i < call->registers()->size(); ++i)
        counting_[call->registers()->Get(i)->register_()] = {index, call->registers()->Get(i)->value()};
    } else if (const format::Debug* debug = instruction.action_as_Debug()) {
      control.kind = Control::Kind::kDebug;
      control.debug = debug;
      for (uint32_t i = 0; debug->operands() != nullptr && i < debug->operands()->size(); ++i) {
        add_slot(debug->operands()->Get(i));
        control.shapes.push_back(list(debug->tensors()->Get(i)->shape()));
      }
    } else if (format::starts(instruction)) {
      control.kind = Control::Kind::kStart;
      control.exchange = &instruction;
      control.ticket = step_;
      started_[format::handle_of(instruction)] = step_;
      for (const format::Address* address : format::addresses_of(instruction)) add_slot(address);
    } else if (const format::Wait* wait = instruction.action_as_Wait()) {
      control.kind = Control::Kind::kWait;
      control.ticket = started_.at(wait->handle());
    } else if (const format::While* loop = instruction.action_as_While()) {
      control.kind = Control::Kind::kWhile;
      add_slot(loop->predicate());
      blocks = {loop->condition(), loop->body()};
    } else {
      const format::Branch& branch = *instruction.action_as_Branch();
      control.kind = Control::Kind::kBranch;
      control.index_is_bool = branch.index_dtype() == format::DType::Bool;
      add_slot(branch.index());
      blocks.assign(branch.blocks()->begin(), branch.blocks()->end());
    }
    for (uint32_t block : blocks) control.ranges.push_back(add_all(program_.blocks()->Get(block)->instructions()));
    control.moving = std::move(plan.controls[index].moving);
    plan.controls[index] = std::move(control);
    return index;
  }

  // Operands by role, then those of the fallback.
  template <class Call>
  void add_call(const Call& call) {
    for (const format::Address* address : format::addresses_of_call(call)) add_slot(address);
    if (call.fallback() == nullptr) return;
    for (const format::Address* address : format::arguments_of(*call.fallback())) add_slot(address);
  }

  void add_slot(const format::Address* address) {
    char* base = nullptr;
    if (address != nullptr) {
      auto slot = static_cast<uint32_t>(plan.slots.size());
      switch (address->base()) {
        case format::BaseKind::Arena:
          base = binder_.engine.arena() + address->offset();
          break;
        case format::BaseKind::Host:
          base = binder_.engine.host_arena() + address->offset();
          break;
        // Kernels take one kind of pointer; the reader has checked that nothing is written to the constants.
        case format::BaseKind::Constants:
          base = const_cast<char*>(binder_.engine.constants()) + address->offset();
          break;
        case format::BaseKind::Input:
          plan.input_patches.push_back({slot, address->index(), address->offset()});
          break;
        case format::BaseKind::Output:
          plan.output_patches.push_back({slot, address->index(), address->offset()});
          break;
      }
    }
    for (uint32_t t = 0; address != nullptr && address->terms() != nullptr && t < address->terms()->size(); ++t) {
      const format::RegisterTerm& term = *address->terms()->Get(t);
      bool refers = address->stride_sizes() != nullptr && address->stride_sizes()->size() > 0;
      const Register& set = counting_.at(term.register_());
      bool remainder = address->moduli() != nullptr && address->moduli()->size() > 0;
      plan.controls[set.control].moving.push_back(
          {static_cast<uint32_t>(plan.slots.size()), term.stride(), refers ? address->stride_sizes()->Get(t) : 0,
           remainder ? address->moduli()->Get(t) : 0, set.value});
    }
    plan.slots.push_back(base);
  }

  const format::Program& program_;
  const Binder& binder_;
  uint32_t step_ = 0;                      // under way
  std::map<uint32_t, uint32_t> started_;   // of the list under way: the step of each handle
  struct Register {
    int32_t control;  // the loop or the call that it belongs to
    int64_t value;    // of a call
  };
  std::map<uint16_t, Register> counting_;
};

// Does a call for `wide` compute what one for `exact` does, and further rows or batches after it, which nobody reads?
bool extends(device::GemmSpec exact, const device::GemmSpec& wide) {
  if (exact.batch > 1 || wide.batch > 1) {
    exact.batch = wide.batch;
    return exact == wide;
  }
  exact.m = wide.m;
  exact.stride_a = wide.stride_a, exact.stride_b = wide.stride_b, exact.stride_c = wide.stride_c;  // of one batch
  return exact == wide;
}

bool extends(ConvolutionSpec exact, const ConvolutionSpec& wide) {
  if (exact.kind == ConvolutionKind::kFilterGrad) return exact == wide;  // sums over images
  exact.input_shape[0] = wide.input_shape[0], exact.output_shape[0] = wide.output_shape[0];
  return exact == wide;
}

/// Steps and controls of a plan at the sizes of a table. Launches and library calls are those of a bucket's table,
/// which is the same one where an engine works at the exact sizes.
class StepBinder {
 public:
  struct Tables {
    std::vector<int64_t> exact, bucket;
  };
  StepBinder(const format::Program& program, const Tables& tables, const Binder& binder, Bound& bound)
      : program_(program), table_(tables.exact), bucket_(tables.bucket), binder_(binder), bound_(bound) {}

  Status run(const Plan& plan) {
    bound_.steps = plan.steps;
    bound_.controls = plan.controls;
    for (size_t i = 0; i < bound_.steps.size(); ++i) {
      Status bound = bind(*plan.instructions[i], bound_.steps[i]);
      if (!bound.ok()) return bound;
    }
    for (size_t i = 0; binder_.check_nan && i < plan.instructions.size(); ++i)
      bound_.operands.push_back(operands_of(program_, *plan.instructions[i], table_, bound_.steps[i].kernel != nullptr));
    for (size_t i = 0; binder_.trace != nullptr && i < plan.instructions.size(); ++i)
      bound_.labels.push_back(binder_.trace->add_label(label(*plan.instructions[i], bound_.steps[i])));
    return Ok{};
  }

 private:
  Status bind(const format::Instruction& instruction, Step& step) {
    step.first_extent = static_cast<uint32_t>(bound_.extents.size());
    switch (instruction.action_type()) {
      case format::Action::Launch:
        launch(*instruction.action_as_Launch(), step);
        break;
      case format::Action::Gemm:
        return bind_gemm(*instruction.action_as_Gemm(), step);
      case format::Action::Convolution:
        return bind_convolution(*instruction.action_as_Convolution(), step);
      case format::Action::Copy: {
        const format::Copy& copy = *instruction.action_as_Copy();
        step.units = size_at(copy.bytes_size(), static_cast<int64_t>(copy.bytes()), table_);
        break;
      }
      case format::Action::Loop: {
        const format::Loop& loop = *instruction.action_as_Loop();
        Control& control = bound_.controls[step.control];
        control.trips = size_at(loop.trips_size(), loop.trips(), table_);
        for (Control::Moving& m : control.moving) m.stride = size_at(m.size, m.stride, table_);
        break;
      }
      case format::Action::Collective: {
        const format::Collective& c = *instruction.action_as_Collective();
        bound_.controls[step.control].bytes = size_at(c.bytes_size(), static_cast<int64_t>(c.bytes()), table_);
        break;
      }
      case format::Action::Send: {
        const format::Send& s = *instruction.action_as_Send();
        bound_.controls[step.control].bytes = size_at(s.bytes_size(), static_cast<int64_t>(s.bytes()), table_);
        break;
      }
      case format::Action::Recv: {
        const format::Recv& r = *instruction.action_as_Recv();
        bound_.controls[step.control].bytes = size_at(r.bytes_size(), static_cast<int64_t>(r.bytes()), table_);
        break;
      }
      case format::Action::Transfer:
        bound_.controls[step.control].bytes = static_cast<int64_t>(instruction.action_as_Transfer()->bytes());
        break;
      case format::Action::Call:
        for (Control::Moving& m : bound_.controls[step.control].moving) m.stride = size_at(m.size, m.stride, table_);
        break;
      case format::Action::Debug: {
        const format::Debug& debug = *instruction.action_as_Debug();
        std::vector<std::vector<int64_t>>& shapes = bound_.controls[step.control].shapes;
        for (uint32_t i = 0; i < shapes.size(); ++i)
          if (const auto* sizes = debug.tensors()->Get(i)->sizes(); sizes != nullptr && sizes->size() > 0)
            for (uint32_t d = 0; d < sizes->size(); ++d) shapes[i][d] = size_at(sizes->Get(d), shapes[i][d], table_);
        break;
      }
      default:
        break;
    }
    return Ok{};
  }

  void launch(const format::Launch& launch, Step& step) {
    step.units = size_at(launch.units_size(), launch.units(), table_);
    step.max_threads = launch.max_threads();
    // The bound on threads is what pays at the largest size.
    if (step.units < launch.units() && step.max_threads > 1)
      step.max_threads = static_cast<int32_t>(
          std::max<int64_t>(1, (step.max_threads * step.units + launch.units() - 1) / launch.units()));
    if (launch.extents() != nullptr)
      for (uint32_t size : *launch.extents()) bound_.extents.push_back(table_[size]);
    step.extents = static_cast<uint32_t>(bound_.extents.size()) - step.first_extent;
    step.first_blocks = static_cast<uint32_t>(bound_.blocks.size());
    if (const auto* grids = program_.kernels()->Get(launch.kernel())->grids(); grids != nullptr)
      for (const format::Grid* grid : *grids) {
        int64_t blocks = size_at(grid->blocks_size(), grid->blocks(), table_);
        if (!grid->exact()) blocks = std::max(blocks, size_at(grid->blocks_size(), grid->blocks(), bucket_));
        bound_.blocks.push_back(blocks);
      }
  }

  Status bind_gemm(const format::Gemm& gemm, Step& step) {
    device::GemmSpec spec = spec_of(gemm, table_), wide = spec_of(gemm, bucket_);
    if (may_write_beyond(*gemm.c()) && extends(spec, wide)) spec = wide;
    step.library = NABLA_TRY(binder_.engine.gemm(spec, gemm.fallback() != nullptr));
    if (step.library == nullptr) launch_instead(gemm, step);
    return Ok{};
  }

  Status bind_convolution(const format::Convolution& c, Step& step) {
    ConvolutionSpec spec = spec_of(c, table_), wide = spec_of(c, bucket_);
    const format::Address& out = spec.kind == ConvolutionKind::kForward ? *c.output() : *c.input();
    if (may_write_beyond(out) && extends(spec, wide)) spec = wide;
    step.library = NABLA_TRY(binder_.engine.convolution(spec, c.fallback() != nullptr));
    if (step.library == nullptr) launch_instead(c, step);
    return Ok{};
  }

  // The slots of the fallback stand after those of the call.
  template <class Call>
  void launch_instead(const Call& call, Step& step) {
    const format::Launch& other = *call.fallback();
    step.kernel = binder_.engine.kernel(other.kernel());
    step.first_slot += static_cast<uint32_t>(format::addresses_of_call(call).size());
    step.args = other.args() == nullptr ? 0 : other.args()->size();
    launch(other, step);
  }

  // ---- The trace

  TraceRecorder::Label label(const format::Instruction& instruction, const Step& step) const {
    TraceRecorder::Label out{.name = view(instruction.label()), .category = "copy"};
    if (step.control >= 0) out.category = "control";
    if (format::communicates(instruction) || instruction.action_as_Wait()) out.category = "comm";
    if (instruction.action_as_Transfer() || (instruction.action_as_Wait() && for_gpu())) out.category = "transfer";
    if (step.kernel != nullptr) out.category = "kernel";
    if (step.library != nullptr) out.category = "library";
    if (const auto* locations = program_.locations();
        locations != nullptr && instruction.location() < locations->size()) {
      const format::Location& location = *locations->Get(instruction.location());
      out.file = view(location.file()), out.line = location.line(), out.text = view(location.text());
    }
    bool problem = instruction.action_as_Gemm() != nullptr || instruction.action_as_Convolution() != nullptr;
    for (const Operand& o : operands_of(program_, instruction, table_, step.kernel != nullptr)) {
      if (problem && o.dtype == DType::kU8) continue;  // scratch
      out.bytes += static_cast<double>(o.bytes);
      if (o.dtype == DType::kF64) out.dtype = o.dtype;
    }
    if (const format::Launch* launch = instruction.action_as_Launch()) {
      out.flops = static_cast<double>(size_at(launch->flops_size(), static_cast<int64_t>(launch->flops()), table_));
      // A kernel may read a part of an array alone. Older compilers did not tell.
      if (launch->bytes() > 0)
        out.bytes = static_cast<double>(size_at(launch->bytes_size(), static_cast<int64_t>(launch->bytes()), table_));
    }
    auto add_problem = [&](const auto& spec) {
      out.problem = spec.key() + " by " + (step.library != nullptr ? spec.implementation : "generated code");
      out.flops = spec.flops(), out.dtype = spec.dtype;
    };
    if (const format::Gemm* gemm = instruction.action_as_Gemm()) add_problem(spec_of(*gemm, table_));
    if (const format::Convolution* c = instruction.action_as_Convolution()) add_problem(spec_of(*c, table_));
    return out;
  }

  /// Is what lies after an array's rows, up to its bound, nobody else's? Not in a state leaf, and not where a loop
  /// stacks results.
  bool may_write_beyond(const format::Address& to) const {
    if (to.terms() != nullptr && to.terms()->size() > 0) return false;
    if (to.base() == format::BaseKind::Arena) return to.offset() >= program_.state_bytes();
    return to.base() == format::BaseKind::Output;
  }

  /// Libraries of GPUs choose algorithms by where operands lie, and bound their scratch memory by themselves.
  bool for_gpu() const { return program_.compute() > 0; }

  device::GemmSpec spec_of(const format::Gemm& gemm, const std::vector<int64_t>& table) const {
    device::GemmSpec spec{format::problem_of(gemm), std::string(view(gemm.implementation()))};
    if (uint32_t i = 0; format::size_of(gemm.sizes()) > 0)
      spec.for_each_size([&](int64_t& size) { size = size_at(gemm.sizes()->Get(i++), size, table); });
    if (!for_gpu()) return spec;
    spec.workspace_bytes = gemm.workspace() == nullptr ? 0 : static_cast<int64_t>(gemm.workspace()->bytes());
    spec.alignment = alignment_of_call(gemm);
    return spec;
  }

  template <class Call>
  int64_t alignment_of_call(const Call& call) const {
    int64_t out = kMostAlignment;
    format::for_each_address(roles_of(call), call, [&](std::string_view role, const format::Address* address) {
      if (address != nullptr && role != "workspace") out = std::min(out, alignment_of(*address));
    });
    return out;
  }

  /// Of what lies there at every count of the loops around it; bases are aligned to more.
  int64_t alignment_of(const format::Address& address) const {
    uint64_t bits = address.offset();
    for (uint32_t t = 0; address.terms() != nullptr && t < address.terms()->size(); ++t) {
      bool refers = address.stride_sizes() != nullptr && address.stride_sizes()->size() > 0;
      int64_t stride = address.terms()->Get(t)->stride();
      bits |= static_cast<uint64_t>(size_at(refers ? address.stride_sizes()->Get(t) : 0, stride, table_));
    }
    return bits == 0 ? kMostAlignment : std::min<int64_t>(kMostAlignment, static_cast<int64_t>(bits & -bits));
  }

  ConvolutionSpec spec_of(const format::Convolution& c, const std::vector<int64_t>& table) const {
    ConvolutionSpec spec = format::problem_of(c);
    spec.input_shape[0] = spec.output_shape[0] = size_at(c.batch_size(), spec.input_shape[0], table);
    spec.workspace_bytes = c.workspace() == nullptr ? 0 : c.workspace()->bytes();
    spec.implementation = view(c.implementation());
    if (!for_gpu()) return spec;
    spec.alignment = alignment_of_call(c);
    return spec;
  }

  const format::Program& program_;
  const std::vector<int64_t>& table_;
  const std::vector<int64_t>& bucket_;
  const Binder& binder_;
  Bound& bound_;
};

}  // namespace

bool Plan::serves(const std::vector<int64_t>& values) const {
  for (size_t i = 0; i < fixed.size(); ++i)
    if (fixed[i] >= 0 && fixed[i] != values[i]) return false;
  return true;
}

void Plan::patch(const void* const* inputs, void* const* outputs) {
  for (const Patch& patch : input_patches)
    slots[patch.slot] = static_cast<char*>(const_cast<void*>(inputs[patch.index])) + patch.offset;
  for (const Patch& patch : output_patches) slots[patch.slot] = static_cast<char*>(outputs[patch.index]) + patch.offset;
}

EntryPlan plan_entry(const format::Program& program, const format::Entry& entry, const Binder& binder) {
  EntryPlan out;
  auto add = [&](const auto* instructions, std::vector<int64_t> fixed) {
    Planner planner(program, binder);
    planner.plan.top_steps = planner.add_all(instructions).last;
    planner.plan.fixed = std::move(fixed);
    out.plans.push_back(std::move(planner.plan));
  };
  if (entry.variants() != nullptr)
    for (const format::Variant* variant : *entry.variants()) add(variant->instructions(), list(variant->values()));
  add(entry.instructions(), {});
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
  StepBinder::Tables tables;
  tables.exact = NABLA_TRY(sizes.evaluate(values));
  const std::vector<int64_t>& table = tables.exact;
  tuple.bound->values = values;
  tuple.bound->bucket = values;
  tables.bucket = tables.exact;
  if (binder.engine.shares_launches()) {
    std::vector<int64_t> bucket = sizes.bucket(values);
    // Bounds that cannot be together may have no table.
    if (auto at_bucket = sizes.evaluate(bucket); at_bucket.ok())
      tuple.bound->bucket = std::move(bucket), tables.bucket = std::move(*at_bucket);
  }
  tuple.bound->output_shapes = sizes.output_shapes(table);
  tuple.bound->input_bytes = sizes.input_bytes(table);
  tuple.bound->output_bytes = sizes.output_bytes(table);
  (void)NABLA_TRY(StepBinder(sizes.program(), tables, binder, *tuple.bound).run(*tuple.plan));
  (void)NABLA_TRY(binder.engine.bind(*tuple.plan, *tuple.bound));
  if (plan.tuples.size() == EntryPlan::kMaxTuples) plan.tuples.erase(plan.tuples.begin());
  plan.tuples.push_back(std::move(tuple));
  plan.current = &plan.tuples.back();
  return Ok{};
}

}  // namespace nabla::exec
