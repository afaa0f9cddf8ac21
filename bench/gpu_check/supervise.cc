#include "bench/gpu_check/supervise.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "bench/gpu_check/session.h"

namespace nabla::gpu_check {
namespace {

using nlohmann::json;

// A child, and what it has written.
class Child {
 public:
  Child(std::vector<std::string> command, size_t first) {
    command.push_back(std::to_string(first));
    std::vector<char*> args;
    for (std::string& word : command) args.push_back(word.data());
    args.push_back(nullptr);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      setpgid(0, 0);
      dup2(ends[1], STDOUT_FILENO);
      execv(args[0], args.data());
      _exit(127);
    }
    close(ends[1]);
    out_ = ends[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (out_ >= 0) close(out_);
  }

  // The next line; false when `deadline` passes or the child has closed its output.
  bool line(double deadline, std::string& line) {
    for (;;) {
      if (size_t end = text_.find('\n'); end != std::string::npos) {
        line = text_.substr(0, end);
        text_.erase(0, end + 1);
        return true;
      }
      double left = deadline - now();
      pollfd wait = {out_, POLLIN, 0};
      if (left <= 0) return false;
      int ready = poll(&wait, 1, static_cast<int>(left * 1000) + 1);
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) return false;
      char part[4096];
      ssize_t n = read(out_, part, sizeof part);
      if (n <= 0) return false;
      text_.append(part, static_cast<size_t>(n));
    }
  }

  // How it ended; a child that has not is killed.
  std::string end(bool late) {
    if (pid_ <= 0) return "no process could be started";
    if (late) kill(-pid_, SIGKILL);
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    if (late) return "it took too long";
    if (WIFSIGNALED(status)) return fmt::format("the process was ended by signal {}", WTERMSIG(status));
    return fmt::format("the process ended with {}", WEXITSTATUS(status));
  }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  std::string text_;
};

json row_of(const Task& task, json row) {
  row["part"] = task.part;
  row["name"] = task.name;
  return row;
}

}  // namespace

void supervise(const std::vector<Task>& tasks, const std::vector<std::string>& command, double within_s,
               const std::function<void(json row)>& keep) {
  const double begin = now(), end = begin + within_s;
  size_t next = 0;
  while (next < tasks.size()) {
    if (now() >= end) {
      keep(row_of(tasks[next++], {{"ok", false}, {"failed", fmt::format("not run: {:.0f} s had passed", within_s)}}));
      continue;
    }
    Child child(command, next);
    bool alive = true;
    while (alive && next < tasks.size() && now() < end) {
      const Task& task = tasks[next++];
      double started = now(), deadline = started + task.limit_s;
      std::string line;
      alive = child.line(deadline, line);
      json row = alive ? json::parse(line, nullptr, false) : json();
      if (!row.is_object()) {
        std::string how = child.end(now() >= deadline);
        keep(row_of(task, {{"ok", false}, {"failed", how}, {"seconds", now() - started}}));
        alive = false;
        break;
      }
      alive = !row.contains("failed");  // the child ends after an error
      row["seconds"] = now() - started;
      keep(row_of(task, std::move(row)));
      if (!alive) child.end(false);
    }
    if (alive) child.end(next < tasks.size());
  }
}

int serve(Check& check, const std::vector<Task>& tasks, size_t first) {
  for (size_t i = first; i < tasks.size(); ++i) {
    Result<json> row = run_task(check, tasks[i]);
    json line = row.ok() ? *row : json{{"ok", false}, {"failed", to_string(row.errors())}};
    std::fputs((line.dump() + "\n").c_str(), stdout);
    std::fflush(stdout);
    if (!row.ok()) return 3;
  }
  return 0;
}

}  // namespace nabla::gpu_check
