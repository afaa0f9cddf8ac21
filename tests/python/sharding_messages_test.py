"""When and how programs of several ranks are refused, in the words of Python; collectives of trees; layouts in vmap."""

import json
import linecache
import re
import subprocess
import sys

import nabla as nb
import numpy as np
import pytest
from nabla import P
from nabla.core.sharding.propagation import OpShardingRuleTemplate
from nabla.ops import communication as comm

MESH = nb.DeviceMesh("pod", (2, 4), ("dp", "tp"))
X = np.arange(128, dtype=np.float32).reshape(8, 16)


def mapped(f, ins, outs):
    return nb.shard_map(f, mesh=MESH, in_specs=ins, out_specs=outs)


def parts_apart(x):
    return mapped(lambda a: a * 2, P("dp"), P())(x)


def products_apart(x):
    return mapped(lambda a: a @ a.T, P("dp", "tp"), P("dp"))(x)


def some_ranks_alone(x):
    def f(a):
        return nb.cond(nb.sum(a) > 0, lambda q: comm.psum(q, "dp"), lambda q: q * 1.0, a)
    return mapped(f, P("dp"), P("dp"))(x)


def region_in_another(x):
    inner = nb.shard_map(lambda a: a, mesh=MESH, in_specs=P("tp"), out_specs=P(), axis_names="tp")
    return nb.shard_map(inner, mesh=MESH, in_specs=P("dp"), out_specs=P("dp"), axis_names="dp")(x)


@pytest.mark.parametrize("f, text", [
    (parts_apart, r"result 0, .* f32\[4,16\], may differ between the 2 ranks along dp, and its layout <{}, {}>"),
    (products_apart, r"result 0, .* f32\[4,4\], may differ between the 4 ranks along tp, and its layout <dp, {}>"),
    (some_ranks_alone, r"all_reduce joins 2 ranks along {dp}, and not all of them may come to it"),
    (region_in_another, r"may differ between the 4 ranks along tp")])
@pytest.mark.parametrize("way", [lambda f: f, nb.jit, lambda f: nb.grad(lambda x: nb.sum(f(x)))])
def test_what_may_differ_is_refused_at_the_call(f, text, way):
    with pytest.raises(nb.Error, match=text) as e:
        way(f)(X)  # nobody looks at the result
    where = next(line for line in str(e.value).split("\n") if "-->" in line)
    line = int(where.split("sharding_messages_test.py:")[1].split()[0])
    assert "return" in linecache.getline(__file__, line) or "inner" in linecache.getline(__file__, line)
    assert e.value.code == "E0210" and "pass `" not in str(e.value)


@pytest.mark.parametrize("f, code, text", [
    (lambda x: comm.ppermute(x, [(0, 9)]), "E0204", "ppermute of f32.8,16.: 9 is no rank of mesh"),
    (lambda x: comm.ppermute(x, [(0, 1), (0, 2)]), "E0204", "rank 0 sends twice"),
    (lambda x: comm.ppermute(x, [(0, 1)]), "E0210", r"the same on all ranks along tp, which \[\(0, 1\)\] would end"),
    (lambda x: comm.ppermute(x, [(0, 7)], "tp"), "E0204", "7 is no place along tp, where there are 0 to 3"),
    (lambda x: comm.ppermute(x, [(0, 1)], "zz"), "E0210", "ppermute: mesh pod has no axis 'zz': it has dp, tp"),
    (lambda x: comm.ppermute(nb.shard(x[:7], MESH, P("dp")), [(0, 1)], "dp"), "E0210", "of 7 elements are not of one"),
    (lambda x: comm.psum(nb.ones(3)), "E0210", "psum of f32.3., .* over no mesh(?s:.*)nabla.shard lays it out\n*$"),
    (lambda x: nb.jit(lambda a: comm.psum(a))(nb.ones(3)), "E0210", "over no mesh(?s:.*)out, in the function that is"),
    (lambda x: comm.all_reduce(x, "avg"), "E0204", "reduce_op is one of sum, max, min, mean, prod, got 'avg'"),
    (lambda x: comm.reduce_scatter(x, 0, "max"), "E0204", "reduce_op is \"sum\", got 'max'"),
    (lambda x: comm.all_to_all(x, 0, 1), "E0210", "no axis cuts dimension 1"),
    (lambda x: comm.all_to_all(x, 0, 1, tiled=False), "E0204", "tiled=False is for functions of one rank"),
    (lambda x: comm.all_gather(x, 0, "zz"), "E0210", "all_gather: mesh pod has no axis 'zz'"),
    (lambda x: comm.reduce_scatter(nb.shard(x[:6], MESH, P("dp")), 0, axis_name="tp"), "E0203",
     "argument 0 of reduce_scatter is the part f32.3,16. of f32.6,16."),
    (lambda x: comm.distributed_broadcast(x, root=77), "E0204", "root is a rank, 0 to 7, got 77"),
    *((lambda x, call=call: mapped(call, P("dp"), P("dp"))(x), code, text) for call, code, text in (
        (lambda a: comm.ppermute(a, [(0, 7)], "tp"), "E0204", "ppermute of f32.4,16.: 7 is no place along tp"),
        (lambda a: comm.ppermute(a, [(0, 1), (1, 1)], "tp"), "E0204", "place 1 gets twice"),
        (lambda a: comm.ppermute(a, [(0, 1)], "zz"), "E0210", "ppermute: mesh pod has no axis `zz`\n(?s:.*){dp, tp}"),
        (lambda a: comm.reduce_scatter(a, 0, axis_name="pd"), "E0210", "reduce_scatter: .* `pd`; did you mean `dp`"),
        (lambda a: comm.all_to_all(a, 0, 1, axis_name="zz"), "E0210", "all_to_all: mesh pod has no axis `zz`\n"),
        (lambda a: comm.psum(a, "tp3"), "E0210", "help: the region around it is written for the ranks along {dp, tp}"),
        (lambda a: comm.all_to_all(a, 1, 0, False, "tp"), "E0203", "an element for each of the 4 ranks along tp")))])
