// A temporary folder for a compiler's files.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/base/diagnostic.h"

namespace nabla::codegen {

/// A folder of its own under $TMPDIR, else /tmp; removed at the end unless it is kept.
class Workspace {
 public:
  Workspace();
  ~Workspace();
  Workspace(const Workspace&) = delete;
  const std::filesystem::path& path() const { return path_; }  ///< empty: errno says why
  const std::string& pattern() const { return pattern_; }
  void keep() { keep_ = true; }

 private:
  std::filesystem::path path_;
  std::string pattern_;
  bool keep_ = false;
};

/// The bytes of a file; empty when it cannot be read.
std::string slurp(const std::filesystem::path& path);
/// E0803 on failure.
Status write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace nabla::codegen
