#include "ir/ops/all_ops.h"

namespace nabla::ops {

const ir::OpTable& all_ops() {
  static const ir::OpTable* const table = [] {
    std::vector<ir::OpDef> records;
    for (auto family : {
             elementwise_ops,
             creation_ops,
             random_ops,
             movement_ops,
             call_ops,
             custom_rule_ops,
             custom_call_ops,
             custom_vmap_ops,
             branch_ops,
             loop_ops,
             dot_ops,
             convolution_ops,
             reduce_ops,
             window_ops,
             gather_scatter_ops,
             embedding_ops,
             normalization_ops,
             activation_ops,
             loss_ops,
             optimizer_ops,
             dynamic_slice_ops,
             transformer_ops,
             attention_ops,
             attention_grad_ops,
             cumulative_ops,
             sort_ops,
             polygamma_ops,
             scatter_reduce_ops,
             linalg_solve_ops,
             linalg_spectral_ops,
             fft_ops,
             bessel_ops,
             lowered_ops,
             lowered_convolution_ops,
             debug_ops,
             transfer_ops,
             collective_ops,
         })
      for (ir::OpDef& record : family()) records.push_back(std::move(record));
    return new ir::OpTable(std::move(records));
  }();
  return *table;
}

}  // namespace nabla::ops
