"""Every case of cases.py in f64, compared with JAX."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from parity_base import check, parameters  # noqa: E402

_ALL = parameters("f64")


@pytest.mark.parametrize("case, golden", _ALL, ids=[c.name for c, _ in _ALL])
def test_case(case, golden):
    check(case, "f64", golden)
