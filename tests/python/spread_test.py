"""Programs of several ranks: data parallelism, ZeRO and tensor parallelism as options of a compile; plans."""

import json

import numpy as np
import pytest

import nabla as nb
from nabla import P
from nabla.core.sharding import DeviceMesh


def program():
    """Two layers with momentum, trained on a batch of 16."""
    weights = {"w0": nb.spec((8, 32)), "w1": nb.spec((32, 4))}

    def init(key):
        k0, k1 = nb.random.split(key)
        w = {"w0": nb.random.normal(k0, (8, 32)) * 0.3, "w1": nb.random.normal(k1, (32, 4)) * 0.3}
        return {"w": w, "momentum": {"w": {k: nb.zeros_like(v) for k, v in w.items()}}}

    def step(state, x, y):
        def loss(w):
            return nb.mean((nb.tanh(x @ w["w0"]) @ w["w1"] - y) ** 2)

        value, g = nb.value_and_grad(loss)(state["w"])
        m = {k: 0.9 * state["momentum"]["w"][k] + g[k] for k in g}
        return {"w": {k: state["w"][k] - 0.1 * m[k] for k in g}, "momentum": {"w": m}}, {"loss": value}

    return nb.export({"init": init, "step": step}, state={"w": weights, "momentum": {"w": weights}},
                     args={"init": {"key": nb.spec((2,), "uint32")},
                           "step": {"x": nb.spec((16, 8)), "y": nb.spec((16, 4))}})


def trained(tmp_path, **options):
    b = nb.compile_bundle(program(), tmp_path / "p.nbundle", **options)
    b.run("init", key=nb.random.key(0))
    x, y = nb.random.normal(nb.random.key(1), (16, 8)), nb.random.normal(nb.random.key(2), (16, 4))
    losses = [b.run("step", x=x, y=y)["loss"].item() for _ in range(4)]
    return losses, b.get_state("w.w1").tolist()


@pytest.mark.parametrize("options", [
    dict(mesh={"dp": 4}, data_axes="dp"),
    dict(mesh={"dp": 4}, data_axes="dp", zero=1),
    dict(mesh={"dp": 2}, data_axes=["dp"], zero=3, microbatches=4),
    dict(mesh={"dp": 2}, data_axes=["dp"], zero=3, prefetch=1, reshard_after_forward=False),
    dict(mesh={"dp": 2}, data_axes=["dp"], zero=2, microbatches=2, grad_sync="last"),
    dict(mesh={"rep": 2, "dp": 2}, data_axes=["rep", "dp"], zero=3, zero_axes="dp"),
    dict(mesh={"dp": 2, "tp": 2}, data_axes="dp", zero=1, layouts={"w.w0": (None, "tp"), r"w\.w1": ("tp", "?")}),
    dict(mesh={"dp": 2, "tp": 2}, auto_shard=True),
    dict(mesh={"dp": 2, "tp": 2}, data_axes="dp", layouts={"w.w0": (None, "tp")}, auto_shard=True),
    dict(microbatches=4)])
def test_ranks_train_as_one_does(tmp_path, options):
    losses, weights = trained(tmp_path, **options)
    expected, of_one = trained(tmp_path)
    assert expected[-1] < expected[0]
    assert losses == pytest.approx(expected, rel=1e-5)
    assert nb.allclose(nb.asarray(weights), nb.asarray(of_one), rtol=1e-4, atol=1e-6).item()


