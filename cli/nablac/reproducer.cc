// What nablac says of a pass that failed by our fault.
#include "cli/driver/reproducer.h"

#include "cli/nablac/commands.h"
#include "runtime/base/text.h"

namespace nabla::cli {

void keep_reproducer(const ir::Module& before, const std::string& command, const Streams& streams) {
  Result<std::string> where = driver::write_reproducer(before, command, "nablac");
  if (where.ok())
    streams.err << printable("note: " + *where) << std::endl;
  else
    streams.err << to_string(where.errors()) << std::flush;
}

}  // namespace nabla::cli
