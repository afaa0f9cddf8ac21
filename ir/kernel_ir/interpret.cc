// Runs kernels with static extents, one element at a time.
#include <map>

#include "ir/kernel_ir/eval.h"
#include "ir/kernel_ir/kernel.h"

namespace nabla::kernel_ir {
namespace {

class Interpreter {
 public:
  Interpreter(const Kernel& k, std::vector<Literal*> buffers)
      : k_(k), buffers_(std::move(buffers)), axes_(k.axes.size()) {
    for (const Axis& a : k_.axes) extents_.push_back(a.extent.value());
    for (const ValueInfo& v : k_.values) {
      std::vector<int64_t> shape;
      for (int a : v.axes) shape.push_back(extents_[a]);
      values_.emplace_back(v.dtype == DType::kBF16 || v.dtype == DType::kF16 ? DType::kF32 : v.dtype, shape);
    }
    memory_.load = [this](int b, const std::vector<int64_t>& at) {
      return get(*buffers_[b], offset(*buffers_[b], at));
    };
    memory_.value = [this](int v, const std::vector<int64_t>& at) { return get(values_[v], offset(values_[v], at)); };
  }

  void run() {
    for (size_t b = 0; b < k_.buffers.size(); ++b)
      if (k_.buffers[b].role == BufferRole::kOut) combine_start(static_cast<int>(b), k_.body);
    body(k_.body);
  }

 private:
  static int64_t offset(const Literal& t, const std::vector<int64_t>& at) {
    int64_t o = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      NABLA_CHECK(at[d] >= 0 && at[d] < t.shape()[d], "index {} of dimension {} of {}", at[d], d, shape_str(t.shape()));
      o = o * t.shape()[d] + at[d];
    }
    return o;
  }
  // A combining store into an output starts from the combiner's identity.
  void combine_start(int buffer, const Body& b) {
    for (const Stmt& s : b) {
      if (const For* f = std::get_if<For>(&s.node)) combine_start(buffer, f->body);
      if (const Loop* l = std::get_if<Loop>(&s.node)) combine_start(buffer, l->body);
      const Store* store = std::get_if<Store>(&s.node);
      if (!store || store->buffer != buffer || store->combiner == Combiner::kNone) continue;
      Expr start = identity_of(store->combiner, buffers_[buffer]->dtype());
      for (int64_t i = 0; i < buffers_[buffer]->size(); ++i) set(*buffers_[buffer], i, {start->number, start->integer});
    }
  }
  template <class F>
  void for_each(const std::vector<int>& over, const F& f, size_t depth = 0) {
    if (depth == over.size()) return f();
    for (int64_t i = 0; i < extents_[over[depth]]; ++i) {
      axes_[over[depth]] = i;
      for_each(over, f, depth + 1);
    }
  }
  Scalar eval(const Expr& e) {
    auto it = evaluators_.find(e.id());
    if (it == evaluators_.end()) it = evaluators_.emplace(e.id(), Evaluator(e)).first;
    return it->second.run(axes_, memory_);
  }
  void body(const Body& b) {
    for (const Stmt& s : b) std::visit([&](const auto& node) { stmt(node); }, s.node);
  }
  void stmt(const Let& s) {
    int64_t o = 0;
    Literal& out = values_[s.value];
    for_each(k_.values[s.value].axes, [&] {
      if (s.combiner == Combiner::kNone) return set(out, o++, eval(s.expr));
      Expr start = identity_of(s.combiner, out.dtype());
      Scalar sum{start->number, start->integer};
      for_each(s.reduce, [&] { sum = combine(s.combiner, out.dtype(), sum, eval(s.expr)); });
      set(out, o++, sum);
    });
  }
  void stmt(const Store& s) {
    Literal& out = *buffers_[s.buffer];
    for_each(s.axes, [&] {
      if (s.guard && !eval(s.guard).i) return;
      std::vector<int64_t> at;
      for (const Expr& i : s.indices) at.push_back(eval(i).i);
      int64_t o = offset(out, at);
      set(out, o, combine(s.combiner, out.dtype(), get(out, o), eval(s.expr)));
    });
  }
  void stmt(const For& s) {
    for_each(s.axes, [&] { body(s.body); });
  }
  void stmt(const Loop& s) {
    for (size_t i = 0; i < s.state.size(); ++i) assign(s.state[i], s.init[i], values_[s.state[i]]);
    for (int64_t n = extents_[s.axis], i = 0; i < n; ++i) {
      axes_[s.axis] = s.reverse ? n - 1 - i : i;
      body(s.body);
      std::vector<Literal> next;
      for (size_t j = 0; j < s.state.size(); ++j) {
        next.push_back(values_[s.state[j]]);
        assign(s.state[j], s.next[j], next.back());
      }
      for (size_t j = 0; j < s.state.size(); ++j) values_[s.state[j]] = std::move(next[j]);
    }
  }
  void assign(int value, const Expr& e, Literal& to) {
    int64_t o = 0;
    for_each(k_.values[value].axes, [&] { set(to, o++, eval(e)); });
  }

  const Kernel& k_;
  std::vector<Literal*> buffers_;
  std::vector<int64_t> extents_, axes_;
  std::vector<Literal> values_;
  std::map<const ExprNode*, Evaluator> evaluators_;
  Memory memory_;
};

}  // namespace

void interpret(const Kernel& kernel, std::vector<Literal*> buffers) {
  if (!kernel.procedure) return Interpreter(kernel, std::move(buffers)).run();
  std::vector<const Literal*> operands;
  std::vector<Literal*> results;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (kernel.buffers[i].role == BufferRole::kIn) operands.push_back(buffers[i]);
    if (kernel.buffers[i].role == BufferRole::kOut) results.push_back(buffers[i]);
  }
  kernel.procedure->def->run(kernel.procedure->values(), operands, results);
}

}  // namespace nabla::kernel_ir
