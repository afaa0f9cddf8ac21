"""All functions of tensors, by kind. Everything here is also in `nabla` itself."""

from . import (  # noqa: F401
    base, binary, communication, comparison, control_flow, convolution, creation, functional, gathering, indexing,
    multi_output, nans, numbers, places, polynomial, pooling, reduction, sets, signal, sorting, statistics, unary, view)
from .base import *  # noqa: F401,F403
from .binary import *  # noqa: F401,F403
from .communication import *  # noqa: F401,F403
from .comparison import *  # noqa: F401,F403
from .control_flow import *  # noqa: F401,F403
from .convolution import *  # noqa: F401,F403
from .creation import *  # noqa: F401,F403
from .functional import *  # noqa: F401,F403
from .gathering import *  # noqa: F401,F403
from .multi_output import *  # noqa: F401,F403
from .nans import *  # noqa: F401,F403
from .numbers import *  # noqa: F401,F403
from .places import *  # noqa: F401,F403
from .polynomial import *  # noqa: F401,F403
from .pooling import *  # noqa: F401,F403
from .reduction import *  # noqa: F401,F403
from .sets import *  # noqa: F401,F403
from .signal import *  # noqa: F401,F403
from .sorting import *  # noqa: F401,F403
from .statistics import *  # noqa: F401,F403
from .unary import *  # noqa: F401,F403
from .view import *  # noqa: F401,F403
from .._hints import module_getattr as _module_getattr  # noqa: E402

__getattr__ = _module_getattr(__name__)

__all__ = sorted({name for module in (
    base, binary, communication, comparison, control_flow, convolution, creation, functional, gathering, multi_output,
    nans, numbers, places, polynomial, pooling, reduction, sets, signal, sorting, statistics, unary, view)
    for name in module.__all__})
