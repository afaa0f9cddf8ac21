// What threads cost on a busy machine: every CPU has a competitor that never sleeps.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "bench/bench.h"
#include "cli/driver/compile.h"
#include "frontend/cpp/rnn.h"
#include "frontend/nabla.h"
#include "runtime/device/cpu.h"

namespace nabla::bench {
namespace {

/// A process that spins on each CPU of this one, as long as this object lives.
class Spinners {
 public:
  Spinners() {
    for (int cpu : device::allowed_cpus()) {
      pid_t parent = getpid(), child = fork();
      if (child == 0) spin(parent, cpu);
      if (child > 0) children_.push_back(child);
    }
  }
  ~Spinners() {
    for (pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
  Spinners(const Spinners&) = delete;
  Spinners& operator=(const Spinners&) = delete;
  size_t count() const { return children_.size(); }

 private:
  [[noreturn]] static void spin(pid_t parent, int cpu) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
    (void)sched_setaffinity(0, sizeof set, &set);
    volatile uint64_t turns = 0;
    while (true) turns = turns + 1;
  }
  std::vector<pid_t> children_;
};

constexpr int64_t kBatch = 16, kTime = 64, kIn = 32, kHidden = 96;

// One step of plain gradient descent on an LSTM and a linear head: hundreds of short launches.
ir::Module lstm() {
  Program program;
  auto layer = program.states("lstm", nn::recurrent_spec(4, kIn, kHidden));
  State head = program.state("head", f32, {kHidden, 1});
  program.entry("init", {{"seed", u32, {2}}}, [&](Tensor seed) -> Outputs {
    nn::init_recurrent(layer, seed);
    head.set(full({kHidden, 1}, 0.01));
    return {};
  });
  program.entry("step", {{"x", f32, {kBatch, kTime, kIn}}, {"y", f32, {kBatch, 1}}},
                [&](Tensor x, Tensor y) -> Outputs {
                  auto loss = [&](nn::Recurrent<Tensor> p, Tensor h) {
                    Tensor error = matmul(nn::lstm(x, p).hidden, h) - y;
                    return mean(error * error);
                  };
                  nn::Recurrent<Tensor> now{layer.w.get(), layer.u.get(), layer.b.get(), layer.c.get()};
                  auto [value, gradients] = value_and_grad(loss, wrt<0, 1>)(now, head.get());
                  auto& [g, gh] = gradients;
                  layer.w.set(now.w - 0.01 * g.w);
                  layer.u.set(now.u - 0.01 * g.u);
                  layer.b.set(now.b - 0.01 * g.b);
                  layer.c.set(now.c - 0.01 * g.c);
                  head.set(head.get() - 0.01 * gh);
                  return {{"loss", value}};
                });
  return program.module();
}

// Seconds of a step, over a second of steps, in a thread of its own: what pinning does to it ends with it.
Result<double> step_seconds(const std::string& bundle, int threads) {
  Result<double> out = 0.0;
  auto measure = [&]() -> Result<double> {
    format::Bundle opened =
        NABLA_TRY(format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(bundle)), "bench"));
    auto session = NABLA_TRY(exec::Session::create(std::move(opened), {.threads = threads, .pin_caller = true}));
    uint32_t seed[2] = {0, 0};
    const void* inputs[] = {seed};
    NABLA_TRY(session->run(session->find_entry("init"), inputs, {}));
    int step = session->find_entry("step");
    Buffers buffers(session->entries()[step]);
    NABLA_TRY(session->run(step, buffers.in, buffers.out));
    int64_t steps = 0;
    double begin = now();
    for (; now() - begin < 1; ++steps) NABLA_TRY(session->run(step, buffers.in, buffers.out));
    return (now() - begin) / static_cast<double>(steps);
  };
  std::thread([&] { out = measure(); }).join();
  return out;
}

Result<Measurement> busy_ratio() {
  driver::CompileOptions options;
  options.target = "cpu:native";
  std::string bundle = NABLA_TRY(driver::compile(lstm(), options)).bytes;
  Spinners spinners;
  if (spinners.count() == 0) return error(Code::kMisuse, "no process that spins can be started");
  // By turns, so that both see the same machine.
  double all = 0, one = 0;
  for (int round = 0; round < 6; ++round) {
    all += NABLA_TRY(step_seconds(bundle, 0));
    one += NABLA_TRY(step_seconds(bundle, 1));
  }
  return against_budget(all / one, "", 1.3);
}

}  // namespace

std::vector<Bench> busy_benches() {
  return {{"busy_ratio", "an LSTM's step by default over one thread, another process spinning on every CPU",
           [](const Paths&) { return busy_ratio(); }}};
}

}  // namespace nabla::bench
