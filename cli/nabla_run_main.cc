#include "cli/nabla_run_main.h"

#include <cstdio>
#include <string>
#include <vector>

#include "cli/nabla_run_curve.h"
#include "cli/nabla_run_job.h"
#include "cli/nabla_run_options.h"
#include "cli/nabla_run_report.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"

namespace nabla::cli {
namespace {

/// This executable's bytes when a bundle stands at their end, else null.
std::shared_ptr<const format::FileBytes> own_bundle() {
  auto file = format::FileBytes::map("/proc/self/exe");
  if (!file.ok() || !format::ends_with_zip((*file)->bytes())) return nullptr;
  return *file;
}

Result<std::unique_ptr<exec::Session>> open_session(const RunOptions& options,
                                                    std::shared_ptr<const format::FileBytes> own,
                                                    const std::string& program) {
  exec::SessionOptions settings{.threads = options.threads, .trace = options.trace, .pin_caller = true};
  if (own == nullptr) return exec::Session::open(options.bundle, settings);
  return exec::Session::create(NABLA_TRY(format::Bundle::from_bytes(std::move(own), program)), settings);
}

Status run(const RunOptions& options, std::shared_ptr<const format::FileBytes> own, const std::string& program) {
  auto session = NABLA_TRY(open_session(options, std::move(own), program));
  Reporter reporter(!options.loss_curve.empty());
  if (!options.state.empty()) (void)NABLA_TRY(session->load_state(options.state));
  for (const JobOptions& job : options.jobs)
    if (!job.entry.empty()) (void)NABLA_TRY(session->need_entry(job.entry));
  (void)NABLA_TRY(reporter.open_metrics(options.metrics));
  for (const JobOptions& job : options.jobs) (void)NABLA_TRY(run_job(*session, options, job, reporter));
  if (!options.save_state.empty()) (void)NABLA_TRY(session->save_state(options.save_state));
  (void)NABLA_TRY(reporter.close());
  if (!options.loss_curve.empty()) {
    if (reporter.curve().values.empty())
      return error(Code::kBadOption, "--loss-curve: no entry that writes state and has a scalar output was run");
    std::string title = fmt::format("Training: {}", reporter.curve().metric);
    (void)NABLA_TRY(format::write_file(options.loss_curve, curve_svg(reporter.curve(), title)));
  }
  return session->finish();
}

int report(const Diagnostics& errors) {
  std::fputs(to_string(errors).c_str(), stderr);
  return errors.front().code == Code::kBadOption ? 2 : 1;
}

}  // namespace

int nabla_run_main(int argc, const char* const* argv) {
  std::shared_ptr<const format::FileBytes> own = own_bundle();
  std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  Result<CommandLine> line = parse_command_line(args, own != nullptr);
  if (!line.ok()) return report(line.errors());
  if (!line->text.empty()) {
    std::fputs(line->text.c_str(), stdout);
    return 0;
  }
  Status status = run(line->options, std::move(own), argc > 0 ? argv[0] : "nabla-run");
  return status.ok() ? 0 : report(status.errors());
}

}  // namespace nabla::cli
