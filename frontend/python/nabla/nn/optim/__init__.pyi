"""Types of nabla.nn.optim, which //tests/python:types_test holds to the module."""

from . import rules as rules
from . import schedules as schedules
from .functional import *
from .gradients import *
from .stateful import *
