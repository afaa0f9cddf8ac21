// Cuts a text into samples for nabla-run: corpus TEXT TRAIN.safetensors VALIDATION.safetensors
// The last eleventh of the text is for validation, in windows side by side; training windows start anywhere.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <random>

#include "runtime/format/file.h"
#include "runtime/format/process.h"
#include "runtime/format/safetensors.h"

namespace {

using nabla::Literal;

constexpr int64_t kWindow = 129;  // 128 characters and the one after each

Literal windows(std::span<const uint8_t> text, const std::vector<int64_t>& starts) {
  Literal out(nabla::DType::kU8, {static_cast<int64_t>(starts.size()), kWindow});
  auto* to = static_cast<uint8_t*>(out.mutable_data());
  for (size_t i = 0; i < starts.size(); ++i) std::memcpy(to + i * kWindow, text.data() + starts[i], kWindow);
  return out;
}

nabla::Status run(const std::string& path, const std::string& train, const std::string& validation, int64_t samples,
                  uint64_t seed) {
  NABLA_TRY(nabla::format::check_files({{"TEXT", path}}, {{"TRAIN", train}, {"VALIDATION", validation}}));
  auto file = NABLA_TRY(nabla::format::FileBytes::map(path));
  std::span<const uint8_t> text = file->bytes();
  auto size = static_cast<int64_t>(text.size()), split = size - size / 11;
  if (size - split < kWindow)
    return nabla::error(nabla::Code::kInputShape, "{} has {} characters; at least {} are needed", path, size,
                        11 * kWindow);
  std::mt19937_64 random(seed);
  std::vector<int64_t> anywhere(samples), side_by_side;
  for (int64_t& start : anywhere) start = static_cast<int64_t>(random() % static_cast<uint64_t>(split - kWindow + 1));
  for (int64_t start = split; start + kWindow <= size; start += kWindow - 1) side_by_side.push_back(start);
  NABLA_TRY(nabla::format::write_safetensors(train, {{"tokens", windows(text, anywhere)}}));
  return nabla::format::write_safetensors(validation, {{"tokens", windows(text, side_by_side)}});
}

}  // namespace

int main(int argc, char** argv) {
  nabla::format::prepare_process(false);
  std::string text, train, validation;
  int64_t samples = 24000;
  uint64_t seed = 0;
  CLI::App app("Cuts a text into windows of 129 characters for training and validation.", "corpus");
  app.add_option("TEXT", text, "any file")->required();
  app.add_option("TRAIN", train, "written: .safetensors")->required();
  app.add_option("VALIDATION", validation, "written: .safetensors")->required();
  app.add_option("--samples", samples, "training windows [24000: 1500 steps of 16]")->check(CLI::Range(16, 10000000));
  app.add_option("--seed", seed, "of their places [0]");
  CLI11_PARSE(app, argc, argv);
  nabla::Status status = run(text, train, validation, samples, seed);
  if (!status.ok()) std::fputs(nabla::to_string(status.errors()).c_str(), stderr);
  return status.ok() ? 0 : 1;
}
