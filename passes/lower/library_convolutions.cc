#include "ir/builder.h"
#include "ir/library/convolution.h"
#include "passes/lower/library_products.h"

namespace nabla::passes {
namespace {

constexpr const char* kKinds[] = {"forward", "input_grad", "filter_grad"};

/// From [taps..., C/groups, O] to [O, taps..., C/groups], or back.
ir::Ints filter_layout(int rank, bool back) {
  ir::Ints out;
  for (int d = 0; d < rank; ++d) out.push_back(back ? (d + 1) % rank : (d + rank - 1) % rank);
  return out;
}

LibraryCall call_of(int index, const ir::Function& f, const ir::Module& m, const ir::OpTable& ops) {
  const ir::Node& n = f.nodes[index];
  ir::ConvolutionRoles roles = ir::convolution_roles(n);
  bool filter_grad = roles.kind == ConvolutionKind::kFilterGrad;
  int rank = f.type(roles.filter).rank();
  ir::FunctionBuilder b(f.name + ".convolution", ops, &m);
  std::vector<LibraryCall::Operand> operands;
  std::vector<ir::Val> values;
  for (ir::ValueId id : n.operands) {
    bool turned = values.size() == 1 && !filter_grad;  // the filter
    operands.push_back({id, turned ? filter_layout(rank, false) : ir::Ints{}});
    ir::Type type = f.type(id);
    for (int d = 0; turned && d < rank; ++d) type.shape[d] = f.type(id).shape[operands.back().layout[d]];
    ir::Val value = b.param(values.empty() ? "a" : "b", type);
    values.push_back(turned ? ir::transpose(value, filter_layout(rank, true)) : value);
  }
  b.set_location(n.location);
  ir::Val out = b.op(n.op->name, values, n.attrs);
  if (filter_grad) out = ir::transpose(out, filter_layout(rank, false));
  ir::Attrs attrs = n.attrs;
  ir::Shape spatial;
  for (const char* name : {"input_spatial", "filter_spatial"}) {
    if (attrs.find(name)) spatial = attrs.get_shape(name);
    attrs.erase(name);
  }
  attrs.set("kind", std::string(kKinds[static_cast<size_t>(roles.kind)]));
  attrs.set("spatial", spatial);
  return {{index}, operands, filter_grad ? filter_layout(rank, true) : ir::Ints{}, "conv", attrs, b.finish({out})};
}

}  // namespace

std::vector<LibraryCall> library_convolutions(const ir::Function& f, const ir::Module& m, const PassContext& context) {
  std::vector<LibraryCall> out;
  for (size_t i = 0; i < f.nodes.size(); ++i)
    if (f.nodes[i].op->lower == ir::Lowering::kConvolution &&
        ir::convolution_choice(f.nodes[i], f, context.target) != "generated")
      out.push_back(call_of(static_cast<int>(i), f, m, context.ops));
  return out;
}

}  // namespace nabla::passes
