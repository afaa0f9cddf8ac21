"""Types of nabla.transforms.control, which //tests/python:types_test holds to the module."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from .._nabla import Tensor
from ..typing import ArrayLike

# Results have the types that the functions are declared to return; numbers in a state become tensors on the way.
_S = TypeVar("_S")
_Y = TypeVar("_Y")

def cond(pred: ArrayLike, true_fn: Callable[..., _S], false_fn: Callable[..., _S], *operands: Any) -> _S: ...
def switch(index: ArrayLike, branches: Sequence[Callable[..., _S]], *operands: Any) -> _S: ...
def while_loop(
    cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], _S], init_val: Any, *, trip_count: int | None = None
) -> _S: ...
def fori_loop(
    lower: int | Tensor, upper: int | Tensor, body_fun: Callable[[Tensor, Any], _S], init_val: Any
) -> _S: ...
def scan(
    f: Callable[[Any, Any], tuple[_S, _Y]], init: Any, xs: Any = None, length: int | None = None,
    reverse: bool = False
) -> tuple[_S, _Y]: ...
def associative_scan(fn: Callable[[Any, Any], _S], elems: Any, reverse: bool = False, axis: int = 0) -> _S: ...
