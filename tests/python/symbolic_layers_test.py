"""Layers and losses under sizes that are known at run time: value, gradient and second order of each (layer_cases.py),
and of compositions of them, with one, two and three symbols, against the same program at static sizes; and from a
bundle, against jit.

Here every second case has one of the numbers of symbols, and there are some compositions; the target
symbolic_layers_nightly runs all of them.
"""

import os
import sys

import nabla as nb
import numpy as np
import pytest
from layer_cases import LAYERS, LOSSES, WEIGHT, WIDTH, arguments, program, sizes
from nabla import nn
from nabla.nn import functional as F

ALL = os.environ.get("NABLA_TEST_ALL") == "1"
NAMES = ("b", "t", "u")


def check(programs, symbols):
    """All of them as one function, so that the host compiler runs once."""
    def every(ids, table):
        return [p(ids, table) for p in programs.values()]

    compiled = nb.jit(every, dynamic_dims={0: {i: (n, 1, 64) for i, n in enumerate(NAMES[:symbols])}})
    for run in range(2):
        given = arguments(symbols, run)
        for name, got, want in zip(programs, compiled(*given), every(*given)):
            for part, a, b in zip(("value", "gradient", "second order"), got, want):
                a, b = np.asarray(a), np.asarray(b)
                scale = max(1.0, np.abs(b).max())
                assert np.isfinite(b).all() and np.abs(a - b).max() <= 5e-4 * scale, (
                    name, part, sizes(symbols, run), a, b)
    assert compiled.stats.misses == 1


def of_layer(name):
    return program(LAYERS[name](), LOSSES["squares"])


def of_loss(name):
    return program(LAYERS["LayerNorm"](), LOSSES[name])


def groups():
    """Of some cases each: what makes a program of a name, the names, how many symbols."""
    out = []
    for make, table in ((of_layer, LAYERS), (of_loss, LOSSES)):
        for symbols in (1, 2, 3):
            names = [n for i, n in enumerate(table) if ALL or i % 2 == 0 and i // 2 % 3 + 1 == symbols]
            out += [(make, names[i:i + 6], symbols) for i in range(0, len(names), 6)]
    return out


@pytest.mark.parametrize("make, names, symbols", groups(), ids=lambda x: x[0] if isinstance(x, list) else None)
def test_layers_and_losses(make, names, symbols):
    check({n: make(n) for n in names}, symbols)


def chain(*layers):
    def run(x):
        for layer in layers:
            x = layer(x)
        return x
    return run


def keeps_rows(name):
    x = nb.zeros((2, 3, 4, WIDTH))
    return nb.eval_shape(LAYERS[name](), x).shape == x.shape


@pytest.mark.parametrize("seed", range(60 if ALL else 4))
def test_compositions(seed):
    rng = np.random.RandomState(seed)
    programs = {}
    for _ in range(2):
        names = []
        while len(names) < 3:
            names += [n for n in [list(LAYERS)[rng.randint(len(LAYERS))]] if keeps_rows(n)]
        loss = list(LOSSES)[rng.randint(len(LOSSES))]
        programs["-".join([*names, loss])] = program(chain(*[LAYERS[n]() for n in names]), LOSSES[loss])
    check(programs, 1 + seed % 3)


@pytest.mark.parametrize("norm", [F.rms_norm, lambda x, w: F.layer_norm(x, w, nb.zeros((WIDTH,)))])
def test_gradient_of_an_embedding_through_a_norm(norm):
    weight = nb.ones((WIDTH,))
    check({"norm": program(lambda x: norm(x, weight) @ WEIGHT, LOSSES["squares"])}, 2)


# ---- Bundles

EXPORTED = ["TransformerDecoderLayer", "LSTM", "ConvTranspose1d", "MaxPool1d", "Dropout",
            "MultiHeadAttention with a cache"]


@pytest.mark.parametrize("names", [list(LAYERS)[i:i + 6] for i in range(0, len(LAYERS), 6)] if ALL else [EXPORTED],
                         ids=lambda names: names[0])
def test_bundles_give_what_jit_gives(names, tmp_path):
    programs = {f"case{i}": of_layer(n) for i, n in enumerate(names)}
    ids = nb.spec([nb.symbol(n, 1, 64) for n in NAMES[:2]], "int32")
    exported = nb.export(programs, args={entry: [ids, (5, WIDTH)] for entry in programs})
    bundle = nb.compile_bundle(exported, tmp_path / "layers.nbundle")
    for run in range(2):
        given = arguments(2, run)
        for (entry, f), name in zip(programs.items(), names):
            compiled = nb.jit(f, dynamic_dims={0: {i: (n, 1, 64) for i, n in enumerate(NAMES[:2])}})
            want = [np.asarray(x) for x in compiled(*given)]
            got = [np.asarray(x) for x in bundle.run(entry, *given).values()]
            assert len(got) == 3
            for a, b in zip(got, want):
                scale = max(1.0, np.abs(b).max())
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * scale, err_msg=name)


