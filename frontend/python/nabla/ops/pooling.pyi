"""Types of nabla.ops.pooling, which //tests/python:types_test holds to the module."""

from .._nabla import Tensor
from ..typing import ArrayLike, Ints, Padding

def max_pool1d(
    x: ArrayLike, *, kernel_size: Ints, stride: Ints | None = None, padding: Padding = 0, dilation: Ints = 1,
    ceil_mode: bool = False
) -> Tensor: ...
def max_pool2d(
    x: ArrayLike, *, kernel_size: Ints, stride: Ints | None = None, padding: Padding = 0, dilation: Ints = 1,
    ceil_mode: bool = False
) -> Tensor: ...
def max_pool3d(
    x: ArrayLike, *, kernel_size: Ints, stride: Ints | None = None, padding: Padding = 0, dilation: Ints = 1,
    ceil_mode: bool = False
) -> Tensor: ...
def avg_pool1d(
    x: ArrayLike, *, kernel_size: Ints, stride: Ints | None = None, padding: Padding = 0, dilation: Ints = 1,
    ceil_mode: bool = False, count_include_pad: bool = True
) -> Tensor: ...
def avg_pool2d(
    x: ArrayLike, *, kernel_size: Ints, stride: Ints | None = None, padding: Padding = 0, dilation: Ints = 1,
    ceil_mode: bool = False, count_include_pad: bool = True
) -> Tensor: ...
def avg_pool3d(
    x: ArrayLike, *, kernel_size: Ints, stride: Ints | None = None, padding: Padding = 0, dilation: Ints = 1,
    ceil_mode: bool = False, count_include_pad: bool = True
) -> Tensor: ...
def adaptive_avg_pool(x: ArrayLike, output_size: Ints) -> Tensor: ...
def adaptive_max_pool(x: ArrayLike, output_size: Ints) -> Tensor: ...
