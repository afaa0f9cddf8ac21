"""Maxima and means over windows of [n, spatial..., c], and over parts that give a wanted size."""

from .. import _nabla
from .._core import asarray, astype, default_float
from ._common import emit1, pair_of, static_size, widened
from .convolution import _padding


def _windows(n, what, x, kernel_size, stride, padding, dilation, ceil_mode):
    x = asarray(x)
    if x.ndim != n + 2:
        _nabla.fail(204, f"{what}: the operand is {x.type_str()}, expected [n, {n} spatial dimensions, c]")
    taps = pair_of(kernel_size, f"{what}: kernel_size", n, 1)
    stride = taps if stride is None else pair_of(stride, f"{what}: stride", n, 1)
    dilation = pair_of(dilation, f"{what}: dilation", n, 1)
    low, high = _padding(padding, what, n, x.shape[1:-1], taps, stride, dilation)
    beyond = [0] * n
    if ceil_mode:
        for d in range(n):
            size = x.shape[1 + d]
            if not isinstance(size, int):
                _nabla.fail(204, f"{what}: ceil_mode needs known sizes, got {x.type_str()}")
            free = size + low[d] + high[d] - dilation[d] * (taps[d] - 1) - 1
            count = -(-free // stride[d]) + 1
            if (count - 1) * stride[d] >= size + low[d]:  # a window that begins in the padding at the end
                count -= 1
            beyond[d] = max((count - 1) * stride[d] - free, 0)
    return x, taps, stride, dilation, low, high, beyond


def _attrs(taps, stride, dilation, low, high):
    return {"window": [1] + taps + [1], "strides": [1] + stride + [1], "padding_low": [0] + low + [0],
            "padding_high": [0] + high + [0], "dilation": [1] + dilation + [1]}


def _max_pool(n, what, x, kernel_size, stride, padding, dilation, ceil_mode):
    x, taps, stride, dilation, low, high, beyond = _windows(n, what, x, kernel_size, stride, padding, dilation,
                                                            ceil_mode)
    high = [a + b for a, b in zip(high, beyond)]
    return emit1("reduce_window_max", [x], _attrs(taps, stride, dilation, low, high))


def _avg_pool(n, what, x, kernel_size, stride, padding, dilation, ceil_mode, count_include_pad):
    x, taps, stride, dilation, low, high, beyond = _windows(n, what, x, kernel_size, stride, padding, dilation,
                                                            ceil_mode)
    x = x if x.dtype.is_float() else astype(x, default_float())
    dtype, x = x.dtype, widened(x)
    whole = [a + b for a, b in zip(high, beyond)]
    sums = emit1("reduce_window_sum", [x], _attrs(taps, stride, dilation, low, whole))
    taps_count = 1
    for k in taps:
        taps_count *= k
    if not any(beyond) and (count_include_pad or not any(low + high)):
        return astype(emit1("div", [sums, float(taps_count)], {}), dtype)
    ones = _nabla.full([1] + list(x.shape[1:-1]) + [1], 1.0, x.dtype)
    if count_include_pad:
        ones = _nabla.pad(ones, asarray(1, x.dtype), [0] + low + [0], [0] + high + [0])
        counts = emit1("reduce_window_sum", [ones], _attrs(taps, stride, dilation, [0] * n, beyond))
    else:
        counts = emit1("reduce_window_sum", [ones], _attrs(taps, stride, dilation, low, whole))
    return astype(emit1("div", [sums, emit1("maximum", [counts, 1], {})], {}), dtype)


def max_pool1d(x, *, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """Maxima over windows of [n, length, c]; arguments as of max_pool2d."""
    return _max_pool(1, "max_pool1d", x, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(x, *, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """Maxima over windows of [n, height, width, c]. stride: None is the window. Padding never wins.

    ceil_mode: windows that reach beyond the end count too, unless they begin there.
    """
    return _max_pool(2, "max_pool2d", x, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(x, *, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """Maxima over windows of [n, depth, height, width, c]; arguments as of max_pool2d."""
    return _max_pool(3, "max_pool3d", x, kernel_size, stride, padding, dilation, ceil_mode)


def avg_pool1d(x, *, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, count_include_pad=True):
    """Means over windows of [n, length, c]; arguments as of avg_pool2d."""
    return _avg_pool(1, "avg_pool1d", x, kernel_size, stride, padding, dilation, ceil_mode, count_include_pad)


def avg_pool2d(x, *, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, count_include_pad=True):
    """Means over windows of [n, height, width, c]. count_include_pad: padding counts as zeros; what lies beyond it
    (with ceil_mode) never counts."""
    return _avg_pool(2, "avg_pool2d", x, kernel_size, stride, padding, dilation, ceil_mode, count_include_pad)


def avg_pool3d(x, *, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, count_include_pad=True):
    """Means over windows of [n, depth, height, width, c]; arguments as of avg_pool2d."""
    return _avg_pool(3, "avg_pool3d", x, kernel_size, stride, padding, dilation, ceil_mode, count_include_pad)


def _parts(n, count):
    return [(i * n // count, -(-(i + 1) * n // count)) for i in range(count)]


def adaptive_avg_pool(x, output_size):
    """Means over parts of [n, spatial..., c] that give this size; part i of m covers floor(i n / m) to ceil((i+1) n /
    m)."""
    x = asarray(x)
    x = x if x.dtype.is_float() else astype(x, default_float())
    dtype, x = x.dtype, widened(x)
    for d, count in enumerate(pair_of(output_size, "adaptive_avg_pool: output_size", x.ndim - 2, 1)):
        size = static_size(x.shape[1 + d], f"adaptive_avg_pool of {x.type_str()}", "the parts follow from it")
        parts = _parts(size, count)
        means = [[1.0 / (b - a) if a <= j < b else 0.0 for j in range(size)] for a, b in parts]
        moved = emit1("dot_general", [x, asarray(means, x.dtype)], {"lhs_contract": [1 + d], "rhs_contract": [1],
                                                                     "lhs_batch": [], "rhs_batch": []})
        x = _nabla.moveaxis(moved, moved.ndim - 1, 1 + d)
    return astype(x, dtype)


def adaptive_max_pool(x, output_size):
    """Maxima over the parts of adaptive_avg_pool."""
    x = asarray(x)
    for d, count in enumerate(pair_of(output_size, "adaptive_max_pool: output_size", x.ndim - 2, 1)):
        size = static_size(x.shape[1 + d], f"adaptive_max_pool of {x.type_str()}", "the parts follow from it")
        parts = _parts(size, count)
        longest = max(b - a for a, b in parts)
        places = [[min(a + j, b - 1) for j in range(longest)] for a, b in parts]
        x = emit1("reduce_max", [_nabla.take(x, asarray(places, "int32"), 1 + d)], {"axes": [2 + d]})
    return x


__all__ = [
    "adaptive_avg_pool", "adaptive_max_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d",
    "max_pool3d",
]
