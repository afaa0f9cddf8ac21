"""What the tests of both precisions share: a case computed by nabla, and compared with its golden numbers."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import nabla as nb  # noqa: E402
from cases import CASES  # noqa: E402
from make_goldens import fingerprint, leaves, read  # noqa: E402
from recipe import array, moved  # noqa: E402

TOLERANCE = {"f32": 2e-6, "f64": 1e-12}
# Of cases that compute in 16 bits, whatever the precision of their arguments: a few roundings.
COARSE = {"bfloat16": 4e-2, "float16": 6e-3}


def _flat(tree):
    return [nb.asarray(x) for x in leaves(tree)]


def _check(case, what, got, want, dtype):
    assert len(got) == len(want), f"{case.name} {what}: {len(got)} results, JAX has {len(want)}"
    tol = max([TOLERANCE[dtype] * case.tol] + [v for k, v in COARSE.items() if k in case.nabla])
    for i, (g, w) in enumerate(zip(got, want)):
        assert tuple(g.shape) == w.shape, f"{case.name} {what} {i}: shape {g.shape}, JAX {w.shape}: {case.nabla}"
        g = g.numpy().astype(np.float64)
        scale = max(1.0, float(np.max(np.abs(w[np.isfinite(w)]), initial=0)))
        close = np.allclose(g, w, rtol=tol, atol=tol * scale, equal_nan=True)
        assert close, f"{case.name} {what} {i}: {case.nabla}\n{g}\nJAX: {case.jax}\n{w}"


def check(case, dtype, golden):
    """Values, and derivatives in both modes."""
    with nb.default_dtype({"f32": "float32", "f64": "float64"}[dtype]):
        _check_case(case, dtype, golden)


def _check_case(case, dtype, golden):
    args = {k: nb.asarray(array(case, k, dtype)) for k in case.args}
    names = case.floating()

    def f(*floating):
        return _flat(eval(case.nabla, {"nb": nb, **args, **dict(zip(names, floating))}))

    primals = [args[k] for k in names]
    value = f(*primals)
    _check(case, "value", value, golden["out"], dtype)
    if "vjp" not in golden:
        return
    value, pullback = nb.vjp(f, *primals)
    cts = [nb.asarray(moved(case, f"ct{i}", v.shape, dtype)).astype(v.dtype) if v.dtype.is_float()
           else nb.zeros(v.shape) for i, v in enumerate(value)]
    _check(case, "vjp", _flat(pullback(cts)), golden["vjp"], dtype)
    tangents = [nb.asarray(moved(case, f"t/{k}", v.shape, dtype)) for k, v in zip(names, primals)]
    found = nb.jvp(f, tuple(primals), tuple(tangents))[1]
    _check(case, "jvp", [t for t, v in zip(found, value) if v.dtype.is_float()], golden["jvp"], dtype)


def parameters(dtype):
    """(case, golden) of every case."""
    goldens = read(dtype)
    missing = [c.name for c in CASES if goldens.get(c.name, {}).get("key") != fingerprint(c)]
    assert not missing, f"cases without goldens, or changed since: {missing}; run tests/parity/make_goldens.py"
    return [(c, goldens[c.name]) for c in CASES]
