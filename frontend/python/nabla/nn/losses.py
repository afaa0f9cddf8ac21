"""Losses. `reduction` is "mean" (over everything that the loss is taken of), "sum" or "none"."""

from .. import _nabla
from .._core import asarray
from . import _math as m


def _reduced(x, reduction):
    if reduction == "none":
        return x
    if reduction == "sum":
        return m.total(x)
    if reduction == "mean":
        return m.mean(x)
    raise ValueError(f"reduction {reduction!r} is none of \"mean\", \"sum\", \"none\"")


def _pair(name, a, b):
    a, b = m.inexact(asarray(a), asarray(b))
    if tuple(a.shape) != tuple(b.shape):
        raise ValueError(f"{name}: predictions {a.type_str()} and targets {b.type_str()} differ in shape")
    return a, b


def mse_loss(predictions, targets, reduction="mean"):
    """Squared differences of two tensors of one shape."""
    return _reduced(_nabla.mse(*_pair("mse_loss", predictions, targets)), reduction)


def l1_loss(predictions, targets, reduction="mean"):
    """Absolute differences of two tensors of one shape."""
    return _reduced(_nabla.l1(*_pair("l1_loss", predictions, targets)), reduction)


def huber_loss(predictions, targets, delta=1.0, reduction="mean"):
    """Half the square of differences up to delta, linear beyond (Huber, 1964)."""
    return _reduced(_nabla.huber(*_pair("huber_loss", predictions, targets), float(delta)), reduction)


def binary_cross_entropy(probabilities, targets, reduction="mean"):
    """Of probabilities against targets in [0, 1], shaped alike; logarithms stop at -100."""
    return _reduced(_nabla.bce(*_pair("binary_cross_entropy", probabilities, targets)), reduction)


def binary_cross_entropy_with_logits(logits, targets, pos_weight=None, reduction="mean"):
    """Of logits against targets in [0, 1], shaped alike, without overflow. `pos_weight` multiplies the term of 1s."""
    x, y = _pair("binary_cross_entropy_with_logits", logits, targets)
    if pos_weight is None:
        return _reduced(_nabla.bce_with_logits(x, y), reduction)
    yes = m.mul(m.mul(pos_weight, y), _nabla.softplus(m.neg(x)))
    no = m.mul(m.sub(1.0, y), _nabla.softplus(x))
    return _reduced(m.add(yes, no), reduction)


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
    rows = _rows(logits, axis)
    if not 0 <= label_smoothing < 1:
        raise ValueError(f"label_smoothing {label_smoothing} is not in [0, 1)")
    if targets.dtype.is_float() or targets.ndim == logits.ndim:
        return _soft(logits, rows, targets, axis, label_smoothing, ignore_index, weight, reduction)
    if tuple(targets.shape) != tuple(rows.shape[:-1]):
        raise ValueError(f"cross_entropy_loss: labels {targets.type_str()} for logits {logits.type_str()} along axis "
                         f"{axis}: expected shape {tuple(rows.shape[:-1])}")
    if ignore_index is None and weight is None:
        return _reduced(_nabla.smooth_cross_entropy(rows, targets, float(label_smoothing)), reduction)
    kept, labels = None, targets
    if ignore_index is not None:
        kept = m.op("ne", targets, asarray(ignore_index, targets.dtype))
        labels = m.where(kept, targets, 0)
    share = None if kept is None else m.cast(kept, rows.dtype)
    if weight is None:
        loss = _nabla.smooth_cross_entropy(rows, labels, float(label_smoothing))
        loss = m.where(kept, loss, 0.0)
        count = m.total(share)
    else:
        loss, own = _weighted(rows, labels, asarray(weight, rows.dtype), label_smoothing)
        if kept is not None:
            loss, own = m.where(kept, loss, 0.0), m.where(kept, own, 0.0)
        count = m.total(own)
    return m.div(m.total(loss), count) if reduction == "mean" else _reduced(loss, reduction)


