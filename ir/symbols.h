// What a module says about its symbols, and how a run tells their values.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/module.h"

namespace nabla::ir {

/// Of a module: a comparison of sizes looks at all that name one of its symbols.
inline constexpr size_t kMaxConstraints = 16;

/// The symbols, each with the facts that the constraints tell about it.
std::vector<SymbolRef> with_facts(const std::vector<SymbolRef>& symbols,
                                  const std::vector<SizeConstraint>& constraints);

/// How an entry learns the value of a symbol: extent `dimension` of input `input` is scale * symbol + offset. Scale and
/// offset are sizes of symbols that earlier sources tell; the scale is never 0.
struct SizeSource {
  SymbolRef symbol;
  size_t input, dimension;
  Dim scale, offset;
};

/// One source for each of `wanted`, in an order in which each has what it needs. Inputs of the entry are the last of
/// the function's parameters. E0207 for a symbol that no input tells: it names the input that comes nearest.
Result<std::vector<SizeSource>> size_sources(const Entry& entry, const Function& function,
                                             const std::vector<SymbolRef>& wanted);

/// Without those that say which rank this is.
std::vector<SymbolRef> without_coordinates(std::vector<SymbolRef> symbols);

/// Every symbol of the function's values and attributes, each once.
std::vector<SymbolRef> symbols_of(const Function& function);

/// The shape where symbols have these sizes; the others stay.
Shape at_sizes(const Shape& shape, const std::map<std::string, int64_t>& sizes);

/// Symbols by name, each with a number that it may be a multiple of.
using Multiples = std::map<std::string, int64_t>;
/// What to declare so that `parts` divide a size: any of these symbols as the least multiple that does it alone. Without
/// those that none does, as n of n + 1.
Multiples multiples_for(const Dim& size, int64_t parts);
/// The first of them as help: "declare symbol batch as a multiple of 8"; empty: there is none.
std::string help_to_divide(const Dim& size, int64_t parts);

/// E0901 for a name that `symbols` lacks; for a size that the symbol cannot have E0703, or E0901 where an option named it, which the
/// message then begins with.
Status check_size(const std::vector<SymbolRef>& symbols, const std::string& name, int64_t size, const std::string& option = "");

/// Constraints that together contradict each other, or the symbols' ranges: ascending indices, the first cycle that is
/// found; empty where there is none. Exact for relations of the form a + k <= b between symbols, or a symbol and a
/// number; others are not looked at. Source: Bellman and Ford's search for a negative cycle (Cormen et al.,
/// Introduction to Algorithms, 2009, section 24.4).
std::vector<size_t> contradicting_cycle(const std::vector<SymbolRef>& symbols,
                                        const std::vector<SizeConstraint>& constraints);
/// "a < b, b < c": those with these indices, but for the one `without`.
std::string relations_text(const std::vector<SizeConstraint>& constraints, const std::vector<size_t>& indices,
                           size_t without);

}  // namespace nabla::ir
