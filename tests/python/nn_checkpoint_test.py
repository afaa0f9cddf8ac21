"""safetensors files, checkpoints of modules and optimisers, and fine-tuning with adapters and four-bit weights."""

import collections
import json
import os

import nabla as nb
import numpy as np
import pytest
from nabla import nn
from nabla.nn import finetune as ft
from nabla.nn import functional as F
from nabla.nn import optim


def random(*shape, seed=0):
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


def test_files(tmp_path):
    path = str(tmp_path / "x.safetensors")
    arrays = {"f": random(3, 4), "i": np.arange(5), "b": np.array([True, False]), "u": np.arange(3, dtype=np.uint8),
              "h": random(2).astype(np.float16), "d": random(2, 2).astype(np.float64), "s": np.float32(3.5),
              "empty": np.zeros((0, 3), np.float32)}
    tensors = {k: nb.asarray(v) for k, v in arrays.items()}
    tensors["bf"] = nb.astype(nb.asarray([1.5, -2.0]), "bfloat16")
    nn.save_file(tensors, path, {"step": "7"})
    assert os.listdir(tmp_path) == ["x.safetensors"]
    loaded = nn.load_file(path)
    assert set(loaded) == set(tensors) and nn.load_metadata(path) == {"step": "7"}
    for name, x in tensors.items():
        assert loaded[name].dtype == x.dtype and tuple(loaded[name].shape) == tuple(x.shape)
        if name != "bf":
            np.testing.assert_array_equal(np.asarray(loaded[name]), np.asarray(x))
    assert nb.astype(loaded["bf"], "float32").tolist() == [1.5, -2.0]
    # The header says where everything is.
    raw = open(path, "rb").read()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + length])
    begin, end = header["f"]["data_offsets"]
    assert length % 8 == 0 and header["f"]["dtype"] == "F32" and header["f"]["shape"] == [3, 4]
    assert raw[8 + length + begin:8 + length + end] == arrays["f"].tobytes()
    assert list(nn.load_file(path, ["i"])) == ["i"]


