"""Types of nabla.nn.recurrent, which //tests/python:types_test holds to the module."""

from typing import Any, Generic, TypeVar

from .._nabla import Tensor
from ..typing import ArrayLike, DTypeLike
from .layers import Dropout
from .module import Module

_S = TypeVar("_S")  # of a cell's state

class _Cell(Module, Generic[_S]):
    input_size: int
    hidden_size: int
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, *, dtype: DTypeLike | None = None,
        key: int | Tensor | None = None
    ) -> None: ...
    def init_state(self, batch: int, dtype: DTypeLike | None = None) -> _S: ...
    def project(self, x: ArrayLike) -> Tensor: ...
    def advance(self, state: _S, share: Tensor) -> _S: ...
    def forward(self, state: _S, x: ArrayLike) -> tuple[_S, Tensor]: ...
    def extra_repr(self) -> str: ...

class RNNCell(_Cell[Tensor]):
    nonlinearity: str
    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", *,
        dtype: DTypeLike | None = None, key: int | Tensor | None = None
    ) -> None: ...

class GRUCell(_Cell[Tensor]): ...

class LSTMCell(_Cell[tuple[Tensor, Tensor]]): ...

def run_cell(
    cell: _Cell[_S], x: ArrayLike, state: _S | None = None, lengths: ArrayLike | None = None, reverse: bool = False
) -> tuple[Tensor, _S]: ...

class _Recurrent(Module, Generic[_S]):
    input_size: int
    hidden_size: int
    num_layers: int
    bidirectional: bool
    cells: list[list[Any]]
    dropout: Dropout
    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, dropout: float = 0.0,
        bidirectional: bool = False, *, dtype: DTypeLike | None = None, key: int | Tensor | None = None, **options: Any
    ) -> None: ...
    def forward(
        self, x: ArrayLike, state: list[list[_S]] | None = None, lengths: ArrayLike | None = None
    ) -> tuple[Tensor, list[list[_S]]]: ...
    def extra_repr(self) -> str: ...

class RNN(_Recurrent[Tensor]): ...

class GRU(_Recurrent[Tensor]): ...

class LSTM(_Recurrent[tuple[Tensor, Tensor]]): ...
