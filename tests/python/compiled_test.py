"""jit: caches, static and donated arguments, sizes that change, threads."""

import collections
import math
import re
import threading

import numpy as np
import pytest

import nabla as nb

X = nb.asarray([1.0, 2.0, 3.0])


def test_compiles_once_per_form_dtype_and_shape():
    f = nb.jit(lambda t: {"out": t["a"] * 2.0 + t["b"]})
    for _ in range(3):
        assert f({"a": X, "b": X})["out"].tolist() == [3.0, 6.0, 9.0]
    assert f.stats[:2] == (2, 1)
    f({"a": nb.ones((2,)), "b": nb.ones((2,))})
    f({"a": nb.asarray([1, 2]), "b": nb.ones((2,))})
    assert f.stats.misses == 3 and f.stats.size == 3
    f.clear_cache()
    assert f.stats.size == 0


def test_calls_that_came_before_see_other_types():
    f = nb.jit(lambda a, b: (a + b, a * b))
    for _ in range(3):
        s, p = f(X, X)
        assert s.tolist() == [2.0, 4.0, 6.0] and p.tolist() == [1.0, 4.0, 9.0]
    assert f.stats[:2] == (2, 1)
    assert [t.tolist() for t in f(nb.ones((2,)), nb.ones((2,)))] == [[2.0, 2.0], [1.0, 1.0]]
    assert f(nb.asarray([1, 2]), nb.asarray([3, 4]))[0].dtype == nb.int32
    assert f(2.0, 3.0)[1].item() == 6.0 and f(2.0, 4.0)[1].item() == 8.0 and f(2, 3)[1].dtype == nb.int32
    assert [f(X, X)[0].tolist() for _ in range(2)] == [[2.0, 4.0, 6.0]] * 2 and f.stats.misses == 5


Pair = collections.namedtuple("Pair", "left right")


def test_trees_of_calls_that_came_before():
    def swap(pair, rest, *, scale=None):
        first = pair.left * (1.0 if scale is None else scale)
        return Pair(pair.right, first), {"n": None, "all": [rest["b"], (rest["a"],)], "word": "same"}

    f = nb.jit(swap)
    for i in range(3):
        pair, out = f(Pair(X, X + float(i)), {"b": X, "a": 3.0}, scale=2.0)
        assert type(pair) is Pair and pair.left.tolist() == [1.0 + i, 2.0 + i, 3.0 + i]
        assert pair.right.tolist() == [2.0, 4.0, 6.0] and out["n"] is None and out["word"] == "same"
        assert out["all"][0].tolist() == X.tolist() and out["all"][1][0].item() == 3.0
    assert f.stats.misses == 1 and f.stats.hits == 2
    # Another tree, another key, another kind of container: each is a function of its own.
    assert f(Pair(X, X), {"b": X, "a": 3.0})[0].right.tolist() == X.tolist()
    assert f(Pair(X, X), {"b": X, "a": 3.0, "c": X})[0].right.tolist() == X.tolist()
    with pytest.raises(AttributeError, match="left"):
        f((X, X), {"b": X, "a": 3.0})
    with pytest.raises(KeyError):
        f(Pair(X, X), {"a": X})
    assert f.stats.misses == 3


def test_lists_are_read_at_every_call():
    f = nb.jit(lambda xs: nb.sum(nb.stack(xs)))
    xs = [X, X]
    assert f(xs).item() == 12.0 and f(xs).item() == 12.0
    xs.append(X)
    assert f(xs).item() == 18.0
    xs[0] = X + 1.0  # a value that is still to be computed
    assert f(xs).item() == 21.0 and f.stats.misses == 2


def test_values_that_wait_are_computed_for_a_call_that_came_before():
    f = nb.jit(lambda a, b: a + b)
    for i in range(4):
        assert f(X * float(i), X + 1.0).tolist() == [2.0 + i, 3.0 + 2.0 * i, 4.0 + 3.0 * i]
    assert f._known.hits == 3 and f.stats.misses == 1


def test_modules_and_arrays_of_calls_that_came_before():
    numpy = pytest.importorskip("numpy")

    class Scale(nb.nn.Module):
        def __init__(self, power):
            self.w, self.power = nb.asarray(2.0), power

        def forward(self, x):
            return (x * self.w)**self.power

    f = nb.jit(lambda m, x: m(x))
    for i in range(3):
        x = numpy.full((3,), i, "float32")
        assert f(Scale(1), x).tolist() == [2.0 * i] * 3
    assert f.stats.misses == 1
    assert f(Scale(2), x).tolist() == [16.0] * 3 and f(Scale(2), x[::2]).tolist() == [16.0] * 2
    assert f(Scale(1), x.astype("float64")).dtype == nb.float64 and f.stats.misses == 4


