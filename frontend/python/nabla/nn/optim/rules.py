"""What optimisers do to one tensor: `apply(p, g, slots, step, lr) -> (new p, new slots)`; step counts from 1.

Everything is made of ops, so that a step compiles under `nb.jit`. Numbers are computed in the parameter's dtype, but
those of 16-bit parameters in float32. Their moments are float32 too: 0.001 g^2 is 0 in float16 for |g| below 0.007, and
0.999 v rounds to v in bfloat16.
"""

import functools

from ... import _nabla
from ..._mesh import laid_out_like
from .. import _math as m


def _decayed(g, p, weight_decay):
    return g if weight_decay == 0 else m.add(g, m.mul(p, weight_decay))


def _zeros(p, without=()):
    """The first value of a slot, in the dtype in which steps are computed: shaped and laid out like the parameter,
    without some of its dimensions."""
    sizes = [n for i, n in enumerate(p.shape) if i not in without]
    return laid_out_like(m.zeros(sizes, m.wide_dtype(p.dtype)), p, without)


def _rms(x):
    return m.sqrt(m.mean(m.square(x)))


def _in_float32(apply):
    """Computes the update of a 16-bit parameter in float32 and rounds its results once: an eps of 1e-8 is 0 in
    float16."""
    @functools.wraps(apply)
    def computed(self, p, g, slots, step, lr):
        wide = m.widened(p)
        if wide.dtype == p.dtype:
            return apply(self, p, g, slots, step, lr)
        new, kept = apply(self, wide, m.widened(g), tuple(m.widened(s) for s in slots), step, lr)
        return m.cast(new, p.dtype), tuple(m.cast(k, s.dtype) for k, s in zip(kept, slots))

    return computed


class Rule:
    """Base: the names of the tensors that are kept per parameter, how they begin, and the update."""

    slot_names = ()

    def begin(self, p):
        """The first slots of a parameter: zeros shaped and laid out like it."""
        return tuple(_zeros(p) for _ in self.slot_names)

    def apply(self, p, g, slots, step, lr):
        """The new parameter and slots."""
        raise NotImplementedError

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"


class SGD(Rule):
    """g += weight_decay p; b = momentum b + g; p -= lr b, or with nesterov p -= lr (g + momentum b)."""

    def __init__(self, momentum=0.0, weight_decay=0.0, nesterov=False):
        if nesterov and momentum == 0:
            raise ValueError("SGD: nesterov needs a momentum")
        self.momentum, self.weight_decay, self.nesterov = float(momentum), float(weight_decay), bool(nesterov)
        self.slot_names = ("momentum_buffers",) if momentum else ()

    def begin(self, p):
        """The first momentum buffer, in the parameter's dtype: it is as large as gradients are."""
        return tuple(laid_out_like(m.zeros(p.shape, p.dtype), p) for _ in self.slot_names)

    def apply(self, p, g, slots, step, lr):
        if not self.momentum:
            return m.op("sgd_update", p, g, lr, weight_decay=self.weight_decay), ()
        new, buffer = m.emit("sgd_momentum_update", [p, g, slots[0], lr],
                             {"weight_decay": self.weight_decay, "momentum": self.momentum, "nesterov": self.nesterov})
        return new, (buffer,)


class AdamW(Rule):
    """m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; p -= lr (m_hat / (sqrt(v_hat) + eps) + weight_decay p).

    Without `bias_correction` m_hat and v_hat are m and v. Source: Loshchilov and Hutter, 2017.
    """

    slot_names = ("m", "v")

    def __init__(self, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, bias_correction=True):
        for name, beta in (("beta1", beta1), ("beta2", beta2)):
            if not 0 <= beta < 1:
                raise ValueError(f"{name} = {beta} is not in [0, 1)")
        self.beta1, self.beta2, self.eps = float(beta1), float(beta2), float(eps)
        self.weight_decay, self.bias_correction = float(weight_decay), bool(bias_correction)

    @_in_float32
    def apply(self, p, g, slots, step, lr):
        if self.bias_correction:
            new, a, b = m.emit("adamw_update", [p, g, *slots, step, lr],
                               {"weight_decay": self.weight_decay, "beta1": self.beta1, "beta2": self.beta2,
                                "eps": self.eps})
            return new, (a, b)
        lr = m.cast(lr, p.dtype)
        a = m.add(m.mul(slots[0], self.beta1), m.mul(g, 1 - self.beta1))
        b = m.add(m.mul(slots[1], self.beta2), m.mul(m.square(g), 1 - self.beta2))
        update = _decayed(m.div(a, m.add(m.sqrt(b), self.eps)), p, self.weight_decay)
        return m.sub(p, m.mul(update, lr)), (a, b)


class Adam(AdamW):
    """As AdamW, with weight_decay p added to the gradient (Kingma and Ba, 2014)."""

    def apply(self, p, g, slots, step, lr):
        plain = AdamW(self.beta1, self.beta2, self.eps, 0.0, self.bias_correction)
        if self.weight_decay:
            g = m.cast(_decayed(m.widened(g), m.widened(p), self.weight_decay), g.dtype)
        return plain.apply(p, g, slots, step, lr)


