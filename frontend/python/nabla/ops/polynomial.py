"""Polynomials as vectors of coefficients, the highest power first."""

from .. import _nabla
from .._core import asarray, astype
from ._common import (
    emit1, float_tensors, in_float32, larger_size, require_at_least, require_decided_equal, static_size, tensors)
from .binary import broadcast_shapes
from .creation import arange
from .signal import convolve
from .view import pad


def _vector(p, what):
    p = asarray(p)
    if p.ndim == 0:
        p = emit1("reshape", [p], {"shape": [1]})
    if p.ndim != 1:
        _nabla.fail(204, f"{what}: coefficients are a vector, got {p.type_str()}")
    return p


def polyval(p, x):
    """The polynomial's value at x, by Horner's rule; its coefficients may be tensors of the leading dimension of p."""
    p, x = tensors(p, x)
    if p.ndim and not isinstance(p.shape[0], int):
        from ..transforms import scan
        out = _nabla.full(broadcast_shapes(x.shape, p.shape[1:]), 0.0, x.dtype)
        return scan(lambda value, c: (value * x + c, None), out, p)[0]
    out = _nabla.full(x.shape, 0.0, x.dtype)
    for c in _nabla.unbind(p, 0):
        out = out * x + c
    return out


def polyadd(p, q):
    """The sum of two polynomials."""
    p, q = [_vector(v, "polyadd") for v in tensors(p, q)]
    n = larger_size(p.shape[0], q.shape[0], "polyadd")
    return pad(p, (n - p.shape[0], 0)) + pad(q, (n - q.shape[0], 0))


def polysub(p, q):
    """The difference of two polynomials."""
    p, q = [_vector(v, "polysub") for v in tensors(p, q)]
    return polyadd(p, -q)


def polymul(p, q):
    """The product of two polynomials."""
    return convolve(*[_vector(v, "polymul") for v in tensors(p, q)])


def polyder(p, m=1):
    """The m-th derivative."""
    p = _vector(p, "polyder")
    for _ in range(m):
        n = p.shape[0]
        if isinstance(n, int) and n < 2:
            return p[:0]
        require_at_least(n, 1, f"polyder of {p.type_str()}")
        p = p[:n - 1] * arange(n - 1, 0, -1, p.dtype)
    return p


def polyint(p, m=1, k=0.0):
    """The m-th integral, whose constants of integration are k, a number or m of them."""
    p, = float_tensors(_vector(p, "polyint"))
    constants = list(k) if isinstance(k, (tuple, list)) else [k] * m
    for c in constants[:m]:
        powers = arange(p.shape[0], 0, -1, p.dtype)
        p = emit1("concatenate", [p / powers, asarray([c], p.dtype)], {"axis": 0})
    return p


def polydiv(p, q):
    """`(quotient, remainder)`; the remainder has as many coefficients as p, zeros first."""
    p, q = [_vector(v, "polydiv") for v in float_tensors(p, q)]
    n, m = [static_size(v.shape[0], f"polydiv of {p.type_str()} by {q.type_str()}", "each coefficient of the quotient "
                        "is a step of the program") for v in (p, q)]
    quotient = []
    for i in range(max(n - m + 1, 0)):
        factor = p[i] / q[0]
        quotient.append(factor)
        p = p - pad(q * factor, (i, n - m - i))
    return (_nabla.stack(quotient, 0) if quotient else p[:1] * 0), p


def poly(roots):
    """The polynomial with these roots, whose highest coefficient is 1."""
    roots, = float_tensors(_vector(roots, "poly"))
    static_size(roots.shape[0], f"poly of {roots.type_str()}", "each root is a step of the program")
    out = _nabla.full([1], 1.0, roots.dtype)
    for r in _nabla.unbind(roots, 0):
        out = pad(out, (0, 1)) - pad(out * r, (1, 0))
    return out


def roots(p):
    """Refused: how many there are depends on coefficients, and they may be complex, for which there are no dtypes.
    Raises NotImplementedError; numpy.roots takes the values."""
    raise NotImplementedError(
        f"roots of {_vector(p, 'roots').type_str()}: how many there are depends on leading coefficients that are 0, "
        "and they may be complex, for which there are no dtypes. Outside of programs numpy.roots(p.numpy()) has them")


@in_float32("x", "y")
def polyfit(x, y, deg, w=None):
    """The polynomial of degree `deg` that fits y at x best, by least squares with weights w; y may have columns."""
    from .. import linalg
    from .creation import vander
    x, y = float_tensors(x, y)
    require_decided_equal(x.shape[0], y.shape[0], "polyfit")
    if not isinstance(x.shape[0], int):
        require_at_least(x.shape[0], deg + 1, f"polyfit of degree {deg}")
    rows = vander(x, deg + 1)
    if w is not None:
        w = astype(w, x.dtype)
        rows, y = rows * w[:, None], y * (w if y.ndim == 1 else w[:, None])
    scale = emit1("sqrt", [emit1("reduce_sum", [rows * rows], {"axes": [0]})], {})
    q, r = linalg.qr(rows / scale)
    out = linalg.solve_triangular(r, q.T @ y)
    return out / (scale if out.ndim == 1 else scale[:, None])


__all__ = ["poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval",
           "roots"]
