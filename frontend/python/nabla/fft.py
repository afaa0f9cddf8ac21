"""Fourier transforms. Complex numbers are pairs of real tensors, `Complex(re, im)`: there is no complex element type.

Signs and normalisation follow NumPy: norm "backward" divides the inverse by n, "forward" the transform, "ortho" both by
sqrt(n). Lengths are known sizes up to 2^24.
"""

import math
from typing import NamedTuple

from . import _nabla
from ._core import Tensor, asarray, astype, default_float
from .ops import binary as _binary
from .ops._common import axis_of, cut, emit1, float_tensors, places_in, same_size, static_size
from .ops.view import roll


class Complex(NamedTuple):
    """Real and imaginary parts, of one type. A pair, and so a tree for all transforms; + - * act on complex numbers."""

    re: Tensor
    im: Tensor

    def __add__(self, other):
        other = as_complex(other)
        return Complex(_binary.add(self.re, other.re), _binary.add(self.im, other.im))

    def __sub__(self, other):
        other = as_complex(other)
        return Complex(_binary.sub(self.re, other.re), _binary.sub(self.im, other.im))

    def __mul__(self, other):
        other = as_complex(other)
        return Complex(_binary.sub(_binary.mul(self.re, other.re), _binary.mul(self.im, other.im)),
                       _binary.add(_binary.mul(self.re, other.im), _binary.mul(self.im, other.re)))

    __radd__, __rmul__ = __add__, __mul__

    def conj(self):
        """The conjugate."""
        return Complex(self.re, emit1("neg", [self.im], {}))

    def abs(self):
        """The magnitude. Its derivative at 0 is 0."""
        return _binary.hypot(self.re, self.im)

    def angle(self):
        """The angle in (-pi, pi]."""
        return _binary.atan2(self.im, self.re)

    def numpy(self):
        """A complex NumPy array."""
        return self.re.numpy() + 1j * self.im.numpy()


def as_complex(x):
    """x as Complex: a Complex, a pair, a Python complex, a complex NumPy array, or a real tensor."""
    if isinstance(x, Complex):
        return x
    if isinstance(x, tuple) and len(x) == 2:
        return Complex(*float_tensors(*x))
    if isinstance(x, complex) or getattr(getattr(x, "dtype", None), "kind", "") == "c":
        return Complex(asarray(x.real.copy() if hasattr(x.real, "copy") else x.real),
                       asarray(x.imag.copy() if hasattr(x.imag, "copy") else x.imag))
    x = float_tensors(x)[0]
    return Complex(x, _nabla.full(x.shape, 0.0, x.dtype))


def _sized(x, n, axis):
    """x with n elements along an axis: cut off, or with zeros at the end."""
    have = x.shape[axis]
    if n is None or same_size(n, have):
        return x
    if not isinstance(have, int):
        x = _nabla.pad(x, asarray(0, x.dtype), [0] * x.ndim, [n if d == axis else 0 for d in range(x.ndim)])
        return cut(x, axis, 0, n)
    if n < have:
        return _nabla.slice_axis(x, axis, 0, n)
    return _nabla.pad(x, asarray(0, x.dtype), [0] * x.ndim, [n - have if d == axis else 0 for d in range(x.ndim)])


def _scaled(x, factor):
    return x if factor == 1 else Complex(*[emit1("mul", [v, factor], {}) for v in x])


def _factor(norm, n, inverse):
    if norm not in (None, "backward", "ortho", "forward"):
        _nabla.fail(204, f"fft: norm is {norm!r}, not backward, ortho or forward")
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if inverse == (norm != "forward") else 1


_WHY = "the factors of the transform follow from it"  # a transform needs a size that is known now


def _transform(x, n, axis, norm, inverse):
    x = as_complex(x)
    d = axis_of(axis, x.re.ndim, "fft")
    what = f"{'ifft' if inverse else 'fft'} of {x.re.type_str()} along axis {d}"
    static_size(x.re.shape[d] if n is None else n, what, _WHY)
    x = Complex(*[_sized(v, n, d) for v in x])
    n = x.re.shape[d]
    last = x.re.ndim - 1
    moved = [_nabla.moveaxis(v, d, last) if d != last else v for v in x]
    out = _nabla.emit("fft", moved, {"inverse": inverse})
    out = Complex(*[_nabla.moveaxis(v, last, d) if d != last else v for v in out[:2]])
    return _scaled(out, _factor(norm, n, inverse))


def fft(x, n=None, axis=-1, norm=None):
    """y[k] = sum over j of x[j] exp(-2 pi i j k / n) along `axis`; n: cut, or filled up with zeros, to that length."""
    return _transform(x, n, axis, norm, False)


def ifft(x, n=None, axis=-1, norm=None):
    """The inverse of fft."""
    return _transform(x, n, axis, norm, True)


