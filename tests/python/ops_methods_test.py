"""Operators, conversions and methods of Tensor."""

import copy
import pickle

import numpy as np
import pytest

import nabla as nb

A = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32)


def same(got, want, dtype=None):
    assert tuple(got.shape) == np.shape(want)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    assert dtype is None or got.dtype == nb.dtype_of(dtype)


def test_operators():
    x = nb.asarray(A)
    for name, f in {
        "add": lambda v: v + 1, "radd": lambda v: 1 + v, "sub": lambda v: v - 0.5, "rsub": lambda v: 1 - v,
        "mul": lambda v: v * v, "truediv": lambda v: v / 2, "rtruediv": lambda v: 1 / v, "floordiv": lambda v: v // 2,
        "rfloordiv": lambda v: 7 // v, "mod": lambda v: v % 4, "rmod": lambda v: 7 % v, "pow": lambda v: v ** 2,
        "rpow": lambda v: 2 ** v, "matmul": lambda v: v @ v.T, "neg": lambda v: -v, "abs": lambda v: abs(v - 3),
        "pos": lambda v: +v, "divmod": lambda v: divmod(v, 2)[1], "compare": lambda v: (v > 2) & (v <= 5) | (v == 1),
        "not": lambda v: ~(v < 3), "xor": lambda v: (v < 3) ^ (v > 1), "ne": lambda v: v != 2, "ge": lambda v: v >= 2,
    }.items():
        same(f(x), f(A)), name
    same(x.astype("int32") << 1, A.astype(np.int32) << 1, "int32")
    same(x.astype("int32") >> 1, A.astype(np.int32) >> 1)


def test_in_place_spellings_make_new_tensors():
    x = y = nb.asarray([1.0, 2.0])
    x += 1
    x *= 2
    assert x.tolist() == [4.0, 6.0] and y.tolist() == [1.0, 2.0]


def test_numpy_on_the_left():
    x = nb.asarray(A)
    assert isinstance(A + x, nb.Tensor) and isinstance(A * x, nb.Tensor) and isinstance(A < x, nb.Tensor)
    same(A - x, A - A)
    assert np.sin(x).shape == (2, 3)


def test_other_operands():
    x = nb.asarray([1.0, 2.0])
    assert (x == None) is False and (x != "a") is True  # noqa: E711
    with pytest.raises(TypeError):
        x + "a"
    same(x + [1, 2], [2, 4])


@pytest.mark.parametrize("left, right, dtype", [
    ("int32", 1.5, "float32"), ("int64", 1, "int64"), ("bool", 1, "int32"), ("bool", True, "bool"),
    ("uint8", 1, "uint8"),
    ("bfloat16", 1.5, "bfloat16"), ("float16", 2, "float16"), ("float64", 1.5, "float64")])
def test_numbers_are_weak(left, right, dtype):
    assert (nb.ones(2, left) + right).dtype == nb.dtype_of(dtype)


@pytest.mark.parametrize("left, right, dtype", [
    ("int8", "uint8", "int16"), ("int32", "float16", "float16"), ("bfloat16", "float16", "float32"),
    ("float32", "float64", "float64"), ("bool", "int8", "int8"), ("int32", "int64", "int64"),
    ("uint32", "int32", "int64")])
def test_promotion(left, right, dtype):
    assert (nb.ones(2, left) + nb.ones(2, right)).dtype == nb.dtype_of(dtype)
    assert (nb.ones(2, right) * nb.ones(2, left)).dtype == nb.dtype_of(dtype)


