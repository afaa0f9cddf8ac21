"""Derivatives, batches and control flow, composed. Numbers are by hand or by central differences."""

import math

import numpy as np
import pytest

import nabla as nb


def close(a, b, tolerance=1e-5):
    a, b = nb.asarray(a).tolist(), nb.asarray(b).tolist()
    return _close(a, b, tolerance)


def _close(a, b, tolerance):
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(_close(x, y, tolerance) for x, y in zip(a, b))
    return abs(a - b) <= tolerance * max(1.0, abs(b))


X = nb.asarray([1.0, 2.0, 3.0])


def cube(x):
    return nb.sum(x * x * x)


def test_batches_may_be_as_many_as_dimensions():
    def nested(depth):
        def f(x, left=depth):
            return nb.sin(x) if left == 0 else nb.vmap(lambda z: f(z, left - 1))(x[None])[0]
        return f

    assert close(nested(31)(X), nb.sin(X))
    for way in (lambda f: f, nb.jit, lambda f: nb.grad(lambda x: nb.sum(f(x)))):
        with pytest.raises(nb.Error, match=r"E0106\]: vmap of @.*: with the dimensions of its batches, .* is of 33 "
                                           "dimensions, at most 32 are allowed") as e:
            nb.realize(way(nested(40))(X))
        text = str(e.value)
        assert "reshape several into one" in text and "reproducer" not in text and "transforms_test.py" in text


def test_grad_of_grad():
    f = lambda x: x * x * x  # noqa: E731
    assert close(nb.grad(f)(2.0), 12.0)
    assert close(nb.grad(nb.grad(f))(2.0), 12.0)
    assert close(nb.grad(nb.grad(nb.grad(f)))(2.0), 6.0)


def test_grad_of_trees_argnums_and_aux():
    def loss(p, scale, x):
        return nb.sum(p["w"] * x) * scale + p["b"][0], {"seen": x}

    p = {"w": X, "b": [nb.asarray(0.5)]}
    (value, aux), (gp, gs) = nb.value_and_grad(loss, (0, 1), has_aux=True)(p, 2.0, X)
    assert close(value, 28.5) and close(aux["seen"], X)
    assert close(gp["w"], [2.0, 4.0, 6.0]) and close(gp["b"][0], 1.0) and close(gs, 14.0)
    g, aux = nb.grad(loss, has_aux=True)(p, 2.0, X)
    assert close(g["w"], gp["w"]) and close(aux["seen"], X)


def test_grad_by_keyword_neighbours():
    assert close(nb.grad(lambda x, power=2: x ** power)(3.0, power=3), 27.0)


def test_vjp_pullback_twice():
    out, pullback = nb.vjp(lambda x, y: (x * y, nb.sum(x)), X, X)
    assert close(out[0], [1.0, 4.0, 9.0]) and close(out[1], 6.0)
    for scale in (1.0, 2.0):
        gx, gy = pullback((nb.full((3,), scale), nb.asarray(1.0)))
        assert close(gx, [scale * 1 + 1, scale * 2 + 1, scale * 3 + 1]) and close(gy, scale * X)


def test_jvp_and_linearize_agree():
    out, tangent = nb.jvp(cube, (X,), (nb.ones((3,)),))
    assert close(out, 36.0) and close(tangent, 42.0)
    value, linear = nb.linearize(cube, X)
    assert close(value, 36.0) and close(linear(nb.ones((3,))), 42.0) and close(linear(X), 108.0)


def test_jacobians_and_hessian_by_four_routes():
    f = lambda x: nb.stack([nb.sin(x[0]) * x[1], x[0] * x[1] ** 2])  # noqa: E731
    x = nb.asarray([1.0, 2.0])
    expected = [[2 * math.cos(1), math.sin(1)], [4.0, 4.0]]
    assert close(nb.jacfwd(f)(x), expected) and close(nb.jacrev(f)(x), expected)
    g = lambda x: x[0] ** 3 + 2 * x[0] * x[1] + x[1] ** 2  # noqa: E731
    for h in (nb.jacfwd(nb.jacrev(g)), nb.jacrev(nb.jacfwd(g)), nb.jacfwd(nb.grad(g)), nb.hessian(g)):
        assert close(h(x), [[6.0, 2.0], [2.0, 2.0]])
    assert close(nb.hvp(g, (x,), (nb.asarray([1.0, 0.0]),)), [6.0, 2.0])