def rfft(x, n=None, axis=-1, norm=None):
    """The first n // 2 + 1 elements of fft of a real tensor; the others are their conjugates."""
    x = float_tensors(x)[0]
    d = axis_of(axis, x.ndim, "rfft")
    n = static_size(x.shape[d] if n is None else n, f"rfft of {x.type_str()} along axis {d}", _WHY)
    out = fft(x, n, d, norm)
    return Complex(*[_nabla.slice_axis(v, d, 0, n // 2 + 1) for v in out])


def irfft(x, n=None, axis=-1, norm=None):
    """The inverse of rfft: n real elements (2 (m - 1) for m elements)."""
    x = as_complex(x)
    d = axis_of(axis, x.re.ndim, "irfft")
    n = 2 * (x.re.shape[d] - 1) if n is None else n
    n = static_size(n, f"irfft of {x.re.type_str()} along axis {d}", _WHY)
    half = n // 2 + 1
    re, im = [_sized(v, half, d) for v in x]
    rest = n - half
    if rest > 0:
        turned = [emit1("reverse", [_nabla.slice_axis(v, d, 1, 1 + rest)], {"axes": [d]}) for v in (re, im)]
        re = emit1("concatenate", [re, turned[0]], {"axis": d})
        im = emit1("concatenate", [im, emit1("neg", [turned[1]], {})], {"axis": d})
    # The imaginary parts of the first element, and of the middle one of an even n, do not count.
    places = emit1("iota", [], {"shape": list(im.shape), "axis": d, "dtype": _nabla.DType.int32})
    real = emit1("eq", [places, 0], {})
    if n % 2 == 0:
        real = emit1("or", [real, emit1("eq", [places, n // 2], {})], {})
    im = emit1("select", [real, _nabla.full(im.shape, 0.0, im.dtype), im], {})
    return ifft(Complex(re, im), None, d, norm).re


def _axes(x, s, axes):
    rank = as_complex(x).re.ndim
    if axes is None:
        axes = list(range(rank - len(s), rank)) if s is not None else list(range(rank))
    axes = list(axes)
    return axes, [None] * len(axes) if s is None else list(s)


def fftn(x, s=None, axes=None, norm=None):
    """fft along several axes (all)."""
    axes, sizes = _axes(x, s, axes)
    for axis, n in zip(reversed(axes), reversed(sizes)):
        x = fft(x, n, axis, norm)
    return as_complex(x)


def ifftn(x, s=None, axes=None, norm=None):
    """The inverse of fftn."""
    axes, sizes = _axes(x, s, axes)
    for axis, n in zip(reversed(axes), reversed(sizes)):
        x = ifft(x, n, axis, norm)
    return as_complex(x)


def fft2(x, s=None, axes=(-2, -1), norm=None):
    """fft along two axes."""
    return fftn(x, s, axes, norm)


def ifft2(x, s=None, axes=(-2, -1), norm=None):
    """The inverse of fft2."""
    return ifftn(x, s, axes, norm)


def rfftn(x, s=None, axes=None, norm=None):
    """rfft along the last axis, fft along the others."""
    axes, sizes = _axes(x, s, axes)
    out = rfft(x, sizes[-1], axes[-1], norm)
    return fftn(out, None if s is None else sizes[:-1], axes[:-1], norm) if axes[:-1] else out


def irfftn(x, s=None, axes=None, norm=None):
    """The inverse of rfftn."""
    axes, sizes = _axes(x, s, axes)
    for axis, n in zip(axes[:-1], sizes[:-1]):
        x = ifft(x, n, axis, norm)
    return irfft(x, sizes[-1], axes[-1], norm)


def rfft2(x, s=None, axes=(-2, -1), norm=None):
    """rfftn of two axes."""
    return rfftn(x, s, axes, norm)


def irfft2(x, s=None, axes=(-2, -1), norm=None):
    """The inverse of rfft2."""
    return irfftn(x, s, axes, norm)


def fftfreq(n, d=1.0):
    """Frequencies of fft's elements: 0, 1, ..., -2, -1, each divided by n d."""
    if isinstance(n, _nabla.Dim):
        place = places_in(n, _nabla.DType.float64)
        first = emit1("lt", [place, (n + 1) // 2], {})
        place = emit1("select", [first, place, emit1("sub", [place, n], {})], {})
        return astype(place / (asarray(n, place.dtype) * d), default_float())
    return asarray([(k if k < (n + 1) // 2 else k - n) / (n * d) for k in range(n)])


def rfftfreq(n, d=1.0):
    """Frequencies of rfft's elements."""
    if isinstance(n, _nabla.Dim):
        place = places_in(n // 2 + 1, _nabla.DType.float64)
        return astype(place / (asarray(n, place.dtype) * d), default_float())
    return asarray([k / (n * d) for k in range(n // 2 + 1)])


def _shifted(x, axes, back):
    def one(v):
        dims = range(v.ndim) if axes is None else [axes] if isinstance(axes, int) else axes
        for a in dims:
            n = v.shape[a]
            v = roll(v, -(n // 2) if back else n // 2, a)
        return v

    return Complex(*[one(v) for v in x]) if isinstance(x, tuple) else one(asarray(x))


def fftshift(x, axes=None):
    """The zero frequency in the middle."""
    return _shifted(x, axes, False)


def ifftshift(x, axes=None):
    """The inverse of fftshift."""
    return _shifted(x, axes, True)


__all__ = [
    "Complex", "as_complex", "fft", "fft2", "fftfreq", "fftn", "fftshift", "ifft", "ifft2", "ifftn", "ifftshift",
    "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]
