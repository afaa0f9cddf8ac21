"""Fine-tuning with few parameters: adapters, four-bit weights, their checkpoints."""

from .checkpoint import *  # noqa: F401,F403
from .lora import *  # noqa: F401,F403
from .qlora import *  # noqa: F401,F403
