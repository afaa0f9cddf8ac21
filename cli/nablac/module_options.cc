#include "cli/nablac/module_options.h"

#include <set>

#include "cli/validators.h"

namespace nabla::cli {

void ModuleOptions::add(CLI::App& command) {
  const std::vector<CLI::Option*> others = command.get_options();
  add_code(command);
  spread.add_all(command);
  add_collectives(command);
  add_sizes(command);
  const std::set<const CLI::Option*> before(others.begin(), others.end());
  for (const CLI::Option* option : command.get_options())
    if (!before.contains(option)) added_.push_back(option);
}

std::string ModuleOptions::given() const {
  for (const CLI::Option* option : added_)
    if (option->count() > 0) return option->get_name();
  return "";
}

void ModuleOptions::add_code(CLI::App& command) {
  command.add_flag_callback("--no-library", [this] { compile.library = false; }, "generate every kernel; the bundle needs no library");
  command.add_flag_callback("--no-fuse", [this] { compile.fuse = false; },
                            "a kernel for every op: slow, but nabla-run --check-nan then names the op that made NaN");
  command.add_flag_callback("--no-debug-prints", [this] { compile.debug = false; }, "leave out debug prints and callbacks");
  command.add_flag("--tf32", compile.tf32, "f32 products of GPUs may round their factors to tf32: faster, with 10 bits of fraction");
  command.add_flag("--deterministic", compile.deterministic,
                   "the same bits on 1, 2, 4 or 8 ranks, any microbatches and threads: sums as eight parts and a tree, "
                   "without libraries and fused multiply-adds");
  command
      .add_option("--tuning", compile.tuning_file,
                  "tuning file that nablac tune wrote, whose choices count and by whose rates times are predicted")
      ->check(file_name());
  spread.add_max_bytes(command);
  spread.add(command, "--remat-bytes", *passes::find_option("remat-bytes"));
}

void ModuleOptions::add_collectives(CLI::App& command) {
  add_bytes(command, "--max-comm-bytes", "fail when a rank sends more in a run of an entry",
            [this](passes::Bytes most) { compile.max_comm_bytes = most, spread.note("max-comm-bytes"); });
  spread.add(command, "--hoist-collectives", *passes::find_option("ops"));
  auto no_overlap = [this] { compile.overlap = false, spread.note("no-overlap"); };
  command.add_flag_callback("--no-overlap", no_overlap, "wait for every collective, and every copy of state, where it starts")
      ->excludes(command.get_option("--overlap-bytes"))
      ->excludes(command.get_option("--prefetch"));
}

void ModuleOptions::add_sizes(CLI::App& command) {
  command
      .add_option("--specialize", compile.specialise,
                  "batch=1,8,32: also code for these sizes, which runs choose where they fit; may be repeated")
      ->allow_extra_args(false);
  command
      .add_option("--buckets", compile.buckets,
                  "batch=8,64: a GPU records its launches for sizes up to these; default: up to powers of two")
      ->allow_extra_args(false);
}

}  // namespace nabla::cli
