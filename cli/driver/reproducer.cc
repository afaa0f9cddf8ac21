#include "cli/driver/reproducer.h"

#include <unistd.h>

#include <cstdlib>

#include "ir/text.h"
#include "runtime/format/file.h"

namespace nabla::driver {

Result<std::string> write_reproducer(const ir::Module& before, const std::string& command, const std::string& program) {
  const char* tmp = std::getenv("TMPDIR");
  std::string path = fmt::format("{}/{}-reproducer-{}.nbl", tmp && *tmp ? tmp : "/tmp", program, getpid());
  std::string run = command;
  if (size_t at = run.find("FILE"); at != std::string::npos) run.replace(at, 4, path);
  Status written = format::write_file(path, "// " + run + "\n" + print(before, {.locations = true}));
  if (!written.ok()) return written.errors();
  return "the module before the failing pass is in " + path + "; run: " + run;
}

}  // namespace nabla::driver
