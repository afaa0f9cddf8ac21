#include "passes/lower/tensor_graph.h"

#include <algorithm>
#include <map>

#include "passes/rewrite.h"

namespace nabla::passes {

using kernel_ir::Expr;
using kernel_ir::ExprKind;

int64_t Formula::points() const { return most(ir::Type(DType::kF32, extents).count()); }
int64_t Tensor::size() const { return most(ir::Type(dtype, shape).count()); }

std::vector<int> loads_of(const Formula& f) {
  std::vector<int> out;
  auto collect = [&](const Expr& e) {
    if (!e) return;
    kernel_ir::visit(e, [&](const Expr& x) {
      if (x->kind == ExprKind::kLoad && std::find(out.begin(), out.end(), x->ref) == out.end()) out.push_back(x->ref);
    });
  };
  collect(f.value);
  collect(f.update);
  for (const Expr& i : f.indices) collect(i);
  return out;
}

Formula map_expressions(const Formula& f, const std::function<Expr(const Expr&)>& change) {
  Formula out = f;
  if (out.value) out.value = change(out.value);
  if (out.update) out.update = change(out.update);
  for (Expr& i : out.indices) i = change(i);
  return out;
}

namespace {

class Builder {
 public:
  Builder(const ir::Function& f, const ir::Module& module, const IsOpaque& is_opaque)
      : f_(f), module_(module), is_opaque_(is_opaque) {
    graph_.of_value.assign(f.values.size(), -1);
  }

  Result<TensorGraph> run() {
    for (ir::ValueId id : f_.params) given(id, -1);
    for (size_t i = 0; i < f_.nodes.size(); ++i) NABLA_TRY(node(static_cast<int>(i)));
    return std::move(graph_);
  }

 private:
  void given(ir::ValueId id, int node) {
    Tensor t;
    t.name = f_.values[id].name;
    t.node = node;
    add(std::move(t), id);
  }
  int add(Tensor t, ir::ValueId id) {
    if (id >= 0) {
      t.value = id;
      t.dtype = f_.type(id).dtype;
      t.shape = f_.type(id).shape;
      graph_.of_value[id] = static_cast<int>(graph_.tensors.size());
    }
    graph_.tensors.push_back(std::move(t));
    return static_cast<int>(graph_.tensors.size()) - 1;
  }

  Result<Ok> node(int index) {
    const ir::Node& n = f_.nodes[index];
    if (is_opaque_(n)) {
      graph_.opaque_nodes.push_back(index);
      auto first = static_cast<int>(graph_.tensors.size());
      for (ir::ValueId id : n.results) given(id, index);
      if (n.results.empty()) {
        Tensor t;
        t.name = n.op->name;
        t.node = index;
        add(std::move(t), -1);
      }
      if (!ir::has_effect(n, module_)) return Ok{};
      if (last_effect_ >= 0) graph_.after[index] = last_effect_;
      last_effect_ = first;
      return Ok{};
    }
    if (n.op->lower == ir::Lowering::kConstant) {
      const Literal& value = n.attrs.get_literal("value");
      if (value.size() == 1) return splat(n, index, value), Ok{};
      given(n.results[0], index);
      return Ok{};
    }
    if (n.op->lower == ir::Lowering::kView) {
      Tensor t;
      t.kind = TensorKind::kView;
      t.base = graph_.of_value[n.operands[0]];
      t.node = index;
      t.name = graph_.tensors[t.base].name;
      add(std::move(t), n.results[0]);
      return Ok{};
    }
    if (!n.op->access.exists()) {
      Diagnostic d = error(Code::kNoLowering, "no code can be generated for {}{}", n.op->name,
                           n.op->access.reason().empty() ? "" : ": " + n.op->access.reason());
      d.location = n.location;
      return d;
    }
    return definitions(n, index);
  }

  // A constant of one element is part of the formulas that use it.
  void splat(const ir::Node& n, int index, const Literal& v) {
    Tensor t;
    t.kind = TensorKind::kDefinition;
    t.name = "constant";
    t.node = index;
    t.formula.extents = ir::static_shape(v.shape());
    t.formula.rank = v.rank();
    t.formula.value =
        is_float(v.dtype()) ? kernel_ir::constant(v.dtype(), v.get(0)) : kernel_ir::constant_int(v.dtype(), v.get_i(0));
    add(std::move(t), n.results[0]);
  }