def test_files_that_are_wrong(tmp_path):
    path = tmp_path / "x.safetensors"

    def refused(data, match):
        path.write_bytes(data)
        with pytest.raises(nn.CheckpointError, match=match):
            nn.load_file(str(path))

    def whole(header, body):
        text = json.dumps(header).encode()
        return len(text).to_bytes(8, "little") + text + body

    good = {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    refused(b"abc", "no safetensors")
    refused((1 << 40).to_bytes(8, "little") + b"{}", "no safetensors")
    refused((4).to_bytes(8, "little") + b"{[}]", "no JSON")
    refused(whole(good, bytes(7)), "damaged")
    refused(whole(good, bytes(9)), "damaged")
    refused(whole({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, bytes(8)), "in 8 bytes")
    refused(whole({"a": {"dtype": "Q4", "shape": [2], "data_offsets": [0, 8]}}, bytes(8)), "dtype 'Q4'")
    refused(whole({"a": {"dtype": "F32", "shape": [2]}}, bytes(8)), "entry of tensor a")
    refused(whole({"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}, bytes(8)), "entry of tensor a")
    refused(whole({**good, "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}, bytes(12)), "overlap")
    with pytest.raises(TypeError, match="strings"):
        nn.save_file({}, str(path), {"step": 7})


def test_headers_that_are_wrong(tmp_path):
    path, good = tmp_path / "x.safetensors", {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    entry = json.dumps(good)

    def texts():
        for key, values in {
                "dtype": [["F32"], {}, None, 4], "data_offsets": [[0], [0, 8, 8], "08", [8, 0], [-8, 0], [0.0, 8]],
                "shape": [2, "2", [2.0], [True, 2], [-2], {"2": 1}, [2**62, 4], [1] * 3 + [2**80, 0]]}.items():
            for value in values:
                yield json.dumps({"a": {**good, key: value}})
            yield json.dumps({"a": {k: v for k, v in good.items() if k != key}})
        yield from ("[1]", "7", "null", "{} {}", "", " {}", '{"a": NaN}', '{"a": [1]}', '{"a": "F32"}',
                    '{"\\ud800": 1}')
        yield '{"a": %s, "a": %s}' % (entry, entry)
        yield '{"a": {"dtype": "F32", "dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}'
        for opened, closed in (("[", "]"), ('{"a":', "}")):
            for depth in (900, 100_000):
                yield '{"a": ' + opened * depth + "1" + closed * depth + "}"
        yield '{"a": {"dtype": "F32", "shape": [' + "9" * 6000 + '], "data_offsets": [0, 8]}}'
        for metadata in ("[1]", '"x"', '{"k": 1}', '{"k": "v", "k": "w"}'):
            yield '{"__metadata__": %s, "a": %s}' % (metadata, entry)

    for text in [t.encode() for t in texts()] + [b'{"\xff": 1}', entry.encode("utf-16")]:
        path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
        for read in (nn.load_file, nn.load_metadata):
            with pytest.raises(nn.CheckpointError):
                read(str(path))
    text = json.dumps({"a": {"dtype": "BOOL", "shape": [8], "data_offsets": [0, 8]}}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(7) + b"\2")
    with pytest.raises(nn.CheckpointError, match="a of bools has a byte 2"):
        nn.load_file(str(path))


def test_modules(tmp_path):
    path = str(tmp_path / "net.safetensors")
    a, b = nn.MLP([3, 4, 2], key=1), nn.MLP([3, 4, 2], key=2)
    nn.save(a, path)
    assert nn.load(b, path) is b
    np.testing.assert_array_equal(np.asarray(b.layers[0].weight), np.asarray(a.layers[0].weight))
    nn.save(a, path, "layers.1.**")
    with pytest.raises(nn.CheckpointError, match="the state lacks layers.0.weight"):
        nn.load(b, path)
    nn.load(b, path, "layers.1.**")
    with pytest.raises(nn.CheckpointError, match="layers.1.weight is"):
        nn.load(nn.MLP([3, 4, 5], key=2), path, "layers.1.**")


def test_training_goes_on_from_a_checkpoint(tmp_path):
    path = str(tmp_path / "run.safetensors")
    x, y = nb.asarray(random(8, 3)), nb.asarray(random(8, 1, seed=1))

    def steps(net, opt, n):
        for _ in range(n):
            _, g = nn.value_and_grad(lambda m: F.mse_loss(m(x), y))(net)
            opt.step(g)
        return np.asarray(net.layers[0].weight)

    net = nn.MLP([3, 4, 1], key=1)
    opt = optim.AdamW(net, 0.05)
    steps(net, opt, 3)
    nn.save_checkpoint(path, net, opt, step=3, metadata={"note": "half"})
    want = steps(net, opt, 3)
    other = nn.MLP([3, 4, 1], key=9)
    again = optim.AdamW(other, 0.05)
    _, _, metadata = nn.load_checkpoint(path, other, again)
    assert metadata == {"note": "half", "step": "3"} and again.step_count == 3
    np.testing.assert_array_equal(steps(other, again, 3), want)
    state = {"w": nb.asarray(random(2)), "n": [nb.asarray(3)]}
    nn.save_checkpoint(path, state)
    back, _, _ = nn.load_checkpoint(path, {"w": nb.asarray(np.zeros(2, np.float32)), "n": [nb.asarray(0)]})
    assert back["n"][0].item() == 3


def test_lora_functions():
    w, x = nb.asarray(random(6, 4)), nb.asarray(random(5, 6, seed=1))
    adapter = ft.init_lora_adapter(w, 2, key=1)
    assert tuple(adapter["A"].shape) == (6, 2) and not np.asarray(adapter["B"]).any()
    adapter["B"] = nb.asarray(random(2, 4, seed=2))
    delta = 1.5 * np.asarray(adapter["A"]) @ np.asarray(adapter["B"])
    np.testing.assert_allclose(np.asarray(ft.lora_delta(adapter, 3.0)), delta, rtol=1e-5)
    got = ft.lora_linear(x, w, adapter, 3.0)
    np.testing.assert_allclose(np.asarray(got), np.asarray(x) @ (np.asarray(w) + delta), rtol=1e-4, atol=1e-5)
    merged = ft.merge_lora_weight(w, adapter, 3.0)
    np.testing.assert_allclose(np.asarray(ft.unmerge_lora_weight(merged, adapter, 3.0)), np.asarray(w), atol=1e-6)
    assert tuple(ft.tree_lora_delta({"q": adapter})["q"].shape) == (6, 4)
    g = nb.grad(lambda w, a: nb._nabla.sum(ft.lora_linear(x, w, a), [], False), (0, 1))(w, adapter)
    assert not np.asarray(g[0]).any() and np.asarray(g[1]["B"]).any()
    with pytest.raises(ValueError, match="rank 0"):
        ft.init_lora_adapter(w, 0)


def test_apply_lora(tmp_path):
    net = nn.MLP([6, 8, 8, 2], key=1)
    x, y = nb.asarray(random(9, 6)), nb.asarray(random(9, 2, seed=1))
    before = np.asarray(net(x))
    model = ft.apply_lora(net, rank=2, alpha=4, selector="layers.[01].weight", key=3)
    np.testing.assert_array_equal(np.asarray(model(x)), before)
    assert sorted(ft.lora_state_dict(model)) == ["layers.0.lora_A", "layers.0.lora_B", "layers.1.lora_A",
                                                 "layers.1.lora_B"]
    assert [p for p, _ in model.named_parameters(trainable_only=True)] == [
        "layers.0.lora_A", "layers.0.lora_B", "layers.1.lora_A", "layers.1.lora_B"]
    opt = optim.AdamW(model, 0.05)
    values = []
    for _ in range(10):
        value, g = nn.value_and_grad(lambda m: F.mse_loss(m(x), y))(model)
        values.append(value.item())
        opt.step(g)
    assert values[-1] < values[0]
    tuned = np.asarray(model(x))
    ft.merge_lora(model)
    np.testing.assert_allclose(np.asarray(model(x)), tuned, rtol=1e-4, atol=1e-5)
    ft.unmerge_lora(model)
    path = str(tmp_path / "ft")
    ft.save_finetune_checkpoint(path, lora_params=ft.lora_state_dict(model), optimizer_state=opt.state,
                                metadata={"epoch": 3})
    lora, state, meta = ft.load_finetune_checkpoint(path, lora_template=ft.lora_state_dict(model),
                                                    optimizer_template=opt.state)
    assert meta["user_metadata"] == {"epoch": 3} and meta["step"] == 10 and state["step"].item() == 10
    for k, v in ft.lora_state_dict(model).items():
        np.testing.assert_array_equal(np.asarray(lora[k]), np.asarray(v))
    other = ft.apply_lora(nn.MLP([6, 8, 8, 2], key=1), 2, 4, "layers.[01].weight", key=8)
    other.load_state_dict(lora, strict=False)
    np.testing.assert_allclose(np.asarray(other(x)), tuned, rtol=1e-5, atol=1e-6)


def test_nf4():
    w = random(64, 32)
    q = ft.quantize_nf4(nb.asarray(w))
    assert q.codes.dtype == nb.uint8 and tuple(q.codes.shape) == (64 * 32 // 2,) and tuple(q.scales.shape) == (32,)
    blocks = w.reshape(-1, 64)
    scale = np.abs(blocks).max(1, keepdims=True)
    book = np.array(ft.NF4_CODEBOOK, np.float32)
    near = np.abs((blocks / scale)[..., None] - book).argmin(-1)
    np.testing.assert_allclose(np.asarray(ft.dequantize_nf4(q)), (book[near] * scale).reshape(w.shape), rtol=1e-6)
    error = np.linalg.norm(np.asarray(ft.dequantize_nf4(q)) - w) / np.linalg.norm(w)
    assert 0.08 < error < 0.1
    x = nb.asarray(random(3, 64, seed=1))
    adapter = ft.init_lora_adapter(nb.asarray(w), 4, key=1)
    out = nb.jit(lambda x, q, a: ft.qlora_linear(x, q, a, 2.0))(x, q, adapter)
    want = np.asarray(x) @ (book[near] * scale).reshape(w.shape)
    np.testing.assert_allclose(np.asarray(out), want, rtol=1e-4, atol=1e-4)


def test_apply_qlora():
    net = nn.MLP([64, 64, 2], key=1)
    x, y = nb.asarray(random(9, 64)), nb.asarray(random(9, 2, seed=1))
    model = ft.apply_qlora(net, rank=4, selector="layers.0.weight", key=2)
    kinds = {p: k for p, _, k in model.named_tensors()}
    assert kinds["layers.0.base.codes"] == "buffer" and kinds["layers.0.lora_A"] == "parameter"
    assert kinds["layers.1.weight"] == "frozen"
    opt = optim.AdamW(model, 0.02)
    values = []
    for _ in range(10):
        value, g = nn.value_and_grad(lambda m: F.mse_loss(m(x), y))(model)
        values.append(value.item())
        opt.step(g)
    assert values[-1] < values[0]
    layers = ft.quantize_linear(nn.MLP([64, 64, 2], key=1), "layers.0.weight")
    assert isinstance(layers.layers[0], ft.NF4Linear)


def test_files_of_other_names_and_orientation(tmp_path):
    path = tmp_path / "other.safetensors"
    layers = [nn.Linear(3, 3, key=i) for i in range(4)]
    stored = {f"h.{i}.attn.w": layer.weight.T for i, layer in enumerate(layers)}
    stored.update({f"h.{i}.attn.b": layer.bias for i, layer in enumerate(layers)})
    nn.save_file({**stored, "extra": nb.ones(1)}, path)
    names = {"h.*.attn.w": "blocks.*.weight.T", "h.*.attn.b": "blocks.*.bias", "extra": None}

    class Net(nn.Module):
        def __init__(self, blocks):
            self.blocks = blocks

    listed = nn.load(Net([nn.Linear(3, 3, key=9) for _ in range(4)]), path, names=names)
    assert all(nb.array_equal(a.weight, b.weight).item() for a, b in zip(listed.blocks, layers))
    stacked = Net(nn.StackedModuleList([nn.Linear(3, 3, key=9) for _ in range(4)]))
    nn.load(stacked, path, names=names, stack=["blocks.*.weight", "blocks.*.bias"])
    for mine, layer in zip(stacked.blocks.unstacked(), layers):
        assert nb.array_equal(mine.weight, layer.weight).item() and nb.array_equal(mine.bias, layer.bias).item()
    tree = nn.load({"w": nb.zeros((1,))}, path, names=lambda old: "w" if old == "extra" else None)
    assert tree["w"].tolist() == [1.0]
    for options, text in (({"names": {"h.*.attn.w": "same", "h.*.attn.b": "same"}}, "one name, same"),
                          ({"stack": "h.*.none"}, r"finds the layers \[\]"), ({"stack": "h.*.*.w"}, "has 2 places")):
        with pytest.raises(nn.CheckpointError, match=text):
            nn.load(listed, path, **options)
    text = "the state lacks blocks.0.weight.*; the state has names that the module does not have: extra"
    with pytest.raises(nn.CheckpointError, match=text):
        nn.load(listed, path)


def test_leaves_that_are_no_tensors(tmp_path):
    path = str(tmp_path / "x.safetensors")
    Pair = collections.namedtuple("Pair", "a b")
    values = {"w": random(2, 3), "t": nb.asarray([1.0, 2.0]), "step": 17, "lr": 0.1, "on": True, "none": None,
              "pair": Pair(np.float64(1 / 3), [np.arange(3), np.float16(0.5)]), "big": 2**40}
    zeros = {"w": np.zeros((2, 3), np.float32), "t": nb.zeros(2), "step": 0, "lr": 0.0, "on": False, "none": None,
             "pair": Pair(np.float64(0), [np.zeros(3, np.int64), np.float16(0)]), "big": 0}

    def same(got):
        assert [type(x) for x in nb.tree.leaves(got)] == [type(x) for x in nb.tree.leaves(values)]
        for a, b in zip(nb.tree.leaves(got), nb.tree.leaves(values)):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))

    nn.save(values, path)
    same(nn.load(zeros, path))
    nn.save_checkpoint(path, values, values, step=1)
    model, state, metadata = nn.load_checkpoint(path, zeros, zeros)
    same(model), same(state)
    assert metadata == {"step": "1"}
    ft.save_finetune_checkpoint(tmp_path / "ft", lora_params=values, optimizer_state=values)
    lora, state, _ = ft.load_finetune_checkpoint(tmp_path / "ft", lora_template=zeros, optimizer_template=zeros)
    same(lora), same(state)
    nn.save({"step": 0.5}, path)
    with pytest.raises(nn.CheckpointError, match="step is 0.5, expected a number of type int"):
        nn.load({"step": 0}, path)
    for wrong, text in (({"a": {"f": len}}, "a.f is a builtin_function"), ({"s": "text"}, "s is a str")):
        for save in (nn.save, lambda tree, to: nn.save_checkpoint(to, tree), lambda tree, to: nn.save_checkpoint(
                to, values, tree)):
            with pytest.raises(TypeError, match=text):
                save(wrong, path)
    with pytest.raises(ValueError, match="two leaves of the tree have the path a.b"):
        nn.save({"a.b": nb.ones(1), "a": {"b": nb.ones(1)}}, path)


def test_leaves_that_began_as_one_tensor(tmp_path):
    path, zero = str(tmp_path / "x.safetensors"), nb.zeros(2)
    values = {"b": [nb.asarray([1.0, 2.0]), nb.asarray([3.0, 4.0])], "a": nb.asarray([5.0, 6.0])}
    nn.save(values, path)
    back = nn.load({"b": [zero, zero], "a": zero}, path)
    for a, b in zip(nb.tree.leaves(back), nb.tree.leaves(values)):
        assert a.tolist() == b.tolist()
    assert zero.tolist() == [0.0, 0.0]

    class Tied(nn.Module):
        def __init__(self, x, y):
            self.x, self.y = nn.Parameter(x), nn.Parameter(y)

    nn.save({"x": nb.ones(2), "y": nb.zeros(2)}, path)
    with pytest.raises(nn.CheckpointError, match="y and x are one tensor of Tied, and the state has two different"):
        nn.load(Tied(zero, zero), path)
    nn.save({"x": nb.full(2, np.nan), "y": nb.full(2, np.nan)}, path)
    assert np.isnan(np.asarray(nn.load(Tied(zero, zero), path).y)).all()
    apart = nn.load(Tied(nb.zeros(2), nb.zeros(2)), path)
    assert apart.x is not apart.y


def test_reshaped_by_name(tmp_path):
    path = str(tmp_path / "x.safetensors")
    nn.save_file({"fc.weight": random(3, 2), "fc.bias": np.arange(3, dtype=np.float32)}, path)
    net = nn.Sequential(nn.Linear(2, 3))
    nn.load(net, path, names={"fc.weight": "0.weight.T", "fc.bias": "0.bias:reshape"})
    assert net[0].bias.tolist() == [[0.0, 1.0, 2.0]]
    np.testing.assert_array_equal(np.asarray(net[0].weight), random(3, 2).T)
    tree = nn.load({"b": np.zeros((3, 1), np.float32)}, path, names={"fc.weight": None, "fc.bias": "b:reshape"})
    assert tree["b"].tolist() == [[0.0], [1.0], [2.0]]
    shapes = r"0.weight:reshape gets f32\[3\], and the model has the shape \[2, 3\]"
    for names, text in (({"fc.bias": "0.weight:reshape"}, shapes), ({"fc.bias": "no:reshape"}, "no tensor of the na")):
        with pytest.raises(nn.CheckpointError, match=text):
            nn.load(net, path, names=names)
    with pytest.raises(nn.CheckpointError, match='names={\'0.bias\': "0.bias:reshape"} takes it'):
        nn.load(net, path, names={"fc.weight": "0.weight.T", "fc.bias": "0.bias"})
    with pytest.raises(nn.CheckpointError, match='names={\'w\': "w.T"} takes it'):
        nn.load({"w": nb.zeros((2, 3))}, path, names={"fc.weight": "w", "fc.bias": None})


def test_python_ints_of_a_checkpoint_have_64_bits(tmp_path):
    path = str(tmp_path / "c.safetensors")
    for number in (-2**63, 2**63 - 1, 2**63, 2**64 - 1):
        nn.save_checkpoint(path, {"seed": number})
        assert nn.load_checkpoint(path, {"seed": 0})[0]["seed"] == number
    with pytest.raises(ValueError, match=f"{2**64} does not fit into 64 bits"):
        nn.save_checkpoint(path, {"seed": 2**64})


def test_leaves_and_files_that_are_none_say_which(tmp_path):
    path = str(tmp_path / "c.safetensors")
    with pytest.raises(TypeError, match="save_checkpoint: model: names: "):
        nn.save_checkpoint(path, {"w": nb.ones(1), "names": np.array(["x", "y"])})
    open(path, "wb").close()
    with pytest.raises(nn.CheckpointError, match="no safetensors file: it has 0 bytes"):
        nn.load_file(path)
