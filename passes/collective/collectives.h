// Passes over the collectives of a local module: fewer bytes, fewer calls, less memory. Each leaves results as they
// are; sums over ranks keep their bits but where a pass says otherwise.
#pragma once

#include "passes/pass.h"

namespace nabla::passes {

/// local -> local. An all_reduce of which every rank reads the part at its own place alone becomes a reduce_scatter,
/// which sends half as much; the part may be cut by partition or by the program (a slice at `axis_index`, the derivative
/// of all_gather). The order of a sum follows the axes along which the part is cut.
Result<ir::Module> create_reduce_scatters(const ir::Module& module, PassContext& context);

/// local -> local, before equal nodes are merged for the last time. An all_gather of a parameter, or of what movements and
/// conversions make of one (masters in f32 that are gathered in bf16), whose result is read early and again late, with gathers of other
/// parameters in between, is made again for the late readers, so that neither the whole is kept meanwhile nor what has been made of
/// the rank's part (FSDP's reshard_after_forward). Option `reshard-after-forward`: with `false` no
/// gather is made again, nor by a loop for the way back through layers that a loop has run, which stacks them for it (keep_gathers.h).
Result<ir::Module> regather(const ir::Module& module, PassContext& context);

/// local -> local, for GPUs. A maximum or minimum of floats over ranks becomes one of integers that have the same order,
/// in which NaN comes last for a maximum and first for a minimum. NCCL drops NaN from extremes of floats and computes those
/// of integers exactly, so that NaN wins on every engine, as it does on one device. Option `keep-order`: for every
/// target, so that programs for several targets exchange the same.
Result<ir::Module> order_keys(const ir::Module& module, PassContext& context);

/// local -> local, after lower-collectives. Collectives of the same kind, group and dtype become one of their values
/// side by side. Sums start as soon as their operand is there and wait in a bucket until it is full or one of them is
/// needed; what needs them waits too where more are to come that can join them, and little else is kept for it. Gathers of
/// parameters take along those that are needed next, others wait as sums do. Options: `bucket-bytes` of a bucket,
/// `first-bucket-bytes` of the first one of a function, which so starts earlier; 0 leaves every collective alone;
/// `keep-order`: nothing waits for its operands' bucket, so that programs for several targets agree.
Result<ir::Module> bucket_collectives(const ir::Module& module, PassContext& context);

}  // namespace nabla::passes
