"""nabla.debug in every kind of run, disable_jit, check_nan, and what compiled functions tell about themselves."""

import re

import numpy as np
import pytest

import nabla as nb

X = nb.asarray([1.0, 2.0, 3.0])


def lines(capfd):
    return capfd.readouterr().out.splitlines()


def test_prints_at_once_outside_of_traces(capfd):
    nb.debug.print("x {} of {name!r}: {:.2f}", X, X[0], name="me")
    assert lines(capfd) == ["x [1, 2, 3] of 'me': 1.00"]


def test_prints_at_every_run_of_a_compiled_function(capfd):
    @nb.jit
    def f(x):
        y = x * 2.0
        nb.debug.print("y {} first {y[0]:.3f} {{}}", y, y=y)
        return y + 1.0

    assert f(X).tolist() == [3.0, 5.0, 7.0]
    f(X + 1.0)
    assert lines(capfd) == ["y [2, 4, 6] first 2.000 {}", "y [4, 6, 8] first 4.000 {}"]


def test_elements_show_as_their_dtypes(capfd):
    f = nb.jit(lambda *xs: nb.debug.print("{} {} {} {} {}", *xs))
    f(nb.asarray([True, False]), nb.asarray([-1], "int64"), nb.asarray([1.1], "float32"), nb.asarray([0.1], "float64"),
      nb.asarray([[1], [2]], "uint8"))
    assert lines(capfd) == ["[True, False] [-1] [1.1] [0.1] [[1], [2]]"]
    nb.jit(lambda x: nb.debug.print("{}", x))(nb.arange(2000))
    assert lines(capfd) == ["[0, 1, 2, ..., 1997, 1998, 1999]"]


def test_a_gradient_prints_forward_alone(capfd):
    def loss(w):
        y = nb.tanh(w)
        nb.debug.print("y {:.3f}", y)
        return nb.sum(y * y)

    expected = (2 * np.tanh(X.numpy()) * (1 - np.tanh(X.numpy()) ** 2)).tolist()
    for g in (nb.grad(loss), nb.jit(nb.grad(loss))):
        assert g(X).tolist() == pytest.approx(expected, rel=1e-5)
        assert lines(capfd) == ["y [0.762, 0.964, 0.995]"]
    nb.realize(nb.jit(lambda w: nb.jvp(loss, (w,), (w,)))(X))
    assert lines(capfd) == ["y [0.762, 0.964, 0.995]"]


def test_a_batch_prints_once_for_each_example(capfd):
    def one(x, w):
        nb.debug.print("{} {}", x, w)
        return x * w

    f = nb.vmap(one, in_axes=(0, None))
    for g in (f, nb.jit(f)):
        nb.realize(g(X, nb.asarray(5.0)))
        assert lines(capfd) == ["1 5", "2 5", "3 5"]


def body_of_a_loop(carry, x):
    carry = carry + x
    nb.debug.print("sum {}", carry)
    return carry, carry * 2.0


def test_loops_print_in_the_order_of_their_iterations(capfd):
    def f(xs):
        nb.debug.print("begin")
        total, ys = nb.scan(body_of_a_loop, nb.asarray(0.0), xs)
        nb.debug.print("end {}", total)
        return total, ys

    for g in (nb.jit(f), lambda xs: nb.realize(nb.jit(f)(xs))):
        g(X)
        assert lines(capfd) == ["begin", "sum 1", "sum 3", "sum 6", "end 6"]
    count = nb.jit(lambda n: nb.while_loop(lambda n: n < 3, lambda n: (nb.debug.print("n {}", n), n + 1)[1], n))
    count(nb.asarray(0))
    assert lines(capfd) == ["n 0", "n 1", "n 2"]


def test_derivatives_of_loops_print_once(capfd):
    def f(xs):
        return nb.scan(body_of_a_loop, nb.asarray(0.0), xs)[0] ** 2

    assert nb.jit(nb.grad(f))(X).tolist() == [12.0] * 3
    assert lines(capfd) == ["sum 1", "sum 3", "sum 6"]
    nb.jit(lambda x: nb.jvp(f, (x,), (x,)))(X)
    assert lines(capfd) == ["sum 1", "sum 3", "sum 6"]


def test_only_the_branch_that_is_taken_prints(capfd):
    def f(x):
        return nb.cond(x > 0, lambda v: (nb.debug.print("positive {}", v), v)[1],
                       lambda v: (nb.debug.print("negative {}", v), -v)[1], x)

    g = nb.jit(f)
    assert (g(nb.asarray(2.0)).item(), g(nb.asarray(-3.0)).item()) == (2.0, 3.0)
    assert lines(capfd) == ["positive 2", "negative -3"]
    assert nb.jit(nb.grad(f))(nb.asarray(-3.0)).item() == -1.0
    assert lines(capfd) == ["negative -3"]


