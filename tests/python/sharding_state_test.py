"""What keeps layouts over a mesh: copies, pickles, writes, captured tensors, pending gradients beside another mesh,
calls that are known, modules; and what is said of arguments that make no sense."""

import copy
import pickle

import nabla as nb
import numpy as np
import pytest
from nabla.core.sharding import DeviceMesh, DimSpec, P, ShardingSpec, compute_local_shape, needs_reshard
from nabla.ops import communication as comm

MESH, RING = DeviceMesh("pod", (2, 4), ("dp", "tp")), DeviceMesh("ring", (4,), ("stage",))
A = np.random.RandomState(0).randn(8, 8).astype(np.float32)
B = np.random.RandomState(1).randn(8, 8).astype(np.float32)


def axes_of(x):
    return [d.axes for d in x.sharding.dim_specs]


def shown(x):
    nb.debug.print("saw {}", x)
    return x


def test_prints_of_what_ranks_share(capfd):
    x = nb.shard(np.arange(8.0), MESH, P("tp"))
    assert nb.jit(lambda v: shown(v) * 2)(x).tolist() == [2 * i for i in range(8)]
    assert capfd.readouterr().err.count("saw") + capfd.readouterr().out.count("saw") <= 1
    y = nb.shard_map(lambda v: shown(v) * 2, MESH, (P("tp"),), P("tp"))(np.arange(8.0))
    assert y.tolist() == [2 * i for i in range(8)]


def test_a_known_call_keeps_its_layout():
    f = nb.jit(lambda x: nb.shard(x, MESH, P("dp")))
    assert [axes_of(f(A)) for _ in range(3)] == [[["dp"], []]] * 3
    with nb.logical_axis_rules([("rows", "dp")]):
        g = nb.jit(lambda x: nb.with_logical_constraint(x, ("rows", None), MESH))
        assert [axes_of(g(A)) for _ in range(2)] == [[["dp"], []]] * 2
    with nb.logical_axis_rules([("rows", "tp")]):
        assert axes_of(g(A)) == [["tp"], []]


@pytest.mark.parametrize("computed", [False, True])
def test_captured_tensors(computed):
    b = nb.shard(B, MESH, P(None, "tp"))
    if computed:
        b.realize()
    product = nb.jit(lambda x: x @ b)
    assert axes_of(product(A)) == [[], ["tp"]] and np.allclose(product(A).numpy(), A @ B, atol=1e-5)
    f = nb.shard_map(lambda x: comm.psum(x, "tp").sum() + b, MESH, (P(None, "tp"),), P())
    assert np.allclose(f(A).numpy(), A.sum() + B, atol=1e-3)
    g = nb.jit(lambda x, w: nb.shard_map(lambda q: comm.psum(q, "tp") + w[:, :2], MESH, (P(None, "tp"),), P())(x))
    assert np.allclose(g(A, b).numpy(), A.reshape(8, 4, 2).sum(1) + B[:, :2], atol=1e-5)


def test_pending_gradients_beside_another_mesh():
    a = nb.shard(A, MESH, P("dp", "tp"))
    out, pull = nb.vjp(lambda q: nb.tanh(q), a)
    _ = nb.shard(A, RING, P("stage")) * 1
    assert np.allclose(pull(nb.asarray(B))[0].numpy(), B * (1 - np.tanh(A) ** 2), atol=1e-5)
    with pytest.raises(nb.Error) as e:
        pull(nb.shard(B, RING, P("stage")))
    assert e.value.code == "E0210"
    w = nb.asarray(A)
    w.requires_grad = True
    loss = nb.sum(nb.shard(w, MESH, P("dp")) ** 2)
    _ = nb.shard(A, RING, P("stage")).realize()
    loss.backward()
    assert np.allclose(w.grad.numpy(), 2 * A)


def on_the_ring(x):
    return nb.shard(x, RING, P("stage")) * 2


def with_rules(kind):
    """A function whose plain form names no mesh, and whose rules do."""
    if kind == "jvp":
        f = nb.custom_jvp(lambda x: x * 2)
        f.defjvp(lambda primals, tangents: (primals[0] * 2, on_the_ring(tangents[0])))
    else:
        f = nb.custom_vjp(lambda x: x * 2)
        f.defvjp(lambda x: (x * 2, None), lambda kept, cotangent: (on_the_ring(cotangent) * 2,))
    return f


