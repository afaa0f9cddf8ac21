"""Function transforms: derivatives, batches, branches and loops. They nest in any order.

Outside of a compiled function they work at once, on the values at hand; inside of one they become part of it.
"""

from . import batching, control, derivatives, jacobians, logical, memory, rules, shapes, sharding
from .batching import *  # noqa: F401,F403
from .control import *  # noqa: F401,F403
from .derivatives import *  # noqa: F401,F403
from .jacobians import *  # noqa: F401,F403
from .logical import *  # noqa: F401,F403
from .memory import *  # noqa: F401,F403
from .rules import *  # noqa: F401,F403
from .shapes import *  # noqa: F401,F403
from .sharding import *  # noqa: F401,F403

__all__ = sorted({name for m in (batching, control, derivatives, jacobians, logical, memory, rules, shapes, sharding)
                  for name in m.__all__})
