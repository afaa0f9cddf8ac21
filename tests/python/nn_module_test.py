"""Modules as trees: paths, sharing, forms, states by name, selectors, derivatives by selectors."""

import nabla as nb
import numpy as np
import pytest
from nabla import nn
from nabla.nn import functional as F
from nabla.nn import selectors as S


def emit(name, *xs):
    return nb._nabla.emit(name, list(xs), {})[0]


class Net(nn.Module):
    def __init__(self):
        self.first = nn.Linear(3, 4, key=1)
        self.blocks = [nn.Linear(4, 4, key=2), nn.Linear(4, 4, key=3)]
        self.heads = {"a": nn.Linear(4, 2, key=4), "b": (nn.LayerNorm(4), nn.Linear(4, 2, key=5))}
        self.scale = nn.Parameter([2.0])
        self.count = nn.Buffer([1, 2])
        self.mode = "sum"

    def forward(self, x):
        x = F.relu(self.first(x))
        for block in self.blocks:
            x = F.tanh(block(x))
        norm, head = self.heads["b"]
        return emit("mul", emit("add", self.heads["a"](x), head(norm(x))), self.scale)


def loss(model, x):
    return F.mse_loss(model(x), nb.asarray(np.ones((2, 2), np.float32)))


X = nb.asarray(np.arange(6, dtype=np.float32).reshape(2, 3) / 5)


def test_paths():
    net = Net()
    names = [p for p, _ in net.named_parameters()]
    assert names == ["first.weight", "first.bias", "blocks.0.weight", "blocks.0.bias", "blocks.1.weight",
                     "blocks.1.bias", "heads.a.weight", "heads.a.bias", "heads.b.0.weight", "heads.b.0.bias",
                     "heads.b.1.weight", "heads.b.1.bias", "scale"]
    assert [p for p, _ in net.named_buffers()] == ["count"]
    assert [p for p, _ in net.named_modules()] == ["", "first", "blocks.0", "blocks.1", "heads.a", "heads.b.0",
                                                    "heads.b.1"]
    assert len(net.children()) == 6
    assert net.num_parameters() == 16 + 2 * 20 + 10 + 8 + 10 + 1
    assert "(blocks)" in repr(net) and "Linear(3, 4, bias=True)" in repr(net)


def test_containers_have_short_paths():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.ModuleList([nn.Linear(3, 3)])[0])
    assert [p for p, _ in net.named_parameters()] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert len(net) == 3 and isinstance(net[1], nn.ReLU) and len(net[:2]) == 2
    names = nn.ModuleDict({"x": nn.Linear(2, 2)})
    assert [p for p, _ in names.named_parameters()] == ["x.weight", "x.bias"] and "x" in names


def test_lists_of_modules_train():
    net = Net()
    leaves, form = nb.tree_flatten(net)
    assert len(leaves) == 14
    again = form.unflatten(leaves)
    assert isinstance(again, Net) and again.mode == "sum" and again.blocks[1].weight is net.blocks[1].weight
    value, gradients = nn.value_and_grad(loss)(net, X)
    assert set(gradients) == {p for p, _ in net.named_parameters()}
    assert all(np.abs(np.asarray(g)).max() > 0 for p, g in gradients.items() if "weight" in p)
    before = value.item()
    opt = nn.optim.SGD(net, lr=0.01)
    opt.step(gradients)
    assert loss(net, X).item() < before


def test_grad_of_a_module():
    net = nn.Sequential(nn.Linear(3, 4, key=1), nn.Tanh(), nn.Linear(4, 2, key=2))
    gradient = nb.grad(loss)(net, X)
    assert isinstance(gradient, nn.Sequential)
    both = nn.grad(loss)(net, X)
    for path, g in gradient.named_parameters():
        np.testing.assert_allclose(np.asarray(g), np.asarray(both[path]), rtol=1e-6)
    opt = nn.optim.AdamW(net, lr=0.01)
    assert opt.step(gradient) is net


def test_shared_tensors_and_modules_are_there_once():
    class Tied(nn.Module):
        def __init__(self):
            self.table = nn.Embedding(5, 3, key=1)
            self.head = nn.Linear(5, 3, bias=False, key=2)
            self.head.weight = self.table.weight
            self.again = self.table

        def forward(self, ids):
            return self.table.attend(self.table(ids))

    tied = Tied()
    assert [p for p, _ in tied.named_parameters()] == ["table.weight"]
    copy = nb.tree_map(lambda x: emit("mul", x, 2.0), tied)
    assert copy.head.weight is copy.table.weight and copy.again is copy.table
    copy.load_state_dict({"head.weight": tied.table.weight})
    assert copy.table.weight is copy.head.weight
    ids = nb.asarray([[0, 1, 1]])
    g = nb.grad(lambda t: nb._nabla.sum(t(ids), [], False))(tied)
    assert g.head.weight is g.table.weight
    # Both uses add up, and so do equal ids.
    w = np.asarray(tied.table.weight)
    want = np.zeros_like(w) + w[[0, 1, 1]].sum(0)
    for i in (0, 1, 1):
        want[i] += w.sum(0)
    np.testing.assert_allclose(np.asarray(g.table.weight), want, rtol=1e-5)


