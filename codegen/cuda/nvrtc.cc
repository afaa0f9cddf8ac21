#include "codegen/cuda/nvrtc.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "codegen/compiler_messages.h"
#include "codegen/cuda/nvrtc_library.h"
#include "codegen/cuda/occupancy.h"
#include "codegen/cuda/ptxas_log.h"
#include "codegen/workspace.h"
#include "runtime/base/option_name.h"
#include "runtime/base/text.h"

namespace nabla::codegen {
namespace {

std::vector<std::string> arguments(const ir::Target& target) {
  // Functions without a word of CUDA's run on the device: the user's text need not say so.
  std::vector<std::string> out{"--std=c++17", "--gpu-architecture=" + target.name, "-default-device", "-w"};
  if (!target.cuda.ptx) out.push_back("-Xptxas=-v");
  return out;
}

// One text's way through the compiler.
struct Unit {
  const SourceFile* source = nullptr;  // the first of those with this text
  std::string log, object;             // no object: it was refused
  std::string problem;                 // NVRTC's name for that
  std::string memory;                  // of the user's text: of what its PTX declares too much; there is no object then
  bool killed = false;                 // from outside
};

std::string take(void* program, int (*size)(void*, size_t*), int (*get)(void*, char*)) {
  size_t bytes = 0;
  if (size(program, &bytes) != 0) return "";
  std::string out(bytes, '\0');
  return get(program, out.data()) == 0 ? out : "";
}

constexpr int64_t kMostLocal = 512 << 10;  // per thread (NVIDIA, "CUDA C++ Programming Guide", technical specifications)

std::string too_much(const PtxMemory& declared) {
  if (declared.shared_bytes > kStaticShared)
    return fmt::format("takes {} bytes of static shared memory; a block may have {}", declared.shared_bytes, kStaticShared);
  if (declared.local_bytes > kMostLocal)
    return fmt::format("has arrays of {} bytes per thread; a thread may have {} of local memory", declared.local_bytes, kMostLocal);
  return "";
}

void compile(const NvrtcLibrary& nvrtc, const ir::Target& target, Unit& unit) {
  std::vector<std::string> options = arguments(target);
  std::vector<const char*> argv;
  for (const std::string& o : options) argv.push_back(o.c_str());
  const NvrtcFunctions& call = nvrtc.call;
  void* program = nullptr;
  int code = call.create(&program, unit.source->text.c_str(), unit.source->name.c_str(), 0, nullptr, nullptr);
  if (code != 0) return void(unit.problem = call.error_text(code));
  code = call.compile(program, static_cast<int>(argv.size()), argv.data());
  unit.log = take(program, call.log_size, call.log);
  unit.log.resize(std::strlen(unit.log.c_str()));
  if (code == 0)
    unit.object = target.cuda.ptx ? take(program, call.ptx_size, call.ptx) : take(program, call.cubin_size, call.cubin);
  if (unit.object.empty()) unit.problem = code == 0 ? "NVRTC made nothing" : call.error_text(code);
  // Here and not of the object: cubins of 4 GiB of local memory say that they have none.
  if (unit.source->user && code == 0) unit.memory = too_much(memory_of_ptx(take(program, call.ptx_size, call.ptx)));
  if (!unit.memory.empty()) unit.object.clear();
  call.destroy(&program);
}

bool send(int to, const std::string& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    ssize_t n = write(to, bytes.data() + sent, bytes.size() - sent);
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) sent += static_cast<size_t>(n);
  }
  return true;
}
bool receive(int from, std::string& bytes) {
  for (size_t got = 0; got < bytes.size();) {
    ssize_t n = read(from, bytes.data() + got, bytes.size() - got);
    if (n == 0 || (n < 0 && errno != EINTR)) return false;
    if (n > 0) got += static_cast<size_t>(n);
  }
  return true;
}

// By a process of its own: there are texts over which NVRTC breaks down, and whoever called it with it. The strings of
// the unit come back, each after its length: other processes may hold the pipe open when this one has ended.
void compile_apart(const NvrtcLibrary& nvrtc, const ir::Target& target, Unit& unit) {
  int ends[2];
  if (pipe(ends) != 0) return void(unit.problem = fmt::format("no pipe to a compiler: {}", std::strerror(errno)));
  pid_t parent = getpid(), child = fork();
  if (child == 0) {
    // Whoever waits for the pipe may be killed; a process beside this one holds it open then.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    compile(nvrtc, target, unit);
    bool sent = true;
    for (const std::string* s : {&unit.log, &unit.object, &unit.problem, &unit.memory})
      sent = sent && send(ends[1], fmt::format("{:016x}", s->size()) + *s);
    _exit(sent ? 0 : 1);
  }
  close(ends[1]);
  bool whole = child > 0;
  for (std::string* s : {&unit.log, &unit.object, &unit.problem, &unit.memory}) {
    std::string length(16, '0');
    whole = whole && receive(ends[0], length);
    s->resize(whole ? std::strtoull(length.c_str(), nullptr, 16) : 0);
    whole = whole && receive(ends[0], *s);
  }
  close(ends[0]);
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (whole) return;
  unit = {unit.source, "", "", "NVRTC could not be run", "", false};
  if (child <= 0 || !WIFSIGNALED(status)) return;
  unit.problem = fmt::format("NVRTC broke down (signal {})", WTERMSIG(status));
  unit.killed = WTERMSIG(status) == SIGKILL;
}

