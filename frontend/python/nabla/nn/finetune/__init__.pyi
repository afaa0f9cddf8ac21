from .checkpoint import *
from .lora import *
from .qlora import *
