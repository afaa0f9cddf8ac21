#include "tests/transforms/random_function.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "ir/ops/all_ops.h"
#include "ir/target.h"
#include "passes/transform/inline_calls.h"
#include "passes/transform/lower_transforms.h"

namespace nabla::transforms {

using ir::FunctionBuilder;
using ir::Ints;
using ir::Shape;
using ir::Val;

namespace {

constexpr int64_t kRows = 4, kColumns = 6;

struct Params {
  Val w, v, k, labels;
};

// Pieces keep the shape [4,6] and values of moderate size.
class Pieces {
 public:
  Pieces(FunctionBuilder& b, Params params, std::mt19937_64& rng, std::string callee)
      : b_(b), p_(params), rng_(rng), callee_(std::move(callee)) {}

  Val next(Val a, Val c) {
    switch (rng_() % (callee_.empty() ? 12 : 13)) {
      case 0:
        return unary(a);
      case 1:
        return b_.op("tanh", {binary(a, c)});
      case 2:
        return b_.op("tanh", {dot(a)});
      case 3:
        return b_.op(rng_() % 2 ? "softmax" : "log_softmax", {a}, {{"axis", int64_t(rng_() % 2)}});
      case 4:
        return b_.op("layer_norm", {a, p_.v, reduce_sum(p_.w, {0})}) * 0.5;
      case 5:
        return a - broadcast_along(reduce_sum(c, {1}) * 0.2, a.shape(), {1});
      case 6:
        return a + broadcast_along(reduce_max(c, {0}), a.shape(), {0}) * 0.5;
      case 7:
        return transpose(b_.op("sin", {transpose(a, {1, 0})}), {1, 0}) * c;
      case 8:
        return b_.op("embedding", {a, p_.labels}) + a * c;
      case 9:
        return b_.op("tanh", {convolution(a)});
      case 10:
        return pooling(a);
      case 11:
        return rejoined(a, c);
      default:
        return b_.op("call", {a}, {{"callee", ir::FunctionRef{callee_}}}) + c * 0.5;
    }
  }

 private:
  Val unary(Val a) {
    const char* names[] = {"tanh", "sin", "cos", "logistic", "gelu", "silu", "relu", "erf"};
    return b_.op(names[rng_() % 8], {a});
  }
  Val binary(Val a, Val c) {
    const char* names[] = {"add", "sub", "mul", "maximum"};
    return b_.op(names[rng_() % 4], {a, c});
  }
  Val dot(Val a) { return b_.op("dot_general", {a, p_.w}, {{"lhs_contract", Ints{1}}, {"rhs_contract", Ints{0}}}); }
  Val convolution(Val a) {
    Val image = reshape(a, {1, kRows, kColumns, 1});
    Val out = b_.op(
        "convolution", {image, p_.k},
        {{"strides", Ints{1, 1}}, {"padding_low", Ints{1, 1}}, {"padding_high", Ints{1, 1}}, {"dilation", Ints{1, 1}}});
    return reshape(out, a.shape());
  }
  Val pooling(Val a) {
    return b_.op(rng_() % 2 ? "reduce_window_max" : "reduce_window_sum", {a},
                 {{"window", Ints{2, 2}},
                  {"strides", Ints{1, 1}},
                  {"padding_low", Ints{0, 1}},
                  {"padding_high", Ints{1, 0}},
                  {"dilation", Ints{1, 1}}}) *
           0.5;
  }
  Val rejoined(Val a, Val c) {
    auto cut = [&](Val v, int64_t from, int64_t to) {
      return b_.op("slice", {v}, {{"starts", Ints{0, from}}, {"limits", Ints{-1, to}}, {"strides", Ints{1, 1}}});
    };
    Val joined = b_.op("concatenate", {cut(a, 2, -1), cut(c, 0, 2)}, {{"axis", int64_t{1}}});
    return select(b_.op("gt", {joined, c}), joined, a);
  }

