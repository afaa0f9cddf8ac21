#include "runtime/exec/session.h"

#include <algorithm>
#include <cstdio>

#include "runtime/base/option_error.h"
#include "runtime/device/pool.h"
#include "runtime/exec/choose_program.h"
#include "runtime/exec/merged_trace.h"
#include "runtime/exec/session_impl.h"
#include "runtime/format/program_check.h"

namespace nabla::exec {
namespace {

// Nobody answers a rank that runs alone.
Status check_alone(const format::Program& program, const std::string& rank_class, const std::string& what) {
  for (const format::Instructions* list : format::instructions_of(program))
    for (const format::Instruction* at : *list) {
      if (!format::communicates(*at)) continue;
      Diagnostic d = error(Code::kNeedsPeers, "{}: ranks of class `{}` communicate with others: `{}`", what, rank_class,
                           format::view(at->label()));
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
    return option_error(fmt::format("give 1 to {}, or 0 for as many as there are CPUs", device::ThreadPool::kMaxThreads),
                        "{} threads; at most {}", options.threads, device::ThreadPool::kMaxThreads);
  bool together = bundle.ranks() != nullptr && options.rank_class.empty();
  std::unique_ptr<Session> session(new Session(std::make_unique<Impl>(std::move(bundle))));
  Impl& impl = *session->impl_;
  impl.trace = options.trace, impl.traces_together = options.traces_together, impl.profiled = options.profile;
  if (together) {
    impl.team = NABLA_TRY(RankTeam::create(impl.bundle, options));
    session->entries_ = impl.team->entries();
    session->leaves_ = impl.team->leaves();
    session->pieces_ = impl.team->pieces();
  } else {
    // Before anything is allocated or started for a program that cannot run here.
    const format::BundleClass& of = *NABLA_TRY(impl.bundle.need_class(options.rank_class));
    Chosen chosen = NABLA_TRY(choose_program(impl.bundle, of, options.target));
    if (!chosen.skipped.empty()) std::fprintf(stderr, "%s\n", chosen.skipped.c_str());
    (void)NABLA_TRY(check_alone(*chosen.program, of.name, impl.bundle.what()));
    impl.alone = NABLA_TRY(Rank::create(impl.bundle, chosen, options, {}));
    session->entries_ = impl.alone->entries();
    session->leaves_ = impl.alone->leaves();
    for (size_t i = 0; i < session->leaves_.size(); ++i) session->pieces_.push_back(whole_piece(static_cast<int>(i), session->leaves_[i]));
  }
  session->has_value_.assign(session->leaves_.size(), 0);
  return session;
}

Session::~Session() {
  if (!impl_->has_spans()) return;  // an error came before anything ran: perhaps that the file cannot be written
  if (Status status = impl_->write_trace(false); !status.ok()) std::fputs(to_string(status.errors()).c_str(), stderr);
}

std::vector<ExchangeCount> Session::exchanges() const {
  return impl_->team ? impl_->team->exchanges() : std::vector<ExchangeCount>();
}

Profile Session::profile() {
  Rank& rank = impl_->first();
  NABLA_CHECK(rank.trace() != nullptr && impl_->profiled, "a session without a profile");
  return profile_of(*rank.trace(), rank.measured());
}

Status Session::finish() { return impl_->write_trace(impl_->traces_together); }

bool Session::Impl::has_spans() const {
  return (alone || team) && first().trace() != nullptr && !first().trace()->spans().empty();
}

// Not `together`: what this process has, where it is the one that writes.
Status Session::Impl::write_trace(bool together) {
  if (!alone && !team) return Ok{};  // create has failed
  std::unique_ptr<TraceRecorder> recorder = trace.empty() ? nullptr : std::move(first().trace());
  if (recorder == nullptr) return Ok{};
  std::string more;
  if (profiled) more = fmt::format("\"profile\": {}, ", json(profile_of(*recorder, first().measured())));
  if (!team) return format::write_file(trace, recorder->json(more));
  const uint32_t own = team->here()[0];
  const bool all_here = team->here().size() == team->count();
  if (traces_together && own != 0 && !together) return Ok{};
  recorder->note(all_here || together ? team->str() : fmt::format("rank {} of {}", own, team->str()));
  if (together && !all_here) {
    auto pass = [&](uint32_t from, uint32_t to, void* data, uint64_t bytes) { return team->pass(from, to, data, bytes); };
    std::optional<std::string> merged = NABLA_TRY(merged_trace(*recorder, own, team->count(), pass, more));
    return merged ? format::write_file(trace, *merged) : Ok{};
  }
  std::vector<Track> tracks;
  for (uint32_t r : team->here())
    tracks.push_back({r == own ? recorder.get() : team->rank(r).trace().get(), fmt::format("rank {}", r)});
  return format::write_file(trace, trace_json(tracks, more));
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
  return error(Code::kUnknownEntry, "{} has no entry `{}`; its entries are {}{}", impl_->bundle.what(), name, list,
               did_you_mean(name, known));
}

std::string_view Session::target() const { return format::view(impl_->first().program().target()); }
uint64_t Session::arena_bytes() const { return impl_->first().program().arena_bytes(); }
uint64_t Session::state_bytes() const { return impl_->first().program().state_bytes(); }
int Session::threads() const { return impl_->first().engine().threads(); }
bool Session::alone() const { return !impl_->team || impl_->team->here().size() == impl_->team->count(); }
std::pair<int64_t, int64_t> Session::rows_here(int entry, int input) const {
  return impl_->team ? impl_->team->rows_here(entry, input) : std::pair(int64_t{0}, INT64_MAX);
}
bool Session::first() const { return !impl_->team || impl_->team->here()[0] == 0; }
std::string Session::team() const { return impl_->team ? impl_->team->str() : ""; }

Diagnostic Session::state_missing(int entry) const {
  const EntryInfo& e = entries_[entry];
  auto leaf = std::find_if(e.reads.begin(), e.reads.end(), [&](int l) { return !has_value_[l]; });
  return error(Code::kStateMissing, "entry `{}` reads state `{}`, which has no value yet", e.name, leaves_[*leaf].name);
}

Status Session::set_shapes(int entry, std::span<const int64_t* const> shapes) {
  return impl_->team ? impl_->team->set_shapes(entry, shapes) : impl_->alone->set_shapes(entry, shapes);
}

const std::vector<int64_t>& Session::output_shape(int entry, int output) const {
  return impl_->team ? impl_->team->output_shape(entry, output) : impl_->alone->output_shape(entry, output);
}

bool Session::loops(int entry) const { return impl_->team ? impl_->team->loops(entry) : impl_->alone->loops(entry); }

Status Session::run(int entry, std::span<const void* const> inputs, std::span<void* const> outputs) {
  const EntryInfo& e = entries_[entry];
  NABLA_CHECK(inputs.size() == e.inputs.size() && outputs.size() == e.outputs.size(), "entry {} takes {} and {} arrays",
              e.name, e.inputs.size(), e.outputs.size());
  for (int leaf : e.reads)
    if (!has_value_[leaf]) return state_missing(entry);
  Status ran = impl_->team ? impl_->team->run(entry, inputs, outputs) : impl_->alone->run(entry, inputs, outputs);
  if (!ran.ok()) return ran;
  for (int leaf : e.writes) has_value_[leaf] = 1;
  return Ok{};
}

Status Session::collect(int entry, std::span<void* const> outputs) {
  return impl_->team ? impl_->team->collect(entry, outputs) : Ok{};
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
  (void)NABLA_TRY(collect(entry, out));
  return results;
}

}  // namespace nabla::exec
