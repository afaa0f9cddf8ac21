"""Recurrent layers over [batch, time, features], each one scan. Gates and biases are PyTorch's, weights [in, out].

A cell takes `(state, x)` of one time and returns the next state and its output; RNN drives any of them.
"""

from .. import _nabla
from .._core import asarray
from ..ops._common import wide_index
from . import _math as m
from . import init
from .layers import _keys
from .module import Module, Parameter


class _Cell(Module):
    _gates = 1
    _parts = 1  # tensors in a state

    def __init__(self, input_size, hidden_size, bias=True, *, dtype=None, key=None):
        self.input_size, self.hidden_size = input_size, hidden_size
        bound, wide = hidden_size ** -0.5, self._gates * hidden_size
        keys = _keys(key, 4)

        def drawn(shape, k):
            return init.uniform(shape, -bound, bound, key=k, dtype=dtype)

        self.weight_ih = Parameter(drawn((input_size, wide), keys[0]))
        self.weight_hh = Parameter(drawn((hidden_size, wide), keys[1]))
        self.bias_ih = Parameter(drawn((wide,), keys[2])) if bias else None
        self.bias_hh = Parameter(drawn((wide,), keys[3])) if bias else None

    def init_state(self, batch, dtype=None):
        """Zeros [batch, hidden_size]; for LSTM two of them."""
        zero = m.zeros((batch, self.hidden_size), dtype or self.weight_hh.dtype)
        return zero if self._parts == 1 else (zero,) * self._parts

    def project(self, x):
        """The input's share of the gates, for all times at once: x [..., input_size] -> [..., gates * hidden_size]."""
        out = m.matmul(x, self.weight_ih)
        return out if self.bias_ih is None else m.add(out, self.bias_ih)

    def _recurrent(self, hidden):
        out = m.matmul(hidden, self.weight_hh)
        return out if self.bias_hh is None else m.add(out, self.bias_hh)

    def advance(self, state, share):
        """The next state from one and what `project` gave for a time."""
        raise NotImplementedError

    def forward(self, state, x):
        """`(state, output)` after x [batch, input_size]."""
        state = self.advance(state, self.project(x))
        return state, state[0] if self._parts > 1 else state

    def extra_repr(self):
        return f"{self.input_size}, {self.hidden_size}"


class RNNCell(_Cell):
    """h' = tanh(x w + b + h u + c); nonlinearity "tanh" or "relu"."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", *, dtype=None, key=None):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNNCell: nonlinearity {nonlinearity!r} is neither \"tanh\" nor \"relu\"")
        super().__init__(input_size, hidden_size, bias, dtype=dtype, key=key)
        self.nonlinearity = nonlinearity

    def advance(self, state, share):
        return m.op(self.nonlinearity, m.add(share, self._recurrent(state)))


class GRUCell(_Cell):
    """Gates r, z, n: n = tanh(x_n + r h_n), h' = (1 - z) n + z h (Cho et al., 2014)."""

    _gates = 3

    def advance(self, state, share):
        xr, xz, xn = _nabla.split(share, 3, -1)
        hr, hz, hn = _nabla.split(self._recurrent(state), 3, -1)
        r, z = m.sigmoid(m.add(xr, hr)), m.sigmoid(m.add(xz, hz))
        n = m.tanh(m.add(xn, m.mul(r, hn)))
        return m.add(n, m.mul(z, m.sub(state, n)))


class LSTMCell(_Cell):
    """Gates i, f, g, o: c' = f c + i tanh(g), h' = o tanh(c'). The state is (h, c) (Hochreiter, Schmidhuber, 1997)."""

    _gates = 4
    _parts = 2

    def advance(self, state, share):
        hidden, cell = state
        i, f, g, o = _nabla.split(m.add(share, self._recurrent(hidden)), 4, -1)
        cell = m.add(m.mul(m.sigmoid(f), cell), m.mul(m.sigmoid(i), m.tanh(g)))
        return m.mul(m.sigmoid(o), m.tanh(cell)), cell


def run_cell(cell, x, state=None, lengths=None, reverse=False):
    """`(outputs [batch, time, hidden], last state)` of a cell over x [batch, time, input], as one scan.

    lengths: integers [batch]; what lies after an example's length leaves its state alone and gives zeros. reverse:
    from the last element (within the length) to the first.
    """
    from ..transforms import scan

    x = asarray(x)
    if x.ndim != 3 or x.shape[2] != cell.input_size:
        raise ValueError(f"{type(cell).__name__}({cell.extra_repr()}) over x {x.type_str()}: expected [batch, time, "
                         f"{cell.input_size}]")
    state = cell.init_state(x.shape[0], x.dtype) if state is None else state
    shares = m.swapped(cell.project(x), 0, 1)

    ends = None if lengths is None else wide_index(lengths)

    def step(old, now):
        share, time = now
        new = cell.advance(old, share)
        out = new[0] if cell._parts > 1 else new
        if lengths is None:
            return new, out
        inside = m.reshape(m.op("gt", ends, m.cast(time, ends.dtype)), [x.shape[0], 1])
        inside = _nabla.broadcast_to(inside, list(out.shape))
        pick = (lambda a, b: m.where(inside, a, b))
        new = tuple(pick(a, b) for a, b in zip(new, old)) if cell._parts > 1 else pick(new, old)
        return new, pick(out, m.zeros_like(out))

    last, outputs = scan(step, state, (shares, m.iota(x.shape[1])), reverse=reverse)
    return m.swapped(outputs, 0, 1), last


class _Recurrent(Module):
    _cell = RNNCell

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, dropout=0.0, bidirectional=False, *,
                 dtype=None, key=None, **options):
        from .layers import Dropout
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bidirectional = bidirectional
        ways = 2 if bidirectional else 1
        keys = _keys(key, num_layers * ways)
        self.cells, width = [], input_size
        for layer in range(num_layers):
            self.cells.append([self._cell(width, hidden_size, bias, dtype=dtype, key=keys[layer * ways + w], **options)
                               for w in range(ways)])
            width = ways * hidden_size
        self.dropout = Dropout(dropout)

    def forward(self, x, state=None, lengths=None):
        """`(outputs, states)`: outputs [batch, time, hidden] (both directions side by side), and the last states, a
        list per layer of a list per direction, which `state` takes."""
        states = []
        for i, cells in enumerate(self.cells):
            outs, lasts = [], []
            for way, cell in enumerate(cells):
                first = None if state is None else state[i][way]
                out, last = run_cell(cell, x, first, lengths, reverse=way == 1)
                outs.append(out)
                lasts.append(last)
            x = outs[0] if len(outs) == 1 else m.concatenate(outs, 2)
            if i + 1 < self.num_layers:
                x = self.dropout(x)
            states.append(lasts)
        return x, states

    def extra_repr(self):
        return f"{self.input_size}, {self.hidden_size}, layers={self.num_layers}, bidirectional={self.bidirectional}"


class RNN(_Recurrent):
    """Layers of RNNCell; `nonlinearity="relu"` for relu in place of tanh."""


class GRU(_Recurrent):
    """Layers of GRUCell."""

    _cell = GRUCell


class LSTM(_Recurrent):
    """Layers of LSTMCell; a state is (hidden, cell)."""

    _cell = LSTMCell


__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNCell", "run_cell"]
