// nabla-run as a function, so that tests can call it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace nabla::comm {
class Transport;
}

namespace nabla::cli {

/// Where tests reach into a rank of several processes, to break it.
struct Hooks {
  std::function<void(uint32_t rank, uint64_t run)> before_run;
  /// Stands between the rank and the messages of its engine.
  std::function<std::shared_ptr<comm::Transport>(std::shared_ptr<comm::Transport>)> transport;
};

/// Runs the command line. Returns the exit code: docs/ranks.md.
int nabla_run_main(int argc, const char* const* argv, const Hooks& hooks = {});

}  // namespace nabla::cli