def test_cycles_are_errors():
    net = nn.Sequential()
    net.append(net)
    with pytest.raises(ValueError, match="contains itself"):
        nb.tree_flatten(net)


def test_forms():
    def form(x):
        return nb.tree_structure(x)

    assert form(nn.Linear(2, 3)) == form(nn.Linear(2, 3)) and hash(form(Net())) == hash(form(Net()))
    assert form(nn.Dropout(0.1)) != form(nn.Dropout(0.2))
    assert form(nn.Dropout(1)) == form(nn.Dropout(1.0))
    assert form(nn.Linear(2, 3)) != form(nn.Linear(2, 3).eval())
    a, b = nn.Identity(), nn.Identity()
    a.axis, b.axis = 1, True
    assert form(a) != form(b)


def test_train_and_eval():
    net = nn.Sequential(nn.Linear(4, 4, key=0), nn.Dropout(0.5))
    x = nb.asarray(np.ones((3, 4), np.float32))
    with nn.rngs(3):
        a = np.asarray(net(x))
    with nn.rngs(3):
        b = np.asarray(net(x))
    c = np.asarray(net(x))
    np.testing.assert_array_equal(a, b)
    assert (a != c).any() and (a == 0).any()
    net.eval()
    np.testing.assert_array_equal(np.asarray(net(x)), np.asarray(net[0](x)))
    assert net.train().training and net[1].training


def test_dropout_in_a_compiled_step_follows_its_key():
    drop = nn.Dropout(0.5)

    @nb.jit
    def step(key, x):
        with nn.rngs(key):
            return drop(x)

    x = nb.asarray(np.ones(64, np.float32))
    keys = [nb.asarray(np.array([0, i], np.uint32)) for i in (1, 2, 1)]
    a, b, c = (np.asarray(step(k, x)) for k in keys)
    assert (a != b).any() and (a == c).all() and step.stats.misses == 1


def test_keys_of_the_process_in_a_traced_function_are_an_error():
    with pytest.raises(nb.Error, match="rngs"):
        nb.jit(lambda x: F.dropout(x, 0.5))(X)
    net = nn.Sequential(nn.Linear(3, 8, key=1), nn.Dropout(0.5))
    ones = [np.asarray(nn.grad(lambda m: nb.sum(m(X)))(net)["0.bias"]) for _ in range(2)]
    assert (ones[0] != ones[1]).any()


def test_seeds():
    nb.seed(3)
    a = np.asarray(nn.Linear(3, 3).weight)
    nb.seed(3)
    np.testing.assert_array_equal(np.asarray(nn.Linear(3, 3).weight), a)


def test_batch_norm_updates_through_value_and_grad():
    net = nn.Sequential(nn.Linear(3, 4, key=1), nn.BatchNorm(4))
    before = np.asarray(net[1].running_mean).copy()
    nn.value_and_grad(lambda model, x: nb._nabla.sum(model(x), [], False))(net, X)
    mean = np.asarray(net[0](X)).mean(0)
    np.testing.assert_allclose(np.asarray(net[1].running_mean), 0.9 * before + 0.1 * mean, rtol=1e-5, atol=1e-6)
    assert not net[1].running_mean.is_traced


def test_state_dict():
    a, b = Net(), Net()
    a.first.weight = emit("mul", a.first.weight, 3.0)
    assert b.load_state_dict(a.state_dict()) == ([], [])
    np.testing.assert_array_equal(np.asarray(b.first.weight), np.asarray(a.first.weight))
    state = a.state_dict()
    del state["scale"]
    with pytest.raises(ValueError, match="of Net: the state lacks scale; strict=False leaves these$"):
        b.load_state_dict(state)
    assert b.load_state_dict(state, strict=False) == (["scale"], [])
    with pytest.raises(ValueError, match="first.bias is f32"):
        b.load_state_dict({**a.state_dict(), "first.bias": np.zeros(3, np.float32)})


