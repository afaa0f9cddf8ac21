from contextlib import AbstractContextManager
from .._nabla import Tensor

def rngs(key: int | Tensor) -> AbstractContextManager[None]: ...