def test_vmap_axes_nesting_and_trees():
    m = nb.reshape(nb.arange(6.0), (2, 3))
    assert close(nb.vmap(cube)(m), [0 + 1 + 8, 27 + 64 + 125])
    assert close(nb.vmap(lambda r: r * 2, in_axes=1, out_axes=1)(m), m * 2)
    assert close(nb.vmap(lambda a, b: nb.sum(a) + b, in_axes=(0, None))(m, 1.0), [4.0, 13.0])
    outer = nb.vmap(nb.vmap(lambda a, b: a * b, (None, 0)), (0, None))
    assert close(outer(X, X), [[1, 2, 3], [2, 4, 6], [3, 6, 9]])
    got = nb.vmap(lambda t: {"s": t["a"] + t["b"], "d": t["a"]}, in_axes=({"a": 0, "b": None},),
                  out_axes={"s": 0, "d": 0})({"a": X, "b": nb.asarray(1.0)})
    assert close(got["s"], [2.0, 3.0, 4.0]) and close(got["d"], X)


def test_per_example_gradients():
    w = nb.asarray([1.0, -1.0])
    data = nb.asarray([[1.0, 2.0], [3.0, 4.0]])
    g = nb.vmap(nb.grad(lambda w, x: nb.sum(w * x) ** 2), in_axes=(None, 0))(w, data)
    assert close(g, [[-2.0, -4.0], [-6.0, -8.0]])


def test_vmap_refuses_what_it_cannot_map():
    with pytest.raises(nb.Error, match="spmd_axis_name"):
        nb.vmap(cube, spmd_axis_name="data")(nb.ones((2, 3)))
    with pytest.raises(ValueError, match="in_axes has 2 elements for 1 arguments"):
        nb.vmap(cube, in_axes=(0, 0))(X)
    with pytest.raises(nb.Error):
        nb.vmap(lambda a, b: a + b)(nb.ones((2,)), nb.ones((3,)))


def test_cond_switch_and_their_gradients():
    f = lambda x: nb.cond(x > 1.0, lambda v: v * v, lambda v: -v, x)  # noqa: E731
    assert close(f(3.0), 9.0) and close(f(0.5), -0.5)
    assert close(nb.grad(f)(3.0), 6.0) and close(nb.grad(f)(0.5), -1.0)
    assert close(nb.vmap(f)(X), [-1.0, 4.0, 9.0])
    s = lambda i: nb.switch(i, [lambda v: v, lambda v: v * 10, lambda v: v * 100], 2.0)  # noqa: E731
    assert [s(i).item() for i in (0, 1, 2, 7)] == [2.0, 20.0, 200.0, 200.0]


def test_branches_must_be_alike():
    said = r"cond: the branches' results must be alike: the result is f32\[\] and f32\[3\]"
    with pytest.raises(TypeError, match=said):
        nb.cond(nb.asarray(True), lambda v: nb.sum(v), lambda v: v, X)


def test_loops():
    assert close(nb.while_loop(lambda s: s < 100.0, lambda s: s * 2.0, 1.0), 128.0)
    assert close(nb.fori_loop(0, 5, lambda i, s: s + i, 0), 10)
    last, ys = nb.scan(lambda c, x: (c + x, c * x), nb.asarray(0.0), X)
    assert close(last, 6.0) and close(ys, [0.0, 2.0, 9.0])
    last, ys = nb.scan(lambda c, x: (c + x, c), nb.asarray(0.0), X, reverse=True)
    assert close(ys, [5.0, 3.0, 0.0])
    assert close(nb.scan(lambda c, _: (c * 2.0, c), nb.asarray(1.0), length=4)[1], [1, 2, 4, 8])
    f = lambda x: nb.fori_loop(0, 3, lambda i, s: s * x, 1.0)  # noqa: E731
    assert close(nb.grad(f)(2.0), 12.0)
    assert close(nb.grad(lambda x: nb.scan(lambda c, t: (c * t, c), x, X)[0])(2.0), 6.0)
    assert close(nb.associative_scan(lambda a, b: a * b, nb.asarray([1.0, 2.0, 3.0, 4.0])), [1, 2, 6, 24])


