"""Tensors that get the layout of others: `zeros_like` and the like, states of optimizers, what jit pins."""

import nabla as nb
import numpy as np
import pytest
from nabla import P, ops
from nabla.core.sharding import DimSpec, ShardingSpec

MESH = nb.DeviceMesh("pod", (2, 4), ("dp", "tp"))
X = np.arange(64, dtype=np.float32).reshape(8, 8)


def axes_of(x):
    return x.sharding and [d.axes for d in x.sharding.dim_specs]


def cut(*dims):
    return ops.shard(nb.asarray(X), MESH, P(*dims))


# ---- Tensors like others


LIKES = [nb.zeros_like, nb.ones_like, nb.empty_like, lambda x: nb.full_like(x, 7), lambda x: nb.full_like(x, nb.sum(x))]


@pytest.mark.parametrize("like", LIKES)
@pytest.mark.parametrize("way", [lambda f: f, nb.jit, lambda f: nb.jit(nb.jit(f))])
def test_tensors_like_others_lie_as_they(like, way):
    for dims in [("dp", "tp"), (None, ("tp", "dp")), ()]:
        assert way(like)(cut(*dims)).sharding == ShardingSpec(MESH, [*dims, *[None] * (2 - len(dims))])
    kept = ops.shard(nb.asarray(X), MESH, P("tp"), replicated_axes={"dp"})
    assert axes_of(way(like)(kept)) == [["tp"], []]
    uneven = ops.shard(nb.asarray(X[:7]), MESH, P("tp"))
    assert like(uneven).sharding == uneven.sharding
    assert like(nb.asarray(X)).sharding is None and way(like)(X).sharding is None
    assert np.array_equal(way(like)(cut("dp")).numpy(), like(nb.asarray(X)).numpy())


def test_results_of_ops_give_their_layout_too():
    def f(x, w):
        return nb.zeros_like(x @ w), nb.zeros_like(nb.sum(x, axis=0), dtype="int32")

    for way in (f, nb.jit(f)):
        product, total = way(cut("dp"), cut(None, "tp"))
        assert axes_of(product) == [["dp"], ["tp"]] and axes_of(total) == [[]] and total.dtype == nb.int32
    pending = nb.sum(cut("dp", "tp"), axis=0)  # whose ranks have shares of it: the layout alone is taken over
    assert axes_of(nb.ones_like(pending)) == [["tp"]] and nb.ones_like(pending).numpy().tolist() == [1] * 8


def test_a_value_that_others_are_like_may_still_be_laid_out():
    def step(x):
        y = nb.sin(x)
        return ops.shard(y + nb.zeros_like(y), MESH, P("dp", "tp"))

    plain = str(nb.trace(lambda x: ops.shard(nb.sin(x), MESH, P("dp", "tp")), cut("dp")))
    assert "sin(%0) : f32[8@dp,8@tp]" in plain and "sin(%0) : f32[8@dp,8@tp]" in str(nb.trace(step, cut("dp")))
    assert np.allclose(nb.jit(step)(cut("dp")).numpy(), np.sin(X))


def test_exported_functions_take_layouts_over(tmp_path):
    spec = nb.spec((8, 8), sharding=ShardingSpec(MESH, ["dp", None]))
    program = nb.export({"step": lambda state, x: (state, (nb.zeros_like(state["w"]), nb.ones_like(x * 2)))},
                        state={"w": spec}, args={"step": {"x": spec}})
    assert program.text.count("shard(") == 2 and "{sharding=<dp, {}> allow_padding}" in program.text
    bundle = nb.compile_bundle(program, tmp_path / "b.nbundle", mesh={"dp": 3, "tp": 1})  # which do not divide 8 rows
    bundle.set_state("w", X)
    assert not bundle.run("step", x=X)["out0"].numpy().any() and bundle.run("step", x=X)["out1"].numpy().all()


def test_parts_and_examples_have_no_more_than_their_own():
    f = nb.shard_map(lambda a: a + nb.ones_like(a), mesh=MESH, in_specs=P("dp"), out_specs=P("dp"))
    assert np.array_equal(f(X).numpy(), X + 1) and np.array_equal(nb.jit(f)(cut("dp")).numpy(), X + 1)
    rows = nb.vmap(lambda a: a + nb.ones_like(a))
    assert np.array_equal(nb.jit(rows)(cut("dp", "tp")).numpy(), X + 1)
    slope = nb.grad(lambda x: nb.sum(nb.full_like(x, nb.sum(x)) * x))
    assert np.allclose(nb.jit(slope)(cut("dp", "tp")).numpy(), 2 * X.sum())


