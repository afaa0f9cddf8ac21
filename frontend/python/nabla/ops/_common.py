"""What the modules of ops share: emitting one op, axes, shapes."""

import functools
import inspect
import operator

from .. import _nabla
from .._core import DType, Error, Tensor, asarray, astype, check_range, inexact, promoted, result_type

emit = _nabla.emit
_INT32_MAX = (1 << 31) - 1


def emit1(name, operands, attributes):
    """The only result of an op. Operands are tensors, numbers, and sizes, which take the dtype of a tensor beside them.
    """
    for x in operands:
        if isinstance(x, _nabla.Dim):
            dtype = next((t.dtype for t in operands if isinstance(t, Tensor)), None)
            operands = [asarray(t, dtype) if isinstance(t, _nabla.Dim) else t for t in operands]
            break
    return emit(name, operands, attributes)[0]


def tensors(*xs):
    """The operands as tensors of their common dtype; numbers too."""
    out = promoted(*xs)
    dtype = result_type(*out)
    return [asarray(x, dtype) for x in out]


def float_tensors(*xs):
    """The operands as tensors of their common floating dtype; integers in the default one."""
    out = inexact(*xs)
    dtype = result_type(*out)
    return [asarray(x, dtype) for x in out]


def wide_dtype(dtype):
    """float32 for 16-bit and 8-bit floats, else the dtype. Statistics, squares and quotients are computed in it, since
    float16 holds neither sums above 65504 nor an eps of 1e-8."""
    return DType.float32 if dtype.is_float() and dtype.itemsize < 4 else dtype


def widened(x):
    """x in its wide dtype."""
    x = asarray(x)
    wide = wide_dtype(x.dtype)
    return x if wide == x.dtype else astype(x, wide)


def index_dtype(size):
    """The dtype of positions below a size: int32, or int64 if the size is too large for int32. A size that is known
    only at run time counts with its least value."""
    return DType.int64 if bounds_of(size)[0] > _INT32_MAX else DType.int32


def wide_index(i, size=0):
    """Labels or indices in a dtype that holds them and the size: bools and integers of 8 and 16 bits become int32, and
    integers below 64 bits become int64 if the size is too large for int32. Other dtypes stay."""
    i = asarray(i)
    dtype = index_dtype(size)
    return astype(i, dtype) if not i.dtype.is_float() and i.dtype.itemsize < max(4, dtype.itemsize) else i


def in_float32(*names):
    """A decorator for functions that square, sum or divide the arguments of these names. If they are 16-bit or 8-bit
    floats, the function computes in float32, and its result is rounded once to their common dtype."""
    def decorated(fn):
        signature = inspect.signature(fn)

        @functools.wraps(fn)
        def computed(*args, **kwargs):
            given = signature.bind(*args, **kwargs)
            floats = {n: given.arguments[n] for n in names if given.arguments.get(n) is not None}
            narrow = float_tensors(*floats.values())
            wide = [widened(t) for t in narrow]
            if wide[0].dtype == narrow[0].dtype:
                return fn(*args, **kwargs)
            given.arguments.update(zip(floats, wide))
            return astype(fn(*given.args, **given.kwargs), narrow[0].dtype)

        return computed

    return decorated


def axis_of(axis, ndim, what):
    """An axis counted from the front. Raises Error (E0204) where a tensor of that rank has none."""
    n = operator.index(axis)
    if not -ndim <= n < ndim:
        _nabla.fail(204, f"{what}: axis {n} of a tensor with {ndim} dimensions",
                    f"axes are {-ndim} to {ndim - 1}" if ndim else "a scalar has no axis")
    return n % ndim


def check_interval(low, high, dtype, what):
    """Raises Error (E0204) unless integers lie in [low, high) and its ends are at most 2^31 - 1 apart, and
    OverflowError unless the dtype holds them all."""
    if low >= high:
        _nabla.fail(204, f"{what}: no integer is in [{low}, {high})")
    check_range(low, high - 1, dtype)
    if high - low > 2**31 - 1:
        _nabla.fail(204, f"{what}: {low} and {high} are more than 2^31 - 1 apart", "nabla.random.bits has all words")


def axes_of(axis, ndim, what):
    """Axes in ascending order; None stands for all. Raises Error (E0204) for a wrong one, and for one that is there
    twice."""
    if axis is None:
        return list(range(ndim))
    if not isinstance(axis, (tuple, list)):
        return [axis_of(axis, ndim, what)]
    out = sorted(axis_of(a, ndim, what) for a in axis)
    if len(set(out)) != len(out):
        _nabla.fail(204, f"{what}: an axis is there twice in {tuple(axis)}")
    return out


def listed(x):
    """An int or a Dim as a list of one, a sequence as a list."""
    return list(x) if isinstance(x, (tuple, list)) else [x]


