// Generated code and the runtime's own costs, on small programs of the C++ frontend.
#include <algorithm>
#include <cmath>

#include "bench/bench.h"
#include "frontend/nabla.h"

namespace nabla::bench {
namespace {

// `amount` is what one run of the entry `run` does.
Result<Measurement> share_of_runs(exec::Session& session, double amount, std::string unit, std::string limit,
                                  const std::function<double()>& limit_rate) {
  int entry = NABLA_TRY(session.need_entry("run"));
  Buffers buffers(session.entries()[entry]);
  NABLA_TRY(session.run(entry, buffers.in, buffers.out));
  bool ok = true;
  auto work = [&] {
    double begin = now();
    ok = session.run(entry, buffers.in, buffers.out).ok() && ok;
    return amount / (now() - begin);
  };
  Measurement m = share_of(std::move(unit), std::move(limit), work, limit_rate);
  if (!ok) return error(Code::kMisuse, "a run of the entry failed");
  return m;
}

// By the path that `nablac tune` finds fastest here, as users do for a machine that they know.
Result<Measurement> gemm(const Paths& paths, int threads) {
  constexpr int64_t kM = 1024, kK = 768, kN = 3072;
  Program program;
  program.entry("run", {{"a", f32, {kM, kK}}, {"b", f32, {kK, kN}}}, [](Tensor a, Tensor b) -> Outputs {
    return {{"c", matmul(a, b)}};
  });
  std::string tuning = fmt::format("{}/gemm_{}.tuning", paths.scratch, threads);
  NABLA_TRY(write_tuning(program.module(), threads, tuning));
  auto session = NABLA_TRY(open_program(program.module(), threads, {.tuning_file = tuning}));
  return share_of_runs(*session, 2e-9 * static_cast<double>(kM * kK * kN), "GFLOP/s", "peak",
                       [=] { return peak_gflops(threads); });
}

// One array in, one out, as in the copy that it is compared with.
Result<Measurement> fused_chain() {
  constexpr int64_t kElements = int64_t{1} << 25;
  Program program;
  program.entry("run", {{"x", f32, {kElements}}}, [](Tensor x) -> Outputs {
    Tensor y = maximum(x * 1.5 + 0.25, 0.0);
    y = y * y - x / 3.0;
    return {{"y", select(y > 1.0, y, -y) + 0.5}};
  });
  auto session = NABLA_TRY(open_program(program.module(), 2));
  return share_of_runs(*session, 8e-9 * static_cast<double>(kElements), "GB/s", "copy", [] { return copy_gbs(2); });
}

// The time of softmax(x + mask) with half of the mask at -1e9, whose exponentials are 0, over that with a mask of zeros. Rounds
// alternate, so that both see the same machine.
Result<Measurement> masked_softmax() {
  constexpr int64_t kRows = 512, kColumns = 1024;
  constexpr int kRounds = 7;
  Program program;
  program.entry("run", {{"x", f32, {kRows, kColumns}}, {"mask", f32, {kRows, kColumns}}}, [](Tensor x, Tensor mask) -> Outputs {
    return {{"y", softmax(x + mask, -1)}};
  });
  auto session = NABLA_TRY(open_program(program.module(), 1));
  int entry = NABLA_TRY(session->need_entry("run"));
  Buffers buffers(session->entries()[entry]);
  Literal masks[2] = {Literal(f32, {kRows, kColumns}), Literal(f32, {kRows, kColumns})};
  for (int64_t i = 0; i < masks[1].size(); ++i) masks[1].set(i, i % 2 == 0 ? -1e9 : 0);
  double seconds[2] = {HUGE_VAL, HUGE_VAL};
  bool ok = true;
  for (int round = 0; round < kRounds; ++round)
    for (int i = 0; i < 2; ++i) {
      buffers.in[1] = masks[i].data();
      auto run = [&] { ok = session->run(entry, buffers.in, buffers.out).ok() && ok; };
      seconds[i] = std::min(seconds[i], best_seconds(run, 1, 0.05));
    }
  if (!ok) return error(Code::kMisuse, "a run of the entry failed");
  return against_budget(seconds[1] / seconds[0], "", 1.1);
}

// Leaves of four elements, each negated by an instruction of its own: what depends on nothing is not fused.
Program small_updates(int count) {
  Program program;
  std::vector<State> leaves;
  for (int i = 0; i < count; ++i) leaves.push_back(program.state(fmt::format("s{}", i), f32, {4}));
  program.entry("init", {}, [&](const std::vector<Tensor>&) {
    for (const State& s : leaves) s.set(ones({4}));
  });
  program.entry("run", {}, [&](const std::vector<Tensor>&) {
    for (const State& s : leaves) s.set(-s.get());
  });
  return program;
}

// The kernels' own work, one vector each, is part of it.
Result<Measurement> dispatch() {
  constexpr int kShort = 8, kLong = 72;
  double seconds[2];
  for (int i = 0; i < 2; ++i) {
    int count = i ? kLong : kShort;
    Program program = small_updates(count);
    int64_t instructions = NABLA_TRY(instructions_of(program.module(), "run"));
    if (instructions != count)
      return error(Code::kInvalidModule, "{} updates became {} instructions: this bench measures something else", count,
                   instructions);
    auto session = NABLA_TRY(open_program(program.module(), 1));
    NABLA_TRY(session->run(session->find_entry("init"), {}, {}));
    seconds[i] = NABLA_TRY(seconds_per_run(*session, "run"));
  }
  return against_budget((seconds[1] - seconds[0]) / (kLong - kShort) * 1e6, "us", 1.0);
}

Result<Measurement> empty_step() {
  Program program;
  State count = program.state("count", i32, {});
  program.entry("init", {}, [&](const std::vector<Tensor>&) { count.set(zeros({}, i32)); });
  program.entry("run", {}, [&](const std::vector<Tensor>&) { count.set(count.get() + 1); });
  auto session = NABLA_TRY(open_program(program.module(), 0));
  NABLA_TRY(session->run(session->find_entry("init"), {}, {}));
  double seconds = NABLA_TRY(seconds_per_run(*session, "run"));
  return against_budget(seconds * 1e6, "us", 5.0);
}

}  // namespace

std::vector<Bench> kernel_benches() {
  return {
      {"gemm_1024x768x3072_1t", "f32 matrix product after nablac tune, one thread",
       [](const Paths& p) { return gemm(p, 1); }},
      {"gemm_1024x768x3072_2t", "f32 matrix product after nablac tune, two threads",
       [](const Paths& p) { return gemm(p, 2); }},
      {"fused_chain", "nine elementwise ops over 128 MiB in one kernel, two threads",
       [](const Paths&) { return fused_chain(); }},
      {"masked_softmax_vs_plain", "softmax with half of its entries masked over softmax without a mask, one thread",
       [](const Paths&) { return masked_softmax(); }},
      {"dispatch_us", "one more instruction in a step, one thread", [](const Paths&) { return dispatch(); }},
      {"empty_step_us", "a step that adds 1 to a counter", [](const Paths&) { return empty_step(); }},
  };
}

}  // namespace nabla::bench
