"""Deterministic programs: random models, layouts and movements have the same bits on 1, 2, 4 and 8 ranks."""

import os
import random

import nabla as nb
import numpy as np
import pytest
from nabla import nn

MESHES = (1, 2, 4, 8)


def softmaxed(r, h, w):
    return nb.softmax(h @ w, axis=-1) + h


def normalised(r, h, w):
    return h * nb.rsqrt(nb.mean(h * h, axis=-1, keepdims=True) + 1e-3) @ w


def gated(r, h, w):
    return nb.sigmoid(h @ w) * nb.tanh(h @ nb.transpose(w)) + h


def beside(r, h, w):
    """Positions of one example look at each other."""
    q = h @ w
    seen = nn.functional.scaled_dot_product_attention(q[:, None], h[:, None], q[:, None], is_causal=r.random() < 0.5)
    return seen[:, 0] + h


def summed_over_positions(r, h, w):
    return h @ w + nb.sum(h, axis=1, keepdims=True) * 0.1


def looped(r, h, w):
    last, _ = nb.scan(lambda c, z: (nb.tanh(z + c @ w), None), h[:, 0], nb.transpose(h, (1, 0, 2)))
    return h + last[:, None]


LAYERS = [softmaxed, normalised, gated, beside, summed_over_positions, looped]


@pytest.mark.parametrize("seed", range(60 if os.environ.get("NABLA_TEST_ALL") else 3))
def test_deterministic_training_has_the_same_bits_on_any_mesh(seed, tmp_path):
    r = random.Random(seed)
    dtype, zero = r.choice(["float32", "bfloat16", "float16"]), r.choice([0, 1, 3])
    rows = r.choice([8, 16, 24])
    layers = [r.choice(LAYERS) for _ in range(r.randint(2, 4))]
    draws = np.random.default_rng(seed)
    start = {f"w{i}": nb.asarray((draws.standard_normal((16, 16)) * 0.3).astype("f")) for i in range(len(layers))}

    def step(state, x):
        def loss(weights):
            h = nb.astype(x, dtype)
            for i, layer in enumerate(layers):
                h = layer(r, h, nb.astype(weights[f"w{i}"], dtype))
            return nb.mean(nb.astype(h, "float32") ** 2)

        value, grads = nb.value_and_grad(loss)(state)
        norm = nb.sqrt(sum(nb.sum(g * g) for g in grads.values()))
        return {k: w - 0.05 * grads[k] / nb.maximum(norm, 1.0) for k, w in state.items()}, {"loss": value, "norm": norm}

    trained = nb.export({"init": lambda: start, "step": step}, state=start,
                        args={"step": {"x": nb.spec((rows, 5, 16))}})
    x = draws.standard_normal((rows, 5, 16)).astype("f")

    def bits(ranks):
        bundle = nb.compile_bundle(trained, tmp_path / "d.nbundle", deterministic=True, mesh={"dp": ranks},
                                   data_axes="dp", zero=zero)
        bundle.run("init")
        results = [bundle.run("step", x=x) for _ in range(2)]
        leaves = [bundle.get_state(k).numpy().tobytes() for k in start]
        return leaves + [y.numpy().tobytes() for result in results for y in result.values()]

    one = bits(1)
    for ranks in MESHES[1:]:
        assert bits(ranks) == one, (ranks, dtype, zero, [layer.__name__ for layer in layers])


LENGTH = 16


def after(r, x):
    """Each position has what stood before it."""
    k = r.randint(1, 3)
    return nb.concatenate([nb.zeros_like(x[:, :k]), x[:, :-k]], axis=1)


def inner(r, x):
    """Pieces of odd lengths, and of lengths that two or four parts divide and eight do not."""
    k, n = r.randint(0, 4), r.randint(0, 4)
    return nb.pad(nb.tanh(x[:, k:LENGTH - n]), ((0, 0), (k, n), (0, 0)))


def pieces(r, x):
    k = r.randrange(1, LENGTH)
    return nb.concatenate([nb.exp(-x[:, :k] ** 2), nb.tanh(x[:, k:])], axis=1)


def running(r, x):
    return r.choice([nb.cumlogsumexp, nb.cumsum])(x, axis=1) * 0.2


def joined(r, x):
    return nb.associative_scan(lambda a, b: nb.tanh(a + b), x, axis=1)