@pytest.mark.parametrize("use, expected", [
    (nb.jit(on_the_ring), 2 * A),
    *((lambda x, holds=holds: nb.cond(holds, lambda v: v, on_the_ring, x), A if holds else 2 * A)
      for holds in (True, False)),
    (lambda x: nb.switch(1, [lambda v: v, lambda v: v * 3, on_the_ring], x), 3 * A),
    (lambda x: nb.while_loop(lambda v: nb.max(v) < 40.0, on_the_ring, nb.ones_like(x)), np.full((8, 8), 64.0)),
    (lambda x: nb.grad(lambda v: nb.sum(with_rules("jvp")(v)))(x), np.full((8, 8), 2.0)),
    (lambda x: nb.grad(lambda v: nb.sum(with_rules("vjp")(v)))(x), np.full((8, 8), 4.0)),
    (nb.jit(nb.shard_map(lambda v: comm.psum(v, "stage"), RING, P("stage"), P())), A.reshape(4, 2, 8).sum(0)),
    (nb.grad(lambda x: nb.sum(on_the_ring(x))), np.full((8, 8), 2.0)),
    (lambda x: nb.jvp(on_the_ring, (x,), (x,))[1], 2 * A),
    (lambda x: nb.vmap(on_the_ring)(x[None])[0], 2 * A),
    (lambda x: nb.scan(lambda c, _: (on_the_ring(c), None), x, None, length=3)[0], 8 * A),
    (lambda x: nb.jit(lambda v: nb.grad(lambda q: nb.sum(on_the_ring(q) ** 2))(v))(x), 8 * A)])
def test_what_waits_is_of_another_mesh_than_a_function(use, expected):
    waits = nb.shard(A, MESH, P("dp", "tp")) + 1
    plain = nb.asarray(A) * 1  # waits, too, and is laid out over no mesh
    assert np.allclose(use(plain), expected, atol=1e-5)
    assert axes_of(waits) == [["dp"], ["tp"]] and np.allclose(waits, A + 1)
    calls = []
    text = r"add: operand 0, f32\[8,8\], is laid out as <stage, {}> over mesh ring .*, and operand 1, .*<dp, tp>"
    with pytest.raises(nb.Error, match=text) as e:
        nb.jit(lambda x: calls.append(1) or on_the_ring(x) + waits)(A)
    assert e.value.code == "E0210" and e.value._of_another_mesh and len(calls) <= 2


@pytest.mark.parametrize("use, expected", [
    (lambda x, one: nb.scan(lambda c, _: (c * 2, None), x, None, length=3)[0], 8 * A),
    (lambda x, one: nb.scan(lambda c, row: (c + row, None), nb.zeros(8), x)[0], A.sum(0)),
    (lambda x, one: nb.cond(one > 0, lambda v: v * 2, lambda v: v, nb.ones(8)), np.full(8, 2.0)),
    (lambda x, one: nb.switch(one, [lambda v: v, lambda v: v * 3], nb.ones(8)), np.full(8, 3.0))])
def test_loops_and_branches_of_another_mesh_than_what_waits(use, expected):
    x = nb.shard(A, MESH, P("dp")).realize()
    one = nb.max(nb.shard(np.ones(8, np.int32), MESH, P("tp"))).realize()
    waits = nb.shard(A, RING, P("stage")) * 2
    assert np.allclose(use(x, one), expected, atol=1e-5) and np.allclose(waits, 2 * A)


@pytest.mark.parametrize("use", [
    lambda a, b: nb.scan(lambda c, row: (c + row, None), a, b),
    lambda a, b: nb.scan(lambda c, _: (c + b[0], None), a, length=3),
    lambda a, b: nb.scan(lambda c, row: (c + row + a, None), nb.zeros(8), b),
    lambda a, b: nb.cond(nb.sum(a) > 0, lambda x: x + b[0], lambda x: x, a),
    lambda a, b: nb.cond(nb.sum(b) > 0, lambda x: x + a, lambda x: x, nb.ones(8)),
    lambda a, b: nb.switch(1, [lambda x: x, lambda x: x + b[0]], a),
    lambda a, b: nb.while_loop(lambda x: nb.sum(x) < nb.sum(b), lambda x: x + 1, a),
    lambda a, b: nb.while_loop(lambda x: nb.sum(x) < 100, lambda x: x + b[0], a),
    lambda a, b: nb.fori_loop(0, 3, lambda i, x: x + b[0], a),
    lambda a, b: nb.jvp(lambda x: x * b[0], (nb.ones(8),), (a,))])
