"""Linear algebra on batches of matrices [..., rows, columns]; leading dimensions broadcast. Operands become floating.

Nothing is raised where a matrix has no inverse or factor: results hold infinities or NaN then.
"""

from . import _nabla
from ._core import asarray
from .ops import binary as _binary
from .ops import reduction as _reduction
from .ops._common import all_static, axis_of, bounds_of, count_of, decided, float_tensors, same_size, static_size
from .ops.binary import cross, inner, kron, matmul, outer, tensordot, vdot  # noqa: F401
from .ops.creation import diag_embed, diagonal, eye, one_hot, trace_of
from .ops.view import matrix_transpose

_emit = _nabla.emit


def _matrix(x, what):
    x = float_tensors(x)[0]
    if x.ndim < 2:
        _nabla.fail(204, f"{what}: {x.type_str()} is no matrix [..., rows, columns]")
    return x


def _square(x, what):
    x = _matrix(x, what)
    square = same_size(x.shape[-1], x.shape[-2])
    if square is False:
        _nabla.fail(204, f"{what}: {x.type_str()} is not square")
    decided(square, what, f"{x.type_str()} is square")
    return x


def _of_known_size(x, what):
    """Matrices as they are. Raises Error (E0204) if their sizes are known only at run time."""
    for size in x.shape[-2:]:
        static_size(size, f"{what} of {x.type_str()}", "the algorithm depends on the size of the matrices")
    return x