def test_a_loop_that_only_prints_is_kept(capfd):
    def f(x):
        nb.fori_loop(0, 2, lambda i, c: (nb.debug.print("i {}", i), c)[1], x)
        return x + 1.0

    assert nb.jit(f)(nb.asarray(1.0)).item() == 2.0
    assert lines(capfd) == ["i 0", "i 1"]


def test_equal_prints_are_not_merged_and_keep_their_order(capfd):
    def f(x, w):
        nb.debug.print("{}", x)
        y = x @ w
        nb.debug.print("{}", x)
        nb.debug.print("sum {}", nb.sum(y))
        nb.debug.print("{}", x)
        return nb.sum(y) + nb.sum(x)

    nb.jit(f)(X, nb.ones((3, 2)))
    assert lines(capfd) == ["[1, 2, 3]", "[1, 2, 3]", "sum 12", "[1, 2, 3]"]


def test_sizes_are_those_of_the_run(capfd):
    f = nb.jit(lambda x: (nb.debug.print("{}", x * 2.0), nb.sum(x))[1], dynamic_dims={0: {0: ("n", 1, 8)}})
    for n in (2, 5):
        f(nb.ones((n,)))
        assert lines(capfd) == [str([2] * n)]
    assert f.stats.misses == 1


def test_callbacks_get_tensors_with_elements():
    seen = []

    def watch(x, scale, tag=None):
        seen.append((type(x).__name__, (x * scale).tolist(), tag))

    @nb.jit
    def f(x):
        nb.debug.callback(watch, x + 1.0, 2.0, tag="a")
        return nb.sum(x)

    f(X), f(X)
    assert seen == [("Tensor", [4.0, 6.0, 8.0], "a")] * 2
    nb.debug.callback(watch, X, 1.0)
    assert seen[2] == ("Tensor", [1.0, 2.0, 3.0], None)


def test_transforms_that_are_not_compiled_print_although_nobody_looks(capfd):
    def f(x):
        nb.debug.print("x {}", x)
        return x * x

    def body(c, x):
        nb.debug.print("c {}", c)
        return c + x, c

    nb.vmap(f)(X)
    assert capfd.readouterr().out == "x 1\nx 2\nx 3\n"
    nb.grad(f)(2.0)
    assert capfd.readouterr().out == "x 2\n"
    nb.scan(body, 0.0, X)
    assert capfd.readouterr().out == "c 0\nc 1\nc 3\n"
    nb.cond(X[0] > 0, f, lambda x: x, X[1])
    assert capfd.readouterr().out == "x 2\n"
    y = nb.vmap(f)(X)
    assert capfd.readouterr().out == "x 1\nx 2\nx 3\n"
    assert y.tolist() == [1.0, 4.0, 9.0]
    assert capfd.readouterr().out == ""


def test_what_a_callback_raises_ends_the_run():
    def stop(x):
        raise ValueError("enough")

    def f(x):
        nb.debug.callback(stop, x)
        return x * 2.0

    for g in (nb.jit(f), nb.vmap(f)):
        with pytest.raises(nb.Error, match=r"(?s)E0709.*debug callback `stop_\d+` raised ValueError: enough"):
            g(X)


def test_formats_that_do_not_fit_are_refused_where_they_are_written():
    with pytest.raises(nb.Error, match=r"(?s)E0204.*`\{:d\}`.*does not format f32.*debug_test.py:\d+"):
        nb.jit(lambda x: nb.debug.print("{:d}", x))(X)
    with pytest.raises(ValueError, match="!r does not convert"):
        nb.debug.print("{!r}", X)
    with pytest.raises(IndexError):
        nb.debug.print("{} {}", X)


def test_what_is_switched_off_is_not_compiled(capfd):
    @nb.jit
    def f(x):
        nb.debug.print("x {}", x)
        nb.debug.callback(print, x)
        return x + 1.0

    with nb.debug.disabled():
        f(X)
        assert "debug" not in f.inspect(X) and not nb.debug.enabled()
        nb.debug.print("x {}", X)
    assert lines(capfd) == []
    f(X)
    assert lines(capfd)[0] == "x [1, 2, 3]" and nb.debug.enabled()
    with nb.debug.disabled():
        f(X)
    assert lines(capfd) == []


