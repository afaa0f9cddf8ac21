"""The programs in docs/python-nn.md run."""

import os
import re

import nabla as nb
import numpy as np
from nabla import nn

_PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "python-nn.md")


def test_programs():
    blocks = re.findall(r"```python\n(.*?)```", open(_PAGE).read(), re.S)
    assert len(blocks) == 2
    names = {"nb": nb, "nn": nn}
    exec(blocks[0], names)
    names["model"] = names["Net"](2)
    rng = np.random.RandomState(0)
    names["batches"] = [(rng.randn(4, 8).astype(np.float32), np.zeros((4, 32), np.float32))] * 2
    exec(blocks[1], names)
    assert names["i"] == 1 and np.isfinite(names["loss"].item())
