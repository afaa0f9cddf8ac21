"""Tensors that are laid out over a mesh: what they say of themselves, what follows from them, and what is refused."""

import importlib
import itertools
import pathlib
import re
import sys

import nabla as nb
import numpy as np
import pytest
from nabla import ops
from nabla.core.sharding import DeviceMesh, DimSpec, P, ShardingSpec, compute_local_shape, get_num_shards
from nabla.ops import communication as comm

HERE = pathlib.Path(__file__)
MESH = DeviceMesh("pod", (2, 4), ("dp", "tp"))
X = np.arange(64, dtype=np.float32).reshape(8, 8)


def axes_of(x):
    return [d.axes for d in x.sharding.dim_specs]


def ring(n):
    return [(i, (i + 1) % n) for i in range(n)]


# ---- Meshes and specs


def test_mesh_numbers_ranks_row_major():
    assert MESH.shape == (2, 4) and MESH.axis_names == ("dp", "tp") and MESH.devices == list(range(8))
    assert MESH.get_axis_size("tp") == 4 and MESH.get_axis_size("tp:(2)2") == 2
    assert [MESH.get_coordinate(r, "dp") for r in range(8)] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [MESH.get_coordinate(r, "tp") for r in range(8)] == [0, 1, 2, 3] * 2
    assert [MESH.get_coordinate(r, "tp:(1)2") for r in range(4)] == [0, 0, 1, 1]
    assert [MESH.get_coordinate(r, "tp:(2)2") for r in range(4)] == [0, 1, 0, 1]
    assert MESH.get_devices_on_axis_slice("tp", 1) == [1, 5] and MESH.get_axis_indices(6) == {"dp": 1, "tp": 2}
    assert repr(MESH) == '@pod = <["dp"=2, "tp"=4]>' and MESH == DeviceMesh("pod", [2, 4], ["dp", "tp"])


