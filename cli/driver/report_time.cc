#include "cli/driver/report_time.h"

#include <algorithm>
#include <optional>
#include <set>

#include "cli/driver/report_graph.h"
#include "ir/kernel_ir/kernel.h"
#include "ir/library/call.h"
#include "ir/op_def.h"
#include "passes/rewrite.h"

namespace nabla::driver {
namespace {

using kernel_ir::Expr;
using kernel_ir::ExprKind;

Expr without_convert(Expr e) {
  while (e->kind == ExprKind::kCall && e->fn->name == "convert") e = e->args[0];
  return e;
}

// What the statements of a kernel read, write and multiply. Scratch memory may stay in caches and does not count.
class Walk {
 public:
  explicit Walk(const kernel_ir::Kernel& k) : k_(k), elements_(k.buffers.size(), 0) {
    body(k.body, {});
    if (k.procedure && !k.procedure->user) attention(*k.procedure);
  }

  ir::Dim bytes() const {
    ir::Dim out = 0;
    for (size_t i = 0; i < k_.buffers.size(); ++i) {
      const kernel_ir::Buffer& b = k_.buffers[i];
      if (b.role == kernel_ir::BufferRole::kWorkspace) continue;
      ir::Type whole(b.dtype, b.shape);
      out = out + (k_.procedure ? whole.bytes()
                                : ir::Dim::min(whole.count(), elements_[i]) * static_cast<int64_t>(bytes_of(b.dtype)));
    }
    return out;
  }

  ir::Dim flops = 0;            // of sums of products, and of attention
  DType factors = DType::kF32;  // the wider of the factors

 private:
  using Axes = std::set<int>;
  static Axes joined(Axes axes, const std::vector<int>& more) {
    axes.insert(more.begin(), more.end());
    return axes;
  }
  ir::Dim count(const Axes& axes) const {
    ir::Dim out = 1;
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
    ir::Dim whole = ir::Type(k_.buffers[buffer].dtype, k_.buffers[buffer].shape).count();
    elements_[buffer] = ir::Dim::min(whole, elements_[buffer] + count(used));
  }
  void expression(const Expr& e, const Axes& around) {
    if (!e) return;
    kernel_ir::visit(e, [&](const Expr& part) {
      if (part->kind == ExprKind::kLoad) touch(part->ref, part->args, around);
    });
  }
  void products(const kernel_ir::Let& let, const Axes& around) {
    if (let.combiner != kernel_ir::Combiner::kSum || let.reduce.empty()) return;
    Expr e = without_convert(let.expr);
    if (e->kind != ExprKind::kCall || e->fn->name != "mul") return;
    Expr a = without_convert(e->args[0]), b = without_convert(e->args[1]);
    if (a->kind != ExprKind::kLoad || b->kind != ExprKind::kLoad) return;
    flops = flops + ir::Dim(2) * count(around);
    factors = bytes_of(a->dtype) > bytes_of(b->dtype) ? a->dtype : b->dtype;
  }

  // The procedures `attention` and `attention_grad`: the products of every pair of a query and a key, with a causal
  // mask of half of them.
  void attention(const kernel_ir::Procedure& p) {
    bool back = p.def->algorithm == kernel_ir::Algorithm::kAttentionGrad;
    if (p.def->algorithm != kernel_ir::Algorithm::kAttention && !back) return;
    const ir::Dim &keys = p.number("keys"), &features = p.number("features"), &out = p.number("out");
    ir::Dim pairs = p.count() * keys;
    if (!p.number("causal").is(0)) pairs = ir::Dim::floordiv(ir::Dim::min(p.count(), keys) * keys, 2);
    flops = p.outer() * pairs * (back ? features * 6 + out * 4 : features * 2 + out * 2);
    factors = k_.buffers[0].dtype;
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
  std::vector<ir::Dim> elements_;  // by buffer
};

// The operations of the products among the nodes that a launch computes; nullopt where there are none: then the kernel
// is no product of the program's.
std::optional<ir::Dim> flops_of_products(const ir::Node& launch, const ir::Function* flat) {
  std::optional<ir::Dim> out;
  for (int i : launch.computes) {
    if (flat == nullptr || i >= static_cast<int>(flat->nodes.size())) continue;
    const ir::Node& n = flat->nodes[i];
    if (n.op->lower != ir::Lowering::kContraction && n.op->lower != ir::Lowering::kConvolution) continue;
    out = out.value_or(0) + n.op->cost(passes::typed(*flat, n)).flops;
  }
  return out;
}

// At most what a kernel or a call must move and compute.
struct Bounds {
  ir::Dim bytes, flops;
};

std::string number(double x) { return fmt::format("{:.9g}", x); }
std::string postfix_of(const ir::Dim& d) { return formula(d)["postfix"].get<std::string>(); }

constexpr size_t kLongestFormula = 1 << 16;
LeastTime constant(double us) { return {us, number(us), true}; }
LeastTime formula_of(double us, std::string postfix) {
  return {us, postfix.size() > kLongestFormula ? "" : std::move(postfix), false};
}

// Equal times once, with how often they stand there.
class Times {
 public:
  void add(const LeastTime& t) {
    std::string key = t.postfix.empty() ? "no formula " + number(t.us) : t.postfix;
    ++terms_.try_emplace(key, t, 0).first->second.second;
  }

  LeastTime sum() const {
    double us = 0, fixed = 0;
    std::string postfix;
    bool known = true;
    for (const auto& [key, term] : terms_) {
      const auto& [time, times] = term;
      us += time.us * static_cast<double>(times);
      if (time.is_static) fixed += time.us * static_cast<double>(times);
      if (time.is_static) continue;
      known &= !time.postfix.empty();
      postfix += (postfix.empty() ? "" : " ") + time.postfix + (times == 1 ? "" : fmt::format(" {} *", times)) +
                 (postfix.empty() ? "" : " +");
    }
    if (known && postfix.empty()) return constant(us);
    return formula_of(us, !known ? "" : fixed == 0 ? postfix : postfix + " " + number(fixed) + " +");
  }

