"""Types of nabla.nn.conv, which //tests/python:types_test holds to the module."""

from .._nabla import Tensor
from ..typing import ArrayLike, DTypeLike, Initializer, Ints, Padding
from .module import Module

class _Conv(Module):
    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: Padding
    groups: int
    weight: Tensor
    bias: Tensor | None
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Ints, stride: Ints = 1, padding: Padding = 0,
        dilation: Ints = 1, groups: int = 1, bias: bool = True, *, dtype: DTypeLike | None = None,
        key: int | Tensor | None = None, init: Initializer | None = None
    ) -> None: ...
    def forward(self, x: ArrayLike) -> Tensor: ...
    def extra_repr(self) -> str: ...

class Conv1d(_Conv): ...

class Conv2d(_Conv): ...

class Conv3d(_Conv): ...

class _ConvTranspose(_Conv):
    output_padding: tuple[int, ...]
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Ints, stride: Ints = 1, padding: Ints = 0,
        output_padding: Ints = 0, dilation: Ints = 1, groups: int = 1, bias: bool = True, *,
        dtype: DTypeLike | None = None, key: int | Tensor | None = None, init: Initializer | None = None
    ) -> None: ...
    def forward(self, x: ArrayLike) -> Tensor: ...

class ConvTranspose1d(_ConvTranspose): ...

class ConvTranspose2d(_ConvTranspose): ...

class ConvTranspose3d(_ConvTranspose): ...

class MaxPool(Module):
    kernel_size: Ints
    stride: Ints | None
    padding: Padding
    dilation: Ints
    ceil_mode: bool
    def __init__(
        self, kernel_size: Ints, stride: Ints | None = None, padding: Padding = 0, dilation: Ints = 1,
        ceil_mode: bool = False
    ) -> None: ...
    def forward(self, x: ArrayLike) -> Tensor: ...
    def extra_repr(self) -> str: ...

class AvgPool(Module):
    kernel_size: Ints
    stride: Ints | None
    padding: Padding
    ceil_mode: bool
    count_include_pad: bool
    def __init__(
        self, kernel_size: Ints, stride: Ints | None = None, padding: Padding = 0, ceil_mode: bool = False,
        count_include_pad: bool = True
    ) -> None: ...
    def forward(self, x: ArrayLike) -> Tensor: ...
    def extra_repr(self) -> str: ...

class AdaptiveAvgPool(Module):
    output_size: Ints
    def __init__(self, output_size: Ints) -> None: ...
    def forward(self, x: ArrayLike) -> Tensor: ...

MaxPool1d = MaxPool
MaxPool2d = MaxPool
MaxPool3d = MaxPool
AvgPool1d = AvgPool
AvgPool2d = AvgPool
AvgPool3d = AvgPool
