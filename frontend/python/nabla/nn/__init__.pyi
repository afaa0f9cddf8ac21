"""Types of nabla.nn, which //tests/python:types_test holds to the module."""

from . import attention as attention, checkpoints as checkpoints, containers as containers, conv as conv
from . import finetune as finetune, functional as functional, init as init, layers as layers, losses as losses
from . import module as module, optim as optim, recurrent as recurrent, rng as rng, selectors as selectors
from . import training as training
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
