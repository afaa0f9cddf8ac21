"""First and second derivatives of every elementwise function of the package at special points: zeros, ones, ties,
subnormal numbers, the largest ones, infinities. The functions are found by what they do, so that new ones are tested.

There is no table of right values. A derivative in float64 lies between the slopes from the left and from the right.
These are found from the function's values, or for the second derivative from the first. In float32 it is what float64
gives."""

import itertools

import nabla as nb
import numpy as np
import pytest
from nabla import nn
from nabla.ops import binary, numbers, unary

# Functions whose values jump or are not real at most of the points, and those with attributes instead of operands.
NOT_SMOOTH = {"broadcast_shapes", "copysign", "frexp", "nextafter", "stop_gradient", "zeta"}
ONE = [0.0, -0.0, 5e-324, -1e-310, 1e-20, -1e-9, 1e-3, -1e-3, 0.25, -0.5, 1.0, -1.0, 1.5, 2.0, -2.0, 3.0, -3.0, 6.0,
       20.0, -20.0, 90.0, -100.0, 750.0, -750.0, 1e10, -1e10, 1e100, -1e100, 1.7e308, -1.7e308, np.inf, -np.inf]
TWO = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 1e100, -1e300, np.inf, -np.inf]


def points(operands):
    if operands == 1:
        return [np.array(ONE)]
    return [np.array(x) for x in zip(*itertools.product(TWO, repeat=operands))]


def at(x, i):
    return [float(a[i]) for a in x]


def call(f, *arrays):
    return np.asarray(f(*[nb.asarray(a) for a in arrays]))


def is_elementwise(f, operands):
    """f, of so many operands, gives a float for each element, which depends on that one alone."""
    x = [np.array([0.3, 0.6, 0.4]), np.array([0.5, 0.2, 0.7])][:operands]
    try:
        y, turned, first = call(f, *x), call(f, *[a[::-1].copy() for a in x]), call(f, *[a[:1].copy() for a in x])
    except Exception:
        return False
    return (y.dtype == np.float64 and y.shape == (3,) and first.shape == (1,) and np.array_equal(y, turned[::-1])
            and y[0] == first[0])


def elementwise():
    seen = set()  # some have two names
    for module, operands in itertools.product((unary, binary, numbers, nn.functional), (1, 2)):
        for name in module.__all__:
            f = getattr(module, name)
            if name in NOT_SMOOTH or not callable(f) or f in seen:
                continue
            if is_elementwise(f, operands):
                seen.add(f)
                yield f"{module.__name__.split('.', 1)[1]}.{name}", f, operands


def has_no_limit(name, x):
    """Returns where the function has a value by convention but no limit: 1 to an infinite power."""
    if name.rsplit(".", 1)[1] in ("pow", "float_power"):
        return (np.abs(x[0]) == 1) & np.isinf(x[1])
    return np.zeros(x[0].shape, bool)


FUNCTIONS = {name: (f, operands) for name, f, operands in elementwise()}


def slopes(f, operand):
    """The function of arrays that gives df / d(operand), element by element."""
    return nb.grad(lambda *x: nb.sum(f(*x)), argnums=operand)


def one_sided(f, x, operand, step):
    """(f(x + step) - f(x)) / step for smaller and smaller steps, extrapolated; NaN where it has no limit."""
    def quotient(part):
        moved = [a.copy() for a in x]
        moved[operand] = moved[operand] + step / part
        return (call(f, *moved) - call(f, *x)) / (moved[operand] - x[operand])

    with np.errstate(all="ignore"):
        whole, half, quarter = (quotient(part) for part in (1, 2, 4))
        first, second = 2 * half - whole, 2 * quarter - half
        settled = np.abs(first - second) <= 1e-4 * (1 + np.abs(second))
        return np.where(settled & np.isfinite(second), second, np.nan)


def check_between(f, slope, x, operand, what):
    """`slope` is that of f: between the slopes from both sides, or the one that there is."""
    value, got = call(f, *x), call(slope, *x)
    step = 1e-4 * np.maximum(1, np.where(np.isfinite(x[operand]), np.abs(x[operand]), 1))
    left, right = one_sided(f, x, operand, -step), one_sided(f, x, operand, step)
    moderate = np.all([np.abs(a) < 1e4 for a in x], axis=0)
    low, high = np.fmin(left, right), np.fmax(left, right)
    slack = 2e-3 * (1 + np.fmax(np.abs(low), np.abs(high)))
    known = moderate & ~np.isnan(low) & ~np.isnan(value)
    wrong = known & ~((got >= low - slack) & (got <= high + slack))
    return [f"{what} at {at(x, i)}: {got[i]}, not in [{low[i]}, {high[i]}]" for i in np.flatnonzero(wrong)]


def check_limits(f, slope, x, operand, what):
    """No NaN where the function is a number. Far out the slope is what it tends to."""
    value, got = call(f, *x), call(slope, *x)
    finite = [np.clip(a, -1e300, 1e300) for a in x]
    near = call(slope, *finite)
    wrong = np.isnan(got) & np.isfinite(value) & ~np.isnan(near)
    return [f"{what} at {at(x, i)}: NaN, where the function is {value[i]}" for i in np.flatnonzero(wrong)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_lie_between_the_slopes_of_both_sides(name):
    f, operands = FUNCTIONS[name]
    x, bad = points(operands), []
    x = [a[~has_no_limit(name, x)] for a in x]
    for operand in range(operands):
        first = slopes(f, operand)
        what = f"d/d{operand}"
        bad += check_between(f, first, x, operand, what) + check_limits(f, first, x, operand, what)
        for again in range(operands):
            second, what = slopes(first, again), f"d/d{again} of d/d{operand}"
            bad += check_between(first, second, x, again, what) + check_limits(first, second, x, again, what)
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_in_float32_are_those_of_float64(name):
    f, operands = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        single = [np.unique(a.astype(np.float32)) if operands == 1 else a.astype(np.float32) for a in points(operands)]
    bad = []
    for operand in range(operands):
        for what, slope in (("first", slopes(f, operand)), ("second", slopes(slopes(f, operand), operand))):
            got = call(slope, *single).astype(np.float64)
            want = call(slope, *[a.astype(np.float64) for a in single])
            known = np.isfinite(want) & (np.abs(want) < 1e37)
            with np.errstate(all="ignore"):
                wrong = known & ~(np.abs(got - want) <= 1e-3 * (1 + np.abs(want)))
            bad += [f"{what} at {at(single, i)}: {got[i]}, not {want[i]}" for i in np.flatnonzero(wrong)]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_bounded_activations_have_no_slope_at_their_ends(dtype):
    # As in JAX and PyTorch.
    ends = {"relu6": ([0, 3, 6], [0, 1, 0]), "hard_sigmoid": ([-3, 0, 3], [0, 1 / 6, 0]),
            "hard_swish": ([-3, 0, 3], [0, 0.5, 1])}
    for name, (x, want) in ends.items():
        for module in (nb, nn.functional):
            f = getattr(module, name)
            slopes = nb.grad(lambda x: nb.sum(f(x)))(nb.asarray(x, dtype))
            np.testing.assert_allclose(np.asarray(nb.cast(slopes, "float64")), want, rtol=1e-2)
            assert f(nb.asarray(x, dtype)).dtype == nb.dtype_of(dtype)
            assert np.isnan(f(nb.asarray(np.nan, dtype)).item())
    assert nb.relu6(nb.asarray([-5, 3, 9])).tolist() == [0, 3, 6]
