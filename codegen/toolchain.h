// What the compilers of generated text have in common: sources, options, the cache on disk.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/kernel_ir/procedure.h"

namespace nabla::codegen {

/// What a file holds of the user's.
struct UserSource {
  std::string name;  ///< of the kernel, and of the function that the text must define
  kernel_ir::UserText text;
  std::string prototype;  ///< of that function
};

struct SourceFile {
  std::string name;  ///< "cpu_0.cc", "sm_90a_0.cu"
  std::string text;
  std::optional<UserSource> user = std::nullopt;
};

struct ToolchainOptions {
  int jobs = 2;
  std::string cache_dir;  ///< empty: no cache. The default is cache_directory().
  /// Called when a file has been compiled, or found in the cache: how many have been, of how many. By one thread at a
  /// time; may be empty.
  std::function<void(size_t done, size_t all)> progress = {};
};

/// $NABLA_CACHE, else $XDG_CACHE_HOME/nabla, else ~/.cache/nabla; empty when there is no home.
std::string cache_directory();

/// The SHA-256 of `bytes`, as entries of the cache are named.
std::string digest(const std::string& bytes);
/// An entry of the cache; nothing where there is none, or where it is damaged.
std::optional<std::string> find_in_cache(const std::string& folder, const std::string& name);
/// Why entries cannot be kept in the folder, which is made if need be: "Permission denied"; empty: they can.
std::string cache_problem(const std::string& folder);
/// A cache that cannot be written costs time, not correctness: there is no error.
void store_in_cache(const std::string& folder, const std::string& name, const std::string& bytes);

}  // namespace nabla::codegen
