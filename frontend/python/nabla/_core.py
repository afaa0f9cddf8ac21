"""What every module of the package uses: element types, conversion to tensors, contexts of defaults."""

import contextlib
import contextvars
import functools
import operator

from . import _nabla
from ._nabla import Dim, DType, Error, Tensor

_NAMES = {name: getattr(DType, name) for name in DType.__members__}
_PYTHON = {bool: DType.bool, int: DType.int32, float: DType.float32}
_default_dtype = contextvars.ContextVar("nabla_default_dtype", default=DType.float32)


def dtype_of(x):
    """A DType from a DType, a name ("float32", "bf16"), a NumPy dtype or type, or bool / int / float."""
    if isinstance(x, DType):
        return x
    if x in _PYTHON:
        return _default_dtype.get() if x is float else _PYTHON[x]
    name = x if isinstance(x, str) else getattr(x, "name", None) or getattr(x, "__name__", None)
    name = {"bool_": "bool", "bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64",
            "half": "float16", "float": "float32", "double": "float64", "int": "int32"}.get(name, name)
    if name in _NAMES:
        return _NAMES[name]
    raise TypeError(f"{x!r} is no element type: one of {', '.join(_NAMES)}")


def default_float():
    """The dtype of floating tensors that are made without one."""
    return _default_dtype.get()


@contextlib.contextmanager
def default_dtype(dtype):
    """Within the context, floating tensors that are made without a dtype have this one."""
    token = _default_dtype.set(dtype_of(dtype))
    try:
        yield
    finally:
        _default_dtype.reset(token)


def whole(value):
    """An integer of Python's or NumPy's as an int; None for all else, True and False too."""
    if isinstance(value, (bool, Dim)) or getattr(value, "shape", ()) != ():
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def asarray(x, dtype=None):
    """A tensor of x: a tensor, a number, nested lists of numbers, or an array (buffer protocol or DLPack), copied. A
    size of a traced tensor that is known only at run time is a number too.

    Without `dtype`: Python's bools are bool, ints int32, floats the default dtype; arrays and NumPy's scalars keep
    theirs, alone and in lists: np.float64(0.1) is float64. With one,
    numbers are converted as `astype` does it: floats become integers by truncation, at most the nearest that fits, and
    all but 0 is True. Raises OverflowError for ints that do not fit into `dtype`, and ValueError for ints that do not
    fit into int32 without a `dtype`, and for those beyond 64 bits.
    """
    if isinstance(x, Tensor):
        return x if dtype is None or x.dtype == dtype_of(dtype) else astype(x, dtype)
    if is_number(x):
        if dtype is None and isinstance(x, float):
            dtype = default_float()
        return _nabla.from_numbers(x, None if dtype is None else dtype_of(dtype))
    if isinstance(x, Dim):
        return of_size(x) if dtype is None else astype(of_size(x), dtype)
    if isinstance(x, range):
        x = list(x)
    if isinstance(x, (list, tuple)):
        return _of_list(x, None if dtype is None else dtype_of(dtype))
    if hasattr(x, "__array__") or _has_buffer(x):
        out = _from_array(x)
        return out if dtype is None else astype(out, dtype)
    if hasattr(x, "__dlpack__"):
        out = _nabla.from_dlpack(x)
        return out if dtype is None else astype(out, dtype)
    raise TypeError(f"{type(x).__name__} makes no tensor: pass numbers, nested lists or arrays")


def _flat(x):
    for item in x:
        if isinstance(item, (list, tuple)):
            yield from _flat(item)
        else:
            yield item


def _listed(x):
    return [_listed(i) if isinstance(i, (list, tuple)) else i.tolist() if hasattr(i, "tolist") else i for i in x]


def _of_list(x, dtype):
    leaves = list(_flat(x))
    if any(isinstance(leaf, (Tensor, Dim)) for leaf in leaves):
        dtype = dtype or result_type(*leaves)
        return _nabla.stack([asarray(i, dtype) for i in x], 0)
    plain = all(is_number(leaf) for leaf in leaves)
    if dtype is None and not plain:
        dtype = result_type(*leaves)
    elif dtype is None and any(isinstance(leaf, float) for leaf in leaves):
        dtype = default_float()
    return _nabla.from_numbers(x if plain else _listed(x), dtype)