def _together(a, b):
    """Both with the leading dimensions that they broadcast to. b may have one dimension less: a batch of vectors."""
    a, b = float_tensors(a, b)
    vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape[:-1] == a.shape[:-2])
    if vector:
        b = _emit("reshape", [b], {"shape": list(b.shape) + [1]})[0]
    lead = list(_binary.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    a = _nabla.broadcast_to(a, lead + list(a.shape[-2:]))
    b = _nabla.broadcast_to(b, lead + list(b.shape[-2:]))
    return a, b, vector


def _is_empty(x):
    """Whether there are no elements: nothing is to be computed of them."""
    return any(isinstance(n, int) and n == 0 for n in x.shape)


def _as_given(x, vector):
    return _emit("reshape", [x], {"shape": list(x.shape[:-1])})[0] if vector else x


def cholesky(a, upper=False):
    """The lower triangular L with L L^T = a and a positive diagonal, or its transpose. Only the lower triangle is
    read."""
    out = _emit("cholesky", [_square(a, "cholesky")], {})[0]
    return matrix_transpose(out) if upper else out


def cholesky_solve(l, b):  # noqa: E741
    """x with L L^T x = b."""
    l, b, vector = _together(_square(l, "cholesky_solve"), b)  # noqa: E741
    return _as_given(_nabla.cholesky_solve(l, b), vector)


def solve(a, b):
    """x with a x = b; b is [..., n] or [..., n, k]."""
    a, b, vector = _together(_square(a, "solve"), b)
    return _as_given(b if _is_empty(a) or _is_empty(b) else _nabla.solve(a, b), vector)


def solve_triangular(a, b, *, lower=False, trans=False, unit_diagonal=False, left=True):
    """x with a x = b (x a = b where not `left`) for a triangular a, of which the other triangle is not read; `trans`:
    with a transposed."""
    a, b, vector = _together(_square(a, "solve_triangular"), b)
    out = _emit("triangular_solve", [a, b], {"left": left, "lower": lower, "transpose": bool(trans),
                                             "unit_diagonal": unit_diagonal})[0]
    return _as_given(out, vector)


triangular_solve = solve_triangular


def inv(a):
    """The inverse. solve(a, b) is better than inv(a) times b."""
    a = _square(a, "inv")
    return a if _is_empty(a) else _nabla.inv(a)


def det(a):
    """The determinant: [...]."""
    return _nabla.det(_of_known_size(_square(a, "det"), "det"))


def slogdet(a):
    """(sign, log of the magnitude) of the determinant, which may itself be out of range."""
    return tuple(_nabla.slogdet(_of_known_size(_square(a, "slogdet"), "slogdet")))


def lstsq(a, b):
    """x that makes |a x - b| smallest. a has independent columns, not fewer rows than columns."""
    a, b, vector = _together(_matrix(a, "lstsq"), b)
    return _as_given(_nabla.lstsq(a, b), vector)


def pinv(a, rcond=None):
    """The pseudoinverse; singular values up to `rcond` times the largest count as 0 (None: by size and precision)."""
    return _nabla.pinv(_of_known_size(_matrix(a, "pinv"), "pinv"), -1.0 if rcond is None else float(rcond))


def qr(a, mode="reduced"):
    """(q, r) with a = q r, orthonormal columns of q and a diagonal of r that is not negative; rows >= columns.

    mode "r": r alone.
    """
    if mode not in ("reduced", "r"):
        _nabla.fail(204, f"qr: mode {mode!r} is neither reduced nor r")
    q, r = _emit("qr", [_matrix(a, "qr")], {})
    return r if mode == "r" else (q, r)


def svd(a, full_matrices=False, compute_uv=True):
    """(u, s, vh) with a = u diag(s) vh and s descending; s alone without compute_uv.

    full_matrices would complete u and vh to square matrices and is an error where these are not square already.
    """
    a = _matrix(a, "svd")
    if full_matrices and a.shape[-1] != a.shape[-2]:
        _nabla.fail(204, f"svd: full_matrices of {a.type_str()} is not there; leave it out")
    u, s, vh = _emit("svd", [a], {})
    return (u, s, vh) if compute_uv else s


def svdvals(a):
    """The singular values, descending."""
    return svd(a, compute_uv=False)


def eigh(a):
    """(eigenvalues ascending, eigenvectors as columns) of symmetric matrices, of which the lower triangle is read."""
    return tuple(_emit("eigh", [_square(a, "eigh")], {}))


def eigvalsh(a):
    """The eigenvalues of symmetric matrices, ascending."""
    return eigh(a)[0]


def eig(a):
    """Refused: eigenvalues of a matrix that is not symmetric are complex, and there are no complex dtypes. Raises
    NotImplementedError; eigh is for symmetric matrices."""
    raise NotImplementedError(
        f"linalg.eig of {_square(a, 'eig').type_str()}: its eigenvalues may be complex, and there are no complex "
        "dtypes. Symmetric matrices have linalg.eigh; singular values, linalg.svd, are real for all")


def eigvals(a):
    """Refused as eig: raises NotImplementedError; eigvalsh is for symmetric matrices."""
    return eig(a)


def _flat_matrix(a, split, what):
    """a as a matrix whose rows are its first `split` dimensions, with the sizes of both parts."""
    rows, columns = list(a.shape[:split]), list(a.shape[split:])
    m, n = count_of(rows), count_of(columns)
    if same_size(m, n) is not True:
        _nabla.fail(204, f"{what}: {a.type_str()} is no square matrix when its first {split} dimensions are the rows: "
                         f"{m} by {n}")
    return _emit("reshape", [a], {"shape": [m, n]})[0], rows, columns


def tensorsolve(a, b, axes=None):
    """x with tensordot(a, x, x.ndim) = b: the dimensions of a after b's are those of x; `axes` of a are moved to its
    end first."""
    a, b = float_tensors(a, b)
    if axes is not None:
        moved = [axis_of(d, a.ndim, "tensorsolve") for d in axes]
        if len(set(moved)) < len(moved):
            _nabla.fail(204, f"tensorsolve: axes={tuple(axes)} names a dimension of {a.type_str()} twice")
        order = [d for d in range(a.ndim) if d not in moved] + moved
        a = _emit("transpose", [a], {"permutation": order})[0]
    matrix, rows, columns = _flat_matrix(a, b.ndim, "tensorsolve")
    if rows != list(b.shape):
        _nabla.fail(203, f"tensorsolve: the first dimensions of {a.type_str()} are not those of {b.type_str()}")
    x = solve(matrix, _emit("reshape", [b], {"shape": [count_of(rows)]})[0])
    return _emit("reshape", [x], {"shape": columns})[0]


def tensorinv(a, ind=2):
    """The inverse of tensordot(a, ., ind), a map from the dimensions after the first `ind` to these; its own come in
    the other order."""
    a = float_tensors(a)[0]
    if not 0 < ind < a.ndim:
        _nabla.fail(204, f"tensorinv: ind is {ind}, of {a.type_str()} it is 1 to {a.ndim - 1}")
    matrix, rows, columns = _flat_matrix(a, ind, "tensorinv")
    return _emit("reshape", [inv(matrix)], {"shape": columns + rows})[0]


def lu_factor(a):
    """(L and U in one matrix, permutation): row i of L U is row permutation[i] of a."""
    return tuple(_emit("lu", [_square(a, "lu_factor")], {}))


def lu(a):
    """(P, L, U) with a = P L U, P a permutation matrix and L with ones on its diagonal."""
    both, order = lu_factor(a)
    n = both.shape[-1]
    unit = eye(n, dtype=both.dtype)
    low = _emit("add", [_nabla.tril(both, -1), _nabla.broadcast_to(unit, list(both.shape))], {})[0]
    p = matrix_transpose(one_hot(order, n, both.dtype))
    return p, low, _nabla.triu(both, 0)


def matrix_norm(a, ord="fro", keepdims=False):
    """"fro", "nuc", 2 (the largest singular value), 1 (columns) or inf (rows): [...]."""
    a = _matrix(a, "matrix_norm")
    name = {"fro": "fro", "nuc": "nuc", 2: "2", 1: "1", float("inf"): "inf", None: "fro"}.get(ord)
    if name is None:
        _nabla.fail(204, f"matrix_norm: {ord!r} is none of fro, nuc, 1, 2, inf")
    out = _nabla.matrix_norm(a, name)
    return _emit("reshape", [out], {"shape": list(out.shape) + [1, 1]})[0] if keepdims else out


def vector_norm(x, ord=2, axis=None, keepdims=False):
    """(sum |x|^ord)^(1/ord) over `axis`; inf and -inf are the largest and the smallest magnitude, 0 counts."""
    return _reduction.norm_of(x, ord, axis, keepdims)


def norm(x, ord=None, axis=None, keepdims=False):
    """vector_norm of all elements or along one axis; of two axes matrix_norm."""
    x = asarray(x)
    if isinstance(axis, (tuple, list)) and len(axis) == 2:
        a, b = [d % x.ndim for d in axis]
        moved = _emit("transpose", [x], {"permutation": [d for d in range(x.ndim) if d not in (a, b)] + [a, b]})[0]
        out = matrix_norm(moved, ord)
        return _emit("reshape", [out], {"shape": [1 if d in (a, b) else s for d, s in enumerate(x.shape)]})[0] \
            if keepdims else out
    if axis is None and ord is not None and x.ndim == 2:
        return matrix_norm(x, ord, keepdims)
    return vector_norm(x, 2 if ord is None else ord, axis, keepdims)


def trace(a):
    """The sum of the diagonal."""
    return trace_of(a)


def matrix_power(a, n):
    """a times itself, n times in all, by squaring; below 0 of the inverse."""
    a = _square(a, "matrix_power")
    if n < 0:
        a, n = inv(a), -n
    out = None
    while n:
        if n & 1:
            out = a if out is None else _nabla.matmul(out, a)
        n >>= 1
        if n:
            a = _nabla.matmul(a, a)
    return _nabla.broadcast_to(eye(a.shape[-1], dtype=a.dtype), list(a.shape)) if out is None else out


def matrix_rank(a, rtol=None):
    """How many singular values are above rtol times the largest (None: by size and precision): int32."""
    s = svdvals(a)
    if s.shape[-1] == 0:
        return _nabla.full(list(s.shape[:-1]), 0.0, _nabla.DType.int32)
    digits = {2: 2.0 ** -10, 4: 2.0 ** -23, 8: 2.0 ** -52}[s.dtype.itemsize]
    a = asarray(a)
    if rtol is None:
        rows, columns = a.shape[-2:]
        limit = max(rows, columns) * digits if all_static([rows, columns]) else _binary.mul(
            _binary.maximum(rows, columns), digits)
    else:
        limit = float(rtol)
    top = _reduction.max(s, -1, True)
    return _reduction.sum(_binary_greater(s, _binary.mul(top, limit)), -1)


def _binary_greater(x, y):
    from .ops.comparison import greater
    return greater(x, y)


def cond(a):
    """The largest singular value by the smallest."""
    s = svdvals(a)
    return _binary.div(_reduction.max(s, -1), _reduction.min(s, -1))


def multi_dot(matrices):
    """The product of several matrices, in the order that costs least.

    Source: the dynamic programme of Cormen, Leiserson, Rivest and Stein, Introduction to Algorithms, section 15.2.
    """
    matrices = [asarray(m) for m in matrices]
    if len(matrices) < 2:
        _nabla.fail(204, "multi_dot: needs two matrices or more")
    n = len(matrices)
    sizes = [m.shape[0] if m.ndim == 2 else 1 for m in matrices] + [
        matrices[-1].shape[-1] if matrices[-1].ndim == 2 else 1]
    sizes = [bounds_of(size)[1] for size in sizes]  # the largest, if they are known only at run time
    cost, cut = [[0] * n for _ in range(n)], [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i][j], cut[i][j] = min(
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j))

    def product(i, j):
        return matrices[i] if i == j else matmul(product(i, cut[i][j]), product(cut[i][j] + 1, j))

    return product(0, n - 1)


