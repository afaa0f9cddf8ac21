"""Layers as functions: activations, normalisation, dropout, embedding, attention; losses and initial values too.

Weights of linear maps are [in, out]: `x @ w`. Images are channels-last, [n, height, width, c].
"""

from .. import _nabla
from .._core import DType, asarray
from .._hints import module_getattr as _module_getattr
from ..ops import creation as _creation, unary as _unary
from . import _math as m
from .init import (glorot_normal, glorot_uniform, he_normal, he_uniform, kaiming_normal, kaiming_uniform, lecun_normal,
                   orthogonal, truncated_normal, xavier_normal, xavier_uniform)
from .conv import (adaptive_avg_pool, avg_pool, avg_pool1d, avg_pool2d, avg_pool3d, conv1d, conv2d, conv3d, conv_nd,
                   conv_transpose_nd, global_avg_pool, max_pool, max_pool1d, max_pool2d, max_pool3d)
from .losses import *  # noqa: F401,F403
from .losses import __all__ as _losses
from .rng import key_of, next_key

__getattr__ = _module_getattr(__name__)

# ---- Activations: floating tensors of any shape; integers become the default floating dtype


def _floating(x):
    return asarray(m.inexact(x)[0])


def relu(x):
    """max(x, 0)."""
    return m.op("relu", asarray(x))