def test_wrong_collectives_are_said_at_the_call(f, code, text):
    with pytest.raises(nb.Error) as e:
        f(nb.shard(nb.asarray(X), MESH, P("dp")))
    said = "\n".join(line for line in str(e.value).split("\n") if not line.startswith("   |"))  # a line of this file
    assert re.search(text, said), said
    where = next(line for line in said.split("\n") if "-->" in line)
    line = linecache.getline(__file__, int(where.split("sharding_messages_test.py:")[1].split()[0]))
    assert e.value.code == code and "lambda " in line and "comm." in line


RING = nb.ShardingSpec(nb.DeviceMesh("ring", (4,), ("pp",)), ["pp", None])
NO_AXIS = "mesh pod has no axis 'pp': it has dp, tp"
OTHER_MESH = "the layout is one over mesh @ring = .*, got mesh @pod"


def pair(a, b):
    return a, [b["w"]]


@pytest.mark.parametrize("f, text", [
    (lambda x: nb.shard(x, MESH, P("pp")), rf": shard of f32.8,16.: {NO_AXIS}\n"),
    (lambda x: nb.jit(lambda x: nb.shard(x, MESH, P("pp")))(x), f": shard of f32.8,16.: {NO_AXIS}"),
    (lambda x: nb.shard({"w": [x]}, MESH, P("pp")), f": shard of w.0, f32.8,16.: {NO_AXIS}"),
    (lambda x: nb.shard(x, MESH, [None]), r"shard of f32.8,16.: 1 layouts of dimensions, \[None\](?s:.*)one word per"),
    (lambda x: x.with_sharding_constraint(MESH, P("pp")), f"with_sharding_constraint of f32.8,16.: {NO_AXIS}"),
    (lambda x: nb.shard(x, MESH, RING), f"shard of f32.8,16.: {OTHER_MESH}"),
    (lambda x: nb.spec((8,), sharding=(MESH, P("dp", "tp"))), "spec of f32.8.: 2 layouts of dimensions"),
    (lambda x: comm.axis_index(MESH, "pp"), f"axis_index: {NO_AXIS}"),
    (lambda x: nb.shard_map(pair, MESH, {1: RING})(x, {"w": x}), f"in_specs of pair, b.w, f32.8,16.: {OTHER_MESH}"),
    (lambda x: nb.shard_map(pair, MESH, {}, {1: RING})(x, {"w": x}), f"of pair, result 1.0, f32.8,16.: {OTHER_MESH}"),
    (lambda x: nb.shard_map(lambda *a: a, MESH, {1: RING})(x, x), f"in_specs of fn, argument 1, f32.*: {OTHER_MESH}"),
    (lambda x: mapped(pair, (P(), RING), P())(x, {"w": x}), f"in_specs of pair, b.w, f32.8,16.: {OTHER_MESH}"),
    (lambda x: mapped(pair, P(), (P(), RING))(x, {"w": x}), f"out_specs of pair, result 1.0, f32.*: {OTHER_MESH}"),
    (lambda x: nb.shard_map(pair, MESH, P(), P(), axis_names="pp"), f"shard_map of pair: axis_names: {NO_AXIS}"),
])
def test_layouts_that_do_not_fit_name_the_tensor(f, text):
    with pytest.raises(nb.Error, match=text) as e:
        f(nb.asarray(X))
    line = int(re.search(r"sharding_messages_test.py:(\d+)", str(e.value))[1])
    assert e.value.code == "E0210" and re.search("lambda x: |return nb.shard_map", linecache.getline(__file__, line))


