"""What Tensor can do in Python: operators, indexing, methods, and how it prints. Attached to the native class."""

import copy
import inspect
import operator

from . import _nabla
from ._core import DType, Tensor, asarray, astype, dtype_of, rebind, several, weakly, whole
from ._mesh import compute_local_shape, spec_of
from ._printing import html_of, text_of
from .ops import (
    binary, communication, comparison, control_flow, creation, gathering, indexing, multi_output, reduction, sorting,
    unary, view)
from .ops._common import bounds_of

_emit = _nabla.emit
_NUMBERS = (Tensor, bool, int, float)


def _takes(x):
    """Whether an operator takes this other operand."""
    return isinstance(x, _NUMBERS + (list, tuple, _nabla.Dim)) or hasattr(x, "__array__") or hasattr(x, "__dlpack__")


def _operator(function, doc):
    def forward(self, other):
        return function(self, other) if _takes(other) else NotImplemented

    forward.__doc__ = doc
    return forward


def _reflected(function, doc):
    def backward(self, other):
        return function(other, self) if _takes(other) else NotImplemented

    backward.__doc__ = doc
    return backward


_BINARY = {
    "add": (binary.add, "self + other."), "sub": (binary.sub, "self - other."), "mul": (binary.mul, "self * other."),
    "truediv": (binary.div, "self / other."), "floordiv": (binary.floor_divide, "self // other."),
    "mod": (binary.mod, "self % other."), "pow": (binary.pow, "self ** other."),
    "matmul": (binary.matmul, "self @ other."), "divmod": (binary.divmod, "divmod(self, other)."),
    "and": (binary.bitwise_and, "self & other."), "or": (binary.bitwise_or, "self | other."),
    "xor": (binary.bitwise_xor, "self ^ other."), "lshift": (binary.left_shift, "self << other."),
    "rshift": (binary.right_shift, "self >> other."),
}
_COMPARED = {"eq": comparison.equal, "ne": comparison.not_equal, "lt": comparison.less, "le": comparison.less_equal,
             "gt": comparison.greater, "ge": comparison.greater_equal}


def _attach_operators():
    for name, (function, doc) in _BINARY.items():
        function = function if name in ("matmul", "divmod") else weakly(function)
        setattr(Tensor, f"__{name}__", _operator(function, doc))
        setattr(Tensor, f"__r{name}__", _reflected(function, doc))
    for name, function in _COMPARED.items():
        function = weakly(function)
        setattr(Tensor, f"__{name}__", _operator(function, f"Where self {name} other, element by element: bool."))
    Tensor.__hash__ = object.__hash__
    Tensor.__neg__ = weakly(unary.neg)
    Tensor.__pos__ = lambda x: x
    Tensor.__abs__ = weakly(unary.abs)
    Tensor.__invert__ = unary.bitwise_not
    _attach_size_operators()
    # NumPy arrays on the left leave operators to the tensor.
    Tensor.__array_priority__ = 100


def _attach_size_operators():
    """Sizes that are known only at run time are numbers: where the result is no size, it is a tensor."""
    for name, (function, _) in _BINARY.items():
        if name == "matmul":
            continue
        for method, operator_of in ((f"__{name}__", _operator), (f"__r{name}__", _reflected)):
            setattr(_nabla.Dim, method, _size_or_tensor(getattr(_nabla.Dim, method, None), operator_of(function, "")))
    for name, by_bounds in _BY_BOUNDS.items():  # == and != are native: whether two sizes are the same one
        setattr(_nabla.Dim, f"__{name}__", _compared(name, by_bounds))
    _nabla.Dim.__neg__ = lambda x: 0 - x
    _nabla.Dim.__pos__ = lambda x: x
    _nabla.Dim.__abs__ = _magnitude
    _nabla.Dim.__array_ufunc__ = None  # NumPy's arrays and scalars on the left leave operators to the size
    _nabla.Dim.__bool__ = _is_not_zero
    _nabla.Dim.__index__, _nabla.Dim.__int__, _nabla.Dim.__float__ = [
        _no_python_value(what) for what in ("a Python index", "int()", "float()")]


