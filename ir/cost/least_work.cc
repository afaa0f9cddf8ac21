#include "ir/cost/least_work.h"

#include <algorithm>
#include <set>

#include "ir/op_def.h"
#include "ir/typed.h"

namespace nabla::ir {
namespace {

using kernel_ir::Expr;
using kernel_ir::ExprKind;

class LeastWorkWalk {
 public:
  explicit LeastWorkWalk(const kernel_ir::Kernel& k) : k_(k), elements_(k.buffers.size(), 0) {}

  Work run() {
    body(k_.body, {});
    if (k_.procedure && !k_.procedure->user) attention(*k_.procedure);
    out_.bytes = bytes();
    return out_;
  }

 private:
  using Axes = std::set<int>;

  Dim bytes() const {
    Dim out = 0;
    for (size_t i = 0; i < k_.buffers.size(); ++i) {
      const kernel_ir::Buffer& b = k_.buffers[i];
      if (b.role == kernel_ir::BufferRole::kWorkspace) continue;
      Type whole(b.dtype, b.shape);
      out = out + (k_.procedure ? whole.bytes()
                                : Dim::min(whole.count(), elements_[i]) * static_cast<int64_t>(bytes_of(b.dtype)));
    }
    return out;
  }

  static Axes joined(Axes axes, const std::vector<int>& more) {
    axes.insert(more.begin(), more.end());
    return axes;
  }
  Dim count(const Axes& axes) const {
    Dim out = 1;
    for (int a : axes) out = out * k_.axes[a].extent;
    return out;
  }

  // At most as many elements as there are positions of the axes that the indices depend on; a value depends on all
  // axes around it.
  void touch(int buffer, const std::vector<Expr>& indices, const Axes& around) {
    Axes used;
    for (const Expr& index : indices)
      kernel_ir::visit(index, [&](const Expr& e) {
        if (e->kind == ExprKind::kAxis) used.insert(e->ref);
        if (e->kind == ExprKind::kValue) used.insert(around.begin(), around.end());
      });
    Dim whole = Type(k_.buffers[buffer].dtype, k_.buffers[buffer].shape).count();
    elements_[buffer] = Dim::min(whole, elements_[buffer] + count(used));
  }
  void expression(const Expr& e, const Axes& around) {
    if (!e) return;
    kernel_ir::visit(e, [&](const Expr& part) {
      if (part->kind == ExprKind::kLoad) touch(part->ref, part->args, around);
    });
  }
  void products(const kernel_ir::Let& let, const Axes& around) {
    if (let.combiner != kernel_ir::Combiner::kSum || let.reduce.empty()) return;
    Expr e = kernel_ir::without_converts(let.expr);
    if (e->kind != ExprKind::kCall || e->fn->name != "mul") return;
    Expr a = kernel_ir::without_converts(e->args[0]), b = kernel_ir::without_converts(e->args[1]);
    if (a->kind != ExprKind::kLoad || b->kind != ExprKind::kLoad) return;
    out_.flops = out_.flops + Dim(2) * count(around);
    out_.factors = bytes_of(a->dtype) > bytes_of(b->dtype) ? a->dtype : b->dtype;
  }

  // The procedures `attention` and `attention_grad`: the products of every pair of a query and a key, with a causal
  // mask of half of them.
  void attention(const kernel_ir::Procedure& p) {
    bool back = p.def->algorithm == kernel_ir::Algorithm::kAttentionGrad;
    if (p.def->algorithm != kernel_ir::Algorithm::kAttention && !back) return;
    const Dim &keys = p.number("keys"), &features = p.number("features"), &out = p.number("out");
    Dim pairs = p.count() * keys;
    if (!p.number("causal").is(0)) pairs = Dim::floordiv(Dim::min(p.count(), keys) * keys, 2);
    out_.flops = p.outer() * pairs * (back ? features * 6 + out * 4 : features * 2 + out * 2);
    out_.factors = k_.buffers[0].dtype;
  }

