"""Sampled functions: convolution, interpolation, differences and sums over a grid, windows."""

import math

from .. import _nabla
from .._core import DType, asarray, astype, default_float
from ._common import (
    axis_of, bounds_of, cut, decided, emit1, float_tensors, in_float32, places_in, require_at_least,
    require_decided_equal, tensors)
from .control_flow import where
from .reduction import diff
from .sorting import searchsorted


def _vectors(what, a, v):
    a, v = tensors(a, v)
    for x in (a, v):
        if x.ndim != 1 or x.shape[0] == 0:
            _nabla.fail(204, f"{what}: {x.type_str()} is not a vector of at least one element")
        require_at_least(x.shape[0], 1, what)
    return a, v


def _is_shorter(a, v, what):
    return decided(a.shape[0] < v.shape[0], f"{what} of {a.type_str()} and {v.type_str()}",
                   f"{a.shape[0]} < {v.shape[0]}")


def _slid(a, v, mode, what):
    """Sums of products of v, as it lies, with the windows of a."""
    n, m = a.shape[0], v.shape[0]
    sides = {"full": (m - 1, m - 1), "same": ((m - 1) // 2 + (m - 1) % 2, (m - 1) // 2), "valid": (0, 0)}
    if mode not in sides:
        _nabla.fail(204, f"{what}: mode {mode!r} is none of full, same, valid")
    low, high = sides[mode]
    if not isinstance(m, int):
        return _slid_of_size(a, v, low, n - m + 1 + low + high)
    out = emit1("convolution", [emit1("reshape", [a], {"shape": [1, n, 1]}), emit1("reshape", [v], {
        "shape": [m, 1, 1]})], {"strides": [1], "padding_low": [low], "padding_high": [high], "dilation": [1],
                                "groups": 1})
    return emit1("reshape", [out], {"shape": [out.shape[1]]})


def _slid_of_size(a, v, low, count):
    """_slid for a v whose size m is known only at run time: the product of v and a matrix [count, m], whose rows are
    the windows of a."""
    n, m = a.shape[0], v.shape[0]
    place = emit1("sub", [places_in(count)[:, None] + places_in(m)[None, :], low], {})
    inside = emit1("and", [emit1("ge", [place, 0], {}), emit1("lt", [place, n], {})], {})
    windows = _nabla.take(a, emit1("minimum", [emit1("maximum", [place, 0], {}), n - 1], {}), 0)
    return emit1("select", [inside, windows, _nabla.full([count, m], 0.0, a.dtype)], {}) @ v


def convolve(a, v, mode="full"):
    """Convolution of two vectors: out[k] = sum of a[i] v[k - i]. Integers wrap.

    mode: "full" (n + m - 1 elements), "same" (as many as the longer one, from its middle), "valid" (where both overlap
    wholly). Raises Error (E0204) for other modes, and for what is no vector.
    """
    a, v = _vectors("convolve", a, v)
    if isinstance(a.shape[0], int) if mode == "full" else _is_shorter(a, v, "convolve"):
        a, v = v, a
    return _slid(a, emit1("reverse", [v], {"axes": [0]}), mode, "convolve")


def correlate(a, v, mode="valid"):
    """Correlation of two vectors: out[k] = sum of a[i + k] v[i]; modes as of convolve."""
    a, v = _vectors("correlate", a, v)
    if not (isinstance(a.shape[0], int) if mode == "full" else _is_shorter(a, v, "correlate")):
        return _slid(a, v, mode, "correlate")
    out = _slid(v, a, mode, "correlate")
    return emit1("reverse", [out], {"axes": [0]})


@in_float32("x", "xp", "fp")
def interp(x, xp, fp, left=None, right=None, period=None):
    """Piecewise linear interpolation: values at x of the function that is fp at the ascending places xp.

    left, right: what holds below xp[0] (fp[0]) and above xp[-1] (fp[-1]); with a period both are nothing, and xp need
    not ascend.
    """
    x, xp, fp = float_tensors(x, xp, fp)
    if xp.ndim != 1 or xp.shape != fp.shape or xp.shape[0] == 0:
        _nabla.fail(203, f"interp: xp is {xp.type_str()} and fp {fp.type_str()}, not two vectors of one length above 0")
    if period is not None:
        if period == 0:
            _nabla.fail(204, "interp: period is 0")
        x, xp, fp = _periodic(x, xp, fp, float(abs(period)))
    n = xp.shape[0]
    require_at_least(n, 1, "interp")
    if isinstance(n, int) and n == 1:
        out = _nabla.broadcast_to(fp, list(x.shape)) if x.ndim else emit1("reshape", [fp], {"shape": []})
    else:
        place = emit1("minimum", [emit1("sub", [searchsorted(xp, x, "right"), 1], {}), n - 2], {})
        place = emit1("maximum", [place, 0], {})
        next_place = emit1("minimum", [emit1("add", [place, 1], {}), n - 1], {})
        x0, x1, f0, f1 = [_nabla.take(t, i, 0) for t in (xp, fp) for i in (place, next_place)]
        width = emit1("sub", [x1, x0], {})
        none = emit1("eq", [width, 0.0], {})
        safe = emit1("select", [none, _nabla.full(width.shape, 1.0, width.dtype), width], {})
        slope = emit1("div", [emit1("sub", [f1, f0], {}), safe], {})
        out = emit1("add", [f0, emit1("mul", [emit1("sub", [x, x0], {}), slope], {})], {})
        out = where(none, f0, out)
    if period is not None:
        return out
    out = where(x < xp[0], fp[0] if left is None else left, out)
    return where(x > xp[-1], fp[-1] if right is None else right, out)


def _periodic(x, xp, fp, period):
    x, xp = x % period, xp % period
    xp, fp = _nabla.sort_by([xp, fp], 1, 0, False)
    ends = lambda t, shift: emit1("concatenate", [t[-1:] - shift, t, t[:1] + shift], {"axis": 0})  # noqa: E731
    return x, ends(xp, period), ends(fp, 0.0)


@in_float32("y", "x")
def trapezoid(y, x=None, dx=1.0, axis=-1):
    """The integral of samples y along an axis by trapezoids: at places x, or in steps dx."""
    if x is None:
        y, = float_tensors(y)
        step = dx
    else:
        y, x = float_tensors(y, x)
        step = diff(x, 1, -1)
    d = axis_of(axis, y.ndim, "trapezoid")
    n = y.shape[d]
    if isinstance(n, int) and n == 0:  # no trapezoid
        return emit1("reduce_sum", [y], {"axes": [d]})
    if x is not None and x.ndim == 1:
        step = emit1("reshape", [step], {"shape": [n - 1 if i == d else 1 for i in range(y.ndim)]})
    elif x is not None:
        step = diff(x, 1, d)
    middle = (cut(y, d, 1, n) + cut(y, d, 0, n - 1)) * 0.5
    return emit1("reduce_sum", [middle * step], {"axes": [d]})


def gradient(f, *steps, axis=None, edge_order=1):
    """Derivatives of samples by central differences, one-sided at the ends: one tensor per axis, or one for one axis.

    steps: nothing (1), a number for all axes, or per axis a number or the places of the samples. edge_order: 1 or 2.
    Source: numpy.gradient's second order differences (Fornberg, 1988).
    """
    f, = float_tensors(f)
    axes = list(range(f.ndim)) if axis is None else [axis_of(a, f.ndim, "gradient") for a in (
        axis if isinstance(axis, (tuple, list)) else [axis])]
    steps = list(steps) or [1.0]
    if len(steps) == 1:
        steps = steps * len(axes)
    if len(steps) != len(axes):
        _nabla.fail(204, f"gradient: {len(steps)} steps for {len(axes)} axes of {f.type_str()}")
    if edge_order not in (1, 2):
        _nabla.fail(204, f"gradient: edge_order is {edge_order}, not 1 or 2")
    out = [_derivative(f, d, s, edge_order) for d, s in zip(axes, steps)]
    return out[0] if len(out) == 1 else out


def _derivative(f, d, step, edge_order):
    n = f.shape[d]
    if isinstance(n, int) and n < edge_order + 1:
        _nabla.fail(204, f"gradient: axis {d} of {f.type_str()} needs at least {edge_order + 1} samples")
    require_at_least(n, edge_order + 1, f"gradient of {f.type_str()} along axis {d}")
    step = asarray(step, f.dtype)
    if step.ndim == 1:
        require_decided_equal(step.shape[0], n, f"gradient of {f.type_str()} at places {step.type_str()}")
    if step.ndim == 0:
        h = _nabla.broadcast_to(step, [n - 1])
    else:
        h = diff(step, 1, -1)
    h = emit1("reshape", [h], {"shape": [n - 1 if i == d else 1 for i in range(f.ndim)]})
    slope = (cut(f, d, 1, n) - cut(f, d, 0, n - 1)) / h
    parts = [cut(slope, d, 0, 1)]
    if not isinstance(n, int) or n > 2:
        before, after = cut(h, d, 0, n - 2), cut(h, d, 1, n - 1)
        low, high = cut(slope, d, 0, n - 2), cut(slope, d, 1, n - 1)
        parts.append((low * after + high * before) / (before + after))
    parts.append(cut(slope, d, n - 2, n - 1))
    if edge_order == 2:
        h0, h1 = cut(h, d, 0, 1), cut(h, d, 1, 2)
        parts[0] = parts[0] + (parts[0] - cut(slope, d, 1, 2)) * h0 / (h0 + h1)
        h0, h1 = cut(h, d, n - 2, n - 1), cut(h, d, n - 3, n - 2)
        parts[-1] = parts[-1] + (parts[-1] - cut(slope, d, n - 3, n - 2)) * h0 / (h0 + h1)
    return emit1("concatenate", parts, {"axis": d})


def unwrap(x, discont=None, axis=-1, period=2 * math.pi):
    """Angles without jumps: multiples of the period are added where two neighbours differ by more than `discont`
    (period / 2)."""
    from .reduction import cumsum
    x, = float_tensors(x)
    d = axis_of(axis, x.ndim, "unwrap")
    n = x.shape[d]
    if isinstance(n, int) and n == 0:
        return x
    step = diff(x, 1, d)
    half = period / 2
    turned = (step + half) % period - half
    turned = where((turned == -half) & (step > 0), half, turned)
    jump = where(emit1("abs", [step], {}) < (half if discont is None else discont), 0.0, turned - step)
    return emit1("concatenate", [cut(x, d, 0, 1), cut(x, d, 1, n) + cumsum(jump, d)], {"axis": d})


def _window(n, value):
    """A window of n samples: `value` of the positions from 0 to 1, float64 [n]; a single sample is 1."""
    n = n if isinstance(n, _nabla.Dim) else max(int(n), 0)
    last = n - 1 if isinstance(n, _nabla.Dim) else max(n - 1, 1)
    last = emit1("maximum", [asarray(last, DType.float64), 1.0], {})
    out = value(places_in(n, DType.float64) / last)
    if bounds_of(n)[0] < 2:
        out = emit1("select", [_nabla.broadcast_to(emit1("lt", [asarray(n, DType.int64), 2], {}), [n]),
                               _nabla.full([n], 1.0, DType.float64), out], {})
    return astype(out, default_float())


def _cosines(n, *factors):
    def value(at):
        out = _nabla.full(at.shape, factors[0], DType.float64)
        for k, factor in enumerate(factors[1:], 1):
            out = out + emit1("cos", [at * (2 * math.pi * k)], {}) * factor
        return out

    return _window(n, value)


def hanning(n):
    """Hann's window of n samples, 0.5 - 0.5 cos(2 pi i / (n - 1)); hann_window has the periodic one."""
    return _cosines(n, 0.5, -0.5)


def hamming(n):
    """Hamming's window of n samples, 0.54 - 0.46 cos(2 pi i / (n - 1))."""
    return _cosines(n, 0.54, -0.46)


def blackman(n):
    """Blackman's window of n samples, 0.42 - 0.5 cos(2 pi i / (n - 1)) + 0.08 cos(4 pi i / (n - 1))."""
    return _cosines(n, 0.42, -0.5, 0.08)


def bartlett(n):
    """Bartlett's window of n samples: a triangle from 0 to 0."""
    return _window(n, lambda at: 1.0 - emit1("abs", [at * 2.0 - 1.0], {}))


def kaiser(n, beta):
    """Kaiser's window of n samples, i0(beta sqrt(1 - (2 i / (n - 1) - 1)^2)) / i0(beta). Source: Kaiser, 1974."""
    from .unary import i0
    beta = asarray(beta, DType.float64)

    def value(at):
        height = emit1("maximum", [1.0 - (at * 2.0 - 1.0) ** 2, 0.0], {})
        return i0(emit1("sqrt", [height], {}) * beta) / i0(beta)

    return _window(n, value)


__all__ = [
    "bartlett", "blackman", "convolve", "correlate", "gradient", "hamming", "hanning", "interp", "kaiser", "trapezoid",
    "unwrap",
]
