"""Convolution, its transpose, and pooling, over channels-last sequences, images and volumes [n, space..., c]."""

import math

from .._core import asarray
from ..ops.convolution import _check_channels
from . import _math as m
from . import init
from .module import Module, Parameter
from .rng import key_of, next_key


def _many(x, n, what, least=1):
    out = (x,) * n if isinstance(x, int) else tuple(x)
    if len(out) != n:
        raise ValueError(f"{what}: {x!r} is neither an int nor {n} of them")
    if min(out, default=least) < least:
        raise ValueError(f"{what} values must be {'> 0' if least else '>= 0'}, got {x!r}")
    return out


def _same(size, taps, stride, dilation):
    reach = (taps - 1) * dilation + 1
    total = max((math.ceil(size / stride) - 1) * stride + reach - size, 0)
    return total // 2, total - total // 2


def _paddings(padding, sizes, taps, strides, dilations):
    """`(low, high)` per dimension of an int, ints, pairs, "same" or "valid"."""
    n = len(taps)
    if isinstance(padding, str):
        kind = padding.lower()
        if kind == "valid":
            return [(0, 0)] * n
        if kind == "same":
            return [_same(int(s), t, k, d) for s, t, k, d in zip(sizes, taps, strides, dilations)]
        raise ValueError(f"padding {padding!r} is neither \"same\" nor \"valid\"")
    if isinstance(padding, int):
        return [(padding, padding)] * n
    padding = list(padding)
    if len(padding) == 2 * n and all(isinstance(p, int) for p in padding):
        return [(padding[2 * i], padding[2 * i + 1]) for i in range(n)]
    if len(padding) != n:
        raise ValueError(f"padding {padding!r}: expected an int, {n} ints or pairs, {2 * n} ints, \"same\" or "
                         "\"valid\"")
    return [(p, p) if isinstance(p, int) else tuple(p) for p in padding]


