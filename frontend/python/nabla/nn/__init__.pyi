"""Types of nabla.nn, which //tests/python:types_test holds to the module."""

from . import finetune as finetune, functional as functional, init as init, optim as optim, selectors as selectors
from .attention import *
from .checkpoints import *
from .containers import *
from .conv import *
from .layers import *
from .losses import *
from .module import *
from .recurrent import *
from .rng import *
from .selectors import SelectorError as SelectorError
from .selectors import freeze as freeze
from .selectors import merge as merge
from .selectors import partition as partition
from .selectors import select as select
from .selectors import unfreeze as unfreeze
from .training import *
