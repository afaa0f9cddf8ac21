// What cond, switch, while and scan share: reading their attributes, and the rules that stand in files of their own.
#pragma once

#include <string>
#include <vector>

#include "ir/ops/control/call.h"

namespace nabla::ops {

/// The functions of cond (then, else) or switch, in the order of its attributes.
std::vector<std::string> branches_of(const Attrs& attrs);
/// The same attributes with other branches, in the order of branches_of.
Attrs with_branches(const Attrs& attrs, const std::vector<std::string>& branches);

/// How the operands of while or scan divide: constants, carries, and for scan sequences.
struct LoopParts {
  size_t consts, carries, xs;
  size_t operands() const { return consts + carries + xs; }
  size_t first_carry() const { return consts; }
  size_t first_x() const { return consts + carries; }
};
LoopParts loop_parts(const TypedOp& op);
/// The number of iterations of a scan.
const Dim& scan_length(const Attrs& attrs);

// factors.cc
/// Of call, cond, switch, while and scan: what their functions cannot change (see ir::Factors).
Factors control_factors(const TypedOp& op);
/// Of scan: a part of the trips has its own length.
Attrs localise_trips(const ir::Shard& shard);

// branch_rules.cc
std::vector<MaybeVal> branches_jvp(JvpContext& ctx);
ir::VjpForward branches_vjp_forward(ir::VjpForwardContext& ctx);
std::vector<MaybeVal> branches_vjp(VjpContext& ctx);
std::vector<Val> branches_batch(BatchContext& ctx);

// loop_rules.cc
std::vector<MaybeVal> while_jvp(JvpContext& ctx);
std::vector<MaybeVal> scan_jvp(JvpContext& ctx);
std::vector<Val> while_batch(BatchContext& ctx);
std::vector<Val> scan_batch(BatchContext& ctx);

// reverse.cc
ir::VjpForward while_vjp_forward(ir::VjpForwardContext& ctx);
ir::VjpForward scan_vjp_forward(ir::VjpForwardContext& ctx);
std::vector<MaybeVal> while_vjp(VjpContext& ctx);
std::vector<MaybeVal> scan_vjp(VjpContext& ctx);

}  // namespace nabla::ops