def test_another_default_dtype_is_another_function():
    f = nb.jit(lambda x: x + nb.zeros((3,)))
    x = nb.asarray([1, 2, 3])
    assert f(x).dtype == nb.float32
    for _ in range(2):
        with nb.default_dtype("float64"):
            assert f(x).dtype == nb.float64 and f(x).dtype == nb.float64
        assert f(x).dtype == nb.float32 and f(x).dtype == nb.float32
    assert f.stats.misses == 2


def test_calls_that_came_before_donate_and_keep_static_arguments_apart():
    f = nb.jit(lambda state, n, by: [s * n + by for s in state], donate_argnums=0, static_argnums=1)
    state = [nb.asarray([1.0]), nb.asarray([2.0])]
    for _ in range(3):
        old, state = state, f(state, 2, by=1.0)
        with pytest.raises(nb.Error, match="memory was donated"):
            old[1].tolist()
    assert [s.item() for s in state] == [15.0, 23.0]
    assert f.stats.misses == 1 and f(state, 3, by=1.0)[0].item() == 46.0 and f.stats.misses == 2


def test_numbers_are_arguments_not_constants():
    f = nb.jit(lambda x, step: x * step)
    assert [f(X, i).tolist()[0] for i in range(5)] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert f.stats.misses == 1


def test_static_arguments_are_part_of_the_program():
    f = nb.jit(lambda x, n, mode="sum": nb.sum(x) * n if mode == "sum" else nb.mean(x) * n, static_argnums=1,
               static_argnames="mode")
    assert f(X, 2).item() == 12.0 and f(X, 3).item() == 18.0 and f(X, 2, mode="mean").item() == 4.0
    assert f.stats.misses == 3
    assert f(X, 2).item() == 12.0 and f.stats.misses == 3
    g = nb.jit(lambda x, axis: nb.sum(x, axis=axis), static_argnums=1)
    m = nb.asarray([[1.0, 2.0], [3.0, 5.0]])
    assert g(m, -1).tolist() == [3.0, 8.0] and g(m, -2).tolist() == [4.0, 7.0]  # hash(-1) == hash(-2)
    assert nb.jit(lambda x, n: x * n, static_argnums=1)(X, True).tolist() == [1.0, 2.0, 3.0]


def test_static_values_must_have_a_hash():
    with pytest.raises(TypeError, match="cannot be hashed"):
        nb.jit(lambda x, n: x, static_argnums=1)(X, [1])


def test_closed_over_tensors_are_not_frozen():
    w = nb.asarray(2.0)
    f = nb.jit(lambda x: x * w)
    assert f(X).tolist() == [2.0, 4.0, 6.0] and f(X).tolist() == [2.0, 4.0, 6.0]


def test_donated_tensors_are_gone():
    f = nb.jit(lambda x: x + 1.0, donate_argnums=0)
    x = nb.asarray([1.0, 2.0])
    assert f(x).tolist() == [2.0, 3.0]
    for use in (x.tolist, lambda: f(x), lambda: x + 1.0, lambda: nb.jit(lambda v: v * x)(nb.ones(2))):
        with pytest.raises(nb.Error, match="memory was donated to fn"):
            use()
    assert x.shape == (2,) and x.dtype == nb.float32
    with pytest.raises(ValueError, match="argument 0 is both static and donated"):
        nb.jit(lambda x: x, static_argnums=0, donate_argnums=0)
    for n in (1, -2):
        with pytest.raises(TypeError, match=f"argument {n} of fn is donated, and the call has 1 by their places"):
            nb.jit(lambda a, b: a + b, donate_argnums=n)(nb.ones(2), b=nb.ones(2))
    last = nb.jit(lambda a, b: a + b, donate_argnums=-1)
    assert [last(nb.ones(2), nb.ones(2)).tolist() for _ in range(2)] == [[2.0, 2.0]] * 2


def test_dynamic_sizes_compile_once():
    f = nb.jit(lambda x, y: nb.sum(x * y, axis=0), dynamic_dims={0: {0: ("n", 1, 64)}, 1: {0: ("n", 1, 64)}})
    for n in (1, 7, 64):
        assert f(nb.ones((n, 2)), nb.ones((n, 2))).tolist() == [n, n]
    assert f.stats.misses == 1
    with pytest.raises(nb.Error) as e:
        f(nb.ones((65, 2)), nb.ones((65, 2)))
    assert "n = 65" in str(e.value) and "[1, 64]" in str(e.value)
    with pytest.raises(ValueError, match="has no dimension 3"):
        nb.jit(lambda x: x, dynamic_dims={0: {3: "n"}})(X)