class Placed(nb.CollectiveOperation):
    def kernel(self, args, kwargs):
        return args[0] * comm.axis_index("tp")


class Summed(nb.CollectiveOperation):
    def kernel(self, args, kwargs):
        return nb.sum(args[0])


@pytest.mark.parametrize("f, code, text", [
    (lambda x: mapped(mapped(lambda a: a, P(), P()), P("dp"), P("dp"))(x), "E0210", "those of both.* axis_names= of"),
    (lambda x: Placed()(nb.shard(x, MESH, P("dp"))), "E0210", r": Placed: result 0, .* may differ between the 4 ranks"),
    (lambda x: Summed()(nb.shard(x, MESH, P("dp"))), "E0203", ": Summed: result 0 is laid out as <dp, {}>, which"),
])
def test_help_says_what_to_write(f, code, text):
    with pytest.raises(nb.Error, match=text) as e:
        f(nb.asarray(X))
    assert e.value.code == code and "change the sharding" not in str(e.value)


def test_a_region_is_for_the_ranks_that_it_was_traced_for(tmp_path):
    f = mapped(lambda a: comm.psum(a, "dp"), P("dp"), P())
    traced = nb.export({"f": lambda x: f(x)}, args={"f": {"x": nb.spec((8, 4))}})
    with pytest.raises(nb.Error, match="(?s){dp} are 1 ranks of mesh pod, not 2.*help: trace the program with a mesh"):
        nb.compile_bundle(traced, tmp_path / "f.nbundle", mesh={"dp": 1, "tp": 1})


def test_places_of_arguments_are_numbers():
    with pytest.raises(TypeError, match="in_specs lays out arguments of pair by their places, 0, 1, ..., got 'a'"):
        nb.shard_map(pair, MESH, {"a": P("dp")})(X, {"w": X})


def test_a_rule_takes_one_operand_by_itself():
    x = nb.shard(nb.asarray(X), MESH, P("dp", "tp"))
    assert comm.shard_by_rule(nb.ones((8, 3)), x, "n d -> n e").sharding == nb.ShardingSpec(MESH, ["dp", None])


