#include "tests/transforms/random_program.h"

#include <random>

#include "ir/ops/all_ops.h"
#include "ir/text.h"

namespace nabla::transforms {
namespace {

using ir::FunctionBuilder;
using ir::FunctionRef;
using ir::Ints;
using ir::Val;

constexpr const char* kLibrary = R"(
nabla 1 traced
func @plain(%v: f64[3], %w: f64[3,3]) {
  %p = dot_general(%w, %v) {lhs_contract=[1], rhs_contract=[0]}
  %t = tanh(%p)
  return %t
}
func @wave(%v: f64[3], %w: f64[3,3]) {
  %s = sin(%v)
  %c = reduce_sum(%w) {axes=[1]}
  %y = mul(%s, %c)
  return %y
}
func @soft(%v: f64[3], %w: f64[3,3]) {
  %s = softmax(%v) {axis=0}
  return %s
}
func @cell(%v: f64[3], %n: i32[], %h: f64[3], %x: f64[3]) {
  %i = constant() {value=i32[] {1}}
  %m = add(%n, %i)
  %f = convert(%m) {dtype=f64}
  %g = broadcast_in_dim(%f) {shape=[3], dims=[]}
  %e = cos(%v)
  %a = mul(%x, %e)
  %b = add(%a, %h)
  %t = tanh(%b)
  %d = div(%t, %g)
  %s = reduce_sum(%d) {axes=[0]}
  return %m, %t, %d, %s
}
func @go(%c: f64[3], %n: i32[], %v: f64[3]) {
  %k = constant() {value=i32[] {3}}
  %b = lt(%n, %k)
  return %b
}
func @small(%c: f64[3], %n: i32[], %v: f64[3]) {
  %k = constant() {value=i32[] {4}}
  %b = lt(%n, %k)
  %s = reduce_sum(%v) {axes=[0]}
  %l = constant() {value=f64[] {2}}
  %d = lt(%s, %l)
  %r = and(%b, %d)
  return %r
}
func @grow(%c: f64[3], %n: i32[], %v: f64[3]) {
  %i = constant() {value=i32[] {1}}
  %m = add(%n, %i)
  %s = logistic(%c)
  %t = add(%v, %s)
  %y = sin(%t)
  return %m, %y
}
func @squash(%v: f64[3]) { %t = tanh(%v)  return %t }
func @squash_forward(%v: f64[3]) { %t = tanh(%v)  return %t, %t }
func @squash_backward(%t: f64[3], %ct: f64[3]) {
  %q = mul(%t, %t)
  %p = mul(%q, %ct)
  %g = sub(%ct, %p)
  return %g
}
func @squash_rule(%v: f64[3], %dv: f64[3]) {
  %t = tanh(%v)
  %q = mul(%t, %t)
  %p = mul(%q, %dv)
  %d = sub(%dv, %p)
  return %t, %d
}
)";

Val pick(FunctionBuilder& b, Val v, Val w, std::mt19937_64& rng, bool unbounded) {
  auto f = [&] { return FunctionRef{std::vector<const char*>{"plain", "wave", "soft"}[rng() % 3]}; };
  auto total = [&] { return reduce_sum(v, {0}); };
  switch (unbounded ? 11 : rng() % 11) {
    case 0:
      return b.op(rng() % 2 ? "sin" : "logistic", {v});
    case 1:
      return b.op("call", {v, w}, {{"callee", f()}});
    case 2:
    case 3: {
      Val zero = b.fill(DType::kI32, {}, 0);
      std::vector<Val> out = b.add("scan", {v, zero, b.op("cos", {v}), w},
                                   {{"body", FunctionRef{"cell"}},
                                    {"consts", int64_t{1}},
                                    {"carries", int64_t{2}},
                                    {"length", ir::Shape{3}},
                                    {"reverse", rng() % 2 == 0}});
      return out[1] + reduce_sum(out[2], {0}) * out[3];
    }
    case 4:
    case 5:
      return b.op("cond", {b.op("gt", {total(), b.fill(DType::kF64, {}, 0.3)}), v, w}, {{"then", f()}, {"else", f()}});
    case 6:
      return b.op("switch", {convert(total() * 1.5, DType::kI32), v, w},
                  {{"branches", ir::FunctionRefs{f(), f(), f()}}});
    case 7:
      return b.add("while", {b.op("sin", {v}), b.fill(DType::kI32, {}, 0), v},
                   {{"cond", FunctionRef{"go"}},
                    {"body", FunctionRef{"grow"}},
                    {"consts", int64_t{1}},
                    {"trip_count", int64_t{3}}})[1];
    case 8:
      return b.op("custom_vjp", {v},
                  {{"callee", FunctionRef{"squash"}},
                   {"forward", FunctionRef{"squash_forward"}},
                   {"backward", FunctionRef{"squash_backward"}}});
    case 9:
      return b.op("custom_jvp", {v}, {{"callee", FunctionRef{"squash"}}, {"rule", FunctionRef{"squash_rule"}}});
    case 10:
      return b.op("remat", {v, w}, {{"callee", f()}, {"policy", std::string(rng() % 2 ? "dots" : "nothing")}});
    default:
      return b.add("while", {b.op("sin", {v}), b.fill(DType::kI32, {}, 0), v},
                   {{"cond", FunctionRef{"small"}}, {"body", FunctionRef{"grow"}}, {"consts", int64_t{1}}})[1];
  }
}

}  // namespace

ir::Module random_program(const std::string& name, uint64_t seed, int steps, bool unbounded) {
  std::mt19937_64 rng(seed);
  ir::Module m = ir::parse_module(kLibrary, "library", ops::all_ops()).value();
  FunctionBuilder b(name, ops::all_ops(), &m);
  Val x = b.param("x", {DType::kF64, {3}}), w = b.param("w", {DType::kF64, {3, 3}});
  std::vector<Val> pool = {x, b.op("dot_general", {w, x}, {{"lhs_contract", Ints{1}}, {"rhs_contract", Ints{0}}})};
  for (int i = 0; i < steps; ++i) {
    Val mixed = pool.back() + pool[rng() % pool.size()] * 0.5;
    pool.push_back(pick(b, mixed, w, rng, unbounded && i == steps / 2));
  }
  Val loss = reduce_sum(pool.back() * pool[pool.size() / 2], {0}) + reduce_sum(b.op("sin", {w}), {0, 1});
  add(m, b.finish({loss, pool.back()}));
  return m;
}

}  // namespace nabla::transforms