def test_meshes_that_are_mixed_in_loops_and_branches(use):
    text = "E0210.*is laid out (as .*, and operand|over .*, and is used beside values of mesh)"
    for f in (use, nb.jit(use)):
        a, b = nb.shard(A[0], MESH, P("dp")), nb.shard(A, RING, P("stage"))
        with pytest.raises(nb.Error, match=text) as e:
            f(a, b)
        assert all(mesh in str(e.value) for mesh in ("mesh pod (dp=2, tp=4)", "mesh ring (stage=4)"))


def test_tangents_of_another_mesh_than_what_waits():
    waits, plain = nb.shard(A, MESH, P("dp")) + 1, nb.asarray(A) * 2
    tangent = nb.shard(B, RING, P("stage")).realize()
    waits = waits * 1
    assert np.allclose(nb.jvp(lambda x: x * plain, (nb.asarray(A),), (tangent,))[1], 2 * A * B)
    assert np.allclose(waits, A + 1)


def test_vmap_over_a_mesh_where_nothing_is_mapped():
    f = nb.vmap(lambda x: x * 2, in_axes=None, axis_size=4, spmd_axis_name="dp", mesh=MESH)
    waits = nb.shard(A, RING, P("stage")) + 1
    for g in (f, nb.jit(f)):
        y = g(nb.asarray(A))
        assert axes_of(y) == [["dp"], [], []] and np.array_equal(y.numpy(), np.stack([A * 2] * 4))
    assert np.allclose(waits, A + 1)
    a = nb.shard(A, RING, P("stage"))
    with pytest.raises(nb.Error, match=r"E0210.*mesh pod .*beside values of mesh ring \(stage=4\)"):
        nb.vmap(lambda x: x * a, in_axes=None, axis_size=4, spmd_axis_name="dp", mesh=MESH)(nb.ones(8))


@pytest.mark.parametrize("mesh", [None, MESH])
@pytest.mark.parametrize("row", [
    lambda r: nb.shard(r, MESH, P("tp")) * 2,
    lambda r: nb.with_sharding_constraint(r * 2, MESH, P()),
    lambda r: comm.psum(nb.shard(r * r, MESH, P("tp")), "tp"),
    nb.shard_map(lambda a: comm.psum(a * a, "tp"), MESH, (P("tp"),), P()),
    nb.shard_map(lambda a: comm.psum(a * a, "tp"), MESH, (P("tp"),), P(), axis_names={"tp"})])
def test_vmap_pads_batches_that_its_axis_does_not_divide(row, mesh):
    f, plain = nb.vmap(row, spmd_axis_name="dp", mesh=mesh), nb.vmap(row)
    gradients = nb.vmap(nb.grad(lambda r: nb.sum(nb.sin(row(r)))), spmd_axis_name="dp", mesh=mesh)
    loss, plain_loss = (lambda x: nb.sum(nb.sin(f(x)))), (lambda x: nb.sum(nb.sin(plain(x))))
    for rows in (1, 7):
        x = nb.asarray(A[:rows])
        expected, slope = plain(x).numpy(), nb.grad(plain_loss)(x).numpy()
        for g in (f, nb.jit(f)):
            assert np.allclose(g(x).numpy(), expected, atol=1e-5)
        for g in (nb.grad(loss), gradients, nb.jit(nb.grad(loss)), nb.jit(gradients)):
            assert np.allclose(g(x).numpy(), slope, atol=1e-5)


def on_ranks(f, before, after):
    return nb.shard_map(f, mesh=MESH, in_specs=before, out_specs=after)