def test_collectives_take_trees():
    def f(a, b):
        tree = {"a": a, "b": (b, [a + 1])}
        return (comm.psum(tree, "dp"), comm.pmean(tree, axis_name="dp"), comm.pmax(tree, "dp"),
                comm.pmin(x=tree, axis_name="dp"), comm.all_reduce(tree, "sum", "dp"),
                comm.all_gather(tree, 0, "dp"), comm.ppermute(tree, [(0, 1), (1, 0)], "dp"),
                comm.reduce_scatter(tree, 0, axis_name="dp"), comm.all_to_all(tree, 0, 1, axis_name="dp"))

    outs = (P(), P(), P(), P(), P(), P(), P("dp"), P("dp"), P("dp"))
    a, b = X[:4, :4], X[4:8, :2] * 3
    got = nb.shard_map(f, mesh=MESH, in_specs=(P("dp"), P("dp")), out_specs=outs)(a, b)
    total, mean, largest, least, again, whole, moved, scattered, exchanged = got
    for tree in got:
        assert set(tree) == {"a", "b"} and isinstance(tree["b"], tuple) and isinstance(tree["b"][1], list)
    for x, leaf in ((a, lambda t: t["a"]), (b, lambda t: t["b"][0]), (a + 1, lambda t: t["b"][1][0])):
        halves = np.split(x, 2)
        assert np.array_equal(leaf(total), halves[0] + halves[1]) and np.array_equal(leaf(again), leaf(total))
        assert np.allclose(leaf(mean), (halves[0] + halves[1]) / 2)
        assert np.array_equal(leaf(largest), np.maximum(*halves)) and np.array_equal(leaf(least), np.minimum(*halves))
        assert np.array_equal(leaf(whole), x) and np.array_equal(leaf(moved), np.concatenate(halves[::-1]))
        assert np.array_equal(leaf(scattered), halves[0] + halves[1])
        assert leaf(exchanged).shape == (x.shape[0] // 2, x.shape[1] * 2)
    laid_out = {"u": nb.shard(nb.asarray(X), MESH, P("dp")), "v": [nb.shard(nb.asarray(X), MESH, P(None, "dp"))]}
    sums = comm.psum(laid_out, "dp")
    assert np.array_equal(sums["u"], X[:4] + X[4:]) and np.array_equal(sums["v"][0], X[:, :8] + X[:, 8:])


def test_examples_know_their_layout_and_how_many_batches_there_are():
    seen = []

    def example(a, w):
        y = nb.relu(a @ w)
        seen.append((a.batch_dims, w.batch_dims, repr(a.sharding), repr(y.sharding), y.shape))
        return nb.vmap(lambda row: seen.append((row.batch_dims, repr(row.sharding))) or row * 2)(y)

    x = nb.shard(nb.asarray(X.reshape(2, 4, 16)), MESH, P("dp", None, "tp"))
    w = nb.shard(nb.ones((16, 8)), MESH, P(None, "tp"))
    out = nb.vmap(example, in_axes=(0, None))(x, w)
    assert seen == [(1, 1, "sharding<@pod, [{}, {tp}]>", "sharding<@pod, [{}, {tp}]>", (4, 8)),
                    (2, "sharding<@pod, [{tp}]>")]
    assert out.batch_dims == 0 and np.allclose(out, 2 * np.maximum(X.reshape(2, 4, 16) @ np.ones((16, 8)), 0))
    last = nb.vmap(lambda a: seen.append(repr(a.sharding)) or nb.sum(a), in_axes=-1)(x)
    assert seen[-1] == "sharding<@pod, [{dp}, {}]>" and np.allclose(last, X.reshape(2, 4, 16).sum((0, 1)))
    outside = nb.ones(3)
    nb.vmap(lambda a: seen.append(outside.batch_dims) or a)(nb.ones((2, 3)))
    assert seen[-1] == 0


@pytest.mark.parametrize("way", [lambda f: f, nb.jit])
@pytest.mark.parametrize("rows", [8, 5])
def test_derivatives_in_several_directions(way, rows):
    x = nb.shard(nb.asarray(X[:rows, 0]), MESH, P("tp"))
    slopes = np.diag(np.cos(X[:rows, 0]))
    assert np.allclose(way(nb.jacrev(nb.sin))(x), slopes, atol=1e-6)
    curvature = way(nb.jacrev(nb.jacfwd(lambda x: nb.sum(nb.sin(x)))))(x)
    assert np.allclose(curvature, -np.diag(np.sin(X[:rows, 0])), atol=1e-6)

    def pulled_back(x, directions):
        back = nb.vjp(nb.sin, x)[1]
        return nb.vmap(lambda d: back(d)[0])(directions)

    assert np.allclose(way(pulled_back)(x, nb.eye(rows)[:3]), slopes[:3], atol=1e-6)


class Scaled(nb.BinaryOperation):
    rule = ""

    def kernel(self, args, kwargs):
        return args[0] * args[1]

    def sharding_rule(self, input_shapes, output_shapes, **kwargs):
        return kwargs["rule"]


def by_rule(rule, values=None):
    return lambda x: comm.shard_by_rule(x if values is None else values, x, rule)


HELP_OF_RULES = r"(?s:.*)help: a word per dimension of each operand"


@pytest.mark.parametrize("f, code, text", [
    (lambda x: mapped(lambda a: a, (P("dp"), P()), P())(x), "E0210",
     r"shard_map: in_specs has 2 elements, \(P\('dp'\), P\(\)\), and fn is called with 1 arguments(?s:.*)help: give"),
    (lambda x: mapped(pair, (P(), [P()]), P())(x, {"w": x}), "E0210",
     "shard_map: in_specs of pair: a prefix of form (?s:.*)help: one is for all arguments, and a tree"),
    (lambda x: mapped(lambda a: a, P(), (P(), P()))(x), "E0210",
     "shard_map: out_specs of fn: a prefix of form (?s:.*)help: one is for all results, and a tree"),
    (lambda x: nb.shard_map(pair, MESH, {2: P()})(x, {"w": x}), "E0210",
     "in_specs lays out argument 2, .* called with 2\n"),
    (lambda x: nb.shard_map(pair, MESH, {}, {2: P()})(x, {"w": x}), "E0210",
     "out_specs lays out result 2, and pair has 2\n"),
    (lambda x: mapped(pair, P(), None), "E0210", "pair is written for one rank, which needs .*, and out_specs is None"),
    (lambda x: nb.shard_map(pair, MESH, P(), P(), auto_sharding=True), "E0210", "auto_sharding of pair .*, got P"),
    (lambda x: nb.shard_map(pair, MESH, {}, axis_names="dp"), "E0210",
     "axis_names='dp' belong to a function .*, got {}"),
    (lambda x: nb.vmap(pair, in_axes=(0,))(x, x), "E0204", r"vmap: in_axes has 1 elements for 2 arguments: \(0,\)\n"),
    (lambda x: nb.vmap(lambda a: a, in_axes=([0],))(x), "E0204",
     "vmap: in_axes: a prefix of form (?s:.*)begins as that of the arguments"),
    (lambda x: nb.vmap(lambda a: a, out_axes=(0, 0))(x), "E0204",
     "vmap: out_axes: a prefix of form (?s:.*)begins as that of the results"),
    (lambda x: nb.vmap(pair, mesh=MESH), "E0210", 'without spmd_axis_name, .*\n(?s:.*)help: spmd_axis_name="dp"'),
    (by_rule("a b -> a b, a"), "E0204",
     r'shard_by_rule: rule "a b -> a b, a" says 2 results, there are 1: f32\[8,16\]\n'),
    (by_rule("a 7 -> a 7"), "E0204",
     'shard_by_rule: rule "a 7 -> a 7": column 3: `7` is no name: one begins with a letter'),
    (by_rule("a b -> a 2b"), "E0204", 'rule "a b -> a 2b": column 10: `2b` is no name'),
    (by_rule("a (1 b) -> a b"), "E0204", r'column 4: `1` is no name: \(...\) has names'),
    (by_rule("a b -> a / b"), "E0204", r"column 10: a name, 1, ... or \(names\) was expected at `/ b`"),
    (lambda x: Scaled()(x, x, rule="a 7, a 7 -> a 7"), "E0204",
     'Scaled.sharding_rule: rule "a 7, a 7 -> a 7": column 3: `7` is no name' + HELP_OF_RULES),
    (lambda x: Scaled()(x, x, rule="a b, a b -> a b, a b"), "E0204", "Scaled.sharding_rule: rule .* says 2 results"),
    (lambda x: OpShardingRuleTemplate("a -> a").instantiate([(2,), (2,)], [(2,)]), "E0204",
     "says 1 operands, there are 2"),
    (lambda x: MESH.get_axis_size("zz"), "E0210", "mesh pod has no axis 'zz': it has dp, tp\n(?s:.*)help: name one of"),
    (lambda x: MESH.get_coordinate(8, "dp"), "E0210", "mesh pod has ranks 0 to 7, got 8"),
    (lambda x: nb.DeviceMesh("m", (2,), ("a", "b")), "E0210", r"DeviceMesh m: 1 sizes, \(2,\), for 2 axes"),
    (lambda x: nb.DeviceMesh("m", (2,), ("a",), devices=3), "E0210",
     "numbered 0 to 1 in row-major order, got devices=3"),
    (lambda x: nb.ShardingSpec(MESH, ["dp", "dp"]), "E0210", "ShardingSpec: axis dp stands twice"),
    (lambda x: nb.ShardingSpec(MESH, ["zz"]), "E0210", "mesh pod has no axis 'zz'"),
    (lambda x: P("dp", "dp"), "E0210",
     r"P: axis dp stands twice in \('dp', 'dp'\)\n(?s:.*)an axis cuts one dimension, once"),
    (lambda x: nb.DimSpec("dp"), "E0210", r"takes a list of axes, got 'dp'\n(?s:.*)help: DimSpec\(\['dp'\]\)"),
    (lambda x: nb.compute_local_shape((8, 3, 2), RING, 0), "E0210",
     r"no layout of the shape \(8, 3, 2\), of 3 dimensions"),
    (lambda x: comm.all_reduce(nb.shard(x, MESH, P("dp")), ["sum"]), "E0204", r"reduce_op is one of .*, got \['sum'\]"),
])
def test_trees_rules_and_layouts_say_code_line_and_help(f, code, text):
    with pytest.raises(nb.Error) as e:
        f(nb.asarray(X))
    said = "\n".join(line for line in str(e.value).split("\n") if not line.startswith("   |"))
    assert re.search(text, said), said
    assert e.value.code == code and said.startswith(f"error[{code}]: ") and "= help: " in said
    line = linecache.getline(__file__, int(re.search(r"sharding_messages_test.py:(\d+)", said)[1]))
    assert re.search("lambda x: |lambda a: |return nb.shard_map", line), line


@pytest.mark.parametrize("f, text", [
    (lambda x: nb.shard(x, 3, P("dp")), "shard: the mesh is a DeviceMesh, got mesh=3"),
    (lambda x: nb.shard_map(pair, "pod", P(), P()), "shard_map: the mesh is a DeviceMesh, got mesh='pod'"),
    (lambda x: nb.vmap(pair, spmd_axis_name="dp", mesh=[2]), r"vmap: the mesh is a DeviceMesh, got mesh=\[2\]"),
    (lambda x: nb.ShardingSpec("pod", []), "ShardingSpec: the mesh is a DeviceMesh, got mesh='pod'"),
    (lambda x: MESH.get_devices_on_axis_slice("dp", "a"), "a coordinate is a number, got coordinate='a'"),
    (lambda x: comm.axis_index("pod", "dp"), r"axis_index\(mesh='pod'\): outside of a region"),
])
def test_values_of_other_types_are_named(f, text):
    with pytest.raises(TypeError, match=text):
        f(nb.asarray(X))


def program():
    return nb.export({"step": lambda state, x: (state, nb.grad(lambda w: nb.sum((x @ w) ** 2))(state["w"]))},
                     state={"w": nb.spec((16, 4))}, args={"step": {"x": nb.spec((8, 16))}})


@pytest.mark.parametrize("options, text", [
    (dict(mesh={"dp": 2}), "mesh: the module has no mesh.*by data_axes"),
    (dict(mesh={"dp": 2}, zero=3), "zero: the module has no mesh, and of the axes of mesh=..dp.: 2. none is named "
     "along which the batch lies.*help: name those of the batch: data_axes=.dp."),
    (dict(mesh={"dp": 2}, data_axes="dp,"), "data_axes is a list of different names, such as dp,tp, not `dp,`"),
    (dict(mesh={"dp": 2}, data_axes="dq"), "data_axes: mesh ranks .dp=2. has no axis `dq`"),
    (dict(mesh={"dp": 2}, data_axes="dp", zero=1, zero_axes="tp"), "zero_axes: mesh ranks .dp=2. has no axis `tp`"),
    (dict(auto_shard=True), r'auto_shard: the module has no mesh.*give one: mesh=\{"dp": 2, "tp": 4\}'),
    (dict(zero=1), "zero=1 needs data_axes.*help: say how many ranks there are.*mesh={.dp.: 4}, data_axes=.dp."),
    (dict(mesh={"mb": 2}, data_axes="mb", microbatches=2), "microbatches makes an axis mb"),
    (dict(mesh={"dp": 2}, data_axes="dp", max_comm_bytes="4"), "raise max_comm_bytes"),
])
def test_options_have_their_names_in_python(tmp_path, options, text):
    with pytest.raises(nb.Error, match="(?s)" + text) as e:
        nb.compile_bundle(program(), tmp_path / "p.nbundle", **options)
    assert "--" not in str(e.value).replace("-->", "")


@pytest.mark.parametrize("options, text", [
    (dict(buckets=[1]), r"buckets is a list of texts, got \[1\]"),
    (dict(specialize=None), "specialize is a list of texts, got None"),
    (dict(target=1), "target is a text, got 1"),
    (dict(mesh={"dp": 2}, layouts={1: ("dp",)}), "layouts: a pattern of names is a text, got 1"),
    (dict(zero=np.array([1, 2])), r"zero is 0, 1, 2 or 3, got array\(\[1, 2\]\)"),
    (dict(reduce_dtype=[]), "reduce_dtype is float32, bfloat16, float16 or None, got"),
    (dict(library="x"), "library is True or False, got 'x'"),
    (dict(tf32=1), "tf32 is True or False, got 1"),
    (dict(load=None), "load is True or False, got None"),
    (dict(tuning=3), "tuning: path names a file, got 3"),
    (dict(offload=np.ones(3)), 'offload is "none", "opt", "params" or "all", got array'),
    (dict(specialize=["batch=8;16"]), "specialize: 'batch=8;16' has a semicolon: the lists of several sizes are"),
    (dict(path=None), "compile_bundle: path names a file, got None"),
    (dict(path="a\0b"), "compile_bundle: path names a file, got 'a.x00b'"),
    (dict(max_bytes=""), "max_bytes is a number of bytes, such as 64MiB, not `nothing`"),
    (dict(remat_bytes=""), "remat_bytes is a number of bytes, such as 64MiB, not `nothing`"),
    (dict(mesh={"dp": 2}, data_axes="dp", microbatches=1 << 21),
     "microbatches: 2097152 is not in the range 1 to 1048576"),
])
def test_arguments_of_other_types_are_named(tmp_path, options, text):
    options = dict({"path": tmp_path / "p.nbundle"}, **options)
    with pytest.raises((TypeError, ValueError), match="(?s)" + text) as e:
        nb.compile_bundle(program(), **options)
    assert "arg0" not in str(e.value)


def test_arguments_of_bundles_are_named(tmp_path):
    path = tmp_path / "p.nbundle"
    bundle = nb.compile_bundle(program(), path)
    for call, text in [
        (lambda: nb.load_bundle(3), "load_bundle: path names a file, got 3"),
        (lambda: nb.load_bundle(path, threads="a"), "threads is a number of threads, or 0 for all, got 'a'"),
        (lambda: nb.load_bundle(path, threads=10**12), "threads is a number of threads, or 0 for all, got 100000"),
        (lambda: nb.load_bundle(path, check_nan="x"), "check_nan is True or False, got 'x'"),
        (lambda: nb.load_bundle(path, rank_class=3), "rank_class is a text, got 3"),
        (lambda: nb.load_bundle(path, target=None), "target is a text, got None"),
        (lambda: bundle.run(3), "run: entry is a text, got 3"),
        (lambda: bundle.save_state(None), "save_state: path names a file, got None"),
        (lambda: bundle.load_state(""), "load_state: path names a file, got ''"),
        (lambda: bundle.load_weights(path, maps=3), "maps is a list of texts, got 3"),
        (lambda: bundle.load_weights(path, partial="x"), "partial is True or False, got 'x'"),
    ]:
        with pytest.raises((TypeError, ValueError), match=re.escape(text)):
            call()


def test_numbers_of_numpy_are_numbers(tmp_path):
    options = dict(mesh={"dp": np.int64(2)}, data_axes="dp", zero=np.int32(1), microbatches=np.uint8(2))
    nb.compile_bundle(program(), tmp_path / "p.nbundle", **options)
    assert nb.plan(program(), np.int64(2)).rows
    with pytest.raises(TypeError, match="entry is a text, got 3"):
        nb.plan(program(), 2, entry=3)
    with pytest.raises(TypeError, match="tensors are expected, one by one or in one list; got a float"):
        nb.realize_all(nb.ones(2), 1.0)


# Rows list both sides of a branch, and a run sends what one of them does.
def test_a_branch_sends_what_its_costlier_side_sends(tmp_path):
    def step(state, x, f):
        h = nb.cond(f > 0, lambda v: nb.sin(nb.sin(v @ state["a"])),
                    lambda v: nb.sin(nb.sin(nb.tanh(v @ state["b"]) @ state["c"])), x)
        return state, {"y": nb.sum(h)}

    state = {name: nb.spec((64, 64)) for name in "abc"}
    several = nb.export({"step": step}, state=state, args={"step": {"x": nb.spec((16, 64)), "f": nb.spec(())}})
    options = dict(mesh={"tp": 2}, layouts={name: ("tp", None) for name in "abc"}, load=False)
    entry = json.loads(nb.compile_bundle(several, tmp_path / "b.nbundle", **options))["entries"][0]
    sides = [c["sent_bytes"] * c["times"] for c in entry["collectives"]]
    assert max(sides) <= entry["sent_bytes"] < sum(sides), sides
    nb.compile_bundle(several, tmp_path / "b.nbundle", max_comm_bytes=entry["sent_bytes"], **options)
    with pytest.raises(nb.Error, match=f"a rank sends {entry['sent_bytes']} bytes"):
        nb.compile_bundle(several, tmp_path / "b.nbundle", max_comm_bytes=entry["sent_bytes"] - 1, **options)


# In a process of its own: what was computed before leaves its mesh to what comes next.
def refusal_of(code):
    made = f"""
import nabla as nb
from nabla import P, ops
m, o = nb.DeviceMesh("m", (2, 2), ("dp", "tp")), nb.DeviceMesh("o", (4,), ("q",))
x, w = nb.ones((8, 16)), nb.ones((16, 32))
try:
    {code}
except nb.Error as e:
    print(e)
"""
    return subprocess.run([sys.executable, "-c", made], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("code, what", [
    ('nb.jit(lambda x, w: x @ w, auto_shard=m)(ops.shard(x, o, P("q")), w)', "argument x"),
    ('nb.jit(lambda x, p: x @ p["w"], auto_shard=m)(x, {"w": ops.shard(w, o, P("q"))})', "argument p.w"),
    ('c = ops.shard(w, o, P("q")); nb.jit(lambda x: x @ c, auto_shard=m)(x)', "a tensor that the function closes over"),
    ('nb.jit(lambda x: nb.relu(ops.shard(x, o, P("q"))), auto_shard=m)(x)', "a value"),
    ('nb.jit(nb.shard_map(lambda x: x, mesh=o, in_specs=P("q"), out_specs=P("q")), auto_shard=m)(x)',
     "what the function does")])
def test_auto_shard_is_of_the_mesh_of_what_it_gets(code, what):
    text = refusal_of(code)
    assert f"E0210]: jit: auto_shard is mesh m (dp=2, tp=2), and {what} is laid out over mesh o (q=4)" in text
    assert "give auto_shard that one, or lay the value out over it before the call" in text


MESHES = ("mesh m (dp=2, tp=2)", "mesh o (q=4)")
HELP_OF_MESHES = ("= help: ranks of one program are all of one mesh: before they meet, outside of traced functions, "
                  "lay one out over the mesh of the other, by reshard(x, mesh, P(...)) or transfer_to(x, sharding=...)")


@pytest.mark.parametrize("code, what", [
    ("print(a @ b)",
     "matmul: operand 0, f32[8,16], is laid out as <dp, {}> over $m, and "
     "operand 1, f32[16,32], as <q, {}> over $o"),
    ("a.realize(), b.realize(); b.T + ops.concatenate([a, nb.ones((24, 16))])",
     "add: operand 0, f32[32,16], is laid out as <{}, q> over $o, and "
     "operand 1, f32[32,16], as <dp, {}> over $m"),
    ("ops.concatenate([a, ops.shard(x, o, P('q'))])",
     "concatenate: operand 0, f32[8,16], is laid out as <dp, {}> over $m, and "
     "operand 1, f32[8,16], as <q, {}> over $o"),
    ("nb.jit(lambda a: nb.relu(a) @ b)(a)",
     "matmul: operand 0, f32[8,16], is laid out as <dp, {}> over $m, and "
     "operand 1, f32[16,32], as <q, {}> over $o"),
    ("nb.jit(lambda p, y: p['w'] @ y)({'w': a}, b)",
     "argument y of fn (f32[16,32]) is laid out over $o, and is used beside values of $m, such as "
     "argument p.w of fn (f32[8,16])"),
    ("nb.jit(lambda a: ops.shard(w, o, P('q')))(a)",
     "shard: f32[16,32] is laid out over $o, and is used beside values of $m, such as argument a of fn (f32[8,16])"),
    ("nb.grad(lambda v: nb.sum(v @ b))(a)",
     "matmul: operand 0, f32[8,16], is laid out as <dp, {}> over $m, and "
     "operand 1, f32[16,32], as <q, {}> over $o"),
    ("nb.shard_map(lambda v, y: v @ y, m, (P(), P()), P())(a, b)",
     "shard_map: operand 0, f32[8,16], is laid out as <dp, {}> over $m, and "
     "operand 1, f32[16,32], as <q, {}> over $o"),
    ("nb.cond(nb.sum(a) > 0, lambda v: v, lambda v: v * 2, b)",
     "cond: bool[] is laid out over $m, and is used beside values of $o, such as f32[16,32]"),
])
def test_an_op_of_two_meshes_names_its_operands(code, what):
    text = refusal_of(f"a, b = ops.shard(x, m, P('dp')), ops.shard(w, o, P('q')); {code}")
    said = text.split("\n")
    wanted = "error[E0210]: " + what.replace("$m", MESHES[0]).replace("$o", MESHES[1])
    assert said[0] == wanted and "--> " in said[1] and HELP_OF_MESHES in text, text


def test_an_axis_of_a_batch_is_one_of_a_mesh():
    text = refusal_of('nb.vmap(lambda r: r, spmd_axis_name="dp")(x)')
    assert "E0210]: vmap: spmd_axis_name is \"dp\", and the program has no mesh" in text and "mesh= of vmap" in text


def test_too_many_ranks_are_named():
    mesh = nb.DeviceMesh("large", (512,), ("dp",))
    x = nb.shard(nb.ones((512,)), mesh, P("dp"))
    with pytest.raises(nb.Error, match="E0106.*512 ranks: at most 256 run in one process"):
        np.asarray(comm.psum(x))