def test_selectors():
    net = Net()

    def paths(what):
        return S.select(what).paths(net)

    assert paths("blocks.*.weight") == ["blocks.0.weight", "blocks.1.weight"]
    assert paths("**.bias") == ["first.bias", "blocks.0.bias", "blocks.1.bias", "heads.a.bias", "heads.b.0.bias",
                                "heads.b.1.bias"]
    assert paths("heads.**") == ["heads.a.weight", "heads.a.bias", "heads.b.0.weight", "heads.b.0.bias",
                                 "heads.b.1.weight", "heads.b.1.bias"]
    assert paths(nn.LayerNorm) == ["heads.b.0.weight", "heads.b.0.bias"]
    assert paths("buffers") == ["count"] and paths(None) == []
    assert paths(["scale", "first.*"]) == ["first.weight", "first.bias", "scale"]
    vectors = paths(lambda path, x: x.ndim == 1 and x.dtype == nb.float32)
    assert vectors == ["heads.b.0.weight", "heads.b.0.bias", "scale"]
    weights = S.at_path("**.weight")
    assert paths(weights - "heads.**" - "first.**") == ["blocks.0.weight", "blocks.1.weight"]
    assert paths(weights & nn.LayerNorm | "scale") == ["heads.b.0.weight", "scale"]
    assert paths(~S.select("parameters")) == ["count"]
    with pytest.raises(S.SelectorError, match="empty"):
        S.select([])
    with pytest.raises(S.SelectorError, match="failed at 'first.weight'"):
        paths(lambda path, x: x.nothing)
    chosen, rest = S.partition(net, "blocks.**")
    assert len(chosen) == 4 and len(rest) == 10
    other = S.merge(net, {k: emit("mul", v, 0.0) for k, v in chosen.items()}, rest)
    assert np.asarray(other.blocks[0].weight).any() == False and np.asarray(net.blocks[0].weight).any()  # noqa: E712


def test_freeze():
    net = Net()
    nn.freeze(net, "blocks.**")
    assert len(net.parameters()) == 13 and len(net.parameters(trainable_only=True)) == 9
    gradients = nn.grad(loss)(net, X)
    assert not any(p.startswith("blocks") for p in gradients)
    copy = net.clone()
    assert len(copy.parameters(trainable_only=True)) == 9
    opt = nn.optim.AdamW(net, 0.1, weight_decay=0.5)
    kept = np.asarray(net.blocks[0].weight)
    opt.step(gradients)
    np.testing.assert_array_equal(np.asarray(net.blocks[0].weight), kept)
    nn.unfreeze(net)
    assert len(net.parameters(trainable_only=True)) == 13
    assert list(nn.grad(loss, wrt="heads.a.*")(net, X)) == ["heads.a.weight", "heads.a.bias"]
    with pytest.raises(TypeError, match="selects nothing"):
        nn.grad(loss, wrt="nowhere.*")(net, X)


def test_modules_in_transforms():
    net = nn.MLP([3, 5, 1], key=0)
    xs = nb.asarray(np.random.RandomState(0).randn(7, 3).astype(np.float32))
    rows = nb.vmap(lambda m, x: m(x), in_axes=(None, 0))(net, xs)
    np.testing.assert_allclose(np.asarray(rows), np.asarray(net(xs)), rtol=1e-5, atol=1e-6)
    jitted = nb.jit(lambda m, x: m(x))
    np.testing.assert_allclose(np.asarray(jitted(net, xs)), np.asarray(net(xs)), rtol=1e-5, atol=1e-6)
    jitted(net.clone(), xs)
    assert jitted.stats.misses == 1
    nets = nb.tree_map(lambda a, b: nb._nabla.stack([a, b], 0), nn.MLP([3, 5, 1], key=1), nn.MLP([3, 5, 1], key=2))
    both = nb.vmap(lambda m, x: m(x), in_axes=(0, None))(nets, xs)
    assert tuple(both.shape) == (2, 7, 1)


def test_initial_values_differ_and_repeat():
    a, b = nn.Linear(3, 3), nn.Linear(3, 3)
    assert (np.asarray(a.weight) != np.asarray(b.weight)).any()
    np.testing.assert_array_equal(np.asarray(nn.Linear(3, 3, key=5).weight), np.asarray(nn.Linear(3, 3, key=5).weight))
    w = np.asarray(nn.init.xavier_normal((300, 200), key=1))
    assert abs(w.std() - (2 / 500) ** 0.5) < 1e-3
    w = np.asarray(nn.init.he_normal((300, 200), key=1))
    assert abs(w.std() - (2 / 300) ** 0.5) < 1e-3
    q = np.asarray(nn.init.orthogonal((6, 4), key=2))
    np.testing.assert_allclose(q.T @ q, np.eye(4), atol=1e-5)
    t = np.asarray(nn.init.truncated_normal((2000,), key=3))
    assert np.abs(t).max() <= 2 and abs(t.std() - 0.88) < 0.03
    assert nn.init.fans((3, 3, 4, 8)) == (36, 72)