# ---- States of optimizers


@pytest.mark.parametrize("transform", [
    nb.nn.optim.sgd(0.1, momentum=0.9), nb.nn.optim.adamw(0.1), nb.nn.optim.adam(0.1), nb.nn.optim.rmsprop(0.1),
    nb.nn.optim.adagrad(0.1), nb.nn.optim.lion(0.1)])
@pytest.mark.parametrize("way", [lambda f: f, nb.jit])
def test_states_of_optimizers_are_cut_as_the_parameters(transform, way):
    params = {"w": cut(None, "tp"), "b": ops.shard(nb.ones(8), MESH, P("tp")), "free": nb.ones(3)}
    state = way(transform.init)(params)
    for name in transform.rule.slot_names:
        assert axes_of(state[name]["w"]) == [[], ["tp"]] and axes_of(state[name]["b"]) == [["tp"]]
        assert state[name]["free"].sharding is None and not state[name]["w"].numpy().any()


def test_rows_and_columns_of_adafactor_are_cut_as_those_of_the_parameter():
    deep = ops.shard(nb.ones((4, 8, 8)), MESH, P(None, "dp", "tp"))
    params = {"w": cut("dp", "tp"), "deep": deep, "b": ops.shard(nb.ones(8), MESH, P("tp"))}
    state = nb.nn.optim.adafactor(0.1).init(params)
    assert axes_of(state["row"]["w"]) == [["dp"]] and axes_of(state["column"]["w"]) == [["tp"]]
    assert axes_of(state["row"]["deep"]) == [[], ["dp"]] and axes_of(state["column"]["deep"]) == [[], ["tp"]]
    assert axes_of(state["row"]["b"]) == [["tp"]] and state["column"]["b"].shape == ()


def test_optimizers_with_a_state_keep_its_layout_where_they_load_one():
    model = nb.nn.Linear(8, 8)
    model.weight = nb.nn.Parameter(cut("dp", "tp"))
    optimizer = nb.nn.optim.AdamW(model, 0.1)
    assert axes_of(optimizer.state_dict()["m.weight"]) == [["dp"], ["tp"]]
    optimizer.load_state_dict({k: nb.ones(v.shape, dtype=v.dtype) for k, v in optimizer.state_dict().items()})
    assert axes_of(optimizer.state_dict()["m.weight"]) == [["dp"], ["tp"]]
    assert optimizer.state_dict()["m.weight"].numpy().all() and optimizer.state_dict()["m.bias"].sharding is None


def test_what_is_loaded_from_files_lies_as_what_it_stands_for(tmp_path):
    transform, model = nb.nn.optim.adamw(0.1), nb.nn.Linear(8, 8)
    model.set_tensors({"weight": cut("dp", "tp")})
    for params in ({"weight": cut("dp", "tp"), "bias": nb.ones(8)}, model):
        state = transform.init(params)
        nb.nn.save_checkpoint(tmp_path / "c.safetensors", params, state, step=1)
        loaded, state, _ = nb.nn.load_checkpoint(tmp_path / "c.safetensors", params, state)
        weight = loaded["weight"] if loaded is not model else model.weight
        assert axes_of(weight) == axes_of(state["m"]["weight"]) == [["dp"], ["tp"]]
        assert np.array_equal(weight.numpy(), X) and state["m"]["bias"].sharding is state["step"].sharding is None


def test_a_step_of_sharded_parameters_compiles_once():
    transform = nb.nn.optim.adamw(0.1)

    @nb.jit
    def step(params, state, x):
        loss, gradients = nb.value_and_grad(lambda p: nb.mean(nb.tanh(x @ p["w"]) ** 2))(params)
        return *transform.update(params, gradients, state), loss

    params = {"w": ops.shard(nb.asarray(X / 64), MESH, P("dp", "tp"))}
    state = transform.init(params)
    for _ in range(3):
        params, state, loss = step(params, state, X)
    assert axes_of(params["w"]) == axes_of(state["m"]["w"]) == [["dp"], ["tp"]] and step.stats.misses == 1


# ---- Layouts that jit pins

ROWS, COLUMNS = ShardingSpec(MESH, ["dp", None]), (MESH, P(None, "tp"))


