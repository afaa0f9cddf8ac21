"""Layers: linear maps, tables, normalisation, dropout, activations.

Every layer with weights takes `key=` (an int or a uint32[2] tensor) for its initial values; without one it takes the
process's next key (`nn.rngs`, `nabla.seed`), so that two layers never start alike. `dtype` is the default floating one.
"""

import inspect
import math

from .. import _nabla
from .._core import asarray
from . import _math as m
from . import functional as F
from . import init
from .module import Module, Parameter
from .rng import fold_in, key_of, next_key


def _keys(key, count):
    key = next_key() if key is None else key_of(key)
    return [fold_in(key, i) for i in range(count)]


class Identity(Module):
    """x itself."""

    def forward(self, x):
        return x


class Linear(Module):
    """x [..., in_features] times weight [in_features, out_features] plus bias [1, out_features].

    weight: normal with standard deviation sqrt(2 / in_features) (He et al., 2015), or what `init(shape, key=, dtype=)`
    gives; bias: zeros.
    """

    def __init__(self, in_features, out_features, bias=True, *, dtype=None, key=None, init=None):
        key = next_key() if key is None else key_of(key)
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter((init or F.he_normal)((in_features, out_features), key=key, dtype=dtype))
        self.bias = Parameter(m.zeros((1, out_features), dtype)) if bias else None

    def forward(self, x):
        return F.linear(x, self.weight, self.bias)

    def extra_repr(self):
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """x [..., in1] and y [..., in2] with weight [in1, in2, out] plus bias [out]."""

    def __init__(self, in1_features, in2_features, out_features, bias=True, *, dtype=None, key=None):
        bound = in1_features ** -0.5
        self.weight = Parameter(
            init.uniform((in1_features, in2_features, out_features), -bound, bound, key=key, dtype=dtype))
        self.bias = Parameter(m.zeros((out_features,), dtype)) if bias else None

    def forward(self, x, y):
        return F.bilinear(x, y, self.weight, self.bias)


class Embedding(Module):
    """Rows of weight [num_embeddings, embedding_dim] by integers; the weight starts as xavier_normal."""

    def __init__(self, num_embeddings, embedding_dim, *, dtype=None, key=None, init=None):
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.weight = Parameter((init or F.xavier_normal)((num_embeddings, embedding_dim), key=key, dtype=dtype))

    def forward(self, indices):
        return F.embedding(indices, self.weight)

    def attend(self, x):
        """x [..., embedding_dim] times the transposed table: the logits of a tied head."""
        return m.matmul(x, m.swapped(self.weight, 0, 1))

    def extra_repr(self):
        return f"{self.num_embeddings}, {self.embedding_dim}"


