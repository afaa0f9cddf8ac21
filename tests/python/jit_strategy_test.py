"""Strategies of jitted functions: mesh, data_axes, zero, microbatches and layouts of nabla.jit, the compiler's notes,
and why."""

import warnings

import nabla as nb
import numpy as np
import pytest

SIZES = (8, 16, 4)


def parameters(seed=0):
    rng = np.random.default_rng(seed)
    return {f"fc{i}": {"w": nb.asarray(rng.normal(size=(n, m)).astype("float32") / 4),
                       "b": nb.asarray(np.zeros(m, "float32"))}
            for i, (n, m) in enumerate(zip(SIZES, SIZES[1:]))}


def batch(n=16, seed=1):
    rng = np.random.default_rng(seed)
    return (nb.asarray(rng.normal(size=(n, SIZES[0])).astype("float32")),
            nb.asarray(rng.normal(size=(n, SIZES[-1])).astype("float32")))


def forward(params, x):
    h = nb.tanh(x @ params["fc0"]["w"] + params["fc0"]["b"])
    return h @ params["fc1"]["w"] + params["fc1"]["b"]


def loss(params, x, y):
    return nb.mean(nb.square(forward(params, x) - y))


def step(params, momentum, x, y):
    value, gradient = nb.value_and_grad(loss)(params, x, y)
    momentum = nb.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
    return nb.tree.map(lambda p, m: p - 0.1 * m, params, momentum), momentum, value


def run(compiled, steps=3):
    params = parameters()
    momentum, losses = nb.tree.map(nb.zeros_like, params), []
    for i in range(steps):
        params, momentum, value = compiled(params, momentum, *batch(seed=i))
        losses.append(float(value))
    return params, losses


def close(a, b):
    for x, y in zip(nb.tree.leaves(a), nb.tree.leaves(b)):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("options", [
    {"mesh": {"dp": 4}, "data_axes": "dp"},
    {"mesh": {"dp": 2}, "data_axes": "dp", "microbatches": 4},
    {"microbatches": 2},
    {"mesh": {"dp": 4}, "data_axes": "dp", "zero": 1},
    {"mesh": {"dp": 4}, "data_axes": "dp", "zero": 2},
    {"mesh": {"dp": 2}, "data_axes": ("dp",), "zero": 3, "microbatches": 2},
    {"mesh": nb.DeviceMesh("pod", (2, 2), ("dp", "tp")), "data_axes": "dp",
     "layouts": {r"params\.fc0\.w": (None, "tp"), r"params\.fc1\.w": ("tp", None)}}])
def test_a_training_step_computes_what_one_device_does(options):
    want_params, want_losses = run(nb.jit(step))
    got_params, got_losses = run(nb.jit(step, donate_argnums=(0, 1), **options))
    close(got_params, want_params)
    np.testing.assert_allclose(got_losses, want_losses, rtol=2e-5)


def test_ranks_have_parts_of_the_batch_and_of_the_state():
    compiled = nb.jit(step, donate_argnums=(0, 1), mesh={"dp": 4}, data_axes="dp", zero=3)
    run(compiled, 1)
    text = str(compiled.inspect())
    assert "x: f32[4,8]" in text and "params.fc0.w: f32[2,16]" in text and "momentum.fc0.w: f32[2,16]" in text, text


def test_shares_of_gradients_are_exchanged_in_each_microbatch():
    """As in a bundle: with ZeRO 2 a rank has only its share of the summed gradients."""
    def exchanged(**options):
        compiled = nb.jit(step, donate_argnums=(0, 1), mesh={"dp": 4}, data_axes="dp", **options)
        run(compiled, 1)
        return str(compiled.inspect())

    assert "reduce_scatter x2 " in exchanged(zero=2, microbatches=2)
    assert "reduce_scatter x2 " not in exchanged(zero=1, microbatches=2)
    assert "reduce_scatter x2 " not in exchanged(zero=2)


def test_what_is_differentiated_by_is_no_batch():
    gradient = nb.jit(nb.grad(loss), mesh={"dp": 4}, data_axes="dp")
    close(gradient(parameters(), *batch()), nb.grad(loss)(parameters(), *batch()))
    text = str(gradient.inspect())
    assert "params.fc0.w: f32[8,16]" in text and "x: f32[4,8]" in text, text


