"""Types of nabla.nn.finetune.qlora, which //tests/python:types_test holds to the module."""

from typing import NamedTuple, TypeVar
from ..._nabla import Tensor
from ...typing import ArrayLike, DTypeLike, SelectorLike
from ..layers import Linear
from ..module import Module

_M = TypeVar("_M", bound=Module)

NF4_CODEBOOK: tuple[float, ...]

class NF4Weight(NamedTuple):
    codes: Tensor
    scales: Tensor
    shape: tuple[int, ...]

def quantize_nf4(weight: ArrayLike, block_size: int = 64) -> NF4Weight: ...
def dequantize_nf4(qweight: NF4Weight, dtype: DTypeLike | None = None) -> Tensor: ...
def nf4_linear(x: ArrayLike, weight: NF4Weight, bias: ArrayLike | None = None) -> Tensor: ...
def qlora_linear(
    x: ArrayLike, qweight: NF4Weight, adapter: dict[str, Tensor], alpha: float = 1.0, *,
    compute_dtype: DTypeLike | None = None
) -> Tensor: ...

class NF4Linear(Module):
    in_features: int
    out_features: int
    block_size: int
    codes: Tensor
    scales: Tensor
    bias: Tensor | None
    def __init__(self, linear: Linear, block_size: int = 64) -> None: ...
    def quantized(self) -> NF4Weight: ...
    def forward(self, x: ArrayLike) -> Tensor: ...
    def extra_repr(self) -> str: ...

class QLoRALinear(Module):
    base: NF4Linear
    rank: int
    alpha: float
    lora_A: Tensor
    lora_B: Tensor
    def __init__(
        self, linear: Linear, rank: int = 8, alpha: float | None = None, *, block_size: int = 64,
        init_std: float = 0.01, key: int | Tensor | None = None
    ) -> None: ...
    def forward(self, x: ArrayLike) -> Tensor: ...
    def extra_repr(self) -> str: ...

def apply_qlora(
    model: _M, rank: int = 8, alpha: float | None = None, selector: SelectorLike = "parameters", *,
    block_size: int = 64, init_std: float = 0.01, key: int | Tensor | None = None
) -> _M: ...
def quantize_linear(model: _M, selector: SelectorLike = "parameters", block_size: int = 64) -> _M: ...
