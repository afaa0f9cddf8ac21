#include "codegen/workspace.h"

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "runtime/format/file.h"

namespace nabla::codegen {

namespace fs = std::filesystem;

Workspace::Workspace() {
  const char* tmp = std::getenv("TMPDIR");
  pattern_ = std::string(tmp && *tmp ? tmp : "/tmp") + "/nabla-XXXXXX";
  std::string made = pattern_;
  if (mkdtemp(made.data())) path_ = made;
}

Workspace::~Workspace() {
  std::error_code ignored;
  if (!keep_ && !path_.empty()) fs::remove_all(path_, ignored);
}

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

Status write_text(const fs::path& path, const std::string& text) {
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) return format::write_failure(path.string(), errno);
  return Ok{};
}

}  // namespace nabla::codegen
