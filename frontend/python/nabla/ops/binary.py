"""Arithmetic of two operands. Shapes broadcast as in NumPy, dtypes meet by JAX's table, Python numbers are weak."""

from .. import _nabla
from .._core import Tensor, asarray, astype, inexact, operand, promoted
from ._common import emit1, float_tensors, static_size, tensors


def add(x, y):
    """x + y; of bools: whether one is true. Integers wrap."""
    x, y = promoted(x, y)
    return emit1("or" if _is_bool(x, y) else "add", [x, y], {})


def sub(x, y):
    """x - y. Raises TypeError for two bools."""
    x, y = promoted(x, y)
    if _is_bool(x, y):
        raise TypeError("sub: bools have no difference; logical_xor says where they differ")
    return emit1("sub", [x, y], {})


def mul(x, y):
    """x * y; of bools: whether both are true. Integers wrap."""
    x, y = promoted(x, y)
    return emit1("and" if _is_bool(x, y) else "mul", [x, y], {})


def div(x, y):
    """x / y in floating point: integers become the default floating dtype."""
    x, y = inexact(x, y)
    return emit1("div", [x, y], {})


def floor_divide(x, y):
    """x / y rounded towards minus infinity, as // of Python. Integers by zero give -1, floats x / 0."""
    x, y = _no_bools(x, y)
    return _nabla.floor_divide(x, y)


def mod(x, y):
    """The remainder of floor_divide, with the sign of y, as % of Python. Integers by zero give x."""
    x, y = _no_bools(x, y)
    return _nabla.mod(x, y)


def fmod(x, y):
    """The remainder of division towards zero, with the sign of x, as C's fmod."""
    x, y = _no_bools(x, y)
    return emit1("rem", [x, y], {})


def divmod(x, y):
    """(floor_divide, mod)."""
    return floor_divide(x, y), mod(x, y)


def pow(x, y):
    """x to the power y. A negative exponent of integers gives 0 unless x is 1 or -1; the derivative by y is 0 where x
    <= 0.

    Exponents 0 to 3 that are Python ints are products, exact and differentiable everywhere.
    """
    x = operand(x)
    if type(y) is int and isinstance(x, Tensor) and 0 <= y <= 3 and not _is_bool(x, x):
        return _small_power(x, y)
    x, y = _no_bools(x, y)
    return emit1("pow", [x, y], {})


def _small_power(x, n):
    if n == 0:
        return _nabla.full(x.shape, 1.0, x.dtype)
    out = x
    for _ in range(n - 1):
        out = emit1("mul", [out, x], {})
    return out


def maximum(x, y):
    """The larger one; NaN wins. Where they tie both get half of the derivative."""
    x, y = promoted(x, y)
    return emit1("or" if _is_bool(x, y) else "maximum", [x, y], {})


def minimum(x, y):
    """The smaller one; NaN wins. Where they tie both get half of the derivative."""
    x, y = promoted(x, y)
    return emit1("and" if _is_bool(x, y) else "minimum", [x, y], {})


def fmax(x, y):
    """The larger one; a number wins over NaN."""
    x, y = promoted(x, y)
    return _unless_nan(x, y, maximum(x, y))


def fmin(x, y):
    """The smaller one; a number wins over NaN."""
    x, y = promoted(x, y)
    return _unless_nan(x, y, minimum(x, y))


def _unless_nan(x, y, out):
    if not out.dtype.is_float():
        return out
    x, y = asarray(x, out.dtype), asarray(y, out.dtype)
    y_or = _select(emit1("is_nan", [x], {}), y, out)
    return _select(emit1("is_nan", [y], {}), x, y_or)


def _select(condition, x, y):
    shape = _broadcast_shape(condition.shape, x.shape, y.shape)
    condition, x, y = [_nabla.broadcast_to(v, shape) for v in (condition, x, y)]
    return emit1("select", [condition, x, y], {})


