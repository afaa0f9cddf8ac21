#include "runtime/format/executable.h"

namespace nabla::format {
namespace {

// Stands once in the bytes of every program that is linked with this file. Volatile: write_executable changes it there.
constexpr volatile char kCarrier[] = "nabla: a bundle at the end of this file: 0";

}  // namespace

bool carries_bundle() { return kCarrier[sizeof kCarrier - 2] == '1'; }

Status write_executable(const std::string& path, Bytes runtime, std::string_view bundle) {
  std::string program(as_text(runtime)), mark;
  for (size_t i = 0; i < sizeof kCarrier; ++i) mark += kCarrier[i];
  size_t at = program.find(mark);
  if (at == program.npos || program.find(mark, at + 1) != program.npos)
    return error(Code::kForeignFile, "the runtime for `{}` ({} bytes) is not a nabla-run that can carry a bundle", path,
                 program.size());
  program[at + mark.size() - 2] = '1';
  // Member data are aligned relative to the archive, which therefore starts on a page.
  constexpr size_t kPage = 4096;
  std::string padding((kPage - runtime.size() % kPage) % kPage, '\0');
  Bytes pieces[] = {as_bytes(program), as_bytes(padding), as_bytes(bundle)};
  return write_file(path, pieces, true);
}

}  // namespace nabla::format
