"""Types of nabla.ops.control_flow, which //tests/python:types_test holds to the module."""

from collections.abc import Sequence
from .._nabla import Tensor
from ..typing import ArrayLike
from ..nn.selectors import Selector
from ..transforms.control import associative_scan as associative_scan
from ..transforms.control import cond as cond
from ..transforms.control import fori_loop as fori_loop
from ..transforms.control import scan as scan
from ..transforms.control import switch as switch
from ..transforms.control import while_loop as while_loop

def where(condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None) -> Tensor: ...
def select(conditions: Sequence[ArrayLike], choices: Sequence[ArrayLike], default: ArrayLike = 0) -> Selector: ...