@pytest.mark.parametrize("make, text", [
    (lambda: DeviceMesh("m", (2,), ("a", "b")), r"1 sizes, \(2,\), for 2 axes"),
    (lambda: DeviceMesh("m", (2, 2), ("a", "a")), "axis a"),
    (lambda: DeviceMesh("m", (0,), ("a",)), "0"),
    (lambda: DeviceMesh("m", (2**70,), ("a",)), "E0210.*mesh m: it has more than 1048576 ranks"),
    (lambda: DeviceMesh("m", (2,), ("a",), devices=[1, 0]), "row-major order"),
    (lambda: MESH.get_axis_size("pp"), "mesh pod has no axis 'pp': it has dp, tp"),
    (lambda: MESH.get_coordinate(8, "dp"), "ranks 0 to 7, got 8"),
    (lambda: MESH.get_axis_size("tp:(3)2"), "no part of axis tp"),
    (lambda: DimSpec("dp"), "takes a list of axes"),
    (lambda: DimSpec([], priority=1), "has priority 0"),
    (lambda: ShardingSpec(MESH, [DimSpec(["dp"]), DimSpec(["dp"])]), "axis dp stands twice"),
])
def test_what_is_no_mesh_and_no_spec(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_specs_print_and_count():
    spec = ShardingSpec(MESH, [DimSpec.from_raw("dp"), DimSpec.from_raw(("tp",)), None], {})
    assert repr(spec) == "sharding<@pod, [{dp}, {tp}, {}]>" and spec.total_shards == get_num_shards(spec) == 8
    assert spec.get_implicitly_replicated_axes() == set() and not spec.is_fully_replicated()
    assert repr(DimSpec(["dp"], is_open=True, priority=2)) == "{dp, ?}p2"
    assert P("dp", None) == ("dp", None) and repr(P("dp")) == "P('dp')"
    assert DimSpec.from_raw(DimSpec(["dp"])).get_total_shards(MESH) == 2


def test_local_shapes_of_uneven_parts():
    spec = ShardingSpec(MESH, [DimSpec(["tp"]), DimSpec(["dp"])])
    assert [compute_local_shape((10, 3), spec, r) for r in range(4)] == [(3, 2), (3, 2), (3, 2), (1, 2)]
    assert compute_local_shape((10, 3), spec, 4) == (3, 1) and compute_local_shape((2, 1), spec, 3) == (0, 1)


# ---- Layouts of tensors


def test_tensor_tells_its_layout():
    x = ops.shard(nb.asarray(X), MESH, [DimSpec.from_raw("dp"), None])
    assert x.is_sharded and axes_of(x) == [["dp"], []] and x.num_shards == 8
    assert x.shape == x.global_shape == (8, 8) and x.local_shape == (4, 8) and x.shard_shape(5) == (4, 8)
    assert x.realize() is x and axes_of(x) == [["dp"], []]
    assert np.array_equal(x.numpy(), X) and x.batch_dims == 0
    assert [s.numpy()[0, 0] for s in x.shards] == [0] * 4 + [32] * 4 and not x.shards[0].is_sharded
    whole = x.gather()
    assert axes_of(whole) == [[], []] and whole.is_sharded and np.array_equal(whole.numpy(), X)
    plain = nb.asarray(X)
    assert axes_of(nb.gather(x)) == [[], []] and nb.gather(plain) is plain
    assert not plain.is_sharded and plain.sharding is None and plain.num_shards == 1 and plain.local_shape == (8, 8)


def test_layouts_go_forward_through_ops_and_stay():
    x, w = ops.shard(nb.asarray(X), MESH, P("dp")), ops.shard(nb.asarray(X), MESH, P(None, "tp"))
    y = nb.relu(x @ w) + 1
    assert axes_of(y) == [["dp"], ["tp"]] and y.local_shape == (4, 2)
    assert np.allclose(y.numpy(), X @ X + 1) and axes_of(y) == [["dp"], ["tp"]]
    assert axes_of(nb.sum(y, axis=0)) == [["tp"]] and axes_of(y.T) == [["tp"], ["dp"]]
    assert (nb.asarray(X) * 2).sharding is None
    assert axes_of(ops.shard(y, MESH, P("tp", "dp"))) == [["tp"], ["dp"]]


def test_uneven_sizes_are_whole_numbers_of_elements():
    x = ops.shard(nb.asarray(X[:7]), MESH, P("tp"))
    assert [s.shape for s in x.shards][:4] == [(2, 8), (2, 8), (2, 8), (1, 8)]
    assert np.array_equal(np.concatenate([s.numpy() for s in x.shards[:4]]), X[:7])
    f = nb.jit(lambda x: nb.sum(nb.exp(x * 0.01), axis=0))
    assert np.allclose(f(x).numpy(), np.exp(X[:7] * 0.01).sum(0), rtol=1e-5)


def test_methods_constraints_and_transfer():
    x = nb.asarray(X)
    spec = ShardingSpec(MESH, [DimSpec(["tp"]), DimSpec()])
    for y in (x.shard(MESH, ["tp", None]), x.with_sharding(MESH, P("tp")), x.with_sharding_constraint(MESH, P("tp")),
              nb.transfer_to(x, sharding=spec), comm.with_sharding_constraint(x, spec),
              nb.transfer_to(x, sharding=(MESH, P("tp"))), comm.with_sharding_constraint(x, (MESH, P("tp"))),
              comm.reshard(x.shard(MESH, P("dp")), MESH, P("tp"))):
        assert axes_of(y) == [["tp"], []] and np.array_equal(y.numpy(), X)
    tree = ops.shard({"a": x, "b": [x]}, MESH, P("dp"))
    assert axes_of(tree["b"][0]) == [["dp"], []]


def test_meshes_one_after_the_other_but_not_together():
    other = DeviceMesh("ring", (4,), ("s",))
    a = ops.shard(nb.asarray(X), MESH, P("dp")) * 2
    b = ops.shard(nb.asarray(X), other, P("s")) * 3
    assert axes_of(a) == [["dp"], []] and axes_of(b) == [["s"], []]
    assert np.array_equal((b + 1).numpy(), X * 3 + 1) and np.array_equal((a + 1).numpy(), X * 2 + 1)
    with pytest.raises(nb.Error, match=r"add: .* over mesh pod \(dp=2, tp=4\), and .* over mesh ring \(s=4\)") as e:
        (a + b).numpy()
    assert e.value.code == "E0210" and "sharding_test.py" in str(e.value)


@pytest.mark.parametrize("use, error, text", [
    (lambda x: x.shard(MESH, ["dp"]), ValueError, r"1 layouts of dimensions, \['dp'\], for a tensor of 2"),
    (lambda x: x.shard(MESH, P("pp")), ValueError, "no axis 'pp'"),
    (lambda x: x.shard(MESH, P("dp", "dp")), ValueError, "axis dp stands twice"),
    (lambda x: ops.shard(x, "pod", P("dp")), TypeError, "shard: the mesh is a DeviceMesh, got mesh=.pod."),
    (lambda x: ops.shard(x, DeviceMesh("o", (2,), ("a",)), ShardingSpec(MESH, [DimSpec(), DimSpec()])), ValueError,
     "layout is one over mesh @pod"),
    (lambda x: comm.all_reduce(x), ValueError, "which is laid out over no mesh"),
    (lambda x: comm.all_reduce(x.shard(MESH, P("dp")), "average"), ValueError, "reduce_op is one of sum, max"),
    (lambda x: comm.all_gather(x.shard(MESH, P("dp")), 2), ValueError, "no dimension 2"),
    (lambda x: comm.all_to_all(x.shard(MESH, P("dp")), 0, 1), ValueError, "no axis cuts dimension 1"),
    (lambda x: comm.all_to_all(x.shard(MESH, P("dp")), 1, 0, False), ValueError, "for functions of one rank"),
    (lambda x: nb.shard_map(lambda a: comm.all_to_all(a, 0, 1, False, "tp"), MESH, P("tp"), P("tp"))(x), ValueError,
     r"dimension 0 of f32\[2,8\] has an element for each of the 4 ranks along tp"),
    (lambda x: comm.broadcast(x.shard(MESH, P("dp")), root=8), ValueError, "root is a rank, 0 to 7, got 8"),
    (lambda x: comm.broadcast(x.shard(MESH, P("dp")), DeviceMesh("o", (8,), ("a",)), 1), ValueError, "got mesh @o"),
    (lambda x: comm.ppermute(x.shard(MESH, P("tp")), [(0, 1), (2, 1)]), ValueError, "rank 1 gets twice"),
    (lambda x: comm.ppermute(x.shard(MESH, P("tp")), [(0, 9)]), ValueError, "9 is no rank of mesh"),
    (lambda x: comm.ppermute(x.shard(MESH, P("tp")), ring(4)), ValueError, "the same on all ranks along dp"),
    (lambda x: comm.axis_index("tp"), TypeError, "outside of a region"),
    (lambda x: nb.transfer_to(x), TypeError, "neither a device nor a sharding"),
    (lambda x: nb.vmap(lambda v: v, mesh=MESH)(x), ValueError, "without spmd_axis_name"),
])
def test_what_does_not_fit_is_said(use, error, text):
    with pytest.raises(error, match=text):
        use(nb.asarray(X))


# ---- Collectives on the parts of tensors


def test_collectives_on_parts():
    x = ops.shard(nb.asarray(X), MESH, P("dp", "tp"))
    assert axes_of(comm.all_gather(x, 0)) == [[], ["tp"]] and axes_of(comm.gather_all_axes(x)) == [[], []]
    blocks = X.reshape(2, 4, 4, 2)
    assert np.array_equal(comm.all_reduce(x).numpy(), blocks.sum((0, 2)))
    assert np.array_equal(comm.all_reduce(x, "max", "dp").numpy(), X.reshape(2, 4, 8).max(0))
    assert np.array_equal(comm.pmean(x, "tp").numpy(), X.reshape(8, 4, 2).mean(1))
    assert axes_of(comm.psum(x, "dp")) == [[], ["tp"]]
    moved = comm.all_to_all(ops.shard(nb.asarray(X), MESH, P("tp")), split_axis=1, concat_axis=0)
    assert axes_of(moved) == [[], ["tp"]] and np.array_equal(moved.numpy(), X)
    whole = ops.shard(nb.asarray(X), MESH, P())
    scattered = comm.reduce_scatter(whole, 0)
    assert axes_of(scattered) == [["dp", "tp"], []] and np.array_equal(scattered.numpy(), X * 8)
    index = comm.axis_index(MESH, "tp")
    assert index.numpy().tolist() == [0, 1, 2, 3] and axes_of(index) == [["tp"]]
    assert axes_of(comm.distributed_broadcast(x)) == [[], []]


def test_products_over_ranks():
    x = ops.shard(nb.asarray(X / 16), MESH, P("dp", "tp"))
    y = comm.all_reduce(x, "prod", "tp")
    assert axes_of(y) == [["dp"], []] and np.allclose(y.numpy(), (X / 16).reshape(8, 4, 2).prod(1))
    f = nb.grad(lambda x: nb.sum(comm.all_reduce(x, "prod", "tp")))
    want = nb.grad(lambda x: nb.sum(nb.prod(nb.reshape(x, (8, 4, 2)), axis=1)))(nb.asarray(X / 16))
    for g in (f(x), nb.jit(f)(x)):  # zeros among the factors too
        assert np.allclose(g.numpy(), want.numpy())


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_broadcasts_from_a_rank(dtype):
    x = nb.asarray(X % 3).astype(dtype)
    part = x.numpy()[4:, 4:6]
    cut = ops.shard(x, MESH, P("dp", "tp"))  # rank 6 lies at (1, 2)
    for y in (comm.broadcast(cut, MESH, 6), nb.jit(lambda x: comm.broadcast(x, root=6))(cut)):
        assert y.dtype == x.dtype and np.array_equal(y.numpy(), part) and axes_of(y) == [[], []]
    assert np.array_equal(comm.distributed_broadcast(x, MESH, root=7).numpy(), x.numpy())  # all ranks have it
    inside = nb.shard_map(lambda a: comm.broadcast(a, root=2), MESH, P(None, "tp"), P(), axis_names="tp")
    assert np.array_equal(inside(x).numpy(), x.numpy()[:, 4:6])


def test_gradients_of_broadcasts_are_the_roots():
    x = ops.shard(nb.asarray(X), MESH, P("dp", "tp"))
    g = nb.grad(lambda x: nb.sum(comm.broadcast(x, root=6) ** 2))(x).numpy()
    assert np.array_equal(g[4:, 4:6], 2 * X[4:, 4:6]) and np.count_nonzero(g) == 8


def test_all_to_all_makes_a_dimension_of_the_ranks():
    def exchange(a):  # [2, 4] on each of four ranks
        return comm.all_to_all(a, split_axis=1, concat_axis=0, tiled=False, axis_name="tp")

    y = nb.shard_map(exchange, MESH, P("tp"), P(None, "tp"))(nb.asarray(X[:, :4]))
    parts = X[:, :4].reshape(4, 2, 4)  # rank, row, destination
    assert np.array_equal(y.numpy().reshape(4, 4, 2), parts.transpose(0, 2, 1))  # from, rank, row


def test_ppermute_by_numbers_of_ranks():
    line = DeviceMesh("line", (4,), ("s",))
    x = ops.shard(nb.asarray(X), line, P("s"))
    assert np.array_equal(comm.ppermute(x, ring(4)).numpy(), np.roll(X, 2, axis=0))
    lost = comm.ppermute(x, [(0, 1), (1, 2)]).numpy()
    assert np.array_equal(lost[2:6], X[:4]) and not lost[:2].any() and not lost[6:].any()
    # Along tp in both halves of dp, which x is the same along.
    pairs = [(4 * d + i, 4 * d + (i + 1) % 4) for d in range(2) for i in range(4)]
    assert np.array_equal(comm.ppermute(ops.shard(nb.asarray(X), MESH, P("tp")), pairs).numpy(), np.roll(X, 2, axis=0))
    g = nb.grad(lambda x: nb.sum(comm.ppermute(x, ring(4)) * nb.asarray(X)))(x)
    assert np.array_equal(g.numpy(), np.roll(X, -2, axis=0)) and axes_of(g) == [["s"], []]


# ---- Functions of one rank


def test_shard_map_of_one_rank():
    def body(a, b):
        assert a.shape == (4, 2) and comm.axis_index("tp").shape == ()
        return comm.psum(a @ b, "tp"), comm.axis_index("tp") * 10 + comm.axis_index("dp")[None] * 0

    f = nb.shard_map(lambda a, b: comm.psum(a @ b, "tp"), MESH, in_specs=(P("dp", "tp"), P("tp")), out_specs=P("dp"))
    y = f(nb.asarray(X), nb.asarray(X))
    assert np.array_equal(y.numpy(), X @ X) and axes_of(y) == [["dp"], []]
    assert np.array_equal(nb.jit(f)(nb.asarray(X), nb.asarray(X)).numpy(), X @ X)
    g = nb.grad(lambda a: nb.sum(f(a, nb.asarray(X)) * 0.5))(nb.asarray(X))
    assert np.allclose(g.numpy(), np.full((8, 8), 0.5) @ X.T)
    h = nb.shard_map(lambda x: comm.ppermute(x, ring(4), "tp"), MESH, P("tp"), P("tp"))
    assert np.array_equal(h(nb.asarray(X)).numpy(), np.roll(X, 2, axis=0))
    part = nb.shard_map(lambda x: comm.pmax(x, "tp"), MESH, (P("tp"),), P(), axis_names="tp")
    assert np.array_equal(part(nb.asarray(X)).numpy(), X.reshape(4, 2, 8).max(0))


def test_shard_map_of_whole_tensors():
    row, out = ShardingSpec(MESH, [DimSpec(["dp"]), DimSpec()]), ShardingSpec(MESH, [DimSpec(), DimSpec(["tp"])])
    f = nb.shard_map(lambda a, b: a + b, MESH, in_specs={0: row, 1: None}, out_specs={0: out})
    y = f(nb.asarray(X), nb.asarray(X))
    assert axes_of(y) == [[], ["tp"]] and np.array_equal(y.numpy(), 2 * X)
    assert "shard" in str(nb.trace(f, nb.asarray(X), nb.asarray(X)))
    for specs in (P(None, "tp"), out, {"a": P(None, "tp"), "b": (P(None, "tp"), None)}):  # of all results, or a tree
        tree = nb.shard_map(lambda a: {"a": a, "b": (a + 1, a * 2)}, MESH, {0: P("dp")}, specs)(nb.asarray(X))
        assert axes_of(tree["a"]) == axes_of(tree["b"][0]) == [[], ["tp"]]
        assert axes_of(tree["b"][1]) == ([["dp"], []] if isinstance(specs, dict) else [[], ["tp"]])


def test_shard_map_prints_what_it_makes(capsys):
    whole = nb.shard_map(lambda a: a @ a, MESH, {0: P("dp")}, {0: P("dp")}, debug=True)
    assert np.array_equal(whole(nb.asarray(X)).numpy(), X @ X)
    assert "dot_general" in (out := capsys.readouterr().out) and "f32[8@dp,8]" in out
    region = nb.shard_map(lambda a: comm.psum(a, "tp"), MESH, (P("tp"),), P(), debug=True)
    region(nb.asarray(X))
    assert "all_reduce" in capsys.readouterr().out
    nb.jit(region)(nb.asarray(X))  # no elements, no print
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("make, error, text", [
    (lambda x: nb.shard_map(lambda a: a, MESH, (P("dp"), P()), P())(x), ValueError, "in_specs has 2 elements"),
    (lambda x: nb.shard_map(lambda a: a, MESH, {3: P("dp")})(x), ValueError, "in_specs lays out argument 3"),
    (lambda x: nb.shard_map(lambda a: a, MESH, (P("dp"),), P("pp"))(x), ValueError, "no axis 'pp'"),
    (lambda x: nb.shard_map(lambda a: a, MESH, (P("dp"),), P())(x), nb.Error, "may differ"),
    (lambda x: nb.shard_map(lambda a: a, MESH, (P("tp"),), P("tp"))(x[:7]), nb.Error, "7 elements(.|\n)*pad the array"),
    (lambda x: nb.shard_map(lambda a: a @ x, MESH, (P(None, "tp"),), P())(x), nb.Error, r"f32\[8,2\]"),
    (lambda x: nb.shard_map(lambda a: a, MESH, (P("dp"),), P("dp"), auto_sharding=True), ValueError, "auto_sharding"),
    (lambda x: nb.shard_map(lambda a: a, None, (P("dp"),), P("dp")), TypeError, "the mesh is a DeviceMesh"),
])
def test_shard_map_says_what_does_not_fit(make, error, text):
    with pytest.raises(error, match=text):
        make(nb.asarray(X))


def test_shard_map_says_which_part_a_rank_has():
    def body(rows, whole):
        return rows @ whole[:, :3] @ nb.ones((9, 2))

    with pytest.raises(nb.Error, match="contracted sizes differ: 3 vs 9") as e:
        nb.shard_map(body, MESH, (P("dp"), P()), P("dp"))(nb.asarray(X), nb.asarray(X))
    assert "rows is f32[4,8], of f32[8,8]" in (note := e.value.__notes__[0]) and "whole" not in note and "@pod" in note


# ---- Transforms, compiled functions and programs


def mlp(params, x):
    return nb.sum(nb.tanh(nb.relu(x @ params["a"]) @ params["b"]) ** 2)


@pytest.mark.parametrize("spec_x, spec_a, spec_b", itertools.islice(itertools.product(
    [P("dp"), P(None, "tp"), P(("dp", "tp"))], [P(None, "tp"), P("dp"), P()], [P("tp"), P(None, "dp")]), 0, None, 2))
def test_gradients_of_every_layout_are_those_of_one_rank(spec_x, spec_a, spec_b):
    rng = np.random.RandomState(0)
    x, a, b = [rng.randn(8, 8).astype(np.float32) * 0.3 for _ in range(3)]
    want = nb.value_and_grad(mlp)({"a": nb.asarray(a), "b": nb.asarray(b)}, nb.asarray(x))
    params = {"a": ops.shard(nb.asarray(a), MESH, spec_a), "b": ops.shard(nb.asarray(b), MESH, spec_b)}
    xs = ops.shard(nb.asarray(x), MESH, spec_x)
    for f in (nb.value_and_grad(mlp), nb.jit(nb.value_and_grad(mlp))):
        loss, grads = f(params, xs)
        assert np.allclose(loss.item(), want[0].item(), rtol=1e-5)
        for k in ("a", "b"):
            assert np.allclose(grads[k].numpy(), want[1][k].numpy(), rtol=1e-4, atol=1e-6)
            assert grads[k].is_sharded


def test_jit_compiles_for_the_ranks_of_the_layouts():
    f = nb.jit(lambda x, w: nb.relu(x @ w))
    x, w = ops.shard(nb.asarray(X), MESH, P("dp")), ops.shard(nb.asarray(X), MESH, P(None, "tp"))
    y = f(x, w)
    assert np.array_equal(y.numpy(), X @ X) and axes_of(y) == [["dp"], ["tp"]]
    assert np.array_equal(f(x, w).numpy(), X @ X) and f.stats.misses == 1
    plain = f(nb.asarray(X), nb.asarray(X))
    assert plain.sharding is None and f.stats.misses == 2 and np.array_equal(plain.numpy(), X @ X)
    assert f(x, w).sharding is not None and f.stats.misses == 2
    assert "8 ranks" in str(f.inspect(x, w)) or "pod" in str(f.inspect(x, w))


def test_sizes_of_run_time_are_multiples_of_their_parts():
    f = nb.jit(lambda x, w: nb.relu(x @ w), dynamic_dims={0: {0: "batch"}})
    w = nb.ones((8, 4))
    for rows in (4, 8, 2):
        y = f(ops.shard(nb.ones((rows, 8)), MESH, P("dp")), w)
        assert y.shape == (rows, 4) and axes_of(y) == [["dp"], []] and y.numpy()[0, 0] == 8
    assert f.stats.misses == 1
    with pytest.raises(nb.Error, match=r"E0210.*: dynamic_dims: dimension 0 of x, f32\[3,8\]: batch is 3, no multiple "
                       r"of 2, as the parts of layouts (?s:.*)help: pad it to 4, or leave it out of dynamic_dims"):
        f(ops.shard(nb.ones((3, 8)), MESH, P("dp")), w)
    inside = [lambda x: nb.sum(ops.shard(x * 2, MESH, P("dp"))),
              lambda x: nb.sum(ops.shard(nb.concatenate([x, x]), MESH, P(("dp", "tp")))),
              lambda x: nb.sum(nb.shard_map(lambda a: a * 2, mesh=MESH, in_specs=P("dp"), out_specs=P("dp"))(x)),
              lambda x: nb.sum(nb.vmap(lambda r: r * 2, spmd_axis_name="dp", mesh=MESH)(x)),
              nb.grad(lambda x: nb.sum(nb.sin(ops.shard(x, MESH, P("dp"))))).__call__]
    for i, program in enumerate(inside):
        g = nb.jit(program, dynamic_dims={0: {0: "rows"}})
        for rows in (8, 16, 8, 24):
            x = nb.asarray(np.random.RandomState(rows).randn(rows, 3).astype(np.float32))
            assert np.allclose(g(x).numpy(), program(x).numpy(), atol=1e-5), (i, rows)
        assert g.stats.misses == 1
        with pytest.raises(ValueError, match="rows is 9, no multiple of [248], as the parts of layouts"):
            g(nb.ones((9, 3)))
    with pytest.raises(nb.Error, match=r"E0207.*f32\[rows\+1,3\]"):  # no multiple of rows would do
        nb.jit(lambda x: ops.shard(nb.concatenate([x, x[:1]]), MESH, P("dp")),
               dynamic_dims={0: {0: "rows"}})(nb.ones((3, 3)))


def test_vmap_lays_the_batch_along_an_axis():
    f = nb.vmap(lambda x, w: nb.relu(x @ w), in_axes=(0, None), spmd_axis_name="dp", mesh=MESH)
    y = f(nb.asarray(X.reshape(2, 4, 8)), nb.asarray(X))
    assert axes_of(y) == [["dp"], [], []] and np.array_equal(y.numpy(), X.reshape(2, 4, 8) @ X)
    within = nb.vmap(lambda x: ops.shard(x, MESH, P("tp")) * 2, spmd_axis_name="dp")  # the first to name the mesh
    for f in (within, nb.jit(within)):
        y = f(nb.asarray(X))
        assert axes_of(y) == [["dp"], ["tp"]] and np.array_equal(y.numpy(), X * 2)


def test_dimensions_lie_by_their_names():
    rules = [("batch", ("dp", "fsdp")), ("mlp", "tp"), ("heads", "tp"), ("embed", None)]
    with nb.logical_axis_rules(rules):
        assert nb.logical_to_mesh_axes(("batch", "mlp", "heads", None)) == P(("dp", "fsdp"), "tp", None, None)
        assert nb.logical_to_mesh_axes(("other", "heads")) == P(None, "tp")
        with nb.logical_axis_rules([("mlp", "dp")]):
            assert nb.logical_to_mesh_axes(("mlp", "heads")) == P("dp", "tp")
        x = nb.with_logical_constraint(X, ("batch", "mlp"), MESH)
        assert axes_of(x) == [["dp"], ["tp"]]
        with pytest.warns(UserWarning, match=r"dimension mlp of f32\[8,6\] has 6 elements, which pod's ranks along tp "
                                             "do not divide: it lies along no axis"):
            assert axes_of(nb.with_logical_constraint(X[:, :6], ("batch", "mlp"), MESH)) == [["dp"], []]
        padded = nb.with_logical_constraint(X[:, :6], ("batch", "mlp"), MESH, on_indivisible="pad")
        assert axes_of(padded) == [["dp"], ["tp"]] and padded.local_shape == (4, 2)
        with pytest.raises(ValueError, match="dimension mlp of .* do not divide"):
            nb.with_logical_constraint(X[:, :6], ("batch", "mlp"), MESH, on_indivisible="error")
        with pytest.raises(ValueError, match="1 names"):
            nb.with_logical_constraint(X, ("batch",), MESH)
    assert nb.logical_to_mesh_axes(("batch",)) == P(None)
    with pytest.raises(TypeError, match="is no pair"):
        with nb.logical_axis_rules([("batch", 3)]):
            pass


def test_the_compiler_finds_layouts_by_itself():
    line = DeviceMesh("line", (4,), ("tp",))
    rng = np.random.RandomState(0)
    x, up, down = [nb.asarray(rng.randn(*s).astype(np.float32) * 0.1) for s in ((3, 1024), (1024, 4096), (4096, 1024))]
    f = nb.jit(lambda x, up, down: nb.relu(x @ up) @ down, auto_shard=line)
    want = nb.relu(x @ up) @ down
    assert np.allclose(f(x, up, down).numpy(), want.numpy(), atol=1e-5)
    text = f.inspect()
    assert "4 ranks" in text and "f32[1024,1024]" in text  # columns, then rows: Megatron's
    spec = ShardingSpec(line, [DimSpec(), DimSpec(["tp"])])
    g = nb.shard_map(lambda x, up, down: nb.relu(x @ up) @ down, line, in_specs={1: spec}, auto_sharding=True)
    assert np.allclose(g(x, up, down).numpy(), want.numpy(), atol=1e-5)
    with pytest.raises(TypeError, match="auto_shard is a DeviceMesh"):
        nb.jit(lambda x: x, auto_shard=True)


LINE = DeviceMesh("line", (2,), ("a",))


def scanned(x, w):
    def step(carry, part):
        return nb.tanh(carry @ w * 0.3 + part), carry + part

    made = nb.scan(step, x[:, 0] * 0, nb.swapaxes(x, 0, 1))[1].swapaxes(0, 1)
    return nb.sum(nb.sin(ops.shard(made, LINE, P(None, "a")) @ w))


def looped(x, w):
    def step(i, carry):
        return ops.shard(nb.tanh(carry @ w), LINE, P(None, None, "a")) + x * 0.1

    return nb.sum(nb.fori_loop(0, 3, step, x) ** 2)


def chosen(x, w):
    made = nb.cond(nb.mean(x) > 0, lambda x: x @ w, lambda x: x - w[0], nb.sort(x, axis=1))
    return nb.sum(nb.sin(ops.shard(made, LINE, P("a"))) * w[1])


# What control flow takes and gives lies alike in the functions and around them: zeros that gradients begin with, too.
@pytest.mark.parametrize("f", [scanned, looped, chosen])
def test_layouts_are_found_through_control_flow(f):
    rng = np.random.RandomState(0)
    x, w = nb.asarray(rng.randn(8, 2, 6)), nb.asarray(rng.randn(6, 6) * 0.4)
    both = nb.value_and_grad(f, argnums=(0, 1))
    value, grads = nb.jit(both, auto_shard=LINE)(x, w)
    expected, expected_grads = both(x, w)
    assert np.allclose(value.item(), expected.item())
    for got, want in zip(grads, expected_grads):
        assert np.allclose(got.numpy(), want.numpy())


def test_traces_print_layouts():
    x = ops.shard(nb.asarray(X), MESH, P("dp"))
    text = str(nb.trace(lambda x: nb.sum(x * 2), x))
    assert "mesh" in text and "f32[8@dp,8]" in text
    assert str(nb.make_ir(lambda x: nb.sum(x * 2))(x)).startswith("nabla 1 traced\n")


def test_traces_print_sums_that_are_pending():
    def f(x, w):
        return nb.relu(x @ w)

    x, w = ops.shard(nb.asarray(X), MESH, P("dp", "tp")), ops.shard(nb.asarray(X), MESH, P("tp"))
    text = str(nb.trace(f, x, w))
    assert "entry" not in text and text.count("pending") == 1
    assert re.search(r"dot_general\(%0, %1\).*: f32\[8@dp,8\]  // sum over \{tp\} pending\n", text)
    # Linear ops hand a sum on; of the gradient by what all ranks share the sum over the batch is left to the end.
    assert str(nb.trace(lambda x, w: (x @ w) * 2.0 + x @ w, x, w)).count("sum over {tp} pending") >= 2
    grads = str(nb.trace(nb.grad(lambda w, x: nb.sum(nb.tanh(x @ w))), w, ops.shard(nb.asarray(X), MESH, P("dp"))))
    assert re.search(r"dot_general.*// sum over \{dp\} pending\n  return", grads)
    looped = str(nb.trace(nb.grad(lambda w, x: nb.sum(nb.scan(lambda c, v: (nb.tanh(c @ v), 0.0), x, w)[0])),
                          nb.stack([w, w]), ops.shard(nb.asarray(X), MESH, P("dp"))))
    assert re.search(r"scan\(.*reverse=true.*// sum over \{dp\} pending", looped)  # after the loop, all at once
    assert "pending" not in str(nb.trace(f, x.gather(), w.gather()))


def test_exported_programs_take_layouts(tmp_path):
    spec = ShardingSpec(MESH, [DimSpec(["dp"]), DimSpec()])
    program = nb.export({"f": lambda x: {"y": x @ x.T}}, args={"f": {"x": nb.spec((8, 8), sharding=spec)}})
    assert "f32[8@dp,8@{}]" in program.text and "pod" in program.text
    bundle = nb.compile_bundle(program, tmp_path / "f.nbundle")
    assert np.array_equal(bundle.run("f", x=X)["y"].numpy(), X @ X.T)
    inside = nb.export({"f": lambda x: {"y": ops.shard(x * 2, MESH, P("tp"))}}, args={"f": {"x": nb.spec((8, 8))}})
    assert "tp" in inside.text
    with pytest.raises(ValueError, match="layout of 2 dimensions, and the shape is"):
        nb.spec((8,), sharding=spec)
    other = ShardingSpec(DeviceMesh("o", (2,), ("a",)), [DimSpec(["a"])])
    with pytest.raises(ValueError, match="layouts over mesh @pod .* and over mesh @o"):
        nb.export({"f": lambda x, y: x}, args={"f": {"x": nb.spec((8, 8), sharding=spec),
                                                     "y": nb.spec((8,), sharding=other)}})


# ---- The examples


def example(name):
    folder = str(HERE.parents[2] / "examples" / "python")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)


