"""Types of nabla.testing, which //tests/python:types_test holds to the module."""

from typing import Any

def assert_allclose(
    actual: Any, desired: Any, rtol: float = 1e-05, atol: float = 1e-06, equal_nan: bool = True
) -> None: ...
def batch_realize(*trees: Any) -> None: ...