def test_arguments_and_results_lie_as_jit_is_told():
    seen = []

    def f(x, w):
        seen.append((axes_of(x), axes_of(w)))
        return {"y": x @ w, "parts": [x, nb.sum(w)]}, 3

    told = nb.jit(f, in_shardings=(ROWS, COLUMNS), out_shardings=({"y": (MESH, P(("dp", "tp"))), "parts": None}, None))
    for x in (X, nb.asarray(X), cut("tp"), cut("dp"), nb.asarray(X) * 1):
        out, three = told(x, cut("dp"))
        assert axes_of(out["y"]) == [["dp", "tp"], []] and axes_of(out["parts"][0]) == [["dp"], []]
        assert np.array_equal(out["y"].numpy(), X @ X) and three.item() == 3
    assert seen == [([["dp"], []], [[], ["tp"]])] and told.stats.misses == 1
    with nb.disable_jit():
        out, _ = told(X, X)
        assert axes_of(out["y"]) == [["dp", "tp"], []] and seen[1] == seen[0]
    assert "8 ranks" in told.inspect(X, X) and told.stats.misses == 1


def test_one_layout_stands_for_all_below_its_place():
    f = nb.jit(lambda p, x: nb.tree.map(lambda w: w * 2, p), in_shardings=(ROWS, None), out_shardings=(MESH, P("tp")))
    out = f({"a": X, "b": [X, "name"][:1]}, X)
    assert axes_of(out["a"]) == axes_of(out["b"][0]) == [["tp"], []]
    every = nb.jit(lambda x, y: (x, y), in_shardings=ROWS)
    assert all(axes_of(x) == [["dp"], []] for x in every(X, cut("tp")))
    assert axes_of(nb.jit(lambda x, y: y, in_shardings=[None, ROWS])(X, X)) == [["dp"], []]


def test_layouts_of_arguments_beside_others_that_are_static_and_donated():
    f = nb.jit(lambda n, x, kind: x * n, static_argnums=(0,), static_argnames="kind", donate_argnums=(1,),
               in_shardings=(ROWS,))
    x = nb.asarray(X)
    assert axes_of(y := f(2, x, kind="a")) == [["dp"], []] and np.array_equal(y.numpy(), 2 * X)
    with pytest.raises(nb.Error, match="donated to"):
        x.numpy()
    dynamic = nb.jit(lambda x: nb.sum(x, axis=1), dynamic_dims={0: {0: "batch"}}, in_shardings=ROWS)
    assert [dynamic(X[:n]).numpy().shape for n in (2, 4, 8)] == [(2,), (4,), (8,)] and dynamic.stats.misses == 1
    few = nb.jit(lambda x: nb.sum(x, axis=1), dynamic_dims={0: {0: ("batch", 1, 5)}}, in_shardings=ROWS)
    with pytest.raises(ValueError, match=r"dynamic_dims: dimension 0 of .*, f32\[6.*: batch is 6, not in \[2, 5\]"):
        few(X[:6])


def test_layouts_of_a_function_that_another_one_calls():
    inner = nb.jit(lambda x: x + 1, in_shardings=ROWS, out_shardings=COLUMNS)
    assert axes_of(nb.jit(lambda x: inner(x))(X)) == [[], ["tp"]]
    assert np.array_equal(nb.grad(lambda x: nb.sum(inner(x) * X))(nb.asarray(X)).numpy(), X)
    method = nb.jit(nb.nn.Linear(8, 8), in_shardings=ROWS, out_shardings=COLUMNS)
    assert axes_of(method(X)) == [[], ["tp"]]


def test_a_pair_is_the_layout_of_a_spec():
    assert nb.spec((8, 4), sharding=(MESH, P("dp"))).sharding == ShardingSpec(MESH, ["dp", None])