@pytest.mark.parametrize("given, text", [
    ({0: {0: (1, 64)}}, r"a dimension is a name, or \(name, min, max\) with sizes from 1 on, got \(1, 64\)"),
    ({0: {0: ("n", 1, 64, 1, 1)}}, "a dimension is a name, or"),
    ({0: [0]}, r"dynamic_dims is \{argument: \{dimension: name\}\}, got \{0: \[0\]\}"),
    ([0], "dynamic_dims is .argument: "),
    ({"a": {0: "n"}}, "dynamic_dims: an argument is given by its place, got 'a'"),
    ({0: {"a": "n"}}, "dynamic_dims: a dimension is given by its place, got 'a'"),
    ({1: {0: "n"}}, "dynamic_dims: fn has 1 parameters, counted from 0, and no 1"),
    ({-1: {0: "n"}}, "counted from 0, and no -1"),
    ({0: {0: ("n", 1, True)}}, r"with sizes from 1 on, got \('n', 1, True\)"),
    ({0: {0: ("n", 0, 64)}}, "with sizes from 1 on, got"),
])
def test_malformed_dynamic_dims_are_named(given, text):
    with pytest.raises(ValueError, match=text):
        nb.jit(lambda x: x, dynamic_dims=given)


def test_minus_one_divides_sizes_that_change():
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    for f in (lambda x: nb.reshape(nb.reshape(x, (-1,)), (-1, 3)), lambda x: nb.reshape(x, (2, -1)),
              lambda x: nb.reshape(x, (x.shape[0] * 2, -1)), lambda x: nb.reshape(x, (-1, x.shape[0] * 6 // 2))):
        g = nb.jit(f, dynamic_dims={0: {0: "n"}})
        for rows in (x, x[:1]):
            assert np.array_equal(g(rows).numpy(), f(nb.asarray(rows)).numpy())
    with pytest.raises(nb.Error, match=r"no size in place of -1 makes f32\[n,6\] a tensor of shape \(-1, 5\)"):
        nb.jit(lambda x: nb.reshape(x, (-1, 5)), dynamic_dims={0: {0: "n"}})(x)


SHIFTED = [
    lambda x: x[:, 1:],
    lambda x: nb.reshape(x[:, 1:], (-1,)),
    lambda x: x[:, 1:].T @ x[:, :-1],
    lambda x: nb.concatenate([x[:, 1:], x], axis=1),
    lambda x: nb.grad(lambda w: nb.sum((w[:, 1:] - w[:, :-1]) ** 2))(x),
    lambda x: nb.astype(x[:, :-1], "int32") @ nb.ones((x.shape[1] - 1, 3), "int32"),
    lambda x: nb.dynamic_slice(x, (nb.asarray(0), nb.asarray(1)), (x.shape[0], x.shape[1] - 1)),
    lambda x: x[:, : x.shape[1] // 2],
    lambda x: x[:, : x.shape[1] // 2][:, :, None] * x[:, None, x.shape[1] // 2:],
    lambda x: x[1:, 1:] * 2.0,
    lambda x: nb.sum(x[:, 1:], axis=0),
]


@pytest.mark.parametrize("f", SHIFTED)
def test_two_dynamic_dimensions_with_a_shift(f):
    g = nb.jit(f, dynamic_dims={0: {0: ("b", 2, 8), 1: ("t", 2, 16)}})
    for shape in ((4, 6), (2, 2), (8, 16), (3, 15)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        assert np.allclose(g(x).numpy(), f(nb.asarray(x)).numpy()), shape


SIZES_AS_NUMBERS = [
    lambda x: x / x.shape[1],
    lambda x: x.shape[1] / x,
    lambda x: x * (x.shape[1] / 2) + x.shape[0] ** 2,
    lambda x: x + x.shape[1] * 0.5 - 1.5 * x.shape[0],
    lambda x: nb.arange(x.shape[1]) + x,
    lambda x: x + nb.arange(1, x.shape[1] + 1, dtype="float32"),
    lambda x: x[:, ::1] + nb.arange(x.shape[1] - 1, -1, -1),
    lambda x: nb.arange(x.shape[1])[None, :] < nb.arange(x.shape[0])[:, None],
    lambda x: nb.where(nb.arange(x.shape[1]) < x.shape[1] - 2, x, 0.0),
    lambda x: nb.reshape(x, (x.shape[0] * x.shape[1],)),
    lambda x: nb.sqrt(x.shape[1]) * x,
    lambda x: nb.sum(x) / (x.shape[0] * x.shape[1]),
    lambda x: nb.astype(x, "int8") + x.shape[0],
    lambda x: nb.astype(x, "float64") * x.shape[0],
    lambda x: x * (x.shape[0] - 5),
    lambda x: nb.full((2,), x.shape[0]),
    lambda x: x + nb.asarray(x.shape[0]),
    lambda x: nb.asarray(x.shape[1] > 3),
]


@pytest.mark.parametrize("f", SIZES_AS_NUMBERS)
def test_dynamic_sizes_are_numbers(f):
    g = nb.jit(f, dynamic_dims={0: {0: ("b", 1, 8), 1: ("t", 2, 16)}})
    for shape in ((4, 6), (1, 2), (8, 16)):
        x = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
        got, want = g(x), f(nb.asarray(x))
        assert got.dtype == want.dtype and np.allclose(got.numpy(), want.numpy()), shape


def test_a_range_that_may_be_negative_is_refused():
    f = nb.jit(lambda x: nb.arange(3, x.shape[0]), dynamic_dims={0: {0: ("n", 1, 8)}})
    with pytest.raises(nb.Error, match="arange: from 3 to n by 1 are n-3 elements, which may be less than 0"):
        f(nb.ones((4,)))


def test_sizes_without_a_bound_grow():
    f = nb.jit(lambda x: nb.sum(x), dynamic_dims={0: {0: "n"}})
    assert f(nb.ones((3,))).item() == 3.0 and f(nb.ones((1000,))).item() == 1000.0
    assert f.stats.misses == 1
    assert f(nb.ones((5000,))).item() == 5000.0 and f.stats.misses == 2


def test_transforms_and_calls_inside():
    inner = nb.jit(lambda x: x * x)
    f = nb.jit(lambda x: nb.grad(lambda v: nb.sum(inner(v)))(x))
    assert f(X).tolist() == [2.0, 4.0, 6.0]
    assert nb.grad(lambda v: nb.sum(inner(v)))(X).tolist() == [2.0, 4.0, 6.0]
    assert nb.vmap(inner)(X).tolist() == [1.0, 4.0, 9.0]
    assert inner.stats.misses == 0


def test_decorators_and_methods():
    @nb.jit
    def f(x):
        """Doc."""
        return x + 1.0

    @nb.compile(max_cache_size=1)
    def g(x):
        return x + 2.0

    class Thing:
        @nb.jit
        def double(self, x):
            return x * 2.0

    assert f.__name__ == "f" and f.__doc__ == "Doc." and f(X).tolist()[0] == 2.0
    g(X), g(nb.ones((2,)))
    assert g.stats.size == 1
    assert Thing().double(X).tolist() == [2.0, 4.0, 6.0]


def test_two_threads_compile_and_run_at_once():
    failures = []

    def work(i):
        try:
            f = nb.jit(lambda x: nb.sum(nb.sin(x) * float(i)) + nb.grad(lambda v: nb.sum(v * v))(x)[0])
            for k in range(20):
                x = nb.full((4,), float(k))
                want = nb.sum(nb.sin(x) * float(i)).item() + 2.0 * k
                assert abs(f(x).item() - want) < 1e-4 * max(1.0, abs(want))
        except Exception as e:  # noqa: BLE001: told to the main thread
            failures.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_make_ir_shows_transforms_and_sizes():
    text = nb.make_ir(nb.vmap(nb.grad(lambda x: nb.sum(x * x))))(nb.ones((4, 3)))
    assert "vmap" in text and "value_and_grad" in text and "f32[4,3]" in text
    html = text._repr_html_()
    ids = set(re.findall(r"id='([^']+)'", html))
    links = set(re.findall(r"href='#([^']+)'", html))
    # Every name leads to the one place where it is made.
    assert links and links <= ids and len(ids) == html.count("id=") and html.count("<details") == 3
    flat = nb.make_ir(nb.grad(lambda x: nb.sum(x * x)), stage="flat")(X)
    assert "value_and_grad" not in flat and "add" in flat
    whole = nb.make_ir(lambda x: nb.nn.functional.rms_norm(x), stage="flat")(X)
    assert whole.startswith("nabla 1 flat") and "rms_norm" in whole
    with pytest.raises(ValueError, match="stage is 'traced', 'flat' or 'sharded'"):
        nb.make_ir(nb.sum, stage="late")


def test_jit_takes_functions():
    with pytest.raises(TypeError, match="jit takes a function, got float"):
        nb.jit(1.0)


def test_threads_compile_a_form_once():
    f = nb.jit(lambda x: nb.sum(nb.sin(x) @ x.T))
    barrier, wrong = threading.Barrier(6), []

    def work():
        barrier.wait()
        for n in (1, 2, 3):
            if abs(f(nb.ones((n, n))).item() - n**3 * math.sin(1)) > 1e-3:
                wrong.append(n)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and f.stats.misses == 3 and f.stats.hits == 15


@pytest.mark.parametrize("options, text", [
    (dict(threads="a"), "threads is a number of threads, or 0 for all, got 'a'"),
    (dict(threads=-1), "threads is a number of threads, or 0 for all, got -1"),
    (dict(target=3), "target is a text, got 3"),
    (dict(check_nan="x"), "check_nan is True or False, got 'x'"),
    (dict(max_cache_size=-1), "max_cache_size is a number of forms to keep, from 1 on, got -1"),
    (dict(max_cache_size="a"), "max_cache_size is a number of forms to keep, from 1 on, got 'a'"),
    (dict(donate_argnums="x"), "donate_argnums is the place of an argument, or several, got 'x'"),
    (dict(static_argnums=1.5), "static_argnums is the place of an argument, or several, got 1.5"),
    (dict(static_argnames=[1]), r"static_argnames is a name, or several, got \[1\]"),
])
def test_options_of_other_types_are_named(options, text):
    with pytest.raises((TypeError, ValueError), match=text):
        nb.jit(lambda x: x, **options)


def test_no_places_are_none():
    f = nb.jit(lambda x: x + 1.0, static_argnums=None, static_argnames=None, donate_argnums=None)
    assert f(1.0).item() == 2.0


def test_dynamic_arguments_come_by_their_places():
    f = nb.jit(lambda x, y: x + y, dynamic_dims={1: {0: "n"}})
    with pytest.raises(TypeError, match="arguments by their places, and fn is called with y=...: pass it by its"):
        f(X, y=X)


def test_static_values_that_are_equal_and_not_alike():
    g = nb.jit(lambda x, v, w: x + float(seen.append(v) is None), static_argnums=1, static_argnames="w")
    h = nb.jit(lambda x, box: x + float(seen.append(box.value) is None))
    seen, values = [], [(v,) for v in (1, 1.0, True, 0.0, -0.0, float("nan"))]
    for f in (lambda v: g(X, v, w=0), lambda v: g(X, 0, w=v), lambda v: h(X, Box(v))):
        before = len(seen)
        for _ in range(2):
            for v in values:
                f(v)
        assert len(seen) == before + len(values)
    assert [repr(v) for v in seen[-len(values):]] == [repr(v) for v in values]


class Box:
    def __init__(self, value):
        self.value = value


nb.register_pytree_node(Box, lambda b: ((), b.value), lambda value, _: Box(value))


def test_zeros_of_both_signs():
    one = nb.asarray(1.0)
    g = nb.jit(lambda x, s: x / s, static_argnums=1)
    assert [g(one, s).item() for s in (0.0, -0.0, 0.0, -0.0)] == [math.inf, -math.inf] * 2
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        def f(x):
            zero = nb.full((1,), -0.0, dtype)
            return {"full": zero, "list": nb.asarray([-0.0], dtype), "times": x * -0.0,
                    "where": nb.where(x > 0, -0.0, 0.0),
                    "plus": nb.full((1,), 0.0, dtype), "array": nb.asarray(np.array([-0.0], np.float32)),
                    "neg": -nb.zeros((1,), dtype), "sign": nb.copysign(x, -0.0), "divided": 1 / zero}

        x = nb.ones(1, dtype)
        for way in (f, nb.jit(f)):
            out = way(x)
            for name, value in out.items():
                assert np.signbit(np.asarray(value.astype("float64"))[0]) == (name != "plus"), (dtype, name)
        for name in out:
            alone = nb.jit(lambda x: f(x)[name])(x)
            assert np.signbit(np.asarray(alone.astype("float64"))[0]) == (name != "plus"), (dtype, name)
    assert np.signbit(np.asarray(nb.jit(lambda: nb.full((), -0.0))()))
