#include "cli/driver/emit_gemm.h"

#include <algorithm>
#include <set>

#include "ir/library/convolution.h"
#include "ir/library/gemm.h"
#include "ir/op_def.h"

namespace nabla::driver {
namespace {

// By the activations of the op `gemm`.
format::Epilogue epilogue_of(const ir::Node& n) {
  const std::string& activation = n.attrs.get_string("activation");
  if (activation == "none") return format::Epilogue::None;
  return activation == "relu" ? format::Epilogue::Relu : format::Epilogue::Gelu;
}

}  // namespace

format::GemmT gemm_of(const ir::Node& n, const ir::Function& f, const ir::Target& target, SizeTable& sizes) {
  ir::GemmProblem p = *ir::gemm_problem(n, f);
  format::GemmT g;
  g.dtype = static_cast<format::DType>(p.dtype);
  auto most = SizeTable::most;
  g.batch = most(p.batch), g.m = most(p.m), g.n = most(p.n), g.k = most(p.k);
  g.transpose_a = p.transpose_a, g.transpose_b = p.transpose_b;
  g.lda = most(p.lda), g.ldb = most(p.ldb), g.ldc = most(p.ldc);
  g.stride_a = most(p.stride_a), g.stride_b = most(p.stride_b), g.stride_c = most(p.stride_c);
  const ir::Dim fields[] = {p.batch, p.m, p.n, p.k, p.lda, p.ldb, p.ldc, p.stride_a, p.stride_b, p.stride_c};
  if (!std::all_of(std::begin(fields), std::end(fields), [](const ir::Dim& d) { return d.is_static(); }))
    for (const ir::Dim& d : fields) g.sizes.push_back(sizes.reference(d));
  g.implementation = ir::gemm_choice(p, target);
  if (!n.attrs.find("alternative")) return g;
  g.epilogue = epilogue_of(n);
  g.tf32 = target.tf32 && p.dtype == DType::kF32;
  return g;
}

format::ConvolutionT convolution_of(const ir::Node& n, const ir::Function& f, const ir::Target& target,
                                    SizeTable& sizes) {
  ConvolutionSpec s = ir::convolution_problem(n, f);
  format::ConvolutionT c;
  c.kind = static_cast<format::ConvKind>(s.kind);
  c.dtype = static_cast<format::DType>(s.dtype);
  c.input_shape = s.input_shape, c.filter_shape = s.filter_shape, c.output_shape = s.output_shape;
  c.batch_size = sizes.reference(f.type(ir::convolution_roles(n).input).shape[0]);
  c.strides = s.strides, c.dilations = s.dilations;
  c.padding_low = s.padding_low, c.padding_high = s.padding_high;
  c.groups = s.groups;
  bool gpu = n.attrs.find("alternative") != nullptr;
  c.implementation = gpu ? "cudnn" : "direct";
  c.tf32 = gpu && target.tf32 && s.dtype == DType::kF32;
  return c;
}

std::vector<std::unique_ptr<format::GemmRecordT>> records_of(const ir::Module& planned, const ir::Target& target) {
  std::set<std::string> problems;
  for (const ir::FunctionPtr& f : planned.functions)
    for (const ir::Node& n : f->nodes)
      if (n.attrs.find("alternative")) {
        bool product = n.op->lower == ir::Lowering::kContraction;
        problems.insert((product ? ir::gemm_problem(n, *f)->key() : ir::convolution_problem(n, *f).key()) +
                        " ");
      }
  std::vector<std::unique_ptr<format::GemmRecordT>> out;
  for (const GemmRecord& r : target.records) {
    if (std::none_of(problems.begin(), problems.end(), [&](const auto& p) { return r.problem.starts_with(p); }))
      continue;
    out.push_back(std::make_unique<format::GemmRecordT>());
    out.back()->gpu = r.gpu, out.back()->library = r.library, out.back()->problem = r.problem;
    out.back()->algorithm.assign(r.algorithm.begin(), r.algorithm.end());
  }
  return out;
}

std::unique_ptr<format::LibraryT> library_of(const std::string& implementation) {
  struct Row {
    const char *name, *soname, *min_version;
  };
  // cuDNN has had bf16 since 8.2.
  Row row = implementation == "cublaslt" ? Row{"cublaslt", "libcublasLt.so.13", "12.0"}
            : implementation == "cudnn"  ? Row{"cudnn", "libcudnn.so.9", "8.2"}
                                         : Row{"onednn", "libdnnl.so.2", "2.6"};
  auto out = std::make_unique<format::LibraryT>();
  out->name = row.name, out->soname = row.soname, out->min_version = row.min_version;
  return out;
}

}  // namespace nabla::driver