class RMSProp(Rule):
    """v = decay v + (1 - decay) g^2; b = momentum b + g / (sqrt(v) + eps); p -= lr b (Tieleman and Hinton, 2012)."""

    def __init__(self, decay=0.99, eps=1e-8, momentum=0.0, weight_decay=0.0):
        self.decay, self.eps, self.momentum = float(decay), float(eps), float(momentum)
        self.weight_decay = float(weight_decay)
        self.slot_names = ("v", "momentum_buffers") if momentum else ("v",)

    @_in_float32
    def apply(self, p, g, slots, step, lr):
        g = _decayed(g, p, self.weight_decay)
        v = m.add(m.mul(slots[0], self.decay), m.mul(m.square(g), 1 - self.decay))
        direction = m.div(g, m.add(m.sqrt(v), self.eps))
        kept = (v,)
        if self.momentum:
            direction = m.add(m.mul(slots[1], self.momentum), direction)
            kept = (v, direction)
        return m.sub(p, m.mul(direction, m.cast(lr, p.dtype))), kept


class Adagrad(Rule):
    """s += g^2; p -= lr g / (sqrt(s) + eps) (Duchi, Hazan and Singer, 2011)."""

    slot_names = ("sum",)

    def __init__(self, eps=1e-10, weight_decay=0.0):
        self.eps, self.weight_decay = float(eps), float(weight_decay)

    @_in_float32
    def apply(self, p, g, slots, step, lr):
        g = _decayed(g, p, self.weight_decay)
        s = m.add(slots[0], m.square(g))
        return m.sub(p, m.mul(m.div(g, m.add(m.sqrt(s), self.eps)), m.cast(lr, p.dtype))), (s,)


class Lion(Rule):
    """p -= lr (sign(b1 m + (1 - b1) g) + weight_decay p); m = b2 m + (1 - b2) g (Chen et al., 2023)."""

    slot_names = ("m",)

    def __init__(self, beta1=0.9, beta2=0.99, weight_decay=0.0):
        self.beta1, self.beta2, self.weight_decay = float(beta1), float(beta2), float(weight_decay)

    @_in_float32
    def apply(self, p, g, slots, step, lr):
        direction = m.op("sign", m.add(m.mul(slots[0], self.beta1), m.mul(g, 1 - self.beta1)))
        kept = m.add(m.mul(slots[0], self.beta2), m.mul(g, 1 - self.beta2))
        return m.sub(p, m.mul(_decayed(direction, p, self.weight_decay), m.cast(lr, p.dtype))), (kept,)


class Adafactor(Rule):
    """Adam-like with the second moments of matrices kept as means of rows and of columns (Shazeer and Stern, 2018).

    clip bounds the update's root mean square; the share of the past is 1 - step^decay_exponent; with
    `scale_by_parameter` lr is multiplied by max(1e-3, root mean square of the parameter).
    """

    slot_names = ("row", "column")

    def __init__(self, eps=1e-30, clip=1.0, decay_exponent=-0.8, scale_by_parameter=True, weight_decay=0.0):
        self.eps, self.clip, self.decay_exponent = float(eps), float(clip), float(decay_exponent)
        self.scale_by_parameter, self.weight_decay = bool(scale_by_parameter), float(weight_decay)

    def begin(self, p):
        if p.ndim < 2:
            return _zeros(p), m.zeros((), m.wide_dtype(p.dtype))
        return _zeros(p, (p.ndim - 1,)), _zeros(p, (p.ndim - 2,))

    @_in_float32
    def apply(self, p, g, slots, step, lr):
        lr = m.cast(lr, p.dtype)
        fresh = m.cast(m.power(m.cast(step, "float32"), self.decay_exponent), p.dtype)
        kept = m.sub(1.0, fresh)
        squares = m.add(m.square(g), self.eps)
        row, column = slots
        if p.ndim >= 2:
            row = m.add(m.mul(kept, row), m.mul(fresh, m.mean(squares, -1)))
            column = m.add(m.mul(kept, column), m.mul(fresh, m.mean(squares, -2)))
            by_row = _nabla.unsqueeze(m.rsqrt(m.div(row, m.mean(row, -1, True))), -1)
            update = m.mul(m.mul(g, by_row), _nabla.unsqueeze(m.rsqrt(column), -2))
        else:
            row = m.add(m.mul(kept, row), m.mul(fresh, squares))
            update = m.mul(g, m.rsqrt(row))
        update = m.div(update, m.maximum(m.div(_rms(update), self.clip), 1.0))
        rate = m.mul(lr, m.maximum(_rms(p), 1e-3)) if self.scale_by_parameter else lr
        new = m.sub(p, m.mul(rate, update))
        if self.weight_decay:
            new = m.sub(new, m.mul(m.mul(p, self.weight_decay), lr))
        return new, (row, column)


__all__ = ["Adafactor", "Adagrad", "Adam", "AdamW", "Lion", "RMSProp", "Rule", "SGD"]
