// What must hold of every local program.
#pragma once

#include "codegen/program/program.h"

namespace nabla::program {

/// E0208, with the instruction, where
/// - a block refers to itself or to one that stands after it,
/// - an address leaves its base at some value of its registers, moves with a register in which nothing counts, or lies
///   in an input or in the constants and is written,
/// - a loop or a call sets a register that an enclosing one uses,
/// - a handle is started twice, awaited without a start in the same list, with other operands than its start, or never,
///   or what it works on is touched before.
/// E0402 where blocks nest deeper than 64, or calls run more instructions than the loader takes.
Status check(const LocalProgram& program);

}  // namespace nabla::program
