// nabla-run with faults: NABLA_FAULT="rank=2 run=40 do=kill" breaks a rank of the job's first start, or of that which
// epoch=N names; faults of several starts are separated by `;`. Some count messages that the rank sends, from their run on:
// send=N.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cli/nabla_run/run.h"
#include "runtime/comm/transport.h"

namespace nabla::tests {
namespace {

struct Fault {
  std::string what;
  long rank = -1, run = 1, send = 0, epoch = 0;
};

Fault read_fault(const std::string& text) {
  Fault out;
  std::map<std::string, long*> numbers{{"rank", &out.rank}, {"run", &out.run}, {"send", &out.send}, {"epoch", &out.epoch}};
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::string key = word.substr(0, word.find('=')), value = word.substr(word.find('=') + 1);
    if (key == "do") out.what = value;
    if (numbers.count(key) > 0) *numbers[key] = std::atol(value.c_str());
  }
  return out;
}

/// That of this start.
Fault own_fault() {
  const char* text = std::getenv("NABLA_FAULT");
  const char* epoch = std::getenv("NABLA_EPOCH");
  std::istringstream faults(text == nullptr ? "" : text);
  for (std::string fault; std::getline(faults, fault, ';');)
    if (Fault f = read_fault(fault); f.epoch == (epoch == nullptr ? 0 : std::atol(epoch))) return f;
  return {};
}

void stop_for(int milliseconds) {
  pid_t self = ::getpid();
  if (::fork() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    ::kill(self, SIGCONT);
    ::_exit(0);
  }
  ::raise(SIGSTOP);
}

/// Files can get no longer: what a full disk is to this process.
void fill_disk() {
  rlimit limit{1000, RLIM_INFINITY};
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

void act(const std::string& what) {
  if (what == "full") fill_disk();
  if (what == "kill") ::raise(SIGKILL);
  if (what == "exit") std::fputs("this rank gives up\n", stderr), std::exit(3);
  if (what == "leave") std::fputs(" \n\r\n", stderr), std::exit(3);
  if (what == "throw") throw std::runtime_error("a fault of this rank");
  if (what == "segv") ::signal(SIGSEGV, SIG_DFL), ::raise(SIGSEGV);
  if (what == "stop") ::raise(SIGSTOP);
  if (what == "pause") stop_for(800);
  if (what == "spin")
    for (std::atomic<long> i{0};;) ++i;
}

/// Acts at the send that the fault names.
class Faulty final : public comm::Transport {
 public:
  Faulty(std::shared_ptr<Transport> to, const Fault& fault, const uint64_t& run) : to_(std::move(to)), fault_(fault), run_(run) {}
  std::string name() const override { return to_->name(); }
  uint32_t rank() const override { return to_->rank(); }
  uint32_t ranks() const override { return to_->ranks(); }
  Status close() override {
    if (fault_.what == "last" && rank() == static_cast<uint32_t>(fault_.rank)) ::raise(SIGKILL);
    return to_->close();
  }
  Result<Request> recv(uint32_t from, uint32_t tag, void* to, uint64_t bytes) override { return to_->recv(from, tag, to, bytes); }
  Result<bool> test(Request request) override { return to_->test(request); }
  Result<Request> send(uint32_t to, uint32_t tag, const void* from, uint64_t bytes) override {
    bool now = rank() == static_cast<uint32_t>(fault_.rank) && run_ >= static_cast<uint64_t>(fault_.run) && ++sends_ == fault_.send;
    if (now && fault_.what == "kill") ::raise(SIGKILL);
    if (!now || fault_.what != "flip" || bytes == 0) return to_->send(to, tag, from, bytes);
    broken_.assign(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
    broken_[bytes / 2] = static_cast<char>(broken_[bytes / 2] ^ 4);
    return to_->send(to, tag, broken_.data(), bytes);
  }

 private:
  std::shared_ptr<Transport> to_;
  const Fault& fault_;
  const uint64_t& run_;
  long sends_ = 0;
  std::vector<char> broken_;
};

}  // namespace
}  // namespace nabla::tests

int main(int argc, char** argv) {
  using namespace nabla;
  static tests::Fault fault = tests::own_fault();
  static uint64_t at = 0;
  cli::Hooks hooks;
  hooks.before_run = [](uint32_t rank, uint64_t run) {
    at = run;
    if (fault.what == "slow" && rank == static_cast<uint32_t>(fault.rank)) std::this_thread::sleep_for(std::chrono::milliseconds(80));
    if (fault.send == 0 && rank == static_cast<uint32_t>(fault.rank) && run == static_cast<uint64_t>(fault.run)) tests::act(fault.what);
  };
  hooks.transport = [](std::shared_ptr<comm::Transport> to) -> std::shared_ptr<comm::Transport> {
    if (fault.run == 0 && to->rank() == static_cast<uint32_t>(fault.rank)) tests::act(fault.what);  // before it meets the others
    return std::make_shared<tests::Faulty>(std::move(to), fault, at);
  };
  return cli::nabla_run_main(argc, argv, hooks);
}
