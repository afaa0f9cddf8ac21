from . import rules as rules
from . import schedules as schedules
from .functional import *
from .gradients import *
from .stateful import *
