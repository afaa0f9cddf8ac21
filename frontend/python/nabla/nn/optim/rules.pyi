"""Types of nabla.nn.optim.rules, which //tests/python:types_test holds to the module."""

from ..._nabla import Tensor

_Slots = tuple[Tensor, ...]

class Rule:
    slot_names: tuple[str, ...]
    def begin(self, p: Tensor) -> _Slots: ...
    def apply(self, p: Tensor, g: Tensor, slots: _Slots, step: Tensor, lr: Tensor) -> tuple[Tensor, _Slots]: ...

class SGD(Rule):
    momentum: float
    weight_decay: float
    nesterov: bool
    def __init__(self, momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False) -> None: ...
    def apply(self, p: Tensor, g: Tensor, slots: _Slots, step: Tensor, lr: Tensor) -> tuple[Tensor, _Slots]: ...

class AdamW(Rule):
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    bias_correction: bool
    def __init__(
        self, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-08, weight_decay: float = 0.0,
        bias_correction: bool = True
    ) -> None: ...
    def apply(self, p: Tensor, g: Tensor, slots: _Slots, step: Tensor, lr: Tensor) -> tuple[Tensor, _Slots]: ...

class Adam(AdamW):
    def apply(self, p: Tensor, g: Tensor, slots: _Slots, step: Tensor, lr: Tensor) -> tuple[Tensor, _Slots]: ...

class RMSProp(Rule):
    decay: float
    eps: float
    momentum: float
    weight_decay: float
    def __init__(
        self, decay: float = 0.99, eps: float = 1e-08, momentum: float = 0.0, weight_decay: float = 0.0
    ) -> None: ...
    def apply(self, p: Tensor, g: Tensor, slots: _Slots, step: Tensor, lr: Tensor) -> tuple[Tensor, _Slots]: ...

class Adagrad(Rule):
    eps: float
    weight_decay: float
    def __init__(self, eps: float = 1e-10, weight_decay: float = 0.0) -> None: ...
    def apply(self, p: Tensor, g: Tensor, slots: _Slots, step: Tensor, lr: Tensor) -> tuple[Tensor, _Slots]: ...

class Lion(Rule):
    beta1: float
    beta2: float
    weight_decay: float
    def __init__(self, beta1: float = 0.9, beta2: float = 0.99, weight_decay: float = 0.0) -> None: ...
    def apply(self, p: Tensor, g: Tensor, slots: _Slots, step: Tensor, lr: Tensor) -> tuple[Tensor, _Slots]: ...

class Adafactor(Rule):
    eps: float
    clip: float
    decay_exponent: float
    scale_by_parameter: bool
    weight_decay: float
    def __init__(
        self, eps: float = 1e-30, clip: float = 1.0, decay_exponent: float = -0.8, scale_by_parameter: bool = True,
        weight_decay: float = 0.0
    ) -> None: ...
    def begin(self, p: Tensor) -> _Slots: ...
    def apply(self, p: Tensor, g: Tensor, slots: _Slots, step: Tensor, lr: Tensor) -> tuple[Tensor, _Slots]: ...

