"""Types of nabla.nn.finetune, which //tests/python:types_test holds to the module."""

from .checkpoint import *
from .lora import *
from .qlora import *