def test_a_state_that_is_pinned_keeps_its_layout_and_compiles_once():
    transform, whole = nb.nn.optim.adamw(0.1), (MESH, P())

    def step(params, state, x):
        loss, gradients = nb.value_and_grad(lambda p: nb.mean(nb.tanh(x @ p["w"]) ** 2))(params)
        return *transform.update(params, gradients, state), loss

    layouts = ({"w": COLUMNS}, {"m": {"w": COLUMNS}, "v": {"w": COLUMNS}, "step": whole})
    pinned = nb.jit(step, in_shardings=(*layouts, ROWS), out_shardings=(*layouts, None))
    params = {"w": nb.asarray(X / 64)}  # whole, as its state is
    state, want = transform.init(params), step(params, transform.init(params), X)
    for i in range(3):
        params, state, loss = pinned(params, state, X)
        assert axes_of(params["w"]) == axes_of(state["m"]["w"]) == [[], ["tp"]] and axes_of(state["step"]) == []
        assert i or np.allclose(params["w"].numpy(), want[0]["w"].numpy(), atol=1e-6)
    assert pinned.stats.misses == 1


OTHER = nb.DeviceMesh("ring", (4,), ("s",))


@pytest.mark.parametrize("use, error, text", [
    (lambda: nb.jit(lambda x: x, in_shardings=P("dp")), TypeError,
     r"jit: in_shardings has P\('dp'\), which names no mesh: \(mesh, P\('dp'\)\) does"),
    (lambda: nb.jit(lambda x: x, out_shardings={"y": "dp"}), TypeError,
     r"jit: out_shardings has 'dp', expected a ShardingSpec, a pair such as \(mesh, P\(\"dp\"\)\), or None"),
    (lambda: nb.jit(lambda x: x, in_shardings=(ROWS,), out_shardings=(OTHER, P("s"))), ValueError,
     'in_shardings at 0 is of mesh @pod = <.*>, and out_shardings of mesh @ring = <."s"=4.>(?s:.*)give all layouts'),
    (lambda: nb.jit(lambda x, p: x, in_shardings=(ROWS, {"w": (OTHER, P("s"))})), nb.Error,
     'E0210.*: jit: in_shardings at 0 is of mesh @pod = <.*>, and in_shardings at 1.w of mesh @ring'),
    (lambda: nb.jit(lambda x: x, in_shardings=(ROWS,), auto_shard=OTHER), ValueError,
     "auto_shard is of mesh @ring = .*, and in_shardings at 0 of mesh @pod"),
    (lambda: nb.jit(lambda x, y: x, in_shardings=(ROWS,))(X, X), ValueError,
     "in_shardings of fn has 1 elements, and the call has 2 arguments\n(?s:.*)help: give a layout per argument"),
    (lambda: nb.jit(lambda n, y: y, static_argnums=0, in_shardings=(None, ROWS))(1, X), ValueError,
     "in_shardings of fn has 2 elements, and the call has 1 arguments that are not static"),
    (lambda: nb.jit(lambda p: p, in_shardings=({"a": ROWS},))({"b": X}), ValueError,
     r"jit: in_shardings of fn: a prefix of form \{'a': \*\} does not fit a tree of form \{'b': \*\}"),
    (lambda: nb.jit(lambda p: p, out_shardings=(COLUMNS, None))(X), ValueError,
     r"jit: out_shardings of fn: a prefix of form \(\*, \*\) does not fit a tree of form \*"),
    (lambda: nb.jit(lambda p: p["a"], in_shardings=({"a": ROWS},))({"a": X[0]}), ValueError,
     r"jit: in_shardings of fn, p.a, f32\[8\]: 2 layouts of dimensions, \[\{dp\}, \{\}\], for a tensor of 1"),
    (lambda: nb.jit(lambda x: (x, [nb.sum(x)]), out_shardings=ROWS)(X), ValueError,
     r"jit: out_shardings of fn, result 1.0, f32\[\]: 2 layouts of dimensions, .*, for a tensor of 0"),
    (lambda: nb.jit(lambda x, y: y, in_shardings=(None, (MESH, P("zz"))))(X, X), ValueError,
     r"jit: in_shardings of fn, y, f32\[8,8\]: .*zz"),
    (lambda: nb.jit(lambda x: nb.sum(x), out_shardings=ROWS)(X), ValueError, r"out_shardings of fn, result, f32\[\]"),
    (lambda: nb.jit(lambda x: x, in_shardings=ROWS)(x=X), TypeError,
     r"in_shardings lays out arguments by their places, and fn is called with x=...: pass it by its place"),
])
def test_layouts_that_jit_cannot_give_are_refused(use, error, text):
    with pytest.raises(error, match=text):
        use()


# ---- Ways to say a layout


