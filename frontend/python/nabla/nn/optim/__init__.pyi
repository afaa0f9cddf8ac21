"""Types of nabla.nn.optim, which //tests/python:types_test holds to the module."""

from . import functional as functional, gradients as gradients, rules as rules, schedules as schedules
from . import stateful as stateful
from .functional import *
from .gradients import *
from .stateful import *
