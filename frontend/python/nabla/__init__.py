"""Nabla: programs are traced, differentiated and compiled ahead of time."""

from nabla import _nabla

__version__ = _nabla.version()