def test_division():
    x = nb.asarray([7, -7])
    same(x / 2, [3.5, -3.5], "float32")
    same(x // 2, [3, -4], "int32")
    same(x % 2, [1, 1], "int32")
    same(nb.fmod(x, 2), [1, -1])
    same(nb.asarray([7.0, -7.0]) // 2, [3, -4])


def test_python_values():
    x = nb.asarray([[3]])
    assert int(x) == 3 and float(x) == 3.0 and bool(x) and [10, 11, 12, 13][x] == 13 and range(5)[x] == 3
    assert len(nb.ones((4, 2))) == 4 and [r.tolist() for r in nb.asarray([[1], [2]])] == [[1], [2]]
    assert 3 in nb.asarray([1, 3]) and 4 not in nb.asarray([1, 3])
    assert f"{nb.asarray(1.5):.2f}" == "1.50" and f"{nb.asarray([1])}".startswith("Tensor([1]")
    with pytest.raises(ValueError, match="one element"):
        bool(nb.ones(2))
    with pytest.raises(TypeError):
        len(nb.asarray(1.0))
    with pytest.raises(TypeError):
        list(nb.asarray(1.0))
    with pytest.raises(TypeError, match="no index"):
        [1][nb.asarray(0.0)]
    assert len({nb.asarray(1), nb.asarray(1)}) == 2


def test_traced_values_have_no_elements():
    def f(x):
        return 1.0 if x > 0 else 0.0

    with pytest.raises(nb.Error, match="ops_methods_test.py") as e:
        nb.grad(f)(nb.asarray(1.0))
    assert "nabla.where" in str(e.value) and "nabla.cond" in str(e.value)
    seen = []
    nb.vmap(lambda v: seen.append(repr(v)) or v)(nb.ones((2, 3)))
    assert seen == ["Tensor(f32[3], traced)"]


def test_numpy():
    x = nb.asarray(A)
    assert x.numpy().dtype == np.float32 and x.to_numpy().flags.writeable
    np.testing.assert_array_equal(np.asarray(x), A)
    assert np.asarray(x, np.float64).dtype == np.float64
    assert nb.ones(2, "bfloat16").numpy().dtype == np.float32
    assert np.asarray(nb.ones(2, "bfloat16")).tolist() == [1.0, 1.0]
    a, b = nb.to_numpy_all(x + 1, x * 2)
    np.testing.assert_array_equal(a + b, A * 3 + 1)
    for given in ([x + 1, x * 2, x[0]], (x + 1, x * 2, x[0])):  # a list is several tensors, of any shapes
        arrays = nb.Tensor.to_numpy_all(given)
        assert [a.shape for a in arrays] == [(2, 3), (2, 3), (3,)]
        np.testing.assert_array_equal(arrays[0] + arrays[1], A * 3 + 1)
        done = nb.realize_all(given)
        assert isinstance(done, tuple) and all(t is g for t, g in zip(done, given))
    assert x.sum().item() == 21.0 and x.tolist() == A.tolist()
    assert nb.from_dlpack(A).tolist() == A.tolist() and nb.Tensor.from_dlpack(A).shape == (2, 3)


def test_pickles_of_old_protocols():
    for protocol in range(6):
        assert pickle.loads(pickle.dumps(nb.float32, protocol)) == nb.float32
        assert pickle.loads(pickle.dumps(nb.ones((2,)), protocol)).tolist() == [1.0, 1.0]
        with pytest.raises(TypeError, match="cannot pickle 'Dim' object"):
            pickle.dumps(nb.symbol("a", 1, 3), protocol)


def test_copies_and_pickles():
    x = nb.asarray(A)
    assert copy.deepcopy(x).tolist() == A.tolist()
    back = pickle.loads(pickle.dumps(x.astype("bfloat16")))
    assert back.tolist() == A.tolist() and back.dtype == nb.bfloat16


def test_attributes():
    x = nb.zeros((2, 3, 4))
    assert x.shape == (2, 3, 4) and x.ndim == 3 == x.rank == x.dim == x.dim()
    assert x.size == 24 == x.numel == x.numel() and x.size() == (2, 3, 4) and x.size(-1) == 4
    assert x.T.shape == (4, 3, 2) and x.mT.shape == (2, 4, 3) and x.nbytes == 96 and x.itemsize == 4
    assert x.device == nb.CPU() and not x.is_sharded and x.num_shards == 1 and x.gather() is x


def test_methods():
    x = nb.asarray(A)
    for name, args in {"sum": (0,), "mean": (1,), "max": (0,), "min": (1,), "std": (), "var": (), "prod": (),
                       "argmax": (), "argmin": (0,), "cumsum": (1,), "reshape": (3, 2), "flatten": (), "squeeze": (),
                       "transpose": (), "clip": (2, 4), "round": (), "ravel": (), "repeat": (2,), "diagonal": (),
                       "trace": (),
                       "any": (), "all": (), "sort": ()}.items():
        same(getattr(x, name)(*args), getattr(A, name)(*args) if name != "sort" else np.sort(A)), name
    for name in "exp log sqrt sin cos tanh abs floor ceil".split():
        same(getattr(x, name)(), getattr(np, name)(A))
    same(x.view(-1), A.reshape(-1))
    same(x.unsqueeze(0), A[None])
    same(x.permute(1, 0), A.T)
    same(x.swap_axes(0, 1), A.T)
    same(x.expand(2, -1, -1), np.broadcast_to(A, (2, 2, 3)))
    same(x.broadcast_to((2, 2, 3)), np.broadcast_to(A, (2, 2, 3)))
    same(x.flip(1), A[:, ::-1])
    same(x.new_zeros(2), np.zeros(2), "float32")
    same(x.astype("float64").new_full((2,), 3), [3, 3], "float64")
    same(x.new_ones((2, 2)), np.ones((2, 2)))
    same(x.to("float64"), A, "float64")
    same(x.to(nb.CPU(), nb.float16).cpu(), A, "float16")
    same(x.type_as(nb.ones(1, "int64")), A, "int64")
    same(nb.Tensor.zeros((2,)), [0, 0])
    same(nb.Tensor.arange(3), [0, 1, 2])
    assert nb.Tensor.normal((2, 3)).shape == (2, 3)
    same(x.detach(), A)


def test_printing():
    assert repr(nb.asarray([1.0, 2.5])) == "Tensor([ 1., 2.5], dtype=float32)"
    assert repr(nb.asarray(3)) == "Tensor(3, dtype=int32)"
    assert repr(nb.zeros((0, 3))) == "Tensor([], shape=(0, 3), dtype=float32)"
    assert repr(nb.asarray([[True], [False]])) == "Tensor([[ True],\n        [False]], dtype=bool)"
    assert "..." in repr(nb.arange(2000)) and "shape=(2000,)" in repr(nb.arange(2000))
    assert "i32[2]" in nb.asarray([1, 2])._repr_html_() and "<td>2</td>" in nb.asarray([1, 2])._repr_html_()
    assert "<pre>Tensor(" in nb.ones((2, 2, 2))._repr_html_() and "<pre>" in nb.ones((50,))._repr_html_()
    assert len(repr(nb.ones((3, 40))).splitlines()[0]) < 120


def test_import_paths():
    from nabla.core import Tensor, autograd, tree_map  # noqa: F401
    from nabla.ops import add, binary, communication, creation, reduction, unary, view  # noqa: F401
    from nabla.ops.communication import all_reduce
    from nabla.ops.view import swap_axes  # noqa: F401
    with pytest.raises(ValueError, match="laid out over no mesh"):
        all_reduce(nb.ones(2))


def test_functions_of_numpy_call_methods():
    x = np.array([[3.0, 1.0, 2.0], [0.5, -1.0, 4.0]], np.float32)
    calls = {
        "sum": lambda x: np.sum(x), "sum axis": lambda x: np.sum(x, axis=1, keepdims=True),
        "mean": lambda x: np.mean(x), "mean dtype": lambda x: np.mean(x, axis=0, dtype=np.float64),
        "max": lambda x: np.max(x), "min": lambda x: np.min(x, 1), "prod": lambda x: np.prod(x),
        "std": lambda x: np.std(x, ddof=1), "var": lambda x: np.var(x, axis=0), "argmax": lambda x: np.argmax(x),
        "argmin axis": lambda x: np.argmin(x, axis=1), "cumsum": lambda x: np.cumsum(x, 1),
        "cumprod": lambda x: np.cumprod(x, axis=0, dtype=np.float64), "clip": lambda x: np.clip(x, 0, 2),
        "reshape": lambda x: np.reshape(x, (3, 2)), "transpose": lambda x: np.transpose(x),
        "any": lambda x: np.any(x > 3), "all": lambda x: np.all(x > -2, axis=0), "round": lambda x: np.round(x),
        "squeeze": lambda x: np.squeeze(x[:1], 0), "swapaxes": lambda x: np.swapaxes(x, 0, 1),
        "repeat": lambda x: np.repeat(x, 2, axis=1), "ndim": lambda x: np.ndim(x)}
    compiled = nb.jit(lambda x: {name: f(x) for name, f in calls.items()})(x)
    for name, f in calls.items():
        want = f(x)
        for way, got in (("eager", f(nb.asarray(x))), ("jit", compiled[name])):
            assert np.shape(got) == np.shape(want), (name, way)
            np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6, err_msg=f"{name}, {way}")
    t = nb.asarray(x)
    with pytest.raises(TypeError, match="out= is not taken"):
        t.sum(out=np.zeros(()))
    with pytest.raises(TypeError, match="row-major"):
        t.reshape(3, 2, order="F")
    with pytest.raises(TypeError):
        t.sum(other=1)