def test_constraints_take_a_spec_or_a_mesh_with_dimensions():
    x, apart = nb.asarray(X), ops.communication.with_sharding_constraint
    for y in (apart(x, ROWS), apart(x, MESH, P("dp")), apart(x, sharding=MESH, dim_specs=["dp", None]),
              x.with_sharding_constraint(ROWS), x.with_sharding_constraint(MESH, P("dp")),
              x.with_sharding_constraint(mesh=MESH, dim_specs=ROWS), apart({"a": x}, ROWS)["a"]):
        assert axes_of(y) == [["dp"], []]
    kept = x.with_sharding_constraint(MESH, P("tp"), replicated_axes={"dp"})
    assert kept.sharding == apart(x, MESH, P("tp"), {"dp"}).sharding and kept.sharding.replicated_axes == {"dp"}


def test_sizes_of_meshes_may_be_numpys():
    mesh = nb.DeviceMesh("pod", tuple(np.array([2, 4])), ("dp", "tp"))
    assert mesh == MESH and hash(mesh) == hash(MESH) and repr(mesh) == repr(MESH) and type(mesh.shape[0]) is int
    for wrong in (np.float32(2), np.array([2]), True, np.int64(0)):
        with pytest.raises(ValueError, match="DeviceMesh m: a size of an axis is a number from 1 on, got .* in "):
            nb.DeviceMesh("m", (wrong,), ("a",))


# ---- What is said of a function that compiles again for another layout


def test_causes_say_layouts_and_meshes():
    f = nb.jit(lambda a, b: (a, b))
    square = nb.DeviceMesh("pod", (2, 2), ("dp", "tp"))
    calls = [
        (nb.asarray(X), "it is called for the first time"),
        (cut("dp"), "a changed from f32[8,8] to f32[8@dp,8]"),
        (cut(None, ("tp", "dp")), "a changed from f32[8@dp,8] to f32[8,8@{tp, dp}]"),
        (cut(), "a changed from f32[8,8@{tp, dp}] to f32[8,8] on every rank"),
        (ops.shard(nb.asarray(X), MESH, P("tp"), replicated_axes={"dp"}),
         "a changed from f32[8,8] on every rank to f32[8@tp,8] replicated {dp}"),
        (ops.shard(nb.asarray(X), MESH, [DimSpec(["tp"], True, 1), None]),
         "a changed from f32[8@tp,8] replicated {dp} to f32[8@tp,8]"),
        (ops.shard(nb.asarray(X), square, P("tp")),
         'the mesh changed from @pod = <["dp"=2, "tp"=4]> to @pod = <["dp"=2, "tp"=2]>')]
    for a, _ in calls:
        f(a, 1)
    assert list(f.stats.causes) == [cause for _, cause in calls]


def test_causes_say_what_else_a_compiled_function_depends_on():
    f = nb.jit(lambda a: a)
    f(X)
    with nb.logical_axis_rules([("batch", "dp")]):
        f(X)
    with nb.debug.disabled():
        f(X)
    assert f.stats.causes[1:] == ("logical_axis_rules changed from [] to [('batch', ('dp',))]",
                                  "whether nabla.debug prints changed from True to False")
    f.clear_cache()
    f(X)
    assert f.stats.causes[-1].startswith("it was forgotten since: by clear_cache()")


def test_the_first_buffer_of_a_step_lies_as_its_parameter():
    p, g = cut("tp"), cut()
    new, buffer = nb.nn.optim.sgd_step(p, g, lr=0.1, momentum=0.9)
    assert axes_of(buffer) == axes_of(new) == [["tp"], []]
    assert nb.nn.optim.sgd_step(p, g, lr=0.1)[1] is None
    assert np.allclose(buffer.numpy(), X) and np.allclose(new.numpy(), 0.9 * X)


# ---- Parameters of functions that are traced


RING = nb.DeviceMesh("ring", (4,), ("pp",))
ON = [(i, (i + 1) % 4) for i in range(4)]


class Moved(nb.Operation):
    def kernel(self, args, kwargs):
        return ops.communication.ppermute(args[0], ON)


class MovedForward(Moved):
    def jvp_rule(self, primals, tangents, outputs, kwargs):
        assert axes_of(primals[0]) == axes_of(tangents[0]) == axes_of(outputs[0]) == [["pp"]]
        return [ops.communication.ppermute(tangents[0], ON)]


class MovedBack(Moved):
    def vjp_rule(self, primals, cotangents, outputs, kwargs):
        assert axes_of(primals[0]) == axes_of(cotangents[0]) == axes_of(outputs[0]) == [["pp"]]
        return [ops.communication.ppermute(cotangents[0], [(b, a) for a, b in ON])]


