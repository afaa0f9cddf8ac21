// Where manual regions are, and what may stand in them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "ir/module.h"
#include "ir/varying.h"

namespace nabla::passes {

/// Ranks along each axis that some region is written for.
std::map<std::string, int64_t> manual_sizes(const ir::Module& module);

/// Functions by who runs them; one may be in both sets.
struct Reached {
  std::set<std::string> outside;  ///< also those that nobody names
  std::set<std::string> inside;   ///< of a region
};
Reached reached(const ir::Module& module);

/// Drops those of these functions that no other function and no entry names any more.
void drop_unnamed(ir::Module& module, std::set<std::string> candidates);

/// Of a module at `traced` or `flat`: E0210 for a collective along an axis that is not manual where it stands, for a
/// layout that names one that is, and for a region inside of another one along the same axis.
Status check_regions(const ir::Module& module);

/// What is wrong with a branch or loop `node` over these functions whose ranks take different ways along `axes`: the
/// first collective in them that joins such ranks. Nothing where there is none. `why`: "is chosen by ...".
std::optional<Diagnostic> meeting_under(const ir::Module& module, const ir::Node& node,
                                        const std::vector<std::string>& functions, const ir::VaryingAxes& axes,
                                        const std::string& why);

}  // namespace nabla::passes
