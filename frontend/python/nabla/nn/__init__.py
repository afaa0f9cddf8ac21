"""Layers, losses, optimisers and what belongs to training."""

from .._hints import module_getattr as _module_getattr
from . import finetune, functional, init, optim, selectors
from .attention import *  # noqa: F401,F403
from .checkpoints import *  # noqa: F401,F403
from .containers import *  # noqa: F401,F403
from .conv import *  # noqa: F401,F403
from .layers import *  # noqa: F401,F403
from .losses import *  # noqa: F401,F403
from .module import *  # noqa: F401,F403
from .recurrent import *  # noqa: F401,F403
from .rng import *  # noqa: F401,F403
from .selectors import SelectorError, freeze, merge, partition, select, unfreeze  # noqa: F401
from .training import *  # noqa: F401,F403

_ = finetune, functional, init, optim, selectors
__getattr__ = _module_getattr(__name__)
