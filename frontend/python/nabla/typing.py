"""Names for types in annotations: what functions of nabla take.

    from nabla.typing import ArrayLike

    def scaled(x: ArrayLike, factor: float) -> nabla.Tensor: ...
"""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Union

from ._nabla import DType, Tensor
from .devices import Device

if TYPE_CHECKING:
    import array
    import types

    import numpy

    from ._nabla import Dim, Size
    from .fft import Complex
    from .nn.selectors import Selector


class SupportsArray(Protocol):
    """What makes a NumPy array of itself."""

    def __array__(self) -> Any: ...


class SupportsDLPack(Protocol):
    """Tensors of other libraries."""

    def __dlpack__(self) -> Any: ...

    def __dlpack_device__(self) -> Any: ...


class _Named(Protocol):
    """NumPy's dtypes."""

    @property
    def name(self) -> str: ...


# Tensors, numbers, sizes that are known only at run time, nested sequences of them, and arrays.
ArrayLike = Union[Tensor, "Dim", float, Sequence[Any], SupportsArray, SupportsDLPack, "memoryview", "array.array[Any]"]
DTypeLike = Union[DType, str, type[Any], _Named]
DeviceLike = Union[Device, str]
ShapeLike = Union["Size", Sequence["Size"]]
StrPath = Union[str, "os.PathLike[str]"]
NDArray = Union["numpy.ndarray[Any, Any]"]
# What stands in the brackets of x[...].
Index = Union[None, slice, "types.EllipsisType", ArrayLike]
# A size per spatial dimension, or one for all; and amounts of padding.
Ints = Union[int, Sequence[int]]
Padding = Union[int, str, Sequence[int], Sequence[tuple[int, int]]]
Paddings = Union[int, Sequence[int], Sequence[Sequence[int]]]
# A complex array: a pair of parts, Python's or NumPy's complex numbers, or a real array.
ComplexLike = Union["Complex", tuple[ArrayLike, ArrayLike], complex, ArrayLike]
# Learning rates: numbers, scalars, and functions of the step.
Schedule = Callable[[Tensor], Any]
Rate = Union[float, Tensor, Schedule]
# Which tensors of a module: see nn.select.
SelectorLike = Union["Selector", str, type[Any], Callable[[str, Tensor], Any], Sequence[Any]]


class Initializer(Protocol):
    """What gives a layer its first weights: `f(shape, key=, dtype=)`, as the functions of nn.init."""

    def __call__(self, shape: Sequence[int], *, key: Any = None, dtype: Any = None) -> Tensor: ...
