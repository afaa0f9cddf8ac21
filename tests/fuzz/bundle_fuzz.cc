// Fuzzes the loaders of the runtime: whatever the bytes, each must return a value or a diagnostic. Nothing is executed.
#include <cstddef>
#include <cstdint>

#include "runtime/format/bundle_reader.h"
#include "runtime/format/npy.h"
#include "runtime/format/safetensors.h"
#include "runtime/format/test_programs.h"

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
  // In the place of one member of a bundle for several ranks.
  static const format::Bundle ranks =
      *format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(*format::two_classes().bytes())), "fuzz");
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const format::ZipMember& m : ranks.members()) out.push_back(m.name);
    return out;
  }();
  for (std::string_view exchanged : {format::kRanksMember, std::string_view("class/front/programs/main.fb")})
    (void)format::check_programs(
        names,
        [&](std::string_view name) -> std::optional<format::Bytes> {
          if (name == exchanged) return aligned->bytes();
          format::Bytes member = ranks.member(name);
          return member.empty() ? std::nullopt : std::optional<format::Bytes>(member);
        },
        "fuzz");
  (void)format::parse_npy(bytes, "fuzz");
  (void)format::parse_npz(bytes, "fuzz");
  (void)format::parse_safetensors(bytes, "fuzz");
  return 0;
}
