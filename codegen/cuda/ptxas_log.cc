#include "codegen/cuda/ptxas_log.h"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace nabla::codegen {
namespace {

// The number in front of `unit`; 0: the line has none.
int64_t number_before(const std::string& line, const std::string& unit) {
  size_t end = line.find(unit);
  if (end == std::string::npos) return 0;
  size_t begin = end;
  while (begin > 0 && isdigit(static_cast<unsigned char>(line[begin - 1]))) --begin;
  int64_t value = 0;
  std::from_chars(line.data() + begin, line.data() + end, value);
  return value;
}

// "(C7510) Potential ..." of "ptxas info    : (C7510) Potential ...", or the text of a warning; empty: the line is neither. Numbers
// are not told apart: each message that has one is about a loss that the compiler could not avoid.
std::string advice_of(const std::string& line) {
  const size_t colon = line.find(": ");
  if (colon == std::string::npos) return "";
  std::string text = line.substr(colon + 2);
  text.erase(0, text.find_first_not_of(' '));
  const bool numbered = text.size() > 2 && text[0] == '(' && text[1] == 'C' && isdigit(static_cast<unsigned char>(text[2]));
  return numbered || line.starts_with("ptxas warning") ? text : "";
}

// The kernel that a message names in quotes, "... in function 'NAME'"; null: none of those so far.
PtxasFacts* named_in(const std::string& text, std::map<std::string, PtxasFacts>& kernels) {
  for (auto& [name, facts] : kernels)
    if (text.find("'" + name + "'") != std::string::npos) return &facts;
  return nullptr;
}

}  // namespace

PtxasLog read_ptxas_log(const std::string& log) {
  PtxasLog out;
  PtxasFacts* kernel = nullptr;
  std::vector<std::string> advice;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (std::string text = advice_of(line); !text.empty()) advice.push_back(std::move(text));
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
    kernel->spill_store_bytes += static_cast<int>(number_before(line, " bytes spill stores"));
    kernel->spill_load_bytes += static_cast<int>(number_before(line, " bytes spill loads"));
    if (int64_t registers = number_before(line, " registers")) kernel->registers = static_cast<int>(registers);
    if (int64_t shared = number_before(line, " bytes smem")) kernel->shared_bytes = shared;
  }
  // A message may come before the line that begins its kernel. One that names none may be about any kernel of the text.
  for (const std::string& text : advice) {
    if (PtxasFacts* named = named_in(text, out.kernels)) {
      named->advice.push_back(text);
      continue;
    }
    for (auto& [name, facts] : out.kernels) facts.advice.push_back(text);
  }
  return out;
}

PtxMemory memory_of_ptx(const std::string& ptx) {
  PtxMemory out;
  std::istringstream lines(ptx);
  for (std::string line; std::getline(lines, line);) {
    // "\t.shared .align 4 .b8 NAME[65536];": arrays of all types are bytes here.
    size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos || line.find(" .b8 ") == std::string::npos) continue;
    std::string_view word = std::string_view(line).substr(begin);
    int64_t bytes = number_before(line, "];");
    if (word.starts_with(".shared ")) out.shared_bytes += bytes;
    if (word.starts_with(".local ")) out.local_bytes = std::max(out.local_bytes, bytes);
  }
  return out;
}

}  // namespace nabla::codegen
