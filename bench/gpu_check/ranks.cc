#include "bench/gpu_check/ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "bench/gpu_check/session.h"
#include "runtime/nccl/library.h"

namespace nabla::gpu_check {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

// Files of one job, gone with it.
struct Folder {
  Folder() {
    std::string pattern = std::filesystem::temp_directory_path() / "gpu_check_ranks_XXXXXX";
    if (mkdtemp(pattern.data()) != nullptr) path = pattern;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    if (!path.empty()) std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

// A process that says that it is a host of its own, and writes all it has to say to `log`.
pid_t start(Words words, int rank, const std::string& log) {
  std::vector<char*> args;
  for (std::string& word : words) args.push_back(word.data());
  args.push_back(nullptr);
  std::string host = fmt::format("gpu-check-{}", rank), token = fmt::format("gpu-check-{}", getpid());
  pid_t pid = fork();
  if (pid != 0) return pid;
  int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  setenv("NCCL_HOSTID", host.c_str(), 1);
  setenv("NABLA_TOKEN", token.c_str(), 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  setenv("NCCL_IB_DISABLE", "1", 0);
  execv(args[0], args.data());
  _exit(127);
}

// The last 600 bytes.
std::string end_of(const std::string& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  std::string all = text.str();
  return all.size() > 600 ? "..." + all.substr(all.size() - 600) : all;
}

// Starts them all, and waits until all have ended. The first that ends with an error ends the others, after a while in which they may
// say what they saw of it.
Status together(const std::vector<Words>& commands, const std::string& folder, double limit_s) {
  constexpr double kOthersS = 10;
  struct Rank {
    pid_t pid;
    std::string log;
  };
  std::vector<Rank> running;
  for (size_t r = 0; r < commands.size(); ++r) {
    std::string log = fmt::format("{}/rank-{}.log", folder, r);
    running.push_back({start(commands[r], static_cast<int>(r), log), log});
  }
  double deadline = now() + limit_s;
  Diagnostics wrong;
  while (!running.empty()) {
    for (size_t r = 0; r < running.size();) {
      int status = 0;
      if (waitpid(running[r].pid, &status, WNOHANG) != running[r].pid) {
        ++r;
        continue;
      }
      if (status != 0) {
        std::string how = fmt::format("exit code {}", WEXITSTATUS(status));
        if (WIFSIGNALED(status)) how = fmt::format("signal {}", WTERMSIG(status));
        wrong.push_back(error(Code::kTransportFailed, "{} ended with {}: {}", std::filesystem::path(running[r].log).stem().string(), how,
                              end_of(running[r].log)));
        deadline = std::min(deadline, now() + kOthersS);
      }
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(r));
    }
    if (now() > deadline) {
      for (const Rank& rank : running) kill(rank.pid, SIGKILL);
      if (wrong.empty())
        wrong.push_back(error(Code::kTooLate, "{} had not ended after {:.0f} s: {}",
                              std::filesystem::path(running[0].log).stem().string(), limit_s, end_of(running[0].log)));
      for (const Rank& rank : running) waitpid(rank.pid, nullptr, 0);
      running.clear();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (!wrong.empty()) return Diagnostics{wrong[0]};
  return Ok{};
}

// One that nobody listens at right now.
Result<int> free_port() {
  int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  bool ok = s >= 0 && bind(s, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 &&
            getsockname(s, reinterpret_cast<sockaddr*>(&at), &size) == 0;
  if (s >= 0) close(s);
  if (!ok) return error(Code::kTransportFailed, "no port of 127.0.0.1 is free");
  return ntohs(at.sin_port);
}

Result<std::vector<double>> losses(const std::string& file) {
  std::ifstream in(file);
  std::vector<double> out;
  for (std::string line; std::getline(in, line);)
    if (json row = json::parse(line, nullptr, false); row.is_object() && row.contains("loss"))
      out.push_back(row["loss"].is_number() ? row["loss"].get<double>() : std::nan(""));  // JSON has no NaN: null
  if (out.empty()) return error(Code::kNotFound, "{} has no losses", file);
  return out;
}

// nabla-run, which trains a bundle of the check's folder and writes its losses into a file of `folder`.
Words training_command(const Check& check, const json& plan, const char* bundle, const std::string& folder, const std::string& losses) {
  return Words{check.folder + "/nabla-run", fmt::format("{}/{}.nbundle", check.folder, plan[bundle].get<std::string>()), "--entry", "step",
               "--data", check.folder + "/ranks.safetensors", "--steps", plan["steps"].dump(), "--metrics", folder + "/" + losses};
}

// That of every rank.
Result<std::vector<Words>> training_on_ranks(const Check& check, const json& plan, const std::string& folder) {
  std::string count = plan["ranks"].dump(), place = fmt::format("127.0.0.1:{}", NABLA_TRY(free_port()));
  std::vector<Words> out;
  for (int r = 0; r < plan["ranks"].get<int>(); ++r) {
    Words one = training_command(check, plan, "bundle", folder, "gpu.jsonl");
    const Words more = {"--engine", "nccl", "--rank", std::to_string(r), "--world-size", count, "--local-rank", "0",
                        "--rendezvous", place, "--reports", folder + "/reports", "--heartbeat", "0.2"};
    one.insert(one.end(), more.begin(), more.end());
    out.push_back(std::move(one));
  }
  return out;
}

// Rank 1 is killed once steps are replayed as graphs: rank 0 names it, and is not ended hard.
Result<json> killed(const Check& check, const json& plan, const std::string& folder, double limit_s) {
  std::vector<Words> commands = NABLA_TRY(training_on_ranks(check, plan, folder));
  const std::string log = folder + "/rank-0.log";
  pid_t first = start(commands[0], 0, log), second = start(commands[1], 1, folder + "/rank-1.log");
  auto end = [&](pid_t pid, double deadline) {
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
      if (now() > deadline) kill(pid, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  };
  auto steps = [&] {
    auto known = losses(folder + "/gpu.jsonl");
    return known.ok() ? known->size() : 0;
  };
  double deadline = now() + limit_s;
  while (steps() < 20 && now() < deadline && waitpid(first, nullptr, WNOHANG) == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  size_t done = steps();
  kill(second, SIGKILL);
  (void)end(second, deadline);
  double begin = now();
  int code = end(first, begin + 15);
  double took = now() - begin;
  std::string said = end_of(log);
  if (done < 20) return error(Code::kTooLate, "{} steps came in {:.0f} s: {}", done, limit_s, said);
  bool named = said.find("error[E0610]: rank 1 (process ") != said.npos && said.find("is ended where it stands") == said.npos;
  json row{{"ok", code == 10 && named}, {"code", code}, {"ended_s", took}};
  if (!row["ok"].get<bool>()) row["said"] = said;
  return row;
}

Result<json> trained(const Check& check, const json& plan, const std::string& folder, double limit_s) {
  NABLA_TRY(together({training_command(check, plan, "cpu", folder, "cpu.jsonl")}, folder, limit_s));
  std::vector<Words> commands = NABLA_TRY(training_on_ranks(check, plan, folder));
  double begin = now();
  NABLA_TRY(together(commands, folder, limit_s));
  double took = now() - begin;
  std::vector<double> want = NABLA_TRY(losses(folder + "/cpu.jsonl")), got = NABLA_TRY(losses(folder + "/gpu.jsonl"));
  double worst = largest_error(got, want);
  return json{{"ok", worst <= plan["tolerance"].get<double>()},
              {"error", std::isfinite(worst) ? json(worst) : json("not a number")},
              {"tolerance", plan["tolerance"]},
              {"job_s", took},
              {"loss", {got.front(), got.back()}}};
}

}  // namespace

std::string nccl_version() {
  auto library = nccl::Library::open();
  return library.ok() ? (*library)->version : "";
}

Result<json> ranks(const Check& check, const json& plan, double limit_s) {
  if (nccl_version().empty()) return json{{"ok", true}, {"note", "not run: NCCL is not there"}};
  Folder folder;
  if (folder.path.empty()) return error(Code::kWriteFailed, "no folder can be made in {}", std::filesystem::temp_directory_path().string());
  if (plan.contains("killed")) return killed(check, plan, folder.path, limit_s);
  if (!plan.contains("suite")) return trained(check, plan, folder.path, limit_s);
  std::vector<Words> commands;
  for (int r = 0; r < plan["ranks"].get<int>(); ++r) {
    Words one{check.folder + "/nccl_conformance", folder.path, std::to_string(r)};
    for (int axis : plan["suite"]) one.push_back(std::to_string(axis));
    commands.push_back(std::move(one));
  }
  NABLA_TRY(together(commands, folder.path, limit_s));
  return json{{"ok", true}};
}

}  // namespace nabla::gpu_check