class LayerNorm(Module):
    """Normalises the last dimensions, `normalized_shape`, to mean 0 and variance 1; scale and shift when
    `elementwise_affine`."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, *, bias=True, dtype=None):
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = float(eps)
        self.weight = Parameter(m.ones(self.normalized_shape, dtype)) if elementwise_affine else None
        self.bias = Parameter(m.zeros(self.normalized_shape, dtype)) if elementwise_affine and bias else None

    def forward(self, x):
        x = asarray(x)
        n = len(self.normalized_shape)
        if tuple(x.shape[-n:]) != self.normalized_shape:
            raise ValueError(f"LayerNorm of {self.normalized_shape} gets {x.type_str()}")
        return F.layer_norm(x, self.weight, self.bias, self.eps, tuple(range(-n, 0)))

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"


class RMSNorm(Module):
    """Divides by the root mean square of the last dimension, times weight."""

    def __init__(self, features, eps=1e-6, *, dtype=None):
        self.features, self.eps = features, float(eps)
        self.weight = Parameter(m.ones((features,), dtype))

    def forward(self, x):
        return F.rms_norm(x, self.weight, self.eps)

    def extra_repr(self):
        return f"{self.features}, eps={self.eps}"


class GroupNorm(Module):
    """Normalises groups of the channels of [n, ..., channels], per example."""

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, *, dtype=None):
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(f"GroupNorm: {num_groups} groups do not divide {num_channels} channels")
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, float(eps)
        self.weight = Parameter(m.ones((num_channels,), dtype)) if affine else None
        self.bias = Parameter(m.zeros((num_channels,), dtype)) if affine else None

    def forward(self, x):
        return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"


class InstanceNorm(GroupNorm):
    """Normalises every channel of every example of [n, ..., channels]."""

    def __init__(self, num_channels, eps=1e-5, affine=False, *, dtype=None):
        super().__init__(num_channels, num_channels, eps, affine, dtype=dtype)


class BatchNorm(Module):
    """Normalises the channels of [n, ..., channels] over all other dimensions (Ioffe and Szegedy, 2015).

    Training: by the batch's statistics; buffers running_mean and running_var move towards them by `momentum`, the
    variance unbiased, as in PyTorch. Otherwise: by the buffers. The update sets the attributes of this module: in a
    function that `nn.value_and_grad` or `nb.jit` traces these are the attributes of the module that the function got,
    and it must return that module (or its buffers) to keep them; `nn.value_and_grad` does so itself.

    parts, buffers: whose statistics these are. The statistics of "replicated" buffers are those of the whole batch,
    which ranks that share it exchange. With the other policies each of `parts` equal parts of the batch, which is one
    per data-parallel rank, is normalised by its own (Hoffer et al., 2017), and ranks exchange nothing on the way
    forward. "dp_mean": the buffers [channels] move towards the mean of the parts'. "rank_local": the buffers are
    [parts, channels], each part has its own, in evaluation too; `joined` makes one of them. `parts` has to be said for
    these two: the whole batch is parts=1. Raises ValueError for parts that do not divide a batch.
    """

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, *, parts=None, buffers="replicated",
                 dtype=None):
        if buffers not in ("replicated", "dp_mean", "rank_local"):
            raise ValueError(f'BatchNorm: buffers are "replicated", "dp_mean" or "rank_local", got {buffers!r}')
        if parts is None and buffers != "replicated":
            raise ValueError(f'BatchNorm: buffers="{buffers}" is about statistics of equal parts of the batch, and '
                             "nothing says into how many: give parts, such as parts=4 for four data-parallel ranks "
                             "(parts=1 is the whole batch)")
        parts = 1 if parts is None else parts
        if not isinstance(parts, int) or isinstance(parts, bool) or parts < 1:
            raise ValueError(f"BatchNorm: parts is a number from 1 on, got {parts!r}")
        if parts > 1 and buffers == "replicated":
            raise ValueError(f'BatchNorm: statistics of {parts} parts of the batch, and buffers that are "replicated": '
                             '"dp_mean" keeps the mean of the parts, "rank_local" a value for each')
        self.num_features, self.eps, self.momentum = num_features, float(eps), float(momentum)
        self.parts, self.policy = parts, buffers
        self.weight = Parameter(m.ones((num_features,), dtype)) if affine else None
        self.bias = Parameter(m.zeros((num_features,), dtype)) if affine else None
        shape = (parts, num_features) if buffers == "rank_local" else (num_features,)
        self.register_buffer("running_mean", m.zeros(shape, dtype))
        self.register_buffer("running_var", m.ones(shape, dtype))

    def forward(self, x):
        x = asarray(x)
        if x.ndim < 2 or x.shape[-1] != self.num_features:
            raise ValueError(f"BatchNorm of {self.num_features} channels gets {x.type_str()}")
        apart, n = self.policy != "replicated", x.shape[0]
        if (self.training and apart or self.policy == "rank_local") and isinstance(n, int) and n % self.parts:
            raise ValueError(f"BatchNorm: {self.parts} parts do not divide the batch of {x.type_str()}"
                             + ("" if self.training else "; joined() has the statistics of all parts"))
        if not self.training:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, self.eps)
        out, mean, variance = F.batch_norm_train(x, self.weight, self.bias, self.eps, self.parts if apart else 0)
        keep = 1 - self.momentum
        mean, variance = _stopped(mean), m.mul(_stopped(variance), _bessel(x, self.parts))
        if self.policy == "dp_mean":
            mean, variance = m.mean(mean, 0), m.mean(variance, 0)
        self.running_mean = _blended(self.running_mean, keep, m.mul(mean, self.momentum))
        self.running_var = _blended(self.running_var, keep, m.mul(variance, self.momentum))
        return out

    def joined(self):
        """A BatchNorm with "replicated" buffers, whose statistics are those of all parts together: the mean of their
        means, and of their variances and squared distances from it. Itself where its buffers have no parts.

        Weights are shared.
        """
        if self.policy != "rank_local":
            return self
        out = BatchNorm(self.num_features, self.eps, self.momentum, self.weight is not None)
        out.weight, out.bias = self.weight, self.bias
        mean = m.mean(self.running_mean, 0)
        apart = m.sub(self.running_mean, mean)
        out.running_mean, out.running_var = mean, m.mean(m.add(self.running_var, m.square(apart)), 0)
        return out.train(self.training)

    def extra_repr(self):
        parts = "" if self.policy == "replicated" else f', parts={self.parts}, buffers="{self.policy}"'
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}{parts}"


def _bessel(x, parts):
    """n / (n - 1) for n elements per channel in a part of x; 1 for one. The sizes may be symbolic."""
    sizes = list(x.shape[:-1])
    if all(isinstance(s, int) for s in sizes):
        count = math.prod(sizes) // parts
        return count / (count - 1) if count > 1 else 1.0
    count = m.div(m.cast(m.emit("element_count", [], {"shape": sizes})[0], m.widened(x).dtype), parts)
    return m.div(count, m.maximum(m.sub(count, 1.0), 1.0))


def _blended(old, keep, new):
    """keep old + new, in the dtype of old."""
    return m.cast(m.add(m.mul(m.widened(old), keep), new), old.dtype)


def _stopped(x):
    return _nabla.emit("stop_gradient", [x], {})[0]


BatchNorm1d = BatchNorm2d = BatchNorm3d = BatchNorm


class Dropout(Module):
    """In training elements become 0 with probability p and the others are divided by 1 - p.

    Draws from `key` of the call, or from the scope of `nn.rngs`, or from the process's keys.
    """

    def __init__(self, p=0.5):
        if not 0 <= p <= 1:
            raise ValueError(f"Dropout: p = {p} is not in [0, 1]")
        self.p = float(p)

    def forward(self, x, key=None):
        return F.dropout(x, self.p, self.training, key)

    def extra_repr(self):
        return f"p={self.p}"


def _activation(name, function, doc, **defaults):
    def __init__(self, *args, **kwargs):
        values = dict(defaults)
        values.update(zip(defaults, args))
        values.update(kwargs)
        if len(args) > len(defaults) or set(kwargs) - set(defaults):
            raise TypeError(f"{name} takes {', '.join(defaults) or 'no arguments'}")
        for k, v in values.items():
            setattr(self, k, v)

    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    __init__.__signature__ = inspect.Signature([inspect.Parameter("self", either)] + [
        inspect.Parameter(k, either, default=v) for k, v in defaults.items()])

    def forward(self, x):
        return function(x, **{k: getattr(self, k) for k in defaults})

    def extra_repr(self):
        return ", ".join(f"{k}={getattr(self, k)!r}" for k in defaults)

    return type(Module)(name, (Module,), {"__init__": __init__, "forward": forward, "extra_repr": extra_repr,
                                          "__doc__": doc, "__module__": __name__, "__qualname__": name})


ReLU = _activation("ReLU", F.relu, "max(x, 0).")
ReLU6 = _activation("ReLU6", F.relu6, "x kept in [0, 6].")
GELU = _activation("GELU", F.gelu, "x times the normal distribution function; approximate: \"none\" or \"tanh\".",
                   approximate="none")
SiLU = _activation("SiLU", F.silu, "x sigmoid(x).")
Sigmoid = _activation("Sigmoid", F.sigmoid, "1 / (1 + exp(-x)).")
Tanh = _activation("Tanh", F.tanh, "The hyperbolic tangent.")
Softmax = _activation("Softmax", F.softmax, "softmax along an axis.", axis=-1)
LogSoftmax = _activation("LogSoftmax", F.log_softmax, "log_softmax along an axis.", axis=-1)
Softplus = _activation("Softplus", F.softplus, "log(1 + exp(x)).")
LeakyReLU = _activation("LeakyReLU", F.leaky_relu, "x, or negative_slope x below 0.", negative_slope=0.01)
ELU = _activation("ELU", F.elu, "x, or alpha (exp(x) - 1) below 0.", alpha=1.0)
SELU = _activation("SELU", F.selu, "The self-normalising multiple of elu.")
CELU = _activation("CELU", F.celu, "x, or alpha (exp(x / alpha) - 1) below 0.", alpha=1.0)
Mish = _activation("Mish", F.mish, "x tanh(softplus(x)).")
Hardswish = _activation("Hardswish", F.hard_swish, "x clip(x + 3, 0, 6) / 6.")
Hardsigmoid = _activation("Hardsigmoid", F.hard_sigmoid, "clip(x + 3, 0, 6) / 6.")
Hardtanh = _activation("Hardtanh", F.hard_tanh, "x kept in [-1, 1].")
Softsign = _activation("Softsign", F.soft_sign, "x / (1 + |x|).")
GLU = _activation("GLU", F.glu, "The first half along an axis times the sigmoid of the second.", axis=-1)


class PReLU(Module):
    """x, or weight x below 0; one weight, or one per channel (the last dimension)."""

    def __init__(self, num_parameters=1, init=0.25, *, dtype=None):
        self.weight = Parameter(m.full((num_parameters,), init, dtype))

    def forward(self, x):
        return F.prelu(x, self.weight)


class Flatten(Module):
    """Dimensions from start_dim to end_dim as one."""

    def __init__(self, start_dim=1, end_dim=-1):
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x):
        return _nabla.flatten(asarray(x), self.start_dim, self.end_dim)


class SwiGLU(Module):
    """down(silu(gate(x)) up(x)): the two dense layers of Llama's blocks, without biases (Shazeer, 2020)."""

    def __init__(self, features, hidden, *, bias=False, dtype=None, key=None, init=None):
        keys = _keys(key, 3)
        self.gate = Linear(features, hidden, bias, dtype=dtype, key=keys[0], init=init)
        self.up = Linear(features, hidden, bias, dtype=dtype, key=keys[1], init=init)
        self.down = Linear(hidden, features, bias, dtype=dtype, key=keys[2], init=init)

    def forward(self, x):
        return self.down(F.swiglu(self.gate(x), self.up(x)))


class MLP(Module):
    """Linear layers of the given widths with an activation between them."""

    def __init__(self, widths, activation=F.relu, bias=True, *, dtype=None, key=None, init=None):
        keys = _keys(key, len(widths) - 1)
        self.layers = [Linear(a, b, bias, dtype=dtype, key=k, init=init) for a, b, k in zip(widths, widths[1:], keys)]
        self.activation = activation

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)


__all__ = [
    "BatchNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Bilinear", "CELU", "Dropout", "ELU", "Embedding",
    "Flatten", "GELU", "GLU", "GroupNorm", "Hardsigmoid", "Hardswish", "Hardtanh", "Identity", "InstanceNorm",
    "LayerNorm", "LeakyReLU", "Linear", "LogSoftmax", "MLP", "Mish", "PReLU", "RMSNorm", "ReLU", "ReLU6", "SELU",
    "SiLU", "Sigmoid", "Softmax", "Softplus", "Softsign", "SwiGLU", "Tanh",
]
