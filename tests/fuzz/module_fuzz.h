// What the fuzzers of the three forms share.
#pragma once

#include <string_view>

#include "ir/ops/all_ops.h"
#include "ir/serialize.h"

namespace nabla::fuzz {

/// Reads the bytes. What is read must keep its meaning: its text parses and prints the same, and the other forms give
/// it back.
inline int check_module(std::string_view bytes, ir::Form form) {
  constexpr size_t kLimit = 1 << 20;
  if (bytes.size() > kLimit) return 0;
  // Sidecars of these sizes are enough for the constants of the corpus.
  ir::LoadSidecar load = [](const std::string&) -> Result<std::string> { return std::string(4096, '\0'); };
  Result<ir::Module> module = ir::decode(bytes, form, "fuzz", ops::all_ops(), load);
  if (!module.ok()) {
    NABLA_CHECK(!to_string(module.errors()).empty());
    return 0;
  }
  std::string text = print(*module, {.locations = true});
  Result<ir::Module> again = ir::parse_module(text, "printed", ops::all_ops());
  NABLA_CHECK(again.ok(), "{}\n{}", to_string(again.errors()), text);
  NABLA_CHECK(print(*again, {.locations = true}) == text, "{}\n-- became --\n{}", text,
              print(*again, {.locations = true}));
  for (ir::Form other : {ir::Form::kBinary, ir::Form::kJson}) {
    Result<ir::Encoded> encoded = encode(*module, other, "m.consts");
    if (!encoded.ok()) continue;
    ir::LoadSidecar own = [&](const std::string&) -> Result<std::string> { return encoded->sidecar; };
    Result<ir::Module> back = ir::decode(encoded->bytes, other, "encoded", ops::all_ops(), own);
    NABLA_CHECK(back.ok(), "{}\n{}", to_string(back.errors()), text);
    NABLA_CHECK(print(*back, {.locations = true}) == text, "{}", text);
  }
  return 0;
}

}  // namespace nabla::fuzz
