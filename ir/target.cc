#include "ir/target.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fmt/ranges.h>
#include <fstream>
#include <optional>

#include "ir/gpus.h"
#include "runtime/base/option_name.h"

namespace nabla::ir {
namespace {

struct Row {
  const char* name;
  const char* march;
  std::vector<std::string> features;
  int vector_bytes, vector_registers;
};

struct CudaRow {
  const char* name;
  CudaFacts facts;
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

// NVIDIA's datasheets and the CUDA programming guide (compute capabilities). The baseline "compute_80" counts as an
// A100. Of memory nine tenths of the data sheet's rate, of an H100's 3,350 GB/s. Clocks are those of which the data sheets' rates of
// f32 are made: two operations in each of 128 lanes (64 of sm_80) of a multiprocessor. The shared cache reads 5,120 bytes a clock on
// the A100 (its white paper) and on the H100 (7.2 and 9.0 TB/s: Table 3 of PMC10448217). Latencies: Luo and others, Benchmarking and
// Dissecting the Nvidia Hopper GPU Architecture, 2024 (arXiv 2402.13499), who measured an A100, an RTX 4090 and an H100 (quoted
// from memory: to be checked with the paper); the chips between them, and after them, count as the nearest of these. Products of 8-bit
// floats with f32 sums: an RTX 4090 and an RTX 5090 (NVIDIA's white papers of Ada and of RTX Blackwell; twice their rate of bf16, as
// bf16 counts here with f32 sums, too), an H100 SXM, a B200; A100, RTX 30: none.
//
// Programs for sm_80 also run on GPUs of capability 8.6 and 8.9, and those for compute_80 on every later GPU. Generated kernels for
// both therefore take at most the 99 KB of shared memory that a block may have on each of these GPUs, although an A100 has 163 KB.
constexpr int kSharedOfAll = 99 << 10;
const std::vector<CudaRow>& cuda_rows() {
  static const auto* const kRows = new std::vector<CudaRow>{
      {"compute_80",
       {80, false, true, 108, 2048, 65536, 164 << 10, kSharedOfAll, 1400, 19.5, 312, "every GPU since A100", 1.41, 5120, 466}},
      {"sm_80", {80, false, false, 108, 2048, 65536, 164 << 10, kSharedOfAll, 1400, 19.5, 312, "A100, A30", 1.41, 5120, 466}},
      {"sm_86", {86, false, false, 84, 1536, 65536, 100 << 10, 99 << 10, 850, 35.6, 142, "RTX 30, A10, A40", 1.66, 0, 466}},
      {"sm_89", {89, false, false, 128, 1536, 65536, 100 << 10, 99 << 10, 920, 82.6, 165, "RTX 40, L4, L40", 2.52, 0, 542, 330}},
      {"sm_90", {90, false, false, 132, 2048, 65536, 228 << 10, 227 << 10, 3000, 66.9, 989, "H100, H200", 1.98, 5120, 479, 1979}},
      {"sm_90a", {90, true, false, 132, 2048, 65536, 228 << 10, 227 << 10, 3000, 66.9, 989, "H100, H200", 1.98, 5120, 479, 1979}},
      {"sm_100", {100, false, false, 148, 2048, 65536, 228 << 10, 227 << 10, 7000, 75, 2250, "B200", 1.98, 0, 479, 4500}},
      {"sm_100a", {100, true, false, 148, 2048, 65536, 228 << 10, 227 << 10, 7000, 75, 2250, "B200", 1.98, 0, 479, 4500}},
      {"sm_120", {120, false, false, 170, 1536, 65536, 100 << 10, 99 << 10, 1600, 104.8, 210, "RTX 50", 2.41, 0, 542, 419}},
  };
  return *kRows;
}

Target from(const CudaRow& row) {
  Target t;
  t.name = row.name;
  t.cuda = row.facts;
  t.library = false;
  t.library_flops = 1 << 20;  // a product that a generated kernel has done in the time of a launch
  // NVIDIA's recommendation, cublasSetWorkspace in the cuBLAS manual.
  t.library_workspace_bytes = row.facts.compute >= 90 ? 32 << 20 : 4 << 20;
  t.vector_bytes = 128;  // the lanes of a warp, four bytes each
  t.threads = row.facts.multiprocessors * row.facts.resident_threads;
  return t;
}

// The number of "sm_87", of two or three digits as all GPUs have them.
std::optional<int> sm_number(std::string_view name) {
  if (!name.starts_with("sm_")) return std::nullopt;
  std::string_view digits = name.substr(3);
  bool number = std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!number || digits.size() < 2 || digits.size() > 3 || digits[0] == '0') return std::nullopt;
  int compute = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), compute);
  return compute;
}

