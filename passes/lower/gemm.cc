#include "passes/lower/gemm.h"

#include <algorithm>

#include "passes/lower/convolution.h"
#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

using ir::Ints;

bool contains(const Ints& list, int64_t x) { return std::find(list.begin(), list.end(), x) != list.end(); }

// Dimensions of one operand: batch and contracted ones as listed, the free ones in order.
struct Side {
  Ints batch, free, contract;
};
Side side(const ir::Node& n, const char* batch, const char* contract, int rank) {
  Side s{n.attrs.get_ints(batch), {}, n.attrs.get_ints(contract)};
  for (int d = 0; d < rank; ++d)
    if (!contains(s.batch, d) && !contains(s.contract, d)) s.free.push_back(d);
  return s;
}

ir::Dim product(const ir::Shape& shape, const Ints& dims) {
  ir::Dim p = 1;
  for (int64_t d : dims) p = p * shape[d];
  return p;
}

// An operand with each part merged into one dimension, in the order in which the parts lie in memory.
struct Merged {
  ir::Val value;
  int batch = -1, free = -1, contract = -1;  // dimensions of value
};
Merged merge(ir::Val v, const Side& s) {
  std::vector<const Ints*> parts;
  for (const Ints* p : {&s.batch, &s.free, &s.contract})
    if (!p->empty()) parts.push_back(p);
  std::sort(parts.begin(), parts.end(), [](const Ints* a, const Ints* b) { return a->front() < b->front(); });
  Ints order;
  for (const Ints* p : parts) order.insert(order.end(), p->begin(), p->end());
  if (!std::is_sorted(order.begin(), order.end())) v = ir::transpose(v, order);
  ir::Shape shape;
  Merged out;
  for (const Ints* p : parts) {
    ir::Dim extent(1);
    int64_t place = std::find(order.begin(), order.end(), p->front()) - order.begin();
    for (size_t i = 0; i < p->size(); ++i) extent = extent * v.shape()[place + i];
    int at = static_cast<int>(shape.size());
    shape.push_back(extent);
    (p == &s.batch ? out.batch : p == &s.free ? out.free : out.contract) = at;
  }
  out.value = ir::reshape(v, shape);
  return out;
}

Ints one(int d) { return d < 0 ? Ints{} : Ints{d}; }

}  // namespace

GemmProblem GemmProblem::at_bounds() const {
  GemmProblem p = *this;
  for (ir::Dim* d : {&p.batch, &p.m, &p.n, &p.k, &p.lda, &p.ldb, &p.ldc, &p.stride_a, &p.stride_b, &p.stride_c})
    *d = d->bounds().max;
  return p;
}

std::string GemmProblem::key() const {
  auto most = [](const ir::Dim& d) { return d.bounds().max; };
  return fmt::format("gemm {} {}x{}x{}x{} {}{}", name_of(dtype), most(batch), most(m), most(n), most(k),
                     transpose_a ? 't' : 'n', transpose_b ? 't' : 'n');
}

std::optional<GemmProblem> gemm_problem(const ir::Node& node, const ir::Function& f) {
  const ir::Type &a = f.type(node.operands[0]), &b = f.type(node.operands[1]);
  Side l = side(node, "lhs_batch", "lhs_contract", a.rank()), r = side(node, "rhs_batch", "rhs_contract", b.rank());
  if (l.free.size() != 1 || r.free.size() != 1 || l.contract.size() != 1 || l.batch.size() > 1) return std::nullopt;
  auto stride = [](const ir::Type& t, int64_t dim) {
    ir::Dim s = 1;
    for (int d = t.rank() - 1; d > dim; --d) s = s * t.shape[d];
    return s;
  };
  GemmProblem p;
  p.dtype = a.dtype;
  p.m = product(a.shape, l.free), p.n = product(b.shape, r.free), p.k = product(a.shape, l.contract);
  if (!l.batch.empty()) {
    p.batch = a.shape[l.batch[0]];
    p.stride_a = stride(a, l.batch[0]), p.stride_b = stride(b, r.batch[0]), p.stride_c = p.m * p.n;
  }
  for (const ir::Dim* d : {&p.batch, &p.m, &p.n, &p.k})
    if (d->bounds().min <= 0) return std::nullopt;
  ir::Dim am = stride(a, l.free[0]), ak = stride(a, l.contract[0]), bk = stride(b, r.contract[0]),
          bn = stride(b, r.free[0]);
  p.transpose_a = !ak.is(1), p.transpose_b = !bn.is(1);
  if ((p.transpose_a && !am.is(1)) || (p.transpose_b && !bk.is(1))) return std::nullopt;
  p.lda = p.transpose_a ? ak : am;
  p.ldb = p.transpose_b ? bn : bk;
  p.ldc = p.n;
  return p;
}