  void body(const kernel_ir::Body& statements, const Axes& around) {
    for (const kernel_ir::Stmt& s : statements) {
      if (const auto* let = std::get_if<kernel_ir::Let>(&s.node)) {
        Axes axes = joined(joined(around, k_.values[let->value].axes), let->reduce);
        expression(let->expr, axes);
        products(*let, axes);
      } else if (const auto* store = std::get_if<kernel_ir::Store>(&s.node)) {
        Axes axes = joined(around, store->axes);
        touch(store->buffer, store->indices, axes);
        for (const Expr& index : store->indices) expression(index, axes);
        expression(store->expr, axes), expression(store->guard, axes);
      } else if (const auto* all = std::get_if<kernel_ir::For>(&s.node)) {
        body(all->body, joined(around, all->axes));
      } else {
        const auto& loop = std::get<kernel_ir::Loop>(s.node);
        Axes inside = joined(around, {loop.axis});
        for (size_t i = 0; i < loop.state.size(); ++i) {
          const std::vector<int>& own = k_.values[loop.state[i]].axes;
          expression(loop.init[i], joined(around, own)), expression(loop.next[i], joined(inside, own));
        }
        body(loop.body, inside);
      }
    }
  }

  const kernel_ir::Kernel& k_;
  Work out_;
  std::vector<Dim> elements_;  // by buffer
};

}  // namespace

Dim node_flops(const Function& f, const Node& node) { return node.op->cost(typed(f, node)).flops; }

namespace {

// Does the op multiply matrices, or convolve?
bool is_product(const Node& n) {
  const bool whole = n.op->lower == Lowering::kDecompose && n.op->whole;
  return whole || n.op->lower == Lowering::kContraction || n.op->lower == Lowering::kConvolution;
}

bool sums_products(const kernel_ir::Body& body) {
  return std::ranges::any_of(body, [](const kernel_ir::Stmt& s) {
    if (const auto* all = std::get_if<kernel_ir::For>(&s.node)) return sums_products(all->body);
    if (const auto* loop = std::get_if<kernel_ir::Loop>(&s.node)) return sums_products(loop->body);
    const auto* let = std::get_if<kernel_ir::Let>(&s.node);
    if (!let || let->combiner != kernel_ir::Combiner::kSum || let->reduce.empty()) return false;
    const Expr e = kernel_ir::without_converts(let->expr);
    return let->contract || (e->kind == ExprKind::kCall && e->fn->name == "mul");
  });
}

}  // namespace

Dim launch_flops(const Node& launch, const Function* flat, const kernel_ir::Kernel* kernel) {
  Dim out = 0, products = 0;
  for (int i : launch.computes) {
    if (!flat || i >= static_cast<int>(flat->nodes.size())) continue;
    const Node& n = flat->nodes[i];
    (is_product(n) ? products : out) = (is_product(n) ? products : out) + node_flops(*flat, n);
  }
  if (!kernel || products.is(0)) return out + products;
  if (!kernel->procedure && !sums_products(kernel->body)) return out;
  // Factors that the kernel computes on the way are not in its work: then the nodes' own count stands.
  const Dim own = kernel_work(*kernel).flops;
  return out + (own.is(0) ? products : Dim::min(products, own));
}

Dim operand_bytes(const Function& f, const Node& n) {
  Dim out = 0;
  for (ValueId id : n.results) out = out + f.type(id).bytes();
  for (ValueId id : std::set<ValueId>(n.operands.begin(), n.operands.end())) out = out + f.type(id).bytes();
  return out;
}

Work kernel_work(const kernel_ir::Kernel& kernel) { return LeastWorkWalk(kernel).run(); }

MovedBytes::MovedBytes(const Module& module) {
  for (const kernel_ir::KernelPtr& k : module.kernels) kernels_.emplace(k->name, kernel_work(*k).bytes);
}

Dim MovedBytes::of(const Function& f, const Node& node) const {
  const Attr* name = node.op->lower == Lowering::kCall ? node.attrs.find("kernel") : nullptr;
  auto kernel = name ? kernels_.find(std::get<std::string>(*name)) : kernels_.end();
  const Dim arrays = operand_bytes(f, node);
  return kernel == kernels_.end() ? arrays : Dim::min(arrays, kernel->second);
}

int64_t arithmetic(const Expr& e) {
  int64_t out = 0;
  kernel_ir::visit(e, [&](const Expr& x) {
    if (x->kind == ExprKind::kCall && x->dtype != DType::kI64) out += x->fn->cost;
  });
  return out;
}

}  // namespace nabla::ir