class MovedBothWays(MovedForward, MovedBack):
    pass


@pytest.mark.parametrize("op", [Moved, MovedForward, MovedBack, MovedBothWays])
@pytest.mark.parametrize("way", [lambda f: f, nb.jit])
def test_rules_of_ops_see_layouts(op, way):
    x, w = (ops.shard(nb.asarray(v), RING, P("pp")) for v in (X[0, :4], X[1, :4]))
    assert np.array_equal(way(lambda v: op()(v))(x), np.roll(X[0, :4], 1))
    assert np.array_equal(way(nb.grad(lambda v: nb.sum(op()(v) * w)))(x), np.roll(X[1, :4], -1))
    assert np.array_equal(way(lambda v, t: nb.jvp(lambda u: op()(u), (v,), (t,))[1])(x, w), np.roll(X[1, :4], 1))


@pytest.mark.parametrize("way", [lambda f: f, nb.jit])
def test_residuals_and_cotangents_see_layouts(way):
    seen = []

    @nb.custom_vjp
    def doubled(a, b):
        return {"sum": a @ b, "first": a}

    def backward(residuals, cotangents):
        seen.extend(map(axes_of, (*residuals, cotangents["sum"], cotangents["first"])))
        return cotangents["first"], None

    doubled.defvjp(lambda a, b: (doubled(a, b), (b, nb.sum(a @ b, axis=0), 2.0)), backward)
    a, b = cut("dp"), cut(None, "tp")
    way(nb.grad(lambda a: nb.sum(doubled(a, b)["sum"])))(a).numpy()
    assert seen == [[[], ["tp"]], [["tp"]], None, [["dp"], ["tp"]], [["dp"], []]]


@pytest.mark.parametrize("way", [lambda f: f, nb.jit])
def test_bodies_of_scans_see_layouts(way):
    x, w = (ops.shard(nb.asarray(v), RING, P("pp")) for v in (X[0, :4], X[1, :4]))

    def moved(v):
        return nb.scan(lambda c, _: (ops.communication.ppermute(c, ON), None), v, None, length=3)[0]

    assert np.array_equal(way(moved)(x), np.roll(X[0, :4], 3))
    assert np.array_equal(way(nb.grad(lambda v: nb.sum(moved(v) * w)))(x), np.roll(X[1, :4], -3))
    rows, seen = ops.shard(nb.asarray(X[:, :4]), RING, P(None, "pp")), []

    def summed(c, row):
        seen.append((axes_of(c), axes_of(row)))
        return c + ops.communication.psum(row), ops.communication.ppermute(row, ON)

    total, moves = way(lambda rows: nb.scan(summed, nb.zeros(1), rows))(rows)
    assert total.item() == X[:, :4].sum() and np.array_equal(moves, np.roll(X[:, :4], 1, axis=1))
    assert seen[0][1] == [["pp"]]
    way(lambda x: nb.scan(lambda c, row: (seen.append(axes_of(row)) or c, None), nb.zeros(1), x)[0])(cut("dp", "tp"))
    assert seen[-1] == [["tp"]]  # a slice of a dimension that is cut is on every rank along it


def test_rules_of_batches_lay_out_their_own():
    @nb.custom_vmap
    def moved(v):
        return ops.communication.ppermute(v, ON)

    x = ops.shard(nb.asarray(X[:, :4]), RING, P(None, "pp"))
    moved.def_vmap(lambda batch: ops.communication.ppermute(batch, ON))
    with pytest.raises(nb.Error, match="E0210.*over no mesh(?s:.*)nabla.shard lays it out, in the function that is"):
        nb.vmap(moved)(x)
    moved.def_vmap(lambda batch: ops.communication.ppermute(ops.shard(batch, RING, P(None, "pp")), ON))
    assert np.array_equal(nb.vmap(moved)(x), np.roll(X[:, :4], 1, axis=1))


def test_collectives_take_batches_as_whole_unless_their_axis_is_said():
    def summed(row):
        return ops.communication.psum(row, "tp")

    x = cut("dp", "tp")
    assert axes_of(nb.vmap(summed)(x)) == [[], []]
    assert axes_of(nb.vmap(summed, spmd_axis_name="dp")(x)) == [["dp"], []]