@pytest.fixture(scope="module")
def pipelines():
    return example("pipelines")


@pytest.mark.parametrize("name, loss, counts", [
    ("MLP, tp=4", 0.062219, {"all_reduce": 1}),
    # The sum over tp forward, and those of both gradients over dp as one.
    ("MLP, dp=2, tp=2", 0.062219, {"all_reduce": 2}),
    # Two sums forward; backward one, since nobody asks for the gradient of x.
    ("block, tp=4", 3.369901, {"all_reduce": 3}),
    ("block, sequence parallel, tp=4", 3.369901, None),
    ("experts, ep=4", 0.00665936, {"all_reduce": 2}),
])
def test_parts_of_a_transformer_over_ranks(name, loss, counts):
    on_ranks, alone, exchanged = example("parallel").run(name)
    assert np.isclose(on_ranks, alone, rtol=1e-5) and np.isclose(alone, loss, rtol=1e-5)
    if counts is None:
        # Shares of the texts travel, not whole activations; gathers of parts of parameters are one.
        assert exchanged["all_gather"] == exchanged["reduce_scatter"] == (3, 32784)
        assert exchanged["all_reduce"][1] < 100
    else:
        assert {op: n for op, (n, _) in exchanged.items()} == counts


def test_pipeline_on_four_ranks(pipelines):
    loss, dx, dw, db = pipelines.gradients()
    assert np.isclose(loss, 5540.294742, rtol=1e-6)
    assert np.allclose([dw.min(), dw.max()], [-294.823130, 1527.593199], atol=5e-4)
    assert np.allclose([db.min(), db.max()], [-234.962307, 483.780655], atol=5e-4)
    assert np.allclose([dx.min(), dx.max()], [-250.601727, 471.896211], atol=5e-4)
    assert np.isclose(np.linalg.norm(dw), 5672.052560, rtol=1e-6)


