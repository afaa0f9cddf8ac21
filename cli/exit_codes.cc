#include "cli/exit_codes.h"

#include <vector>

#include <fmt/format.h>

namespace nabla::cli {
namespace {

struct Row {
  int exit;
  const char* meaning;
  std::vector<Code> codes;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {10, "another rank is gone or has failed", {Code::kPeerLost, Code::kTransportFailed}},
      {11, "a rank did not come to an exchange in time", {Code::kTooLate, Code::kRanksDiverge}},
      {12, "the coordinator cannot be reached", {Code::kCoordinatorLost}},
      {13, "a message came damaged", {Code::kPayloadCorrupt}},
      {20, "the bundle is damaged, no bundle, or not signed as asked", {Code::kCorrupt, Code::kForeignFile, Code::kNotSigned}},
      {21,
       "the bundle is not for this runtime or machine",
       {Code::kNewerVersion, Code::kCpuTooOld, Code::kWrongGpu, Code::kNoGpu, Code::kUnknownTarget, Code::kMissingLibrary}},
      {22, "the ranks do not fit together", {Code::kRanksDisagree}},
      {30, "a file cannot be read or written", {Code::kNotFound, Code::kReadFailed, Code::kWriteFailed}},
      {31, "there is no valid checkpoint", {Code::kNoCheckpoint}},
      {40, "memory could not be had", {Code::kOutOfMemory}},
      {50, "stopped by a signal, at the end of a step", {Code::kInterrupted}},
  };
  return all;
}

}  // namespace

int exit_code(Code code, bool fine) {
  if (code == Code::kBadOption) return 2;
  if (!fine) return code == Code::kInterrupted ? 130 : 1;
  for (const Row& row : rows())
    for (Code c : row.codes)
      if (c == code) return row.exit;
  return 1;
}

std::string exit_codes_text() {
  std::string out = "  0  done\n  1  another error\n  2  a wrong command line\n";
  for (const Row& row : rows()) out += fmt::format(" {}  {}\n", row.exit, row.meaning);
  return out;
}

}  // namespace nabla::cli