def test_what_a_function_closes_over_is_no_batch():
    table = nb.asarray(np.arange(8, dtype="float32").reshape(8, 1))
    compiled = nb.jit(lambda x: x @ table, mesh={"dp": 4}, data_axes="dp")
    close(compiled(batch()[0]), np.asarray(batch()[0]) @ np.asarray(table))
    text = str(compiled.inspect())
    assert "x: f32[4,8]" in text and "table: f32[8,1]" in text, text


def test_layouts_name_arguments():
    mesh = {"tp": 4}
    with pytest.raises(nb.Error, match="E0210"):  # two words for a bias
        nb.jit(forward, mesh=mesh, layouts={r".*fc0\.[wb]": ("?", "tp")})(parameters(), batch()[0])
    compiled = nb.jit(forward, mesh=mesh, layouts={r".*fc0\.w": (None, "tp"), r".*fc0\.b": ("tp",)})
    close(compiled(parameters(), batch()[0]), forward(parameters(), batch()[0]))
    assert "params.fc0.w: f32[8,4]" in str(compiled.inspect())


def test_why_tells_where_a_layout_comes_from():
    compiled = nb.jit(forward, mesh={"dp": 4}, data_axes="dp")
    compiled(parameters(), batch()[0])
    assert "said by" in compiled.why("x") and "{dp}" in compiled.why("x"), compiled.why("x")
    with pytest.raises(nb.Error, match="nothing of the function is laid out over ranks"):
        plain = nb.jit(forward)
        plain(parameters(), batch()[0])
        plain.why("x")
    with pytest.raises(nb.Error, match="E0107"):
        compiled.why("no_such_value")


def test_notes_of_the_compiler_are_shown_once():
    compiled = nb.jit(step, donate_argnums=(0, 1), mesh={"dp": 4}, data_axes="dp", zero=2)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run(compiled, 2)
    texts = [str(w.message) for w in seen if issubclass(w.category, nb.CompilerNote)]
    assert any("zero=2: along" in text for text in texts), texts
    assert len(texts) == len(set(texts))
    assert {w.filename for w in seen if issubclass(w.category, nb.CompilerNote)} == {__file__}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        nb.jit(forward)(parameters(), batch()[0])
    assert not seen


@pytest.mark.parametrize("options, kind, text", [
    ({"data_axes": "dp"}, nb.Error, "the module has no mesh"),
    ({"mesh": {"dp": 4}, "zero": 1}, nb.Error, "needs data-axes|needs data_axes"),
    ({"mesh": {"dp": 4}, "data_axes": "tp"}, nb.Error, "tp"),
    ({"mesh": {"dp": 0}}, ValueError, "0"),
    ({"mesh": 4}, TypeError, "mesh is a DeviceMesh, or a dict"),
    ({"zero": 4}, ValueError, "zero is 0, 1, 2 or 3"),
    ({"microbatches": -1}, ValueError, "microbatches"),
    ({"mesh": {"dp": 2}, "layouts": {"none_such": ("dp",)}}, nb.Error, "none_such"),
    ({"mesh": {"dp": 3}, "data_axes": "dp"}, nb.Error, "no input is cut")])
def test_wrong_options_are_refused(options, kind, text):
    with pytest.raises(kind, match=text):
        nb.jit(step, donate_argnums=(0, 1), **options)(parameters(), nb.tree.map(nb.zeros_like, parameters()), *batch())


W, X, Y = (nb.asarray(np.random.default_rng(i).normal(size=shape).astype("float32"))
           for i, shape in enumerate([(6, 4), (8, 6), (8, 4)]))
DATA = {"mesh": {"dp": 2}, "data_axes": "dp"}


def squares(w, x, y):
    return nb.mean((x @ w - y) ** 2)


def two_steps(w, x, y):
    w = w - 0.1 * nb.grad(squares)(w, x, y)
    return w - 0.1 * nb.grad(squares)(w, x, y)


@pytest.mark.parametrize("options", [DATA, {"microbatches": 2}])
def test_what_a_differentiated_value_follows_from_is_batch(options):
    compiled = nb.jit(two_steps, **options)
    close(compiled(W, X, Y), two_steps(W, X, Y))
    assert options is not DATA or "x: f32[4,6]" in compiled.inspect()