def test_stacked_layers_are_one_loop():
    layers = [nn.TransformerEncoderLayer(8, 2, 16, 0.5, key=i) for i in range(3)]
    stacked = nn.StackedModuleList(layers)
    x = nb.asarray(np.random.RandomState(0).randn(2, 4, 8).astype(np.float32))
    for layer in layers:
        layer.eval()
    want = x
    for layer in layers:
        want = layer(want)
    stacked.eval()
    nb.testing.assert_allclose(stacked(x), want, 1e-4, 1e-5)
    assert stacked.num_parameters() == 3 * layers[0].num_parameters()
    assert "layer.linear1.weight" in dict(stacked.named_parameters())
    nb.testing.assert_allclose(stacked.unstacked()[1].linear1.weight, layers[1].linear1.weight)
    gradients = nn.grad(lambda m: nb.sum(m(x) ** 2))(stacked)
    one = nn.grad(lambda m: nb.sum(layers[2](layers[1](m(x))) ** 2))(layers[0])
    nb.testing.assert_allclose(gradients["layer.linear1.weight"][0], one["linear1.weight"], 1e-3, 1e-4)
    stacked.train()
    with nn.rngs(1):
        a = stacked(x)
    with nn.rngs(2):
        b = stacked(x)
    assert (np.asarray(a) != np.asarray(b)).any()
    with pytest.raises(ValueError, match="differ in form"):
        nn.StackedModuleList([nn.Linear(2, 2), nn.Linear(2, 3).eval()])
    with pytest.raises(ValueError, match="sets its attributes"):
        nn.StackedModuleList([nn.BatchNorm(8)])(x)


def test_testing():
    nb.testing.assert_allclose({"a": nb.asarray([1.0])}, {"a": np.array([1.0])})
    nb.testing.assert_allclose(nb.astype(nb.asarray([1.5]), "bfloat16"), [1.5])
    with pytest.raises(AssertionError, match="form"):
        nb.testing.assert_allclose([1.0, 2.0], [1.0])
    with pytest.raises(AssertionError):
        nb.testing.assert_allclose(nb.asarray([1.0]), 1.1)


def test_arrays_and_numbers_in_the_place_of_tensors():
    net = Net()
    kinds = {path: kind for path, _, kind in net.named_tensors()}
    net.first.weight = np.ones((3, 4), np.float32)
    net.count = np.array([3, 4])
    net.scale = 0.5
    net.blocks[0].weight = np.zeros((4, 4), np.float64)
    assert {path: kind for path, _, kind in net.named_tensors()} == kinds
    assert all(isinstance(x, nb.Tensor) for _, x, _ in net.named_tensors())
    assert net.first.weight.tolist() == np.ones((3, 4)).tolist() and net.scale.item() == 0.5
    assert "first.weight" in nn.value_and_grad(lambda m: nb.sum(m.first.weight))(net)[1]
    S.freeze(net, "first.weight")
    net.first.weight = np.full((3, 4), 2, np.float32)
    assert {p for p, _, k in net.named_tensors() if k == "frozen"} == {"first.weight"}
    with pytest.raises(TypeError, match="a parameter is floating, got i64"):
        net.first.weight = np.ones((3, 4), np.int64)
    net.first.bias = None
    assert "first.bias" not in net.state_dict()
    net.table = np.arange(3)  # of an attribute that holds no tensor: static
    assert isinstance(net.table, np.ndarray) and "table" not in net.state_dict()

    class Listed(nn.Module):
        def __init__(self):
            self.parts = [nn.Parameter(nb.ones(2)), {"b": nn.Buffer([1])}]

    listed = Listed()
    listed.parts = [np.zeros(2, np.float32), {"b": np.array([2])}]
    assert [(path, kind) for path, _, kind in listed.named_tensors()] == [("parts.0", "parameter"),
                                                                         ("parts.1.b", "buffer")]
    listed.set_tensors({"parts.0": np.ones(2, np.float32)})
    assert isinstance(listed.parts[0], nb.Tensor) and listed.parts[0].tolist() == [1.0, 1.0]


def test_modules_whose_leaves_are_arrays():
    net = Net()
    arrays = nb.tree.map(np.asarray, net)
    state = arrays.state_dict()
    assert list(state) == list(net.state_dict()) and all(isinstance(x, nb.Tensor) for x in state.values())
    np.testing.assert_allclose(np.asarray(arrays(X)), np.asarray(net(X)), rtol=1e-6)
    assert arrays.astype("float64").first.weight.dtype == nb.float64
    with pytest.raises(TypeError, match="the first argument of fn is a Module, got a dict; nabla.value_and_grad"):
        nn.value_and_grad(lambda p: nb.sum(p["w"]))({"w": nb.ones(3)})
    shared = nn.Sequential(net.first, net.first)
    with pytest.raises(ValueError, match="are one tensor, and get two values"):
        shared.set_tensors({"0.bias": nb.ones((1, 4)), "1.bias": nb.zeros((1, 4))})