# ---- That none is left out

REASONS = {
    "draws initial values, which depend on no input":
        [n for n in nn.init.__all__ if hasattr(F, n)],
    "holds modules and computes nothing": ["Module", "ModuleList", "ModuleDict"],
}


def public():
    """Name -> layer, function of nn.functional, or loss."""
    classes = {n: x for n, x in vars(nn).items() if isinstance(x, type) and issubclass(x, nn.Module) and n[0] != "_"}
    functions = {n: getattr(space, n) for space in (F, nn.attention, nn.recurrent, nn.losses) for n in space.__all__
                 if not isinstance(getattr(space, n), type)}
    return {**classes, **functions}


def reached():
    """What the cases call: functions by their code, modules by their class."""
    out = set()

    def see(frame, event, _):
        if event == "call":
            out.add(frame.f_code)
            if frame.f_code is nn.Module.__call__.__code__:
                out.add(type(frame.f_locals["self"]))

    x = nb.zeros((2, 3, WIDTH))
    cases = [make() for make in LAYERS.values()] + list(LOSSES.values())
    before = sys.getprofile()
    sys.setprofile(see)
    try:
        for case in cases:
            nb.eval_shape(case, x)
    finally:
        sys.setprofile(before)
    return out


def test_every_layer_and_loss_has_a_case_or_a_reason():
    seen = reached()
    found = {n for n, x in public().items() if getattr(x, "__code__", x) in seen}
    excused = [n for names in REASONS.values() for n in names]
    assert sorted(set(public()) - found - set(excused)) == [], "add a case to layer_cases.py, or a reason to REASONS"
    assert sorted(n for n in excused if n in found or n not in public()) == [], "a reason that nothing needs"


# Results that depend on the number of features follow from the number itself, and not from its upper bound.
def test_features_of_a_dynamic_number():
    x = np.random.RandomState(0).randn(1, 5, 6).astype(np.float32)
    turned = nb.jit(F.rope, dynamic_dims={0: {2: ("d", 2, 16, 2)}})(x)
    np.testing.assert_allclose(np.asarray(turned), np.asarray(F.rope(nb.asarray(x))), rtol=1e-5, atol=1e-6)

    def attend(x, scale=None):
        return F.scaled_dot_product_attention(x[None], x[None], x[None], scale=scale)

    dynamic = {0: {2: ("d", 2, 16)}}
    given = nb.jit(lambda x: attend(x, 0.25), dynamic_dims=dynamic)(x)
    np.testing.assert_allclose(np.asarray(given), np.asarray(attend(nb.asarray(x), 0.25)), rtol=1e-5, atol=1e-6)
    with pytest.raises(nb.Error, match="the number of features is d, which is not known at compile time.*give a scale"):
        nb.jit(attend, dynamic_dims=dynamic)(x)


# A dynamic size as an index, and as the size of a mask and of classes.
@pytest.mark.parametrize("name, f", [
    ("last row", lambda x: x[x.shape[0] - 1]), ("last column", lambda x: x[:, x.shape[1] - 1]),
    ("set last", lambda x: x.at[x.shape[0] - 1].set(0.0)), ("slope", nb.grad(lambda x: nb.sum(x[x.shape[0] - 1] ** 2))),
    ("mask", lambda x: nb.tri(x.shape[0])), ("below", lambda x: nb.tri(x.shape[0], x.shape[1], -1)),
    ("classes", lambda x: nb.one_hot(nb.argmax(x, 1), x.shape[1]))])
def test_dynamic_sizes_as_numbers(name, f):
    compiled = nb.jit(f, dynamic_dims={0: {0: ("n", 2, 9), 1: ("m", 2, 8)}})
    for shape in ((5, 4), (2, 8)):
        x = np.random.RandomState(0).randn(*shape).astype(np.float32)
        np.testing.assert_array_equal(np.asarray(compiled(x)), np.asarray(f(nb.asarray(x))))
