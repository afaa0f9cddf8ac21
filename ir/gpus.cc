#include "ir/gpus.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/option_name.h"

namespace nabla::ir {
namespace {

constexpr double kShareOfMemory = 0.9;  // of the data sheet's rate, which a copy reaches

// NVIDIA's data sheets and the white papers of its architectures. Tensor cores of GeForce cards reach half of their rate with f32 sums.
constexpr GpuModel kModels[] = {
    {"A100", 80, 108, 1555, 19.5, 312, 0},
    {"A100 80GB", 80, 108, 2039, 19.5, 312, 0},
    {"A100 80GB PCIe", 80, 108, 1935, 19.5, 312, 0},
    {"A30", 80, 56, 933, 10.3, 165, 0},
    {"A10", 86, 72, 600, 31.2, 125, 0},
    {"A10G", 86, 80, 600, 31.5, 70, 0},
    {"A40", 86, 84, 696, 37.4, 149.7, 0},
    {"RTX 3080", 86, 68, 760, 29.8, 59.5, 0},
    {"RTX 3090", 86, 82, 936, 35.6, 71, 0},
    {"RTX 4080", 89, 76, 717, 48.7, 97.5, 195},
    {"RTX 4090", 89, 128, 1008, 82.6, 165, 330},
    {"L4", 89, 58, 300, 30.3, 121, 242},
    {"L40", 89, 142, 864, 90.5, 181, 362},
    {"L40S", 89, 142, 864, 91.6, 362, 733},
    {"H100", 90, 132, 3350, 66.9, 989, 1979},
    {"H100 PCIe", 90, 114, 2039, 51.2, 756, 1513},
    {"H100 NVL", 90, 132, 3938, 60, 835, 1671},
    {"GH200", 90, 132, 4000, 66.9, 989, 1979},
    {"GH200 144G", 90, 132, 4900, 66.9, 989, 1979},
    {"H200", 90, 132, 4800, 66.9, 989, 1979},
    {"H200 NVL", 90, 132, 4800, 60, 835, 1671},
    {"B200", 100, 148, 8000, 75, 2250, 4500},
    {"RTX 5080", 120, 84, 960, 56.3, 113, 225},
    {"RTX 5090", 120, 170, 1792, 104.8, 210, 419},
};

std::set<std::string> words_of(std::string_view text) {
  std::set<std::string> out;
  std::string word;
  for (size_t i = 0; i <= text.size(); ++i) {
    const auto c = static_cast<unsigned char>(i < text.size() ? text[i] : ' ');
    if (std::isalnum(c)) {
      word += static_cast<char>(std::tolower(c));
    } else if (!word.empty()) {
      out.insert(std::move(word)), word.clear();
    }
  }
  return out;
}

// The model of exactly this name, with or without the words that drivers put before it. Null if there is none.
const GpuModel* named(std::string_view gpu) {
  std::set<std::string> given = words_of(gpu);
  for (const char* maker : {"nvidia", "geforce"}) given.erase(maker);
  for (const GpuModel& model : kModels)
    if (words_of(model.name) == given) return &model;
  return nullptr;
}

// By compute capability: whose data sheet the table of targets has.
constexpr struct {
  int compute;
  const char* name;
} kModelsOfTargets[] = {{80, "A100"}, {89, "RTX 4090"}, {90, "H100"}, {100, "B200"}, {120, "RTX 5090"}};

}  // namespace

const GpuModel* find_gpu(std::string_view driver_name) {
  const std::set<std::string> given = words_of(driver_name);
  // GPUs of these names have other chips than the models of the table, or lend a part of one.
  for (const char* other : {"laptop", "ti", "super", "mobile", "max", "d", "mig"})
    if (given.contains(other)) return nullptr;
  const GpuModel* best = nullptr;
  size_t most = 0;
  for (const GpuModel& model : kModels) {
    const std::set<std::string> words = words_of(model.name);
    if (words.size() > most && std::ranges::includes(given, words)) best = &model, most = words.size();
  }
  return best;
}

const GpuModel* predicted_gpu(const Target& target) {
  for (const GpuModel& model : kModels)
    if (target.cuda.gpus == model.name) return &model;
  for (const auto& [compute, name] : kModelsOfTargets)
    if (compute == target.cuda.compute) return find_gpu(name);
  return nullptr;
}

Status predict_for(Target& target, std::string_view gpu) {
  CudaFacts& facts = target.cuda;
  const GpuModel* model = named(gpu);
  if (model == nullptr || model->compute != facts.compute || facts.ptx) {
    Diagnostic d = error(Code::kUnknownTarget, "`{}:{}`: no data sheet is known of a GPU `{}`", target.name, gpu, gpu);
    if (facts.ptx)
      d = error(Code::kUnknownTarget, "`{}:{}`: times of {} are predicted for an A100 alone", target.name, gpu, target.name);
    else if (model != nullptr)
      d = error(Code::kUnknownTarget, "`{}:{}`: {} has compute capability {}.{}, and the target has {}.{}", target.name, gpu, model->name,
                model->compute / 10, model->compute % 10, facts.compute / 10, facts.compute % 10);
    std::vector<std::string> fit;
    for (const GpuModel& m : kModels)
      if (m.compute == facts.compute && !facts.ptx) fit.push_back(fmt::format("{}:{}", target.name, m.name));
    d.help = fit.empty() ? spelled({"target", target.name}) : fmt::format("the names are {}", fmt::join(fit, ", "));
    return d;
  }
  facts.gpus = model->name;
  facts.multiprocessors = model->multiprocessors;
  facts.copy_gbs = kShareOfMemory * model->memory_gbs;
  facts.f32_tflops = model->f32_tflops, facts.tensor_tflops = model->tensor_tflops, facts.f8_tflops = model->f8_tflops;
  const double lanes = facts.compute == 80 ? 64 : 128;  // of a multiprocessor, each of which does two operations a clock
  facts.clock_ghz = facts.f32_tflops * 1e3 / (2 * lanes * facts.multiprocessors);
  target.threads = facts.multiprocessors * facts.resident_threads;
  return Ok{};
}

}  // namespace nabla::ir
