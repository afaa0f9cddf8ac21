#include "ir/library/gemm.h"

#include <algorithm>

#include "ir/library/convolution.h"

namespace nabla::ir {
namespace {

bool contains(const Ints& list, int64_t x) { return std::find(list.begin(), list.end(), x) != list.end(); }

DotSide side(const Node& n, const char* batch, const char* contract, int rank) {
  DotSide s{n.attrs.get_ints(batch), {}, n.attrs.get_ints(contract)};
  for (int d = 0; d < rank; ++d)
    if (!contains(s.batch, d) && !contains(s.contract, d)) s.free.push_back(d);
  return s;
}

Dim product(const Shape& shape, const Ints& dims) {
  Dim p = 1;
  for (int64_t d : dims) p = p * shape[d];
  return p;
}

void add_epilogue(const Node& n, GemmProblem& p) {
  p.addend = n.attrs.get_bool("addend");
  p.bias = n.operands.size() - (p.addend ? 1 : 0) > 2;
  p.activation = *find_activation(n.attrs.get_string("activation"));
}

}  // namespace

DotSides dot_sides(const Node& n, int lhs_rank, int rhs_rank) {
  return {side(n, "lhs_batch", "lhs_contract", lhs_rank), side(n, "rhs_batch", "rhs_contract", rhs_rank)};
}

GemmProblemOf<int64_t> GemmProblem::at_bounds() const {
  return with_sizes<GemmProblemOf<int64_t>, GemmProblemOf<Dim>>(*this,
                                                                [](const Dim& size) { return size.bounds().max; });
}

std::optional<GemmProblem> gemm_problem(const Node& node, const Function& f) {
  const Type &a = f.type(node.operands[0]), &b = f.type(node.operands[1]);
  const auto [l, r] = dot_sides(node, a.rank(), b.rank());
  if (l.free.size() != 1 || r.free.size() != 1 || l.contract.size() != 1 || l.batch.size() > 1) return std::nullopt;
  auto stride = [](const Type& t, int64_t dim) {
    Dim s = 1;
    for (int d = t.rank() - 1; d > dim; --d) s = s * t.shape[d];
    return s;
  };
  GemmProblem p;
  const DType result = f.type(node.results[0]).dtype;
  p.dtype = a.dtype;
  if (b.dtype != a.dtype) p.dtype_b = b.dtype;
  if (result != a.dtype) p.dtype_c = result;
  p.m = product(a.shape, l.free), p.n = product(b.shape, r.free), p.k = product(a.shape, l.contract);
  if (!l.batch.empty()) {
    p.batch = a.shape[l.batch[0]];
    p.stride_a = stride(a, l.batch[0]), p.stride_b = stride(b, r.batch[0]), p.stride_c = p.m * p.n;
  }
  for (const Dim* d : {&p.batch, &p.m, &p.n, &p.k})
    if (d->bounds().min <= 0) return std::nullopt;
  Dim am = stride(a, l.free[0]), ak = stride(a, l.contract[0]), bk = stride(b, r.contract[0]),
          bn = stride(b, r.free[0]);
  p.transpose_a = !ak.is(1), p.transpose_b = !bn.is(1);
  if ((p.transpose_a && !am.is(1)) || (p.transpose_b && !bk.is(1))) return std::nullopt;
  // A matrix of one row has no next row, so its stride may be anything. Libraries want at least the length of the row.
  auto leading = [](const Dim& rows, const Dim& columns, const Dim& row_stride) { return rows.is(1) ? columns : row_stride; };
  p.lda = p.transpose_a ? leading(p.k, p.m, ak) : leading(p.m, p.k, am);
  p.ldb = p.transpose_b ? leading(p.n, p.k, bn) : leading(p.k, p.n, bk);
  p.ldc = p.n;
  if (node.op->lower == Lowering::kLibrary) add_epilogue(node, p);
  return p;
}

std::optional<ByteFactors> byte_factors(const Node& dot, const Function& f, const std::vector<int>& producers) {
  auto bytes = [&](ValueId id) -> ValueId {
    const Node* maker = producers[id] < 0 ? nullptr : &f.nodes[producers[id]];
    if (!maker || maker->op->name != "convert") return -1;
    const DType from = f.type(maker->operands[0]).dtype, to = f.type(id).dtype;
    bool keeps = is_float(from) && bytes_of(from) == 1 && is_float(to) && to != DType::kF64 && bytes_of(to) > 1;
    return keeps ? maker->operands[0] : -1;
  };
  const ValueId lhs = bytes(dot.operands[0]), rhs = bytes(dot.operands[1]);
  return lhs < 0 || rhs < 0 ? std::nullopt : std::optional(ByteFactors{lhs, rhs});
}

namespace {

// What cuBLASLt's manual asks of 8-bit floats: k fastest in both, 16 bytes from a row to the next, no product of two e5m2.
bool takes_bytes(const GemmProblem& p, const Target& target) {
  if (!is_float(p.dtype) || bytes_of(p.dtype) > 1 || !target.cuda.multiplies_bytes()) return false;
  auto packs = [](const Dim& size) { return size.is_static() && size.value() % 16 == 0; };
  bool wide = p.dtype_c == DType::kBF16 || p.dtype_c == DType::kF16 || p.dtype_c == DType::kF32;
  bool e5m2 = p.dtype == DType::kF8E5M2 && p.type_b() == DType::kF8E5M2;
  return wide && !e5m2 && !p.transpose_a && p.transpose_b && packs(p.n) && packs(p.k) && p.lda == p.k && p.ldb == p.k;
}

}  // namespace

std::string gemm_choice(const GemmProblem& p, const Target& target) {
  bool known = p.dtype == DType::kF32;
  if (target.is_cuda()) known |= p.dtype == DType::kBF16 || p.dtype == DType::kF16 || p.dtype == DType::kF64 ||
                                   takes_bytes(p, target);
  if (!target.library || !known) return "generated";
  auto measured = target.choices.find(p.key());
  if (measured == target.choices.end()) measured = target.choices.find("gemm");
  if (measured != target.choices.end()) return measured->second;
  if (p.flops().bounds().max < target.library_flops) return "generated";
  return target.is_cuda() ? "cublaslt" : "sgemm";
}

int64_t library_workspace_bytes(const Node& node, const Function& f) {
  if (node.op->lower != Lowering::kLibrary) return 0;
  // Some more, so that it can start at a multiple of kLibraryWorkspaceAlignment wherever values lie.
  if (int64_t bytes = node.attrs.get_int("workspace")) return bytes + kLibraryWorkspaceAlignment - 64;
  if (node.op->name != "conv") return 0;
  const Type& filter = f.type(convolution_roles(node).filter);  // blocks of 16 channels on both sides of it
  int64_t groups = node.attrs.get_int("groups"), bytes = bytes_of(filter.dtype) * groups;
  for (int d = 0; d < filter.rank(); ++d) {
    int64_t extent = filter.shape[d].value();
    if (d == filter.rank() - 1) extent /= groups;
    bytes *= d + 2 >= filter.rank() ? (extent + 15) / 16 * 16 : extent;
  }
  return bytes;
}

}  // namespace nabla::ir