def test_bundles_print(capfd, tmp_path):
    def step(state, x):
        nb.debug.print("w {} x {}", state, x)
        return state + x, {"w": state}

    program = nb.export({"init": lambda: nb.asarray(1.0), "step": step}, state=nb.spec(()),
                        args={"step": {"x": nb.spec(())}})
    assert '{text="w {} x {}"}' in program.text
    bundle = nb.compile_bundle(program, str(tmp_path / "m.nbundle"))
    bundle.run("init")
    bundle.run("step", x=nb.asarray(2.0))
    bundle.run("step", x=nb.asarray(3.0))
    assert lines(capfd) == ["w 1 x 2", "w 3 x 3"]


def test_disable_jit_runs_op_by_op():
    seen = []

    @nb.jit
    def f(x):
        seen.append(nb.config.is_tracing())
        return x + (1.0 if x[0].item() > 0 else 2.0) if not nb.config.is_tracing() else x + 1.0

    f(X), f(X)
    with nb.disable_jit():
        assert f(X).tolist() == [2.0, 3.0, 4.0]
    f(X)
    assert seen == [True, False] and f.stats.misses == 1


def test_check_nan_names_the_op_and_its_line():
    @nb.jit(check_nan=True)
    def f(x):
        y = x - 2.0
        return nb.sum(nb.log(y) * 3.0)

    assert f(X + 2.0).item() == pytest.approx(3 * np.log([1, 2, 3]).sum(), rel=1e-5)
    with pytest.raises(nb.Error, match=r"(?s)E0708.*`log`.*NaN.*debug_test.py:\d+.*operand 0.*-1 to 1"):
        f(X)


def test_check_nan_passes_masks_of_infinities():
    mask = np.tril(np.ones((4, 4), bool))
    scores = nb.asarray(np.arange(16.0, dtype="float32").reshape(4, 4))
    added = np.where(mask, 0, -np.inf).astype("float32")
    q = nb.asarray(np.linspace(-1, 1, 64, dtype="float32").reshape(1, 4, 2, 8))
    softmax = nb.nn.functional.softmax
    cases = [(lambda x, m: softmax(nb.where(m, x, -np.inf), -1), mask), (lambda x, m: softmax(x + m, -1), added),
             (lambda x, m: nb.min(nb.where(m, x, np.inf)), mask)]
    for f, m in cases:
        checked = nb.jit(f, check_nan=True)(scores, nb.asarray(m))
        np.testing.assert_allclose(checked.numpy(), f(scores, nb.asarray(m)).numpy(), rtol=1e-6)
    attention = nb.jit(lambda q: nb.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True), check_nan=True)
    assert np.isfinite(attention(q).numpy()).all()
    with pytest.raises(nb.Error, match="E0708.*has 1 NaN"):  # a row without a key
        nb.jit(cases[0][0], check_nan=True)(scores, nb.asarray(mask & (np.arange(4)[:, None] > 0)))


def test_check_nan_passes_functions_that_hold_nan_as_a_constant():
    x = nb.asarray([3.0, 1.0, 2.0])
    for f in (nb.median, nb.nanmax, nb.nanmedian, nb.nanvar, lambda x: nb.quantile(x, 0.25),
              lambda x: nb.take(x, nb.asarray([0, 2]), mode="fill")):
        np.testing.assert_allclose(nb.jit(f, check_nan=True)(x).numpy(), f(x).numpy(), rtol=1e-6)
    value, gradient = nb.jit(nb.value_and_grad(lambda x: nb.median(x) ** 2), check_nan=True)(x)
    assert value.item() == 4 and gradient.tolist() == [0, 0, 4]
    with pytest.raises(nb.Error, match="E0708.*`sqrt"):  # what is made of numbers is told
        nb.jit(lambda x: nb.nanmax(nb.sqrt(x - 2)), check_nan=True)(x)