def _broadcast_shape(*shapes):
    out = []
    for shape in shapes:
        shape = list(shape)
        n = max(len(out), len(shape))
        out = [1] * (n - len(out)) + out
        shape = [1] * (n - len(shape)) + shape
        for i, (a, b) in enumerate(zip(out, shape)):
            if a == b or b == 1:
                continue
            if a != 1:
                _nabla.fail(203, "shapes " + ", ".join(str(tuple(s)) for s in shapes) + " do not broadcast",
                            "sizes must be equal, or 1, counted from the last dimension")
            out[i] = b
    return out


def broadcast_shapes(*shapes):
    """The shape that these broadcast to. Raises Error when they do not."""
    return tuple(_broadcast_shape(*shapes))


def broadcast_arrays(*xs):
    """The tensors in the shape that all of them broadcast to; dtypes stay."""
    xs = [asarray(x) for x in xs]
    shape = _broadcast_shape(*[x.shape for x in xs])
    return [_nabla.broadcast_to(x, shape) for x in xs]


def atan2(y, x):
    """The angle of the point (x, y) in (-pi, pi]; atan2(0, 0) is 0."""
    return emit1("atan2", inexact(y, x), {})


def hypot(x, y):
    """sqrt(x^2 + y^2) without overflow; infinite where either is. The derivative at 0 is 0."""
    x, y = broadcast_arrays(*float_tensors(x, y))
    infinite = emit1("or", [emit1("is_inf", [x], {}), emit1("is_inf", [y], {})], {})
    # The smaller one keeps its sign: the formula then has every derivative on the axes and on the diagonals.
    first = emit1("ge", [abs_of(x), abs_of(y)], {})
    large, small = _select(first, x, y), _select(first, y, x)
    zero = emit1("and", [emit1("eq", [large, 0], {}), emit1("eq", [small, 0], {})], {})  # and not NaN beside 0
    unsafe = emit1("or", [zero, infinite], {})
    small, divisor = _select(unsafe, full_like(small, 0.0), small), _select(unsafe, full_like(large, 1.0), large)
    ratio = emit1("div", [small, divisor], {})
    root = emit1("sqrt", [emit1("add", [emit1("mul", [ratio, ratio], {}), 1], {})], {})
    out = emit1("mul", [abs_of(large), root], {})
    return _select(infinite, full_like(large, float("inf")), out)


def abs_of(x):
    return emit1("abs", [asarray(x)], {})


def full_like(x, value):
    return _nabla.full(x.shape, value, x.dtype)


def logaddexp(x, y):
    """log(exp(x) + exp(y)) without overflow, and without loss where one of them is small."""
    x, y = broadcast_arrays(*float_tensors(x, y))
    first = emit1("ge", [x, y], {})
    large, small = _select(first, x, y), _select(first, y, x)
    # Equal infinities have no difference. Everywhere else the formula has every derivative, at x = y too.
    alike = emit1("and", [emit1("eq", [x, y], {}), emit1("is_inf", [x], {})], {})
    difference = _select(alike, full_like(x, 0.0), emit1("sub", [small, large], {}))
    return emit1("add", [large, emit1("log1p", [emit1("exp", [difference], {})], {})], {})


def copysign(x, y):
    """|x| with the sign of y; zeros and NaN count by their sign bit."""
    x, y = broadcast_arrays(*float_tensors(x, y))
    bits = {2: _nabla.DType.int16, 4: _nabla.DType.int32, 8: _nabla.DType.int64}[y.dtype.itemsize]
    negative = emit1("lt", [emit1("bitcast", [y], {"dtype": bits}), 0], {})
    size = abs_of(x)
    return _select(negative, emit1("neg", [size], {}), size)


def matmul(x, y):
    """Products of matrices in the last two dimensions, over broadcast leading ones; vectors as in NumPy. Bools: or of
    ands."""
    x, y = promoted(x, y)
    x, y = asarray(x), asarray(y)
    if x.ndim == 0 or y.ndim == 0:
        _nabla.fail(204, f"matmul: operands {x.type_str()} and {y.type_str()}; for scalars write x * y")
    return _sum_of_products(_nabla.matmul, [x, y])


def dot(x, y):
    """As numpy.dot: scalars multiply, else the last dimension of x by the last but one (the only one) of y."""
    x, y = tensors(x, y)
    if x.ndim == 0 or y.ndim == 0:
        return mul(x, y)
    return tensordot(x, y, ([x.ndim - 1], [max(y.ndim - 2, 0)]))


