"""Devices and defaults. Tensors live in the memory of the host; programs for GPUs are compiled (nabla.jit,
nabla.export) with a target, and bring their data there themselves."""

import contextlib
import contextvars
import ctypes
import os

from ._core import Error, Tensor, asarray, default_dtype, default_float
from .tree import tree_map

_default = contextvars.ContextVar("nabla_default_device", default=None)


class Device:
    """A place for tensors: CPU() or Accelerator(i). Equal ones compare equal."""

    __slots__ = ("kind", "index")

    def __init__(self, kind, index=0):
        self.kind, self.index = kind, index

    @property
    def is_host(self):
        """Whether it is the CPU."""
        return self.kind == "cpu"

    def __eq__(self, other):
        return isinstance(other, Device) and (self.kind, self.index) == (other.kind, other.index)

    def __hash__(self):
        return hash((self.kind, self.index))

    def __repr__(self):
        return "CPU()" if self.is_host else f"Accelerator({self.index})"


class CPU(Device):
    """The host."""

    __slots__ = ()

    def __init__(self, index=0):
        if index != 0:
            raise ValueError(f"CPU({index}): there is one CPU device, CPU()")
        super().__init__("cpu", 0)


class Accelerator(Device):
    """GPU `index`. Raises Error when this machine has none, or not so many."""

    __slots__ = ()

    def __init__(self, index=0):
        count = accelerator_count()
        if not 0 <= index < count:
            raise Error(f"Accelerator({index}): this machine has {count or 'no'} GPU{'' if count == 1 else 's'} that "
                        "its CUDA driver (libcuda.so.1) knows; nabla.CPU() is always there")
        super().__init__("gpu", index)


def accelerator_count():
    """How many GPUs the CUDA driver of this machine knows."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def device_of(device):
    """A Device from a Device, "cpu", "gpu", "cuda", or "gpu:1"."""
    if isinstance(device, Device):
        return device
    if isinstance(device, str):
        kind, _, index = device.partition(":")
        if kind == "cpu":
            return CPU(int(index or 0))
        if kind in ("gpu", "cuda", "accelerator"):
            return Accelerator(int(index or 0))
    raise TypeError(f"{device!r} is no device: nabla.CPU(), nabla.Accelerator(i), \"cpu\" or \"gpu:0\"")


def default_device_now():
    """The device of new tensors: of the innermost default_device, else NABLA_DEFAULT_DEVICE, else the CPU."""
    found = _default.get()
    return found if found is not None else device_of(os.environ.get("NABLA_DEFAULT_DEVICE", "cpu"))


@contextlib.contextmanager
def default_device(device):
    """Within the context, new tensors are made on this device."""
    device = device_of(device)
    _need_host(device)
    token = _default.set(device)
    try:
        yield device
    finally:
        _default.reset(token)


@contextlib.contextmanager
def defaults(dtype=None, device=None):
    """default_dtype and default_device in one; None leaves what is."""
    with contextlib.ExitStack() as stack:
        if dtype is not None:
            stack.enter_context(default_dtype(dtype))
        if device is not None:
            stack.enter_context(default_device(device))
        yield


@contextlib.contextmanager
def defaults_like(x):
    """defaults of a tensor: its dtype, if floating, and its device."""
    with defaults(x.dtype if x.dtype.is_float() else None, CPU()):
        yield


def _need_host(device):
    if not device.is_host:
        raise Error(f"tensors on {device}: Python's tensors live in host memory. Compile for the GPU instead, with "
                    "nabla.jit(f, target=\"cuda:...\") or nabla.export, whose programs keep their state on the device")


def to_device(x, device):
    """x, or all tensors of a tree, on a device. On the CPU already: itself. Raises Error for an Accelerator."""
    _need_host(device_of(device))
    return tree_map(lambda t: t if isinstance(t, Tensor) else asarray(t), x)


def transfer_to(x, device=None, sharding=None):
    """x, or all tensors of a tree, on a device, or laid out as a ShardingSpec or a pair such as (mesh, P("dp")) says;
    the derivative goes the same way back. Raises TypeError for neither and for both."""
    if (device is None) == (sharding is None):
        raise TypeError("transfer_to: " + ("neither a device nor a sharding" if device is None else
                                           "a device and a sharding: a layout says which rank has what"))
    if sharding is None:
        return to_device(x, device)
    from .ops.communication import _laid_out_as
    return _laid_out_as("transfer_to", x, sharding)


def cpu(x):
    """x on the CPU."""
    return to_device(x, CPU())


def accelerator(x, id=0):
    """x on GPU `id`: see to_device."""
    return to_device(x, Accelerator(id))


gpu = cuda = accelerator


def default_defaults():
    """(default dtype, default device) as they are now."""
    return default_float(), default_device_now()


__all__ = [
    "Accelerator", "CPU", "Device", "accelerator", "accelerator_count", "cpu", "cuda", "default_device", "defaults",
    "defaults_like", "device_of", "gpu", "to_device", "transfer_to",
]
