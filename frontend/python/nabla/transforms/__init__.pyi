"""Types of nabla.transforms, which //tests/python:types_test holds to the module."""

from . import batching as batching, control as control, derivatives as derivatives, jacobians as jacobians
from . import logical as logical, memory as memory, rules as rules, shapes as shapes, sharding as sharding
from .batching import *
from .control import *
from .derivatives import *
from .jacobians import *
from .logical import *
from .memory import *
from .rules import *
from .shapes import *
from .sharding import *
