// Entries compiled once more for chosen values of their symbolic sizes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "passes/pass.h"

namespace nabla::passes {

using SizeLists = std::map<std::string, std::vector<int64_t>>;  ///< by symbol

/// The lists of texts such as "batch=1,8,32"; what separates is a comma or a semicolon. E0901, which names the option that the texts
/// are from, for text that is none, or that names a symbol twice.
Result<SizeLists> parse_sizes(const std::vector<std::string>& texts, const std::string& option);
inline constexpr const char* kSpecialiseOption = "--specialize";  ///< of nablac, whose sizes the pass gets
/// "batch=1;8;32;len=16": one text for all, as the option of a pass is written.
std::string print_sizes(const SizeLists& lists);

/// Adds a variant "NAME[batch=8,len=1]" after all entries, for every entry that uses one of the symbols of option
/// `sizes` and every combination of their values; at most 64 of an entry. Without the option nothing changes. Functions
/// that loops and branches run are copied with those that run them. E0901 for an unknown symbol and for a value
/// that the symbol cannot have.
Result<ir::Module> specialise(const ir::Module& module, PassContext& context);

}  // namespace nabla::passes
