// libFuzzer on the FlatBuffer form of modules.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/module_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return nabla::fuzz::check_module({reinterpret_cast<const char*>(data), size}, nabla::ir::Form::kBinary);
}
