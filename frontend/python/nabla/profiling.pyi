"""Types of nabla.profiling, which //tests/python:types_test holds to the module."""

from typing import Any, NamedTuple

class Row(NamedTuple):
    name: str
    kind: str
    problem: str
    source: str
    calls: float
    seconds: float
    flops: float | None
    bytes: float | None
    of_peak: float | None

class Memory:
    arena: int
    peak: int | str
    constants: int
    buffers: list[tuple[int, str, str, str]]
    def __init__(self, report: dict[str, Any]) -> None: ...

class Profile:
    rows: list[Row]
    seconds: float
    runs: int
    def __init__(self, rows: list[Row], seconds: float, runs: int, text: str) -> None: ...

def memory_of(bundle: Any) -> Memory: ...
def profile_of(profiled: Any, tensors: list[Any], runs: int) -> Profile: ...
