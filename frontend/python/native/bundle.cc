#include "frontend/python/native/bundle.h"

#include <csignal>
#include <optional>

#include "frontend/python/native/unlocked.h"
#include "runtime/format/bundle_reader.h"

namespace nabla::python {
namespace {

volatile std::sig_atomic_t interrupted = 0;

// While programs run that may not end by themselves, SIGINT ends their loops too, beside what Python does with it: its
// own handler only notes the signal, for the time when the interpreter runs again. Compilers in other threads set a
// handler as well, and end in any order: what is not this one is left alone, and this one may come back after its end.
class Interruptible {
 public:
  Interruptible() {
    std::lock_guard lock(mutex_);
    if (holders_++ > 0) return;
    interrupted = 0;
    struct sigaction now {};
    sigaction(SIGINT, nullptr, &now);
    bool handled = (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN;
    if (!handled || now.sa_handler == handle) return;
    old_ = now;
    now.sa_handler = handle;
    sigaction(SIGINT, &now, nullptr);
  }
  ~Interruptible() {
    std::lock_guard lock(mutex_);
    if (--holders_ > 0) return;
    struct sigaction now {};
    sigaction(SIGINT, nullptr, &now);
    if ((now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == handle) sigaction(SIGINT, &old_, nullptr);
  }
  Interruptible(const Interruptible&) = delete;

 private:
  static void handle(int signal) {
    interrupted = 1;
    old_.sa_handler(signal);
  }
  static inline std::mutex mutex_;
  static inline int holders_ = 0;
  static inline struct sigaction old_;
};

}  // namespace

void stop_loops() { interrupted = 1; }

std::shared_ptr<Bundle> Bundle::of(format::Bundle file, exec::SessionOptions options, std::shared_ptr<Processes> processes, bool each) {
  options.stop = &interrupted, options.stop_all_loops = true;
  if (processes && file.ranks() == nullptr) {
    if (each) throw Error(error(Code::kRanksDisagree, "{} is for one rank, and {} were started", file.what(), processes->ranks()));
    processes = nullptr;
  }
  if (processes) {
    options.world = processes->world(), options.comm_timeout_s = processes->timeout_s();
    options.gpu = processes->gpu();
    if (options.threads == 0) options.threads = processes->threads();
  }
  auto out = std::make_shared<Bundle>(value_or_throw(exec::Session::create(std::move(file), options)));
  out->processes_ = std::move(processes);
  return out;
}

std::shared_ptr<Bundle> Bundle::of_bytes(std::string bytes, const std::string& what, const exec::SessionOptions& options,
                                         std::shared_ptr<Processes> processes) {
  format::Bundle file = value_or_throw(format::Bundle::from_bytes(
      format::FileBytes::copy_of({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}), what));
  auto out = of(std::move(file), options, std::move(processes), true);
  out->bytes_ = std::move(bytes);
  return out;
}

std::shared_ptr<Bundle> Bundle::open(const std::string& path, int threads, const std::string& target, bool check_nan,
                                     const std::string& rank_class, std::shared_ptr<Processes> processes, bool each) {
  return of(value_or_throw(format::Bundle::open(path)),
            {.threads = threads, .check_nan = check_nan, .target = target, .rank_class = rank_class}, std::move(processes), each);
}

bool fits(const exec::TensorInfo& info, const Literal& array) {
  return info.dtype == array.dtype() && info.is_static() && info.shape == array.shape();
}

std::vector<Literal> Bundle::run(int entry, const std::vector<Literal>& inputs) {
  const exec::EntryInfo& e = session_->entries()[entry];
  bool plain = e.symbols.empty() && inputs.size() == e.inputs.size();
  for (size_t i = 0; plain && i < inputs.size(); ++i) plain = fits(e.inputs[i], inputs[i]);
  if (runner_ == std::this_thread::get_id())
    throw Error(error(Code::kMisuse, "a debug callback calls the compiled function that it belongs to, which runs"));
  std::lock_guard lock(mutex_);
  struct Running {
    std::atomic<std::thread::id>& runner;
    explicit Running(std::atomic<std::thread::id>& r) : runner(r) { runner = std::this_thread::get_id(); }
    ~Running() { runner = std::thread::id(); }
  } running(runner_);
  std::optional<Interruptible> watched;
  if (session_->loops(entry)) watched.emplace();
  if (!processes_) return plain ? run_plain(entry, inputs) : value_or_throw(session_->call(entry, inputs));
  return processes_->with_others(after_writes(call_of(entry, inputs)), [&] {
    std::vector<Literal> out = value_or_throw(session_->call(entry, inputs));
    processes_->share(out);
    return out;
  });
}

std::vector<Literal> Bundle::run_plain(int entry, const std::vector<Literal>& inputs) {
  const exec::EntryInfo& e = session_->entries()[entry];
  std::vector<Literal> out;
  std::vector<const void*> from;
  std::vector<void*> to;
  for (const Literal& a : inputs) from.push_back(a.data());
  for (const exec::TensorInfo& o : e.outputs) out.push_back(Literal::uninitialized(o.dtype, o.shape));
  for (Literal& o : out) to.push_back(o.mutable_data());
  check(session_->run(entry, from, to));
  return out;
}

void Bundle::agree(const std::string& call, const std::string& name) {
  key_ = key_of(call), name_ = name;
  if (processes_) without_lock([&] { processes_->with_others({key_, [&] { return call; }}, [] {}); });
}

void Bundle::wrote(const std::string& function, const std::function<std::string()>& content) {
  constexpr size_t kMost = 200;
  if (!processes_) return;
  const std::string call = function + " " + content();
  wrote_key_ = key_of(call, wrote_key_ == 0 ? key_of("") : wrote_key_);
  if (wrote_.size() < kMost)
    wrote_ += (wrote_.empty() ? "" : ", ") + call;
  else if (!wrote_.ends_with("..."))
    wrote_ += ", ...";
}

Call Bundle::after_writes(Call call) {
  if (wrote_key_ == 0) return call;
  call.key ^= wrote_key_;
  call.says = [says = std::move(call.says), wrote = std::move(wrote_)] { return says() + " after " + wrote; };
  wrote_key_ = 0, wrote_.clear();
  return call;
}

Call Bundle::call_of(int entry, const std::vector<Literal>& inputs) {
  uint64_t key = key_of("run", key_);
  auto add = [&](const void* from, size_t bytes) { key = key_of({static_cast<const char*>(from), bytes}, key); };
  add(&entry, sizeof entry);
  for (const Literal& a : inputs) {
    int32_t form[] = {static_cast<int32_t>(a.dtype()), a.rank()};
    add(form, sizeof form), add(a.shape().data(), a.shape().size() * sizeof a.shape()[0]);
  }
  return {key, [this, entry, &inputs] {
            const exec::EntryInfo& e = session_->entries()[entry];
            std::string out;
            for (size_t i = 0; i < inputs.size() && i < e.inputs.size(); ++i)  // the others are the same everywhere
              if (!fits(e.inputs[i], inputs[i]))
                out += fmt::format("{}{}: {}{}", out.empty() ? "" : ", ", e.inputs[i].name, name_of(inputs[i].dtype()),
                                   shape_str(inputs[i].shape()));
            return fmt::format("`{}` of {}({})", e.name, name_, out);
          }};
}

Literal Bundle::state(int leaf) {
  const exec::TensorInfo& info = session_->state_leaves().at(leaf);
  std::vector<Literal> out{Literal(info.dtype, info.shape)};
  auto get = [&] { check(session_->get_state(leaf, out[0].mutable_data())); };
  if (!processes_)
    get();
  else
    without_lock([&] {
      auto says = [&] { return fmt::format("get_state(\"{}\") of {}", info.name, name_); };
      processes_->with_others(after_writes({key_of(info.name, key_of("get", key_)), says}), [&] { get(), processes_->share(out); });
    });
  return std::move(out[0]);
}

void Bundle::save_state(const std::string& path) {
  if (!processes_) return check(session_->save_state(path));
  without_lock([&] {
    auto says = [&] { return "save_state of " + name_; };
    processes_->with_others(after_writes({key_of("save", key_), says}), [&] { check(session_->save_state(path)); });
  });
}

}  // namespace nabla::python
