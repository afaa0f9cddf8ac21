// Continues a text with a trained bundle: generate BUNDLE STATE PROMPT [--temperature T] ...
#include <CLI/CLI.hpp>
#include <cstdio>

#include "runtime/exec/session.h"
#include "runtime/format/process.h"

namespace {

using nabla::DType;
using nabla::Literal;

struct Options {
  std::string bundle, state, prompt;
  double temperature = 0.8, top_p = 1;
  int top_k = 0;
  int64_t length = 400;
  uint64_t seed = 0;
};

// The window of the model is full after 128 characters: the text is then read again from its last 64 on.
constexpr size_t kContext = 128, kKept = 64;

nabla::Status run(const Options& o) {
  auto session = NABLA_TRY(nabla::exec::Session::open(o.bundle, {}));
  NABLA_TRY(session->load_state(o.state));
  int prefill = NABLA_TRY(session->need_entry("prefill")), decode = NABLA_TRY(session->need_entry("decode"));
  int sample = NABLA_TRY(session->need_entry("sample"));
  std::string text = o.prompt;
  if (text.size() >= kContext)
    std::fprintf(stderr, "the model sees %zu characters: of the prompt's %zu the last %zu count\n", size_t{kContext},
                 text.size(), size_t{kKept});
  std::fputs(text.c_str(), stdout);
  size_t in_cache = 0;
  Literal seed(DType::kU32, {2});
  seed.set_i(0, static_cast<int64_t>(o.seed & 0xffffffff));
  for (int64_t i = 0; i < o.length; ++i) {
    std::vector<Literal> logits;
    if (in_cache == 0 || in_cache == kContext) {
      std::string window = text.size() < kContext ? text : text.substr(text.size() - kKept);
      Literal tokens = Literal::from_bytes(DType::kU8, {static_cast<int64_t>(window.size())}, window.data());
      logits = NABLA_TRY(session->call(prefill, {tokens}));
      in_cache = window.size();
    } else {
      logits = NABLA_TRY(session->call(decode, {Literal::scalar_int(DType::kU8, static_cast<uint8_t>(text.back()))}));
      ++in_cache;
    }
    seed.set_i(1, i);
    auto token = NABLA_TRY(session->call(
        sample, {logits[0], Literal::scalar(DType::kF32, o.temperature), Literal::scalar_int(DType::kI32, o.top_k),
                 Literal::scalar(DType::kF32, o.top_p), seed}));
    text += static_cast<char>(token[0].get_i(0));
    std::fputc(text.back(), stdout);
    std::fflush(stdout);
  }
  std::fputc('\n', stdout);
  return nabla::format::flush_stdout();
}

}  // namespace

int main(int argc, char** argv) {
  nabla::format::prepare_process(false);
  Options o;
  CLI::App app("Continues a text, character by character.", "generate");
  app.add_option("BUNDLE", o.bundle, "the compiled model")->required();
  app.add_option("STATE", o.state, "its trained state")->required();
  app.add_option("PROMPT", o.prompt, "the text's beginning")->required()->check([](const std::string& text) {
    return std::string(text.empty() ? "the prompt is empty" : "");
  });
  app.add_option("--length", o.length, "characters to add [400]")->check(CLI::PositiveNumber);
  app.add_option("--temperature", o.temperature, "0: always the most likely character [0.8]")
      ->check([](const std::string& text) {
        char* end = nullptr;
        double value = std::strtod(text.c_str(), &end);
        bool fits = end != text.c_str() && *end == 0 && value >= 0 && value <= 1000;
        return fits ? std::string() : "a temperature is a number from 0 to 1000, not " + text;
      });
  app.add_option("--top-k", o.top_k, "only among this many; 0: all [0]")->check(CLI::NonNegativeNumber);
  app.add_option("--top-p", o.top_p, "only until this share of the probability [1]")->check(CLI::Range(0.0, 1.0));
  app.add_option("--seed", o.seed, "of the draws [0]");
  CLI11_PARSE(app, argc, argv);
  nabla::Status status = run(o);
  if (!status.ok()) std::fputs(nabla::to_string(status.errors()).c_str(), stderr);
  return status.ok() ? 0 : 1;
}
