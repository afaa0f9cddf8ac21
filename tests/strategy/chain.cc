#include "tests/strategy/chain.h"

#include "ir/ops/all_ops.h"
#include "ir/text.h"

namespace nabla::strategy_tests {
namespace {

// The gradients %g0, %g1, ..., by the least of 1 and one over the norm of all.
std::string clipped() {
  std::string out = "  %total0 = constant() {value=f32[] {0}}\n";
  for (int i = 0; i < kLayers; ++i) {
    out += fmt::format("  %q{0} = mul(%g{0}, %g{0})\n  %s{0} = reduce_sum(%q{0}) {{axes=[0, 1]}}\n", i);
    out += fmt::format("  %total{1} = add(%total{0}, %s{0})\n", i, i + 1);
  }
  out += fmt::format("  %norm = sqrt(%total{})\n  %one = constant() {{value=f32[] {{1}}}}\n  %inverse = div(%one, %norm)\n", kLayers);
  out += "  %factor = minimum(%one, %inverse)\n";
  for (int i = 0; i < kLayers; ++i)
    out += fmt::format("  %f{0} = broadcast_in_dim(%factor) {{dims=[], shape=[{1}, {1}]}}\n  %c{0} = mul(%g{0}, %f{0})\n", i, kWidth);
  return out;
}

}  // namespace

ir::Module chain(const std::string& mesh, bool clips) {
  std::string state, names, params, wrt, body = "  %h0 = add(%x, %x)\n", args, grads, news, results, slots;
  for (int i = 0; i < kLayers; ++i) {
    std::string type = fmt::format("f32[{0},{0}]", kWidth);
    state += fmt::format("state w{0}: {1}\nstate m.w{0}: {1}\n", i, type);
    names += fmt::format("{0}w{1}, m.w{1}", i ? ", " : "", i);
    params += fmt::format("%w{0}: {1}, ", i, type), slots += fmt::format("%w{0}: {1}, %m{0}: {1}, ", i, type);
    wrt += fmt::format("{}{}", i ? ", " : "", i), args += fmt::format("%w{}, ", i), grads += fmt::format(", %g{}", i);
    body += fmt::format("  %p{0} = dot_general(%h{0}, %w{0}) {{lhs_contract=[1], rhs_contract=[0]}}\n", i);
    body += fmt::format("  %h{1} = tanh(%p{0})\n", i, i + 1);
    news += fmt::format("  %n{0} = add(%m{0}, %{1}{0})\n  %v{0} = sub(%w{0}, %n{0})\n", i, clips ? "c" : "g");
    results += fmt::format("%v{0}, %n{0}, ", i);
  }
  std::string entry = fmt::format("entry step calls @step {{\n  reads {0}\n  writes {0}\n  inputs x\n  outputs loss\n}}\n", names);
  std::string loss = fmt::format("func @loss({}%x: f32[{},{}]) {{\n{}", params, kBatch, kWidth, body);
  loss += fmt::format("  %q = mul(%h{0}, %h{0})\n", kLayers);
  loss += "  %l = reduce_sum(%q) {axes=[0, 1]}\n  return %l\n}\n";
  std::string step = fmt::format("func @step({}%x: f32[{},{}]) {{\n", slots, kBatch, kWidth);
  step += fmt::format("  %loss{} = value_and_grad({}%x) {{callee=@loss, wrt=[{}]}}\n", grads, args, wrt);
  step += fmt::format("{}{}  return {}%loss\n}}\n", clips ? clipped() : "", news, results);
  std::string text = fmt::format("nabla 1 traced\nmesh pod = {{{}}}\n{}{}{}{}", mesh, state, entry, loss, step);
  Result<ir::Module> m = ir::parse_module(text, "chain.nbl", ops::all_ops());
  NABLA_CHECK(m.ok(), "{}", to_string(m.errors()));
  return *m;
}

}  // namespace nabla::strategy_tests
