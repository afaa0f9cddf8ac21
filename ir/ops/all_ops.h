// The table of every op.
#pragma once

#include "ir/op_def.h"

namespace nabla::ops {

/// Built on first use; lives for ever.
const ir::OpTable& all_ops();

// One function per family; each record stands in the family's file. A new structured op is a file of its own and
// one line in all_ops.cc.
std::vector<ir::OpDef> elementwise_ops();
std::vector<ir::OpDef> creation_ops();
std::vector<ir::OpDef> random_ops();
std::vector<ir::OpDef> movement_ops();
std::vector<ir::OpDef> call_ops();
std::vector<ir::OpDef> custom_rule_ops();
std::vector<ir::OpDef> custom_call_ops();
std::vector<ir::OpDef> custom_vmap_ops();
std::vector<ir::OpDef> branch_ops();
std::vector<ir::OpDef> loop_ops();
std::vector<ir::OpDef> dot_ops();
std::vector<ir::OpDef> convolution_ops();
std::vector<ir::OpDef> reduce_ops();
std::vector<ir::OpDef> window_ops();
std::vector<ir::OpDef> gather_scatter_ops();
std::vector<ir::OpDef> embedding_ops();
std::vector<ir::OpDef> normalization_ops();
std::vector<ir::OpDef> activation_ops();
std::vector<ir::OpDef> loss_ops();
std::vector<ir::OpDef> optimizer_ops();
std::vector<ir::OpDef> dynamic_slice_ops();
std::vector<ir::OpDef> transformer_ops();
std::vector<ir::OpDef> attention_ops();
std::vector<ir::OpDef> attention_grad_ops();
std::vector<ir::OpDef> cumulative_ops();
std::vector<ir::OpDef> sort_ops();
std::vector<ir::OpDef> polygamma_ops();
std::vector<ir::OpDef> scatter_reduce_ops();
std::vector<ir::OpDef> linalg_solve_ops();
std::vector<ir::OpDef> linalg_spectral_ops();
std::vector<ir::OpDef> fft_ops();
std::vector<ir::OpDef> bessel_ops();
std::vector<ir::OpDef> lowered_ops();
std::vector<ir::OpDef> lowered_convolution_ops();
std::vector<ir::OpDef> debug_ops();
std::vector<ir::OpDef> collective_ops();
std::vector<ir::OpDef> transfer_ops();
std::vector<ir::OpDef> manual_ops();
std::vector<ir::OpDef> layout_ops();

}  // namespace nabla::ops