def test_microbatches_of_a_program_that_lays_its_batch_out(tmp_path):
    mesh = DeviceMesh("m", (2, 2), ("dp", "tp"))
    w, v = nb.random.normal(nb.random.key(0), (8, 16)), nb.random.normal(nb.random.key(1), (16, 4))

    def loss(*dims, **options):
        def step(state, x):
            def loss(p):
                h = nb.relu(x @ p["w"])
                return nb.mean((nb.shard(h, mesh, P(*dims)) @ p["v"]) ** 2)

            value, g = nb.value_and_grad(loss)(state)
            return {k: state[k] - 0.1 * g[k] for k in state}, {"loss": value}

        program = nb.export({"init": lambda: {"w": w, "v": v}, "step": step}, args={"step": {"x": nb.spec((16, 8))}},
                            state={"w": nb.spec((8, 16)), "v": nb.spec((16, 4))})
        b = nb.compile_bundle(program, tmp_path / "m.nbundle", mesh={"dp": 2, "tp": 2}, data_axes="dp", **options)
        b.run("init")
        return [b.run("step", x=nb.random.normal(nb.random.key(2), (16, 8)))["loss"].item() for _ in range(2)]

    assert loss("dp", "tp", microbatches=2) == pytest.approx(loss("dp", "tp"), rel=1e-5)
    with pytest.raises(nb.Error) as e:
        loss(None, "tp", microbatches=2)
    text = str(e.value)
    assert "laid out as <{}, tp> allow_padding, it puts them together (" in text
    assert "nb.shard(h, mesh, P(*dims))" in text
    assert "lay dimension 0 out as the operand lies, along {dp}, or leave it open; or do without microbatches" in text


def test_narrow_sums_are_exchanged_in_f32_unless_asked_otherwise(tmp_path):
    def step(state, x):
        value, grad = nb.value_and_grad(lambda w: nb.sum((x @ w) ** 2))(state["w"])
        return {"w": state["w"] - nb.asarray(0.001, "bfloat16") * grad}, {"loss": value}

    half = nb.export({"step": step}, state={"w": nb.spec((32, 16), "bfloat16")},
                     args={"step": {"x": nb.spec((64, 32), "bfloat16")}})

    def exchanged(**options):
        text = nb.compile_bundle(half, tmp_path / "h.nbundle", mesh={"dp": 2}, data_axes="dp", load=False, **options)
        rows = json.loads(text)["entries"][0]["collectives"]
        return {row["dtype"] for row in rows}, sum(row["payload_bytes"] * row["times"] for row in rows)

    (narrow, bytes_of_bf16), (wide, bytes_of_f32) = exchanged(reduce_dtype="bfloat16"), exchanged()
    assert (narrow, wide) == ({"bf16"}, {"f32"}) and bytes_of_f32 == 2 * bytes_of_bf16
    assert exchanged(reduce_dtype=nb.float32) == exchanged(reduce_dtype="float16") == (wide, bytes_of_f32)


@pytest.mark.parametrize("options", [
    dict(mesh={"dp": 2}, data_axes="dp", zero=2, microbatches=4), dict(microbatches=8),
    dict(mesh={"dp": 2}, data_axes="dp", zero=3, microbatches=2, grad_sync="last"),
    dict(mesh={"dp": 2}, data_axes="dp", microbatches=4, grad_sync="each"),
    dict(mesh={"dp": 2}, data_axes="dp", microbatches=4, deterministic=True)])
def test_a_masked_mean_of_microbatches_is_that_of_the_batch(tmp_path, options):
    """Its count, which each microbatch divides by, is known before the first: it follows from the mask alone."""
    def loss(w, x, lengths):
        mask = (nb.arange(6)[None, :] < lengths[:, None]).astype("float32")
        each = nb.sum((nb.tanh(x @ w) - 1.0) ** 2, axis=-1)
        return nb.sum(each * mask) / nb.maximum(nb.sum(mask), 1.0)

    def step(state, x, lengths):
        value, grad = nb.value_and_grad(loss)(state["w"], x, lengths)
        return {"w": state["w"] - 0.5 * grad}, {"loss": value, "tokens": nb.sum(lengths)}

    program = nb.export({"step": step}, state={"w": nb.spec((8, 4))},
                        args={"step": {"x": nb.spec((16, 6, 8)), "lengths": nb.spec((16,), "int32")}})
    x, lengths = nb.random.normal(nb.random.key(1), (16, 6, 8)), nb.asarray([i % 7 for i in range(16)])

    def run(**options):
        b = nb.compile_bundle(program, tmp_path / "m.nbundle", **options)
        b.set_state("w", nb.random.normal(nb.random.key(2), (8, 4)))
        outs = [b.run("step", x=x, lengths=lengths) for _ in range(3)]
        return [(out["loss"].item(), out["tokens"].item()) for out in outs], b.get_state("w").tolist()

    (outs, w), (expected, of_one) = run(**options), run()
    assert expected[-1][0] < expected[0][0]
    assert outs == [(pytest.approx(value, rel=1e-5), tokens) for value, tokens in expected]
    assert nb.allclose(nb.asarray(w), nb.asarray(of_one), rtol=1e-4, atol=1e-6).item()


