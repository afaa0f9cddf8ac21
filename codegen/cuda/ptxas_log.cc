#include "codegen/cuda/ptxas_log.h"

#include <charconv>
#include <sstream>

namespace nabla::codegen {
namespace {

// The number in front of `unit`; 0: the line has none.
int number_before(const std::string& line, const std::string& unit) {
  size_t end = line.find(unit);
  if (end == std::string::npos) return 0;
  size_t begin = end;
  while (begin > 0 && isdigit(static_cast<unsigned char>(line[begin - 1]))) --begin;
  int value = 0;
  std::from_chars(line.data() + begin, line.data() + end, value);
  return value;
}

}  // namespace

PtxasLog read_ptxas_log(const std::string& log) {
  PtxasLog out;
  PtxasFacts* kernel = nullptr;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    bool continued = line.starts_with("ptxas         .");
    if (!continued && !line.starts_with("ptxas info")) {
      out.messages += line + "\n";
      continue;
    }
    const std::string entry = "Compiling entry function '";
    if (size_t at = line.find(entry); at != std::string::npos) {
      at += entry.size();
      kernel = &out.kernels[line.substr(at, line.find('\'', at) - at)];
    }
    if (!kernel) continue;
    kernel->spill_store_bytes += number_before(line, " bytes spill stores");
    kernel->spill_load_bytes += number_before(line, " bytes spill loads");
    if (int registers = number_before(line, " registers")) kernel->registers = registers;
    if (int shared = number_before(line, " bytes smem")) kernel->shared_bytes = shared;
  }
  return out;
}

}  // namespace nabla::codegen
