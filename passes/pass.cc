#include "passes/pass.h"

#include "runtime/base/text.h"

namespace nabla::passes {

Result<std::optional<int64_t>> bytes_option(const PassContext& context, const std::string& name) {
  auto option = context.options.find(name);
  if (option == context.options.end() || option->second.empty()) return std::optional<int64_t>();
  std::optional<int64_t> bytes = parse_bytes(option->second);
  if (!bytes) return error(Code::kBadOption, "{}: `{}` is no number of {}", name, option->second, kByteUnits);
  return bytes;
}

bool is_deterministic(const PassContext& context) {
  auto option = context.options.find("deterministic");
  return option != context.options.end() && option->second == "true";
}

}  // namespace nabla::passes
