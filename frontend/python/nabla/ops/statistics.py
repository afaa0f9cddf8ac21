"""How variables vary together, and how often combinations of values occur."""

import builtins

from .. import _nabla
from .._core import DType, asarray, astype
from ._common import (
    count_of, emit1, float_tensors, in_float32, is_one, require_decided_equal, static_size, wide_dtype, widened)
from .control_flow import where
from .reduction import mean
from .sorting import bincount, searchsorted


@in_float32("x", "y")
def cov(x, y=None, rowvar=True, ddof=1, aweights=None, fweights=None):
    """The covariances [n, n] of n variables: rows of x (columns unless rowvar) and y. `ddof` is taken from the number
    of observations. aweights, fweights: weights of the observations, relative ones and how often each was made."""
    x, = float_tensors(x)
    rows = [_rows(x, rowvar)] + ([_rows(float_tensors(y)[0], rowvar)] if y is not None else [])
    x = rows[0] if len(rows) == 1 else emit1("concatenate", rows, {"axis": 0})
    weights = None
    for w in (fweights, aweights):
        if w is not None:
            w = astype(w, x.dtype)
            w = emit1("reshape", [w], {"shape": [1, count_of(w.shape)]})
            require_decided_equal(w.shape[1], x.shape[1], "cov")
            weights = w if weights is None else weights * w
    if weights is None:
        centred, divisor = x - mean(x, 1, True), x.shape[1] - ddof
        out = centred @ centred.T / divisor
    else:
        total = _nabla.sum(weights, [], False)
        centred = x - emit1("reduce_sum", [x * weights], {"axes": [1]})[:, None] / total
        if aweights is None or ddof == 0:
            divisor = total - float(ddof)
        else:
            relative = astype(aweights, x.dtype)[None, :]
            divisor = total - ddof * _nabla.sum(weights * relative, [], False) / total
        out = (centred * weights) @ centred.T / divisor
    return emit1("reshape", [out], {"shape": []}) if is_one(out.shape[0], "cov") else out


def _rows(x, rowvar):
    if x.ndim > 2:
        _nabla.fail(204, f"cov: {x.type_str()} has more than two dimensions")
    if x.ndim < 2:
        return emit1("reshape", [x], {"shape": [1, count_of(x.shape)]})
    return x if rowvar or is_one(x.shape[0], f"cov of {x.type_str()} without rowvar") else x.T


@in_float32("x", "y")
def corrcoef(x, y=None, rowvar=True):
    """The coefficients of correlation [n, n] of n variables, arguments as of cov: covariances over the products of
    standard deviations, from -1 to 1."""
    from .creation import diagonal
    c = cov(x, y, rowvar)
    if c.ndim == 0:
        return c / c
    scale = emit1("sqrt", [diagonal(c)], {})
    out = c / scale[:, None] / scale[None, :]
    return emit1("minimum", [emit1("maximum", [out, -1.0], {}), 1.0], {})


def histogram_bin_edges(x, bins=10, range=None):
    """The edges that histogram counts between."""
    from .sorting import histogram
    return histogram(x, bins, range)[1]


def histogramdd(sample, bins=10, range=None, weights=None, density=False):
    """(counts, edges) of the rows of `sample` [n, d] in cells of d dimensions.

    bins: an int, or per dimension an int or edges; range: per dimension a pair, needed inside of traces. Rows outside
    are left out. density: counts over their sum and the volumes of the cells.
    """
    sample, = float_tensors(sample)
    d = static_size(sample.shape[1], f"histogramdd of {sample.type_str()}", "it is the number of dimensions")
    bins = [bins] * d if isinstance(bins, int) else list(bins)
    ranges = [None] * d if range is None else list(range)
    edges = [histogram_bin_edges(sample[:, i], bins[i], ranges[i]) for i in builtins.range(d)]
    place, inside, shape = asarray(0, DType.int32), None, []
    for i, e in enumerate(edges):
        column, n = sample[:, i], e.shape[0] - 1
        cell = searchsorted(e, column, "right") - 1
        cell = where(column == e[n], n - 1, cell)
        there = (cell >= 0) & (cell < n)
        inside = there if inside is None else inside & there
        place = place * n + cell
        shape.append(n)
    whole = count_of(shape)
    counts = bincount(where(inside, place, whole), None if weights is None else widened(weights), whole)
    counts = astype(emit1("reshape", [counts], {"shape": shape}), wide_dtype(sample.dtype))
    if density:
        counts = counts / _nabla.sum(counts, [], False)
        for i, e in enumerate(edges):
            width = widened(e)[1:] - widened(e)[:-1]
            counts = counts / emit1("reshape", [width], {"shape": [s if j == i else 1 for j, s in enumerate(shape)]})
    return astype(counts, sample.dtype), edges


def histogram2d(x, y, bins=10, range=None, weights=None, density=False):
    """(counts, edges of x, edges of y) of pairs: histogramdd of two dimensions."""
    x, y = float_tensors(x, y)
    bins = [bins, bins] if isinstance(bins, int) else bins
    counts, edges = histogramdd(_nabla.stack([x, y], 1), bins, range, weights, density)
    return counts, edges[0], edges[1]


__all__ = ["corrcoef", "cov", "histogram2d", "histogram_bin_edges", "histogramdd"]
