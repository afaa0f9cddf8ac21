#include "bench/gpu_check/session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "runtime/format/bundle_reader.h"

namespace nabla::gpu_check {

std::string nvidia_smi(const std::string& figures) {
  std::string out;
  FILE* in = popen(("nvidia-smi --query-gpu=" + figures + " --format=csv,noheader 2> /dev/null").c_str(), "r");
  if (in == nullptr) return out;
  char line[512];
  if (std::fgets(line, sizeof line, in) != nullptr) out = line;
  pclose(in);
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Result<std::unique_ptr<exec::Session>> open(const std::string& folder, const std::string& name,
                                            const std::string& target, const std::string& trace) {
  return exec::Session::open(folder + "/" + name + ".nbundle", {.trace = trace, .target = target});
}

std::vector<Literal> drawn_inputs(const exec::EntryInfo& entry, int64_t integers, std::mt19937_64& random) {
  std::vector<Literal> out;
  for (const exec::TensorInfo& input : entry.inputs) {
    Literal x(input.dtype, input.shape);
    for (int64_t i = 0; i < x.size(); ++i) {
      if (is_float(input.dtype))
        x.set(i, std::uniform_real_distribution<double>(-2, 2)(random));
      else
        x.set_i(i, std::uniform_int_distribution<int64_t>(0, integers - 1)(random));
    }
    out.push_back(std::move(x));
  }
  return out;
}

std::vector<Literal> poisoned_outputs(const exec::EntryInfo& entry) {
  std::vector<Literal> out;
  for (const exec::TensorInfo& output : entry.outputs) {
    Literal y(output.dtype, output.shape);
    std::memset(y.mutable_data(), 0xff, static_cast<size_t>(y.size_bytes()));
    out.push_back(std::move(y));
  }
  return out;
}

Status run(exec::Session& session, int entry, const std::vector<Literal>& inputs, std::vector<Literal>& outputs) {
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const Literal& x : inputs) in.push_back(x.data());
  for (Literal& y : outputs) out.push_back(y.mutable_data());
  return session.run(entry, in, out);
}

Status run_once(exec::Session& session, const std::string& name, int64_t integers, std::mt19937_64& random) {
  int entry = NABLA_TRY(session.need_entry(name));
  const exec::EntryInfo& info = session.entries()[entry];
  std::vector<Literal> inputs = drawn_inputs(info, integers, random), outputs = poisoned_outputs(info);
  return run(session, entry, inputs, outputs);
}

double largest_error(const std::vector<double>& got, const std::vector<double>& want) {
  double worst = want.size() == got.size() ? 0 : HUGE_VAL;
  for (size_t i = 0; i < std::min(want.size(), got.size()); ++i) {
    double error = std::abs(got[i] - want[i]) / (1 + std::abs(want[i]));
    worst = std::max(worst, std::isnan(error) ? HUGE_VAL : error);
  }
  return worst;
}

Result<std::vector<double>> losses_of(exec::Session& session, int64_t vocabulary, int steps, uint64_t seed) {
  std::mt19937_64 random(seed);
  NABLA_TRY(run_once(session, "init", 1000, random));
  int step = NABLA_TRY(session.need_entry("step"));
  const exec::EntryInfo& info = session.entries()[step];
  std::vector<Literal> batch = drawn_inputs(info, vocabulary, random), results = poisoned_outputs(info);
  std::vector<double> out;
  for (int i = 0; i < steps; ++i) {
    NABLA_TRY(run(session, step, batch, results));
    out.push_back(results[0].get(0));
  }
  return out;
}

Result<Timing> time_entry(exec::Session& session, const std::string& name, int64_t integers, double budget,
                          std::mt19937_64& random) {
  int entry = NABLA_TRY(session.need_entry(name));
  const exec::EntryInfo& info = session.entries()[entry];
  std::vector<Literal> inputs = drawn_inputs(info, integers, random), outputs = poisoned_outputs(info);
  for (int i = 0; i < 3; ++i) NABLA_TRY(run(session, entry, inputs, outputs));
  std::vector<double> times;
  for (double begin = now(); times.size() < 5 || (now() - begin < budget && times.size() < 10'000);) {
    double start = now();
    NABLA_TRY(run(session, entry, inputs, outputs));
    times.push_back(now() - start);
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return Timing{times[times.size() / 2], static_cast<int>(times.size())};
}

}  // namespace nabla::gpu_check
