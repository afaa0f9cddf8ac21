// Names of a bundle's members.
#pragma once

#include <string>
#include <string_view>

namespace nabla::format {

inline constexpr std::string_view kManifestMember = "manifest.json";
inline constexpr std::string_view kProgramMember = "programs/main.fb";
inline constexpr std::string_view kProgramFolder = "programs/";
inline constexpr std::string_view kConstantsMember = "constants.bin";
inline constexpr std::string_view kRanksMember = "ranks.fb";
/// Who vouches for the manifest (runtime/signature). The manifest has no hash of it.
inline constexpr std::string_view kSignatureMember = "signature.json";
/// What a bundle for one rank has stands here for each class of a bundle for several: class/NAME/programs/main.fb, ...
inline std::string class_folder(std::string_view name) { return "class/" + std::string(name) + "/"; }

}  // namespace nabla::format
