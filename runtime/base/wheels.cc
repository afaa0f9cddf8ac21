#include "runtime/base/wheels.h"

#include <glob.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace nabla {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Of PREFIX/bin/python3. A virtual environment's is a link to another prefix's, which is not followed.
std::string prefix_of_python() {
  std::string path = variable("PATH");
  for (size_t at = 0; at < path.size();) {
    size_t end = std::min(path.find(':', at), path.size());
    fs::path folder = path.substr(at, end - at);
    std::error_code ignored;
    if (folder.is_absolute() && fs::exists(folder / "python3", ignored)) return folder.parent_path();
    at = end + 1;
  }
  return "";
}

}  // namespace

std::vector<std::string> files_in_wheels(const std::string& file) {
  std::string home = variable("HOME");
  std::vector<std::string> out;
  for (const std::string& prefix : {variable("VIRTUAL_ENV"), prefix_of_python(), home.empty() ? "" : home + "/.local",
                                    std::string("/usr/local"), std::string("/usr")}) {
    if (prefix.empty()) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      glob_t found = {};
      std::string pattern = prefix + "/lib/python3*/" + packages + "/nvidia/*/lib/" + file;
      if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; ++i)
          if (std::find(out.begin(), out.end(), found.gl_pathv[i]) == out.end()) out.emplace_back(found.gl_pathv[i]);
      globfree(&found);
    }
  }
  return out;
}

}  // namespace nabla
