// Fuzzes the loaders of the runtime: whatever the bytes, each must return a value or a diagnostic. Nothing is executed.
#include <cstddef>
#include <cstdint>

#include "runtime/format/bundle_reader.h"
#include "runtime/format/npy.h"
#include "runtime/format/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace format = nabla::format;
  format::Bytes bytes(data, size);
  (void)format::Bundle::from_bytes(format::FileBytes::copy_of(bytes), "fuzz");
  // The checks after the zip and the hashes would otherwise never be reached.
  std::shared_ptr<const format::FileBytes> aligned = format::FileBytes::copy_of(bytes);
  for (int64_t constants : {-1, 64})
    (void)format::check_program_bytes(aligned->bytes(), "fuzz", [&](std::string_view name) -> int64_t {
      return name.starts_with("kernels/") ? 1 : name == "constants.bin" ? constants : -1;
    });
  (void)format::parse_npy(bytes, "fuzz");
  (void)format::parse_npz(bytes, "fuzz");
  (void)format::parse_safetensors(bytes, "fuzz");
  return 0;
}
