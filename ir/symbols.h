// What a module says about its symbols, and how a run tells their values.
#pragma once

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

/// Every symbol of the function's values and attributes, each once.
std::vector<SymbolRef> symbols_of(const Function& function);

}  // namespace nabla::ir
