// What nablac keeps of a pass that failed by our fault.
#include <unistd.h>

#include <cstdlib>

#include "cli/nablac/commands.h"
#include "ir/text.h"
#include "runtime/base/text.h"
#include "runtime/format/file.h"

namespace nabla::cli {

void keep_reproducer(const ir::Module& before, const std::string& command, const Streams& streams) {
  const char* tmp = std::getenv("TMPDIR");
  std::string path = fmt::format("{}/nablac-reproducer-{}.nbl", tmp && *tmp ? tmp : "/tmp", getpid());
  std::string run = command;
  if (size_t at = run.find("FILE"); at != std::string::npos) run.replace(at, 4, path);
  Status written = format::write_file(path, "// " + run + "\n" + print(before, {.locations = true}));
  if (written.ok())
    streams.err << printable("note: the module before the failing pass is in " + path + "; run: " + run) << std::endl;
  else
    streams.err << to_string(written.errors()) << std::flush;
}

}  // namespace nabla::cli