def expm(a):
    """The exponential of matrices.

    Source: scaling and squaring with the Pade approximant of degree 13, Higham, 2005; each matrix is
    scaled by its own 1-norm.
    """
    from .transforms import stop_gradient, while_loop
    a = _square(a, "expm")
    n = a.shape[-1]
    if 0 in a.shape:
        return a
    unit = _nabla.broadcast_to(eye(n, dtype=a.dtype), list(a.shape))
    norms = _nabla.unsqueeze(_nabla.unsqueeze(matrix_norm(stop_gradient(a), 1), -1), -1)
    b = [64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
         670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1]
    b = [float(v) / b[0] for v in b]
    doublings = 16  # for norms up to 5.37 times 2^16
    limits = asarray([5.37 * 2.0 ** i for i in range(doublings)], a.dtype)
    counts = _reduction.sum(_binary_greater(norms, limits), -1, keepdims=True)  # of each matrix: [..., 1, 1]
    x = _binary.mul(a, _emit("exp2", [_emit("neg", [_emit("convert", [counts], {"dtype": a.dtype})[0]], {})[0]], {})[0])

    def combined(terms):
        out = None
        for factor, power in terms:
            term = _binary.mul(power, factor)
            out = term if out is None else _binary.add(out, term)
        return out

    x2 = _nabla.matmul(x, x)
    x4 = _nabla.matmul(x2, x2)
    x6 = _nabla.matmul(x4, x2)
    odd = _nabla.matmul(x, _binary.add(
        _nabla.matmul(x6, combined([(b[13], x6), (b[11], x4), (b[9], x2)])),
        combined([(b[7], x6), (b[5], x4), (b[3], x2), (b[1], unit)])))
    even = _binary.add(_nabla.matmul(x6, combined([(b[12], x6), (b[10], x4), (b[8], x2)])),
                       combined([(b[6], x6), (b[4], x4), (b[2], x2), (b[0], unit)]))
    out = _nabla.solve(_binary.sub(even, odd), _binary.add(even, odd))

    def square(state):
        i, m = state
        again = _nabla.broadcast_to(_binary_greater(counts, i), list(m.shape))
        return _binary.add(i, 1), _emit("select", [again, _nabla.matmul(m, m), m], {})[0]

    return while_loop(lambda s: _emit("lt", [s[0], doublings], {})[0], square, (asarray(0, "int32"), out),
                      trip_count=doublings)[1]


__all__ = [
    "cholesky", "cholesky_solve", "cond", "cross", "det", "diag_embed", "diagonal", "eig", "eigh", "eigvals",
    "eigvalsh", "expm", "inner", "inv", "kron", "lstsq", "lu", "lu_factor", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve",
    "solve_triangular", "svd", "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace", "triangular_solve",
    "vdot", "vector_norm",
]