# Whether a difference of sizes in [low, high] is below 0, and so on. None: the bounds do not decide it.
_BY_BOUNDS = {
    "lt": lambda low, high: True if high < 0 else False if low >= 0 else None,
    "le": lambda low, high: True if high <= 0 else False if low > 0 else None,
    "gt": lambda low, high: True if low > 0 else False if high <= 0 else None,
    "ge": lambda low, high: True if low >= 0 else False if high < 0 else None,
}


def _compared(name, by_bounds):
    at_run_time = _operator(weakly(_COMPARED[name]), "")

    def compare(self, other):
        if whole(other) is not None or isinstance(other, _nabla.Dim):
            low, high = bounds_of(self - other)
        elif isinstance(other, float):
            low, high = [bound - other for bound in self.bounds]
        else:
            return at_run_time(self, other)
        out = by_bounds(low, high)
        return at_run_time(self, other) if out is None else out

    compare.__doc__ = f"self {name} other: a bool if the bounds of the sizes decide it, else a bool tensor."
    return compare


def _magnitude(x):
    """The magnitude: a size if its sign is known, else a tensor."""
    low, high = x.bounds
    return x if low >= 0 else -x if high <= 0 else unary.abs(asarray(x))


def _is_not_zero(x):
    """Whether the size is not 0. Raises Error (E0707) if its bounds do not decide that."""
    low, high = x.bounds
    if low <= 0 <= high:
        _nabla.fail(707, f"bool() of the size {x}: whether it is 0 is known only at run time",
                    "compare it, such as x.shape[0] > 0, and choose with nabla.where or nabla.cond")
    return True


def _no_python_value(what):
    def refused(x):
        _nabla.fail(707, f"{what} of the size {x}: it is known only at run time and has no value in Python",
                    "use it as a number in operations on tensors, or nabla.asarray(size); `range` repeats with "
                    "nabla.fori_loop; without `dynamic_dims` each size is compiled and is an int")
    return refused


def _size_or_tensor(size, tensor):
    def made(self, other):
        out = NotImplemented if size is None or isinstance(other, Tensor) else size(self, other)
        return tensor(self, other) if out is NotImplemented else out

    return made


# ---- As Python values


_KNOWN_BEFORE = "a number that is known before comes as a Python number, by static_argnums of nabla.jit"


def _one(x, what, instead):
    if x.ndim and any(n != 1 for n in x.shape):
        raise ValueError(f"{what} of {x.type_str()}: only a tensor of one element has one" +
                         ("; nabla.all and nabla.any make one of many" if what == "bool()" else ""))
    if x.is_traced:
        _nabla.fail(707, f"{what} of a traced value, {x.type_str()}: it has no elements while its function is traced",
                    f"{instead}; {_KNOWN_BEFORE}")
    return x.item()


def _bool(x):
    return bool(_one(x, "bool()", "`if` and `and` choose by data with nabla.where or nabla.cond, `while` repeats with "
                                  "nabla.while_loop"))


def _int(x):
    return int(_one(x, "int()", "convert with x.astype('int32')"))


def _float(x):
    return float(_one(x, "float()", "convert with x.astype('float32'); nabla.debug.print shows it where it runs"))


def _index(x):
    if not x.dtype.is_integer():
        raise TypeError(f"{x.type_str()} is no index: only integer tensors of one element are")
    return operator.index(_one(x, "a Python index", "`range` repeats with nabla.fori_loop; a tensor takes the place "
                                                 "of a list, x[i]"))


def _len(x):
    if x.ndim == 0:
        raise TypeError("len() of a tensor without dimensions")
    return operator.index(x.shape[0])


def _iter(x):
    if x.ndim == 0:
        raise TypeError("a tensor without dimensions has nothing to iterate over")
    return iter(multi_output.unbind(x, 0))


def _contains(x, value):
    return bool(_nabla.any(comparison.equal(x, value), [], False))


def _numpy(x):
    """A NumPy array of its own memory. bfloat16, which NumPy does not have, becomes float32."""
    import numpy
    return numpy.array(memoryview(astype(x, DType.float32) if x.dtype == DType.bfloat16 else x))


def _array(x, dtype=None, copy=None):
    out = _numpy(x)
    return out if dtype is None else out.astype(dtype, copy=False)


def to_numpy_all(*tensors):
    """NumPy arrays of several tensors, given one by one or as one list, computed in one graph."""
    tensors = several(tensors)
    _nabla.realize([t for t in tensors if isinstance(t, Tensor)])
    return [_numpy(asarray(t)) for t in tensors]


