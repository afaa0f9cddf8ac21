"""Types of nabla.nn.optim.functional, which //tests/python:types_test holds to the module."""

from collections.abc import Sequence
from typing import Any, TypeVar
from ..._nabla import Tensor
from ...typing import ArrayLike, Rate, SelectorLike
from ..selectors import Selector
from .rules import Rule

_T = TypeVar("_T")
_State = dict[str, Any]

class Transform:
    rule: Rule
    lr: Rate
    wrt: SelectorLike
    def __init__(self, rule: Rule, lr: Rate, wrt: SelectorLike = "trainable") -> None: ...
    def init(self, params: Any) -> _State: ...
    def update(self, params: _T, grads: Any, state: _State, lr: Rate | None = None) -> tuple[_T, _State]: ...

class Multi:
    parts: list[tuple[Selector, Transform]]
    def __init__(self, parts: Sequence[tuple[SelectorLike, Transform]]) -> None: ...
    def init(self, params: Any) -> list[_State]: ...
    def update(self, params: _T, grads: Any, state: list[_State]) -> tuple[_T, list[_State]]: ...

def sgd(
    lr: Rate, momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False,
    wrt: SelectorLike = "trainable"
) -> Transform: ...
def adamw(
    lr: Rate, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-08, weight_decay: float = 0.0,
    wrt: SelectorLike = "trainable"
) -> Transform: ...
def adam(
    lr: Rate, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-08, weight_decay: float = 0.0,
    wrt: SelectorLike = "trainable"
) -> Transform: ...
def rmsprop(
    lr: Rate, decay: float = 0.99, eps: float = 1e-08, momentum: float = 0.0, weight_decay: float = 0.0,
    wrt: SelectorLike = "trainable"
) -> Transform: ...
def adagrad(lr: Rate, eps: float = 1e-10, weight_decay: float = 0.0, wrt: SelectorLike = "trainable") -> Transform: ...
def lion(
    lr: Rate, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0, wrt: SelectorLike = "trainable"
) -> Transform: ...
def adafactor(lr: Rate, wrt: SelectorLike = "trainable", **options: Any) -> Transform: ...
def sgd_step(
    param: Tensor, grad: ArrayLike, momentum_buffer: Tensor | None = None, *, lr: Rate, weight_decay: float = 0.0,
    momentum: float = 0.0, nesterov: bool = False
) -> tuple[Tensor, Tensor | None]: ...
def sgd_init(params: Any, momentum: float = 0.0) -> _State: ...
def sgd_update(
    params: _T, grads: Any, state: _State | None = None, *, lr: Rate, momentum: float = 0.0, weight_decay: float = 0.0,
    nesterov: bool = False
) -> tuple[_T, _State]: ...
def adamw_step(
    param: Tensor, grad: ArrayLike, m: ArrayLike, v: ArrayLike, step: ArrayLike, *, lr: Rate, beta1: float = 0.9,
    beta2: float = 0.999, eps: float = 1e-08, weight_decay: float = 0.0, bias_correction: bool = True
) -> tuple[Tensor, Tensor, Tensor]: ...
def adamw_init(params: Any) -> _State: ...
def adamw_update(
    params: _T, grads: Any, state: _State, *, lr: Rate, weight_decay: float = 0.0, beta1: float = 0.9,
    beta2: float = 0.999, eps: float = 1e-08, bias_correction: bool = True, realize: bool | None = None
) -> tuple[_T, _State]: ...