def conv_nd(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """x [n, space..., c] with weight [taps..., c / groups, out], plus bias [out]; one to three spatial dimensions.

    padding: an int, one int or a pair (before, after) per dimension, "same" or "valid".
    """
    x, weight = m.inexact(asarray(x), asarray(weight))
    n = x.ndim - 2
    if not 1 <= n <= 3 or weight.ndim != x.ndim:
        raise ValueError(f"conv: x {x.type_str()} and weight {weight.type_str()}: expected [n, space..., c] and "
                         "[taps..., c / groups, out] with one to three spatial dimensions")
    stride, dilation = _many(stride, n, "stride"), _many(dilation, n, "dilation")
    _check_channels("conv", x, weight, groups, False)
    pads = _paddings(padding, x.shape[1:-1], [int(t) for t in weight.shape[:n]], stride, dilation)
    out = m.op("convolution", x, weight, strides=list(stride), padding_low=[p[0] for p in pads],
               padding_high=[p[1] for p in pads], dilation=list(dilation), groups=groups)
    return out if bias is None else m.add(out, bias)


conv1d = conv2d = conv3d = conv_nd


def conv_transpose_nd(x, weight, bias=None, stride=1, padding=0, output_padding=0, dilation=1, groups=1):
    """The transpose of conv_nd: x [n, space..., in] with weight [taps..., out / groups, in], plus bias [out].

    A dimension becomes (size - 1) stride - 2 padding + dilation (taps - 1) + output_padding + 1.
    """
    x, weight = m.inexact(asarray(x), asarray(weight))
    n = x.ndim - 2
    if not 1 <= n <= 3 or weight.ndim != x.ndim:
        raise ValueError(f"conv_transpose: x {x.type_str()} and weight {weight.type_str()}: expected [n, space..., in] "
                         "and [taps..., out / groups, in] with one to three spatial dimensions")
    stride, dilation = _many(stride, n, "stride"), _many(dilation, n, "dilation")
    padding, extra = _many(padding, n, "padding", 0), _many(output_padding, n, "output_padding", 0)
    spatial = []
    for i in range(n):
        if not 0 <= extra[i] < max(stride[i], dilation[i]):
            raise ValueError(f"conv_transpose: output_padding {extra[i]} is not below stride {stride[i]}")
        reach = dilation[i] * (int(weight.shape[i]) - 1) + 1
        spatial.append((x.shape[i + 1] - 1) * stride[i] + reach + extra[i] - 2 * padding[i])
    out = m.op("conv_input_grad", x, weight, strides=list(stride), padding_low=list(padding),
               padding_high=list(padding), dilation=list(dilation), groups=groups, input_spatial=spatial)
    return out if bias is None else m.add(out, bias)


def _windows(x, kernel, stride, padding, dilation, ceil_mode):
    n = x.ndim - 2
    if not 1 <= n <= 3:
        raise ValueError(f"pooling of {x.type_str()}: expected [n, space..., c] with one to three spatial dimensions")
    kernel = _many(kernel, n, "kernel_size")
    stride = kernel if stride is None else _many(stride, n, "stride")
    dilation = _many(dilation, n, "dilation")
    pads = _paddings(padding, x.shape[1:-1], kernel, stride, dilation)
    for p, k in zip(pads, kernel):
        if max(p) * 2 > k and not isinstance(padding, str):
            raise ValueError(f"pooling: padding {p} is more than half of the window {k}")
    high = [p[1] for p in pads]
    for i in range(n):
        reach = (kernel[i] - 1) * dilation[i] + 1
        size = int(x.shape[i + 1])
        rest = size + pads[i][0] + pads[i][1] - reach
        if ceil_mode and rest >= 0:
            outputs = -(-rest // stride[i]) + 1
            if (outputs - 1) * stride[i] >= size + pads[i][0]:
                outputs -= 1
            high[i] += max(0, (outputs - 1) * stride[i] - rest)
    return {"window": [1, *kernel, 1], "strides": [1, *stride, 1], "padding_low": [0, *[p[0] for p in pads], 0],
            "padding_high": [0, *high, 0], "dilation": [1, *dilation, 1]}, pads


def max_pool(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """Maxima of windows of [n, space..., c]; padding never wins. The stride is the window's when None."""
    x = asarray(x)
    return m.emit("reduce_window_max", [x], _windows(x, kernel_size, stride, padding, dilation, ceil_mode)[0])[0]


def avg_pool(x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """Means of windows of [n, space..., c]; `count_include_pad`: whether padding counts as elements."""
    x = asarray(m.inexact(x)[0])
    dtype, x = x.dtype, m.widened(x)
    attributes, pads = _windows(x, kernel_size, stride, padding, 1, ceil_mode)
    total = m.emit("reduce_window_sum", [x], attributes)[0]
    sizes = [int(s) for s in x.shape[1:-1]]
    inside = dict(attributes)
    if count_include_pad:
        sizes = [s + p[0] + p[1] for s, p in zip(sizes, pads)]
        inside["padding_low"] = [0] * x.ndim
        inside["padding_high"] = [0, *[h - p[1] for h, p in zip(attributes["padding_high"][1:-1], pads)], 0]
    counts = m.emit("reduce_window_sum", [m.ones([1, *sizes, 1], x.dtype)], inside)[0]
    return m.cast(m.div(total, counts), dtype)


max_pool1d = max_pool2d = max_pool3d = max_pool
avg_pool1d = avg_pool2d = avg_pool3d = avg_pool


def adaptive_avg_pool(x, output_size):
    """Means of [n, space..., c] over `output_size` nearly equal parts of each spatial dimension."""
    x = asarray(m.inexact(x)[0])
    sizes = _many(output_size, x.ndim - 2, "output_size")
    for i, out in enumerate(sizes):
        axis, size = i + 1, int(x.shape[i + 1])
        parts = [m.mean(m.part(x, axis, j * size // out, -(-(j + 1) * size // out)), axis, True) for j in range(out)]
        x = parts[0] if out == 1 else m.concatenate(parts, axis)
    return x


def global_avg_pool(x):
    """Means of [n, space..., c] over all positions: [n, c]."""
    x = asarray(x)
    return m.mean(x, tuple(range(1, x.ndim - 1)))


# ---- Layers


class _Conv(Module):
    _dims = 2

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, *,
                 dtype=None, key=None, init=None):
        n = self._dims
        if in_channels % groups or out_channels % groups:
            raise ValueError(f"{type(self).__name__}: {groups} groups do not divide {in_channels} and {out_channels}")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = _many(kernel_size, n, "kernel_size")
        self.stride, self.dilation = _many(stride, n, "stride"), _many(dilation, n, "dilation")
        self.padding, self.groups = padding, groups
        key = next_key() if key is None else key_of(key)
        self.weight = Parameter((init or _kaiming)(self._weight_shape(), key=key, dtype=dtype))
        self.bias = Parameter(m.zeros((out_channels,), dtype)) if bias else None

    def _weight_shape(self):
        return (*self.kernel_size, self.in_channels // self.groups, self.out_channels)

    def forward(self, x):
        return conv_nd(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    def extra_repr(self):
        return (f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, "
                f"padding={self.padding!r}, dilation={self.dilation}, groups={self.groups}")


def _kaiming(shape, *, key, dtype):
    return init.kaiming_uniform(shape, 1.0, key=key, dtype=dtype)


class Conv1d(_Conv):
    """x [n, length, in] with weight [taps, in / groups, out] (uniform in +-sqrt(3 / fan_in)) plus bias [out]."""

    _dims = 1


class Conv2d(_Conv):
    """x [n, height, width, in] with weight [taps, taps, in / groups, out] (uniform in +-sqrt(3 / fan_in)) plus bias."""


class Conv3d(_Conv):
    """x [n, depth, height, width, in] with weight [taps, taps, taps, in / groups, out] plus bias [out]."""

    _dims = 3


class _ConvTranspose(_Conv):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, dilation=1,
                 groups=1, bias=True, *, dtype=None, key=None, init=None):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, dtype=dtype,
                         key=key, init=init)
        self.output_padding = _many(output_padding, self._dims, "output_padding", 0)

    def _weight_shape(self):
        return (*self.kernel_size, self.out_channels // self.groups, self.in_channels)

    def forward(self, x):
        return conv_transpose_nd(x, self.weight, self.bias, self.stride, self.padding, self.output_padding,
                                 self.dilation, self.groups)


class ConvTranspose1d(_ConvTranspose):
    """The transpose of Conv1d: x [n, length, in] with weight [taps, out / groups, in]."""

    _dims = 1


class ConvTranspose2d(_ConvTranspose):
    """The transpose of Conv2d: x [n, height, width, in] with weight [taps, taps, out / groups, in]."""


class ConvTranspose3d(_ConvTranspose):
    """The transpose of Conv3d: x [n, depth, height, width, in] with weight [taps, taps, taps, out / groups, in]."""

    _dims = 3


class MaxPool(Module):
    """Maxima of windows of [n, space..., c], for one to three spatial dimensions."""

    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.dilation, self.ceil_mode = dilation, ceil_mode

    def forward(self, x):
        return max_pool(x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)

    def extra_repr(self):
        return f"{self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool(Module):
    """Means of windows of [n, space..., c], for one to three spatial dimensions."""

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, x):
        return avg_pool(x, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self):
        return f"{self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AdaptiveAvgPool(Module):
    """Means over `output_size` parts of each spatial dimension."""

    def __init__(self, output_size):
        self.output_size = output_size

    def forward(self, x):
        return adaptive_avg_pool(x, self.output_size)


MaxPool1d = MaxPool2d = MaxPool3d = MaxPool
AvgPool1d = AvgPool2d = AvgPool3d = AvgPool
__all__ = ["AdaptiveAvgPool", "AvgPool", "AvgPool1d", "AvgPool2d", "AvgPool3d", "Conv1d", "Conv2d", "Conv3d",
           "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "MaxPool", "MaxPool1d", "MaxPool2d", "MaxPool3d"]
