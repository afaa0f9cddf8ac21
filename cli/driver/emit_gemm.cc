#include "cli/driver/emit_gemm.h"

#include <algorithm>
#include <set>

#include "ir/op_def.h"
#include "passes/lower/gemm.h"

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
  passes::GemmProblem p = *passes::gemm_problem(n, f);
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
  g.implementation = passes::gemm_choice(p, target);
  if (!n.attrs.find("alternative")) return g;
  g.epilogue = epilogue_of(n);
  g.tf32 = target.tf32 && p.dtype == DType::kF32;
  return g;
}

std::vector<std::unique_ptr<format::GemmRecordT>> records_of(const ir::Module& planned, const ir::Target& target) {
  std::set<std::string> problems;
  for (const ir::FunctionPtr& f : planned.functions)
    for (const ir::Node& n : f->nodes)
      if (n.attrs.find("alternative")) problems.insert(passes::gemm_problem(n, *f)->key() + " ");
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

std::unique_ptr<format::LibraryT> library_of(const ir::Target& target) {
  auto out = std::make_unique<format::LibraryT>();
  bool gpu = target.is_cuda();
  out->name = gpu ? "cublaslt" : "onednn";
  out->soname = gpu ? "libcublasLt.so.13" : "libdnnl.so.2";
  out->min_version = gpu ? "12.0" : "2.6";
  return out;
}

}  // namespace nabla::driver