def heads(r, x):
    """Of fewer than eight heads parts do not follow from those of the features."""
    y = nb.transpose(x.reshape((3, LENGTH, 4, 2)), (0, 2, 1, 3))
    y = nn.functional.scaled_dot_product_attention(y, y, nb.tanh(y), is_causal=r.random() < 0.5)
    return nb.transpose(y, (0, 2, 1, 3)).reshape((3, LENGTH, 8))


def weighted(r, x):
    return nb.tanh(x @ nb.asarray(np.random.default_rng(r.randrange(9)).standard_normal((8, 8)).astype("f")))


def windows(r, x):
    return nb.sum(nb.sum(x.reshape((3, LENGTH // 2, 2, 8)), axis=2), axis=1, keepdims=True) * 0.1 + x


PIECES = [after, inner, pieces, running, joined, heads, weighted, windows]


@pytest.mark.parametrize("seed", range(80 if os.environ.get("NABLA_TEST_ALL") else 5))
def test_pieces_of_what_ranks_share_are_the_same(seed, tmp_path):
    r = random.Random(seed)
    if seed < len(PIECES):  # each alone, along the positions
        steps, layout = [(PIECES[seed], r.random())], (None, "sp", None)
    else:
        steps = [(r.choice(PIECES), r.random()) for _ in range(r.randint(2, 3))]
        layout = r.choice([(None, "sp", None), (None, None, "sp")])

    def loss(x):
        for step, draw in steps:
            x = step(random.Random(draw), x)
        return nb.mean(x ** 2)

    def both(x):
        value, gradient = nb.value_and_grad(loss)(x)
        return {"value": value, "gradient": gradient}

    program = nb.export({"both": both}, args={"both": {"x": nb.spec((3, LENGTH, 8))}})
    x = np.random.default_rng(seed).standard_normal((3, LENGTH, 8)).astype("f")

    def bits(ranks):
        try:
            bundle = nb.compile_bundle(program, tmp_path / "p.nbundle", mesh={"sp": ranks}, deterministic=True,
                                       layouts={r"input both\.x": layout})
        except nb.Error as e:
            return e.code, str(e).split("\n")[0]
        return {k: v.numpy().tobytes() for k, v in bundle.run("both", x=x).items()}

    one = bits(MESHES[0])
    for ranks in MESHES[1:]:
        assert bits(ranks) == one, (ranks, layout, [step.__name__ for step, _ in steps])
    assert not isinstance(one, tuple) or one[0] == "E0210", one


@pytest.mark.parametrize("layouts", [
    {r"p\.w": ("a", None)},
    {r"p\.w": (None, "a"), r"p\.o": ("a", None)},
    {r"p\.b": ("a",), r"input step\.x": ("a", None)},
])
def test_padded_parts_are_the_same(layouts, tmp_path):
    """Of 36, 10 and 12 elements two or four ranks have equal parts, and eight have not."""
    adamw, draws = nn.optim.adamw(0.01), np.random.default_rng(0)
    start = {"w": draws.standard_normal((36, 36)) * 0.2, "o": draws.standard_normal((36, 10)) * 0.2, "b": np.zeros(10)}
    start = {k: nb.asarray(v.astype("f")) for k, v in start.items()}

    def init():
        return {"p": start, "o": adamw.init(start)}

    def step(state, x):
        def loss(p):
            return nb.mean(nb.logsumexp(nb.tanh(x @ p["w"]) @ p["o"] + p["b"], axis=1))

        value, gradients = nb.value_and_grad(loss)(state["p"])
        p, o = adamw.update(state["p"], gradients, state["o"])
        return {"p": p, "o": o}, {"loss": value}

    trained = nb.export({"init": init, "step": step}, state=init(), args={"step": {"x": nb.spec((12, 36))}})
    x = draws.standard_normal((12, 36)).astype("f")

    def bits(ranks):
        bundle = nb.compile_bundle(trained, tmp_path / "u.nbundle", mesh={"a": ranks}, deterministic=True,
                                   layouts=layouts)
        bundle.run("init")
        losses = [bundle.run("step", x=x)["loss"].numpy().tobytes() for _ in range(2)]
        return losses + [bundle.get_state(k).numpy().tobytes() for k in bundle.state]

    one = bits(MESHES[0])
    for ranks in MESHES[1:]:
        assert bits(ranks) == one, ranks