  FunctionBuilder& b_;
  Params p_;
  std::mt19937_64& rng_;
  std::string callee_;
};

}  // namespace

ir::Function random_function(const std::string& name, uint64_t seed, int steps, const ir::Module* module,
                             const std::string& callee) {
  std::mt19937_64 rng(seed);
  FunctionBuilder b(name, ops::all_ops(), module);
  auto f64 = [](Shape shape) { return ir::Type(DType::kF64, std::move(shape)); };
  Val x = b.param("x", f64({kRows, kColumns}));
  Params p;
  p.w = b.param("w", f64({kColumns, kColumns}));
  p.v = b.param("v", f64({kColumns}));
  p.k = b.param("k", f64({3, 3, 1, 1}));
  p.labels = b.param("labels", {DType::kI32, {kRows}});
  std::vector<Val> pool = {x, broadcast_along(p.v, x.shape(), {0}) * x};
  Pieces pieces(b, p, rng, callee);
  for (int i = 0; i < steps; ++i) pool.push_back(pieces.next(pool.back(), pool[rng() % pool.size()]));
  Val last = pool.back() + pool[pool.size() / 2];
  Val loss = reduce_sum(b.op("cross_entropy", {last, p.labels}), {0}) + reduce_sum(last * pool[1], {0, 1});
  loss = loss + reduce_sum(b.op("tanh", {p.w}), {0, 1}) * reduce_sum(p.k, {0, 1, 2, 3});
  return b.finish({loss, pool.back()});
}

Literal random_literal(const ir::Type& type, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Literal out(type.dtype, type.extents());
  for (int64_t i = 0; i < out.size(); ++i)
    is_float(type.dtype) ? out.set(i, uniform(rng)) : out.set_i(i, static_cast<int64_t>(rng() % 4));
  return out;
}

std::vector<Literal> random_args(const ir::Function& f, uint64_t seed) {
  std::vector<Literal> out;
  for (ir::ValueId id : f.params) out.push_back(random_literal(f.type(id), seed * 1000 + out.size()));
  return out;
}

void add(ir::Module& module, ir::Function f) { module.set(std::make_shared<const ir::Function>(std::move(f))); }

ir::Module apply(Result<ir::Module> (*pass)(const ir::Module&, passes::PassContext&), const ir::Module& module) {
  static const ir::Target target{};
  passes::PassContext context{ops::all_ops(), target};
  Result<ir::Module> out = pass(module, context);
  EXPECT_TRUE(out.ok()) << to_string(out.ok() ? Diagnostics{} : out.errors());
  return out.ok() ? *out : ir::Module{};
}

ir::Module flattened(const ir::Module& module) {
  return apply(passes::inline_calls, apply(passes::lower_transforms, module));
}

std::vector<Literal> run(const ir::Module& module, std::string_view function, const std::vector<Literal>& args) {
  auto out = ir::interpret(module, function, args);
  EXPECT_TRUE(out.ok()) << to_string(out.ok() ? Diagnostics{} : out.errors());
  return out.ok() ? *out : std::vector<Literal>{};
}

int count_ops(const ir::Module& module, std::string_view function, std::string_view op) {
  int count = 0;
  for (const ir::Node& node : module.find(function)->nodes) count += node.op->name == op;
  return count;
}

void add_wrapper(ir::Module& module, const std::string& wrapper, const std::string& transform,
                 const std::string& callee, ir::Attrs attrs) {
  FunctionBuilder b(wrapper, ops::all_ops(), &module);
  const ir::Function& f = *module.find(callee);
  std::vector<Val> operands;
  for (ir::ValueId id : f.params) operands.push_back(b.param(f.values[id].name, f.type(id)));
  if (transform == "jvp")
    for (ir::ValueId id : f.params) operands.push_back(b.param(f.values[id].name + "_t", f.type(id)));
  attrs.set("callee", ir::FunctionRef{callee});
  add(module, b.finish(b.add(transform, operands, attrs)));
}

}  // namespace nabla::transforms