def _has_buffer(x):
    try:
        memoryview(x).release()
        return True
    except TypeError:
        return False


def _from_array(x):
    if type(x).__name__ == "bfloat16" or getattr(getattr(x, "dtype", None), "name", "") == "bfloat16":
        return astype(_nabla.from_buffer(x.astype("float32")), DType.bfloat16)
    if not _has_buffer(x):
        import numpy
        x = numpy.asarray(x)
    return _nabla.from_buffer(x)


def several(tensors):
    """What a function of `*tensors` got: one list or tuple of them is as good as each by itself."""
    all_of = tuple(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    for t in all_of:
        if not isinstance(t, Tensor):
            raise TypeError(f"tensors are expected, one by one or in one list; got a {type(t).__name__}")
    return all_of


def is_number(x):
    """Whether x is a Python number. NumPy's float64 has a dtype and does not count, though it subclasses float."""
    return type(x) in _PYTHON or isinstance(x, (int, float)) and not hasattr(x, "dtype")


def operand(x):
    """x as the functions of `_nabla` take it: tensors and Python numbers as they are, everything else a tensor."""
    if isinstance(x, Tensor) or type(x) in (bool, int, float):
        return x
    return asarray(x)


def astype(x, dtype):
    """x converted element by element. Floats become integers by truncation, at most the nearest that fits."""
    if is_number(x):
        return asarray(x, dtype)
    x, dtype = asarray(x), dtype_of(dtype)
    exact = x if x._exact is None else x._exact
    return exact if exact.dtype == dtype else _nabla.emit("convert", [exact], {"dtype": dtype})[0]


def _value(dtype, x=0):
    """nabla.float32(x): x as a tensor of this dtype."""
    return asarray(x, dtype)


DType.__call__ = _value


# ---- Python floats that functions get as tensors, because they are traced


Tensor._exact = None  # of a weak tensor: the float64 tensor that it was rounded from


def is_weak(x):
    """Whether x is a Python int or float, or a weak tensor."""
    return x._exact is not None if isinstance(x, Tensor) else type(x) in (int, float)


def weak_floats(x):
    """x as a tensor. A Python float becomes a weak tensor, which is not rounded to float32 before it meets float64."""
    return weak(asarray(x, DType.float64)) if type(x) is float else asarray(x)


def of_size(dim):
    """The weak int32 scalar of a size that is known only at run time. It is promoted as a Python int is."""
    low = dim.bounds[0]
    if low >= 0:
        return weak(_nabla.emit("element_count", [], {"shape": [dim], "dtype": DType.int64})[0])
    count = _nabla.emit("element_count", [], {"shape": [dim - low], "dtype": DType.int64})[0]
    return weak(_nabla.emit("add", [count, _nabla.from_numbers(low, DType.int64)], {})[0])


def weak(exact):
    """A tensor that stands for a Python number: `exact`, a float64 or int64 tensor, in the dtype that it has alone.

    Beside other tensors it takes their dtype, as Python's numbers do, and is converted from `exact`: a float that
    nabla.jit traces is not rounded to float32 before it meets float64.
    """
    dtype = default_float() if exact.dtype.is_float() else DType.int32
    out = exact._copied() if exact.dtype == dtype else astype(exact, dtype)
    out._exact = exact
    return out


def rebind(x, new):
    """Gives x itself the elements of `new`."""
    x._rebind(new)
    if x._exact is not None:
        x._exact = None


def weakly(f):
    """An operator `f` whose result is weak when its operands are: each is a weak tensor or a Python number. Functions
    such as nabla.add give tensors that are not weak, of Python's floats too."""
    @functools.wraps(f)
    def made(*xs, **named):
        for x in xs:
            if isinstance(x, Tensor) and x._exact is not None:
                break
        else:
            return f(*xs, **named)
        if named or not all(x._exact is not None if isinstance(x, Tensor) else is_number(x) for x in xs):
            return f(*xs, **named)
        out = f(*[x._exact if isinstance(x, Tensor) else x for x in xs])
        return weak(out) if out.dtype in (DType.float64, DType.int64) else out

    return made


# ---- Promotion, by JAX's table (jax.readthedocs.io, "Type promotion semantics"); Python numbers are weak.
_ORDER = {d: i for i, d in enumerate([
    DType.bool, DType.uint8, DType.uint16, DType.uint32, DType.uint64, DType.int8, DType.int16, DType.int32,
    DType.int64, DType.bfloat16, DType.float16, DType.float32, DType.float64])}
_UNSIGNED = [DType.uint8, DType.uint16, DType.uint32, DType.uint64]
_SIGNED = [DType.int8, DType.int16, DType.int32, DType.int64]
_promoted = {}


def promote_types(a, b):
    """The dtype that two dtypes meet in, by JAX's table with 64-bit types."""
    a, b = dtype_of(a), dtype_of(b)
    if (a, b) not in _promoted:
        _promoted[a, b] = _promote(a, b)
    return _promoted[a, b] or default_float()


def _promote(a, b):
    """None: the default dtype of floats."""
    if a == b:
        return a
    if _ORDER[a] > _ORDER[b]:
        a, b = b, a
    if a == DType.bool:
        return b
    if b.is_float():
        if {a, b} == {DType.bfloat16, DType.float16}:
            return DType.float32
        return b
    if a in _UNSIGNED and b in _SIGNED:
        wider = _UNSIGNED.index(a) + 1
        if wider == len(_SIGNED):
            return None
        return _SIGNED[max(wider, _SIGNED.index(b))]
    return b


def result_type(*xs):
    """The dtype that operands meet in. Python numbers are weak: they decide only the kind (bool, int, float)."""
    dtype, kind = None, None
    for x in xs:
        x = operand(x)
        if isinstance(x, Tensor) and x._exact is None:
            dtype = x.dtype if dtype is None else promote_types(dtype, x.dtype)
        else:
            weak_int = isinstance(x, Tensor) and x._exact.dtype.is_integer()
            rank = 0 if isinstance(x, bool) else 1 if isinstance(x, int) or weak_int else 2
            kind = rank if kind is None else max(kind, rank)
    if dtype is None:
        return (DType.bool, DType.int32, default_float())[kind or 0]
    if kind == 2 and not dtype.is_float():
        return default_float()
    if kind == 1 and dtype == DType.bool:
        return DType.int32
    return dtype


def promoted(*xs):
    """The operands in their common dtype; Python numbers stay numbers beside a tensor of it."""
    xs = [operand(x) for x in xs]
    first = xs[0]
    if all(isinstance(x, Tensor) and x.dtype == first.dtype for x in xs):
        return xs
    dtype = result_type(*xs)
    any_tensor = any(isinstance(x, Tensor) for x in xs)
    out = []
    for x in xs:
        if isinstance(x, Tensor):
            out.append(x if x.dtype == dtype else astype(x, dtype))
        elif any_tensor and not (dtype.is_integer() and isinstance(x, float)):
            out.append(_checked(x, dtype))
        else:
            out.append(asarray(x, dtype))
    return out


def fits(x, dtype):
    """Whether an integer dtype holds an int."""
    bits = 8 * dtype.itemsize
    return 0 <= x < 1 << bits if dtype in _UNSIGNED else -(1 << bits - 1) <= x < 1 << bits - 1


def check_fits(x, dtype, what="the dtype"):
    """Raises OverflowError for an int that an integer dtype does not hold."""
    if not fits(x, dtype):
        raise OverflowError(f"the number {x} does not fit into {dtype.name}, {what}")


def check_range(low, high, dtype):
    """Raises OverflowError unless an integer dtype holds low ... high."""
    if low <= high and dtype.is_integer():
        check_fits(low, dtype), check_fits(high, dtype)


def _checked(x, dtype):
    if isinstance(x, int) and dtype.is_integer():
        check_fits(x, dtype, "the dtype of what it meets")
        # A double, as which numbers travel, does not hold all of them.
        return asarray(x, dtype) if abs(x) > 1 << 53 else x
    return float(x) if isinstance(x, int) and abs(x) > 1 << 53 else x


def inexact(*xs):
    """promoted, and integers as the default floating dtype."""
    out = promoted(*xs)
    dtype = result_type(*out)
    return out if dtype.is_float() else [asarray(x, default_float()) for x in out]


__all__ = ["DType", "Error", "Tensor", "asarray", "astype", "default_dtype", "dtype_of", "promote_types", "result_type"]