def test_loops_are_not_unrolled():
    def body(c, x):
        return c * x + 1.0, c

    short = nb.make_ir(lambda xs: nb.scan(body, nb.asarray(0.0), xs))(nb.ones((2,)))
    long = nb.make_ir(lambda xs: nb.scan(body, nb.asarray(0.0), xs))(nb.ones((2000,)))
    assert short.count("\n") == long.count("\n")


def test_while_without_a_trip_count_has_no_reverse_derivative():
    f = lambda x: nb.while_loop(lambda s: s < 100.0, lambda s: s * x, x)  # noqa: E731
    with pytest.raises(nb.Error, match="while"):
        nb.grad(f)(2.0).item()
    assert close(nb.jvp(f, (2.0,), (1.0,))[1], 7 * 2.0 ** 6)


def test_states_keep_their_types():
    with pytest.raises(TypeError, match=r"scan: the state comes as f32\[\] and leaves as f32\[3\]"):
        nb.scan(lambda c, x: (c + X, x), nb.asarray(0.0), X)
    with pytest.raises(TypeError, match="while_loop: the state comes as"):
        nb.while_loop(lambda s: s[0] < 1.0, lambda s: s[0], (1.0, 2.0))


def test_numbers_in_a_state_take_the_dtype_of_the_body():
    """As in JAX: Python numbers in the initial state are weak."""
    half, ones = nb.asarray([0.5], "bfloat16"), nb.ones(3)
    assert nb.scan(lambda c, v: (c + v, c), 0, ones)[0].dtype == nb.float32
    assert nb.scan(lambda c, v: (c + v, c), 0.1, half)[1].dtype == nb.bfloat16
    assert nb.fori_loop(0, 3, lambda i, c: c + 0.5, 0).tolist() == 1.5
    assert nb.fori_loop(nb.asarray(0), nb.asarray(3), lambda i, c: c + i, 0).dtype == nb.int32
    assert nb.while_loop(lambda c: c < 2, lambda c: c + 0.5, 0).tolist() == 2.0
    assert nb.while_loop(lambda s: s["n"] < 2, lambda s: {"n": s["n"] + 1, "v": s["v"] + ones[0]}, {"n": 0, "v": 0})[
        "v"].dtype == nb.float32
    nested = nb.fori_loop(0, 2, lambda i, c: nb.fori_loop(0, 2, lambda j, e: e + 0.25, c), 0)
    assert nested.dtype == nb.float32 and nested.item() == 1.0
    wide = nb.asarray([0.1, 0.2], "float64")
    assert nb.jit(lambda s: nb.scan(lambda c, v: (c + v, c), s, wide)[0])(0.1).item() == 0.1 + 0.1 + 0.2
    assert nb.vmap(lambda x: nb.fori_loop(0, 3, lambda i, c: c * x, 1))(wide).dtype == nb.float64
    assert nb.fori_loop(0, 1, lambda i, c: c * wide[0], 2**40).item() == 2**40 * 0.1
    assert nb.cond(False, lambda: 0.5, lambda: 1).item() == 1.0
    sized = nb.jit(lambda x: nb.fori_loop(0, 2, lambda i, c: c + 0.5, x.shape[0]), dynamic_dims={0: {0: "n"}})
    assert sized(ones).item() == 4.0
    for f in (lambda: nb.scan(lambda c, v: (c + 1, c), True, ones), lambda: nb.fori_loop(0, 2, lambda i, c: ones, 0.0),
              lambda: nb.fori_loop(0, 2, lambda i, c: 0.5, nb.asarray(1))):
        with pytest.raises(TypeError, match="comes as"):
            f()