GemmExtras gemm_extras(const ir::Node& n) {
  int count = static_cast<int>(n.operands.size()), adds = n.attrs.get_bool("addend") ? 1 : 0;
  return {count - adds > 2 ? 2 : -1, adds ? count - 1 : -1};
}

std::string gemm_choice(const GemmProblem& p, const ir::Target& target) {
  bool known = p.dtype == DType::kF32;
  if (target.is_cuda()) known |= p.dtype == DType::kBF16 || p.dtype == DType::kF16 || p.dtype == DType::kF64;
  if (!target.library || !known) return "generated";
  auto measured = target.choices.find(p.key());
  if (measured == target.choices.end()) measured = target.choices.find("gemm");
  if (measured != target.choices.end()) return measured->second;
  if (p.flops() < target.library_flops) return "generated";
  return target.is_cuda() ? "cublaslt" : "sgemm";
}

int64_t library_workspace_bytes(const ir::Node& node, const ir::Function& f) {
  // Some more, so that it can start at a multiple of kLibraryWorkspaceAlignment wherever values lie.
  if (node.attrs.find("alternative")) return node.attrs.get_int("workspace") + kLibraryWorkspaceAlignment - 64;
  if (node.op->lower != ir::Lowering::kConvolution) return 0;
  const ir::Type& filter = f.type(convolution_roles(node).filter);  // blocks of 16 channels on both sides of it
  int64_t groups = node.attrs.get_int("groups"), bytes = bytes_of(filter.dtype) * groups;
  for (int d = 0; d < filter.rank(); ++d) {
    int64_t extent = filter.shape[d].value();
    if (d == filter.rank() - 1) extent /= groups;
    bytes *= d + 2 >= filter.rank() ? (extent + 15) / 16 * 16 : extent;
  }
  return bytes;
}

ir::Function normalize_dots(const ir::Function& f, const ir::Module& m, const ir::OpTable& ops) {
  FunctionCopy copy(f, ops, &m);
  ir::FunctionBuilder& b = copy.builder();
  for (const ir::Node& n : f.nodes) {
    bool dot = n.op->lower == ir::Lowering::kContraction;
    b.set_computes(dot ? std::vector<int>() : n.computes);
    if (!dot) {
      copy.copy(n);
      continue;
    }
    b.set_location(n.location);
    std::vector<ir::Val> operands = copy.at(n.operands);
    Side l = side(n, "lhs_batch", "lhs_contract", operands[0].rank());
    Side r = side(n, "rhs_batch", "rhs_contract", operands[1].rank());
    Merged lhs = merge(operands[0], l), rhs = merge(operands[1], r);
    b.set_computes(n.computes);  // not what brings operands and result into shape
    ir::Val out = b.op(n.op->name, {lhs.value, rhs.value},
                       {{"lhs_contract", one(lhs.contract)},
                        {"rhs_contract", one(rhs.contract)},
                        {"lhs_batch", one(lhs.batch)},
                        {"rhs_batch", one(rhs.batch)}});
    b.set_computes({});
    copy.set(n.results[0], ir::reshape(out, f.type(n.results[0]).shape));
  }
  return *copy.finish();
}

}  // namespace nabla::passes