def recurrent(clip):
    def loss(p, x, y):
        def cell(hidden, now):
            return nb.tanh(now @ p["wx"] + hidden @ p["wh"]), 0.0

        hidden, _ = nb.scan(cell, nb.zeros((x.shape[0], 6)), nb.swapaxes(x, 0, 1))
        return nb.mean((hidden @ p["out"] - y) ** 2)

    def step(state, x, y):
        value, grads = nb.value_and_grad(loss)(state, x, y)
        if clip:
            norm = nb.sqrt(sum(nb.sum(g * g) for g in grads.values()))
            grads = {k: g * nb.minimum(1.0, 0.05 / norm) for k, g in grads.items()}
        return {k: state[k] - 0.5 * grads[k] for k in grads}, {"loss": value}

    def init(key):
        keys = nb.random.split(key, 3)
        shapes = {"wx": (8, 6), "wh": (6, 6), "out": (6, 2)}
        return {n: nb.random.normal(k, s) * 0.4 for k, (n, s) in zip(keys, shapes.items())}

    return nb.export({"init": init, "step": step}, state={"wx": nb.spec((8, 6)), "wh": nb.spec((6, 6)),
                                                          "out": nb.spec((6, 2))},
                     args={"init": {"key": nb.spec((2,), "uint32")},
                           "step": {"x": nb.spec((12, 3, 8)), "y": nb.spec((12, 2))}})


# What ZeRO-3 shares is gathered before a loop that reads all of it in every trip, and its gradient is summed after it.
@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("grad_sync", [None, "last", "each"])
def test_loops_take_parameters_that_ranks_share(tmp_path, clip, grad_sync):
    def losses(**options):
        bundle = nb.compile_bundle(recurrent(clip), tmp_path / "r.nbundle", **options)
        bundle.run("init", key=nb.random.key(0))
        x, y = nb.random.normal(nb.random.key(1), (12, 3, 8)), nb.random.normal(nb.random.key(2), (12, 2))
        return [bundle.run("step", x=x, y=y)["loss"].item() for _ in range(4)]

    shared = dict(mesh={"dp": 2}, data_axes="dp", zero=3)
    expected = losses()
    assert expected[-1] < expected[0]
    assert losses(**shared, microbatches=3, grad_sync=grad_sync) == pytest.approx(expected, rel=1e-5)
    report = json.loads(nb.compile_bundle(recurrent(clip), tmp_path / "r.nbundle", load=False, **shared))
    step = next(e for e in report["entries"] if e["name"] == "step")
    assert {c["times"] for c in step["collectives"]} == {1}


# By hand what ZeRO does: the batch goes first.
def test_layouts_along_data_axes_follow_the_batch(tmp_path):
    expected, of_one = trained(tmp_path)
    losses, weights = trained(tmp_path, mesh={"dp": 2}, data_axes="dp", microbatches=4,
                              layouts={"w.w0": ("dp", None), "w.w1": (None, "dp")})
    assert losses == pytest.approx(expected, rel=1e-5)
    assert nb.allclose(nb.asarray(weights), nb.asarray(of_one), rtol=1e-4, atol=1e-6).item()


