"""Functions of tensors whose sizes are known only at run time, against the same functions of tensors of known sizes.

Each call either has the same result at several sizes, or is refused with the text that REFUSED has for it. The test
fails if a call is refused or accepted unexpectedly. Several calls are one compiled function, which saves compile time.

Every run tries one part of the calls; with NABLA_TEST_ALL=1 it tries all of them.
"""

import os

import numpy as np
import pytest
from dynamic_cases import OWN, SMOOTH
from numpy_names_test import CASES

import nabla as nb

ALL = os.environ.get("NABLA_TEST_ALL") == "1"
GROUP = 16

NEEDS_SIZE, MULTIPLE = "needs a size", "may not be a multiple of 2"
FOUR = "whether the sizes n4 and 4 are equal"

# Calls of CASES that are refused, and the text. The keys are functions, or functions with the
# shapes of their arrays and the names of their keywords.
BOTH = {
    **{name: f"{name} of the traced" for name in (
        "extract", "flatnonzero", "intersect1d", "ix_", "setdiff1d", "setxor1d", "trim_zeros", "union1d")},
    "histogram2d 40 40 bins": "needs a range", "histogram_bin_edges": "needs a range", "histogramdd": "needs a range",
    "poly": "each root is a step", "tril_indices_from": "the number of results",
    "triu_indices_from": "the number of results",
    "diag_indices_from": "whether the dimensions of", "insert 7 2": "whether the sizes n2 and 2 are equal",
}
REFUSED = {
    0: {**BOTH, "gradient 3x4 4 axis": FOUR, "cov 3x4 4 aweights": FOUR, "cov 3x4 4 fweights": FOUR,
        "vsplit": MULTIPLE},
    -1: {**BOTH, "histogramdd": "it is the number of dimensions",
         "polyfit 6 6x2": "whether the sizes n6 and 6 are equal",
         "insert 3x4 3 axis": "operand dimension 0 and result dimension 0 may differ: n3 vs 3", "hsplit": MULTIPLE,
         "dsplit": MULTIPLE},
}

# The same for the calls of dynamic_cases.py, by the dimension that is dynamic.
VALUE, KNOWN = "has no value in Python", "is known only at run time, and"
OWN_REFUSED = {
    0: {"geomspace-n": KNOWN, "tril_indices": KNOWN, "range": VALUE, "int": VALUE, "float": VALUE,
        "if": "bool() of a traced value", "diagonal-x": "whether rows <= 4", "split-3": "may not be a multiple of 3",
        "vsplit": MULTIPLE, "unstack": KNOWN, "delete-far": "whether 2 <= rows-1", "at-far": "may be less than 5",
        "index-far": "may be less than 5", "step": "slice with step 2", "histogram-0": "needs a range",
        "unique-0": NEEDS_SIZE, "top_k": KNOWN, "gradient-2": "may be less than 3", "convolve-3": "whether rows < 3",
        "polyadd": "whether rows <= 2", "poly": KNOWN, "polydiv": KNOWN, "linalg.det": KNOWN, "linalg.pinv": KNOWN,
        "fft.fft": KNOWN, "unfold": KNOWN, "adaptive_avg_pool": KNOWN, "resize": KNOWN,
        "choice-many": "whether 6 > rows"},
    1: {"if": "bool() of a traced value", "diagonal-x": "whether 6 <= columns", "step": "slice with step 2",
        "split-3": "may reach beyond dimension 1", "histogram-0": "needs a range", "unique-0": NEEDS_SIZE,
        "gradient-2": "may be less than 3", "linalg.pinv": KNOWN, "unfold": KNOWN, "adaptive_avg_pool": KNOWN,
        "resize": KNOWN},
}


def arrays_of(x):
    """The arrays with dimensions in nested arguments, in order."""
    if isinstance(x, np.ndarray):
        return [x] if x.ndim else []
    if isinstance(x, dict):
        x = list(x.values())
    return [a for v in x for a in arrays_of(v)] if isinstance(x, (list, tuple)) else []


def with_arrays(x, arrays):
    """The nested arguments with other arrays, an iterator."""
    if isinstance(x, np.ndarray) and x.ndim:
        return next(arrays)
    if isinstance(x, dict):
        return {k: with_arrays(v, arrays) for k, v in x.items()}
    return type(x)([with_arrays(v, arrays) for v in x]) if type(x) in (list, tuple) else x


def leaves_of(x):
    if isinstance(x, (list, tuple)):
        return [leaf for v in x for leaf in leaves_of(v)]
    return [x]


