"""Derivatives: see nabla.transforms and nabla.autograd."""

from ..autograd import backward
from ..transforms import grad, jacfwd, jacrev, jvp, value_and_grad, vjp

__all__ = ["backward", "grad", "jacfwd", "jacrev", "jvp", "value_and_grad", "vjp"]
