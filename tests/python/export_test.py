"""Programs for nablac, and bundles."""

import pytest

import nabla as nb


def program():
    def init(key):
        return {"w": nb.random.normal(key, (3,)), "n": nb.asarray(0)}

    def step(state, x):
        loss, g = nb.value_and_grad(lambda w: nb.mean((x @ w) ** 2))(state["w"])
        return {"w": state["w"] - 0.1 * g, "n": state["n"] + 1}, {"loss": loss}

    def predict(state, x):
        return x @ state["w"]

    batch = nb.symbol("batch", 1, 16)
    x = nb.spec((batch, 3))
    return nb.export({"init": init, "step": step, "predict": predict},
                     state={"w": nb.spec((3,)), "n": nb.spec((), "int32")},
                     args={"init": {"key": nb.spec((2,), "uint32")}, "step": {"x": x}, "predict": {"x": x}})


def test_the_program_says_what_it_reads_and_writes():
    text = program().text
    assert "symbol batch in [1, 16]" in text or "batch" in text
    init = text[text.index("entry init"):text.index("entry step")]
    assert "reads" not in init and "writes n, w" in init.replace("writes w, n", "writes n, w")
    predict = text[text.index("entry predict"):].split("}")[0]
    assert "reads w" in predict and "n" not in predict.split("reads")[1].split("\n")[0].replace("inputs", "")
    assert "export_test.py" not in text.split("func")[0]


def test_bundles_run_at_every_size(tmp_path):
    p = program()
    p.save(tmp_path / "p.nir")
    assert (tmp_path / "p.nir").stat().st_size > 0
    b = nb.compile_bundle(p, tmp_path / "p.nbundle")
    b.run("init", key=nb.random.key(0))
    w = b.get_state("w")
    losses = [b.run("step", x=nb.ones((n, 3)))["loss"].item() for n in (1, 5, 16)]
    assert losses[0] >= losses[1] >= losses[2] and b.get_state("n").item() == 3
    assert b.run("predict", nb.ones((2, 3)))["out"].shape == (2,)
    b.save_state(tmp_path / "s.safetensors")
    again = nb.load_bundle(tmp_path / "p.nbundle")
    again.load_state(tmp_path / "s.safetensors")
    assert again.get_state("w").tolist() == b.get_state("w").tolist() != w.tolist()
    assert again.entries["step"]["inputs"] == {"x": "f32[batch,3]"} and set(again.state) == {"w", "n"}


def test_two_bundles_at_once(tmp_path):
    first = nb.compile_bundle(program(), tmp_path / "a.nbundle")
    second = nb.compile_bundle(nb.export({"f": lambda x: nb.sort(x)}, args={"f": {"x": nb.spec((4,))}}),
                               tmp_path / "b.nbundle")
    assert second.run("f", [3.0, 1.0, 2.0, 0.0])["out"].tolist() == [0.0, 1.0, 2.0, 3.0]
    first.set_state("w", [1.0, 1.0, 1.0])
    assert first.run("predict", nb.ones((1, 3)))["out"].tolist() == [3.0]


def test_trees_are_inputs_and_outputs_by_their_places(tmp_path):
    def step(params, x, **rest):
        y = x
        for layer in params["layers"]:
            y = y @ layer["w"] + layer["b"]
        return {"y": y * rest["scale"], "params": params}

    layer = {"w": nb.spec((3, 3)), "b": nb.spec((3,))}
    specs = {"x": nb.spec((2, 3)), "params": {"layers": [layer, layer]}, "scale": ()}
    p = nb.export({"step": step}, args={"step": specs})
    b = nb.compile_bundle(p, tmp_path / "t.nbundle")
    places = ["params.layers.0.b", "params.layers.0.w", "params.layers.1.b", "params.layers.1.w"]
    assert list(b.entries["step"]["inputs"]) == places + ["x", "scale"]
    assert list(b.entries["step"]["outputs"]) == ["y"] + places
    value = {"w": nb.eye(3), "b": nb.ones((3,))}
    for out in (b.run("step", params={"layers": [value, value]}, x=nb.zeros((2, 3)), scale=2.0),
                b.run("step", {"layers": [value, value]}, nb.zeros((2, 3)), 2.0)):
        assert out["y"].tolist() == [[4.0] * 3] * 2 and out["params.layers.1.b"].tolist() == [1.0] * 3
    with pytest.raises(TypeError, match=r"lacks its input params.layers.1.b"):
        b.run("step", params={"layers": [value]}, x=nb.zeros((2, 3)), scale=2.0)
    with pytest.raises(TypeError, match=r"no input params.layers.2.b left"):
        b.run("step", params={"layers": [value] * 3}, x=nb.zeros((2, 3)), scale=2.0)
    with pytest.raises(TypeError, match="output y.1 of entry f is a function, not a tensor"):
        nb.export({"f": lambda x: {"y": [x, lambda: 0]}}, args={"f": [(2,)]})


