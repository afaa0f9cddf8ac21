#include "ir/target.h"

#include <fstream>

namespace nabla::ir {
namespace {

struct Row {
  const char* name;
  const char* march;
  std::vector<std::string> features;
  int vector_bytes, vector_registers;
};

const std::vector<Row>& rows() {
  static const auto* const kRows = new std::vector<Row>{
      {"cpu:x86-64-v3", "x86-64-v3", {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}, 32, 16},
      {"cpu:x86-64-v4",
       "x86-64-v4",
       {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "avx512f", "avx512bw", "avx512cd", "avx512dq",
        "avx512vl"},
       64,
       32},
  };
  return *kRows;
}

bool machine_has(const std::vector<std::string>& features) {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line) && line.rfind("flags", 0) != 0) {
  }
  line += " ";
  for (const std::string& f : features)
    if (line.find(" " + f + " ") == std::string::npos) return false;
  return true;
}

Target from(const Row& row) {
  Target t;
  t.name = row.name;
  t.march = row.march;
  t.cpu_features = row.features;
  t.vector_bytes = row.vector_bytes;
  t.vector_registers = row.vector_registers;
  return t;
}

}  // namespace

std::vector<std::string> target_names() {
  std::vector<std::string> out{"cpu", "cpu:native"};
  for (const Row& r : rows()) out.push_back(r.name);
  return out;
}

Result<Target> find_target(std::string_view name) {
  if (name == "cpu") return from(rows()[0]);
  if (name == "cpu:native") {
    // The largest level that this machine has: bundles made so are the same on all machines of that level.
    for (auto row = rows().rbegin(); row != rows().rend(); ++row)
      if (machine_has(row->features)) return from(*row);
    return error(Code::kUnknownTarget,
                 "cpu:native: this machine has none of the instruction sets that code is generated for");
  }
  for (const Row& r : rows())
    if (name == r.name) return from(r);
  std::string known;
  for (const std::string& t : target_names()) known += (known.empty() ? "" : ", ") + t;
  return error(Code::kUnknownTarget, "unknown target `{}`{}; known: {}", name, did_you_mean(name, target_names()),
               known);
}

}  // namespace nabla::ir
