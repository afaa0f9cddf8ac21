"""Losses. `reduction` is "mean" (over everything that the loss is taken of), "sum" or "none".

Losses of 16-bit floats are computed in float32. Their results are rounded once, to the dtype of the operands.
"""

from .. import _nabla
from .._core import DType, asarray, fits, result_type
from ..ops._common import wide_index
from ..ops.creation import one_hot
from . import _math as m


def _reduced(x, reduction, dtype):
    if reduction == "mean":
        x = m.mean(x)
    elif reduction == "sum":
        x = m.total(x)
    elif reduction != "none":
        raise ValueError(f"reduction {reduction!r} is none of \"mean\", \"sum\", \"none\"")
    return m.cast(x, dtype)


def _pair(name, a, b):
    """`(a, b, dtype)`: both operands in the dtype that the loss is computed in, and the dtype of its result."""
    a, b = m.inexact(asarray(a), asarray(b))
    if tuple(a.shape) != tuple(b.shape):
        raise ValueError(f"{name}: predictions {a.type_str()} and targets {b.type_str()} differ in shape")
    return m.widened(a), m.widened(b), a.dtype


def mse_loss(predictions, targets, reduction="mean"):
    """Squared differences of two tensors of one shape."""
    x, y, dtype = _pair("mse_loss", predictions, targets)
    return _reduced(_nabla.mse(x, y), reduction, dtype)


def l1_loss(predictions, targets, reduction="mean"):
    """Absolute differences of two tensors of one shape."""
    x, y, dtype = _pair("l1_loss", predictions, targets)
    return _reduced(_nabla.l1(x, y), reduction, dtype)


def huber_loss(predictions, targets, delta=1.0, reduction="mean"):
    """Half the square of differences up to delta, linear beyond (Huber, 1964)."""
    x, y, dtype = _pair("huber_loss", predictions, targets)
    return _reduced(_nabla.huber(x, y, float(delta)), reduction, dtype)


def binary_cross_entropy(probabilities, targets, reduction="mean"):
    """Of probabilities against targets in [0, 1], shaped alike; logarithms stop at -100."""
    x, y, dtype = _pair("binary_cross_entropy", probabilities, targets)
    return _reduced(_nabla.bce(x, y), reduction, dtype)


def binary_cross_entropy_with_logits(logits, targets, pos_weight=None, reduction="mean"):
    """Of logits against targets in [0, 1], shaped alike, without overflow. `pos_weight` multiplies the term of 1s."""
    x, y, dtype = _pair("binary_cross_entropy_with_logits", logits, targets)
    if pos_weight is None:
        return _reduced(_nabla.bce_with_logits(x, y), reduction, dtype)
    dtype = result_type(pos_weight, m.zeros((), dtype))
    yes = m.mul(m.mul(pos_weight, y), _nabla.softplus(m.neg(x)))
    no = m.mul(m.sub(1.0, y), _nabla.softplus(x))
    return _reduced(m.add(yes, no), reduction, dtype)


def _rows(x, axis):
    """The class axis last."""
    axis = m.axes_of(axis, x.ndim)[0]
    return x if axis == x.ndim - 1 else _nabla.moveaxis(x, axis, -1)


def cross_entropy_loss(logits, targets, axis=-1, *, label_smoothing=0.0, ignore_index=None, weight=None,
                       reduction="mean"):
    """Cross-entropy of softmax(logits) along `axis`.

    targets: integers, shaped like logits without the axis, or distributions (one-hot, say) shaped like logits. The mean
    is over all positions: every dimension but the class axis. `label_smoothing` spreads that share of the weight over
    all classes. With integer targets positions of `ignore_index` count nowhere, and `weight` [classes] weighs the
    classes, as in PyTorch: the mean is divided by the sum of the weights that were met. A label out of range gives NaN.
    Raises ValueError for shapes that do not fit.
    """
    logits, targets = asarray(m.inexact(logits)[0]), asarray(targets)
    dtype, rows = logits.dtype, _rows(m.widened(logits), axis)
    if not 0 <= label_smoothing < 1:
        raise ValueError(f"label_smoothing {label_smoothing} is not in [0, 1)")
    if targets.dtype.is_float() or targets.ndim == logits.ndim:
        return _soft(logits, rows, targets, axis, label_smoothing, ignore_index, weight, reduction)
    if tuple(targets.shape) != tuple(rows.shape[:-1]):
        raise ValueError(f"cross_entropy_loss: labels {targets.type_str()} for logits {logits.type_str()} along axis "
                         f"{axis}: expected shape {tuple(rows.shape[:-1])}")
    labels = wide_index(targets)
    if ignore_index is not None and not fits(ignore_index, labels.dtype):
        ignore_index = None  # no label has this value
    if ignore_index is None and weight is None:
        return _reduced(_nabla.smooth_cross_entropy(rows, labels, float(label_smoothing)), reduction, dtype)
    kept = None
    if ignore_index is not None:
        kept = m.op("ne", labels, asarray(ignore_index, labels.dtype))
        labels = m.where(kept, labels, 0)
    if weight is None:
        loss, own = _nabla.smooth_cross_entropy(rows, labels, float(label_smoothing)), m.cast(kept, rows.dtype)
    else:
        loss, own = _weighted(rows, labels, asarray(weight, rows.dtype), label_smoothing)
    if kept is not None:
        loss, own = m.where(kept, loss, 0.0), m.where(kept, own, 0.0)
    return m.cast(m.div(m.total(loss), m.total(own)), dtype) if reduction == "mean" else \
        _reduced(loss, reduction, dtype)


