"""Layers and losses under sizes that are known at run time: value, gradient and second order of each, and of
compositions of them, with one, two and three symbols, against the same program at static sizes.

test_few is every layer with one of the numbers of symbols, and some compositions; the target symbolic_layers_nightly
runs all of them.
"""

import os

import nabla as nb
import numpy as np
import pytest
from nabla import nn
from nabla.nn import functional as F

WIDTH = 8
ALL = os.environ.get("NABLA_TEST_ALL") == "1"


def numbers(*shape, seed=0):
    return nb.asarray(np.random.RandomState(seed).uniform(-1, 1, shape).astype(np.float32))


WEIGHT = numbers(WIDTH, WIDTH, seed=7)


def images(layer):
    """For layers of [N, H, W, C]: rows of three dimensions and less become images of one line."""
    return lambda x: layer(nb.reshape(x, (*x.shape[:-1], *[1] * (3 - len(x.shape[:-1])), x.shape[-1])))


def lines(layer):
    """For layers of [N, L, C]."""
    def call(x):
        while x.ndim < 3:
            x = nb.expand_dims(x, 0)
        return layer(x) if x.ndim == 3 else layer(x[0])
    return call


LAYERS = {
    "matmul": lambda: lambda x: x @ WEIGHT,
    "Linear": lambda: nn.Linear(WIDTH, WIDTH, key=1),
    "Bilinear": lambda: (lambda m: lambda x: m(x, x * 0.5))(nn.Bilinear(WIDTH, WIDTH, WIDTH, key=1)),
    "LayerNorm": lambda: nn.LayerNorm(WIDTH),
    "RMSNorm": lambda: nn.RMSNorm(WIDTH),
    "GroupNorm": lambda: images(nn.GroupNorm(2, WIDTH)),
    "InstanceNorm": lambda: images(nn.InstanceNorm(WIDTH)),
    "BatchNorm": lambda: lambda x: nn.BatchNorm(WIDTH)(x),
    "PReLU": lambda: nn.PReLU(),
    "SwiGLU": lambda: nn.SwiGLU(WIDTH, 12, key=1),
    "MLP": lambda: nn.MLP([WIDTH, 12, WIDTH], key=1),
    "MultiHeadAttention": lambda: lines(nn.MultiHeadAttention(WIDTH, 2, key=1)),
    "CausalAttention": lambda: lines(
        (lambda m: lambda x: m(x, is_causal=True))(nn.MultiHeadAttention(WIDTH, 2, key=1))),
    "GroupedQueryAttention": lambda: lines(nn.GroupedQueryAttention(WIDTH, 4, 2, key=1)),
    "TransformerEncoderLayer": lambda: lines(nn.TransformerEncoderLayer(WIDTH, 2, 16, 0.0, key=1)),
    "RotaryEmbedding": lambda: lines(nn.RotaryEmbedding()),
    "RNN": lambda: lines(lambda x: nn.RNN(WIDTH, WIDTH, key=1)(x)[0]),
    "GRU": lambda: lines(lambda x: nn.GRU(WIDTH, WIDTH, key=1)(x)[0]),
    "LSTM": lambda: lines(lambda x: nn.LSTM(WIDTH, WIDTH, key=1)(x)[0]),
    "Conv1d": lambda: lines(nn.Conv1d(WIDTH, WIDTH, 3, padding=1, key=1)),
    "Conv2d": lambda: images(nn.Conv2d(WIDTH, WIDTH, 3, padding=1, key=1)),
    "AvgPool": lambda: images(lambda x: F.avg_pool2d(x, 1)),
    "softmax": lambda: lambda x: nb.softmax(x, axis=-1),
    "log_softmax": lambda: lambda x: nb.log_softmax(x, axis=-1),
    "gelu": lambda: F.gelu,
    "silu": lambda: F.silu,
    "mish": lambda: F.mish,
    "normalize": lambda: lambda x: F.normalize(x + 2),
    "mean_removed": lambda: lambda x: x - nb.mean(x, axis=0, keepdims=True),
    "cumsum": lambda: lambda x: nb.cumsum(x, axis=0) * 0.1,
}


def labels(x):
    return nb.cast(nb.argmax(nb.stop_gradient(x), axis=-1), "int32")


