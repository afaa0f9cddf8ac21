#include "ir/library/convolution.h"
#include "passes/lower/library_calls.h"

namespace nabla::passes {
namespace {

constexpr const char* kKinds[] = {"forward", "input_grad", "filter_grad"};

/// From [taps..., C/groups, O] to [O, taps..., C/groups], or back.
ir::Ints filter_layout(int rank, bool back) {
  ir::Ints out;
  for (int d = 0; d < rank; ++d) out.push_back(back ? (d + 1) % rank : (d + rank - 1) % rank);
  return out;
}

// cuDNN wants and gives the filter with O first; oneDNN takes it as it is.
LibraryCall convolution_call(int index, const ir::Function& f, const std::string& implementation, bool first) {
  const ir::Node& n = f.nodes[index];
  ir::ConvolutionRoles roles = ir::convolution_roles(n);
  bool filter_grad = roles.kind == ConvolutionKind::kFilterGrad;
  int rank = f.type(roles.filter).rank();
  LibraryCall out{{index}, {{n.operands[0], {}}, {n.operands[1], {}}}, {}, "conv", n.attrs};
  if (first) (filter_grad ? out.result_layout : out.operands[1].layout) = filter_layout(rank, filter_grad);
  ir::Shape spatial;
  for (const char* name : {"input_spatial", "filter_spatial"}) {
    if (out.attrs.find(name)) spatial = out.attrs.get_shape(name);
    out.attrs.erase(name);
  }
  out.attrs.set("kind", std::string(kKinds[static_cast<size_t>(roles.kind)]));
  out.attrs.set("spatial", spatial);
  out.attrs.set("filter_outputs", std::string(first ? "first" : "last"));
  out.attrs.set("implementation", implementation);
  return out;
}

}  // namespace

std::vector<LibraryCall> library_convolutions(const ir::Function& f, const ir::Target& target) {
  std::vector<LibraryCall> out;
  for (size_t i = 0; i < f.nodes.size(); ++i) {
    if (f.nodes[i].op->lower != ir::Lowering::kConvolution) continue;
    std::string choice = ir::convolution_choice(f.nodes[i], f, target);
    if (choice != "generated") out.push_back(convolution_call(static_cast<int>(i), f, choice, target.is_cuda()));
  }
  return out;
}

}  // namespace nabla::passes
