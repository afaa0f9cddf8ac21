#include "runtime/exec/session.h"

#include <algorithm>
#include <cstdio>

#include "runtime/device/pool.h"
#include "runtime/exec/choose_program.h"
#include "runtime/exec/session_impl.h"
#include "runtime/format/program_check.h"

namespace nabla::exec {
namespace {

std::string text_of(const flatbuffers::String* text) { return text == nullptr ? std::string() : text->str(); }

TensorInfo info_of(const format::Tensor& tensor) {
  TensorInfo out;
  out.name = text_of(tensor.name());
  out.dtype = dtype_of(tensor.dtype());
  if (tensor.shape() != nullptr) out.shape.assign(tensor.shape()->begin(), tensor.shape()->end());
  if (tensor.sizes() != nullptr && tensor.sizes()->size() > 0)
    for (uint32_t d = 0; d < tensor.sizes()->size(); ++d)
      out.sizes.push_back(tensor.sizes()->Get(d) == 0 ? "" : text_of(tensor.symbols()->Get(d)));
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
  if (entry.sources() != nullptr)
    for (const format::SymbolSource* source : *entry.sources()) {
      const format::Symbol& s = *program.symbols()->Get(source->symbol());
      out.symbols.push_back({text_of(s.name()), s.min(), s.max(), s.multiple()});
    }
  return out;
}

// This runtime runs one rank, which nobody answers.
Status check_alone(const format::Program& program, const std::string& rank_class, const std::string& what) {
  for (const format::Instructions* list : format::instructions_of(program))
    for (const format::Instruction* at : *list) {
      bool communicates = at->action_as_Collective() || at->action_as_Send() || at->action_as_Recv();
      if (!communicates) continue;
      Diagnostic d = error(Code::kNeedsPeers, "{}: ranks of class `{}` communicate with others: `{}`", what, rank_class,
                           text_of(at->label()));
      d.location = location_of(program, *at);
      return d;
    }
  return Ok{};
}

}  // namespace

std::string TensorInfo::type_str() const {
  if (is_static()) return fmt::format("{}{}", name_of(dtype), shape_str(shape));
  std::string out;
  for (size_t d = 0; d < shape.size(); ++d)
    out += (d ? "," : "") + (sizes[d].empty() ? std::to_string(shape[d]) : sizes[d]);
  return fmt::format("{}[{}]", name_of(dtype), out);
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Session>> Session::open(const std::string& path, const SessionOptions& options) {
  return create(NABLA_TRY(format::Bundle::open(path)), options);
}

Result<std::unique_ptr<Session>> Session::create(format::Bundle bundle, const SessionOptions& options) {
  if (options.threads < 0 || options.threads > device::ThreadPool::kMaxThreads)
    return error(Code::kBadOption, "{} threads; at most {}", options.threads, device::ThreadPool::kMaxThreads);
  // Before anything is allocated or started for a program that cannot run here.
  const format::BundleClass& of = *NABLA_TRY(bundle.need_class(options.rank_class));
  Chosen chosen = NABLA_TRY(choose_program(bundle, of, options.target));
  if (!chosen.skipped.empty()) std::fprintf(stderr, "%s\n", chosen.skipped.c_str());
  if (options.sync_debug && !chosen.gpu)
    return error(Code::kBadOption, "sync-debug is for GPUs; the program for {} runs every instruction to its end",
                 text_of(chosen.program->target()));
  (void)NABLA_TRY(check_alone(*chosen.program, of.name, bundle.what()));
  std::unique_ptr<Session> session(new Session(std::make_unique<Impl>(std::move(bundle), options)));
  Impl& impl = *session->impl_;
  impl.program = chosen.program;
  EngineOptions engine{options.threads, options.pin_caller, options.sync_debug};
  impl.engine = NABLA_TRY(chosen.gpu ? make_gpu_engine(impl.bundle, *impl.program, *chosen.gpu, engine)
                                     : make_cpu_engine(impl.bundle, *impl.program, engine));
  (void)NABLA_TRY(session->prepare());
  return session;
}

Status Session::prepare() {
  Impl& impl = *impl_;
  const format::Program& program = *impl.program;
  if (program.state() != nullptr)
    for (const format::StateLeaf* leaf : *program.state()) leaves_.push_back(info_of(*leaf->tensor()));
  has_value_.assign(leaves_.size(), 0);
  if (!impl.options.trace.empty() || impl.options.profile) impl.trace = std::make_unique<TraceRecorder>();
  if (impl.options.check_nan) {
    (void)NABLA_TRY(check_operands_known(program, impl.bundle.what()));
    impl.check = std::make_unique<NanCheck>(*impl.engine);
  }
  Binder binder = impl.binder();
  if (program.entries() != nullptr)
    for (const format::Entry* entry : *program.entries()) {
      entries_.push_back(info_of(*entry, program));
      impl.plans.push_back(plan_entry(program, *entry, binder));
      // At the bounds: what the machine lacks shows now, and library calls reserve their largest scratch. At other
      // bounds of buckets too, as only calls that are known now are measured.
      EntrySizes sizes(program, *entry);
      std::vector<std::vector<int64_t>> bounds = {sizes.largest()};
      if (impl.engine->shares_launches()) bounds = sizes.declared_buckets();
      for (const std::vector<int64_t>& values : bounds)
        (void)NABLA_TRY(bind_entry(impl.plans.back(), sizes, values, binder));
    }
  return Ok{};
}

Session::~Session() {
  if (Status status = finish(); !status.ok()) std::fputs(to_string(status.errors()).c_str(), stderr);
}

Profile Session::profile() {
  NABLA_CHECK(impl_->trace != nullptr && impl_->options.profile, "a session without a profile");
  return profile_of(*impl_->trace, impl_->measured());
}

Status Session::finish() {
  if (impl_->trace == nullptr || impl_->options.trace.empty()) return Ok{};
  std::string more;
  if (impl_->options.profile)
    more = fmt::format("\"profile\": {}, ", json(profile()));
  std::unique_ptr<TraceRecorder> trace = std::move(impl_->trace);
  return format::write_file(impl_->options.trace, trace->json(more));
}

int Session::find_entry(std::string_view name) const {
  for (size_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].name == name) return static_cast<int>(i);
  return -1;
}

Result<int> Session::need_entry(std::string_view name) const {
  int entry = find_entry(name);
  if (entry >= 0) return entry;
  std::vector<std::string> known;
  std::string list;
  for (const EntryInfo& e : entries_) {
    known.push_back(e.name);
    list += fmt::format("{}`{}`", list.empty() ? "" : ", ", e.name);
  }
  return error(Code::kUnknownEntry, "{} has no entry `{}`{}; its entries are {}", impl_->bundle.what(), name,
               did_you_mean(name, known), list);
}

std::string_view Session::target() const {
  const flatbuffers::String* target = impl_->program->target();
  return target == nullptr ? std::string_view() : std::string_view(target->c_str(), target->size());
}
uint64_t Session::arena_bytes() const { return impl_->program->arena_bytes(); }
uint64_t Session::state_bytes() const { return impl_->program->state_bytes(); }
int Session::threads() const { return impl_->engine->threads(); }

Diagnostic Session::state_missing(int entry) const {
  const EntryInfo& e = entries_[entry];
  auto leaf = std::find_if(e.reads.begin(), e.reads.end(), [&](int l) { return !has_value_[l]; });
  return error(Code::kStateMissing, "entry `{}` reads state `{}`, which has no value yet", e.name, leaves_[*leaf].name);
}

Status Session::set_shapes(int entry, std::span<const int64_t* const> shapes) {
  Impl& impl = *impl_;
  EntrySizes sizes(*impl.program, *impl.program->entries()->Get(entry));
  Status solved = sizes.solve(shapes, impl.values);
  if (!solved.ok()) return solved;
  EntryPlan& plan = impl.plans[entry];
  if (plan.current->bound->values == impl.values) return Ok{};
  return bind_entry(plan, sizes, impl.values, impl.binder());
}

const std::vector<int64_t>& Session::output_shape(int entry, int output) const {
  return impl_->plans[entry].current->bound->output_shapes[output];
}

bool Session::loops(int entry) const {
  const std::vector<Control>& controls = impl_->plans[entry].current->bound->controls;
  return std::any_of(controls.begin(), controls.end(), [](const Control& c) {
    return c.kind == Control::Kind::kLoop || c.kind == Control::Kind::kWhile;
  });
}

Status Session::run(int entry, std::span<const void* const> inputs, std::span<void* const> outputs) {
  const EntryInfo& e = entries_[entry];
  NABLA_CHECK(inputs.size() == e.inputs.size() && outputs.size() == e.outputs.size(), "entry {} takes {} and {} arrays",
              e.name, e.inputs.size(), e.outputs.size());
  for (int leaf : e.reads)
    if (!has_value_[leaf]) return state_missing(entry);
  EntryPlan& plan = impl_->plans[entry];
  const EntryPlan::Tuple& tuple = *plan.current;
  Status ran = impl_->engine->run({.entry = entry,
                                   .name = e.name,
                                   .count = ++plan.runs,
                                   .plan = *tuple.plan,
                                   .bound = *tuple.bound,
                                   .inputs = inputs.data(),
                                   .outputs = outputs.data(),
                                   .trace = impl_->trace.get(),
                                   .check = impl_->check.get(),
                                   .stop = impl_->options.stop,
                                   .stop_all_loops = impl_->options.stop_all_loops || e.writes.empty()});
  if (!ran.ok()) return ran;
  for (int leaf : e.writes) has_value_[leaf] = 1;
  return Ok{};
}

Result<std::vector<Literal>> Session::call(int entry, const std::vector<Literal>& inputs) {
  const EntryInfo& e = entries_[entry];
  if (inputs.size() != e.inputs.size())
    return error(Code::kInputMissing, "entry `{}` takes {} inputs, {} were given", e.name, e.inputs.size(),
                 inputs.size());
  std::vector<const void*> in;
  std::vector<const int64_t*> shapes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorInfo& want = e.inputs[i];
    TensorInfo got{want.name, inputs[i].dtype(), inputs[i].shape(), {}};
    bool fits = want.is_static() ? got.shape == want.shape : got.shape.size() == want.shape.size();
    if (!fits || got.dtype != want.dtype)
      return error(fits ? Code::kInputDType : Code::kInputShape, "input `{}` of entry `{}` is {}; {} was given",
                   want.name, e.name, want.type_str(), got.type_str());
    in.push_back(inputs[i].data());
    shapes.push_back(inputs[i].shape().data());
  }
  (void)NABLA_TRY(set_shapes(entry, shapes));
  std::vector<Literal> results;
  std::vector<void*> out;
  for (size_t i = 0; i < e.outputs.size(); ++i)
    results.emplace_back(e.outputs[i].dtype, output_shape(entry, static_cast<int>(i)));
  for (Literal& result : results) out.push_back(result.mutable_data());
  (void)NABLA_TRY(run(entry, in, out));
  return results;
}

}  // namespace nabla::exec
