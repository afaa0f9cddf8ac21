"""nabla.distributed: one process alone, and processes of mpirun."""

import subprocess
import sys

import numpy as np
import pytest

import nabla as nb
from nabla import distributed

MPIRUN = ("mpirun -q --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 "
          "--mca btl_tcp_if_include lo --mca oob_tcp_if_include lo -np").split()

BEGIN = """
import os, sys, time
import numpy as np
import nabla as nb
from nabla import distributed as d
d.init(timeout=5)
r, n = d.rank(), d.world_size()
"""


def run(ranks, text, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(BEGIN + text)
    command = [*MPIRUN, str(ranks), sys.executable, str(script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=90)


EXCHANGES = """
for dtype in ("int8", "int32", "int64", "uint8", "float16", "float32", "float64"):
    x = (np.arange(8).reshape(4, 2) + r).astype(dtype)
    every = [(np.arange(8).reshape(4, 2) + k).astype(dtype) for k in range(n)]
    for op, f in {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}.items():
        want = every[0]
        for other in every[1:]:
            want = f(want, other)
        got = d.all_reduce(x, op)
        assert got.dtype == x.dtype and np.array_equal(got, want), (dtype, op, got, want)
        assert np.array_equal(d.reduce_scatter(x, op), want[4 // n * r:4 // n * (r + 1)]), (dtype, op)
    assert np.array_equal(d.all_gather(x), np.concatenate(every)), dtype
    assert np.array_equal(d.broadcast(x, root=n - 1), every[-1]), dtype
assert np.array_equal(d.all_reduce(np.float32([r, 1]), "mean"), np.float32([(n - 1) / 2, 1]))
t = d.all_reduce(nb.asarray(np.float32([r + 1])))
assert isinstance(t, nb.Tensor) and t.numpy().tolist() == [n * (n + 1) / 2]
assert d.all_gather(np.int32(r)).tolist() == list(range(n))
assert d.all_reduce(np.zeros((0, 3))).shape == (0, 3)
assert d.all_reduce(np.ones((300, 1000), "float32")).tolist() == np.full((300, 1000), n, "float32").tolist()
assert d.is_main_process() == (r == 0) and 0 <= d.local_rank() < n
d.barrier()
print("good %d of %d\\n" % (r, n), end="", flush=True)
"""


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_collectives_of_processes(ranks, tmp_path):
    o = run(ranks, EXCHANGES, tmp_path)
    assert o.returncode == 0, o.stderr
    assert sorted(o.stdout.split("\n"))[1:] == [f"good {r} of {ranks}" for r in range(ranks)]


@pytest.mark.parametrize("theirs", ["np.zeros((2, 3), 'float32')", "np.zeros((3, 2), 'float64')"])
def test_ranks_that_differ_are_named(theirs, tmp_path):
    o = run(2, f"""
try:
    d.all_reduce(np.zeros((3, 2), 'float32') if r == 0 else {theirs})
except nb.Error as e:
    assert e.code == "E0614" and "rank 0" in str(e) and "rank 1" in str(e), e
    print("found\\n", end="", flush=True)
d.barrier()
""", tmp_path)
    assert (o.returncode, o.stdout) == (0, "found\nfound\n"), o.stderr


def test_a_rank_that_does_not_come_is_an_error_within_the_deadline(tmp_path):
    o = run(2, """
if r == 1:
    time.sleep(60)
begin = time.time()
try:
    d.barrier()
except nb.Error as e:
    print(e.code, 4 < time.time() - begin < 12, flush=True)
    raise
""", tmp_path)
    assert o.returncode != 0 and o.stdout == "E0611 True\n", o.stdout + o.stderr


def test_alone_every_collective_is_the_identity():
    distributed.init(engine="local")
    assert (distributed.rank(), distributed.world_size(), distributed.is_main_process()) == (0, 1, True)
    x = np.float32([[1, 2]])
    for f in (distributed.all_reduce, distributed.all_gather, distributed.reduce_scatter, distributed.broadcast):
        assert np.array_equal(f(x), x) and f(x) is not x
    with pytest.raises(ValueError, match="there are sum"):
        distributed.all_reduce(x, "xor")
    distributed.finalize()
    assert not distributed.is_initialized()
    with pytest.raises(nb.Error) as e:
        distributed.rank()
    assert e.value.code == "E0707"
