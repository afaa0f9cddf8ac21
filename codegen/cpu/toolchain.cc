#include "codegen/cpu/toolchain.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <sstream>

#include "codegen/compiler_messages.h"
#include "codegen/cpu/toolchain_errors.h"
#include "codegen/workspace.h"

extern char** environ;

namespace nabla::codegen {
namespace {

namespace fs = std::filesystem;

// Never -ffast-math: besides breaking NaN, an object linked with it switches the loading thread to flush-to-zero.
constexpr const char* kFlags[] = {"-std=c++20",
                                  "-O2",
                                  "-fno-math-errno",
                                  "-fno-trapping-math",
                                  "-ffp-contract=fast",
                                  "-fno-exceptions",
                                  "-fno-rtti",
                                  "-fwrapv",
                                  "-fno-strict-aliasing",
                                  "-fno-stack-protector",
                                  "-fPIC",
                                  "-fno-ident",
                                  "-fvisibility=default",
                                  "-Wno-psabi"};

bool on_path(const std::string& program) {
  if (program.find('/') != std::string::npos) return access(program.c_str(), X_OK) == 0;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

// Empty: none.
std::string find_compiler() {
  if (const char* named = std::getenv("NABLA_CXX"); named && *named) return on_path(named) ? named : "";
  for (const char* name : {"g++", "clang++", "c++"})
    if (on_path(name)) return name;
  return "";
}

struct Job {
  pid_t pid = -1;
  fs::path log;
};

volatile sig_atomic_t stopped_by = 0;

// The process groups of the compilers that run, for the signal handler; 0: free.
std::array<std::atomic<pid_t>, 1024> groups;
static_assert(std::atomic<pid_t>::is_always_lock_free);

// While compilers run, in however many threads, the signals that end a process end them, and wait themselves until they
// are gone and their folders are removed.
class HeldSignals {
 public:
  HeldSignals() {
    std::lock_guard lock(mutex_);
    if (holders_++ > 0) return;
    stopped_by = 0;
    struct sigaction hold {};
    hold.sa_handler = stop;
    for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &hold, &old_[i]);
  }
  ~HeldSignals() {
    std::lock_guard lock(mutex_);
    if (--holders_ > 0) return;
    // What somebody else has set meanwhile stays.
    for (size_t i = 0; i < std::size(kSignals); ++i) {
      struct sigaction now {};
      sigaction(kSignals[i], nullptr, &now);
      if ((now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == stop) sigaction(kSignals[i], &old_[i], nullptr);
    }
    if (stopped_by != 0) std::raise(stopped_by);
  }
  HeldSignals(const HeldSignals&) = delete;

 private:
  static void stop(int signal) {
    stopped_by = signal;
    for (std::atomic<pid_t>& group : groups)
      if (pid_t at = group.load(); at > 0) kill(-at, SIGKILL);
  }
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  static inline std::mutex mutex_;
  static inline int holders_ = 0;
  static inline struct sigaction old_[std::size(kSignals)];
};

Diagnostic stopped() {
  return error(Code::kInterrupted, "stopped by signal {} while the host compiler ran", int{stopped_by});
}

// The end of a pipe that only this process has: when it dies, by whatever signal, the other end is at its end.
int lifeline() {
  static const int read_end = [] {
    int ends[2];
    return pipe2(ends, O_CLOEXEC) == 0 ? ends[0] : -1;
  }();
  return read_end;
}

// Starts `args` in `folder`, its output going to `log`.
Job start(std::vector<std::string> args, const fs::path& folder, const fs::path& log) {
  // In a group of its own, so that the driver and its children end together. Its first member waits for the end of the
  // lifeline, and then ends the group and removes the folder; posix_spawn has no portable way to change that.
  std::string script =
      "cd \"$0\" || exit 1; (trap '' TERM; read -r gone; kill -TERM 0; cd /; rm -rf \"$0\"; kill -KILL 0) <&3 "
      ">/dev/null 2>&1 & TMPDIR=. \"$@\" 3<&-; status=$?; kill -KILL $!; exit $status";
  std::vector<std::string> all{"sh", "-c", script, folder.string()};
  all.insert(all.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& a : all) argv.push_back(a.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawn_file_actions_adddup2(&actions, lifeline(), 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  Job job{-1, log};
  if (posix_spawn(&job.pid, "/bin/sh", &actions, &attributes, argv.data(), environ) != 0) job.pid = -1;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  pid_t free = 0;
  for (size_t i = 0; job.pid > 0 && i < groups.size() && !groups[i].compare_exchange_strong(free, job.pid); ++i)
    free = 0;
  if (job.pid > 0 && stopped_by != 0) kill(-job.pid, SIGKILL);  // it came before the group was known
  return job;
}

// How the job ended, "exit status 1"; empty: well.
std::string failure_of(const Job& job) {
  if (job.pid <= 0) return "no process could be started";
  int status = 0;
  pid_t ended;
  while ((ended = waitpid(job.pid, &status, 0)) < 0 && errno == EINTR) {
  }
  for (std::atomic<pid_t>& group : groups)
    if (pid_t own = job.pid; group.compare_exchange_strong(own, 0)) break;
  if (ended != job.pid) return "its end was missed";
  if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
  int code = WEXITSTATUS(status);
  if (code > 128) return fmt::format("signal {}", code - 128);  // as a shell says it
  return code == 0 ? "" : fmt::format("exit status {}", code);
}

// Waits for all compilers of these files. Where some of the user's are refused, each of them has its diagnostic.
Status ended(const std::vector<Job>& running, const SourceFile* sources, const std::string& compiler, Workspace& work) {
  Diagnostics users;
  std::optional<Diagnostic> lack;  // the machine had no room or memory; the messages of the compilers are then no fault of the code
  std::optional<size_t> ours;
  std::string how;
  for (size_t i = 0; i < running.size(); ++i) {
    std::string failure = failure_of(running[i]);
    if (failure.empty()) continue;
    if (!lack) lack = short_of(slurp(running[i].log), fmt::format("{}, {}", compiler, failure), sources[i].name, work.path().string());
    if (sources[i].user)
      users.push_back(refused_user(slurp(running[i].log), *sources[i].user));
    else if (!ours)
      ours = i, how = fmt::format("{}, {}", compiler, failure);
  }
  if (stopped_by != 0) return stopped();
  if (lack) return *lack;
  if (ours) {
    work.keep();
    return refused_ours(slurp(running[*ours].log), how, sources[*ours].name, work.path().string());
  }
  if (!users.empty()) return users;
  return Ok{};
}

std::vector<std::string> arguments(const std::string& compiler, const ir::Target& target) {
  std::vector<std::string> out{compiler};
  for (const char* flag : kFlags) out.push_back(flag);
  out.push_back("-march=" + target.march);
  // Whether a product and a sum are rounded as one depends on what stands in one kernel with them.
  if (target.deterministic) out.push_back("-ffp-contract=off");
  if (target.vector_bytes == 64 && compiler.find("clang") == std::string::npos)
    out.push_back("-mprefer-vector-width=512");
  return out;
}

std::string cache_key(const std::vector<SourceFile>& sources, const std::string& command) {
  std::string all = command;
  for (const SourceFile& s : sources) all += "\n--" + s.name + "\n" + s.text;
  return digest(all);
}

// A binary that is replaced has another size or other times, and asking is cheaper than running it.
std::string compiler_identity(const std::string& compiler) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(compiler.find('/') != std::string::npos ? ""
                             : path                                  ? path
                                                                     : "/usr/local/bin:/usr/bin:/bin");
  std::string file = compiler;
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/" + compiler).c_str(), X_OK) == 0) {
      file = folder + "/" + compiler;
      break;
    }
  std::error_code ec;
  fs::path real = fs::canonical(file, ec);
  struct stat s {};
  if (ec || stat(real.c_str(), &s) != 0) return compiler;
  return fmt::format("{} {} {}.{} {}.{}", real.filename().string(), s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec,
                     s.st_ctim.tv_sec, s.st_ctim.tv_nsec);
}

}  // namespace

std::string compiler_command(const ir::Target& target) {
  std::string compiler = find_compiler(), out;
  if (compiler.empty()) return "";
  for (const std::string& a : arguments(compiler, target)) out += (out.empty() ? "" : " ") + a;
  return out;
}

Result<std::string> compile_shared_object(const std::vector<SourceFile>& sources, const ir::Target& target,
                                          const ToolchainOptions& options) {
  std::string compiler = find_compiler();
  if (compiler.empty()) {
    const char* named = std::getenv("NABLA_CXX");
    return error(Code::kCompilerMissing, "no C++ compiler: {} not found",
                 named && *named ? fmt::format("$NABLA_CXX ({}) was", named) : "g++, clang++ and c++ were");
  }
  std::string cached;
  if (!options.cache_dir.empty()) {
    std::string key = cache_key(sources, compiler_command(target) + compiler_identity(compiler));
    cached = key + ".object";
    if (auto hit = find_in_cache(options.cache_dir, cached)) return std::move(*hit);
  }
  HeldSignals held;
  Workspace work;
  if (work.path().empty())
    return error(Code::kWriteFailed, "cannot make a temporary folder `{}`: {}", work.pattern(), std::strerror(errno));
  const fs::path& folder = work.path();
  std::vector<std::string> link{
      compiler,          "-shared", "-nostartfiles", "-nodefaultlibs", "-Wl,--build-id=none", "-Wl,-s",
      "-Wl,--as-needed", "-o",      "kernels.so"};
  for (const SourceFile& s : sources) NABLA_TRY(write_text(folder / s.name, s.text));
  for (size_t first = 0; first < sources.size(); first += options.jobs) {
    std::vector<Job> running;
    size_t last = std::min(sources.size(), first + options.jobs);
    for (size_t i = first; i < last; ++i) {
      std::vector<std::string> args = arguments(compiler, target);
      std::string object = sources[i].name + ".o";
      // The user's lines are shown by the diagnostic.
      if (sources[i].user && compiler.find("clang") == std::string::npos) args.push_back("-fno-diagnostics-show-caret");
      args.insert(args.end(), {"-c", sources[i].name, "-o", object});
      link.push_back(object);
      running.push_back(start(args, folder, folder / (sources[i].name + ".log")));
    }
    NABLA_TRY(ended(running, sources.data() + first, compiler, work));
    if (options.progress) options.progress(last, sources.size());
  }
  // Of our own code we know what it calls; what the user's lacks is said now, not when the bundle is loaded.
  if (std::any_of(sources.begin(), sources.end(), [](const SourceFile& s) { return s.user.has_value(); }))
    link.push_back("-Wl,--no-undefined");
  link.insert(link.end(), {"-lm", "-lc"});
  Job linking = start(link, folder, folder / "link.log");
  std::string failure = failure_of(linking);
  if (stopped_by != 0) return stopped();
  if (!failure.empty()) {
    std::string log = slurp(linking.log);
    std::string how = fmt::format("{}, {}", compiler, failure);
    if (std::optional<Diagnostic> d = short_of(log, how, "the link", folder.string())) return *d;
    if (std::optional<Diagnostic> d = missing_symbols(log, sources)) return *d;
    work.keep();
    return refused_ours(log, how, "the link", folder.string());
  }
  std::string bytes = slurp(folder / "kernels.so");
  if (bytes.compare(0, 4, "\177ELF") != 0)
    return error(Code::kCompilerFailed, "the host compiler ({}) made no shared object, though it reported success",
                 compiler);
  if (!cached.empty()) store_in_cache(options.cache_dir, cached, bytes);
  return bytes;
}

}  // namespace nabla::codegen
