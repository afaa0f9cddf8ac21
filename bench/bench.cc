#include "bench/bench.h"

#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cli/driver/compile.h"
#include "cli/driver/tuning.h"
#include "ir/module.h"
#include "ir/op_def.h"
#include "ir/ops/all_ops.h"
#include "runtime/base/text.h"
#include "runtime/format/bundle_reader.h"
#include "runtime/format/file.h"

namespace nabla::bench {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double best_seconds(const std::function<void()>& f, int rounds, double round_seconds) {
  f();
  double begin = now();
  f();
  double once = std::max(now() - begin, 1e-9);
  // A long call is a round of its own: the fewer calls, the likelier that nothing else ran meanwhile.
  int64_t calls = once > 1e-3 ? 1 : std::max<int64_t>(1, static_cast<int64_t>(round_seconds / once));
  if (calls == 1) rounds = std::clamp(static_cast<int>(rounds * round_seconds / once), rounds, 100);
  double best = once;
  for (int i = 0; i < rounds; ++i) {
    begin = now();
    for (int64_t k = 0; k < calls; ++k) f();
    best = std::min(best, (now() - begin) / static_cast<double>(calls));
  }
  return best;
}

Measurement plain(double value, std::string unit) { return {value, std::move(unit), "", 0, 0, false}; }
Measurement against_budget(double value, std::string unit, double budget) {
  return {value, std::move(unit), "budget", budget, budget / value, false};
}
Measurement against_requirement(double value, std::string unit, double required) {
  return {value, std::move(unit), "required", required, value / required, false};
}
Measurement share_of(std::string unit, std::string limit, const std::function<double()>& work,
                     const std::function<double()>& limit_rate) {
  constexpr int kRounds = 60;
  double value = 0, most = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    value = most = 0;
    for (int i = 0; i < kRounds; ++i) {
      // More often than the work: it takes less time, and what it misses makes the share too large.
      for (int k = 0; k < 3; ++k) most = std::max(most, limit_rate());
      value = std::max(value, work());
    }
    if (value <= kMostShare * most) break;
  }
  return {value, std::move(unit), std::move(limit), most, value / most, true};
}

Status write_tuning(const ir::Module& module, int threads, const std::string& path) {
  ir::Target target = NABLA_TRY(ir::find_target("cpu:native"));
  ir::Module flat = NABLA_TRY(driver::simplify_module(module, target));
  std::string text = NABLA_TRY(driver::tune(flat, ops::all_ops(), target, threads, [](const std::string&) {}));
  return format::write_file(path, text);
}

Result<std::unique_ptr<exec::Session>> open_program(const ir::Module& module, int threads,
                                                    const OpenOptions& how) {
  driver::CompileOptions options;
  options.target = "cpu:native";
  options.tuning_file = how.tuning_file;
  options.deterministic = how.deterministic;
  driver::CompiledBundle compiled = NABLA_TRY(driver::compile(module, options));
  format::Bundle bundle =
      NABLA_TRY(format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(compiled.bytes)), "bench"));
  return exec::Session::create(std::move(bundle), {.threads = threads, .pin_caller = true});
}

Result<int64_t> instructions_of(const ir::Module& module, const std::string& entry) {
  driver::CompileOptions options;
  options.target = "cpu:native";
  driver::CompiledModule lowered = NABLA_TRY(driver::lower_module(module, options));
  const ir::Entry* found = lowered.planned.find_entry(entry);
  if (!found) return error(Code::kUnknownEntry, "the program has no entry `{}`", entry);
  int64_t count = 0;
  for (const ir::Node& node : lowered.planned.find(found->function)->nodes)
    count += node.op->lower != ir::Lowering::kView && node.op->lower != ir::Lowering::kConstant;
  return count;
}

Buffers::Buffers(const exec::EntryInfo& entry) {
  for (const exec::TensorInfo& t : entry.inputs) {
    inputs.emplace_back(t.dtype, t.shape);
    if (is_float(t.dtype))
      for (int64_t i = 0; i < inputs.back().size(); ++i)
        set_float(t.dtype, inputs.back().mutable_data(), i, 0.25 + 0.01 * static_cast<double>(i % 7));
    in.push_back(inputs.back().data());
  }
  for (const exec::TensorInfo& t : entry.outputs) outputs.emplace_back(t.dtype, t.shape);
  for (Literal& o : outputs) out.push_back(o.mutable_data());
}

Result<double> seconds_per_run(exec::Session& session, const std::string& name) {
  int entry = NABLA_TRY(session.need_entry(name));
  Buffers buffers(session.entries()[entry]);
  NABLA_TRY(session.run(entry, buffers.in, buffers.out));
  bool ok = true;
  double seconds = best_seconds([&] { ok = session.run(entry, buffers.in, buffers.out).ok() && ok; });
  if (!ok) return error(Code::kMisuse, "a run of entry `{}` failed", name);
  return seconds;
}

Diagnostic unexpected_output(const std::string& what, const std::string& text) {
  Diagnostic d = error(Code::kReadFailed, "{}", what);
  d.notes = first_lines(text, 20);
  return d;
}

Result<std::string> output_of(const std::string& command, bool with_stderr) {
  std::FILE* pipe = popen((command + (with_stderr ? " 2>&1" : "")).c_str(), "r");
  if (!pipe) return error(Code::kReadFailed, "cannot start: {}", command);
  std::string text;
  char buffer[4096];
  while (size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, n);
  int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  return unexpected_output("this failed: " + command, text);
}

}  // namespace nabla::bench
