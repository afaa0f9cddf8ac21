#include "codegen/cpu/toolchain_errors.h"

#include <algorithm>
#include <regex>
#include <sstream>

#include "codegen/compiler_messages.h"
#include "runtime/base/text.h"

namespace nabla::codegen {

Diagnostic refused_ours(const std::string& log, const std::string& how, const std::string& what,
                        const std::string& folder) {
  Diagnostic d = error(Code::kCompilerFailed, "the host compiler ({}) failed on {}", how, what);
  d.notes = first_lines(log, kMostLogLines);
  d.notes.push_back("the generated sources are kept in " + folder);
  return d;
}

std::optional<Diagnostic> missing_symbols(const std::string& log, const std::vector<SourceFile>& sources) {
  static const std::regex kForm(R"((user_\d+\.cc).*undefined reference to [`']([^`']+)')");
  std::istringstream lines(log);
  std::smatch m;
  for (std::string line; std::getline(lines, line);) {
    if (line.size() > 2000 || !std::regex_search(line, m, kForm)) continue;
    auto source = std::find_if(sources.begin(), sources.end(), [&](const SourceFile& s) { return s.name == m[1]; });
    if (source == sources.end() || !source->user) continue;
    Diagnostic d = error(Code::kUserCode, "kernel `{}` uses `{}`, which neither its source nor libc or libm defines",
                         source->user->name, m[2].str());
    d.location = user_location(source->user->text, source->user->text.line);
    d.help = "kernels use no C++ library beyond its headers: no allocation, exceptions, streams or containers";
    return d;
  }
  return std::nullopt;
}

}  // namespace nabla::codegen