def test_plans_compare_meshes():
    plan = nb.plan(program(), ranks=4)
    assert [set(r) >= {"mesh", "zero", "state_bytes", "step_us"} for r in plan.rows] == [True] * 5
    *rows, alone = plan.rows
    state = {r["zero"]: r["state_bytes"] for r in rows if not r["auto"]}
    parameters = (8 * 32 + 32 * 4) * 4
    assert state == {0: 2 * parameters, 1: parameters + parameters // 4, 3: 2 * parameters // 4}
    assert [r["step_us"] for r in rows] == sorted(r["step_us"] for r in rows)
    assert (alone["mesh"], alone["ranks"], alone["state_bytes"]) == ("dp=1", 1, 2 * parameters)
    lines = repr(plan).split("\n")
    assert lines[0].split() == ["mesh", "zero", "state", "memory", "sent", "exchange", "compute", "step"]
    assert len(lines) == 6
    assert [r["auto"] for r in plan.rows].count(True) == 1
    for limit in (parameters, np.int64(parameters), f"{parameters}", f"{parameters / 1000}K"):
        limited = nb.plan(program(), ranks=4, max_bytes=limit)
        assert next(r for r in limited.rows if r["auto"])["state_bytes"] <= parameters
        assert repr(limited).count("  more than max_bytes") == repr(limited).count("more than") > 0
    both = nb.plan(program(), 4, axes=("dp", "tp"), target="sm_90a",
                   layouts={"w.w0": (None, "tp"), "w.w1": ("tp", None)})
    assert {r["mesh"] for r in both.rows} == {"dp=4,tp=1", "dp=2,tp=2", "dp=1,tp=4", "dp=1,tp=1"}
    by_rules = next(r for r in both.rows if r["mesh"] == "dp=1,tp=4" and not r["auto"])
    assert by_rules["state_bytes"] == 2 * parameters // 4


def test_batches_of_plans_may_lie_along_several_axes():
    rows = nb.plan(program(), 4, axes=("rep", "dp"), data_axes=("rep", "dp")).rows
    assert {(r["mesh"], r["zero"]) for r in rows if r["ranks"] == 4 and not r["auto"]} == {
        (mesh, zero) for mesh in ("rep=4,dp=1", "rep=2,dp=2", "rep=1,dp=4") for zero in (0, 1, 3)}


def test_bundles_say_how_many_ranks_they_are_for(tmp_path):
    several = nb.compile_bundle(program(), tmp_path / "p.nbundle", mesh={"dp": 2, "tp": 2}, data_axes="dp",
                                allow_idle_axes=True)
    assert repr(several).split("\n")[0].endswith(", 4 ranks of mesh ranks (dp=2, tp=2)")
    one = nb.compile_bundle(program(), tmp_path / "p.nbundle")
    assert " ranks of mesh" not in repr(one)


def test_weights_may_be_cut_unevenly(tmp_path):
    expected = trained(tmp_path)[0]
    for last in ("tp", "tp allow_padding"):
        losses, weights = trained(tmp_path, mesh=DeviceMesh("any", (1, 3), ("dp", "tp")), data_axes="dp",
                                  layouts={"w.w0": (None, last)})
        assert losses == pytest.approx(expected, rel=1e-5)
    report = json.loads(nb.compile_bundle(program(), tmp_path / "p.nbundle", mesh={"dp": 1, "tp": 3}, data_axes="dp",
                                          layouts={"w.w0": (None, "tp")}, load=False))
    leaf = next(leaf for leaf in report["wholes"] if leaf["name"] == "w.w0")
    assert leaf["padding"] == 8  # of 8 x 32 elements, 8 x 11 on each of three ranks


def test_memory_is_traded_for_work(tmp_path):
    assert nb.compile_bundle(program(), tmp_path / "p.nbundle", remat_bytes="1MiB").arena_bytes > 0
    with pytest.raises(nb.Error, match="E0402(.|\\n)*allow more with remat_bytes"):
        nb.compile_bundle(program(), tmp_path / "p.nbundle", remat_bytes="1KiB")
    with pytest.raises(nb.Error, match="remat_bytes is a number of bytes, such as 64MiB, not `few`"):
        nb.compile_bundle(program(), tmp_path / "p.nbundle", remat_bytes="few")
    with pytest.raises(nb.Error, match="E0402(.|\n)*give up speed for memory with remat_bytes"):
        nb.compile_bundle(program(), tmp_path / "p.nbundle", max_bytes="1KiB")


def test_state_may_live_in_the_hosts_memory(tmp_path):
    gpu = dict(target="sm_90a", load=False)
    report = json.loads(nb.compile_bundle(program(), tmp_path / "p.nbundle", offload="params", **gpu))
    state = {leaf["name"]: leaf for leaf in report["state"]}
    assert {name for name, leaf in state.items() if leaf.get("memory") == "host"} == {
        name for name, leaf in state.items() if leaf["role"] == "parameter"}
    assert report["host_bytes"] > 0
    leaf = nb.spec((4,), nb.float32, memory="host")
    assert repr(leaf) == "spec((4,), float32, memory='host')"
    made = nb.export({"twice": lambda state: (state + state, None)}, state=leaf)
    assert "f32[4] @host" in str(made.text)
    report = json.loads(nb.compile_bundle(made, tmp_path / "q.nbundle", target="cpu,sm_90a", load=False))
    assert "host_bytes" not in report  # the memory of a CPU is the host's
    bundle = nb.load_bundle(tmp_path / "q.nbundle")
    bundle.set_state("value", nb.tensor([1.0, 2.0, 3.0, 4.0]))
    bundle.run("twice")
    assert bundle.get_state("value").tolist() == [2.0, 4.0, 6.0, 8.0]
    with pytest.raises(ValueError, match="memory is .device. or .host., got .vram."):
        nb.spec((4,), memory="vram")
    with pytest.raises(ValueError, match="input x has memory .host., which is for leaves of the state"):
        nb.export({"f": lambda x: x}, args={"f": {"x": leaf}})
    with pytest.raises(nb.Error, match="E0901.*offload=\"all\": no target has a memory of its own"):
        nb.compile_bundle(made, tmp_path / "q.nbundle", offload="all")
    with pytest.raises(ValueError, match="offload is .none., .opt., .params. or .all., got .some."):
        nb.compile_bundle(made, tmp_path / "q.nbundle", offload="some")


def test_wrong_use_is_named(tmp_path):
    def refused(error, match, **options):
        with pytest.raises(error, match=match):
            nb.compile_bundle(program(), tmp_path / "p.nbundle", **options)

    refused(nb.Error, "E0901.*zero=3 needs data_axes", zero=3)
    refused(nb.Error, "E0901.*zero_axes=.dp. is given, and zero is 0", zero_axes="dp")
    for option in (dict(reshard_after_forward=False), dict(max_comm_bytes="1MiB"), dict(prefetch=2),
                   dict(reduce_dtype="float32"), dict(grad_sync="each", microbatches=2)):
        refused(nb.Error, f"E0901.*{next(iter(option))}: the module has no mesh, so that one rank runs it(.|\\n)*"
                "batch lies: mesh=.\"dp\": 4., data_axes=\"dp\"", **option)
    refused(nb.Error, r"E0901.*mesh: axis tp: nothing is sharded over it, so that its 4 ranks all compute the same"
            r"(.|\n)*allow_idle_axes", mesh={"dp": 2, "tp": 4}, data_axes="dp")
    refused(nb.Error, "E0210.*mesh ranks .dp=2. has no axis `pd`; did you mean `dp`", mesh={"dp": 2}, data_axes="pd")
    refused(nb.Error, "E0901.*the module has no mesh", mesh={"dp": 2})
    refused(nb.Error, r"E0901.*auto_shard: the module has no mesh over which(.|\n)*give one: mesh=.\"dp\": 2",
            auto_shard=True)
    refused(nb.Error, "E0402.*on a rank at least", mesh={"dp": 2}, auto_shard=True, max_bytes="100")
    refused(nb.Error, "E0210.*32 elements, which 3 shards", mesh={"dp": 1, "tp": 3}, data_axes="dp",
            layouts={"w.w0": (None, "tp")}, allow_padding=False)
    refused(nb.Error, "no leaf of the state", mesh={"dp": 2}, data_axes="dp", layouts={"v": ("dp",)})
    refused(TypeError, "is a word per dimension", mesh={"dp": 2}, data_axes="dp", layouts={"w.w0": "dp"})
    refused(TypeError, r'mesh is a dict of ranks by axis, such as {"dp": 4}, got .dp=4.', mesh="dp=4", data_axes="dp")
    refused(TypeError, "layouts is a dict of words", mesh={"dp": 2}, data_axes="dp", layouts="w.w0=dp")
    refused(ValueError, "axis dp has 0 ranks", mesh={"dp": 0}, data_axes="dp")
    refused(nb.Error, r"E0210.*mesh ranks: `a=2,b` names no axis", mesh={"a=2,b": 2}, data_axes="b")
    refused(nb.Error, r"E0210.*mesh ranks: `a\\nb` names no axis", mesh={"a\nb": 2}, data_axes="a\nb")
    refused(nb.Error, r"E0210.*mesh ranks: it has more than 1048576 ranks", mesh={"dp": 2**70}, data_axes="dp")
    refused(ValueError, "zero is 0, 1, 2 or 3, got 5", mesh={"dp": 2}, data_axes="dp", zero=5)
    refused(ValueError, "there are none", grad_sync="each")
    refused(ValueError, "prefetch is how many gathers of parameters start ahead of their use, got -1", prefetch=-1)
    refused(nb.Error, "E0901.*max.comm.bytes is a number of bytes, such as 64MiB, not `x`",
            mesh={"dp": 2}, data_axes="dp", max_comm_bytes="x")
    refused(TypeError, "microbatches is the number of parts of the batch, or None, got '2'", microbatches="2")
    refused(nb.Error, "E0901.*microbatches: 11805916.* is not in the range 1 to 1048576", microbatches=2**70)
    refused(nb.Error, "E0901.*microbatches: 0 is not in the range 1 to 1048576", microbatches=0)
    refused(TypeError, "reshard_after_forward is True or False, got 'no'", reshard_after_forward="no")
    refused(TypeError, "auto_shard is True or False, got 'off'", auto_shard="off")
    refused(TypeError, "data_axes are names of axes of the mesh, got 3", mesh={"dp": 2}, data_axes=3)
    for layout in (None, (1, 2), 3):
        refused(TypeError, "is a word per dimension", mesh={"dp": 2}, data_axes="dp", layouts={"w.w0": layout})
    for word in ("dp,dp", "nope=dp allow_padding", ("dp", "a;b=")):
        refused(ValueError, r"layouts\['w.w0'\]: '.*' has one of `;`, `,` and `=`: a word names axes",
                mesh={"dp": 2}, data_axes="dp", layouts={"w.w0": (word, None)})
    refused(ValueError, "grad_sync is", grad_sync="never", microbatches=2)
    refused(ValueError, "reduce_dtype is float32, bfloat16, float16 or None, got 'float64'",
            reduce_dtype="float64")
    refused(nb.Error, "E0901.*of deterministic programs ranks exchange granules", mesh={"dp": 2}, data_axes="dp",
            reduce_dtype="float32", deterministic=True)
    with pytest.raises(TypeError, match="takes what nabla.export returned"):
        nb.plan(None, 2)
    for limit, said in (("few", "few"), ("", "nothing"), (1.5, "1.5"), (True, "True")):
        with pytest.raises(nb.Error, match=f"E0901.*max_bytes is a number of bytes, such as 64MiB, not `{said}`"):
            nb.plan(program(), 2, max_bytes=limit)
    for ranks in (0, "4", 1 << 20):
        with pytest.raises(ValueError, match=f"plan: ranks is a number from 1 to 4096, got {ranks!r}"):
            nb.plan(program(), ranks)
    with pytest.raises(nb.Error, match="no axis of dp is `pd`; did you mean `dp`"):
        nb.plan(program(), 2, data_axes="pd")
    with pytest.raises(ValueError, match="axes name dp twice: dp, dp"):
        nb.plan(program(), 2, axes=["dp", "dp"])
    with pytest.raises(nb.Error, match="has no entry `stop`; did you mean `step`"):
        nb.plan(program(), 2, entry="stop")
    with pytest.raises(nb.Error, match="cannot open the tuning file nowhere.tuning"):
        nb.plan(program(), 2, tuning="nowhere.tuning")


def test_what_deterministic_asks_of_microbatches_is_said(tmp_path):
    def loss(w, x):
        last, _ = nb.scan(lambda h, z: (nb.tanh(z + h @ w), None), nb.zeros((16, 4)), x)
        return nb.mean(last ** 2)

    def step(state, x):
        return {"w": state["w"] - nb.grad(loss)(state["w"], nb.transpose(x, (1, 0, 2)))}, {}

    scanned = nb.export({"step": step}, state={"w": nb.spec((4, 4))}, args={"step": {"x": nb.spec((16, 3, 4))}})
    nb.compile_bundle(scanned, tmp_path / "s.nbundle", microbatches=2, load=False)
    with pytest.raises(nb.Error, match="not separable along the temporal(.|\n)*without that option the program may"):
        nb.compile_bundle(scanned, tmp_path / "s.nbundle", microbatches=2, deterministic=True, load=False)


@pytest.mark.parametrize("ranks", [2, 4])
def test_texts_are_cut_along_their_positions(tmp_path, ranks):
    """Context parallelism by an option: of 17 characters the model reads 16 and predicts those one further on."""
    def loss(w, tokens):
        read, next_ones = tokens[:, :-1], tokens[:, 1:]
        h = w["rows"][read]
        q, k, v = ((h @ w[n])[:, None] for n in "qkv")
        h = h + nb.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)[:, 0]
        logits = h @ nb.transpose(w["rows"])
        return nb.mean(nb.logsumexp(logits, axis=-1) - nb.sum(logits * nb.one_hot(next_ones, 12), axis=-1))

    start = {n: nb.random.normal(nb.random.key(i), (12 if n == "rows" else 8, 8)) * 0.5
             for i, n in enumerate(["rows", "q", "k", "v"])}

    def step(state, tokens):
        value, g = nb.value_and_grad(loss)(state, tokens)
        return {k: w - 0.1 * g[k] for k, w in state.items()}, {"loss": value}

    model = nb.export({"init": lambda: start, "step": step}, state=start,
                      args={"step": {"tokens": nb.spec((4, 17), "int32")}})
    tokens = nb.random.randint(nb.random.key(9), (4, 17), 0, 12)

    def trained(**options):
        b = nb.compile_bundle(model, tmp_path / "t.nbundle", **options)
        b.run("init")
        return [b.run("step", tokens=tokens)["loss"].item() for _ in range(3)]

    along = dict(mesh={"sp": ranks}, layouts={"input step.tokens": (None, "sp")})
    assert trained(**along) == pytest.approx(trained(), rel=1e-5)
    bill = [json.loads(nb.compile_bundle(model, tmp_path / "t.nbundle", load=False, **o))["entries"][1]
            for o in (along, {})]
    assert 0.8 / ranks < bill[0]["flops"] / bill[1]["flops"] < 1.3 / ranks