LOSSES = {
    "squares": lambda x: nb.sum(x * x),
    "mse_loss": lambda x: F.mse_loss(x, nb.zeros_like(x) + 0.3),
    "l1_loss": lambda x: F.l1_loss(x * x, nb.zeros_like(x) - 1),
    "huber_loss": lambda x: F.huber_loss(x, nb.zeros_like(x) + 0.1),
    "binary_cross_entropy": lambda x: F.binary_cross_entropy(nb.sigmoid(x), nb.zeros_like(x) + 0.25),
    "binary_cross_entropy_with_logits": lambda x: F.binary_cross_entropy_with_logits(x, nb.zeros_like(x) + 0.25),
    "cross_entropy_loss": lambda x: F.cross_entropy_loss(x, labels(x)),
    "smooth_cross_entropy": lambda x: F.cross_entropy_loss(x, labels(x), label_smoothing=0.1),
    "nll_loss": lambda x: F.nll_loss(nb.log_softmax(x, axis=-1), labels(x)),
    "kl_div_loss": lambda x: F.kl_div_loss(nb.log_softmax(x, axis=-1), nb.stop_gradient(nb.softmax(x * 2, axis=-1))),
    "cosine_similarity": lambda x: nb.sum(F.cosine_similarity(x, nb.zeros_like(x) + 1)),
    "hinge_loss": lambda x: F.hinge_loss(x * 0.1, nb.zeros_like(x) + 1),
}


def program(layer, loss):
    """From ids: of the table's rows the value, the gradient, and the gradient's own along a direction."""
    def run(ids, table):
        def value(e):
            return loss(layer(e[ids]))
        def slope(e):
            return nb.sum(nb.grad(value)(e) * WEIGHT[:5])
        return value(table), nb.grad(value)(table), nb.grad(slope)(table)
    return run


def sizes(symbols, run):
    return ((3, 4, 2), (2, 3, 5))[run][:symbols]


def check(programs, symbols):
    """All of them as one function, so that the host compiler runs once."""
    table = numbers(5, WIDTH, seed=3)
    names = ["b", "t", "u"][:symbols]

    def every(ids, table):
        return [p(ids, table) for p in programs.values()]

    compiled = nb.jit(every, dynamic_dims={0: {i: (n, 1, 64) for i, n in enumerate(names)}})
    for run in range(2):
        shape = sizes(symbols, run)
        ids = nb.asarray(np.random.RandomState(run).randint(0, 5, shape).astype(np.int32))
        for name, got, want in zip(programs, compiled(ids, table), every(ids, table)):
            for part, a, b in zip(("value", "gradient", "second order"), got, want):
                a, b = np.asarray(a), np.asarray(b)
                scale = max(1.0, np.abs(b).max())
                assert np.isfinite(b).all() and np.abs(a - b).max() <= 5e-4 * scale, (name, part, shape, a, b)
    assert compiled.stats.misses == 1


def bundles():
    """Name of the group -> (programs, symbols)."""
    out = {}
    for symbols in (1, 2, 3):
        layers = [n for i, n in enumerate(LAYERS) if ALL or i % 3 + 1 == symbols]
        for start in range(0, len(layers), 5):
            some = layers[start:start + 5]
            out[f"{symbols}-{'-'.join(some)}"] = (
                {n: program(LAYERS[n](), LOSSES["squares"]) for n in some}, symbols)
        losses = [n for i, n in enumerate(LOSSES) if ALL or i % 3 + 1 == symbols]
        out[f"{symbols}-losses"] = ({n: program(LAYERS["LayerNorm"](), LOSSES[n]) for n in losses}, symbols)
    return out


BUNDLES = bundles()


@pytest.mark.parametrize("name", BUNDLES)
def test_layers_and_losses(name):
    check(*BUNDLES[name])


def chain(*layers):
    def run(x):
        for layer in layers:
            x = layer(x)
        return x
    return run


@pytest.mark.parametrize("seed", range(60 if ALL else 4))
def test_compositions(seed):
    rng = np.random.RandomState(seed)
    simple = [n for n in LAYERS if n not in ("BatchNorm", "Conv1d", "Conv2d", "AvgPool", "GroupNorm", "InstanceNorm",
                                             "RNN", "GRU", "LSTM", "TransformerEncoderLayer")]
    programs = {}
    for _ in range(2):
        names = [simple[rng.randint(len(simple))] for _ in range(3)]
        loss = list(LOSSES)[rng.randint(len(LOSSES))]
        programs["-".join([*names, loss])] = program(chain(*[LAYERS[n]() for n in names]), LOSSES[loss])
    check(programs, 1 + seed % 3)


@pytest.mark.parametrize("norm", [F.rms_norm, lambda x, w: F.layer_norm(x, w, nb.zeros((WIDTH,)))])
def test_gradient_of_an_embedding_through_a_norm(norm):
    weight = nb.ones((WIDTH,))
    check({"norm": program(lambda x: norm(x, weight) @ WEIGHT, LOSSES["squares"])}, 2)
