#include "tests/ranks/job.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace nabla::tests {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

/// The value of a variable in the text of /proc/PID/environ.
std::string variable(const std::string& environment, const std::string& name) {
  std::string all = '\0' + environment, wanted = '\0' + name + "=";
  size_t at = all.find(wanted);
  return at == all.npos ? "" : all.c_str() + at + wanted.size();
}

}  // namespace

Job::Job(const std::string& program, const std::vector<std::string>& args, const Options& options) {
  static int jobs = 0;
  id_ = std::to_string(::getpid()) + "-" + std::to_string(jobs++);
  folder_ = testing::TempDir() + "job-" + id_;
  std::vector<std::string> words = options.before;
  words.push_back(program);
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  mark();
  pid_ = ::fork();
  if (pid_ != 0) return;
  ::setenv("NABLA_TEST_JOB", id_.c_str(), 1);
  ::setenv("NABLA_PLUGINS", "cli", 1);
  ::setenv("HWLOC_HIDE_ERRORS", "2", 1);  // Open MPI's hwloc writes to every rank's output where /sys is not mounted
  if (!options.fault.empty()) ::setenv("NABLA_FAULT", options.fault.c_str(), 1);
  for (const std::string& e : options.environment) ::setenv(e.substr(0, e.find('=')).c_str(), e.substr(e.find('=') + 1).c_str(), 1);
  if (options.address_space > 0) {
    rlimit limit{options.address_space, options.address_space};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ::dup2(::open((folder_ + ".out").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0666), 1);
  ::dup2(::open((folder_ + ".err").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0666), 2);
  ::execvp(argv[0], argv.data());
  ::_exit(126);
}

Job::~Job() {
  for (const Process& p : processes()) ::kill(p.pid, SIGKILL);
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

void Job::mark() { marked_ = now(); }

std::vector<Job::Process> Job::processes() const {
  std::vector<Process> out;
  DIR* all = ::opendir("/proc");
  while (const dirent* e = all == nullptr ? nullptr : ::readdir(all)) {
    pid_t pid = std::atoi(e->d_name);
    if (pid <= 0) continue;
    std::string folder = std::string("/proc/") + e->d_name, environment = read(folder + "/environ");
    if (variable(environment, "NABLA_TEST_JOB") != id_) continue;
    std::string stat = read(folder + "/stat");
    size_t name_end = stat.rfind(')');
    if (name_end == stat.npos || stat[name_end + 2] == 'Z') continue;
    std::string rank = variable(environment, "OMPI_COMM_WORLD_RANK");
    if (rank.empty()) rank = variable(environment, "NABLA_RANK");
    out.push_back({pid, std::atoi(stat.c_str() + name_end + 4), rank.empty() ? -1 : std::atoi(rank.c_str())});
  }
  if (all != nullptr) ::closedir(all);
  return out;
}

pid_t Job::find(uint32_t rank, bool leaf) const {
  for (double begin = now(); now() - begin < 10; ::usleep(20'000)) {
    std::vector<Process> all = processes();
    for (const Process& p : all) {
      if (p.rank != static_cast<int>(rank)) continue;
      bool parent = std::any_of(all.begin(), all.end(), [&](const Process& q) { return q.parent == p.pid && q.rank == p.rank; });
      bool child = std::any_of(all.begin(), all.end(), [&](const Process& q) { return q.pid == p.parent && q.rank == p.rank; });
      if (leaf ? child && !parent : parent) return p.pid;
    }
  }
  return 0;
}

pid_t Job::connected_rank(uint32_t r) const {
  pid_t pid = rank(r);
  for (double begin = now(); pid > 0 && now() - begin < 20; ::usleep(5'000))
    if (read("/proc/" + std::to_string(pid) + "/maps").find("mca_pml_") != std::string::npos) return pid;  // opened after the connection
  return 0;
}

void Job::signal_all(int signal) const {
  for (const Process& p : processes()) ::kill(p.pid, signal);
}

bool Job::said(const std::string& text) const {
  for (double begin = now(); now() - begin < 20; ::usleep(5'000))
    if (read(folder_ + ".out").find(text) != std::string::npos || read(folder_ + ".err").find(text) != std::string::npos) return true;
  return false;
}

Outcome Job::wait(double limit_s, double leave_s) {
  Outcome out;
  int status = 0;
  double begin = now();
  while (::waitpid(pid_, &status, WNOHANG) != pid_) {
    ::usleep(2'000);
    if (now() - begin < limit_s) continue;
    out.out = read(folder_ + ".out"), out.err = read(folder_ + ".err");
    return out;  // the destructor kills it
  }
  pid_ = -1;
  out.seconds = now() - marked_;
  out.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  for (double end = now(); (out.survivors = static_cast<int>(processes().size())) > 0 && now() - end < leave_s;) ::usleep(50'000);
  out.out = read(folder_ + ".out"), out.err = read(folder_ + ".err");
  return out;
}

}  // namespace nabla::tests
