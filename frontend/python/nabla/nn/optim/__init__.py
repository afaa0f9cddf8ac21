"""Optimisers, learning rates, clipping.

Stateful: `opt = AdamW(model, lr=1e-3); opt.step(gradients)`. Functional, for compiled steps: `tx = adamw(1e-3);
state = tx.init(params); params, state = tx.update(params, gradients, state)`, or adamw_init and adamw_update.
"""

from ..._hints import module_getattr as _module_getattr
from . import rules, schedules  # noqa: F401
from .functional import *  # noqa: F401,F403
from .gradients import *  # noqa: F401,F403
from .stateful import *  # noqa: F401,F403

__getattr__ = _module_getattr(__name__)
