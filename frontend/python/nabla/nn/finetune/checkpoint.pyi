"""Types of nabla.nn.finetune.checkpoint, which //tests/python:types_test holds to the module."""

from typing import Any
from ...typing import StrPath

def save_finetune_checkpoint(
    path: StrPath, *, lora_params: Any, optimizer_state: Any = None, metadata: dict[str, str] | None = None
) -> None: ...
def load_finetune_checkpoint(
    path: StrPath, *, lora_template: Any, optimizer_template: Any = None
) -> tuple[Any, Any, dict[str, str]]: ...