def test_pipeline_on_two_by_four_ranks(pipelines):
    loss, dw, db = pipelines.two_dimensional()
    assert np.isclose(loss, 3828.784839, rtol=1e-6) and axes_of(dw) == [["pp"], [], []]
    dw, db = dw.numpy(), db.numpy()
    assert np.allclose([dw.min(), dw.max()], [-547.050172, 1309.500469], atol=5e-4)
    assert np.allclose([db.min(), db.max()], [-152.071311, 503.980322], atol=5e-4)
    assert np.isclose(np.linalg.norm(dw), 4618.127688, rtol=1e-6)


def test_pipeline_inference(pipelines):
    outputs, alone = pipelines.inference()
    assert np.isclose(outputs.max(), 417.755455, rtol=1e-6) and abs(outputs - alone).max() < 1e-4


def test_a_permute_that_sends_nothing_gives_zeros_on_one_rank_too():
    for ranks in (1, 2):
        mesh = DeviceMesh("m", (ranks,), ("a",))
        f = nb.shard_map(lambda x: ops.communication.ppermute(x, []), mesh=mesh, in_specs=(P("a"),), out_specs=P("a"))
        assert f(nb.arange(2) + 1).tolist() == [0, 0]
        assert nb.jit(f)(nb.arange(2) + 1).tolist() == [0, 0]