def test_wrong_use_is_named(tmp_path):
    b = nb.compile_bundle(program(), tmp_path / "p.nbundle")
    with pytest.raises(nb.Error, match="E0705"):
        b.run("predict", x=nb.ones((1, 3)))
    b.set_state("w", [1.0, 1.0, 1.0])
    for call, what in ((lambda: b.run("prediction"), "predict"), (lambda: b.run("predict", x=nb.ones((17, 3))), "17"),
                       (lambda: b.run("predict", x=nb.asarray([[1, 2, 3]])), "i32")):
        with pytest.raises(nb.Error) as e:
            call()
        assert what in str(e.value)
    with pytest.raises(TypeError, match="no input y left; its inputs are x"):
        b.run("predict", y=nb.ones((1, 3)))
    with pytest.raises(KeyError, match="has no state leaf v; it has"):
        b.get_state("v")
    with pytest.raises(nb.Error, match="E0801"):
        nb.load_bundle(tmp_path / "none.nbundle")
    nb.compile_bundle(program(), tmp_path / "one.nbundle", load=False)
    assert nb.load_bundle(tmp_path / "one.nbundle", rank_class="main").entries
    with pytest.raises(nb.Error, match=r"has no class `front`; it has main"):
        nb.load_bundle(tmp_path / "one.nbundle", rank_class="front")
    with pytest.raises(nb.Error):
        nb.compile_bundle(program(), tmp_path / "p.nbundle", max_bytes="1")
    with pytest.raises(TypeError, match="buckets is a list of texts"):
        nb.compile_bundle(program(), tmp_path / "p.nbundle", buckets="batch=8")
    with pytest.raises(nb.Error, match="E0901.*buckets are for launches of GPUs"):
        nb.compile_bundle(program(), tmp_path / "p.nbundle", buckets=["batch=8"])
    with pytest.raises(nb.Error, match="E0801"):
        nb.compile_bundle(program(), tmp_path / "p.nbundle", tuning=tmp_path / "none.tuning")
    with pytest.raises(ValueError, match="has no parameter z; it has x"):
        nb.export({"f": lambda x: x}, args={"f": {"z": nb.spec((1,))}})
    with pytest.raises(ValueError, match="symbol n stands for sizes in"):
        nb.export({"f": lambda x, y: (x, y)},
                  args={"f": {"x": nb.spec((nb.symbol("n", 1, 2),)), "y": nb.spec((nb.symbol("n", 1, 3),))}})


def step_of_a_state_of_another_name(st, x):
    return st, x


@pytest.mark.parametrize("f, args, text", [
    (step_of_a_state_of_another_name, {"x": nb.spec((2,))},
     r"export: entry step, step_of_a_state_of_another_name\(st, x\), gets no st: args gives it x. "
     r'args={"step": {"st": nb.spec\(...\)}} makes it an input; '
     r"the state goes to the parameter that is named `state`\n  --> .*export_test.py:\d+$"),
    (step_of_a_state_of_another_name, [nb.spec((2,))], r"gets no x: args gives it st. .*; the state goes to"),
    (step_of_a_state_of_another_name, {}, "gets no st: args gives it nothing. "),
    (lambda state, x, y: (state, x), [nb.spec((2,))], r"fn\(state, x, y\), gets no y: args gives it x. .* an input\n"),
])
def test_parameters_that_get_nothing_are_named(f, args, text):
    with pytest.raises(ValueError, match=text) as e:
        nb.export({"step": f}, state={"w": nb.spec((2,))}, args={"step": args})
    line = int(str(e.value).rsplit(":", 1)[1])
    assert line == f.__code__.co_firstlineno
    nb.export({"step": lambda state, x, scale=2.0, *rest: (state, x * scale)}, state=nb.spec((2,)),
              args={"step": [(2,)]})


def test_sizes_are_no_numbers():
    n = nb.symbol("n", 1, 8)
    assert repr(2 * n + 1) in ("2*n+1", "1+2*n") and nb.spec((n, 3)).shape[0] == n
    with pytest.raises(nb.Error, match="E0707.*size n: it is known only at run time"):
        range(n)


def test_a_gpus_bundle_is_compiled_anywhere(tmp_path, monkeypatch):
    monkeypatch.setenv("NABLA_CUDA_DRIVER", "/not/there.so")
    path = tmp_path / "gpu.nbundle"
    options = {"target": "sm_90a", "tf32": True, "buckets": ["batch=4"], "specialize": ["batch=1"]}
    report = nb.compile_bundle(program(), path, load=False, **options)
    assert '"sm_90a"' in report and path.stat().st_size > 0
    with pytest.raises(nb.Error, match="E0605") as e:
        nb.compile_bundle(program(), path, **options)
    assert e.value.__notes__ == [f"{path} is written, for sm_90a; compile_bundle(..., load=False) does not load it"]


def test_bounds_of_sizes_are_numbers_of_64_bits():
    for make in (nb.symbol, lambda *row: nb.jit(lambda x: x, dynamic_dims={0: {0: nb.Dynamic(*row)}})):
        for row in ((1, 2**63), (-2**70, 4), (1, 8, 2**64)):
            with pytest.raises(ValueError, match="size n: (min|max|multiple) is -?[0-9]+, more than a size can be"):
                make("n", *row)
        with pytest.raises(TypeError, match="size n: max is 2.5, expected an integer"):
            make("n", 1, 2.5)
    with pytest.raises(ValueError, match="size n: max is"):
        nb.jit(lambda x: x, dynamic_dims={0: {0: ("n", 1, 2**64)}})
