"""Types of nabla.nn.finetune, which //tests/python:types_test holds to the module."""

from . import checkpoint as checkpoint, lora as lora, qlora as qlora
from .checkpoint import *
from .lora import *
from .qlora import *