def test_profiles_tell_times_by_kernel_and_line():
    w = nb.ones((64, 64))
    f = nb.jit(lambda x, w: nb.sum(nb.tanh(x @ w)))
    profile = f.profile(nb.ones((256, 64)), w, runs=3)
    assert profile.runs == 3 and profile.seconds >= max(r.seconds for r in profile.rows) > 0
    product = max(profile.rows, key=lambda r: r.flops or 0)
    assert product.flops >= 2 * 256 * 64 * 64 and product.calls == 1 and "debug_test.py" in product.source
    assert all(r.of_peak > 0 for r in profile.rows)
    row = r"(?m)^ *\d+\.\d% +\d+\.\d+ +1 +[\d.e+-]+ +[\d.e+-]+ +\d+ %  .* \S*debug_test.py:\d+$"
    assert re.search(row, repr(profile)), profile
    assert "of peak" in repr(profile) and "measured now" in repr(profile)
    large = nb.jit(lambda x: x @ x).profile(nb.ones((512, 512)))
    assert any(r.problem.startswith("gemm f32 1x512x512x512 nn by ") for r in large.rows), large
    assert max(r.flops or 0 for r in large.rows) == 2 * 512**3
    loop = nb.jit(lambda x: nb.fori_loop(0, 5, lambda i, c: nb.sin(c) @ c, x))
    assert any(r.calls == 5 for r in loop.profile(nb.ones((16, 16))).rows)
    with pytest.raises(ValueError, match="at least 1"):
        f.profile(nb.ones((256, 64)), w, runs=0)
    checked = nb.jit(lambda x: nb.log(x) * 2.0, check_nan=True)
    assert checked.profile(nb.ones((4,)), runs=1).runs == 1
    with pytest.raises(nb.Error, match="(?s)E0708.*`log`"):
        checked.profile(-nb.ones((4,)), runs=1)


@pytest.mark.parametrize("run", [lambda f, x: f(x), lambda f, x: f.profile(x, runs=1)], ids=["call", "profile"])
def test_an_interrupted_callback_interrupts_the_call(run):
    def interrupt(x):
        raise KeyboardInterrupt

    def f(x):
        nb.debug.callback(interrupt, x)
        return x + 1.0

    with pytest.raises(KeyboardInterrupt):
        run(nb.jit(f), nb.ones((2,)))
    assert nb.jit(lambda x: x + 1.0)(nb.ones((2,))).tolist() == [2.0, 2.0]


def test_a_callback_that_calls_its_own_function_is_refused():
    def f(x):
        nb.debug.callback(lambda v: compiled(v), x)
        return x + 1.0

    compiled = nb.jit(f)
    with pytest.raises(nb.Error, match="E0709.*E0707.*calls the compiled function that it belongs to"):
        compiled(nb.ones((2,)))


def test_memory_and_inspect_are_of_what_was_compiled():
    f = nb.jit(lambda x: nb.sum(nb.sin(x) @ nb.cos(x)))
    x = nb.ones((128, 128))
    memory = f.memory(x)
    assert memory.arena >= memory.peak >= 128 * 128 * 4 and memory.buffers[0][1] == "f32[128,128]"
    assert "peak" in repr(memory)
    assert "entry main(x: f32[128,128])" in f.inspect(x) and f.stats.misses == 1
    # Without arguments: what ran last.
    f(nb.ones((4, 4)))
    assert "entry main(x: f32[4,4])" in f.inspect() and f.memory().arena < memory.arena
    with pytest.raises(TypeError, match="fn has not been called: call it, or give the arguments"):
        nb.jit(lambda x: x).memory()
    dynamic = nb.jit(lambda x: nb.sum(x @ x.T), dynamic_dims={0: {0: ("n", 1, 8)}})
    assert "n" in repr(dynamic.memory(nb.ones((4, 2))))
    # FLOPs and bytes are those of the sizes that ran.
    assert sum(r.flops or 0 for r in dynamic.profile(nb.ones((4, 2)), runs=1).rows) >= 2 * 4 * 4 * 2
    assert max(r.bytes or 0 for r in dynamic.profile(nb.ones((4, 2)), runs=1).rows) < 8 * 8 * 4 * 2


SCALE = nb.asarray([2.0, 3.0])


def test_inspect_has_a_line_per_argument_and_closure():
    weights = {"a": nb.ones((2, 2)), "b": [nb.zeros(2)]}

    @nb.jit
    def f(params, x, offset=weights["b"][0]):
        return {"y": x @ params["w"]["first"] @ weights["a"] + weights["b"][0] * SCALE, "x": x}

    f({"w": {"first": nb.ones((2, 2))}}, nb.ones((3, 2)))
    lines = str(f.inspect()).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("entry main("))
    rows = [line.split(None, 1) for line in lines[at + 1:at + 8]]
    assert rows[:2] == [["argument", "params.w.first: f32[2,2]"], ["argument", "x: f32[3,2]"]]
    assert sorted(rows[2:5]) == [["closure", "SCALE: f32[2]"], ["closure", "weights.a: f32[2,2]"],
                                 ["closure", "weights.b.0: f32[2]"]]
    assert [row[0] for row in rows[5:]] == ["result", "result"]