// An entry of the cache is the length of the log in eight digits, the log, the object.
constexpr size_t kLength = 8;
std::string packed(const Unit& unit) { return fmt::format("{:08x}", unit.log.size()) + unit.log + unit.object; }
bool unpack(const std::string& entry, Unit& unit) {
  size_t length = entry.size() < kLength ? 0 : std::strtoul(entry.substr(0, kLength).c_str(), nullptr, 16);
  if (entry.size() <= kLength + length) return false;
  unit.log = entry.substr(kLength, length);
  unit.object = entry.substr(kLength + length);
  return true;
}

void compile_or_find(const NvrtcLibrary& nvrtc, const ir::Target& target, const std::string& cache, Unit& unit) {
  if (cache.empty()) return compile_apart(nvrtc, target, unit);
  // What is checked of the user's text alone is part of its key: no object that another version let through is found.
  const char* checks = unit.source->user ? "declared memory\n" : "";
  std::string entry = digest(nvrtc_command(target) + "\n" + nvrtc.identity + "\n" + checks + unit.source->text) + ".cuda";
  if (auto hit = find_in_cache(cache, entry); hit && unpack(*hit, unit)) return;
  compile_apart(nvrtc, target, unit);
  if (!unit.object.empty()) store_in_cache(cache, entry, packed(unit));
}

