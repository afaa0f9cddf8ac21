"""nabla.distributed: one process alone, and processes of mpirun."""

import importlib
import os
import pathlib
import re
import subprocess
import sys
import time

import numpy as np
import pytest

import nabla as nb
from nabla import distributed

os.environ["HWLOC_HIDE_ERRORS"] = "2"  # Open MPI's hwloc writes to every rank's output where /sys is not mounted
EXAMPLES = str(pathlib.Path("examples/python").resolve())
MPIRUN = ("mpirun -q --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 "
          "--mca btl_tcp_if_include lo --mca oob_tcp_if_include lo -np").split()

BEGIN = """
import os, signal, sys, time
import numpy as np
import nabla as nb
from nabla import distributed as d
d.init(timeout={timeout})
r, n = d.rank(), d.world_size()
def say(text):
    print(str(text) + "\\n", end="", flush=True)
"""


def run(ranks, text, tmp_path, timeout=30):
    script = tmp_path / "script.py"
    script.write_text(BEGIN.format(timeout=timeout) + text)
    command = [*MPIRUN, str(ranks), sys.executable, str(script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_a_rank_that_does_not_join_ends_the_others_waiting(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import os, time
from nabla import distributed as d
if os.environ["OMPI_COMM_WORLD_RANK"] == "0":
    d.init(timeout=2)
time.sleep(40)
""")
    begin = time.time()
    o = subprocess.run([*MPIRUN, "2", sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert time.time() - begin < 35 and o.returncode == 1, o
    assert "error[E0611]: rank 0 of 2 has waited for 2 s for MPI to connect all processes" in o.stderr
    assert "see what the others do before they call nabla.distributed.init" in o.stderr


def test_a_process_that_a_rank_forks_is_no_rank(tmp_path):
    o = run(2, """
child = os.fork()
if child == 0:
    assert not d.is_initialized()
    for use in (d.rank, d.barrier, lambda: d.all_reduce(np.ones(1)), lambda: d.init(engine="mpi")):
        try:
            use()
        except nb.Error as e:
            assert e.code == "E0707" and "in a process that a rank has forked" in str(e), e
        else:
            os._exit(3)
    d.finalize()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
say(d.all_reduce(np.float32([r + 1])))
""", tmp_path, timeout=20)
    assert o.returncode == 0 and o.stdout.split() == ["[3.]"] * 2, o


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
assert d.all_gather(np.array([r % 2 == 0])).tolist() == [k % 2 == 0 for k in range(n)]
assert d.all_reduce(np.zeros((0, 3))).shape == (0, 3)
assert d.all_reduce(np.ones((300, 1000), "float32")).tolist() == np.full((300, 1000), n, "float32").tolist()
# Summed in float32 and rounded once: in bfloat16 256 + 1 is 256, and again.
b = d.all_reduce(nb.asarray([256.0 if r == 0 else 1.0, 0.5], nb.bfloat16))
assert b.dtype == nb.bfloat16
assert b.tolist() == [nb.asarray(255.0 + n, nb.bfloat16).item(), n / 2], b
assert d.all_gather(nb.asarray([r + 0.5], nb.bfloat16)).tolist() == [k + 0.5 for k in range(n)]
assert d.all_reduce(nb.asarray([r + 1.0], nb.bfloat16), "mean").tolist() == [(n + 1) / 2]
assert d.broadcast(nb.asarray([r + 1.0], nb.bfloat16), n - 1).dtype == nb.bfloat16
assert d.is_main_process() == (r == 0) and 0 <= d.local_rank() < n
d.barrier()
say("good %d of %d" % (r, n))
"""


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_collectives_of_processes(ranks, tmp_path):
    o = run(ranks, EXCHANGES, tmp_path)
    assert o.returncode == 0, o.stderr
    assert sorted(o.stdout.split("\n"))[1:] == [f"good {r} of {ranks}" for r in range(ranks)]


@pytest.mark.parametrize("theirs", ["np.zeros((2, 3), 'float32')", "np.zeros((3, 2), 'float64')",
                                    "nb.zeros((3, 2), nb.bfloat16)"])
def test_ranks_that_differ_are_named(theirs, tmp_path):
    o = run(2, f"""
try:
    d.all_reduce(np.zeros((3, 2), 'float32') if r == 0 else {theirs})
except nb.Error as e:
    assert e.code == "E0614" and "rank 0" in str(e) and "rank 1" in str(e), e
    say("found")
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
    say(f"{e.code} {4 < time.time() - begin < 12} {'for rank 1, and' in str(e)} {'rank 0 calls barrier()' in str(e)}")
    assert "nabla.distributed.init(timeout=...) sets how long others wait" in str(e) and "--" not in str(e), e
    raise
""", tmp_path, timeout=5)
    assert "AssertionError" not in o.stderr
    assert o.returncode != 0 and o.stdout == "E0611 True True True\n", o.stdout + o.stderr


# What rank 0 does, what the others do, and what all are told.
DIFFERENT_CALLS = [
    ("d.barrier()", "d.all_reduce(np.ones(3))",
     r"rank 0 calls barrier\(\), and rank 1 all_reduce\(float64\[3\], op=.sum.\)"),
    ("d.broadcast(x)", "d.broadcast(x, root=1)",
     r"rank 0 calls broadcast\(float32\[4, 8\], root=0\), and rank 1 broadcast\(float32\[4, 8\], root=1\)"),
    ("bundle.run('step', x=x)", "bundle.run('other', x=x)",
     r"rank 0 calls `step` of \S*two.nbundle\(\), and rank 1 `other` of \S*two.nbundle\(\)"),
    ("bundle.run('step', x=x)", "bundle.run('step', x=nb.ones((6, 8)))",
     r"rank 0 calls `step` of .*, and rank 1 `step` of \S*two.nbundle\(x: f32\[6,8\]\)"),
    ("bundle.run('step', x=x)", "d.barrier()", r"rank 0 calls `step` of \S*two.nbundle\(\), and rank 1 barrier\(\)"),
    ("(bundle.set_state('w', nb.ones((8, 6))), bundle.run('step', x=x))", "bundle.run('step', x=x)",
     r"rank 0 calls `step` of \S*two.nbundle\(\) after set_state\(\"w\"\) of 192 bytes \(content [0-9a-f]{8}\), and "
     r"rank 1 `step` of \S*two.nbundle\(\)\n"),
    ("(bundle.set_state('w', nb.ones((8, 6))), bundle.run('step', x=x))",
     "(bundle.set_state('w', nb.zeros((8, 6))), bundle.run('step', x=x))",
     r"after set_state\(\"w\"\) of 192 bytes \(content [0-9a-f]{8}\), and rank 1 .* after set_state\(\"w\"\) of 192 "
     "bytes"),
    ("(bundle.load_state(kept[0]), bundle.run('step', x=x))", "(bundle.load_state(kept[1]), bundle.run('step', x=x))",
     r"after load_state of \d+ bytes \(content [0-9a-f]{8}\), and rank 1 .* after load_state of \d+ bytes \(content"),
    ("bundle.get_state('w')", "bundle.save_state('/dev/null')",
     r"rank 0 calls get_state\(\"w\"\) of \S*two.nbundle, and rank 1 save_state of \S*two.nbundle"),
    ("f(s)", "g(s)", r"rank 0 calls `main` of twice\(\), and rank 1 `main` of thrice\(\)"),
    ("f(s)", "h(s)",
     r"rank 0 calls `main` of twice\(\), and rank 1 fourfold\(v f32\[4,8\]\), compiled to a bundle with SHA-256 "
     "[0-9a-f]{64}"),
    ("h(s)", "h(nb.shard(nb.ones((6, 8)), mesh, nb.P('dp', None)))",
     r"rank 0 calls fourfold\(v f32\[4,8\]\), compiled .*, and rank 1 fourfold\(v f32\[6,8\]\), compiled "),
    ("many({str(i): s for i in range(99)})", "many({str(i): s if i != 7 else u for i in range(99)})",
     r"rank 0 calls many\(\.\.\., v\.7 f32\[4,8\], v\.70 .*, and rank 1 many\(\.\.\., v\.7 f32\[4,6\], v\.70 "),
]


def test_ranks_that_make_different_calls_are_told_at_once(tmp_path):
    path = tmp_path / "two.nbundle"
    w = {"w": nb.spec((8, 6))}

    def step(state, x):
        return {"w": state["w"] + 1}, {"y": nb.sum(x @ state["w"])}

    def other(state, x):
        return {"w": state["w"]}, {"y": nb.sum(x @ state["w"])}

    x = nb.spec((4, 8))
    program = nb.export({"step": step, "other": other}, state=w, args={"step": {"x": x}, "other": {"x": x}})
    nb.compile_bundle(program, path, mesh={"dp": 2}, data_axes="dp")
    o = run(2, f"""
bundle = nb.load_bundle({str(path)!r})
bundle.set_state("w", nb.ones((8, 6)))
x = nb.ones((4, 8))
bundle.run("step", x=x)  # after the same set_state on both
mesh = nb.DeviceMesh("m", (2,), ("dp",))
s = nb.shard(nb.ones((4, 8)), mesh, nb.P("dp", None))
u = nb.shard(nb.ones((4, 6)), mesh, nb.P("dp", None))
def twice(v): return v * 2
def thrice(v): return v * 3
def fourfold(v): return v * 4
def many(v): return [x + 1 for x in v.values()]
f, g, h, many = (nb.jit(k, engine="mpi") for k in (twice, thrice, fourfold, many))
assert f(s).tolist() == g(s).tolist() or True
kept = [{str(path)!r} + "." + n for n in "ab"]
bundle.save_state(kept[0])
bundle.run("step", x=x)
bundle.save_state(kept[1])
d.barrier()
for mine, theirs, said in {DIFFERENT_CALLS!r}:
    begin = time.time()
    try:
        eval(mine if r == 0 else theirs)
    except nb.Error as e:
        import re
        assert e.code == "E0614" and re.search(said, str(e)) and "the same calls in the same order" in str(e), e
        assert time.time() - begin < 10
        say("told")
d.barrier()  # they may go on together
bundle.set_state("w", nb.ones((8, 6)))
assert bundle.run("step", x=x)["y"].item() == 4 * 8 * 6
""", tmp_path, timeout=60)
    assert (o.returncode, o.stdout) == (0, "told\n" * 2 * len(DIFFERENT_CALLS)), o.stdout + o.stderr


def test_processes_give_and_get_their_parts(tmp_path):
    o = run(4, """
whole = np.arange(24, dtype="float32").reshape(4, 6)
mesh = nb.DeviceMesh("m", (2, 2), ("dp", "tp"))
rows, columns = slice(r // 2 * 2, r // 2 * 2 + 2), slice(r % 2 * 3, r % 2 * 3 + 3)
for part, layout in ((whole[rows, columns], nb.P("dp", "tp")), (whole[rows], nb.P("dp")), (whole, nb.P()),
                     (whole[r:r + 1], nb.P(("dp", "tp"))), (nb.asarray(whole[rows]), nb.P("dp"))):
    x = d.from_local(part, (mesh, layout))
    assert (x.numpy() == whole).all() and x.sharding == nb.shard(nb.asarray(whole), mesh, layout).sharding
    assert (d.local_part(x).numpy() == np.asarray(part)).all()
    y = nb.jit(lambda v: v * 2, engine="mpi")(x)
    assert (d.local_part(y).numpy() == 2 * np.asarray(part)).all()
uneven = nb.shard(nb.arange(5), mesh, nb.P(("dp", "tp")))
say(f"{r} {d.local_part(uneven).tolist()}")
assert d.local_part(nb.arange(3)).tolist() == [0, 1, 2]
for give, code, text in ((lambda: d.from_local(whole, (nb.DeviceMesh("two", (2,), ("dp",)), nb.P("dp"))), "E0210",
                          "from_local: mesh two has 2 ranks, and 4 processes run"),
                         (lambda: d.from_local(whole[:r + 1], (mesh, nb.P("dp"))), "E0614",
                          "rank 0 calls all_gather(float32[1, 1, 6]), and rank 1 all_gather(float32[1, 2, 6])")):
    try:
        give()
    except nb.Error as e:
        assert e.code == code and text in str(e), e
        say("told")
""", tmp_path, timeout=60)
    want = sorted(["0 [0, 1]", "1 [2, 3]", "2 [4]", "3 []"] + ["told"] * 8)
    assert (o.returncode, sorted(o.stdout.split("\n")[:-1])) == (0, want), o.stdout + o.stderr


def test_a_process_alone_gives_all_parts():
    mesh = nb.DeviceMesh("m", (2,), ("dp",))
    distributed.init("local")
    try:
        x = distributed.from_local(np.arange(6), (mesh, nb.P("dp")))
        assert x.tolist() == list(range(6)) and distributed.local_part(x).tolist() == list(range(6))
        with pytest.raises(TypeError, match="sharding is a ShardingSpec, or a pair such as .* got P"):
            distributed.from_local(np.arange(6), nb.P("dp"))
    finally:
        distributed.finalize()


def test_a_rank_that_leaves_early_is_told_from_one_that_is_slow(tmp_path):
    begin = time.time()
    o = run(2, "if r == 0: d.barrier()\n", tmp_path, timeout=60)
    assert time.time() - begin < 20 and o.returncode != 0
    assert "rank 0 calls barrier(), and rank 1 finalize()" in o.stderr, o.stderr


@pytest.mark.parametrize("stopped", [0, 1])
def test_a_rank_that_is_stopped_is_unresponsive_for_the_others(stopped, tmp_path):
    script = f"""
d.finalize = None
d.barrier()
if r == {stopped}:
    say(os.getpid())
    os.kill(os.getpid(), signal.SIGSTOP)
begin = time.time()
try:
    d.all_reduce(np.ones(3))
except nb.Error as e:
    said = {'"rank 0 is gone or unresponsive"' if stopped == 0 else '"rank 1 (process "'}
    say(f"{{e.code}} {{said in str(e)}} {{'unresponsive' in str(e)}} {{0.5 < time.time() - begin < 5}}")
    os._exit(3)
"""
    begin = time.time()
    o = run(3, script, tmp_path, timeout='60, heartbeat=0.2')
    pid, *lines = o.stdout.split()
    assert " ".join(lines[:4]) == "E0610 True True True", o.stdout + o.stderr
    assert time.time() - begin < 30
    with pytest.raises(ProcessLookupError):
        while time.time() - begin < 60:  # mpirun ends it last
            os.kill(int(pid), 0)
            time.sleep(0.1)


LOST = """
d.barrier()
if r == 1:
    time.sleep(1)
    {end}
d.all_reduce(np.ones(3))
say("not reached")
"""


WAITS = (r"rank {r} waits in all_gather of 8 bytes of group all for rank 1, and is told to end "
         r"\(SIGTERM\), as launchers do when another rank has ended")
ENDS = [("os.kill(os.getpid(), signal.SIGKILL)", WAITS), ("os._exit(3)", WAITS),
        ("raise RuntimeError('of rank 1')", "rank 1 has ended by an exception: RuntimeError: of rank 1")]


@pytest.mark.parametrize("end, said", ENDS)
def test_a_rank_that_is_lost_is_named_by_the_others(end, said, tmp_path):
    calls = r"\n(   = note: on .*\n)?   = note: rank {r} calls all_reduce\(float64\[3\]"
    for _ in range(3):  # mpirun kills ranks a second after SIGTERM: on a busy machine before they have spoken
        begin = time.time()
        o = run(3, LOST.format(end=end), tmp_path, timeout=60)
        assert time.time() - begin < 20
        assert o.returncode != 0 and o.stdout == "", o.stdout
        if any(re.search(r"E0610\]: " + (said + calls).format(r=r), o.stderr) for r in (0, 2)):
            return
    raise AssertionError(o.stderr)


def test_sigterm_ends_a_rank_that_does_not_wait(tmp_path):
    o = run(1, """
os.kill(os.getpid(), signal.SIGTERM)
say("not reached")
""", tmp_path)
    assert o.returncode != 0 and o.stdout == ""
    o = run(2, """
if r == 0:
    os.kill(os.getpid(), signal.SIGTERM)
    say("not reached")
time.sleep(30)
""", tmp_path)
    assert o.returncode != 0 and o.stdout == ""


def program():
    """State that is cut over two axes, an output of each kind, and a size of the caller's."""
    b = nb.symbol("b", 2, 16, 2)

    def step(state, x):
        y = nb.tanh(x @ state["w"])
        return {"w": state["w"] + 0.1 * (nb.swapaxes(x, 0, 1) @ y)}, {"y": y, "mean": nb.mean(y)}

    return nb.export({"step": step}, state={"w": nb.spec((8, 6))}, args={"step": {"x": nb.spec((b, 8))}})


OPTIONS = dict(mesh={"dp": 2, "tp": 2}, data_axes="dp", layouts={"w": (None, "tp")})
RUNS = """
import sys
bundle = nb.load_bundle(sys.argv[1])
out = []
bundle.set_state("w", nb.asarray(np.arange(48, dtype=np.float32).reshape(8, 6) / 48))
for rows in (4, 8, 4):
    o = bundle.run("step", x=nb.asarray(np.linspace(-1, 1, rows * 8, dtype=np.float32).reshape(rows, 8)))
    out.append((o["mean"].item(), o["y"].tolist()))
out.append(bundle.get_state("w").tolist())
"""


def test_bundles_run_their_ranks_in_processes(tmp_path, monkeypatch):
    path = tmp_path / "p.nbundle"
    nb.compile_bundle(program(), path, **OPTIONS)
    local = {"nb": nb, "np": np}
    monkeypatch.setattr(sys, "argv", ["", str(path)])
    exec(RUNS, local)
    local["bundle"].save_state(tmp_path / "local.safetensors")
    o = run(4, f"sys.argv = ['', {str(path)!r}]" + RUNS + f"""
bundle.save_state({str(tmp_path / 'mpi.safetensors')!r})
bundle.load_state({str(tmp_path / 'local.safetensors')!r})
assert bundle.get_state("w").tolist() == out[-1]
assert "4 ranks of mesh" in repr(bundle) and "of which this process runs rank %d" % r in repr(bundle), bundle
alone = nb.load_bundle({str(path)!r}, engine="local")  # every process may run all of them too
assert "of which" not in repr(alone)
with open({str(tmp_path)!r} + "/%d.txt" % r, "w") as file:
    file.write(str(out))
""", tmp_path)
    assert o.returncode == 0, o.stderr
    for rank in range(4):
        assert (tmp_path / f"{rank}.txt").read_text() == str(local["out"])
    assert (tmp_path / "mpi.safetensors").read_bytes() == (tmp_path / "local.safetensors").read_bytes()


def test_processes_that_do_not_fit_a_bundle(tmp_path):
    nb.compile_bundle(program(), tmp_path / "four.nbundle", **OPTIONS)
    nb.compile_bundle(program(), tmp_path / "0.nbundle", mesh={"dp": 2}, data_axes="dp")
    nb.compile_bundle(program(), tmp_path / "1.nbundle", mesh={"tp": 2}, layouts={"w": (None, "tp")})
    nb.compile_bundle(program(), tmp_path / "one.nbundle")
    o = run(2, f"""
os.chdir({str(tmp_path)!r})
def refused(path, *said, **options):
    try:
        nb.load_bundle(path, **options)
    except nb.Error as e:
        assert e.code == "E0614" and all(s in str(e) for s in said), e
        return
    assert False, path
refused("four.nbundle", "the bundle is for 4 ranks, and mpi has started 2")
refused("%d.nbundle" % r, "rank 0 calls", "load_bundle", "and rank 1")
refused("one.nbundle", "one.nbundle is for one rank, and 2 were started", engine="mpi")
assert "of which" not in repr(nb.load_bundle("one.nbundle"))  # in every process the same
bundle = nb.load_bundle("0.nbundle")
d.finalize()
try:
    bundle.run("step", x=nb.zeros((4, 8)))
except nb.Error as e:
    assert e.code == "E0707" and "after finalize()" in str(e), e
    say("refused")
""", tmp_path)
    assert (o.returncode, o.stdout) == (0, "refused\nrefused\n"), o.stdout + o.stderr
    with pytest.raises(ValueError, match="rank_class .front. is one rank alone"):
        nb.load_bundle(tmp_path / "one.nbundle", rank_class="front", engine="mpi")
    with pytest.raises(ValueError, match="is for processes that nabla.distributed.init has joined"):
        nb.load_bundle(tmp_path / "one.nbundle", engine="mpi")
    with pytest.raises(ValueError, match="engine .gloo.; there are"):
        nb.load_bundle(tmp_path / "one.nbundle", engine="gloo")


CHARLM = "charlm_ranks.main(steps=4, ranks={ranks}, zero=3, width=32, layers=1, heads=2, context=32)"


def test_the_example_trains_in_processes_as_on_threads(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(EXAMPLES)
    import charlm_ranks
    losses = eval(CHARLM.format(ranks=2), {"charlm_ranks": charlm_ranks})["losses"]
    distributed.finalize()
    printed = capsys.readouterr().out
    o = run(2, f"""
sys.path.insert(0, {EXAMPLES!r})
import charlm_ranks
losses = {CHARLM.format(ranks=2)}["losses"]
d.barrier()
sys.stderr.write("%d: %s\\n" % (r, losses))
""", tmp_path, timeout=100)
    assert o.returncode == 0, o.stderr
    assert o.stdout == printed and printed.startswith("2 ranks, zero=3: ")
    assert sorted(line for line in o.stderr.split("\n") if line) == [f"{r}: {losses}" for r in range(2)]


# What processes print of programs that jit has compiled for their ranks is what threads of one process print.
@pytest.mark.parametrize("ranks, example, programs", [
    (4, "pipelines", ["4 ranks", "inference"]),
    (4, "parallel", ["MLP, dp=2, tp=2", "block, sequence parallel, tp=4", "experts, ep=4"]),
    (8, "pipelines", ["2 x 4 ranks"])][:3 if os.environ.get("NABLA_TEST_ALL") else 1])
def test_examples_run_in_processes(tmp_path, monkeypatch, capsys, ranks, example, programs):
    monkeypatch.syspath_prepend(EXAMPLES)
    importlib.import_module(example).main()
    distributed.finalize()
    here = capsys.readouterr().out
    o = run(ranks, f"""
sys.path.insert(0, {EXAMPLES!r})
import {example}
{example}.main()
""", tmp_path, timeout=100)
    assert o.returncode == 0, o.stderr
    for program in programs:
        lines = [[line for line in text.split("\n") if line.startswith(program)] for text in (here, o.stdout)]
        there, everywhere = [[float(re.search(r"(?:loss|largest) ([0-9.]+)", line)[1]) for line in lines_of]
                             for lines_of in lines]
        assert len(there) == 1 and there == pytest.approx(everywhere, rel=1e-5)


def test_compiled_functions_for_processes_are_checked(tmp_path):
    with pytest.raises(ValueError, match="processes that nabla.distributed.init has joined"):
        nb.jit(lambda x: x * 2, engine="mpi")(nb.ones(3))
    with pytest.raises(ValueError, match="jit: engine 'gloo'"):
        nb.jit(lambda x: x, engine="gloo")
    o = run(2, """
try:
    nb.jit(lambda x: x * 2, engine="mpi")(nb.ones(3))
except nb.Error as e:
    say(e.code)
""", tmp_path)
    assert o.stdout == "E0614\nE0614\n", o.stderr


def test_a_rank_that_is_lost_while_a_bundle_runs_is_named(tmp_path):
    path = tmp_path / "p.nbundle"
    nb.compile_bundle(program(), path, **OPTIONS)
    begin = time.time()
    o = run(4, f"""
bundle = nb.load_bundle({str(path)!r})
bundle.set_state("w", nb.zeros((8, 6)))
for step in range(1000000):
    if r == 2 and step == 20:
        os.kill(os.getpid(), signal.SIGKILL)
    bundle.run("step", x=nb.ones((4, 8)))
""", tmp_path, timeout=60)
    assert time.time() - begin < 20
    assert o.returncode != 0
    assert re.search(r"E0610.* for rank (\d, )*2\b.*is told to end \(SIGTERM\)", o.stderr), o.stderr


def test_alone_every_collective_is_the_identity():
    distributed.init(engine="local")
    assert (distributed.rank(), distributed.world_size(), distributed.is_main_process()) == (0, 1, True)
    x = np.float32([[1, 2]])
    for f in (distributed.all_reduce, distributed.all_gather, distributed.reduce_scatter, distributed.broadcast):
        assert np.array_equal(f(x), x) and f(x) is not x
    assert distributed.all_gather(nb.asarray(2.0, nb.bfloat16)).tolist() == [2.0]
    with pytest.raises(ValueError, match="there are sum"):
        distributed.all_reduce(x, "xor")
    with pytest.raises(TypeError, match="the mean of int32 is no int32"):
        distributed.all_reduce(np.int32([1]), "mean")
    with pytest.raises(ValueError, match=r"dimension 0 of shape \(\) does not divide among 1 ranks"):
        distributed.reduce_scatter(1.0)
    distributed.finalize()
    assert not distributed.is_initialized()
    with pytest.raises(nb.Error) as e:
        distributed.rank()
    assert e.value.code == "E0707"
