// Communication beside computation.
#pragma once

#include "codegen/program/program.h"

namespace nabla::program {

/// Moves every Wait down to just before the first instruction that touches memory of what it awaits, or runs blocks, so
/// that what stands between is computed meanwhile; at most `most` exchanges, transfers to a GPU and transfers to the
/// host are under way at a time, and each of these end in the order in which they began. Memory is planned already: none is
/// added. Handles are numbered anew.
void delay_waits(LocalProgram& program, size_t most = 8);

}  // namespace nabla::program
