// Entries compiled once more for chosen values of their symbolic sizes.
#pragma once

#include "passes/pass.h"
#include "runtime/base/option_name.h"

namespace nabla::passes {

inline constexpr OptionName kSpecialiseOption{"specialize"};  ///< of nablac, whose sizes the pass gets

/// Adds a variant "NAME[batch=8,len=1]" after all entries, for every entry that uses one of the symbols of option
/// `sizes` and every combination of their values; at most 64 of an entry. Without the option nothing changes. Functions
/// that loops and branches run are copied with those that run them. E0901 for an unknown symbol and for a value
/// that the symbol cannot have.
Result<ir::Module> specialise(const ir::Module& module, PassContext& context);

}  // namespace nabla::passes
