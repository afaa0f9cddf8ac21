// The versions of the programs and of what they read and write.
#pragma once

#include <string>
#include <string_view>

namespace nabla {

inline constexpr std::string_view kVersion = "0.1.0";
inline constexpr int kIrVersion = 1;      ///< of modules: docs/ir-format.md
inline constexpr int kBundleVersion = 2;  ///< of bundles: docs/bundle-format.md
inline constexpr int kOneRankVersion = 1;  ///< of bundles for one rank, which older programs read too

/// What --version prints: "nablac 0.1.0 (IR version 1, bundle version 2)" and a newline.
std::string version_text(std::string_view program);

}  // namespace nabla
