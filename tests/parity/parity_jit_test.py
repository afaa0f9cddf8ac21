"""Values of a part of the cases, compiled: kernels of the code generator instead of the interpreter."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from parity_base import check_compiled, parameters  # noqa: E402

# Shapes that depend on elements have no compiled form.
_ALL = [(c, g) for c, g in parameters("f32") if c.name not in ("masked_select", "nonzero", "unique")][::12]


@pytest.mark.parametrize("case, golden", _ALL, ids=[c.name for c, _ in _ALL])
def test_case(case, golden):
    check_compiled(case, "f32", golden)