def vdot(x, y):
    """The sum of products of all elements."""
    x, y = tensors(x, y)
    return tensordot(x, y, (list(range(x.ndim)), list(range(y.ndim))))


def inner(x, y):
    """Sums of products over the last dimensions."""
    x, y = tensors(x, y)
    if x.ndim == 0 or y.ndim == 0:
        return mul(x, y)
    return tensordot(x, y, ([x.ndim - 1], [y.ndim - 1]))


def tensordot(x, y, axes=2):
    """Sums of products over `axes`: a count (the last of x, the first of y), or a pair of lists. Of bools it is the or
    of ands."""
    x, y = tensors(x, y)
    if isinstance(axes, int):
        left, right = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    else:
        left, right = [list(a) if isinstance(a, (tuple, list)) else [a] for a in axes]
    left, right = [a % x.ndim for a in left], [a % y.ndim for a in right]
    return dot_general(x, y, ((left, right), ((), ())))


def dot_general(x, y, dimension_numbers):
    """`((x contracted, y contracted), (x batch, y batch))` as in jax.lax: batch dimensions first, then free ones. Of
    bools it is the or of ands."""
    (lc, rc), (lb, rb) = dimension_numbers
    dimensions = {"lhs_contract": list(lc), "rhs_contract": list(rc), "lhs_batch": list(lb), "rhs_batch": list(rb)}
    return _sum_of_products(lambda x, y: emit1("dot_general", [x, y], dimensions), tensors(x, y))


def _sum_of_products(product, operands):
    """product(*operands), whose operands have one dtype. Bools are counted in int32: the result is whether a sum is not
    0."""
    if operands[0].dtype != _nabla.DType.bool:
        return product(*operands)
    return emit1("ne", [product(*[astype(x, "int32") for x in operands]), 0], {})


def outer(x, y):
    """Products of all pairs in the last dimensions, over broadcast leading ones: [..., m], [..., n] -> [..., m, n]."""
    x, y = tensors(x, y)
    if x.ndim == 0 or y.ndim == 0:
        _nabla.fail(204, f"outer: operands {x.type_str()} and {y.type_str()}; both need a dimension")
    return mul(_nabla.unsqueeze(x, -1), _nabla.unsqueeze(y, -2))


def kron(x, y):
    """Kronecker's product of two matrices or two vectors."""
    x, y = tensors(x, y)
    if x.ndim != y.ndim:
        _nabla.fail(204, f"kron: operands {x.type_str()} and {y.type_str()} differ in rank")
    xs, ys = x, y
    for d in range(x.ndim):
        xs, ys = _nabla.unsqueeze(xs, 2 * d + 1), _nabla.unsqueeze(ys, 2 * d)
    return emit1("reshape", [mul(xs, ys)], {"shape": [a * b for a, b in zip(x.shape, y.shape)]})


def cross(x, y, axis=-1):
    """The vector product along an axis of three."""
    x, y = broadcast_arrays(*tensors(x, y))
    axis = axis % x.ndim
    if x.shape[axis] != 3:
        _nabla.fail(204, f"cross: axis {axis} of {x.type_str()} has not 3 elements")
    a, b = _nabla.unbind(x, axis), _nabla.unbind(y, axis)
    out = [sub(mul(a[i], b[j]), mul(a[j], b[i])) for i, j in ((1, 2), (2, 0), (0, 1))]
    return _nabla.stack(out, axis)


def einsum(spec, *operands):
    """numpy.einsum in its string form: "ij,jk->ik", with an ellipsis; a letter twice in one operand is the diagonal. Of
    bools it is the or of ands."""
    return _sum_of_products(lambda *xs: _nabla.einsum(spec, list(xs)), tensors(*operands))


