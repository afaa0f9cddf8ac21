"""Kernels of one's own: C++ or CUDA source that is compiled into the program (docs/user-kernels.md).

    swish = nb.cpp_kernel("swish", "T[n] -> T[n]", '''
      #include <math.h>
      void swish(const T* x, T* y, int64_t n) {
        for (int64_t i = 0; i < n; ++i) y[i] = x[i] / (1 + exp(-x[i]));
      }''').reference(lambda x: x * nb.sigmoid(x)).factors("n->n")
    y = nb.jit(swish)(x)

Source is compiled where programs are: in nabla.jit, nabla.export and nablac. Elsewhere there is no compiler: the
kernel's `reference` is computed, and a kernel without one cannot be called.
"""

import linecache
import os
import re
import sys

from . import _nabla
from ._core import Error, Tensor, asarray, dtype_of
from .tree import is_array
from .devices import device_of

_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
_SHORT = {"bfloat": "bf", "float": "f", "uint": "u", "int": "i"}


class Kernel:
    """A kernel: a function of tensors. Made by cpp_kernel and cuda_kernel; its methods return kernels with one more
    rule.

    A call takes as many tensors, arrays or numbers as the signature has operands, and returns the result, or a tuple
    of them where the signature has several.
    """

    __slots__ = ("_native", "_has_reference", "name")

    def __init__(self, native, has_reference=False):
        self._native, self._has_reference = native, has_reference
        self.name = native.name

    def __repr__(self):
        return f"<kernel {self.name}>"

    def __call__(self, *operands):
        if not self._has_reference and not _nabla.is_tracing():
            _nabla.fail(304, f"kernel `{self.name}` has no reference, which is what is computed outside of compiled "
                             "functions: there is no compiler",
                        f"call it in a function that nabla.jit compiles, or give it one: {self.name}.reference(f)")
        out = self._native.results([asarray(x) for x in operands])
        return out[0] if len(out) == 1 else tuple(out)

    def cuda(self, source, threads=256, blocks="", shared_bytes=0):
        """The kernel, for GPUs too: CUDA `source` defines the function, which every thread of the grid calls.

        threads: per block, 1 to 1024. blocks: a size over the names of the signature, "ceildiv(n, 256)"; empty: as many
        as make a thread per element of the first result. shared_bytes: dynamic shared memory per block.
        """
        return Kernel(self._native.cuda(source, threads, blocks, shared_bytes, *_place(source)), self._has_reference)

    def reference(self, f):
        """The kernel with the meaning `f(*operands)`, in ops: for derivatives, for calls outside of compiled functions,
        and for tests. It returns a tensor or a tuple of them, and uses no values from outside."""
        return Kernel(self._native.reference(_flat(f, f"the reference of {self.name}")), True)

    def vjp(self, f):
        """The kernel with a derivative: `f(*operands, *results, *cotangents)`, a cotangent per floating result,
        returns a
        gradient per floating operand: a tensor or a tuple. Without it the derivative is that of the reference."""
        return Kernel(self._native.vjp(_flat(f, f"the vjp of {self.name}")), self._has_reference)

    def factors(self, text):
        """The kernel that may be split: a letter per dimension, "nd,d->nd". Dimensions that results keep are shared out
        to threads. Without it one thread computes a call."""
        return Kernel(self._native.factors(text), self._has_reference)

    def batching(self, how):
        """How vmap runs it. "sequential", the default: a call per example, in a loop. "leading": one call, whose code
        takes the number of examples as `int64_t batch` before the sizes; every array has the examples one after the
        other."""
        if how not in ("sequential", "leading"):
            raise ValueError(f'batching is "sequential" or "leading", got {how!r}')
        return Kernel(self._native.batching(how == "leading"), self._has_reference)


def _flat(f, what):
    """`f` as the module calls it: it returns a list of tensors."""
    if not callable(f):
        raise TypeError(f"{what} is a function of tensors, got {type(f).__name__}")

    def flat(*values):
        out = f(*values)
        out = list(out) if isinstance(out, (tuple, list)) else [out]
        for x in out:
            if not is_array(x):
                raise TypeError(f"{what} returns a {type(x).__name__}: return a tensor or a tuple of tensors")
        return [asarray(x) for x in out]

    return flat


