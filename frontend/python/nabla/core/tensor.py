"""Tensors: see nabla."""

from .._core import DType, Tensor, asarray

__all__ = ["DType", "Tensor", "asarray"]
