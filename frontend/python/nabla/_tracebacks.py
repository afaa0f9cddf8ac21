"""Tracebacks of uncaught errors without the package's own frames: they end at the line of the user's that was refused.

`nabla.config.full_tracebacks = True`, or the environment variable NABLA_FULL_TRACEBACKS, has all frames printed.
"""

import os
import sys
import threading
import types

from ._nabla import Error

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
# The errors that the package raises about its arguments. Any other error is a bug of the package: its frames are shown.
_REFUSALS = (Error, TypeError, ValueError, IndexError, KeyError, OverflowError, NotImplementedError, RuntimeError)


def from_environment():
    """What the environment says of full_tracebacks."""
    return os.environ.get("NABLA_FULL_TRACEBACKS", "").lower() not in ("", "0", "false", "no")


def user_level():
    """Returns the `stacklevel` that makes a warning of the caller point to the user's line."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        level, frame = level + 1, frame.f_back
    return level


def _is_own(traceback):
    return traceback.tb_frame.f_code.co_filename.startswith(_OWN)


def shortened(error):
    """The traceback of an error without the package's frames, or all of it where the error shows a fault of theirs."""
    whole, frames = error.__traceback__, []
    while whole is not None:
        frames.append(whole)
        whole = whole.tb_next
    kept = [frame for frame in frames if not _is_own(frame)]
    if not kept or _is_own(frames[-1]) and not isinstance(error, _REFUSALS):
        return error.__traceback__
    out = None
    for frame in reversed(kept):
        out = types.TracebackType(out, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return out


def shorten(error):
    """Takes the package's frames out of the tracebacks of an error and of those that led to it."""
    left, seen = [error], set()
    while left:
        e = left.pop()
        if e is not None and id(e) not in seen:
            seen.add(id(e))
            e.__traceback__ = shortened(e)
            left += [e.__cause__, e.__context__]


def install(is_full):
    """Installs the short tracebacks for uncaught errors of all threads. `is_full()` turns them off."""
    hook, thread_hook = sys.excepthook, threading.excepthook

    def print_error(kind, error, traceback):
        if isinstance(error, Exception) and not is_full():
            shorten(error)
            traceback = error.__traceback__
        hook(kind, error, traceback)

    def print_error_of_thread(args):
        if isinstance(args.exc_value, Exception) and not is_full():
            shorten(args.exc_value)
            row = (args.exc_type, args.exc_value, args.exc_value.__traceback__, args.thread)
            args = threading.ExceptHookArgs(row)
        thread_hook(args)

    sys.excepthook, threading.excepthook = print_error, print_error_of_thread