// The known target whose code runs on that GPU, empty when there is none.
std::string fitting(int compute) {
  std::string fit;
  for (const CudaRow& row : cuda_rows()) {
    bool same_major = row.facts.compute / 10 == compute / 10;
    if (!row.facts.ptx && !row.facts.specific && same_major && row.facts.compute <= compute) fit = row.name;
  }
  return fit.empty() && compute > 80 ? "compute_80" : fit;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// The target for a GPU that is called by its name, "h100" or "A10"; empty where no row has it.
std::string target_of_gpu(const std::string& name) {
  std::string target;
  for (const CudaRow& row : cuda_rows())
    if (lower(fmt::format(", {},", row.facts.gpus)).find(fmt::format(", {},", name)) != std::string::npos) target = row.name;
  return target;
}

std::string target_for(const GpuModel& model) {
  std::string target;
  for (const CudaRow& row : cuda_rows())
    if (row.facts.compute == model.compute && !row.facts.ptx) target = row.name;
  return target;
}

// What is wrong with the name of a target that is not known.
Diagnostic unknown_target(std::string_view name) {
  Diagnostic d(Code::kUnknownTarget, name.empty() ? "the name of a target is empty" : fmt::format("unknown target `{}`", name));
  const std::vector<std::string> names = target_names();
  d.help = fmt::format("the targets are {}", fmt::join(names, ", "));
  const std::string small = lower(std::string(name));
  std::optional<int> compute = sm_number(name);
  const GpuModel* model = find_gpu(name);
  if (std::string target = model != nullptr ? target_for(*model) : target_of_gpu(small); !target.empty()) {
    d.message += fmt::format("; code for `{}` runs there", target);
    d.help = spelled({"target", model != nullptr ? fmt::format("{}:{}", target, model->name) : target});
  } else if (!compute) {
    d.message += did_you_mean(small, names);
  } else if (std::string fit = fitting(*compute); fit.empty()) {
    d.message += ": code is generated for GPUs from sm_80 on";
  } else {
    bool later = *compute / 10 > cuda_rows().back().facts.compute / 10;
    d.message += later ? fmt::format(": no GPU of this number is known; code for `{}` runs on every later GPU", fit)
                       : fmt::format("; code for `{}` runs there", fit);
    d.help = spelled({"target", fit});
  }
  return d;
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
  for (const CudaRow& r : cuda_rows()) out.push_back(r.name);
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
  const std::string_view of = name.substr(0, name.find(':'));
  for (const CudaRow& r : cuda_rows()) {
    if (of != r.name) continue;
    Target target = from(r);
    if (of != name) NABLA_TRY(predict_for(target, name.substr(of.size() + 1)));
    return target;
  }
  return unknown_target(name);
}

Result<std::vector<Target>> find_targets(std::string_view list) {
  std::vector<Target> out;
  for (size_t at = 0; at <= list.size();) {
    std::string_view name = list.substr(at, list.find(',', at) - at);
    at += name.size() + 1;
    name.remove_prefix(std::min(name.size(), name.find_first_not_of(' ')));
    name = name.substr(0, name.find_last_not_of(' ') + 1);
    Target target = NABLA_TRY(find_target(name));
    for (const Target& t : out)
      if (t.name == target.name) {
        Diagnostic d = error(Code::kUnknownTarget, "the list of targets has `{}` twice", target.name);
        d.help = "a bundle has one program for each target";
        return d;
      }
    out.push_back(std::move(target));
  }
  return out;
}

}  // namespace nabla::ir