def _picked(log_p, labels):
    """The log-probability of each row's label, 0 for a label out of range. Other classes, whose log-probability may be
    -infinity, do not count."""
    hot = m.op("ne", *m.promoted(_nabla.one_hot(labels, int(log_p.shape[-1]), log_p.dtype), 0.0))
    return m.total(m.where(hot, log_p, 0.0), -1)


def _weighted(rows, labels, weight, smoothing):
    log_p = m.op("log_softmax", rows, axis=rows.ndim - 1)
    own = _nabla.take(weight, labels, 0)
    exact = m.mul(m.neg(_picked(log_p, labels)), own)
    if smoothing == 0:
        return exact, own
    weighed = m.where(m.op("eq", *m.promoted(weight, 0.0)), 0.0, m.mul(log_p, weight))
    spread = m.div(m.neg(m.total(weighed, -1)), float(int(rows.shape[-1])))
    return m.add(m.mul(exact, 1 - smoothing), m.mul(spread, smoothing)), own


def _soft(logits, rows, targets, axis, smoothing, ignore_index, weight, reduction):
    if tuple(targets.shape) != tuple(logits.shape):
        raise ValueError(f"cross_entropy_loss: distributions {targets.type_str()} for logits {logits.type_str()}: both "
                         "must have one shape")
    if ignore_index is not None:
        raise ValueError("cross_entropy_loss: ignore_index is for integer targets")
    targets = _rows(m.cast(targets, logits.dtype), axis)
    if smoothing:
        targets = m.add(m.mul(targets, 1 - smoothing), smoothing / int(rows.shape[-1]))
    if weight is not None:
        targets = m.mul(targets, asarray(weight, logits.dtype))
    return _reduced(_nabla.soft_cross_entropy(rows, targets), reduction)


def nll_loss(log_probabilities, targets, reduction="mean"):
    """Minus the log-probability [..., classes] of integer labels [...]."""
    x, labels = asarray(log_probabilities), asarray(targets)
    return _reduced(m.neg(_picked(x, labels)), reduction)


def kl_div_loss(log_q, p, reduction="mean"):
    """The divergence of p from q over the last axis, from log q and p; where p is 0 the term is 0.

    "mean" and "none" are per row (PyTorch's "batchmean").
    """
    return _reduced(_nabla.kl_divergence(*_pair("kl_div_loss", log_q, p)), reduction)


def cosine_similarity(x, y, eps=1e-8):
    """Per row of the last axis: x . y / max(|x| |y|, eps)."""
    return _nabla.cosine_similarity(*_pair("cosine_similarity", x, y), float(eps))


def cosine_embedding_loss(x, y, labels, margin=0.0, reduction="mean"):
    """Per row, for labels 1 and -1: 1 - cos, or max(0, cos - margin)."""
    x, y = _pair("cosine_embedding_loss", x, y)
    return _reduced(_nabla.cosine_embedding(x, y, asarray(labels, x.dtype), float(margin)), reduction)


def hinge_loss(predictions, labels, reduction="mean"):
    """max(0, 1 - x y) for labels 1 and -1."""
    return _reduced(_nabla.hinge(*_pair("hinge_loss", predictions, labels)), reduction)


def triplet_margin_loss(anchor, positive, negative, margin=1.0, reduction="mean"):
    """max(0, |anchor - positive| - |anchor - negative| + margin) per row, by Euclidean distance."""
    anchor, positive = _pair("triplet_margin_loss", anchor, positive)
    anchor, negative = _pair("triplet_margin_loss", anchor, negative)
    return _reduced(_nabla.triplet(anchor, positive, negative, float(margin)), reduction)


bce_loss = binary_cross_entropy
bce_with_logits_loss = binary_cross_entropy_with_logits
__all__ = ["bce_loss", "bce_with_logits_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
           "cosine_embedding_loss", "cosine_similarity", "cross_entropy_loss", "hinge_loss", "huber_loss",
           "kl_div_loss", "l1_loss", "mse_loss", "nll_loss", "triplet_margin_loss"]
