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

std::string with_squares() {
  std::string out = fmt::format("  %tenth = constant() {{value=f32[] {{0.1}}}}\n"
                                "  %tenths = broadcast_in_dim(%tenth) {{dims=[], shape=[{0}, {0}]}}\n", kWidth);
  for (int i = 0; i < kLayers; ++i)
    out += fmt::format("  %t{0} = mul(%g{0}, %tenths)\n  %q{0} = mul(%g{0}, %g{0})\n  %c{0} = add(%t{0}, %q{0})\n", i);
  return out;
}

}  // namespace

ir::Module chain(const std::string& mesh, Update update, bool halves) {
  std::string state, names, params, wrt, body = "  %h0 = add(%x, %x)\n", args, grads, news, results, slots;
  if (halves) body = "  %d = add(%x, %x)\n  %h0 = convert(%d) {dtype=bf16}\n";
  for (int i = 0; i < kLayers; ++i) {
    std::string type = fmt::format("f32[{0},{0}]", kWidth);
    state += fmt::format("state w{0}: {1}\nstate m.w{0}: {1}\n", i, type);
    names += fmt::format("{0}w{1}, m.w{1}", i ? ", " : "", i);
    params += fmt::format("%w{0}: {1}, ", i, type), slots += fmt::format("%w{0}: {1}, %m{0}: {1}, ", i, type);
    wrt += fmt::format("{}{}", i ? ", " : "", i), args += fmt::format("%w{}, ", i), grads += fmt::format(", %g{}", i);
    if (halves) body += fmt::format("  %b{0} = convert(%w{0}) {{dtype=bf16}}\n", i);
    body += fmt::format("  %p{0} = dot_general(%h{0}, %{1}{0}) {{lhs_contract=[1], rhs_contract=[0]}}\n", i, halves ? "b" : "w");
    body += fmt::format("  %h{1} = tanh(%p{0})\n", i, i + 1);
    news += fmt::format("  %n{0} = add(%m{0}, %{1}{0})\n  %v{0} = sub(%w{0}, %n{0})\n", i, update == Update::kPlain ? "g" : "c");
    results += fmt::format("%v{0}, %n{0}, ", i);
  }
  std::string entry = fmt::format("entry step calls @step {{\n  reads {0}\n  writes {0}\n  inputs x\n  outputs loss\n}}\n", names);
  std::string loss = fmt::format("func @loss({}%x: f32[{},{}]) {{\n{}", params, kBatch, kWidth, body);
  if (halves) loss += fmt::format("  %h{} = convert(%h{}) {{dtype=f32}}\n", kLayers + 1, kLayers);
  loss += fmt::format("  %q = mul(%h{0}, %h{0})\n", kLayers + (halves ? 1 : 0));
  loss += "  %l = reduce_sum(%q) {axes=[0, 1]}\n  return %l\n}\n";
  std::string step = fmt::format("func @step({}%x: f32[{},{}]) {{\n", slots, kBatch, kWidth);
  step += fmt::format("  %loss{} = value_and_grad({}%x) {{callee=@loss, wrt=[{}]}}\n", grads, args, wrt);
  std::string before = update == Update::kClipped ? clipped() : update == Update::kSquares ? with_squares() : "";
  step += fmt::format("{}{}  return {}%loss\n}}\n", before, news, results);
  std::string text = fmt::format("nabla 1 traced\nmesh pod = {{{}}}\n{}{}{}{}", mesh, state, entry, loss, step);
  Result<ir::Module> m = ir::parse_module(text, "chain.nbl", ops::all_ops());
  NABLA_CHECK(m.ok(), "{}", to_string(m.errors()));
  return *m;
}

ir::Module stacked(const std::string& mesh, Layers layers) {
  std::string slice = fmt::format("f32[{0},{0}]", kWidth), batch = fmt::format("f32[{},{}]", kBatch, kWidth), run;
  std::string all = fmt::format("f32[{0},{1},{1}]", kLayers, kWidth);
  int trips = kLayers;
  if (layers == Layers::kGroups) {
    trips = 2, slice = fmt::format("f32[{0},{1},{1}]", kLayers / 2, kWidth), all = fmt::format("f32[2,{0},{1},{1}]", kLayers / 2, kWidth);
    run = fmt::format("scan(%h, %w) {{body=@layer, consts=0, carries=1, length=[{}]}}", kLayers / 2);
  } else if (layers == Layers::kRemat) {
    run = "remat(%h, %w) {callee=@layer}";
  }
  std::string text = fmt::format("nabla 1 traced\nmesh pod = {{{1}}}\nstate w: {0}\nstate m.w: {0}\n", all, mesh);
  text += "entry step calls @step {\n  reads w, m.w\n  writes w, m.w\n  inputs x\n  outputs loss\n}\n";
  text += fmt::format("func @layer(%h: {0}, %w: f32[{1},{1}]) {{\n", batch, kWidth);
  if (layers == Layers::kHalves) {
    text += "  %a = convert(%h) {dtype=bf16}\n  %b = convert(%w) {dtype=bf16}\n";
    text += "  %c = dot_general(%a, %b) {lhs_contract=[1], rhs_contract=[0]}\n  %p = convert(%c) {dtype=f32}\n";
  } else {
    text += "  %p = dot_general(%h, %w) {lhs_contract=[1], rhs_contract=[0]}\n";
  }
  text += "  %n = tanh(%p)\n  return %n\n}\n";
  if (!run.empty()) text += fmt::format("func @outer(%h: {}, %w: {}) {{\n  %n = {}\n  return %n\n}}\n", batch, slice, run);
  text += fmt::format("func @loss(%w: {}, %x: {}) {{\n", all, batch);
  text += fmt::format("  %h = scan(%x, %w) {{body=@{}, consts=0, carries=1, length=[{}]}}\n", run.empty() ? "layer" : "outer", trips);
  text += "  %q = mul(%h, %h)\n  %l = reduce_sum(%q) {axes=[0, 1]}\n  return %l\n}\n";
  text += fmt::format("func @step(%w: {0}, %m: {0}, %x: {1}) {{\n", all, batch);
  text += "  %l, %g = value_and_grad(%w, %x) {callee=@loss, wrt=[0]}\n  %n = add(%m, %g)\n  %v = sub(%w, %n)\n";
  text += "  return %v, %n, %l\n}\n";
  Result<ir::Module> m = ir::parse_module(text, "stacked.nbl", ops::all_ops());
  NABLA_CHECK(m.ok(), "{}", to_string(m.errors()));
  return *m;
}

}  // namespace nabla::strategy_tests