def test_checkpoint_keeps_values_and_gradients():
    f = lambda x: nb.sum(nb.sin(nb.cos(x) * x))  # noqa: E731
    for g in (nb.checkpoint(f), nb.remat(f, policy="dots"), nb.checkpoint(policy="nothing")(f)):
        assert close(g(X), f(X)) and close(nb.grad(g)(X), nb.grad(f)(X))


def test_stop_gradient():
    assert close(nb.grad(lambda x: nb.sum(nb.stop_gradient(x) * x))(X), X)

    def looped(x):
        start = (0, nb.stop_gradient(x))
        return nb.sum(x * nb.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 1.5), start)[1])

    assert close(nb.grad(looped)(X), X * 1.5 ** 3)


def test_custom_vjp():
    @nb.custom_vjp
    def f(x, y):
        return nb.sin(x) * y

    f.defvjp(lambda x, y: (f(x, y), (x, y)), lambda kept, ct: (ct * kept[1] * 100.0, None))
    gx, gy = nb.grad(lambda x, y: f(x, y), (0, 1))(1.0, 2.0)
    assert close(gx, 200.0) and close(gy, 0.0)
    assert close(f(1.0, 2.0), 2 * math.sin(1))


def test_custom_vjp_checks_its_rules():
    @nb.custom_vjp
    def f(x):
        return x

    with pytest.raises(nb.Error, match="has no rule"):
        f(1.0)
    f.defvjp(lambda x: (x, None), lambda kept, ct: (ct, ct))
    with pytest.raises(TypeError, match="returns 2 gradients for 1 arguments"):
        nb.grad(f)(1.0)


def test_custom_jvp_in_both_modes():
    @nb.custom_jvp
    def f(x):
        return nb.exp(x)

    @f.defjvp
    def rule(primals, tangents):
        return f(primals[0]), 3.0 * tangents[0]

    assert close(nb.jvp(f, (0.0,), (1.0,))[1], 3.0) and close(nb.grad(f)(0.0), 3.0)


def test_custom_vmap():
    @nb.custom_vmap
    def f(x):
        return x * 2.0

    f.def_vmap(lambda x: x * 20.0)
    assert close(f(1.0), 2.0) and close(nb.vmap(f)(X), X * 20.0)


def test_what_has_no_derivative_is_an_error():
    with pytest.raises(TypeError, match=r"argument 0 is i32\[3\], which has no derivative"):
        nb.grad(nb.sum)(nb.asarray([1, 2, 3]))
    with pytest.raises(nb.Error, match="scalar"):
        nb.grad(lambda x: x * 2.0)(X)
    with pytest.raises(TypeError, match=r"returns \(\*, \*\), not one scalar; has_aux"):
        nb.grad(lambda x: (nb.sum(x), x))(X)
    with pytest.raises(ValueError, match="argnums names argument 2, but the function is called with 1"):
        nb.grad(cube, 2)(X)


def test_create_graph_false_ends_derivatives():
    once = nb.grad(lambda x: x * x * x, create_graph=False)
    assert close(once(2.0), 12.0) and close(nb.grad(once)(2.0), 0.0)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_branches_are_numbered_in_every_integer_dtype(dtype):
    count = 140 if dtype == "int8" else 3  # more branches than int8 has numbers
    branches = [lambda x, i=i: x + float(i) for i in range(count)]
    f = nb.jit(lambda i, x: nb.switch(i, branches, x))
    low, high = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    for i in sorted({0, 1, low, high, max(low, -1)}):
        index = np.array(i, dtype)
        assert f(index, 0.0).item() == min(max(i, 0), count - 1)
        assert nb.cond(index, lambda: 1.0, lambda: 0.0).item() == float(i != 0)


def test_what_is_no_index():
    with pytest.raises(TypeError, match=r"switch: the index is f32\[\], expected an integer scalar"):
        nb.switch(nb.asarray(1.0), [lambda: 1.0, lambda: 2.0])
    assert nb.cond(0.5, lambda: 1.0, lambda: 0.0).item() == 1.0
    assert nb.switch(1, [lambda: 1.0, lambda: 2.0]).item() == 2.0
