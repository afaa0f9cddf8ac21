// Reads extents: integers and expressions over declared symbols. Internal to ir.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ir/dim.h"
#include "ir/lexer.h"

namespace nabla::ir {

using SymbolTable = std::map<std::string, SymbolRef, std::less<>>;

/// An expression at the lexer's token: + - * over integers and symbols, floordiv, ceildiv, mod, min, max with two
/// operands in parentheses. E0101 for bad text, E0107 for unknown symbols, E0106 above the limits (depth 16, 512
/// characters once printed, sizes up to 2^53), E0208 for a divisor that may be 0 or negative.
Result<Dim> parse_dim(Lexer& lexer, const SymbolTable& symbols);
/// The whole of `text`.
Result<Dim> parse_dim_text(std::string_view text, const SymbolTable& symbols, const std::string& what);

}  // namespace nabla::ir
