// nablac keys and nablac sign: who vouches for a bundle.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cerrno>

#include "cli/nablac/commands.h"
#include "cli/validators.h"
#include "runtime/format/bundle_reader.h"
#include "runtime/signature/sign.h"
#include "runtime/signature/signature.h"

namespace nabla::cli {
namespace {

/// A file that was not there, which only its owner reads.
Status write_secret(const std::string& path, const std::string& text) {
  int fd = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) {
    const int problem = errno;
    Diagnostic d = format::write_failure(path, problem);
    if (problem == EEXIST) d.help = "give these keys another name; a key that has signed bundles is not replaced";
    return d;
  }
  bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  int problem = errno;
  if (::close(fd) != 0 || !written) return format::write_failure(path, problem);
  return Ok{};
}

Result<std::string> make_keys(const std::string& name) {
  signature::KeyPair keys = signature::new_key_pair();
  (void)NABLA_TRY(write_secret(name + ".secret", signature::key_file(keys.secret_key, true)));
  (void)NABLA_TRY(format::write_file(name + ".public", signature::key_file(keys.public_key, false)));
  return fmt::format("{0}.secret signs (keep it to yourself), {0}.public is what --require-signature takes: {1}", name, keys.public_key);
}

Result<std::string> sign_bundle(const std::string& path, const std::string& key, const std::string& out) {
  std::string secret = NABLA_TRY(signature::read_key(key, true));
  auto file = NABLA_TRY(format::FileBytes::map(path));
  (void)NABLA_TRY(format::Bundle::from_bytes(file, path));  // nobody vouches for what cannot be run
  std::string bytes = NABLA_TRY(signature::sign(file->bytes(), secret, path));
  (void)NABLA_TRY(format::write_file(out, bytes));
  return out + ": signed";
}

}  // namespace

void add_sign(CLI::App& app, const Streams& streams, Action& action) {
  auto say = [&streams](Result<std::string> text) {
    if (!text.ok()) return finish(std::move(text.errors()), streams);
    streams.out << printable(*text) << "\n";
    return 0;
  };
  auto name = std::make_shared<std::string>();
  CLI::App* keys = app.add_subcommand("keys", "Makes a pair of keys for nablac sign: NAME.secret and NAME.public");
  keys->add_option("NAME", *name, "of the files, without their endings")->required()->check(file_name());
  keys->callback([=, &action] { action = [=] { return say(make_keys(*name)); }; });
  struct Args {
    std::string bundle, key, out;
  };
  auto args = std::make_shared<Args>();
  CLI::App* command = app.add_subcommand("sign", "Signs a bundle (Ed25519), which nabla-run --require-signature then takes");
  command->add_option("BUNDLE", args->bundle, "the bundle")->required();
  command->add_option("--key", args->key, "NAME.secret of nablac keys")->required()->check(file_name());
  command->add_option("-o,--output", args->out, "the signed bundle [BUNDLE itself]")->check(file_name());
  command->callback([=, &action] {
    action = [=] { return say(sign_bundle(args->bundle, args->key, args->out.empty() ? args->bundle : args->out)); };
  });
}

}  // namespace nabla::cli
