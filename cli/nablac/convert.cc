// nablac convert IN OUT: the same module in another form.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "cli/nablac/commands.h"
#include "cli/validators.h"
#include "ir/ops/all_ops.h"
#include "ir/serialize.h"
#include "runtime/format/process.h"

namespace nabla::cli {
namespace {

Status convert(const std::string& in, const std::string& out) {
  (void)NABLA_TRY(ir::form_of(out));
  (void)NABLA_TRY(format::check_files({{"IN", in}}, {{"OUT", out}}));
  ir::Module module = NABLA_TRY(ir::read_module(in, ops::all_ops()));
  return ir::write_module(out, module);
}

}  // namespace

void add_convert(CLI::App& app, const Streams& streams, Action& action) {
  struct Options {
    std::string in, out;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("convert", "Writes a module in another form, which the extension of OUT says");
  command->add_option("IN", options->in, "a module: .nbl, .nir.json or .nir")->required();
  command->add_option("OUT", options->out, "where to write it")->required()->check(file_name());
  command->callback([=, &streams, &action] {
    action = [=, &streams] { return finish(convert(options->in, options->out), streams); };
  });
}

}  // namespace nabla::cli
