"""Types of nabla.nn.optim.stateful, which //tests/python:types_test holds to the module."""

from collections.abc import Mapping, Sequence
from typing import Any
from ..._nabla import Tensor
from ...typing import ArrayLike, Rate, SelectorLike
from ..module import Module
from .functional import Multi, Transform

class Optimizer:
    params: Any
    transform: Transform | Multi
    state: Any
    def __init__(self, params: Any, transform: Transform | Multi) -> None: ...
    @classmethod
    def set_execution_policy(
        cls, *, auto_realize_updated_params: bool | None = None, auto_realize_updated_state: bool | None = None
    ) -> None: ...
    @classmethod
    def get_execution_policy(cls) -> dict[str, bool]: ...
    @property
    def lr(self) -> Any: ...
    @lr.setter
    def lr(self, value: Rate) -> None: ...
    @property
    def step_count(self) -> int: ...
    def __getattr__(self, name: str) -> Any: ...
    def step(self, grads: Any = None) -> Any: ...
    def zero_grad(self) -> None: ...
    def state_dict(self) -> dict[str, Tensor]: ...
    def load_state_dict(self, state: Mapping[str, ArrayLike]) -> None: ...

class SGD(Optimizer):
    def __init__(
        self, params: Any, lr: Rate, momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False, *,
        wrt: SelectorLike = "trainable"
    ) -> None: ...

class AdamW(Optimizer):
    def __init__(
        self, params: Any, lr: Rate, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-08,
        weight_decay: float = 0.0, *, wrt: SelectorLike = "trainable"
    ) -> None: ...

class Adam(Optimizer):
    def __init__(
        self, params: Any, lr: Rate, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-08,
        weight_decay: float = 0.0, *, wrt: SelectorLike = "trainable"
    ) -> None: ...

class RMSProp(Optimizer):
    def __init__(
        self, params: Any, lr: Rate, decay: float = 0.99, eps: float = 1e-08, momentum: float = 0.0,
        weight_decay: float = 0.0, *, wrt: SelectorLike = "trainable"
    ) -> None: ...

class Adagrad(Optimizer):
    def __init__(
        self, params: Any, lr: Rate, eps: float = 1e-10, weight_decay: float = 0.0, *, wrt: SelectorLike = "trainable"
    ) -> None: ...

class Lion(Optimizer):
    def __init__(
        self, params: Any, lr: Rate, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0, *,
        wrt: SelectorLike = "trainable"
    ) -> None: ...

class Adafactor(Optimizer):
    def __init__(self, params: Any, lr: Rate, *, wrt: SelectorLike = "trainable", **options: Any) -> None: ...

class MultiOptimizer(Optimizer):
    def __init__(self, model: Module, parts: Sequence[tuple[SelectorLike, Transform]]) -> None: ...
    @property  # type: ignore[misc]
    def lr(self) -> list[Rate]: ...

