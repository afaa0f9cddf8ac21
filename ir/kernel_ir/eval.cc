#include "ir/kernel_ir/eval.h"

#include <array>
#include <cstring>
#include <span>
#include <unordered_map>

#include "runtime/base/check.h"
#include "runtime/base/literal.h"

namespace nabla::kernel_ir {
namespace {

double round_step(DType dtype, double v) { return dtype == DType::kF64 ? v : round_to(DType::kF32, v); }

Scalar converted(DType from, DType to, Scalar x) {
  uint64_t cell = 0;
  if (!is_float(from) && !is_float(to)) {
    set_int(to, &cell, 0, x.i);
    return {0, get_int(to, &cell, 0)};
  }
  if (to == DType::kBool) return {0, x.f != 0};
  if (bytes_of(from) == 8 && !is_float(from)) return {Literal::scalar_int(from, x.i).converted(to).get(0), 0};
  set_float(to, &cell, 0, is_float(from) ? x.f : static_cast<double>(x.i));
  return is_float(to) ? Scalar{get_float(to, &cell, 0), 0} : Scalar{0, get_int(to, &cell, 0)};
}

Scalar bitcast(DType from, DType to, Scalar x) {
  uint64_t cell = 0;
  if (is_float(from))
    set_float(from, &cell, 0, x.f);
  else
    set_int(from, &cell, 0, x.i);
  return is_float(to) ? Scalar{get_float(to, &cell, 0), 0} : Scalar{0, get_int(to, &cell, 0)};
}

constexpr size_t kMostOperands = 8;

// This runs for every element, so the operands stay on the stack.
Scalar apply(const ScalarFn* fn, DType operand, DType result, std::span<const Scalar> x) {
  NABLA_CHECK(x.size() <= kMostOperands, "{} operands of {}", x.size(), fn->name);
  if (is_float(operand)) {
    NABLA_CHECK(fn->eval_float, "{} of {}", fn->name, name_of(operand));
    std::array<double, kMostOperands> v;
    for (size_t i = 0; i < x.size(); ++i) v[i] = x[i].f;
    double out = fn->eval_float({v.data(), x.size()});
    return result == DType::kBool ? Scalar{0, out != 0} : Scalar{round_step(result, out), 0};
  }
  NABLA_CHECK(fn->eval_int, "{} of {}", fn->name, name_of(operand));
  std::array<int64_t, kMostOperands> v;
  for (size_t i = 0; i < x.size(); ++i) v[i] = x[i].i;
  int64_t out = fn->eval_int(operand, {v.data(), x.size()});
  if (result == DType::kBool) return {0, out & 1};
  uint64_t cell = 0;
  set_int(result, &cell, 0, out);
  return {0, get_int(result, &cell, 0)};
}

// The function of a combiner. Names are looked up once, since every element asks.
const ScalarFn* function_of(Combiner combiner) {
  static const std::vector<const ScalarFn*> kFunctions = [] {
    std::vector<const ScalarFn*> out;
    for (int c = 0; c <= static_cast<int>(Combiner::kOr); ++c) out.push_back(find_scalar(scalar_of(static_cast<Combiner>(c))));
    return out;
  }();
  return kFunctions.at(static_cast<size_t>(combiner));
}

int64_t offset_of(const Literal& t, const std::vector<int64_t>& at) {
  NABLA_CHECK(at.size() == t.shape().size(), "{} indices of {}", at.size(), shape_str(t.shape()));
  int64_t offset = 0;
  for (size_t d = 0; d < at.size(); ++d) {
    NABLA_CHECK(at[d] >= 0 && at[d] < t.shape()[d], "index {} of dimension {} of {}", at[d], d, shape_str(t.shape()));
    offset = offset * t.shape()[d] + at[d];
  }
  return offset;
}

// Calls f with every position of `over`, row-major, in `axes`.
template <class F>
void for_each(const std::vector<int>& over, const std::vector<int64_t>& extents, std::vector<int64_t>& axes, const F& f,
              size_t depth = 0) {
  if (depth == over.size()) return f();
  for (axes[over[depth]] = 0; axes[over[depth]] < extents[over[depth]]; ++axes[over[depth]])
    for_each(over, extents, axes, f, depth + 1);
}

}  // namespace

Evaluator::Evaluator(const Expr& e) {
  std::unordered_map<const ExprNode*, int> slot;
  visit(e, [&](const Expr& x) {
    Step step{x, {}, -1, -1};
    for (const Expr& a : x->args) step.args.push_back(slot.at(a.id()));
    if (x->guard) step.guard = slot.at(x->guard.id()), step.fill = slot.at(x->fill.id());
    slot[x.id()] = static_cast<int>(steps_.size());
    steps_.push_back(std::move(step));
  });
  results_.resize(steps_.size());
}

Scalar Evaluator::run(const std::vector<int64_t>& axes, const Memory& memory) {
  for (size_t i = 0; i < steps_.size(); ++i) results_[i] = eval(steps_[i], axes, memory);
  return results_.back();
}

Scalar Evaluator::eval(const Step& step, const std::vector<int64_t>& axes, const Memory& memory) {
  const ExprNode& e = *step.expr;
  auto positions = [&]() -> const std::vector<int64_t>& {
    at_.clear();
    for (int a : step.args) at_.push_back(results_[a].i);
    return at_;
  };
  switch (e.kind) {
    case ExprKind::kConst:
      return is_float(e.dtype) ? Scalar{e.number, 0} : Scalar{0, e.integer};
    case ExprKind::kDim:
      NABLA_CHECK(false, "evaluation of the symbolic extent {}", e.dim.str());
      break;
    case ExprKind::kAxis:
      return {0, axes[e.ref]};
    case ExprKind::kLoad:
      if (step.guard >= 0 && !results_[step.guard].i) return results_[step.fill];
      return memory.load(e.ref, positions());
    case ExprKind::kValue:
      return memory.value(e.ref, positions());
    case ExprKind::kCall:
      break;
  }
  std::string_view fn = e.fn->name;
  if (fn == "select") return results_[step.args[results_[step.args[0]].i ? 1 : 2]];
  DType operand = e.args[0]->dtype;
  if (fn == "convert") return converted(operand, e.dtype, results_[step.args[0]]);
  if (fn == "bitcast") return bitcast(operand, e.dtype, results_[step.args[0]]);
  operands_.clear();
  for (int a : step.args) operands_.push_back(results_[a]);
  return apply(e.fn, operand, e.dtype, operands_);
}

Scalar combine(Combiner combiner, DType dtype, Scalar a, Scalar b) {
  return combiner == Combiner::kNone ? b : apply(function_of(combiner), dtype, dtype, std::array{a, b});
}

Scalar get(const Literal& t, int64_t offset) {
  return is_float(t.dtype()) ? Scalar{t.get(offset), 0} : Scalar{0, t.get_i(offset)};
}
void set(Literal& t, int64_t offset, Scalar v) {
  if (is_float(t.dtype()))
    t.set(offset, v.f);
  else
    t.set_i(offset, v.i);
}

// Every definition of the fragment is a result of its procedure.
static std::vector<Literal> run_procedure(const Fragment& fragment, const std::vector<Literal>& operands) {
  std::vector<Literal> out;
  for (const Definition& d : fragment.definitions) {
    std::vector<int64_t> shape;
    for (int a : d.axes) shape.push_back(fragment.axes[a].extent.value());
    out.emplace_back(d.dtype, shape);
  }
  std::vector<const Literal*> in;
  std::vector<Literal*> results;
  for (const Literal& x : operands) in.push_back(&x);
  for (Literal& x : out) results.push_back(&x);
  fragment.procedure->def->run(fragment.procedure->values(), in, results);
  return out;
}

std::vector<Literal> interpret(const Fragment& fragment, const std::vector<Literal>& operands) {
  if (fragment.procedure) return run_procedure(fragment, operands);
  std::vector<int64_t> extents, axes(fragment.axes.size());
  for (const Axis& a : fragment.axes) extents.push_back(a.extent.value());
  std::vector<Literal> values;
  Memory memory;
  memory.load = [&](int t, const std::vector<int64_t>& at) { return get(operands[t], offset_of(operands[t], at)); };
  memory.value = [&](int v, const std::vector<int64_t>& at) { return get(values[v], offset_of(values[v], at)); };
  for (const Definition& d : fragment.definitions) {
    std::vector<int64_t> shape;
    for (int a : d.axes) shape.push_back(extents[a]);
    Literal out(d.dtype, shape);
    Evaluator value(d.value);
    int64_t offset = 0;
    for_each(d.axes, extents, axes, [&] {
      if (d.combiner == Combiner::kNone || d.scatter) return set(out, offset++, value.run(axes, memory));
      Expr start = identity_of(d.combiner, d.dtype);
      Scalar sum = is_float(d.dtype) ? Scalar{start->number, 0} : Scalar{0, start->integer};
      for_each(d.reduce, extents, axes, [&] { sum = combine(d.combiner, d.dtype, sum, value.run(axes, memory)); });
      set(out, offset++, sum);
    });
    if (d.scatter) {
      std::vector<Evaluator> indices;
      for (const Expr& i : d.indices) indices.emplace_back(i);
      Evaluator update(d.update);
      for_each(d.update_axes, extents, axes, [&] {
        std::vector<int64_t> at;
        for (size_t k = 0; k < indices.size(); ++k) {
          at.push_back(indices[k].run(axes, memory).i);
          if (at[k] < 0 || at[k] >= shape[k]) return;  // out of range: dropped
        }
        int64_t place = offset_of(out, at);
        set(out, place, combine(d.combiner, d.dtype, get(out, place), update.run(axes, memory)));
      });
    }
    values.push_back(std::move(out));
  }
  std::vector<Literal> results;
  for (int r : fragment.results) results.push_back(values[r]);
  return results;
}

}  // namespace nabla::kernel_ir
