// Entries compiled once more for chosen values of their symbolic sizes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/driver/emit_program.h"
#include "ir/module.h"

namespace nabla::driver {

/// Values by symbol, from texts such as "batch=1,8,32". E0901 for text that is none,
/// or that names a symbol twice.
Result<std::map<std::string, std::vector<int64_t>>> parse_sizes(const std::vector<std::string>& texts);

/// Adds an entry "NAME[batch=8,len=1]" for every entry that uses one of the symbols and every combination of their
/// values; at most 64 of an entry. Requires a module without calls. E0901 for an unknown symbol, E0703 for a value that
/// the symbol cannot have.
Result<ir::Module> specialise(const ir::Module& module, const std::map<std::string, std::vector<int64_t>>& values,
                              std::vector<VariantEntry>& variants);

/// E0901 for a name that `symbols` lacks, E0703 for a value out of its range.
Status check_size(const std::vector<ir::SymbolRef>& symbols, const std::string& name, int64_t value);

}  // namespace nabla::driver