// NVRTC compiles on several threads at the same time as fast as on one. What is thrown on one of them, as a failed check
// is where the process has a handler, is thrown here once all have ended.
void compile_all(const NvrtcLibrary& nvrtc, const ir::Target& target, const ToolchainOptions& options,
                 std::vector<Unit>& units) {
  // The longest texts first: what is begun last ends last, and the others wait for it.
  std::vector<size_t> order(units.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t unit) { return units[unit].source->text.size(); });
  std::atomic<size_t> next{0};
  std::mutex said;
  size_t done = 0;
  std::exception_ptr thrown;
  auto work = [&] {
    for (size_t i; (i = next++) < order.size();) {
      compile_or_find(nvrtc, target, options.cache_dir, units[order[i]]);
      std::lock_guard one_at_a_time(said);
      if (options.progress) options.progress(++done, units.size());
    }
  };
  auto guarded = [&] {
    try {
      work();
    } catch (...) {
      next = units.size();
      std::lock_guard one_at_a_time(said);
      if (!thrown) thrown = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  size_t count = std::min<size_t>(std::max(options.jobs, 1), units.size());
  try {
    for (size_t i = 1; i < count; ++i) threads.emplace_back(guarded);
  } catch (const std::exception&) {
    // The system gives no more threads, or no memory for one: those that there are do the work.
  }
  guarded();
  for (std::thread& t : threads) t.join();
  if (thrown) std::rethrow_exception(thrown);
}

// A note that says where the text of a refused unit is.
std::string kept(const Unit& unit) {
  Workspace work;
  if (work.path().empty()) return fmt::format("the source is lost: `{}`: {}", work.pattern(), std::strerror(errno));
  if (Status written = write_text(work.path() / unit.source->name, unit.source->text); !written.ok())
    return "the source is lost: " + written.errors()[0].message;
  work.keep();
  return "the generated source is kept in " + work.path().string();
}

// What messages call its kernel; empty: by the name that it has in the code.
std::string_view user_name(const Unit& unit) { return unit.source->user ? unit.source->user->name : std::string_view(); }

// Beyond the target's limits: our fault, or that of the user's text.
Diagnostic beyond_limits(Diagnostic d, const Unit& unit) {
  if (const auto& user = unit.source->user) return user_beyond_limits(std::move(d), *user);
  d.notes.push_back(kept(unit));
  return d;
}

// NVRTC refuses too much shared memory without a word, on some targets; its log has the number.
Status silent_limits(const PtxasLog& log, const Unit& unit, const ir::Target& target) {
  for (const auto& [name, facts] : log.kernels) {
    CubinKernel kernel;
    kernel.name = name;
    kernel.registers = facts.registers;
    kernel.static_shared_bytes = static_cast<int>(std::min<int64_t>(facts.shared_bytes, 1 << 30));
    NABLA_TRY(check_launch(kernel, target, 0, 0, user_name(unit)));
  }
  return Ok{};
}

Diagnostic refused(const Unit& unit, const NvrtcLibrary& nvrtc, const ir::Target& target) {
  if (!unit.memory.empty())
    return user_beyond_limits(error(Code::kUserCode, "kernel `{}` {}", unit.source->user->name, unit.memory), *unit.source->user);
  PtxasLog log = read_ptxas_log(unit.log);
  if (Status limits = silent_limits(log, unit, target); !limits.ok()) return beyond_limits(limits.errors()[0], unit);
  if (log.messages.find_first_not_of(" \n") == std::string::npos) log.messages = unit.problem;
  if (unit.source->user) return refused_user(log.messages, *unit.source->user);
  Diagnostic d =
      error(Code::kNvrtcFailed, "NVRTC {} refused {} for {}", nvrtc.version(), unit.source->name, target.name);
  if (unit.killed) {
    d.message =
        fmt::format("NVRTC {} was killed while it compiled {} for {}", nvrtc.version(), unit.source->name, target.name);
    d.help = fmt::format("by somebody, or for want of memory: fewer {} need less", OptionName{"jobs"});
    return d;
  }
  d.notes = first_lines(log.messages, kMostLogLines);
  d.notes.push_back(kept(unit));
  return d;
}

Result<CudaObject> checked(const Unit& unit, const ir::Target& target) {
  CudaObject out{unit.object, {}};
  if (target.cuda.ptx) return out;
  PtxasLog log = read_ptxas_log(unit.log);
  Result<std::vector<CubinKernel>> kernels = read_cubin(unit.object);
  if (!kernels.ok()) {
    Diagnostic unreadable = kernels.errors()[0];
    unreadable.notes.push_back(kept(unit));
    return unreadable;
  }
  for (CubinKernel& kernel : *kernels) {
    if (Status fits = check_launch(kernel, target, kernel.max_threads, 0, user_name(unit)); !fits.ok())
      return beyond_limits(fits.errors()[0], unit);
    const PtxasFacts& said = log.kernels[kernel.name];
    CudaKernelFacts facts{std::move(kernel), said.spill_store_bytes, said.spill_load_bytes, said.advice, said.advice};
    if (facts.spill_store_bytes + facts.spill_load_bytes > 0)
      facts.warnings.push_back(
          fmt::format("spills registers: {} bytes stored, {} loaded per thread; it has {} registers",
                      facts.spill_store_bytes, facts.spill_load_bytes, facts.registers));
    out.kernels.push_back(std::move(facts));
  }
  return out;
}

Status knows(const NvrtcLibrary& nvrtc, const ir::Target& target) {
  const std::vector<int>& all = nvrtc.architectures;
  if (std::find(all.begin(), all.end(), target.cuda.compute) != all.end()) return Ok{};
  std::string known;
  for (int a : all) known += fmt::format("{}{}", known.empty() ? "" : ", ", a);
  return error(Code::kNvrtcMissing, "NVRTC {} ({}) does not compile for {}; it knows {}", nvrtc.version(), nvrtc.path,
               target.name, known);
}

}  // namespace

std::string nvrtc_command(const ir::Target& target) {
  std::string out = "nvrtc";
  for (const std::string& a : arguments(target)) out += " " + a;
  return out;
}

Result<CudaBinary> compile_cuda(const std::vector<SourceFile>& sources, const ir::Target& target,
                                const ToolchainOptions& options) {
  NABLA_CHECK(target.is_cuda(), "compile_cuda for {}", target.name);
  NvrtcLibrary nvrtc = NABLA_TRY(open_nvrtc(nvrtc_candidates()));
  NABLA_TRY(knows(nvrtc, target));
  std::vector<Unit> units;
  std::vector<size_t> unit_of;
  std::map<std::string_view, size_t> seen;
  for (const SourceFile& s : sources) {
    auto [found, fresh] = seen.emplace(s.text, units.size());
    if (fresh) units.push_back({&s, "", "", "", ""});
    unit_of.push_back(found->second);
  }
  compile_all(nvrtc, target, options, units);
  Diagnostics ours, users;
  std::vector<CudaObject> objects(units.size());
  for (size_t i = 0; i < units.size(); ++i) {
    Result<CudaObject> object = units[i].object.empty() ? refused(units[i], nvrtc, target) : checked(units[i], target);
    if (object.ok()) {
      objects[i] = std::move(*object);
      continue;
    }
    Diagnostics& to = object.errors()[0].code == Code::kUserCode ? users : ours;
    to.insert(to.end(), object.errors().begin(), object.errors().end());
  }
  if (!ours.empty()) return Diagnostics{ours[0]};  // the others are most likely the same mistake
  if (!users.empty()) return users;
  CudaBinary out{{}, nvrtc.major, nvrtc.minor};
  for (size_t i : unit_of) out.objects.push_back(objects[i]);
  return out;
}

}  // namespace nabla::codegen