def gelu(x, approximate="none"):
    """x times the normal distribution function at x: by erf ("none"), or the tanh form ("tanh")."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate {approximate!r} is neither \"none\" nor \"tanh\"")
    return m.unary("gelu", x, approximate=approximate)


def silu(x):
    """x sigmoid(x)."""
    return m.unary("silu", x)


swish = silu


def sigmoid(x):
    """1 / (1 + exp(-x))."""
    return m.sigmoid(x)


def tanh(x):
    """The hyperbolic tangent."""
    return m.tanh(x)


def softmax(x, axis=-1):
    """exp(x) divided by its sum along an axis, without overflow."""
    x = _floating(x)
    return m.op("softmax", x, axis=m.axes_of(axis, x.ndim)[0])


def log_softmax(x, axis=-1):
    """The logarithm of softmax."""
    x = _floating(x)
    return m.op("log_softmax", x, axis=m.axes_of(axis, x.ndim)[0])


logsoftmax = log_softmax


def softplus(x):
    """log(1 + exp(x))."""
    return _nabla.softplus(_floating(x))


def log_sigmoid(x):
    """log(sigmoid(x))."""
    return _nabla.log_sigmoid(_floating(x))


def leaky_relu(x, negative_slope=0.01):
    """x, or negative_slope x below 0."""
    return _nabla.leaky_relu(_floating(x), float(negative_slope))


def prelu(x, weight):
    """x, or weight x below 0; the weight is a tensor that broadcasts."""
    x, weight = m.inexact(asarray(x), asarray(weight))
    positive = m.op("gt", x, m.zeros_like(x))
    # If x is positive, the product is unused but must be finite. Otherwise its derivative would be NaN.
    return m.where(positive, x, m.mul(m.where(positive, 0.0, weight), m.where(positive, 0.0, x)))


def elu(x, alpha=1.0):
    """x, or alpha (exp(x) - 1) below 0."""
    return _nabla.elu(_floating(x), float(alpha))


def selu(x):
    """The self-normalising multiple of elu (Klambauer et al., 2017)."""
    return _nabla.selu(_floating(x))


def celu(x, alpha=1.0):
    """x, or alpha (exp(x / alpha) - 1) below 0."""
    x = _floating(x)
    return m.mul(_nabla.elu(m.div(x, float(alpha)), 1.0), float(alpha))


def mish(x):
    """x tanh(softplus(x))."""
    return _nabla.mish(_floating(x))


def hard_sigmoid(x):
    """clip(x + 3, 0, 6) / 6."""
    return _unary.hard_sigmoid(x)


def hard_swish(x):
    """x hard_sigmoid(x)."""
    return _unary.hard_swish(x)


hard_silu = hard_swish


def hard_tanh(x):
    """x kept in [-1, 1]."""
    return _nabla.clip(_floating(x), -1.0, 1.0)


def relu6(x):
    """x kept in [0, 6]."""
    return _unary.relu6(_floating(x))


def soft_sign(x):
    """x / (1 + |x|)."""
    x = _floating(x)
    return m.div(x, m.add(m.op("abs", x), 1.0))


def glu(x, axis=-1):
    """The first half along an axis times the sigmoid of the second (Dauphin et al., 2017)."""
    x = _floating(x)
    a, b = _nabla.split(x, 2, m.axes_of(axis, x.ndim)[0])
    return m.mul(a, m.sigmoid(b))


def swiglu(gate, up):
    """silu(gate) up; two tensors of one shape (Shazeer, 2020)."""
    gate, up = m.inexact(asarray(gate), asarray(up))
    return m.op("swiglu", gate, up)


# ---- Linear maps and tables


def linear(x, weight, bias=None):
    """x [..., in] times weight [in, out], plus bias [out] or [1, out]."""
    out = m.matmul(x, weight)
    if bias is not None and out.ndim == 1:
        bias = m.reshape(bias, list(out.shape))
    return out if bias is None else m.add(out, bias)


def bilinear(x, y, weight, bias=None):
    """x [..., a] and y [..., b] with weight [a, b, out]: the sum over a and b of x y weight, plus bias [out]."""
    x, y, weight = m.inexact(asarray(x), asarray(y), asarray(weight))
    out = _nabla.einsum("...a,...b,abo->...o", [x, y, weight])
    return out if bias is None else m.add(out, bias)


def embedding(indices, weight):
    """Rows of weight [rows, width] by integers of any shape: [*indices, width].

    An index outside of the table takes the nearest row. The gradient of the table adds up those of equal indices.
    """
    return m.op("embedding", asarray(weight), asarray(indices))


def one_hot(labels, num_classes, dtype=None):
    """A new last dimension with 1 at the label. A label out of range gives zeros."""
    return _creation.one_hot(labels, num_classes, dtype)


# ---- Normalisation


def layer_norm(x, weight=None, bias=None, eps=1e-5, axis=-1):
    """(x - mean) / sqrt(variance + eps) over one or more axes, times weight plus bias (Ba, Kiros and Hinton, 2016).

    weight and bias have the shape of the normalised axes, or broadcast to x.
    """
    x = _floating(x)
    axes = m.axes_of(axis, x.ndim)
    flat = all(w is None or asarray(w).ndim == 1 for w in (weight, bias))
    if axes == [x.ndim - 1] and flat:
        width = [x.shape[-1]]
        weight = m.ones(width, x.dtype) if weight is None else m.cast(weight, x.dtype)
        bias = m.zeros(width, x.dtype) if bias is None else m.cast(bias, x.dtype)
        return m.op("layer_norm", x, weight, bias, eps=float(eps))
    wide = m.widened(x)
    centred = m.sub(wide, m.mean(wide, axes, True))
    out = m.mul(centred, m.rsqrt(m.add(m.mean(m.square(centred), axes, True), float(eps))))
    out = m.cast(out, x.dtype)
    out = out if weight is None else m.mul(out, weight)
    return out if bias is None else m.add(out, bias)


def rms_norm(x, weight=None, eps=1e-6):
    """x / sqrt(mean(x^2) + eps) over the last axis, times weight (Zhang and Sennrich, 2019)."""
    x = _floating(x)
    weight = m.ones([x.shape[-1]], x.dtype) if weight is None else m.cast(weight, x.dtype)
    return m.op("rms_norm", x, weight, eps=float(eps))


def group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    """Groups of the channels of x [n, ..., c], over positions and channels of each example (Wu and He, 2018)."""
    x = _floating(x)
    weight = m.ones([x.shape[-1]], x.dtype) if weight is None else weight
    bias = m.zeros([x.shape[-1]], x.dtype) if bias is None else bias
    wide, weight, bias = m.widened(x), m.widened(weight), m.widened(bias)
    return m.cast(_nabla.group_norm(wide, weight, bias, num_groups, float(eps)), x.dtype)


def instance_norm(x, weight=None, bias=None, eps=1e-5):
    """Every channel of every example of x [n, ..., c] by itself."""
    return group_norm(x, int(asarray(x).shape[-1]), weight, bias, eps)


def batch_norm(x, mean, variance, weight=None, bias=None, eps=1e-5):
    """x [n, ..., c] normalised by given statistics [c]; [parts, c]: each of so many equal parts of x by its own."""
    x = _floating(x)
    weight = m.ones([x.shape[-1]], x.dtype) if weight is None else weight
    bias = m.zeros([x.shape[-1]], x.dtype) if bias is None else bias
    wide, *parameters = (m.widened(v) for v in (x, weight, bias, mean, variance))
    return m.cast(_nabla.batch_norm(wide, *parameters, float(eps)), x.dtype)


def batch_norm_train(x, weight=None, bias=None, eps=1e-5, parts=0):
    """`(out, mean, variance)`: x [n, ..., c] normalised by its own statistics [c], which are float32 for 16-bit x; the
    variance divides by the count.

    parts: each of so many equal parts of the batch by its own statistics, [parts, c] (Hoffer et al., 2017). Raises
    Error (E0203) where they do not divide n.
    """
    x = _floating(x)
    weight = m.ones([x.shape[-1]], x.dtype) if weight is None else weight
    bias = m.zeros([x.shape[-1]], x.dtype) if bias is None else bias
    wide, weight, bias = m.widened(x), m.widened(weight), m.widened(bias)
    out, mean, variance = _nabla.batch_norm_train(wide, weight, bias, float(eps), parts)
    return m.cast(out, x.dtype), mean, variance


def normalize(x, axis=-1, eps=1e-12):
    """x divided by its Euclidean length along an axis, at least eps."""
    x = _floating(x)
    wide = m.widened(x)
    # The bound of the squares only keeps the slope of sqrt finite; the square of eps may be too small for the dtype.
    length = m.sqrt(m.maximum(m.total(m.square(wide), axis, True), 1.2e-38))
    return m.cast(m.div(wide, m.maximum(length, float(eps))), x.dtype)


# ---- Dropout


def dropout(x, p=0.5, training=True, key=None):
    """Elements become 0 with probability p, the others are divided by 1 - p; without `training` x itself.

    Without a key that of `nn.rngs`, or the process's next one. Raises ValueError for p outside of [0, 1].
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p = {p} is not in [0, 1]")
    x = asarray(x)
    if not training or p == 0:
        return x
    if p == 1:
        return m.zeros_like(x)
    return _nabla.dropout(x, next_key() if key is None else key_of(key), float(p))


