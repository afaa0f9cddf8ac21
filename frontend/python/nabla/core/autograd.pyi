"""Types of nabla.core.autograd, which //tests/python:types_test holds to the module."""

from ..autograd import backward as backward
from ..transforms.derivatives import grad as grad
from ..transforms.derivatives import jvp as jvp
from ..transforms.derivatives import value_and_grad as value_and_grad
from ..transforms.derivatives import vjp as vjp
from ..transforms.jacobians import jacfwd as jacfwd
from ..transforms.jacobians import jacrev as jacrev