def _format(x, spec):
    return format(x.item(), spec) if spec and x.ndim == 0 and not x.is_traced else str(x)


def _setitem(x, index, values):
    """x itself has `values` at the index from now on. While a function is traced, tensors that come from outside of it
    cannot be written: Error."""
    spec, new = spec_of(x), indexing.Place(x, index).set(values)
    rebind(x, new if spec is None or spec == spec_of(new) else communication.shard(new, spec.mesh, spec))


def _deep_copied(x, memo):
    """A tensor of its own, with a copy of `.grad`, which requires a gradient if x does."""
    out = memo[id(x)] = x._copied()
    for name, value in vars(x).items():
        setattr(out, name, copy.deepcopy(value, memo))
    if x.requires_grad:
        if x._is_gradient_leaf:
            out.requires_grad = True
        else:
            out._set_parameter()
    return out


class _Count(int):
    """A number that may also be called, as PyTorch's methods are."""

    def __call__(self):
        return int(self)


class _Size(_Count):
    """The number of elements; called with a dimension, the size of that: x.size, x.size(), x.size(0)."""

    def __new__(cls, n, shape):
        out = super().__new__(cls, n)
        out._shape = shape
        return out

    def __call__(self, dim=None):
        return self._shape if dim is None else self._shape[dim]


def _count(x):
    n = 1
    for size in x.shape:
        n = n * size
    return n


def _size(x):
    n = _count(x)
    return _Size(n, x.shape) if isinstance(n, int) else n


def _numel(x):
    n = _count(x)
    return _Count(n) if isinstance(n, int) else n


def _to(x, *to, dtype=None, device=None):
    """x on a device, in a dtype, or both; the types decide which argument is which."""
    from .devices import Device, to_device
    for t in to:
        if isinstance(t, Tensor):
            dtype = t.dtype
        elif isinstance(t, Device) or (isinstance(t, str) and t.partition(":")[0] in ("cpu", "gpu", "cuda")):
            device = t
        else:
            dtype = t
    x = x if device is None else to_device(x, device)
    return x if dtype is None else astype(x, dtype)


def _cuda(x, index=0):
    """x on GPU `index`: see nabla.to_device."""
    from .devices import Accelerator, to_device
    return to_device(x, Accelerator(index))


def _device(x):
    from .devices import CPU
    return CPU()


def _attach_values():
    Tensor.__bool__, Tensor.__int__, Tensor.__float__, Tensor.__index__ = _bool, _int, _float, _index
    Tensor.__len__, Tensor.__iter__, Tensor.__contains__ = _len, _iter, _contains
    Tensor.__repr__, Tensor.__str__, Tensor._repr_html_ = text_of, text_of, html_of
    Tensor.__format__ = _format
    Tensor.__array__ = _array
    Tensor.numpy = Tensor.to_numpy = _numpy
    Tensor.to_numpy_all = staticmethod(to_numpy_all)
    Tensor.__getitem__, Tensor.__setitem__ = indexing.getitem, _setitem
    Tensor.at = property(indexing.At, doc="x.at[index].set(v), .add, .multiply, .min, .max, .get: new tensors.")
    Tensor.__reduce__ = lambda x: (_restored, (x.tolist(), str(x.dtype).rpartition(".")[2], x.shape, spec_of(x)))
    Tensor.__copy__ = lambda x: _deep_copied(x, {})
    Tensor.__deepcopy__ = _deep_copied


def _restored(values, dtype, shape, spec=None):
    flat = _nabla.from_numbers(values, dtype_of(dtype))
    out = _emit("reshape", [flat], {"shape": list(shape)})[0]
    return out if spec is None else communication.shard(out, spec.mesh, spec)


# ---- Methods


def _method(function, name):
    """The function as a method, which numpy.sum(x) and the like call: they hand over out=None, dtype=None and order="C"
    where x is no array of NumPy's."""
    own = inspect.signature(function).parameters

    def method(self, *args, **kwargs):
        return function(self, *args, **kwargs) if not kwargs else _called(function, own, self, args, kwargs)

    method.__name__ = name
    method.__doc__ = function.__doc__
    method.__wrapped__ = function  # whose signature is this one's
    return method