@pytest.mark.parametrize("options", [dict(auto_shard=True), {}])
@pytest.mark.parametrize("rule", ["adamw", "momentum"])
def test_uneven_parameters_are_updated(tmp_path, rule, options):
    """Weights of 35 columns over 3 ranks; the search may leave the optimizer's leaves whole beside them."""
    optimizer = nb.nn.optim.adamw(0.01) if rule == "adamw" else nb.nn.optim.sgd(0.05, momentum=0.9)
    start = {"w": nb.random.normal(nb.random.key(0), (3, 35, 35)) * 0.1}

    def step(state, x):
        value, g = nb.value_and_grad(lambda p: nb.mean(nb.conv1d(x, p["w"], padding="same") ** 2))(state["p"])
        p, o = optimizer.update(state["p"], g, state["o"])
        return {"p": p, "o": o}, {"loss": value}

    first = {"p": start, "o": optimizer.init(start)}
    model = nb.export({"init": lambda: first, "step": step}, state=first, args={"step": {"x": nb.spec((6, 4, 35))}})
    x = nb.random.normal(nb.random.key(1), (6, 4, 35))

    def trained(**how):
        b = nb.compile_bundle(model, tmp_path / "u.nbundle", **how)
        b.run("init")
        return [b.run("step", x=x)["loss"].item() for _ in range(3)]

    assert trained(mesh={"a": 3}, layouts={r"p\.w": (None, "a", None)}, **options) == pytest.approx(trained(), rel=1e-5)


def test_larger_values_are_gathered_where_the_user_allows_it():
    mesh = nb.DeviceMesh("m", (2,), ("dp",))
    x = nb.shard(nb.asarray(np.arange(4 << 20, dtype="float32")[::-1].copy()), mesh, nb.P("dp"))
    double = nb.ones(2)
    with pytest.raises(nb.Error, match="E0402(.|\n)*raise max_gather_bytes"):
        nb.jit(lambda x: nb.sort(nb.concatenate([x, double])))(x)
    out = nb.jit(lambda x: nb.sort(nb.concatenate([x, double])), max_gather_bytes="64MiB")(x)
    assert out[:4].tolist() == [0, 1, 1, 1] and out[-1].item() == (4 << 20) - 1
    with pytest.raises(nb.Error, match="max_gather_bytes is a number of bytes"):
        nb.jit(lambda x: x, mesh=mesh, max_gather_bytes="much")(x)
