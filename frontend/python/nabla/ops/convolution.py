"""Convolutions over 1 to 3 spatial dimensions, channels last, and other sizes of images.

Source: the definition of convolution in Dumoulin and Visin, A guide to convolution arithmetic for deep learning, 2016.
"""

from .. import _nabla
from .._core import asarray
from ._common import emit1, pair_of, static_size, tensors
from .view import permute

_INPUT = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}
_FILTER = {1: ("WIO", "OIW"), 2: ("HWIO", "OIHW"), 3: ("DHWIO", "OIDHW")}
_OTHER_NAMES = {"RSCF": "HWIO", "FCRS": "OIHW", "QRSCF": "DHWIO", "FCQRS": "OIDHW", "NLC": "NWC", "NCL": "NCW"}


def _layout(given, known, what):
    """Whether channels come first."""
    name = _OTHER_NAMES.get(given, given)
    if name not in known:
        _nabla.fail(204, f"{what} is {given!r}, not {known[0]} or {known[1]}")
    return name == known[1]


def _padding(padding, what, n, sizes, taps, strides, dilation):
    """(low, high) per spatial dimension: of an int, an int per dimension, two per dimension, "same" or "valid"."""
    if isinstance(padding, str):
        name = padding.lower()
        if name == "valid":
            return [0] * n, [0] * n
        if name != "same":
            _nabla.fail(204, f"{what}: padding is {padding!r}, not same or valid")
        low, high = [], []
        for size, k, s, d in zip(sizes, taps, strides, dilation):
            if not isinstance(size, int):
                if s != 1:
                    _nabla.fail(204, f"{what}: padding same with stride {s} needs known sizes, got {size}")
                whole = d * (k - 1)
            else:
                whole = max((-(-size // s) - 1) * s + d * (k - 1) + 1 - size, 0)
            low.append(whole // 2), high.append(whole - whole // 2)
        return low, high
    if isinstance(padding, (tuple, list)):
        if len(padding) == 2 * n and (n > 1 or not isinstance(padding[0], (tuple, list))):
            return [int(p) for p in padding[::2]], [int(p) for p in padding[1::2]]
        if len(padding) == n and all(isinstance(p, (tuple, list)) for p in padding):
            return [int(p[0]) for p in padding], [int(p[1]) for p in padding]
    both = pair_of(padding, f"{what}: padding", n)
    return both, list(both)


def _conv(n, what, x, filter, stride, dilation, padding, groups, bias, input_layout, filter_layout):
    x, filter = tensors(x, filter)
    if x.ndim != n + 2 or filter.ndim != n + 2:
        _nabla.fail(204, f"{what}: the input is {x.type_str()} and the filter {filter.type_str()}; both have {n + 2} "
                         f"dimensions, {_INPUT[n][0]} and {_FILTER[n][0]}")
    channels_first = _layout(input_layout or _INPUT[n][0], _INPUT[n], "input_layout")
    if channels_first:
        x = permute(x, [0] + list(range(2, n + 2)) + [1])
    if _layout(filter_layout or _FILTER[n][0], _FILTER[n], "filter_layout"):
        filter = permute(filter, list(range(2, n + 2)) + [1, 0])
    stride, dilation = pair_of(stride, f"{what}: stride", n, 1), pair_of(dilation, f"{what}: dilation", n, 1)
    _check_channels(what, x, filter, groups, channels_first)
    low, high = _padding(padding, what, n, x.shape[1:-1], filter.shape[:n], stride, dilation)
    out = emit1("convolution", [x, filter], {"strides": stride, "padding_low": low, "padding_high": high,
                                             "dilation": dilation, "groups": groups})
    return _finished(out, bias, channels_first, n)


def _check_channels(what, x, filter, groups, channels_first):
    """Raises Error (E0203) where the input's channels are not those of the filter: often a layout that was not said."""
    wanted, got = filter.shape[-2] * groups, x.shape[-1]
    if not isinstance(groups, int) or groups < 1:
        _nabla.fail(204, f"{what}: groups is {groups!r}, an int of at least 1 is needed")
    if wanted == got or not (isinstance(wanted, int) and isinstance(got, int)):
        return
    names = _INPUT[x.ndim - 2]
    help = ""
    if not channels_first and x.shape[1] == wanted:
        help = (f"dimension 1 has {wanted} channels: this looks like {names[1]}, permute it to {names[0]}, or call "
                f"nabla.conv{x.ndim - 2}d(..., input_layout=\"{names[1]}\")")
    _nabla.fail(203, f"{what}: the input {x.type_str()} ({names[0]}) has {got} channels, the filter "
                     f"{filter.type_str()} ({_FILTER[x.ndim - 2][0]}) takes {wanted}", help)


def _finished(out, bias, channels_first, n):
    if bias is not None:
        out = emit1("add", [out, asarray(bias, out.dtype)], {})
    return permute(out, [0, n + 1] + list(range(1, n + 1))) if channels_first else out


def conv1d(x, filter, *, stride=1, dilation=1, padding=0, groups=1, bias=None, input_layout="NWC", filter_layout="WIO"):
    """x [n, length, c], filter [taps, c / groups, out] -> [n, length', out]; arguments as of conv2d."""
    return _conv(1, "conv1d", x, filter, stride, dilation, padding, groups, bias, input_layout, filter_layout)


def conv2d(x, filter, *, stride=1, dilation=1, padding=0, groups=1, bias=None, input_layout="NHWC",
           filter_layout="HWIO"):
    """x [n, height, width, c], filter [taps, taps, c / groups, out], bias [out] -> [n, height', width', out].

    stride, dilation: an int or one per dimension. padding: the same, or (top, bottom, left, right), pairs, "same" or
    "valid". Layouts "NCHW" and "OIHW" are transposed on the way.
    """
    return _conv(2, "conv2d", x, filter, stride, dilation, padding, groups, bias, input_layout, filter_layout)


def conv3d(x, filter, *, stride=1, dilation=1, padding=0, groups=1, bias=None, input_layout="NDHWC",
           filter_layout="DHWIO"):
    """x [n, depth, height, width, c], filter [taps, taps, taps, c / groups, out]; arguments as of conv2d."""
    return _conv(3, "conv3d", x, filter, stride, dilation, padding, groups, bias, input_layout, filter_layout)


def _conv_transpose(n, what, x, filter, stride, dilation, padding, output_paddings, groups, bias, input_layout):
    x, filter = tensors(x, filter)
    if x.ndim != n + 2 or filter.ndim != n + 2:
        _nabla.fail(204, f"{what}: the input is {x.type_str()} and the filter {filter.type_str()}; both have {n + 2} "
                         "dimensions, channels last and [taps..., out / groups, in]")
    channels_first = _layout(input_layout or _INPUT[n][0], _INPUT[n], "input_layout")
    if channels_first:
        x = permute(x, [0] + list(range(2, n + 2)) + [1])
    stride, dilation = pair_of(stride, f"{what}: stride", n, 1), pair_of(dilation, f"{what}: dilation", n, 1)
    more = pair_of(output_paddings, f"{what}: output_paddings", n)
    for m, s, d in zip(more, stride, dilation):
        if not 0 <= m < max(s, d):
            _nabla.fail(204, f"{what}: output_paddings {tuple(more)} must be below the stride {tuple(stride)} or "
                             f"dilation")
    if isinstance(padding, str) and padding.lower() != "valid":
        _nabla.fail(204, f"{what}: padding is {padding!r}; give numbers, which are cut off from the full result")
    low, high = _padding(padding, what, n, x.shape[1:-1], filter.shape[:n], stride, dilation)
    size = [(h - 1) * s - a - b + d * (k - 1) + m + 1 for h, s, a, b, d, k, m in
            zip(x.shape[1:-1], stride, low, high, dilation, filter.shape[:n], more)]
    out = emit1("conv_input_grad", [x, filter], {
        "strides": stride, "padding_low": low, "padding_high": high, "dilation": dilation, "groups": groups,
        "input_spatial": size})
    return _finished(out, bias, channels_first, n)


def conv1d_transpose(x, filter, *, stride=1, dilation=1, padding=0, output_paddings=0, groups=1, bias=None,
                     input_layout="NWC"):
    """The transpose of conv1d: x [n, length, in], filter [taps, out / groups, in]; arguments as of conv2d_transpose."""
    return _conv_transpose(1, "conv1d_transpose", x, filter, stride, dilation, padding, output_paddings, groups, bias,
                           input_layout)


def conv2d_transpose(x, filter, *, stride=1, dilation=1, padding=0, output_paddings=0, groups=1, bias=None,
                     input_layout="NHWC"):
    """The transpose of conv2d: x [n, h, w, in], filter [taps, taps, out / groups, in] -> [n, h', w', out] with
    h' = (h - 1) stride - padding above and below + dilation (taps - 1) + output_paddings + 1."""
    return _conv_transpose(2, "conv2d_transpose", x, filter, stride, dilation, padding, output_paddings, groups, bias,
                           input_layout)


def conv3d_transpose(x, filter, *, stride=1, dilation=1, padding=0, output_paddings=0, groups=1, bias=None,
                     input_layout="NDHWC"):
    """The transpose of conv3d; arguments as of conv2d_transpose."""
    return _conv_transpose(3, "conv3d_transpose", x, filter, stride, dilation, padding, output_paddings, groups, bias,
                           input_layout)


def unfold(x, kernel_size, *, stride=1, padding=0, dilation=1):
    """The windows of x [n, height, width, c] (im2col): [n, height', width', taps, taps, c]. Padding is of zeros."""
    x = asarray(x)
    for size in x.shape[1:3]:
        static_size(size, f"unfold of {x.type_str()}", "the windows follow from it")
    return _nabla.unfold(x, *_patches("unfold", kernel_size, stride, padding, dilation))


def fold(patches, output_size, *, stride=1, padding=0, dilation=1):
    """The transpose of unfold: patches [n, h, w, taps, taps, c] added up where they lie in an image of this size."""
    patches = asarray(patches)
    if patches.ndim != 6:
        _nabla.fail(204, f"fold: {patches.type_str()} is not [n, h, w, taps, taps, c]")
    for size in patches.shape[1:5]:
        static_size(size, f"fold of {patches.type_str()}", "the windows follow from it")
    height, width = pair_of(output_size, "fold: output_size", 2, 1)
    return _nabla.fold(patches, height, width, *_patches("fold", list(patches.shape[3:5]), stride, padding, dilation))


def _patches(what, *options):
    names = ("kernel_size", "stride", "padding", "dilation")
    return [pair_of(o, f"{what}: {name}", 2, 0 if name == "padding" else 1) for o, name in zip(options, names)]


def resize(x, size, method="linear", align_corners=False, axes=None):
    """x stretched to `size` along `axes` (all but the first and the last dimension).

    method: "nearest" (the nearest centre), "linear", or "cubic" (Keys, 1981, with a = -3/4). `align_corners`: the
    corners of both images coincide, otherwise their edges. Beyond the edge the last element counts. Integers are
    rounded to the nearest ones of their dtype.
    """
    x = asarray(x)
    axes = list(range(1, x.ndim - 1)) if axes is None else [a % x.ndim for a in axes]
    what, why = f"resize of {x.type_str()}", "the weights of the elements follow from it"
    size = [int(static_size(s, what, why)) for s in (size if isinstance(size, (tuple, list)) else [size] * len(axes))]
    for axis in axes:
        static_size(x.shape[axis], what, why)
    if len(size) != len(axes):
        _nabla.fail(204, f"resize: {len(size)} sizes for {len(axes)} axes of {x.type_str()}")
    return _nabla.resize(x, axes, size, method, align_corners)


__all__ = ["conv1d", "conv1d_transpose", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose", "fold",
           "resize", "unfold"]
