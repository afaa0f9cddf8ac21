// The nabla-run executable.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "cli/nabla_run/run.h"

// In the place of libstdc++'s, which says the same with the type's name, for which it brings a demangler of 50 KB.
namespace __gnu_cxx {
void __verbose_terminate_handler() {
  try {
    if (std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
    std::fputs("terminate called\n", stderr);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "terminate called after throwing an exception: %s\n", e.what());
  } catch (...) {
    std::fputs("terminate called after throwing an exception\n", stderr);
  }
  std::abort();
}
}  // namespace __gnu_cxx

// nabla-run only checks signatures, which calls neither of these functions. The object files of libsodium that define them would add
// its other algorithms to nabla-run, which are 100 KB.
extern "C" void sodium_misuse() { std::abort(); }
extern "C" void randombytes_buf(void*, size_t) { std::abort(); }

int main(int argc, char** argv) { return nabla::cli::nabla_run_main(argc, argv); }
