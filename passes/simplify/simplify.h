// The simplifying passes. Each is flat -> flat (any tensor stage is kept), and each shares the functions that it
// does not change. None of them changes results: see passes/simplify/rules.h for what canonicalize may do.
#pragma once

#include "passes/pass.h"

namespace nabla::passes {

/// Applies the rules of rules.h until none applies, then drops what became unused.
Result<ir::Module> canonicalize(const ir::Module& module, PassContext& context);

/// Replaces nodes whose operands are all constants by constants, where the op folds and the results are small.
Result<ir::Module> fold_constants(const ir::Module& module, PassContext& context);

/// Computes once, before a loop, what its body would compute again from constants alone, and drops what a loop hands on
/// for nobody: operands that the body does not read, carries that feed only themselves or never change, results that
/// nobody uses, and the second of what is there twice.
Result<ir::Module> simplify_loops(const ir::Module& module, PassContext& context);

/// The same on a local module, where the collectives that option `ops` names ("all_reduce;permute") may leave loops
/// too: those whose operand is the same in every iteration, from loops that run at least once.
Result<ir::Module> hoist_collectives(const ir::Module& module, PassContext& context);

/// Merges nodes with the same op, attributes and operands (in any order for commutative ops), except for fences and
/// ops with side effects.
Result<ir::Module> merge_common_subexpressions(const ir::Module& module, PassContext& context);

/// Drops debug prints and callbacks; what they show is left to eliminate_dead_code.
Result<ir::Module> drop_debug(const ir::Module& module, PassContext& context);

/// Drops nodes none of whose results is used, except for those with side effects.
Result<ir::Module> eliminate_dead_code(const ir::Module& module, PassContext& context);

}  // namespace nabla::passes
