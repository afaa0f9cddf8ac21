#include "ir/ops/contraction/library_attrs.h"

namespace nabla::ops {

std::vector<AttrDef> with_call_attrs(std::vector<AttrDef> of_problem) {
  std::vector<AttrDef> out = std::move(of_problem);
  for (AttrDef& attr : std::vector<AttrDef>{
           required("implementation", AttrKind::kString, "which of the library's ways: \"matmul\", \"cudnn\""),
           optional("fallback", "name in the module's kernels; empty: there is none", std::string()),
           optional("order", "which operands that kernel takes, in its order", Ints{}),
           optional("workspace", "bytes of scratch memory that the library may use", int64_t{0}),
           optional("scratch", "bytes of that kernel's own buffers, which lie in the workspace", Ints{})})
    out.push_back(std::move(attr));
  return out;
}

}  // namespace nabla::ops