# ---- Attention


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, training=True, *,
                                 scale=None, rng=None):
    """softmax(scale q k' + mask) v over the last two dimensions.

    q [..., queries, d], k [..., keys, d], v [..., keys, e] -> [..., queries, e].
    attn_mask: bool (true: may be seen) or floating (added), broadcast to [..., queries, keys]; one that broadcasts q, k
    or v in its turn makes attention of products, with scores in memory. is_causal: query i sees keys up to
    i + keys - queries, so that the last query sees all. `scale` is 1 / sqrt(d) when None. Dropout, on the
    weights, needs `training`. A query that sees no key gives 0. For 4 dimensions [batch, heads, ...] the heads of k and
    v may be fewer: neighbouring heads of q share one.
    Source: Vaswani et al., 2017.
    """
    q, k, v = m.inexact(asarray(query), asarray(key), asarray(value))
    if not 0 <= dropout_p < 1:
        raise ValueError(f"dropout_p = {dropout_p} is not in [0, 1)")
    rate = float(dropout_p) if training else 0.0
    mask = None if attn_mask is None else asarray(attn_mask)
    if mask is not None and mask.dtype.is_float():
        if not _adds_to_scores(mask, q, k, v):
            return _additive(q, k, v, mask, rate, is_causal, scale, rng)
        if mask.dtype not in (q.dtype, DType.float32):
            mask = m.cast(mask, DType.float32)
    lead = q.shape[:-2]
    q4, k4, v4 = (_four(x) for x in (q, k, v))
    extras = []
    if mask is not None:
        extras.append(_mask_four(mask, q, k))
    if rate > 0:
        extras.append(next_key() if rng is None else key_of(rng))
    out = m.op("attention", q4, k4, v4, *extras, causal=bool(is_causal), dropout=rate,
               scale=0.0 if scale is None else float(scale))
    return out if len(lead) == 2 else m.reshape(out, list(lead) + [q.shape[-2], v.shape[-1]])


def _four(x):
    """[batch, heads, rows, features]."""
    if x.ndim == 4:
        return x
    if x.ndim < 2:
        raise ValueError(f"attention: {x.type_str()} has no rows and features")
    if x.ndim < 4:
        return m.reshape(x, [1] * (4 - x.ndim) + list(x.shape))
    return _nabla.flatten(x, 0, x.ndim - 4)