def test_a_result_of_another_shape_is_no_new_value():
    def step(w, x):
        return (x @ w)[:3], nb.grad(lambda w: nb.mean((x @ w) ** 2))(w)

    want = step(W, X)
    close(nb.jit(step, donate_argnums=0, zero=3, **DATA)(W + 0, X), want)


def test_dynamic_sizes_of_a_batch_are_multiples_of_its_parts():
    compiled = nb.jit(lambda x: x * 2, dynamic_dims={0: {0: "n"}}, **DATA)
    close(compiled(X), X * 2)
    with pytest.raises(nb.Error, match="n is 7, no multiple of 2"):
        compiled(X[:7])


def test_questions_without_arguments_are_about_the_last_call():
    compiled = nb.jit(lambda w, x: x @ w, **DATA)
    for rows in (8, 8, 8, 4, 4, 4, 8, 8, 8):
        compiled(W, X[:rows])
    assert "x: f32[4,6]" in compiled.inspect() and "f32[8,6]" in compiled.why("x")
    with pytest.raises(TypeError, match="has not been called: call it, or give the arguments"):
        nb.jit(lambda x: x).inspect()
    with pytest.raises(TypeError, match="a value goes by its name, got 1"):
        compiled.why(1)


def test_an_argument_that_is_taken_for_batch_is_explained():
    def step(w, m, x, y):
        g = nb.grad(squares)(w, x, y)
        return w - 0.1 * g, 0.9 * m + g

    with pytest.raises(nb.Error) as refused:
        nb.jit(step, microbatches=2)(W, nb.zeros_like(W), X, Y)
    assert "donate_argnums and layouts say which ones do" in refused.value.__notes__[-1]
    assert "arguments 0, 1 come back as results of the same tree: donate_argnums=(0, 1)" in refused.value.__notes__[-1]
    with pytest.raises(nb.Error) as refused:
        nb.jit(step, microbatches=2, donate_argnums=-4)(W, nb.zeros_like(W), X, Y)
    assert ("argument 1 comes back as a result of the same tree: donate_argnums=(0, 1) makes it state"
            in refused.value.__notes__[-1])
    state = nb.jit(step, microbatches=2, donate_argnums=(0, 1))
    close(state(W + 0, nb.zeros_like(W), X, Y), step(W, nb.zeros_like(W), X, Y))


def test_leaves_of_one_name_are_two_inputs():
    tree = {"a.b": W, "a": {"b": 2 * W}}
    close(nb.jit(lambda p: p["a.b"] + p["a"]["b"])(tree), 3 * W)


@pytest.mark.parametrize("pad_first", [False, True])
def test_results_that_may_be_padded_are_known_arguments(pad_first):
    """The bias of 7 elements is padded over two ranks, and the compiler allows padding for the weight's gradient too.
    The next call does not compile again, because the shards of the weight have three rows each."""
    mesh = nb.DeviceMesh("pod", (2,), ("dp",))
    rows = (mesh, nb.P("dp"))

    def step(a, b, x):
        g, h = nb.grad(lambda a, b: nb.mean(nb.relu(x @ a + b) ** 2), argnums=(0, 1))(a, b)
        return a - 0.1 * g, b - 0.1 * h

    compiled = nb.jit(step, in_shardings=(rows, rows, rows), out_shardings=(rows, rows))
    a, b, x = nb.ones((6, 7)), nb.zeros((7,)), np.ones((8, 6), "float32")
    if pad_first:
        a, b = nb.jit(step, in_shardings=(rows, rows, rows), out_shardings=(rows, rows))(a, b, x)
    plain = a, b
    for _ in range(4):
        a, b = compiled(a, b, x)
        plain = step(*plain, x)
    assert compiled.stats.misses == 1 and compiled.stats.hits == 3
    close((a, b), plain)


def test_numbers_of_microbatches_that_are_none():
    for number in (0, -1, 2**21):
        with pytest.raises(nb.Error, match=f"E0901.*microbatches: {number} is not in the range 1 to 1048576"):
            nb.jit(loss, microbatches=number)
    for given in (True, False, 2.0, "2"):
        with pytest.raises(TypeError, match="microbatches is the number of parts of the batch, or None"):
            nb.jit(loss, microbatches=given)
