#include "frontend/python/native/option_spelling.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>

namespace nabla::python {
namespace {

// The arguments that are not the option's name with underscores.
constexpr std::pair<std::string_view, std::string_view> kArguments[] = {
    {"allow-idle-axes", "allow_idle_axes=True"},
    {"class", "rank_class"},
    {"layout", "layouts"},
    {"no-library", "library=False"},
    {"state", "load_state"},
    {"weights", "load_weights"},
    {"weights-map", "maps"},
    {"weights-partial", "partial=True"},
};

std::string argument_of(std::string_view option) {
  for (const auto& [name, argument] : kArguments)
    if (name == option) return std::string(argument);
  std::string out(option);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

// Returns `{"dp": 2, "tp": 4}` for "dp=2,tp=4".
std::string dict_of(std::string_view sizes) {
  std::string out;
  std::istringstream axes{std::string(sizes)};
  for (std::string axis; std::getline(axes, axis, ',');) {
    const size_t equals = axis.find('=');
    out += fmt::format("{}\"{}\": {}", out.empty() ? "" : ", ", axis.substr(0, equals), axis.substr(equals + 1));
  }
  return "{" + out + "}";
}

// Types have longer names in Python than in the IR.
constexpr std::pair<std::string_view, std::string_view> kDTypes[] = {{"f32", "float32"}, {"bf16", "bfloat16"}, {"f16", "float16"}};

std::string value_of(std::string_view text) {
  if (text.find('=') != text.npos) return dict_of(text);
  for (const auto& [short_name, name] : kDTypes)
    if (text == short_name) return fmt::format("\"{}\"", name);
  const bool number = std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
  return number ? std::string(text) : fmt::format("\"{}\"", text);
}

}  // namespace

std::string spelled_for_python(const OptionName& option) {
  return option.value.empty() ? argument_of(option.name) : fmt::format("{}={}", argument_of(option.name), value_of(option.value));
}

std::string help_for_python(Code code) {
  switch (code) {
    case Code::kBadOption:
      return "help(nabla.compile_bundle) says what its arguments are";
    case Code::kCpuTooOld:
      return "compile the bundle for this CPU with target";
    case Code::kMissingLibrary:
      return "install it, or compile with library=False";
    case Code::kNoGpu:
      return "compile a CPU program too: target=\"cpu,sm_90a\"";
    case Code::kInputMissing:
      return "pass it by its name";
    case Code::kStateMissing:
      return "run `init` first, or load_state";
    default:
      return "";
  }
}

}  // namespace nabla::python