@pytest.mark.parametrize("f, least", [
    (lambda x: comm.reduce_scatter(nb.shard(x, MESH, P("tp")), 0), 16),
    (lambda x: comm.reduce_scatter(nb.shard(x, MESH, P(None, "tp")), 0), 8),
    (lambda x: comm.reduce_scatter(nb.shard(x, MESH, P("tp")), 0, axis_name="dp"), 8),
    (on_ranks(lambda x: comm.reduce_scatter(x, 0, axis_name="tp"), P(), P("tp")), 4),
    (on_ranks(lambda x: comm.reduce_scatter(x, 0, axis_name="dp"), P("tp"), P(("tp", "dp"))), 8),
    (on_ranks(lambda x: comm.all_to_all(x, 0, 1, axis_name="tp"), P(None, "tp"), P("tp")), 4),
    (on_ranks(lambda x: comm.all_to_all(x, 1, 0, axis_name="tp"), P("tp"), P(None, "tp")), 4),
    (lambda x: comm.all_to_all(nb.shard(x, MESH, P("tp")), 1, 0), 4),
    (lambda x: comm.all_gather(nb.shard(x, MESH, P("tp")), 0), 4)])
def test_collectives_of_sizes_that_are_known_at_run_time(f, least):
    g = nb.jit(f, dynamic_dims={0: {0: "rows"}})
    for rows in (2 * least, least, 3 * least):
        x = nb.asarray(np.random.RandomState(rows).randn(rows, 8).astype(np.float32))
        y = g(x)
        assert np.allclose(y, f(x), atol=1e-5) and y.sharding == f(x).sharding
    assert g.stats.misses == 1
    with pytest.raises(ValueError, match=f"rows is {5 * least // 4}, no multiple of {least}, as the parts of"):
        g(nb.ones((5 * least // 4, 8)))


def test_a_collective_says_of_what_a_size_is_to_be_a_multiple():
    def f(x):
        return comm.reduce_scatter(nb.shard(x, MESH, P("tp")), 0)

    rows, sixteen = nb.symbol("rows", 4, 64, 4), nb.symbol("rows", 16, 64, 16)
    with pytest.raises(nb.Error, match=r"E0207.*reduce_scatter: floordiv\(rows,4\) elements in dimension 0 may not be "
                                       r"divisible into 4 shards(?s:.*)help: declare symbol rows as a multiple of 16: "
                                       r'nabla.symbol\("rows", ..., multiple=16\)'):
        nb.export({"f": f}, args={"f": {"x": nb.spec((rows, 8))}})
    nb.export({"f": f}, args={"f": {"x": nb.spec((sixteen, 8))}})


TEN = np.random.RandomState(2).randn(10, 8).astype(np.float32)


@pytest.mark.parametrize("f, axes", [
    (lambda x: x * 2, [["tp"], []]),
    (lambda x: nb.relu(x @ A[:, :3]), [["tp"], []]),
    (lambda x: nb.sum(x, axis=1) > 0, [["tp"]]),
    (lambda x: nb.sum(x, axis=0), [[]]),
    (lambda x: x.T, [[], ["tp"]]),
    (lambda x: x.reshape(5, 2, 8), [["tp"], [], []]),
    (lambda x: nb.softmax(x, axis=0), [["tp"], []]),
    (lambda x: x[:, :6] + nb.shard(TEN[:, :6], MESH, P(None, "dp")), [["tp"], ["dp"]]),
    (lambda x: nb.scan(lambda c, _: (c * 2, None), x, None, length=2)[0], [["tp"], []]),
    (lambda x: nb.cond(nb.sum(x) > 0, lambda v: v * 2, lambda v: v, x), [["tp"], []]),
    (nb.grad(lambda x: nb.sum(nb.sin(x))), [["tp"], []]),
    (lambda x: nb.sin(x * 2 if repr((x * 3).sharding) == "sharding<@pod, [{tp}, {}]>" else x), [["tp"], []]),
    (lambda x: nb.shard(x, MESH, P())[:6], [[], []]),
    (lambda x: nb.shard(x * 2, MESH, P()), [[], []]),
    (lambda x: x[:6], [[], []])])
def test_results_of_uneven_parts_keep_their_layout(f, axes):
    def x():
        return nb.shard(TEN, MESH, P("tp"))

    y, compiled = f(x()), nb.jit(f)(x())
    assert axes_of(f(x())) == axes_of(y.realize()) == axes_of(compiled) == axes and np.allclose(y, compiled, atol=1e-5)
    for t in (y, compiled):
        again = t * 1
        assert axes_of(again) == axes and np.allclose(again, y, atol=1e-5)
        assert axes_of(nb.jit(lambda v: v * 1)(t)) == axes
        assert [s.shape for s in t.shards] == [compute_local_shape(y.shape, t.sharding, r) for r in range(8)]


def squared_error(params, x):
    return nb.mean((nb.relu(x @ params["a"]) @ params["b"]) ** 2)


@pytest.mark.parametrize("a, b, x, sent", [
    (P(), P(), P("dp"), "all_reduce"),
    (P("dp"), P("dp"), P("dp"), "reduce_scatter"),
    (P("tp"), P(None, "tp"), P("dp"), "all_reduce"),
    (P("dp", "tp"), P("tp", "dp"), P("dp"), "reduce_scatter"),
    (P(), P(), P("dp", "tp"), "all_reduce")])
def test_gradients_lie_as_what_they_are_gradients_of(a, b, x, sent):
    params = {"a": nb.shard(A, MESH, a), "b": nb.shard(B, MESH, b)}
    data = nb.shard(TEN[:8], MESH, x)
    plain = nb.grad(squared_error)({"a": nb.asarray(A), "b": nb.asarray(B)}, nb.asarray(TEN[:8]))
    ways = [nb.grad(squared_error), nb.jit(nb.grad(squared_error)), nb.grad(squared_error, create_graph=False),
            nb.grad(nb.jit(squared_error)), nb.grad(squared_error, realize=False),
            nb.jit(lambda p, x: nb.value_and_grad(squared_error)(p, x)[1]),
            nb.jit(nb.grad(squared_error, create_graph=False)),
            lambda p, x: nb.vjp(squared_error, p, x)[1](nb.ones(()))[0],
            nb.jit(lambda p, x: nb.vjp(squared_error, p, x)[1](nb.ones(()))[0])]
    for way in ways:
        gradients = way(params, data)
        for name, g in gradients.items():
            assert g.sharding == params[name].sharding and np.allclose(g, plain[name], atol=1e-5), name
            assert (params[name] - 0.1 * g).sharding == params[name].sharding
    for f in (ways[1], ways[5]):
        assert sent in f.inspect(params, data)


def test_gradients_of_uneven_parameters_and_second_ones():
    w = nb.shard(TEN, MESH, P("tp"))
    f = nb.grad(lambda w: nb.sum(nb.sin(w) @ A))
    second = nb.grad(lambda w: nb.sum(f(w) ** 2))
    for g in (f, nb.jit(f), second, nb.jit(second)):
        assert g(w).sharding == w.sharding
    assert np.allclose(nb.jit(second)(w), second(nb.asarray(TEN)), atol=1e-4)
    w.requires_grad = True
    nb.sum(nb.sin(w) @ A).backward()
    assert w.grad.sharding == w.sharding and np.allclose(w.grad, f(nb.asarray(TEN)), atol=1e-5)


def test_uneven_results_stay_with_their_ranks():
    x = nb.shard(TEN, MESH, P("tp"))
    text = nb.jit(lambda v: nb.relu(v @ A)).inspect(x)
    assert "output     out0: f32[10,8], cut as tp" in text and "gather" not in text and "0.00 ns of exchanges" in text


def test_copies_and_pickles_keep_layouts():
    for spec in (P("dp", "tp"), P(("dp", "tp"), None)):
        assert copy.deepcopy(spec) == pickle.loads(pickle.dumps(spec)) == copy.copy(spec) == spec
    assert P("a") + P("b") == P("a", "b") and isinstance(P("a") + P("b"), P)
    x = nb.shard(A, MESH, P("dp", "tp"))
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.sharding == x.sharding and np.array_equal(y.numpy(), A)
    assert copy.deepcopy(x.sharding) == pickle.loads(pickle.dumps(x.sharding)) == x.sharding
    f = nb.jit(lambda v, spec: nb.shard(v, spec.mesh, spec), static_argnums=1)
    assert axes_of(f(A, x.sharding)) == [["dp"], ["tp"]]


def test_writes_keep_the_layout():
    for value in (B, nb.shard(B, MESH, P("tp", "dp"))):
        x = nb.shard(A, MESH, P("dp", "tp"))
        x[...] = value
        assert axes_of(x) == [["dp"], ["tp"]] and np.array_equal(x.numpy(), B)
    m = nb.nn.Linear(8, 4)
    state = {k: v.numpy() for k, v in m.state_dict().items()}
    m.weight = nb.shard(m.weight, MESH, P("tp"))
    m.load_state_dict(state)
    assert axes_of(m.weight) == [["tp"], []] and np.array_equal(m.weight.numpy(), state["weight"])


def test_a_tensor_moves_to_another_mesh():
    x = nb.shard(A, MESH, P("dp", "tp")) * 2
    y = comm.reshard(x, RING, P("stage"))
    assert axes_of(y) == [["stage"], []] and np.array_equal(y.numpy(), 2 * A)


def test_axes_of_collectives():
    x = nb.shard(A, MESH, P(("dp", "tp")))
    assert axes_of(comm.all_gather(x, 0, axis_name="tp")) == [["dp"], []]
    moved = comm.all_to_all(x, 1, 0, axis_name="tp")
    assert axes_of(moved) == [["dp"], ["tp"]] and np.array_equal(moved.numpy(), A)
    with pytest.raises(ValueError, match="dp are not the last axes that cut dimension 0"):
        comm.all_to_all(x, 1, 0, axis_name="dp")
    y = nb.shard(np.arange(16), RING, P("stage")).reshape(2, 8)
    with pytest.raises(ValueError, match=r"psum: i64\[2,8\] is laid out as .*, along a part of an axis, stage:\(1\)2"):
        comm.psum(y)
    kept = nb.shard(A, MESH, P("tp"), replicated_axes={"dp"})
    assert kept.sharding.replicated_axes == {"dp"}


def test_parts_of_sizes_of_run_time_have_a_shape():
    seen = []

    def f(x):
        seen.append((x.local_shape, x.shard_shape(7), x.gather().local_shape))
        return x.reshape(x.local_shape[0], 2, 8)

    x = nb.shard(A, MESH, P("dp"))
    assert np.array_equal(nb.jit(f, dynamic_dims={0: {0: "rows"}})(x), A.reshape(4, 2, 8))
    first, last, whole = seen[0]
    assert first == last and repr(first) == "(floordiv(rows,2), 8)" and repr(whole) == "(rows, 8)"


SPEC = ShardingSpec(MESH, [DimSpec(["dp"]), DimSpec()])


@pytest.mark.parametrize("use, error, text", [
    (lambda x: MESH.get_axis_size("tp:(0)2"), ValueError, "no part of axis tp"),
    (lambda x: MESH.get_devices_on_axis_slice("tp", 9), ValueError, "places 0 to 3 along tp, got 9"),
    (lambda x: DeviceMesh(None, (2,), ("a",)), TypeError, "takes a name, a tuple of sizes"),
    (lambda x: DeviceMesh("m", 2, ("a",)), TypeError, "takes a name, a tuple of sizes"),
    (lambda x: DeviceMesh("m", (2.0,), ("a",)), ValueError, "number from 1 on, got 2.0"),
    (lambda x: DeviceMesh("m", (2,), (3,)), TypeError, "named by a text, got 3"),
    (lambda x: DeviceMesh("m-1", (2,), ("a",)), ValueError, "'m-1' is no name"),
    *((lambda x, name=name: DeviceMesh("m", (2,), (name,)), nb.Error,
       rf"E0210.*mesh m: `{text}` names no axis(?s:.*)letters, digits and _, and no digit comes first")
      for name, text in (("a:(1)2", r"a:\(1\)2"), ("a+b", r"a\+b"), ("d p", "d p"), ("a\nb", r"a\\nb"), ("2d", "2d"),
                         ("\xe9", "\xe9"))),
    (lambda x: DimSpec([1]), TypeError, "named by a text, got 1"),
    (lambda x: DimSpec(["a", "b", "a"]), ValueError, "axis a stands twice"),
    (lambda x: P(3), TypeError, "P: dimension 0 has 3, expected the name of an axis of the mesh, such as"),
    (lambda x: P("dp", ("tp", None)), TypeError, r"P: dimension 1 has \('tp', None\), expected"),
    (lambda x: P(None, ""), TypeError, "P: dimension 1 has '', expected"),
    (lambda x: P("dp", ["tp", "dp"]), ValueError, "P: axis dp stands twice"),
    (lambda x: MESH.get_coordinate("a", "dp"), TypeError, "a rank is a number, 0 to 7, got 'a'"),
    (lambda x: MESH.get_coordinate(1.0, "dp"), TypeError, "a rank is a number, 0 to 7, got 1.0"),
    (lambda x: DimSpec(["a"], priority="x"), TypeError, "an integer from 0 on, got 'x'"),
    (lambda x: nb.shard(x, MESH, None), TypeError, "a word per dimension, .* got None"),
    (lambda x: nb.shard(x, MESH, "tp"), TypeError, "a word per dimension, .* got 'tp'"),
    (lambda x: nb.shard(x, MESH, [3, None]), TypeError, "named by a text, got 3"),
    (lambda x: nb.shard(x, MESH, SPEC, replicated_axes={"tp"}), ValueError, "beside a ShardingSpec"),
    (lambda x: comm.with_sharding_constraint(x, P("tp")), TypeError,
     r"constraint takes a ShardingSpec, which names its mesh, or a mesh and a PartitionSpec, got P\('tp'\)"),
    (lambda x: x.with_sharding_constraint(MESH), TypeError, "or a mesh and a PartitionSpec, got @pod = <"),
    (lambda x: x.with_sharding_constraint(SPEC, P("dp")), TypeError, r"got sharding<@pod, \[.*\]> and P\('dp'\)"),
    (lambda x: nb.spec((8,), sharding=P("tp")), TypeError, r"a ShardingSpec or a pair such as \(mesh, P.*, got P"),
    (lambda x: nb.spec((8,), sharding=(MESH, P("dp", "tp"))), ValueError, "spec: 2 layouts of dimensions"),
    (lambda x: needs_reshard(P("a"), P("b")), TypeError, "needs_reshard takes a ShardingSpec"),
    (lambda x: compute_local_shape((8, 3, 2), SPEC, 0), ValueError, "is no layout of the shape"),
    (lambda x: compute_local_shape(8, SPEC, 0), TypeError, "a shape is a tuple of sizes, got 8"),
    (lambda x: compute_local_shape((-8, 3), SPEC, 0), ValueError, r"from 0 on, got -8 in \(-8, 3\)"),
    (lambda x: compute_local_shape((8, 3), ShardingSpec(MESH, [None, None]), 8), ValueError, "ranks 0 to 7, got 8"),
    (lambda x: comm.psum(nb.shard(x, MESH, P("dp")), 3), TypeError, "named by a text, got 3"),
    (lambda x: comm.all_gather(nb.shard(x, MESH, P("dp")), "tp"), TypeError,
     r"all_gather of f32\[8,8\]: a dimension is given by its number, got 'tp'; .* by name: axis_name='tp'"),
    (lambda x: nb.shard_map(lambda v: comm.all_gather(v, "dp"), MESH, P("dp"), P())(x), TypeError,
     r"all_gather of f32\[4,8\]: a dimension is given by its number, got 'dp'; .* by name: axis_name='dp'"),
    (lambda x: nb.shard_map(lambda v: comm.all_to_all(v, "dp", 0), MESH, P("dp"), P("dp"))(x), TypeError, "got 'dp'"),
    (lambda x: nb.shard_map(lambda v: comm.reduce_scatter(v, 0.5), MESH, P("dp"), P("dp"))(x), TypeError, "got 0.5$"),
    (lambda x: nb.shard_map(lambda v: comm.broadcast(v, 1), MESH, P("dp"), P("dp"))(x), TypeError,
     "the mesh is a DeviceMesh, got 1; the rank that sends is root="),
    (lambda x: comm.ppermute(nb.shard(x, MESH, P("dp")), [(1, 2, 3)]), TypeError, "a list of pairs"),
    (lambda x: comm.ppermute(nb.shard(x, MESH, P("dp")), None), TypeError, "a list of pairs"),
    (lambda x: comm.ppermute(nb.shard(x, MESH, P("dp")), [(0, 7)], "dp"), ValueError, "7 is no place along dp"),
    *((lambda x, pairs=pairs: nb.shard_map(lambda v: comm.ppermute(v, pairs, "dp"), MESH, P("dp"), P("dp"))(x),
       ValueError, rf"ppermute of f32\[4,8\]: {text}, in \[\(0, 1\)") for pairs, text in (
           ([(0, 1), (0, 0)], "place 0 sends twice"), ([(0, 1), (1, 1)], "place 1 gets twice"),
           ([(0, 1), (1, 2)], "2 is no place along dp, where there are 0 to 1"))),
    (lambda x: comm.ppermute(nb.shard(x, MESH, P("dp")), [(0, 1), (0, 0)], "dp"), ValueError, "place 0 sends twice"),
    (lambda x: comm.axis_index(MESH, ["dp"]), TypeError, "the name of one axis, got"),
    (lambda x: nb.vmap(lambda v: v, spmd_axis_name=("dp",), mesh=MESH)(x), TypeError, "the name of one axis"),
    (lambda x: nb.vmap(lambda v: v, spmd_axis_name="dp", mesh="pod"), TypeError, "vmap: the mesh is a DeviceMesh"),
    (lambda x: nb.transfer_to(x, sharding=P("tp")), TypeError, "transfer_to takes a ShardingSpec, .*got P"),
    (lambda x: nb.shard_map(3, MESH, P(), P()), TypeError, "takes a function, got 3"),
    (lambda x: nb.shard_map(lambda v: v, MESH, "dp", P()), TypeError, "in_specs of fn is 'dp', expected a Partition"),
    (lambda x: nb.shard_map(lambda v: v, MESH, P(), P())(v=x), TypeError, "by position, as in_specs .*, got v by name"),
    (lambda x: nb.shard_map(lambda v: v, MESH, {0: P("dp")}, {0: P("dp"), 1: P()})(x), ValueError, "lays out result 1"),
    (lambda x: nb.shard_map(lambda v: v, MESH, {0: P("dp")}, "dp")(x), TypeError, "out_specs of fn has 'dp', expected"),
    (lambda x: nb.shard_map(lambda v: v, MESH, P()), ValueError, "needs in_specs and out_specs"),
    (lambda x: nb.shard_map(lambda v: v, MESH, ("dp",), P())(x), TypeError, "in_specs of fn has 'dp', expected"),
    (lambda x: nb.shard_map(lambda v: v, MESH, P(), (P(), P()))(x), ValueError, "shard_map: out_specs of fn"),
    (lambda x: nb.logical_to_mesh_axes(None), TypeError, "come in a list, got None"),
    (lambda x: nb.logical_to_mesh_axes(("a",), [("b",)]), TypeError, "are pairs of a dimension's name and axes"),
])
def test_what_makes_no_sense_is_said(use, error, text):
    with pytest.raises(error, match=text):
        use(nb.asarray(A))


def test_exported_layouts_are_padded_on_other_meshes(tmp_path):
    spec = ShardingSpec(MESH, [DimSpec(["dp"]), DimSpec()])
    program = nb.export({"f": lambda x: nb.sum(x * x)}, args={"f": {"x": nb.spec((8, 8), sharding=spec)}})
    bundle = nb.compile_bundle(program, tmp_path / "f.nbundle", mesh={"dp": 3, "tp": 1})
    assert np.isclose(bundle.run("f", x=A)["out"].item(), (A * A).sum(), rtol=1e-5)
    table = nb.shard(B, MESH, P("tp"))  # a constant of the program
    program = nb.export({"f": lambda x: nb.sum(nb.shard(x * x, MESH, P("dp", "tp")) * table)},
                        args={"f": {"x": nb.spec((8, 8))}})
    bundle = nb.compile_bundle(program, tmp_path / "f.nbundle", mesh={"dp": 1, "tp": 3})
    assert np.isclose(bundle.run("f", x=A)["out"].item(), (A * A * B).sum(), rtol=1e-4)