def _place(source):
    """`(file, line)` at which the text of `source` stands in the caller's file; nothing where it is made in another
    way.

    The compiler's messages name lines of that file.
    """
    if not isinstance(source, str):
        raise TypeError(f"a kernel's source is text, got {type(source).__name__}")
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_FOLDER):
        frame = frame.f_back
    name = frame.f_code.co_filename
    text = "".join(linecache.getlines(name, frame.f_globals))
    if not source.strip() or source not in text:
        return ()
    # The call may be after its source, or its source begin in one of its own lines.
    begin = sum(len(line) for line in linecache.getlines(name)[:frame.f_lineno - 1])
    at = text.find(source, begin)
    at = at if at >= 0 else text.rfind(source, 0, begin + len(source))
    return name, text.count("\n", 0, at) + 1


def cpp_kernel(name, signature, source):
    """A kernel whose function `name` is defined by the C++ `source`, for CPUs; `.cuda(source)` adds GPUs.

    signature: its types and its shape rule, "T[n,d], f32[d] -> T[n,d], i32[n]": T stands for one dtype, names for
    sizes. The function takes a `const T*` per operand, a `T*` per result and an `int64_t` per name of the signature,
    and returns nothing. Raises Error where operands do not fit (E0203 and others), and, when a program with it is
    compiled, for source that does not compile (E0504: the compiler's message and the line of the source).
    """
    return Kernel(_nabla.cpp_kernel(name, signature, source, *_place(source)))


def cuda_kernel(name, signature, source, threads=256, blocks="", shared_bytes=0):
    """A kernel for GPUs alone, as Kernel.cuda adds it. A program with it compiles for no CPU: Error (E0403)."""
    return Kernel(_nabla.cuda_kernel(name, signature, source, threads, blocks, shared_bytes, *_place(source)))


def _type_name(dtype):
    name = dtype.name
    for long, short in _SHORT.items():
        if name.startswith(long):
            return name.replace(long, short, 1)
    return name


def _operand_type(shape, dtype):
    return f"{_type_name(dtype)}[{','.join(str(n) for n in shape)}]"


def call_custom_kernel(func_name, kernel_path, values, out_types, device=None, *, reference=None, vjp=None,
                       factors=None, batching=None):
    """Calls the function `func_name` of the C++ file `kernel_path` on `values`, a tensor or several.

    out_types: the type of the result, or a list of them: what has a shape and a dtype, such as nabla.spec or a tensor,
    or a pair `(shape, dtype)`. The function takes a `const T*` per value and a `T*` per result, and no sizes: they are
    those of this call. Returns a tensor, or a list where out_types is one. `reference` and the rest are rules as those
    of Kernel.
    device: only the host; programs for GPUs need cuda_kernel.
    Raises Error for source that does not compile (E0504, with the file's line), OSError where there is no such file.
    """
    if device is not None and not device_of(device).is_host:
        raise Error(f"call_custom_kernel: a C++ file runs on the CPU, not on {device_of(device)}: "
                    "use nabla.cuda_kernel")
    path = os.path.abspath(os.fspath(kernel_path))
    with open(path, encoding="utf-8") as file:
        source = file.read()
    operands = [asarray(v) for v in (values if isinstance(values, (tuple, list)) else [values])]
    several = isinstance(out_types, list)
    wanted = [_shape_and_dtype(t) for t in (out_types if several else [out_types])]
    for x in operands:
        if not all(isinstance(n, int) for n in x.shape):
            raise Error(f"call_custom_kernel: {x.type_str()} has sizes that are known at run time only: name them in "
                        "the signature of nabla.cpp_kernel")
    signature = ", ".join(_operand_type(x.shape, x.dtype) for x in operands)
    signature += " -> " + ", ".join(_operand_type(*t) for t in wanted)
    if not re.fullmatch(r"[A-Za-z_]\w*", func_name):
        raise ValueError(f"call_custom_kernel: {func_name!r} is no name of a C++ function")
    kernel = Kernel(_nabla.cpp_kernel(func_name, signature, source, path, 1))
    for rule, given in (("reference", reference), ("vjp", vjp), ("factors", factors), ("batching", batching)):
        if given is not None:
            kernel = getattr(kernel, rule)(given)
    out = kernel(*operands)
    return list(out if isinstance(out, tuple) else (out,)) if several else out


def _shape_and_dtype(t):
    if isinstance(t, tuple) and len(t) == 2:
        return tuple(t[0]), dtype_of(t[1])
    if not hasattr(t, "shape") or not hasattr(t, "dtype"):
        raise TypeError(f"call_custom_kernel: out_types has {t!r}, which is no type: nabla.spec(shape, dtype)")
    return tuple(t.shape), t.dtype if isinstance(t, Tensor) else dtype_of(t.dtype)


__all__ = ["Kernel", "call_custom_kernel", "cpp_kernel", "cuda_kernel"]
