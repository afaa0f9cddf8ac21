"""Functions of tensors whose sizes are known only at run time, against the same functions of tensors of known sizes.

Each call either has the same result at several sizes, or is refused with the text that REFUSED has for it. A call that is
refused or accepted unexpectedly fails. Several calls are one compiled function, which saves compile time.

Every run tries one part of the calls; with NABLA_TEST_ALL=1 it tries all of them.
"""

import os

import numpy as np
import pytest
from dynamic_cases import OWN, OWN_REFUSED, SMOOTH
from numpy_names_test import CASES

import nabla as nb

ALL = os.environ.get("NABLA_TEST_ALL") == "1"
GROUP = 16

# Functions of CASES that are refused, and the text: the number of results depends on elements, or on a size.
REFUSED = {
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
        text, expected = refused.get(place), table.get(name)
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
@pytest.mark.parametrize("cases", groups(NUMPY, 1), ids=lambda cases: cases[0][0])
def test_functions_of_numpys(cases, axis):
    """A dimension of size s is dynamic between s - 1 and s, so that the order of different sizes is known."""
    calls, whole, cut, dims = [], [], [], {}
    for name, args, kwargs in cases:
        given = arrays_of((args, kwargs))
        calls.append((name, numpy_call(name, args, kwargs), len(given)))
        for x in given:
            d, n = axis % x.ndim, x.shape[axis]
            dims[len(whole)] = {d: (f"n{n}", max(n - 1, 1), n)}
            whole.append(x)
            cut.append(np.take(x, range(max(n - 1, 1)), d))
    refused = compare(calls, dims, [whole, cut])
    for place, text in refused.items(): print("REF", axis, calls[place][0], [x.shape for x in arrays_of(cases[place][1])], cases[place][2] , text)