def test_sizes_of_the_call_meet_layouts_inside_a_function():
    mesh = DeviceMesh("m", (2,), ("a",))
    programs = [
        lambda x: nb.sum(ops.shard(x * 2, mesh, P("a"))),
        lambda x: nb.sum(nb.softmax(x, axis=-1) * x),
        lambda x: nb.sum(nb.vmap(nb.sin)(x * 2)),
        lambda x: nb.sum(nb.jvp(lambda a: nb.sin(a * 2), (x * 2,), (x,))[1]),
        lambda x: nb.sum(nb.fori_loop(0, 3, lambda i, c: nb.tanh(c) * 0.5, x * 2)),
        lambda x: nb.sum(nb.cond(nb.sum(x) > 0, lambda a: a * 2, lambda a: a, x * 3)),
        lambda x: nb.sum(nb.remat(nb.sin)(x * 2)),
        lambda x: nb.sum(nb.grad(lambda a: nb.sum(nb.sin(a)))(x * 2)),
        lambda x: nb.sum(ops.communication.gather_all_axes(x * 2)),
    ]
    for i, program in enumerate(programs):
        compiled = nb.jit(program, dynamic_dims={0: {0: "n"}})
        for n in (4, 6):
            x = nb.asarray(np.random.default_rng(n).normal(size=(n, 6)))
            assert np.isclose(compiled(ops.shard(x, mesh, P("a"))).item(), program(x).item()), (i, n)


def test_uneven_weights_beside_sizes_of_the_call():
    mesh = DeviceMesh("m", (2, 3), ("a", "b"))

    def loss(x, w, g):
        return nb.sum(nb.sin(nb.nn.functional.layer_norm(x @ w, g, w[0])))

    arrays = [nb.asarray(np.random.default_rng(i).normal(size=s)) for i, s in enumerate(((4, 3, 5), (5, 5), (5,)))]
    want = nb.grad(loss, argnums=(0, 1, 2))(*arrays)
    compiled = nb.jit(nb.grad(loss, argnums=(0, 1, 2)), dynamic_dims={0: {0: "n"}})
    got = compiled(*[ops.shard(a, mesh, s) for a, s in zip(arrays, (P("a"), P(("a", "b")), P("b")))])
    assert all(np.allclose(g.numpy(), w.numpy()) for g, w in zip(got, want))
