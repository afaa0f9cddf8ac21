#include "runtime/exec/session.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "runtime/device/cpu.h"
#include "runtime/exec/session_impl.h"
#include "runtime/format/bundle_writer.h"

namespace nabla::exec {
namespace {

std::string text_of(const flatbuffers::String* text) { return text == nullptr ? std::string() : text->str(); }

TensorInfo info_of(const format::Tensor& tensor) {
  TensorInfo out;
  out.name = text_of(tensor.name());
  out.dtype = dtype_of(tensor.dtype());
  if (tensor.shape() != nullptr) out.shape.assign(tensor.shape()->begin(), tensor.shape()->end());
  return out;
}

std::vector<TensorInfo> infos_of(const flatbuffers::Vector<flatbuffers::Offset<format::Tensor>>* tensors) {
  std::vector<TensorInfo> out;
  if (tensors != nullptr)
    for (const format::Tensor* tensor : *tensors) out.push_back(info_of(*tensor));
  return out;
}

EntryInfo info_of(const format::Entry& entry) {
  EntryInfo out;
  out.name = entry.name()->str();
  out.inputs = infos_of(entry.inputs());
  out.outputs = infos_of(entry.outputs());
  if (entry.reads() != nullptr) out.reads.assign(entry.reads()->begin(), entry.reads()->end());
  if (entry.writes() != nullptr) out.writes.assign(entry.writes()->begin(), entry.writes()->end());
  out.flops = entry.flops();
  out.bytes = entry.bytes();
  return out;
}

Status check_cpu(const format::Program& program, const std::string& what) {
  std::string missing;
  if (program.cpu_features() != nullptr)
    for (const flatbuffers::String* feature : *program.cpu_features())
      if (!device::cpu_has(feature->str())) missing += (missing.empty() ? "" : ", ") + feature->str();
  if (missing.empty()) return Ok{};
  return error(Code::kCpuTooOld, "{} was compiled for {}; this CPU has no {}", what, text_of(program.target()),
               missing);
}

Status load_kernels(const format::Bundle& bundle, std::vector<std::unique_ptr<device::KernelObject>>& objects,
                    std::vector<device::KernelFunction>& kernels) {
  std::map<std::string, device::KernelObject*> loaded;
  if (bundle.program().kernels() == nullptr) return Ok{};
  for (const format::Kernel* kernel : *bundle.program().kernels()) {
    std::string name = text_of(kernel->object());
    device::KernelObject*& object = loaded[name];
    if (object == nullptr) {
      objects.push_back(NABLA_TRY(device::KernelObject::load(bundle.member(name), name)));
      object = objects.back().get();
    }
    kernels.push_back(NABLA_TRY(object->find(text_of(kernel->symbol()))));
  }
  return Ok{};
}

/// Opens the program's oneDNN; every other library that it names is unknown to this version.
Result<std::unique_ptr<device::OneDnn>> open_onednn(const format::Program& program, device::ThreadPool& pool) {
  if (program.libraries() != nullptr)
    for (const format::Library* library : *program.libraries())
      if (text_of(library->name()) == "onednn")
        return device::OneDnn::open(text_of(library->soname()), text_of(library->min_version()), pool);
  return error(Code::kCorrupt, "the program calls oneDNN, but does not name it among its libraries");
}

}  // namespace

std::string TensorInfo::type_str() const { return fmt::format("{}{}", name_of(dtype), shape_str(shape)); }

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Session>> Session::open(const std::string& path, const SessionOptions& options) {
  return create(NABLA_TRY(format::Bundle::open(path)), options);
}

Result<std::unique_ptr<Session>> Session::create(format::Bundle bundle, const SessionOptions& options) {
  if (options.threads < 0 || options.threads > device::ThreadPool::kMaxThreads)
    return error(Code::kBadOption, "{} threads; at most {}", options.threads, device::ThreadPool::kMaxThreads);
  // Before anything is allocated or started for a program that cannot run here.
  (void)NABLA_TRY(check_cpu(bundle.program(), bundle.what()));
  std::unique_ptr<Session> session(new Session(std::make_unique<Impl>(std::move(bundle), options)));
  (void)NABLA_TRY(session->prepare());
  return session;
}

Status Session::prepare() {
  Impl& impl = *impl_;
  const format::Program& program = impl.program();
  if (program.libraries() != nullptr)
    for (const format::Library* library : *program.libraries())
      if (text_of(library->name()) != "onednn")
        return error(Code::kMissingLibrary, "{} needs the library `{}`, which this runtime does not know",
                     impl.bundle.what(), text_of(library->name()));
  (void)NABLA_TRY(load_kernels(impl.bundle, impl.objects, impl.kernels));
  impl.arena = NABLA_TRY(Arena::allocate(program.arena_bytes()));
  if (program.state() != nullptr)
    for (const format::StateLeaf* leaf : *program.state()) leaves_.push_back(info_of(*leaf->tensor()));
  has_value_.assign(leaves_.size(), 0);
  if (!impl.options.trace.empty()) impl.trace = std::make_unique<TraceRecorder>();
  Binder binder{.arena = impl.arena.data(),
                .constants = reinterpret_cast<const char*>(impl.bundle.member(format::kConstantsMember).data()),
                .kernels = impl.kernels,
                .onednn = [&]() -> Result<device::OneDnn*> {
                  if (impl.onednn == nullptr) impl.onednn = NABLA_TRY(open_onednn(program, impl.pool));
                  return impl.onednn.get();
                },
                .trace = impl.trace.get()};
  if (program.entries() != nullptr)
    for (const format::Entry* entry : *program.entries()) {
      entries_.push_back(info_of(*entry));
      impl.plans.push_back(NABLA_TRY(bind_entry(program, *entry, binder)));
    }
  return Ok{};
}

Session::~Session() {
  if (Status status = finish(); !status.ok()) std::fputs(to_string(status.errors()).c_str(), stderr);
}

Status Session::finish() {
  if (impl_->trace == nullptr) return Ok{};
  std::unique_ptr<TraceRecorder> trace = std::move(impl_->trace);
  return trace->write(impl_->options.trace);
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
  const flatbuffers::String* target = impl_->program().target();
  return target == nullptr ? std::string_view() : std::string_view(target->c_str(), target->size());
}
uint64_t Session::arena_bytes() const { return impl_->program().arena_bytes(); }
uint64_t Session::state_bytes() const { return impl_->program().state_bytes(); }
int Session::threads() const { return impl_->pool.size(); }

Diagnostic Session::state_missing(int entry) const {
  const EntryInfo& e = entries_[entry];
  auto leaf = std::find_if(e.reads.begin(), e.reads.end(), [&](int l) { return !has_value_[l]; });
  return error(Code::kStateMissing, "entry `{}` reads state `{}`, which has no value yet", e.name, leaves_[*leaf].name);
}

Status Session::run(int entry, std::span<const void* const> inputs, std::span<void* const> outputs) {
  const EntryInfo& e = entries_[entry];
  NABLA_CHECK(inputs.size() == e.inputs.size() && outputs.size() == e.outputs.size(), "entry {} takes {} and {} arrays",
              e.name, e.inputs.size(), e.outputs.size());
  for (int leaf : e.reads)
    if (!has_value_[leaf]) return state_missing(entry);
  int64_t failed = impl_->plans[entry].run(impl_->pool, inputs.data(), outputs.data(), impl_->trace.get());
  if (failed >= 0) {
    const format::Instruction* i = impl_->plans[entry].instructions[failed];
    return error(Code::kMissingLibrary, "entry `{}`: the library call of instruction {} `{}` failed", e.name, failed,
                 text_of(i->label()));
  }
  for (int leaf : e.writes) has_value_[leaf] = 1;
  return Ok{};
}

Result<std::vector<Literal>> Session::call(int entry, const std::vector<Literal>& inputs) {
  const EntryInfo& e = entries_[entry];
  if (inputs.size() != e.inputs.size())
    return error(Code::kInputMissing, "entry `{}` takes {} inputs, {} were given", e.name, e.inputs.size(),
                 inputs.size());
  std::vector<const void*> in;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorInfo& want = e.inputs[i];
    TensorInfo got{want.name, inputs[i].dtype(), inputs[i].shape()};
    if (got.shape != want.shape || got.dtype != want.dtype)
      return error(got.shape != want.shape ? Code::kInputShape : Code::kInputDType,
                   "input `{}` of entry `{}` is {}; {} was given", want.name, e.name, want.type_str(), got.type_str());
    in.push_back(inputs[i].data());
  }
  std::vector<Literal> results;
  std::vector<void*> out;
  for (const TensorInfo& output : e.outputs) results.emplace_back(output.dtype, output.shape);
  for (Literal& result : results) out.push_back(result.mutable_data());
  (void)NABLA_TRY(run(entry, in, out));
  return results;
}

}  // namespace nabla::exec
