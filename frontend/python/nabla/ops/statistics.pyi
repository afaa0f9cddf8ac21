"""Types of nabla.ops.statistics, which //tests/python:types_test holds to the module."""

from collections.abc import Sequence
from typing import Any
from .._nabla import Tensor
from ..typing import ArrayLike

def cov(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, ddof: int = 1, aweights: ArrayLike | None = None,
    fweights: ArrayLike | None = None
) -> Tensor: ...
def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True) -> Tensor: ...
def histogram_bin_edges(
    x: ArrayLike, bins: int | ArrayLike = 10, range: tuple[float, float] | None = None
) -> Tensor: ...
def histogramdd(
    sample: ArrayLike, bins: ArrayLike = 10, range: Sequence[Any] | None = None, weights: ArrayLike | None = None,
    density: bool = False
) -> tuple[Tensor, list[Tensor]]: ...
def histogram2d(
    x: ArrayLike, y: ArrayLike, bins: ArrayLike = 10, range: Sequence[Any] | None = None,
    weights: ArrayLike | None = None, density: bool = False
) -> tuple[Tensor, Tensor, Tensor]: ...