def same(got, want):
    got, want = [[np.asarray(v) for v in leaves_of(x)] for x in (got, want)]
    return len(got) == len(want) and all(
        g.shape == w.shape and (g.dtype == w.dtype or {g.dtype.kind, w.dtype.kind} <= set("iu")) and
        np.allclose(g.astype("f8"), w.astype("f8"), rtol=2e-4, atol=2e-4, equal_nan=True) for g, w in zip(got, want))


def compare(calls, dims, every_arrays):
    """Calls (name, f, number of arrays) as one compiled function, at each of the lists of arrays.

    Returns the texts of the calls that are refused, by the position of the call.
    """
    refused = {}

    def every(*arrays):
        arrays, out = iter(arrays), []
        for place, (name, f, count) in enumerate(calls):
            own = [next(arrays) for _ in range(count)]
            try:
                out.append(leaves_of(f(*own)))
            except nb.Error as e:
                refused[place] = f"{e.code} {str(e).splitlines()[0]}"
                out.append(None)
        return out

    compiled = nb.jit(every, dynamic_dims=dims)
    wrong = []
    for arrays in every_arrays:
        got = compiled(*arrays)
        rest = iter(arrays)
        for place, (name, f, count) in enumerate(calls):
            own = [nb.asarray(next(rest)) for _ in range(count)]
            if place in refused:
                continue
            try:
                want = f(*own)
            except (nb.Error, IndexError):  # the function does not take these sizes
                continue
            if not same(got[place], want):
                wrong.append((name, [a.shape for a in own], got[place], want))
    assert not wrong, wrong
    assert compiled.stats.misses == 1
    return refused


def check_refusals(calls, refused, table):
    unexpected = []
    for place, (name, _, _) in enumerate(calls):
        text, expected = refused.get(place), table.get(name, table.get(name.split(" ")[0]))  # a label has shapes
        if (text is None) != (expected is None) or (expected and expected not in text):
            unexpected.append(f"{name}: expected {expected}, got {text}")
    assert not unexpected, "\n".join(unexpected)


def numpy_call(name, args, kwargs):
    f = getattr(nb, name)

    def call(*arrays):
        arrays = iter(arrays)
        return f(*with_arrays(args, arrays), **with_arrays(kwargs, arrays))

    return call


def groups(cases, count):
    drawn = [c for i, c in enumerate(cases) if ALL or i % count == 0]
    return [drawn[i:i + GROUP] for i in range(0, len(drawn), GROUP)]


NUMPY = [c for c in CASES if c[0] != "apply_over_axes" and arrays_of(c[1])]


@pytest.mark.parametrize("axis", [0, -1], ids=["first", "last"])
@pytest.mark.parametrize("cases", groups(NUMPY, 3), ids=lambda cases: cases[0][0])
def test_functions_of_numpys(cases, axis):
    """A dimension of size s is dynamic between s - 1 and s, so that the order of different sizes is known."""
    calls, whole, cut, dims = [], [], [], {}
    for name, args, kwargs in cases:
        given = arrays_of((args, kwargs))
        label = " ".join([name] + ["x".join(str(n) for n in x.shape) for x in given] + list(kwargs))
        calls.append((label, numpy_call(name, args, kwargs), len(given)))
        for x in given:
            d, n = axis % x.ndim, x.shape[axis]
            dims[len(whole)] = {d: (f"n{n}", max(n - 1, 1), n)}
            whole.append(x)
            cut.append(np.take(x, range(max(n - 1, 1)), d))
    refused = compare(calls, dims, [whole, cut])
    check_refusals(calls, refused, REFUSED[axis])


def own_call(f):
    return lambda x: f(x, *x.shape)


def gradient_of(f):
    def total(x):
        return sum(nb.sum(nb.astype(leaf, "float32") ** 2) for leaf in leaves_of(f(x, *x.shape)))
    return nb.grad(total)


@pytest.mark.parametrize("axis", [0, 1], ids=["first", "last"])
@pytest.mark.parametrize("cases", groups(OWN, 3), ids=lambda cases: cases[0][0])
def test_sizes_between_2_and_16(cases, axis):
    calls = [(name, own_call(f), 1) for name, f in cases]
    calls += [(name + " gradient", gradient_of(f), 1) for name, f in cases if name in SMOOTH]
    rng = np.random.default_rng(5)
    shapes = [(6, 4), (5, 4), (3, 4)] if axis == 0 else [(6, 4), (6, 3), (6, 5)]
    runs = [[rng.standard_normal(shape).astype("float32")] * len(calls) for shape in shapes]
    dims = {i: {axis: (("rows", "columns")[axis], 2, 16)} for i in range(len(calls))}
    check_refusals(calls, compare(calls, dims, runs), OWN_REFUSED[axis])
