"""Types of nabla.ops.convolution, which //tests/python:types_test holds to the module."""

from collections.abc import Sequence
from .._nabla import Tensor
from ..typing import ArrayLike, Ints, Padding

def conv1d(
    x: ArrayLike, filter: ArrayLike, *, stride: Ints = 1, dilation: Ints = 1, padding: Padding = 0, groups: int = 1,
    bias: ArrayLike | None = None, input_layout: str = "NWC", filter_layout: str = "WIO"
) -> Tensor: ...
def conv2d(
    x: ArrayLike, filter: ArrayLike, *, stride: Ints = 1, dilation: Ints = 1, padding: Padding = 0, groups: int = 1,
    bias: ArrayLike | None = None, input_layout: str = "NHWC", filter_layout: str = "HWIO"
) -> Tensor: ...
def conv3d(
    x: ArrayLike, filter: ArrayLike, *, stride: Ints = 1, dilation: Ints = 1, padding: Padding = 0, groups: int = 1,
    bias: ArrayLike | None = None, input_layout: str = "NDHWC", filter_layout: str = "DHWIO"
) -> Tensor: ...
def conv1d_transpose(
    x: ArrayLike, filter: ArrayLike, *, stride: Ints = 1, dilation: Ints = 1, padding: Padding = 0,
    output_paddings: Ints = 0, groups: int = 1, bias: ArrayLike | None = None, input_layout: str = "NWC"
) -> Tensor: ...
def conv2d_transpose(
    x: ArrayLike, filter: ArrayLike, *, stride: Ints = 1, dilation: Ints = 1, padding: Padding = 0,
    output_paddings: Ints = 0, groups: int = 1, bias: ArrayLike | None = None, input_layout: str = "NHWC"
) -> Tensor: ...
def conv3d_transpose(
    x: ArrayLike, filter: ArrayLike, *, stride: Ints = 1, dilation: Ints = 1, padding: Padding = 0,
    output_paddings: Ints = 0, groups: int = 1, bias: ArrayLike | None = None, input_layout: str = "NDHWC"
) -> Tensor: ...
def unfold(
    x: ArrayLike, kernel_size: Ints, *, stride: Ints = 1, padding: Padding = 0, dilation: Ints = 1
) -> Tensor: ...
def fold(
    patches: ArrayLike, output_size: Ints, *, stride: Ints = 1, padding: Padding = 0, dilation: Ints = 1
) -> Tensor: ...
def resize(
    x: ArrayLike, size: Ints, method: str = "linear", align_corners: bool = False, axes: Sequence[int] | None = None
) -> Tensor: ...
