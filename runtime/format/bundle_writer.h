// Makes bundles: a zip of a manifest, one program per target and whatever belongs to them. docs/bundle-format.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/base/version.h"
#include "runtime/format/file.h"
#include "runtime/format/members.h"

namespace nabla::format {

struct ProgramT;
struct RanksT;

struct BundleMember {
  std::string name;  ///< "kernels/cpu.so", "constants.bin", "source/cpu.cc", ...
  std::string bytes;
};

/// The bytes of a bundle for one rank: manifest, programs (the first as programs/main.fb, others as
/// programs/TARGET.fb), then `members` in their order. The same arguments give the same bytes. A program needs the
/// members that it names: every kernel object, and its constants unless constants_bytes is 0. Programs differ in their
/// targets, and have the same entries and state leaves by name and type. E0108 for a repeated member, E0402 for what is
/// above a limit of the loader, and its errors when the program is not in order.
Result<std::string> bundle_bytes(const std::vector<const ProgramT*>& programs,
                                 const std::vector<BundleMember>& members);
inline Result<std::string> bundle_bytes(const ProgramT& program, const std::vector<BundleMember>& members) {
  return bundle_bytes(std::vector<const ProgramT*>{&program}, members);
}

/// The same for several ranks: `programs[c]` are those of `ranks.classes[c]`, whose list of members is filled in:
/// those of a bundle for one rank, in class_folder. Programs of one class have the same entries and state leaves.
/// Besides the errors above E0104 for a rank table that contradicts itself or the programs.
Result<std::string> bundle_bytes(RanksT ranks, const std::vector<std::vector<const ProgramT*>>& programs,
                                 const std::vector<BundleMember>& members);

/// Writes `bundle_bytes` to `path`, all or nothing; E0803 when that fails.
Status write_bundle(const std::string& path, const ProgramT& program, const std::vector<BundleMember>& members);

}  // namespace nabla::format
