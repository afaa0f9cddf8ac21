#include "runtime/exec/rank.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/option_error.h"
#include "runtime/base/option_name.h"
#include "runtime/format/program_check.h"

namespace nabla::exec {
namespace {

TensorInfo info_of(const format::Tensor& tensor) {
  TensorInfo out;
  out.name = format::view(tensor.name());
  out.dtype = dtype_of(tensor.dtype());
  if (tensor.shape() != nullptr) out.shape.assign(tensor.shape()->begin(), tensor.shape()->end());
  if (tensor.sizes() != nullptr && tensor.sizes()->size() > 0)
    for (uint32_t d = 0; d < tensor.sizes()->size(); ++d)
      out.sizes.emplace_back(tensor.sizes()->Get(d) == 0 ? std::string_view() : format::view(tensor.symbols()->Get(d)));
  return out;
}

std::vector<TensorInfo> infos_of(const flatbuffers::Vector<flatbuffers::Offset<format::Tensor>>* tensors) {
  std::vector<TensorInfo> out;
  if (tensors != nullptr)
    for (const format::Tensor* tensor : *tensors) out.push_back(info_of(*tensor));
  return out;
}

EntryInfo info_of(const format::Entry& entry, const format::Program& program) {
  EntryInfo out;
  out.name = entry.name()->str();
  out.inputs = infos_of(entry.inputs());
  out.outputs = infos_of(entry.outputs());
  if (entry.reads() != nullptr) out.reads.assign(entry.reads()->begin(), entry.reads()->end());
  if (entry.writes() != nullptr) out.writes.assign(entry.writes()->begin(), entry.writes()->end());
  out.flops = entry.flops();
  out.bytes = entry.bytes();
  out.predicted_us = entry.predicted_us();
  if (entry.sources() != nullptr)
    for (const format::SymbolSource* source : *entry.sources()) {
      const format::Symbol& s = *program.symbols()->Get(source->symbol());
      out.symbols.push_back({std::string(format::view(s.name())), s.min(), s.max(), s.multiple()});
    }
  return out;
}

}  // namespace

std::vector<EntryInfo> entries_of(const format::Program& program) {
  std::vector<EntryInfo> out;
  if (program.entries() != nullptr)
    for (const format::Entry* entry : *program.entries()) out.push_back(info_of(*entry, program));
  return out;
}

std::vector<TensorInfo> leaves_of(const format::Program& program) {
  std::vector<TensorInfo> out;
  if (program.state() != nullptr)
    for (const format::StateLeaf* leaf : *program.state()) out.push_back(info_of(*leaf->tensor()));
  return out;
}

Result<std::unique_ptr<Rank>> Rank::create(const format::Bundle& bundle, const Chosen& chosen,
                                           const SessionOptions& options, RankPlace place) {
  if (options.sync_debug && !chosen.gpu)
    return option_error("leave it out", "sync-debug is for GPUs; the program for {} runs every instruction to its end",
                        format::view(chosen.program->target()));
  comm::StreamCommunicator* stream = place.peers == nullptr ? nullptr : place.peers->on_stream();
  if (stream != nullptr && !chosen.gpu) {
    Diagnostic d = error(Code::kBadOption, "the ranks exchange values from GPU to GPU, and {} runs its program for {}, which is for CPUs",
                         bundle.what(), format::view(chosen.program->target()));
    d.help = fmt::format("compile it for GPUs ({}), or run it with {}", OptionName{"target", "sm_90a"}, OptionName{"engine", "mpi"});
    return d;
  }
  EngineOptions engine{options.threads, options.pin_caller, options.sync_debug, stream};
  std::unique_ptr<Rank> rank(new Rank(*chosen.program, options, std::move(place)));
  rank->engine_ = NABLA_TRY(chosen.gpu ? make_gpu_engine(bundle, *chosen.program, *chosen.gpu, engine)
                                       : make_cpu_engine(bundle, *chosen.program, engine));
  (void)NABLA_TRY(rank->prepare(bundle));
  return rank;
}

Status Rank::prepare(const format::Bundle& bundle) {
  leaves_ = leaves_of(program_), entries_ = entries_of(program_);
  bool profiled = place_.first && options_.profile;
  if (profiled || !options_.trace.empty())
    trace_ = std::make_unique<TraceRecorder>(options_.trace.empty() ? TraceRecorder::kMaxSpans : TraceRecorder::kMaxSpans / place_.here);
  if (options_.check_nan) {
    (void)NABLA_TRY(check_operands_known(program_, bundle.what()));
    check_ = std::make_unique<NanCheck>(*engine_);
  }
  if (program_.entries() == nullptr) return Ok{};
  for (const format::Entry* entry : *program_.entries()) {
    plans_.push_back(plan_entry(program_, *entry, binder()));
    // At the bounds: what the machine lacks shows now, and library calls reserve their largest scratch. At other
    // bounds of buckets too, as only calls that are known now are measured.
    EntrySizes known = sizes(static_cast<int>(plans_.size()) - 1);
    std::vector<std::vector<int64_t>> bounds = {known.largest()};
    if (engine_->shares_launches()) bounds = known.declared_buckets();
    for (const std::vector<int64_t>& values : bounds)
      (void)NABLA_TRY(bind_entry(plans_.back(), known, values, binder()));
  }
  return Ok{};
}

Status Rank::set_shapes(int entry, std::span<const int64_t* const> shapes) {
  EntrySizes known = sizes(entry);
  Status solved = known.solve(shapes, values_);
  if (!solved.ok()) return solved;
  EntryPlan& plan = plans_[entry];
  if (plan.current->bound->values == values_) return Ok{};
  return bind_entry(plan, known, values_, binder());
}

Status Rank::run(int entry, std::span<const void* const> inputs, std::span<void* const> outputs) {
  const EntryInfo& e = entries_[entry];
  EntryPlan& plan = plans_[entry];
  const EntryPlan::Tuple& tuple = *plan.current;
  return engine_->run({.entry = entry,
                       .name = e.name,
                       .count = ++plan.runs,
                       .plan = *tuple.plan,
                       .bound = *tuple.bound,
                       .inputs = inputs.data(),
                       .outputs = outputs.data(),
                       .trace = trace_.get(),
                       .check = check_.get(),
                       .peers = place_.peers,
                       .debug = place_.first,
                       .stop = options_.stop,
                       .stop_all_loops = options_.stop_all_loops || e.writes.empty()});
}

bool Rank::loops(int entry) const {
  const std::vector<Control>& controls = plans_[entry].current->bound->controls;
  return std::any_of(controls.begin(), controls.end(), [](const Control& c) {
    return c.kind == Control::Kind::kLoop || c.kind == Control::Kind::kWhile;
  });
}

const device::Limits& Rank::measured() {
  if (!limits_) limits_ = engine_->limits();
  return *limits_;
}

// Straight into the rank's memory where the CPU can write there. What no piece has is padding, and becomes zero.
Status fill_leaf(Rank& rank, int leaf, const Box& box, std::span<const StateView> pieces) {
  const TensorInfo& info = rank.leaves()[static_cast<size_t>(leaf)];
  int64_t element = bytes_of(info.dtype);
  std::optional<Literal> room;
  bool direct = rank.engine().host_memory();
  if (!direct) room.emplace(info.dtype, info.shape);
  char* to = direct ? rank.leaf_data(leaf) : static_cast<char*>(room->mutable_data());
  auto bytes = static_cast<size_t>(count_of(info.shape) * element);
  if (direct) std::memset(to, 0, bytes);
  for (const StateView& piece : pieces) copy_overlap({piece.begin, piece.extent}, piece.data, box, to, element);
  return direct ? Status(Ok{}) : rank.engine().upload(rank.leaf_data(leaf), to, bytes);
}

}  // namespace nabla::exec