def _called(function, own, x, args, kwargs):
    if "out" in kwargs and "out" not in own:
        if kwargs.pop("out") is not None:
            raise TypeError(f"{function.__name__}: out= is not taken, since tensors do not change: use what it returns")
    if "order" in kwargs and "order" not in own:
        if kwargs.pop("order") not in ("C", None):
            raise TypeError(f"{function.__name__}: only order=\"C\" is taken, row-major order")
    if "dtype" in kwargs and "dtype" not in own:
        dtype = kwargs.pop("dtype")
        x = x if dtype is None else astype(x, dtype)
    return function(x, *args, **kwargs)


_METHODS = {
    unary: "abs acos acosh asin asinh atan atanh cast ceil clip cos cosh erf erfc exp exp2 expm1 floor gelu "
           "is_finite is_inf "
           "is_nan isfinite isinf isnan lgamma log log10 log1p log2 log_softmax logsoftmax neg reciprocal relu round "
           "rsqrt sigmoid sign silu sin sinh softmax softplus sqrt square tan tanh trunc",
    binary: "add dot floor_divide fmod inner matmul maximum minimum mod mul outer pow remainder sub div",
    comparison: "equal not_equal greater greater_equal less less_equal allclose isclose logical_and logical_not "
                "logical_or logical_xor",
    reduction: "all any amax amin argmin count_nonzero cummax cummin cumprod cumsum logsumexp max mean median "
               "min minmax prod reduce_max reduce_min reduce_sum std sum var",
    view: "broadcast_to expand flatten flip moveaxis pad permute ravel rebind repeat reshape roll slice_tensor "
          "slice_update squeeze swap_axes swapaxes tile transpose unsqueeze view expand_dims matrix_transpose",
    gathering: "take take_along_axis scatter scatter_add",
    sorting: "argsort masked_select nonzero sort top_k",
    creation: "diag diagonal tril triu",
}


def _argmax(x, axis=None, keepdims=False, dtype="int64"):
    """Position of the largest element along `axis`; None: in row-major order of all."""
    return reduction.argmax(x, axis, keepdims, dtype)


def _argmin(x, axis=None, keepdims=False, dtype="int64"):
    """Position of the smallest element along `axis`; None: in row-major order of all."""
    return reduction.argmin(x, axis, keepdims, dtype)


def _squeezed(x, axis=None):
    """x without dimensions of size 1: those at `axis` (an int or several), or all."""
    return view.squeeze(x, axis)


def _attach_methods():
    for module, names in _METHODS.items():
        for name in names.split():
            setattr(Tensor, name, _method(getattr(module, name), name))
    for name, function in (("argmax", _argmax), ("argmin", _argmin), ("squeeze", _squeezed)):
        setattr(Tensor, name, _method(function, name))
    Tensor.astype = _method(astype, "astype")
    Tensor.type_as = lambda x, other: astype(x, other.dtype)
    Tensor.type_as.__doc__ = "x in the dtype of another tensor."
    Tensor.where = lambda x, condition, other: control_flow.where(condition, x, other)
    Tensor.trace = lambda x: creation.trace_of(x)
    Tensor.masked_fill = lambda x, mask, value: control_flow.where(mask, value, x)
    Tensor.norm = lambda x, ord=2, axis=None, keepdims=False: reduction.norm_of(x, ord, axis, keepdims)
    Tensor.to, Tensor.cuda, Tensor.cpu = _to, _cuda, lambda x: x
    Tensor.contiguous = lambda x: x
    Tensor.clone = Tensor.copy = _method(creation.copied, "clone")
    for name in ("float32", "float64", "float16", "bfloat16", "int32", "int64"):
        short = {"float32": "float", "float64": "double", "float16": "half", "int64": "long", "int32": "int"}
        setattr(Tensor, short.get(name, name), lambda x, name=name: astype(x, name))
    Tensor.bool = lambda x: comparison._truth(x)