  LeastTime most() const {
    double us = 0;
    std::string postfix;
    bool is_static = true, known = true;
    for (const auto& [key, term] : terms_) {
      us = std::max(us, term.first.us), is_static &= term.first.is_static, known &= !term.first.postfix.empty();
      postfix += (postfix.empty() ? "" : " ") + term.first.postfix + (postfix.empty() ? "" : " max");
    }
    return is_static ? constant(us) : formula_of(us, known ? postfix : "");
  }

 private:
  std::map<std::string, std::pair<LeastTime, int64_t>> terms_;
};

LeastTime times(const LeastTime& t, const ir::Dim& trips) {
  double us = t.us * static_cast<double>(trips.bounds().max);
  if (t.is_static && trips.is_static()) return constant(us);
  return formula_of(us, t.postfix.empty() ? "" : t.postfix + " " + postfix_of(trips) + " *");
}

}  // namespace

ir::Dim operand_bytes(const ir::Node& n, const ir::Function& f) {
  ir::Dim out = 0;
  for (ir::ValueId id : n.results) out = out + f.type(id).bytes();
  for (ir::ValueId id : std::set<ir::ValueId>(n.operands.begin(), n.operands.end())) out = out + f.type(id).bytes();
  return out;
}

std::pair<const char*, double> product_rate(DType factors, const ir::Target& target) {
  const ir::CudaFacts& gpu = target.cuda;
  constexpr double kPerMicrosecond = 1e6;  // of a TFLOP a second
  if (factors == DType::kF64) return {"f64", gpu.f32_tflops / 2 * kPerMicrosecond};
  if (factors == DType::kBF16 || factors == DType::kF16) return {"f32", gpu.tensor_tflops * kPerMicrosecond};
  if (factors == DType::kF32 && target.tf32) return {"tf32", gpu.tensor_tflops / 2 * kPerMicrosecond};
  return {"f32", gpu.f32_tflops * kPerMicrosecond};
}

LeastTimes::LeastTimes(const ir::Module& flat, const ir::Module& planned, const ir::Target& target)
    : planned_(planned), target_(target) {
  std::map<std::string, Bounds> most;  // by the nodes that run a kernel, or whose place it can take
  auto note = [&](const std::string& kernel, const Bounds& bounds) {
    auto [known, fresh] = most.try_emplace(kernel, bounds);
    if (fresh) return;
    known->second.bytes = ir::Dim::max(known->second.bytes, bounds.bytes);
    known->second.flops = ir::Dim::max(known->second.flops, bounds.flops);
  };
  for (const ir::FunctionPtr& f : planned.functions)
    for (const ir::Node& n : f->nodes) {
      if (n.attrs.find("fallback"))
        note(n.attrs.get_string("fallback"), {operand_bytes(n, *f), ir::library_call(n, *f, target).flops()});
      else if (n.op->lower == ir::Lowering::kCall)
        note(n.attrs.get_string("kernel"),
             {operand_bytes(n, *f), flops_of_products(n, flat.find(f->name)).value_or(INT64_MAX)});
    }
  for (const kernel_ir::KernelPtr& k : planned.kernels) {
    // A generated sum may also go over what padding or strides leave out, and two operands may be one array.
    Walk walk(*k);
    auto limit = most.find(k->name);
    Bounds bounds = limit == most.end() ? Bounds{walk.bytes(), walk.flops} : limit->second;
    kernels_[k->name] =
        time(ir::Dim::min(walk.bytes(), bounds.bytes), ir::Dim::min(walk.flops, bounds.flops), walk.factors);
  }
}

LeastTime LeastTimes::time(const ir::Dim& bytes, const ir::Dim& flops, DType factors) const {
  double per_byte = 1 / (target_.cuda.copy_gbs * 1e3), per_flop = 1 / product_rate(factors, target_).second;
  double us =
      std::max(static_cast<double>(bytes.bounds().max) * per_byte, static_cast<double>(flops.bounds().max) * per_flop);
  if (bytes.is_static() && flops.is_static()) return constant(us);
  std::string moved = postfix_of(bytes) + " " + number(per_byte) + " *";
  if (flops.is(0)) return formula_of(us, moved);
  return formula_of(us, moved + " " + postfix_of(flops) + " " + number(per_flop) + " * max");
}

LeastTime LeastTimes::call(const ir::Node& n, const ir::Function& f) const {
  return time(operand_bytes(n, f), ir::library_call(n, f, target_).flops(), f.type(n.operands[0]).dtype);
}

const LeastTime& LeastTimes::function(const std::string& name) {
  if (auto known = functions_.find(name); known != functions_.end()) return known->second;
  const ir::Function& f = *planned_.find(name);
  Times all;
  for (const ir::Node& n : f.nodes) {
    if (n.attrs.find("fallback")) all.add(call(n, f));
    if (n.op->lower == ir::Lowering::kCall) all.add(kernel(n.attrs.get_string("kernel")));
    if (n.op->lower != ir::Lowering::kControl) continue;
    ir::ControlFlow c = passes::control_of(f, n);
    Times inside;
    for (const std::string& callee : c.functions) inside.add(function(callee));
    LeastTime one = c.kind == ir::ControlFlow::Kind::kBranch ? inside.most() : inside.sum();
    all.add(c.kind == ir::ControlFlow::Kind::kLoop ? times(one, c.trips) : one);
  }
  return functions_[name] = all.sum();
}

}  // namespace nabla::driver
