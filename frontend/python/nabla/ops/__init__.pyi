"""Types of nabla.ops, which //tests/python:types_test holds to the module."""

from . import base as base
from . import binary as binary
from . import communication as communication
from . import comparison as comparison
from . import control_flow as control_flow
from . import convolution as convolution
from . import creation as creation
from . import functional as functional
from . import gathering as gathering
from . import indexing as indexing
from . import multi_output as multi_output
from . import nans as nans
from . import numbers as numbers
from . import places as places
from . import polynomial as polynomial
from . import pooling as pooling
from . import reduction as reduction
from . import sets as sets
from . import signal as signal
from . import sorting as sorting
from . import statistics as statistics
from . import unary as unary
from . import view as view
from .base import *
from .binary import *
from .communication import *
from .comparison import *
from .control_flow import *
from .convolution import *
from .creation import *
from .functional import *
from .gathering import *
from .multi_output import *
from .nans import *
from .numbers import *
from .places import *
from .polynomial import *
from .pooling import *
from .reduction import *
from .sets import *
from .signal import *
from .sorting import *
from .statistics import *
from .unary import *
from .view import *
