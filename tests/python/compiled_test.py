"""jit: caches, static and donated arguments, sizes that change, threads."""

import threading

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


def test_calls_of_tensors_alone_take_the_short_way_and_see_other_types():
    f = nb.jit(lambda a, b: (a + b, a * b))
    for _ in range(3):
        s, p = f(X, X)
        assert s.tolist() == [2.0, 4.0, 6.0] and p.tolist() == [1.0, 4.0, 9.0]
    assert [t.tolist() for t in f(nb.ones((2,)), nb.ones((2,)))] == [[2.0, 2.0], [1.0, 1.0]]
    assert f(nb.asarray([1, 2]), nb.asarray([3, 4]))[0].dtype == nb.int32
    assert f(2.0, 3.0)[1].item() == 6.0


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
    with pytest.raises(nb.Error, match="memory was donated"):
        x.tolist()
    with pytest.raises(ValueError, match="argument 0 is both static and donated"):
        nb.jit(lambda x: x, static_argnums=0, donate_argnums=0)


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
    assert "vmap" in text and "value_and_grad" in text and "f32[4,3]" in text and "<pre" in text._repr_html_()
    flat = nb.make_ir(nb.grad(lambda x: nb.sum(x * x)), stage="flat")(X)
    assert "value_and_grad" not in flat and "add" in flat
    with pytest.raises(ValueError, match="stage is 'traced' or 'flat'"):
        nb.make_ir(nb.sum, stage="late")


def test_jit_takes_functions():
    with pytest.raises(TypeError, match="jit takes a function, got float"):
        nb.jit(1.0)