_PROPERTIES = {
    "T": (lambda x: view.transpose(x), "All dimensions turned round."),
    "mT": (view.matrix_transpose, "The last two dimensions exchanged."),
    "size": (_size, _Size.__doc__),
    "numel": (_numel, "The number of elements; may be called."),
    "rank": (lambda x: _Count(x.ndim), "The number of dimensions; may be called."),
    "dim": (lambda x: _Count(x.ndim), "The number of dimensions; may be called."),
    "itemsize": (lambda x: x.dtype.itemsize, "Bytes per element."),
    "num_elements": (_numel, "The number of elements; may be called."),
    "real": (lambda x: x.has_array, "Whether its elements are computed."),
    "is_realized": (lambda x: x.has_array, "Whether its elements are computed."),
    "nbytes": (lambda x: _count(x) * x.dtype.itemsize, "Bytes of all elements."),
    "device": (_device, "Where it lives: CPU()."),
    "is_sharded": (lambda x: spec_of(x) is not None, "Whether it is laid out over a mesh."),
    "num_shards": (lambda x: 1 if spec_of(x) is None else len(spec_of(x).mesh.devices), "How many ranks have a part."),
    "sharding": (spec_of, "Its ShardingSpec; None: it is whole, on one device."),
    "shards": (lambda x: _shards(x), "The parts of all ranks, by their numbers."),
    "local_shape": (lambda x: _local_shape(x), "The shape of what rank 0 has."),
    "global_shape": (lambda x: x.shape, "The shape of all of it."),
    "shard_shape": (lambda x: _ShardShape(_local_shape(x), x), "The shape of what rank 0 has; x.shard_shape(r) is that "
                                                               "of rank r."),
    "batch_dims": (lambda x: x._batch_dims(), "Of how many batches it is an example: vmaps whose function it is in. "
                                              "Their dimensions are not in its shape and layout."),
}


def _new(name):
    make = getattr(creation, name)

    def method(self, *shape, dtype=None, device=None):
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return make(tuple(sizes), dtype=self.dtype if dtype is None else dtype, device=device)

    method.__doc__ = f"nabla.{name} in the dtype of this tensor."
    return method


def _new_full(x, shape, fill_value, dtype=None, device=None):
    """nabla.full in the dtype of this tensor."""
    return creation.full(shape, fill_value, x.dtype if dtype is None else dtype, device)


def _local_shape(x, rank=0):
    spec = spec_of(x)
    return x.shape if spec is None else compute_local_shape(x.shape, spec, rank)


class _ShardShape(tuple):
    """The shape of rank 0's part; may be called with a rank."""

    def __new__(cls, shape, x):
        out = super().__new__(cls, shape)
        out._x = x
        return out

    def __call__(self, rank=0):
        return _local_shape(self._x, rank)


def _shards(x):
    spec, parts = spec_of(x), _nabla.shards(x)
    if spec is None:
        return parts
    shapes = [compute_local_shape(x.shape, spec, r) for r in range(len(parts))]
    return [p if p.shape == n else p[tuple(slice(0, k) for k in n)] for p, n in zip(parts, shapes)]


def from_dlpack(x):
    """A tensor in the memory of an array that speaks DLPack. An array of a dtype that its own library does not hand
    over so, such as NumPy's bools, is copied."""
    try:
        return _nabla.from_dlpack(x)
    except BufferError:
        return asarray(x)


def _shard(x, mesh, dim_specs, replicated_axes=None):
    """This tensor, laid out over a mesh: see nabla.shard."""
    return communication.shard(x, mesh, dim_specs, replicated_axes)


def _with_sharding_constraint(x, mesh, dim_specs=None, replicated_axes=None):
    """This tensor, laid out over a mesh, or as a ShardingSpec or a pair (mesh, layout) in its place says."""
    return communication.with_sharding_constraint(x, mesh, dim_specs, replicated_axes)


def _attach_factories():
    for name, (function, doc) in _PROPERTIES.items():
        setattr(Tensor, name, property(function, doc=doc))
    for name in ("zeros", "ones", "empty"):
        setattr(Tensor, f"new_{name}", _new(name))
    Tensor.new_full = _new_full
    for name in ("zeros", "ones", "full", "empty", "arange", "eye", "linspace", "constant", "full_like", "zeros_like",
                 "ones_like", "hann_window", "uniform", "normal", "gaussian"):
        setattr(Tensor, name, staticmethod(getattr(creation, name)))
    Tensor.from_dlpack = staticmethod(from_dlpack)
    Tensor.gather = _method(communication.gather_all_axes, "gather")
    Tensor.shard = Tensor.with_sharding = _shard
    Tensor.with_sharding_constraint = _with_sharding_constraint


_attach_operators()
_attach_values()
_attach_methods()
_attach_factories()

__all__ = ["from_dlpack", "to_numpy_all"]
