// nablac verify FILE: everything that can be checked without running it.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "cli/nablac/commands.h"
#include "cli/validators.h"
#include "ir/ops/all_ops.h"
#include "ir/serialize.h"
#include "runtime/format/bundle_reader.h"

namespace nabla::cli {
namespace {

Result<std::string> verify_bundle(const std::string& path) {
  format::Bundle bundle = NABLA_TRY(format::Bundle::open(path));
  std::string out = fmt::format("bundle, {} members", bundle.members().size());
  for (const format::BundleClass& of : bundle.classes()) {
    std::string member = of.folder + "ir/module.nbl";
    format::Bytes text = bundle.member(member);
    if (text.empty()) continue;
    ir::Module module = NABLA_TRY(ir::parse_module(format::as_text(text), path + ":" + member, ops::all_ops()));
    std::string whose = bundle.ranks() == nullptr ? "its module" : fmt::format("class {}", of.name);
    out += fmt::format("; {}: {}", whose, summary_of(module));
  }
  return out;
}

Result<std::string> verify_file(const std::string& path) {
  if (ir::form_of(path).ok()) {
    ir::Module module = NABLA_TRY(ir::read_module(path, ops::all_ops()));
    return "module, " + summary_of(module);
  }
  return verify_bundle(path);
}

}  // namespace

void add_verify(CLI::App& app, const Streams& streams, Action& action) {
  auto file = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("verify", "Checks a module (.nbl, .nir.json, .nir) or a bundle");
  command->add_option("FILE", *file, "the file to check")->required();
  command->callback([=, &streams, &action] {
    action = [=, &streams] {
      Result<std::string> found = verify_file(*file);
      if (!found.ok()) return finish(std::move(found.errors()), streams);
      streams.out << printable(*file) << ": ok: " << *found << "\n";
      return 0;
    };
  });
}

}  // namespace nabla::cli
