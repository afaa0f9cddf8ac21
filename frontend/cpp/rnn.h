// Recurrent layers over sequences [batch, time, features]. Gates and biases are those of PyTorch, so that its weights
// fit after a transposition.
#pragma once

#include "frontend/cpp/array.h"
#include "frontend/cpp/nn.h"

namespace nabla::nn {

/// Parameters of a recurrent layer with g gates: 1 (simple_rnn), 3 (gru) or 4 (lstm).
template <class T>
struct Recurrent {
  T w;  ///< [in, g * hidden], of the input
  T u;  ///< [hidden, g * hidden], of the state
  T b;  ///< [g * hidden], beside w
  T c;  ///< [g * hidden], beside u
  template <class V>
  void visit(V&& v) {
    v("w", w);
    v("u", u);
    v("b", b);
    v("c", c);
  }
};
Recurrent<Spec> recurrent_spec(int64_t gates, int64_t in, int64_t hidden);
/// Uniform in +-1 / sqrt(hidden).
void init_recurrent(const Recurrent<State>& layer, const Arg& key);

struct RecurrentOptions {
  /// i32 [batch]: what lies after an example's length leaves its state alone and gives zeros. Without a value all
  /// examples are whole.
  Tensor lengths = {};
  bool reverse = false;  ///< from the last element (within the length) to the first
  /// First states [batch, hidden]; without a value zeros. `cell` is lstm's.
  Tensor hidden = {}, cell = {};
};
struct RecurrentResult {
  Tensor outputs;  ///< [batch, time, hidden]
  Tensor hidden;   ///< the last state, [batch, hidden]
  Tensor cell;     ///< lstm's; without a value otherwise
};

/// h' = tanh(x w + b + h u + c).
RecurrentResult simple_rnn(const Arg& x, const Recurrent<Tensor>& layer, const RecurrentOptions& options = {});
/// Gates r, z, n (Cho et al., 2014): n = tanh(x w + b + r (h u + c)), h' = (1 - z) n + z h.
RecurrentResult gru(const Arg& x, const Recurrent<Tensor>& layer, const RecurrentOptions& options = {});
/// Gates i, f, g, o (Hochreiter and Schmidhuber, 1997): cell' = f cell + i tanh(g), h' = o tanh(cell').
RecurrentResult lstm(const Arg& x, const Recurrent<Tensor>& layer, const RecurrentOptions& options = {});

/// The outputs of `layer` (simple_rnn, gru or lstm) in both directions, side by side: [batch, time, 2 * hidden].
Tensor bidirectional(RecurrentResult (*layer)(const Arg&, const Recurrent<Tensor>&, const RecurrentOptions&),
                     const Arg& x, const Recurrent<Tensor>& forward, const Recurrent<Tensor>& backward,
                     const Tensor& lengths = {});

}  // namespace nabla::nn
