#include "frontend/cpp/rnn.h"

#include <cmath>

#include "frontend/cpp/control_flow.h"
#include "frontend/cpp/emit.h"
#include "frontend/cpp/frame.h"

namespace nabla::nn {
namespace {

using States = std::vector<Tensor>;  // hidden, then lstm's cell
/// The next states from x w + b of one time, h u + c and the states.
using Cell = States (*)(const Tensor& input, const Tensor& recurrent, const States& states);

States simple_cell(const Tensor& input, const Tensor& recurrent, const States&) { return {tanh(input + recurrent)}; }

States gru_cell(const Tensor& input, const Tensor& recurrent, const States& states) {
  std::vector<Tensor> x = split(input, 3, 1), h = split(recurrent, 3, 1);
  Tensor r = logistic(x[0] + h[0]), z = logistic(x[1] + h[1]), n = tanh(x[2] + r * h[2]);
  return {n + z * (states[0] - n)};
}

States lstm_cell(const Tensor& input, const Tensor& recurrent, const States& states) {
  std::vector<Tensor> gates = split(input + recurrent, 4, 1);
  Tensor cell = logistic(gates[1]) * states[1] + logistic(gates[0]) * tanh(gates[2]);
  return {logistic(gates[3]) * tanh(cell), cell};
}

void check(const Arg& x, const Recurrent<Tensor>& layer, int64_t gates, const char* function) {
  const Site& site = x.site();
  if (!x.is_tensor()) throw error_at(site, Code::kMisuse, "{}: the operand is a number", function);
  const Tensor& t = x.tensor();
  bool fits = t.rank() == 3 && layer.w.rank() == 2 && layer.u.rank() == 2 && layer.w.size(0) == t.size(2) &&
              layer.u.size(1) == gates * layer.u.size(0) && layer.w.size(1) == layer.u.size(1);
  if (fits) return;
  throw error_at(site, Code::kShapeMismatch,
                 "{}: x {} with w {} and u {}, expected [batch, time, in], [in, {} hidden] and [hidden, {} hidden]",
                 function, t.type().str(), layer.w.type().str(), layer.u.type().str(), gates, gates);
}

RecurrentResult run(const Arg& x, const Recurrent<Tensor>& layer, const RecurrentOptions& o, int64_t gates, Cell cell,
                    int states, const char* function) {
  AtSite at(x);
  check(x, layer, gates, function);
  const Tensor& t = x.tensor();
  Shape state_shape = {t.shape()[0], layer.u.shape()[0]};
  Tensor none = zeros(state_shape, t.dtype());
  States init = {o.hidden.has_value() ? o.hidden : none};
  if (states == 2) init.push_back(o.cell.has_value() ? o.cell : none);
  // The input's share of all times is one matrix product.
  Tensor inputs = transpose(matmul(x, layer.w) + layer.b, {1, 0, 2});
  Tensor times = iota(Shape{t.shape()[1]}, 0, i32);
  auto step = [&](const States& old, const std::pair<Tensor, Tensor>& now) {
    States next = cell(now.first, matmul(old[0], layer.u) + layer.c, old);
    Tensor output = next[0];
    if (o.lengths.has_value()) {
      Tensor inside = broadcast_to(unsqueeze(gt(o.lengths, now.second), 1), state_shape);
      for (size_t i = 0; i < next.size(); ++i) next[i] = select(inside, next[i], old[i]);
      output = select(inside, output, zeros_like(output));
    }
    return std::pair(next, output);
  };
  auto [last, outputs] = scan(step, init, std::pair(inputs, times), {.reverse = o.reverse}, x.site());
  return {transpose(outputs, {1, 0, 2}), last[0], states == 2 ? last[1] : Tensor()};
}

}  // namespace

Recurrent<Spec> recurrent_spec(int64_t gates, int64_t in, int64_t hidden) {
  int64_t wide = gates * hidden;
  return {{f32, {in, wide}}, {f32, {hidden, wide}}, {f32, {wide}}, {f32, {wide}}};
}

void init_recurrent(const Recurrent<State>& layer, const Arg& key) {
  AtSite at(key);
  double bound = 1 / std::sqrt(static_cast<double>(layer.u.type().shape[0].value()));
  uint32_t n = 0;
  for (const State* leaf : {&layer.w, &layer.u, &layer.b, &layer.c})
    leaf->set(rng_uniform(fold_in(key, n++), leaf->type().shape, leaf->type().dtype, -bound, bound));
}

RecurrentResult simple_rnn(const Arg& x, const Recurrent<Tensor>& layer, const RecurrentOptions& options) {
  return run(x, layer, options, 1, simple_cell, 1, "simple_rnn");
}
RecurrentResult gru(const Arg& x, const Recurrent<Tensor>& layer, const RecurrentOptions& options) {
  return run(x, layer, options, 3, gru_cell, 1, "gru");
}
RecurrentResult lstm(const Arg& x, const Recurrent<Tensor>& layer, const RecurrentOptions& options) {
  return run(x, layer, options, 4, lstm_cell, 2, "lstm");
}

Tensor bidirectional(RecurrentResult (*layer)(const Arg&, const Recurrent<Tensor>&, const RecurrentOptions&),
                     const Arg& x, const Recurrent<Tensor>& forward, const Recurrent<Tensor>& backward,
                     const Tensor& lengths) {
  AtSite at(x);
  Tensor there = layer(x, forward, {.lengths = lengths}).outputs;
  Tensor back = layer(x, backward, {.lengths = lengths, .reverse = true}).outputs;
  return concatenate({there, back}, 2);
}

}  // namespace nabla::nn
