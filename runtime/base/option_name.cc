#include "runtime/base/option_name.h"

namespace nabla {
namespace {

std::string spelled_for_tools(const OptionName& option) {
  return option.value.empty() ? fmt::format("--{}", option.name) : fmt::format("--{} {}", option.name, option.value);
}

OptionSpelling of_process = {spelled_for_tools, " "};

}  // namespace

void set_option_spelling(const OptionSpelling& spelling) { of_process = spelling; }

std::string spelled(const OptionName& option) { return of_process.one(option); }

std::string spelled_together(std::initializer_list<OptionName> options) {
  std::string out;
  for (const OptionName& option : options) out += (out.empty() ? "" : of_process.between) + spelled(option);
  return out;
}

}  // namespace nabla
