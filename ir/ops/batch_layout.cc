#include "ir/ops/batch_layout.h"

#include "ir/symbols.h"

namespace nabla::ops {
namespace {

// Why a batch cannot lie along an axis that does not divide it: ranks are padded, along a dimension of known length.
std::string no_padding(const ir::Mesh& mesh, const std::string& axis, const Dim& batch) {
  int64_t parts = mesh.size_of(axis);
  if (mesh.temporal() && mesh.temporal()->name == axis)
    return fmt::format("spmd_axis_name is {}, whose {} microbatches do not divide the batch of {}: they are not padded", axis, parts,
                       batch.str());
  if (batch.is_static()) return "";
  std::string help = ir::help_to_divide(batch, parts);
  return fmt::format("spmd_axis_name is {}, whose {} ranks may not divide the batch of {}{}{}", axis, parts, batch.str(),
                     help.empty() ? "" : ": ", help);
}

}  // namespace

ir::Sharding with_batch(const BatchContext& ctx, ir::Sharding layout) {
  const std::string& axis = ctx.spmd_axis;
  ir::DimSharding batch{{}, axis.empty()};
  if (!axis.empty()) batch.axes = {{axis}};
  const ir::Mesh* mesh = axis.empty() || !ctx.b.module() ? nullptr : ctx.b.module()->mesh();
  if (mesh && !Dim::mod(ctx.size, mesh->size_of(axis)).is(0)) {
    std::string why = no_padding(*mesh, axis, ctx.size);
    if (why.empty()) {
      layout.allow_padding = true;
    } else {
      ctx.functions->refuse(why);
      batch.axes.clear();
    }
  }
  layout.dims.insert(layout.dims.begin(), batch);
  return layout;
}

}  // namespace nabla::ops