def sizes_of(shape, what):
    """A shape as a list of ints and Dims. Tensors are no sizes."""
    out = listed(shape)
    for size in out:
        if isinstance(size, Tensor):
            raise TypeError(f"{what}: a tensor stands in a shape; sizes are ints, known while the program is made")
        if not hasattr(size, "__index__"):
            raise TypeError(f"{what}: {size!r} stands in a shape; sizes are ints or symbols")
    out = [operator.index(s) if hasattr(s, "__index__") and not isinstance(s, _nabla.Dim) else s for s in out]
    for size in out:
        if isinstance(size, int) and not -1 << 63 <= size < 1 << 63:
            raise ValueError(f"{what}: the size {size} does not fit into 64 bits")
    return out


def filled(a, shape, what):
    """A parameter broadcast to the shape of the result."""
    try:
        return _nabla.broadcast_to(a, shape)
    except Error:
        kind = a.type_str()
    _nabla.fail(203, f"{what}: a parameter {kind} does not broadcast to the shape {list(shape)} of the result")


def all_static(sizes):
    """Whether all sizes are known now."""
    return all(isinstance(s, int) for s in sizes)


# ---- Sizes that are known only at run time. An int is a size whose bounds are equal.


def bounds_of(size):
    """The least and the largest value of a size, as a pair."""
    return size.bounds if isinstance(size, _nabla.Dim) else (size, size)


def same_size(a, b):
    """Whether two sizes are equal. None: neither their form nor their bounds decide it."""
    low, high = bounds_of(a - b)
    return True if low == high == 0 else None if low <= 0 <= high else False


def decided(comparison, what, claim):
    """A comparison of sizes as a Python bool. Raises Error (E0207) if it is known only at run time.

    Example: decided(n <= m, "diagonal", f"{n} <= {m}").
    """
    if isinstance(comparison, bool):
        return comparison
    _nabla.fail(207, f"{what}: whether {claim} is known only at run time",
                "give `dynamic_dims` tighter bounds, (name, min, max), or equal sizes the same name")


def require_decided_equal(a, b, what):
    """Raises Error (E0207) if whether two sizes are equal is known only at run time."""
    decided(same_size(a, b) is not None or None, what, f"the sizes {a} and {b} are equal")


def smaller_size(a, b, what):
    """The smaller one of two sizes. Raises Error (E0207) if their bounds do not decide which one that is."""
    return a if decided(a <= b, what, f"{a} <= {b}") else b


def larger_size(a, b, what):
    """The larger one of two sizes. Raises Error (E0207) if their bounds do not decide which one that is."""
    return b if decided(a <= b, what, f"{a} <= {b}") else a


def is_one(size, what):
    """Whether a size is 1. Raises Error (E0207) if it is known only at run time."""
    return decided(same_size(size, 1), what, f"{size} is 1")


def require_at_least(size, least, what):
    """Raises Error (E0207) unless the bounds of a size are at least the int `least`."""
    if bounds_of(size)[0] < least:
        _nabla.fail(207, f"{what}: the size is {size}, which may be less than {least}",
                    "give `dynamic_dims` a larger minimum: (name, min, max)")


def static_size(size, what, why):
    """A size as an int. Raises Error (E0204) for one that is known only at run time; `why` completes the sentence."""
    if isinstance(size, _nabla.Dim):
        _nabla.fail(204, f"{what}: the size {size} is known only at run time, and {why}",
                    "leave the dimension out of `dynamic_dims`: each of its sizes is compiled then")
    return operator.index(size)


def require_size(x, size, what):
    """Raises Error (E0204) if `size` is None and x is traced: the number of results depends on the elements of x."""
    if size is None and x.is_traced:
        _nabla.fail(204, f"{what} of the traced {x.type_str()} needs a size: how many elements there are is known "
                         "only at run time")


def places_in(count, dtype=DType.int32):
    """0, 1, ..., count - 1."""
    return emit1("iota", [], {"shape": [count], "axis": 0, "dtype": dtype})


def along(vector, d, ndim):
    """A vector as a tensor of `ndim` dimensions, of which dimension d is the vector's and all others are 1."""
    return emit1("reshape", [vector], {"shape": [vector.shape[0] if i == d else 1 for i in range(ndim)]})


def cut(x, axis, start, stop):
    """x[start:stop] along an axis. Where its size is symbolic the bounds must lie within for all its values: Error."""
    if all_static([x.shape[axis], start, stop]):
        return _nabla.slice_axis(x, axis, start, stop)
    return emit1("section", [x], {"axis": axis, "range": [start, stop - start]})


def count_of(shape):
    """The number of elements."""
    n = 1
    for size in shape:
        n = n * size
    return n


def pair_of(x, what, count=2, least=None):
    """An int for every spatial dimension, or one per dimension. Raises Error (E0204) for others, and below `least`."""
    given = list(x) if isinstance(x, (tuple, list)) else [x] * count
    if len(given) != count:
        _nabla.fail(204, f"{what} has {len(given)} numbers for {count} dimensions")
    if not all(hasattr(v, "__index__") for v in given):
        _nabla.fail(204, f"{what} is {x!r}: an int, or {count} of them")
    out = [operator.index(v) for v in given]
    if least is not None and min(out, default=least) < least:
        _nabla.fail(204, f"{what} values must be {'> 0' if least == 1 else f'>= {least}'}, got {x!r}")
    return out