  Result<Ok> definitions(const ir::Node& n, int index) {
    ir::TypedOp op = typed(f_, n);
    kernel_ir::Fragment fragment = n.op->access(op);
    std::vector<int> tensor_of(fragment.definitions.size());
    for (size_t d = 0; d < fragment.definitions.size(); ++d) {
      const kernel_ir::Definition& def = fragment.definitions[d];
      Tensor t;
      t.kind = TensorKind::kDefinition;
      t.name = def.name;
      t.dtype = def.dtype;
      t.node = index;
      t.fence = n.op->traits.fence;
      t.formula = formula(fragment, def, n, tensor_of);
      t.shape.assign(t.formula.extents.begin(), t.formula.extents.begin() + t.formula.rank);
      ir::ValueId id = -1;
      for (size_t r = 0; r < fragment.results.size(); ++r)
        if (fragment.results[r] == static_cast<int>(d)) id = n.results[r];
      if (id >= 0) t.name = n.op->name;
      tensor_of[d] = add(std::move(t), id);
    }
    // Two results may be one definition: the later ones are views of the first.
    for (size_t r = 0; r < fragment.results.size(); ++r) {
      int t = tensor_of[fragment.results[r]];
      if (graph_.tensors[t].value == n.results[r]) continue;
      Tensor view;
      view.kind = TensorKind::kView;
      view.base = t;
      view.node = index;
      view.name = graph_.tensors[t].name;
      add(std::move(view), n.results[r]);
    }
    return Ok{};
  }

  Formula formula(const kernel_ir::Fragment& fragment, const kernel_ir::Definition& def, const ir::Node& n,
                  const std::vector<int>& tensor_of) {
    Formula f;
    f.rank = static_cast<int>(def.axes.size());
    f.combiner = def.combiner;
    f.scatter = def.scatter;
    std::map<int, Expr> renumber;
    auto place = [&](const std::vector<int>& axes) {
      for (int a : axes) {
        renumber[a] = kernel_ir::axis(static_cast<int>(f.extents.size()));
        f.extents.push_back(fragment.axes[a].extent);
      }
    };
    auto change = [&](const Expr& e) {
      Expr moved = kernel_ir::substitute_axes(e, renumber);
      return relabel(moved, n, tensor_of);
    };
    place(def.axes);
    if (def.scatter) {
      f.value = change(def.value);
      place(def.update_axes);
      for (const Expr& i : def.indices) f.indices.push_back(change(i));
      f.update = change(def.update);
    } else {
      place(def.reduce);
      f.value = change(def.value);
    }
    return f;
  }

  // Operand and definition numbers become tensor ids.
  Expr relabel(const Expr& e, const ir::Node& n, const std::vector<int>& tensor_of) {
    std::function<Expr(const Expr&)> change = [&](const Expr& x) -> Expr {
      if (x->kind != ExprKind::kLoad && x->kind != ExprKind::kValue) return Expr();
      int id = x->kind == ExprKind::kLoad ? graph_.of_value[n.operands[x->ref]] : tensor_of[x->ref];
      std::vector<Expr> at;
      for (const Expr& i : x->args) at.push_back(kernel_ir::rewrite(i, change));
      if (!x->guard) return kernel_ir::load(x->dtype, id, at);
      return kernel_ir::guarded_load(x->dtype, id, at, kernel_ir::rewrite(x->guard, change),
                                     kernel_ir::rewrite(x->fill, change));
    };
    return kernel_ir::rewrite(e, change);
  }

  const ir::Function& f_;
  const ir::Module& module_;
  const IsOpaque& is_opaque_;
  int last_effect_ = -1;  // the tensor that stands for it
  TensorGraph graph_;
};

}  // namespace

std::vector<int> inputs_of(const TensorGraph& graph, const ir::Function& function, int node) {
  std::vector<int> out;
  for (ir::ValueId id : function.nodes[node].operands) out.push_back(graph.of_value[id]);
  if (auto before = graph.after.find(node); before != graph.after.end()) out.push_back(before->second);
  return out;
}

Result<TensorGraph> build_tensor_graph(const ir::Function& function, const ir::Module& module,
                                       const IsOpaque& is_opaque) {
  return Builder(function, module, is_opaque).run();
}

}  // namespace nabla::passes