def einsum_path(spec, *operands, optimize="greedy"):
    """`(path, text)`: the order that NumPy finds for a product of operands of these shapes, and what it says of it, as
    numpy.einsum_path, which must be there. nabla.einsum itself meets operands from the left, pair by pair; a path is
    followed by calls of it with two operands. Sizes must be known."""
    import numpy
    shapes = [asarray(x).shape for x in operands]
    for shape in shapes:
        for n in shape:
            static_size(n, "einsum_path", "the order follows from it")
    arrays = [numpy.broadcast_to(numpy.float32(0), shape) for shape in shapes]
    try:
        return numpy.einsum_path(spec, *arrays, optimize=optimize)
    except (IndexError, KeyError, RuntimeError, TypeError):
        known = "'greedy', 'optimal', True, False, (one of the names, elements at most), ['einsum_path', (0, 1), ...]"
        raise ValueError(f"einsum_path: optimize={optimize!r} is no path for {len(arrays)} operands; it is one of "
                         f"{known}, whose pairs number the operands that are left") from None


# ---- Bits


def _integers(what, x, y):
    x, y = promoted(x, y)
    for v in (x, y):
        if (v.dtype.is_float() if isinstance(v, Tensor) else isinstance(v, float)):
            raise TypeError(f"{what}: operands are integers or bools, got "
                            f"{x.type_str() if isinstance(x, Tensor) else x}"
                            f" and {y.type_str() if isinstance(y, Tensor) else y}")
    return [x, y]


def bitwise_and(x, y):
    """The bits that both have; of bools: whether both are true."""
    return emit1("and", _integers("bitwise_and", x, y), {})


def bitwise_or(x, y):
    """The bits that one has; of bools: whether one is true."""
    return emit1("or", _integers("bitwise_or", x, y), {})


def bitwise_xor(x, y):
    """The bits that exactly one has; of bools: whether they differ."""
    return emit1("xor", _integers("bitwise_xor", x, y), {})


def left_shift(x, y):
    """x moved by y bits to the left; by all bits or more: 0."""
    return emit1("shift_left", _integers("left_shift", x, y), {})


def right_shift(x, y):
    """x moved by y bits to the right; copies of the sign come in."""
    return emit1("shift_right", _integers("right_shift", x, y), {})


def gcd(x, y):
    """The greatest common divisor of integers, by Euclid; as many steps as 64 bits can need."""
    from ..transforms import while_loop
    x, y = broadcast_arrays(*tensors(*_integers("gcd", x, y)))

    def step(s):
        a, b = s
        zero = emit1("eq", [b, 0], {})
        return _select(zero, a, b), _select(zero, b, emit1("rem", [a, b], {}))

    # Remainders of the least integer are negative: it has no absolute value, so the sign is dropped at the end.
    return abs_of(while_loop(lambda s: _nabla.any(emit1("ne", [s[1], 0], {}), [], False), step, (x, y))[0])


def lcm(x, y):
    """The least common multiple of integers; 0 where one of them is 0."""
    x, y = broadcast_arrays(*tensors(*_integers("lcm", x, y)))
    d = gcd(x, y)
    divisor = _select(emit1("eq", [d, 0], {}), asarray(1, d.dtype), d)
    return abs_of(mul(x, floor_divide(y, divisor)))


# ---- Helpers


def _is_bool(x, y):
    dtype = x.dtype if isinstance(x, Tensor) else y.dtype if isinstance(y, Tensor) else None
    return dtype == _nabla.DType.bool


def _no_bools(x, y):
    x, y = promoted(x, y)
    if _is_bool(x, y):
        x, y = [astype(asarray(v), "int32") for v in (x, y)]
    return x, y


subtract = sub
multiply = mul
divide = true_divide = div
power = float_power = pow
remainder = mod
arctan2 = atan2

__all__ = [
    "add", "arctan2", "atan2", "bitwise_and", "bitwise_or", "bitwise_xor", "broadcast_arrays", "broadcast_shapes",
    "copysign", "cross", "div", "divide", "divmod", "dot", "dot_general", "einsum",
    "einsum_path", "floor_divide", "fmax", "fmin", "fmod", "gcd", "hypot", "inner", "kron", "lcm", "left_shift",
    "logaddexp", "matmul", "maximum", "minimum", "mod", "mul", "multiply", "outer", "pow", "power", "remainder",
    "right_shift", "sub", "subtract", "tensordot", "true_divide", "vdot",
]
