"""The table covers all public functions, and docs/parity.md is written from it."""

import inspect
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import nabla as nb  # noqa: E402
from cases import CASES  # noqa: E402
from make_goldens import document  # noqa: E402

# Not compared with JAX, and why.
ELSEWHERE = {
    "numbers depend on the generator, tests/python/ops_random_test.py": ["gaussian", "normal", "uniform"],
    "a collective": nb.ops.communication.__all__,
    "a class": ["Complex"],
    "classes of ops, tests/python/custom_rules_test.py": nb.ops.base.__all__,
    "a shape alone": ["broadcast_shapes"],
    "writes into its operand": ["slice_update_inplace"],
    "compared with NumPy, tests/python/numpy_names_test.py": [
        name for part in ("functional", "nans", "numbers", "places", "polynomial", "sets", "signal", "statistics")
        for name in getattr(nb.ops, part).__all__] + [
            "cumulative_prod", "cumulative_sum", "einsum_path", "percentile", "ptp", "tensorinv", "tensorsolve"],
    "a copy, tests/python/memory_test.py": ["copy"],
    "refused, for want of complex dtypes": ["eig", "eigvals"],
}


def test_every_function_has_a_case():
    text = " ".join(c.nabla for c in CASES)
    skipped = {name for names in ELSEWHERE.values() for name in names}
    for space, module in (("nb", nb.ops), ("nb.linalg", nb.linalg), ("nb.fft", nb.fft)):
        used = set(re.findall(re.escape(space) + r"\.(\w+)", text))
        functions = {id(getattr(module, name)) for name in used if hasattr(module, name)}
        missing = [name for name in module.__all__
                   if id(getattr(module, name)) not in functions and name not in skipped
                   and not (space != "nb" and id(getattr(module, name)) in
                            {id(getattr(nb.ops, n)) for n in nb.ops.__all__})]
        assert not missing, f"{space}: no case for {missing}"


def test_names_are_unique():
    names = [c.name for c in CASES]
    assert len(set(names)) == len(names)


def test_the_document_is_current():
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "..", "..", "docs", "parity.md"), encoding="utf-8") as f:
        assert f.read() == document(), "run tests/parity/make_goldens.py --write-docs"


def test_public_functions_are_documented():
    for module in (nb.ops, nb.linalg, nb.fft, nb.random, nb.devices):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value) or inspect.isclass(value):
                assert value.__doc__, f"{module.__name__}.{name} has no docstring"