def _picked(log_p, labels):
    """The log-probability of each row's label, 0 for a label out of range. Other classes, whose log-probability may be
    -infinity, do not count."""
    hot = one_hot(labels, int(log_p.shape[-1]), DType.bool)
    return m.total(m.where(hot, log_p, 0.0), -1)


def _weighted(rows, labels, weight, smoothing):
    own = _nabla.take(weight, labels, 0)
    exact = m.mul(_nabla.smooth_cross_entropy(rows, labels, 0.0), own)
    if smoothing == 0:
        return exact, own
    log_p = m.op("log_softmax", rows, axis=rows.ndim - 1)
    weighed = m.where(m.op("eq", *m.promoted(weight, 0.0)), 0.0, m.mul(log_p, weight))
    spread = m.div(m.neg(m.total(weighed, -1)), float(int(rows.shape[-1])))
    return m.add(m.mul(exact, 1 - smoothing), m.mul(spread, smoothing)), own


def _soft(logits, rows, targets, axis, smoothing, ignore_index, weight, reduction):
    if tuple(targets.shape) != tuple(logits.shape):
        raise ValueError(f"cross_entropy_loss: distributions {targets.type_str()} for logits {logits.type_str()}: both "
                         "must have one shape")
    if ignore_index is not None:
        raise ValueError("cross_entropy_loss: ignore_index is for integer targets")
    targets = _rows(m.cast(targets, rows.dtype), axis)
    if smoothing:
        targets = m.add(m.mul(targets, 1 - smoothing), smoothing / int(rows.shape[-1]))
    if weight is not None:
        targets = m.mul(targets, asarray(weight, rows.dtype))
    return _reduced(_nabla.soft_cross_entropy(rows, targets), reduction, logits.dtype)


def nll_loss(log_probabilities, targets, reduction="mean"):
    """Minus the log-probability [..., classes] of integer labels [...]."""
    x, labels = asarray(log_probabilities), asarray(targets)
    return _reduced(m.neg(_picked(m.widened(x), labels)), reduction, x.dtype)


def kl_div_loss(log_q, p, reduction="mean"):
    """The divergence of p from q over the last axis, from log q and p; where p is 0 the term is 0.

    "mean" and "none" are per row (PyTorch's "batchmean").
    """
    x, y, dtype = _pair("kl_div_loss", log_q, p)
    return _reduced(_nabla.kl_divergence(x, y), reduction, dtype)


def cosine_similarity(x, y, eps=1e-8):
    """Per row of the last axis: x . y / max(|x| |y|, eps)."""
    x, y, dtype = _pair("cosine_similarity", x, y)
    return m.cast(_nabla.cosine_similarity(x, y, float(eps)), dtype)


def cosine_embedding_loss(x, y, labels, margin=0.0, reduction="mean"):
    """Per row, for labels 1 and -1: 1 - cos, or max(0, cos - margin)."""
    x, y, dtype = _pair("cosine_embedding_loss", x, y)
    return _reduced(_nabla.cosine_embedding(x, y, asarray(labels, x.dtype), float(margin)), reduction, dtype)


def hinge_loss(predictions, labels, reduction="mean"):
    """max(0, 1 - x y) for labels 1 and -1."""
    x, y, dtype = _pair("hinge_loss", predictions, labels)
    return _reduced(_nabla.hinge(x, y), reduction, dtype)


def triplet_margin_loss(anchor, positive, negative, margin=1.0, reduction="mean"):
    """max(0, |anchor - positive| - |anchor - negative| + margin) per row, by Euclidean distance."""
    a, p, n = m.inexact(asarray(anchor), asarray(positive), asarray(negative))
    _, n, _ = _pair("triplet_margin_loss", a, n)
    a, p, dtype = _pair("triplet_margin_loss", a, p)
    return _reduced(_nabla.triplet(a, p, n, float(margin)), reduction, dtype)


bce_loss = binary_cross_entropy
bce_with_logits_loss = binary_cross_entropy_with_logits
__all__ = ["bce_loss", "bce_with_logits_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
           "cosine_embedding_loss", "cosine_similarity", "cross_entropy_loss", "hinge_loss", "huber_loss",
           "kl_div_loss", "l1_loss", "mse_loss", "nll_loss", "triplet_margin_loss"]