def _adds_to_scores(mask, q, k, v):
    """Whether the mask has one number for each score, or for several, and q, k and v have one batch."""
    scores = list(q.shape[:-1]) + [k.shape[-2]]
    shape = [1] * (len(scores) - mask.ndim) + list(mask.shape)
    heads = 1 if q.ndim == 4 else 0  # of which keys may have fewer
    return (len(shape) == len(scores) and all(s == 1 or s == full for s, full in zip(shape, scores))
            and q.ndim == k.ndim and k.shape[:-1] == v.shape[:-1] and q.shape[:-2 - heads] == k.shape[:-2 - heads])


def _mask_four(mask, q, k):
    """[batch or 1, heads or 1, queries, keys] for q of any batch."""
    lead = list(q.shape[:-2])
    shape = [1] * (len(lead) + 2 - mask.ndim) + list(mask.shape)
    if len(lead) > 2:  # all but the heads became one batch
        if any(size != 1 for size in shape[:-3]):
            mask = _four(_nabla.broadcast_to(m.reshape(mask, shape), lead[:-1] + shape[-3:]))
            shape = list(mask.shape)
        shape = shape[-4:]
    shape = [1] * (4 - len(shape)) + shape
    if len(shape) != 4:
        raise ValueError(f"attention: a mask {mask.type_str()} has more dimensions than the scores")
    return _nabla.broadcast_to(m.reshape(mask, shape), shape[:2] + [q.shape[-2], k.shape[-2]])


def _additive(q, k, v, mask, rate, is_causal, scale, rng):
    heads, shared = q.shape[1] if q.ndim == 4 else 1, k.shape[1] if k.ndim == 4 else 1
    if heads != shared:
        k, v = (_nabla.repeat(x, int(heads) // int(shared), 1) for x in (k, v))
    scale = int(q.shape[-1]) ** -0.5 if scale is None else float(scale)
    scores = m.add(m.mul(m.matmul(q, m.swapped(k, -2, -1)), scale), mask)
    if is_causal:
        rows, columns = q.shape[-2], k.shape[-2]
        seen = m.lower_mask(rows, columns, m.sub(m.size(columns), m.size(rows)))
        scores = m.where(seen, scores, float("-inf"))
    top = m.op("stop_gradient", _nabla.amax(scores, [-1], True))
    weights = m.op("exp", m.sub(scores, m.where(m.op("is_finite", top), top, 0.0)))
    weights = m.div(weights, m.maximum(m.total(weights, -1, True), 1e-30))
    return m.matmul(dropout(weights, rate, True, rng) if rate else weights, v)


def rope(x, positions=None, base=10000.0, scale=1.0, interleaved=False):
    """Rotary position embedding of x [..., positions, features] (Su et al., 2021).

    positions: integers, one per row; 0, 1, ... when None. A pair of features is (i, i + features / 2), or with
    `interleaved` (2i, 2i + 1).
    """
    x = _floating(x)
    positions = m.iota(x.shape[-2]) if positions is None else asarray(positions)
    return m.op("rope", x, positions, base=float(base), scale=float(scale), interleaved=bool(interleaved))


__all__ = [
    "adaptive_avg_pool", "avg_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_norm", "batch_norm_train",
    "bilinear", "celu", "conv1d", "conv2d", "conv3d", "conv_nd", "conv_transpose_nd", "dropout", "elu", "embedding",
    "gelu", "global_avg_pool", "glorot_normal", "glorot_uniform", "glu", "group_norm", "hard_sigmoid", "hard_silu",
    "hard_swish", "hard_tanh", "he_normal", "he_uniform", "instance_norm", "kaiming_normal", "kaiming_uniform",
    "layer_norm", "leaky_relu", "lecun_normal", "linear", "log_sigmoid", "log_softmax", "logsoftmax", "max_pool",
    "max_pool1d", "max_pool2d", "max_pool3d", "mish", "normalize", "one_hot", "orthogonal", "prelu", "relu", "relu6",
    "rms_norm", "rope", "scaled_dot_product_attention", "selu", "sigmoid", "silu", "soft_sign", "softmax", "softplus",
    "swiglu", "swish", "tanh", "truncated_normal", "xavier_normal", "xavier_uniform", *_losses,
]
