"""Optimisers as functions and objects, under jit, by selectors; schedules; clipping."""

import math

import nabla as nb
import numpy as np
import pytest
from nabla import nn
from nabla.nn import functional as F
from nabla.nn import optim
from nabla.nn.optim import schedules

W = np.random.RandomState(0).randn(4, 3).astype(np.float32)
T = np.random.RandomState(1).randn(4, 3).astype(np.float32)


def gradient(w):
    return 2 * (w - T) / w.size


def step_by_step(transform, steps=5):
    params = {"w": nb.asarray(W)}
    state = transform.init(params)
    step = nb.jit(lambda p, s: transform.update(p, nb.grad(lambda p: F.mse_loss(p["w"], nb.asarray(T)))(p), s))
    for _ in range(steps):
        params, state = step(params, state)
    assert step.stats.misses == 1 and state["step"].item() == steps
    return np.asarray(params["w"])


def test_lion():
    w, m = W.copy(), np.zeros_like(W)
    for _ in range(5):
        g = gradient(w)
        w = w - 0.01 * (np.sign(0.9 * m + 0.1 * g) + 0.1 * w)
        m = 0.99 * m + 0.01 * g
    np.testing.assert_allclose(step_by_step(optim.lion(0.01, weight_decay=0.1)), w, rtol=1e-4, atol=1e-6)


def test_adafactor():
    w, row, column = W.copy(), np.zeros(4), np.zeros(3)
    for i in range(5):
        g, fresh = gradient(w), (i + 1.0) ** -0.8
        s = g * g + 1e-30
        row, column = (1 - fresh) * row + fresh * s.mean(1), (1 - fresh) * column + fresh * s.mean(0)
        u = g / np.sqrt(row / row.mean())[:, None] / np.sqrt(column)[None]
        u = u / max(1.0, np.sqrt((u * u).mean()))
        w = w - 0.05 * max(1e-3, np.sqrt((w * w).mean())) * u
    np.testing.assert_allclose(step_by_step(optim.adafactor(0.05)), w, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [
    lambda: optim.sgd(0.1, 0.9), lambda: optim.adamw(0.1, weight_decay=0.01), lambda: optim.adam(0.1),
    lambda: optim.rmsprop(0.01), lambda: optim.adagrad(0.3), lambda: optim.adamw(schedules.cosine(0.1, 10, 2))])
def test_they_go_downhill(make):
    w = step_by_step(make(), 8)
    assert ((w - T) ** 2).mean() < ((W - T) ** 2).mean()


def test_functions_of_eager_libraries():
    p, g = nb.asarray(W), nb.asarray(gradient(W))
    new, buffer = optim.sgd_step(p, g, lr=0.1, momentum=0.9, weight_decay=0.1)
    np.testing.assert_allclose(np.asarray(buffer), gradient(W) + 0.1 * W, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(new), W - 0.1 * (gradient(W) + 0.1 * W), rtol=1e-5)
    assert optim.sgd_step(p, g, lr=0.1)[1] is None
    tree, state = optim.sgd_update({"w": p}, {"w": g}, lr=0.1, momentum=0.9)
    tree, state = optim.sgd_update(tree, {"w": g}, state, lr=0.1, momentum=0.9)
    np.testing.assert_allclose(np.asarray(tree["w"]), W - 0.1 * (2.9 * gradient(W)), rtol=1e-4)
    zero = nb.asarray(np.zeros_like(W))
    one = optim.adamw_step(p, g, zero, zero, 1, lr=0.01, weight_decay=0.1)
    many, state = optim.adamw_update([p], [g], optim.adamw_init([p]), lr=0.01, weight_decay=0.1, realize=True)
    np.testing.assert_array_equal(np.asarray(one[0]), np.asarray(many[0]))
    np.testing.assert_allclose(np.asarray(one[0]), W - 0.01 * (np.sign(gradient(W)) + 0.1 * W), rtol=1e-4)
    raw, _ = optim.adamw_update([p], [g], optim.adamw_init([p]), lr=0.01, bias_correction=False)
    g1 = gradient(W)
    np.testing.assert_allclose(np.asarray(raw[0]), W - 0.01 * 0.1 * g1 / (np.sqrt(0.001 * g1 * g1) + 1e-8), rtol=1e-4)


def test_a_module_trains_compiled():
    net = nn.MLP([3, 16, 1], key=3)
    x = np.random.RandomState(2).randn(64, 3).astype(np.float32)
    y = np.sin(x.sum(1, keepdims=True)).astype(np.float32)
    tx = optim.adamw(0.02)

    def loss(model, x, y):
        return F.mse_loss(model(x), y)

    @nb.jit
    def step(model, state, x, y):
        value, gradients = nn.value_and_grad(loss)(model, x, y)
        gradients, norm = optim.clip_by_global_norm(gradients, 1.0)
        model, state = tx.update(model, gradients, state)
        return model, state, value, norm

    state, values = tx.init(net), []
    for _ in range(60):
        net, state, value, norm = step(net, state, x, y)
        values.append(value.item())
    assert step.stats.misses == 1 and isinstance(net, nn.MLP)
    assert values[-1] < 0.3 * values[0]


def test_backward_style():
    net = nn.Linear(3, 1, key=0).requires_grad_()
    opt = optim.SGD(net, lr=0.1)
    x = nb.asarray(np.ones((4, 3), np.float32))
    values = []
    for _ in range(5):
        loss = F.mse_loss(net(x), nb.asarray(np.zeros((4, 1), np.float32)))
        opt.zero_grad()
        net.backward(loss)
        opt.step()
        values.append(loss.item())
    assert values[-1] < values[0]
    want = nn.grad(lambda m: F.mse_loss(m(x), nb.asarray(np.zeros((4, 1), np.float32))))(net)
    net.zero_grad()
    F.mse_loss(net(x), nb.asarray(np.zeros((4, 1), np.float32))).backward()
    np.testing.assert_allclose(np.asarray(net.weight.grad), np.asarray(want["weight"]), rtol=1e-6)
    with pytest.raises(ValueError, match="backward"):
        optim.SGD(nn.Linear(2, 2), lr=0.1).step()
    with pytest.raises(ValueError, match="none of its 2 parameters has a .grad: call backward"):
        optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1).step()


OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, 0.01, momentum=0.9), "AdamW": lambda p: optim.AdamW(p, 0.01),
    "Adam": lambda p: optim.Adam(p, lr=0.01), "RMSProp": lambda p: optim.RMSProp(p, 0.01),
    "Adagrad": lambda p: optim.Adagrad(p, 0.05), "Lion": lambda p: optim.Lion(p, 0.01),
    "Adafactor": lambda p: optim.Adafactor(p, 0.05),
}
HANDED = {
    "parameters": lambda m: m.parameters(), "iterator": lambda m: iter(m.parameters()),
    "filter": lambda m: filter(lambda p: p.requires_grad, m.parameters()), "named": lambda m: m.named_parameters(),
    "dict": lambda m: dict(m.named_parameters()), "values": lambda m: dict(m.named_parameters()).values(),
    "items": lambda m: dict(m.named_parameters()).items(), "parts": lambda m: [m[0].parameters(), m[2].parameters()],
    "modules": lambda m: [m[0], m[2]],
}


def _trained(make, hand, steps=25):
    net = nn.Sequential(nn.Linear(4, 8, key=0), nn.Tanh(), nn.Linear(8, 1, key=1))
    opt, losses = make(hand(net)), []
    x = nb.asarray(np.random.default_rng(0).standard_normal((32, 4), np.float32))
    for _ in range(steps):
        opt.zero_grad()
        loss = F.mse_loss(net(x), nb.sum(x, axis=1, keepdims=True))
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return net, opt, losses, x


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_parameters_handed_over_are_the_models(name):
    """Every optimiser, over parameters() as over the model itself."""
    want = _trained(OPTIMIZERS[name], lambda m: m)
    net, opt, losses, _ = _trained(OPTIMIZERS[name], lambda m: m.parameters())
    assert losses[-1] < losses[0] and opt.step_count == 25
    np.testing.assert_allclose(losses, want[2], rtol=1e-5)
    assert all(a is b for a, b in zip(net.parameters(), opt.params)) and all(p.requires_grad for p in opt.params)


@pytest.mark.parametrize("how", sorted(HANDED))
def test_all_ways_to_hand_over_parameters(how):
    losses = _trained(OPTIMIZERS["Adam"], HANDED[how])[2]
    np.testing.assert_allclose(losses, _trained(OPTIMIZERS["Adam"], lambda m: m)[2], rtol=1e-5)


def test_parameters_that_an_optimiser_holds_stay_the_models():
    net, opt, _, x = _trained(OPTIMIZERS["Adam"], lambda m: m.parameters(), 2)
    held = net.parameters()
    stored = nn.Sequential(nn.Linear(4, 8, key=5), nn.Tanh(), nn.Linear(8, 1, key=6)).state_dict()
    before = {k: np.asarray(v).copy() for k, v in stored.items()}
    for change in (lambda: net.load_state_dict(stored), lambda: net.astype("float32"),
                   lambda: net.set_tensors({"0.weight": nb.ones((4, 8))}), lambda: optim.SGD(net, 0.1).step(),
                   lambda: net.clone()):
        change()
        assert all(a is b for a, b in zip(net.parameters(), held))
        opt.zero_grad()
        old = np.asarray(net[0].weight).copy()
        nb.sum(net(x) ** 2).backward()
        opt.step()
        assert (np.asarray(net[0].weight) != old).any()
    for k, v in stored.items():  # what was loaded is not written into
        np.testing.assert_array_equal(np.asarray(v), before[k])


def test_tensors_that_require_gradients_are_changed_in_place():
    w, fixed = nb.asarray([1.0, 2.0]).requires_grad_(), nb.asarray([3.0, 4.0])
    opt = optim.SGD([w, fixed], lr=0.1, weight_decay=0.5)
    for _ in range(2):
        nb.sum(w * fixed).backward()
        opt.step()
        assert opt.params[0] is w and w.requires_grad and opt.params[1] is fixed
    # The gradient is kept, and added to, until zero_grad(): 3 and 6.
    want = np.asarray([1.0, 2.0])
    for g in (1.0, 2.0):
        want = want - 0.1 * (g * np.asarray([3.0, 4.0]) + 0.5 * want)
    np.testing.assert_allclose(np.asarray(w), want, rtol=1e-5)
    opt.zero_grad()
    assert w.grad is None
    with pytest.raises(ValueError, match="none of its 2 parameters"):
        opt.step()
    with pytest.raises(nb.Error, match="which a traced function does not own"):
        nb.jit(lambda g: opt.step([g, g])[0])(nb.ones(2))
    assert w.requires_grad


def test_frozen_parameters_stay():
    net = nn.Sequential(nn.Linear(2, 2, key=0), nn.Linear(2, 1, key=1))
    net(nb.ones((1, 2)))
    nn.freeze(net, "0.**")
    assert [p.requires_grad for p in net.parameters()] == [False, False, True, True]
    opt, old = optim.AdamW(net.parameters(), 0.1, weight_decay=0.5), np.asarray(net[0].weight).copy()
    nb.sum(net(nb.ones((1, 2)))).backward()
    opt.step()
    np.testing.assert_array_equal(np.asarray(net[0].weight), old)
    assert all(p.requires_grad for p in nn.unfreeze(net).parameters())


def test_what_cannot_be_optimised_is_refused():
    net = nn.Linear(2, 2, key=0)
    with pytest.raises(TypeError, match=r"AdamW: parameter groups, .* nn.optim.MultiOptimizer\(model"):
        optim.AdamW([{"params": net.parameters(), "lr": 0.1}], lr=1e-3)
    with pytest.raises(TypeError, match="SGD: a parameter is a ndarray, which step"):
        optim.SGD([W], lr=0.1)
    with pytest.raises(TypeError, match="SGD: a parameter is a set"):
        optim.SGD({net.weight}, lr=0.1)
    with pytest.raises(TypeError, match="SGD: method has no tensors: hand over a Module"):
        optim.SGD(net.parameters, lr=0.1)  # the method itself
    for nothing in ([], iter(()), {}):
        with pytest.raises(ValueError, match="SGD: no parameters are given"):
            optim.SGD(nothing, lr=0.1)


def test_multi_optimizer():
    net = nn.MLP([3, 4, 2], key=1)
    opt = optim.MultiOptimizer(net, [("**.weight", optim.sgd(0.1)), ("layers.1.bias", optim.adamw(0.5))])
    old = {k: np.asarray(v) for k, v in net.state_dict().items()}
    g = {k: nb.asarray(np.ones(v.shape, np.float32)) for k, v in net.state_dict().items()}
    opt.step(g)
    new = {k: np.asarray(v) for k, v in net.state_dict().items()}
    np.testing.assert_allclose(new["layers.0.weight"], old["layers.0.weight"] - 0.1, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(new["layers.1.bias"], old["layers.1.bias"] - 0.5, rtol=1e-5)
    np.testing.assert_array_equal(new["layers.0.bias"], old["layers.0.bias"])
    with pytest.raises(ValueError, match="gets no parameter"):
        optim.MultiOptimizer(net, [("**", optim.sgd(0.1)), ("layers.**", optim.sgd(0.1))])


def test_states_by_name():
    net = nn.Linear(2, 2, key=0)
    a, b = optim.AdamW(net, 0.1), optim.AdamW(net.clone(), 0.1)
    g = {k: nb.asarray(np.ones(v.shape, np.float32)) for k, v in net.state_dict().items()}
    a.step(g)
    assert set(a.state_dict()) == {"m.weight", "m.bias", "v.weight", "v.bias", "step"}
    b.load_state_dict(a.state_dict())
    assert b.step_count == 1
    np.testing.assert_array_equal(np.asarray(b.state["m"]["bias"]), np.asarray(a.state["m"]["bias"]))
    with pytest.raises(ValueError, match="missing"):
        b.load_state_dict({"step": a.state["step"]})


def test_mistakes():
    p = {"w": nb.asarray(W)}
    with pytest.raises(ValueError, match="form"):
        optim.sgd(0.1).update(p, {"v": p["w"]}, optim.sgd(0.1).init(p))
    with pytest.raises(ValueError, match="gradient"):
        optim.sgd(0.1).update(p, {"w": nb.asarray([1.0])}, optim.sgd(0.1).init(p))
    with pytest.raises(ValueError, match="lack"):
        optim.SGD(nn.Linear(2, 2), 0.1).step({"bias": nb.asarray([[0.0, 0.0]])})
    with pytest.raises(ValueError, match="beta1"):
        optim.adamw(0.1, betas=(1.0, 0.9))
    with pytest.raises(ValueError, match="nesterov"):
        optim.sgd(0.1, nesterov=True)


def test_schedules():
    def values(schedule, steps):
        return [schedule(i).item() for i in steps]

    np.testing.assert_allclose(values(schedules.cosine(1.0, 10, 2, 0.1), [1, 2, 6, 10, 20]),
                               [0.5, 1.0, 0.55, 0.1, 0.1], rtol=1e-5)
    np.testing.assert_allclose(values(schedules.linear(1.0, 10, 2), [1, 2, 6, 10]), [0.5, 1.0, 0.5, 0.0], atol=1e-6)
    np.testing.assert_allclose(values(schedules.inverse_sqrt(1.0, 4), [2, 4, 16]), [0.5, 1.0, 0.5], rtol=1e-5)
    np.testing.assert_allclose(values(schedules.step_decay(1.0, 0.1, 3), [1, 3, 4, 7]), [1, 1, 0.1, 0.01], rtol=1e-5)
    np.testing.assert_allclose(values(schedules.exponential(2.0, 0.5), [1, 3]), [1.0, 0.25], rtol=1e-5)
    np.testing.assert_allclose(values(schedules.one_cycle(1.0, 100), [30, 100]), [1.0, 0.04e-4], rtol=1e-3)
    both = schedules.joined([schedules.constant(1.0), schedules.linear(2.0, 4)], [5])
    np.testing.assert_allclose(values(both, [5, 7]), [1.0, 1.0], rtol=1e-5)
    compiled = nb.jit(schedules.cosine(1.0, 10, 2))
    assert abs(compiled(nb.asarray(6)).item() - 0.5) < 1e-6 and math.isfinite(compiled(nb.asarray(1)).item())


def kinds_of(make):
    """The tree of `make(array)` for the kinds of leaves that hold numbers."""
    class Wrapped:  # what another library's arrays are to nabla
        def __init__(self, x):
            self.x = x

        def __array__(self, dtype=None):
            return np.asarray(self.x)

    return {"tensors": make(nb.asarray), "arrays": make(np.asarray), "others": make(Wrapped)}


TRANSFORMS = {
    "sgd": lambda: optim.sgd(0.1), "momentum": lambda: optim.sgd(0.1, 0.9, 0.01, True), "adam": lambda: optim.adam(0.1),
    "adamw": lambda: optim.adamw(0.1, weight_decay=0.1), "rmsprop": lambda: optim.rmsprop(0.1, momentum=0.5),
    "adagrad": lambda: optim.adagrad(0.1), "lion": lambda: optim.lion(0.1), "adafactor": lambda: optim.adafactor(0.1)}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_arrays_and_numbers_train_as_tensors_do(name):
    def params(leaf):
        return {"w": leaf(W), "b": [leaf(np.float32(0.5)), 0.25, 3], "n": leaf(np.arange(2)), "mode": "x"}

    def gradients(leaf):
        return {"w": leaf(T), "b": [leaf(np.float32(1)), 2.0, 0], "n": leaf(np.arange(2)), "mode": "x"}

    transform, found = TRANSFORMS[name](), []
    for compiled in (False, True):
        for p, g in zip(kinds_of(params).values(), kinds_of(gradients).values()):
            state = transform.init(p)
            for slot in transform.rule.slot_names:  # not the parameters themselves
                assert not np.asarray(nb.tree.leaves(state[slot]["w"])[0]).any()
            update = nb.jit(transform.update) if compiled else transform.update
            for _ in range(2):
                p, state = update(p, g, state)
            assert int(np.asarray(p["b"][2])) == 3 and p["mode"] == "x"
            found.append([np.asarray(p["w"]), np.asarray(p["b"][0]), np.asarray(p["b"][1]), np.asarray(p["n"])])
    assert not np.array_equal(found[0][0], W) and found[0][2] != 0.25
    for other in found[1:]:
        for a, b in zip(found[0], other):
            np.testing.assert_allclose(np.asarray(b, np.float64), a, rtol=1e-4, atol=1e-6)


def test_functions_of_gradients_take_arrays_and_numbers():
    made = kinds_of(lambda leaf: {"w": leaf(W), "s": [3.0, leaf(np.arange(3))], "name": "x"})
    norm = math.sqrt((W.astype(np.float64) ** 2).sum() + 9)
    for tree in made.values():
        assert abs(optim.global_norm(tree).item() - norm) < 1e-5
        clipped, before = optim.clip_by_global_norm(tree, 0.5)
        assert abs(before.item() - norm) < 1e-5 and clipped["name"] == "x"
        np.testing.assert_allclose(np.asarray(clipped["w"]), W * (0.5 / norm), rtol=1e-5)
        assert abs(float(clipped["s"][0]) - 1.5 / norm) < 1e-6
        bounded = optim.clip_by_value(tree, 0.1)
        np.testing.assert_allclose(np.asarray(bounded["w"]), W.clip(-0.1, 0.1), rtol=1e-6)
        assert abs(float(bounded["s"][0]) - 0.1) < 1e-6
    p, g, zero = W.astype(np.float64), T.astype(np.float64), np.zeros_like(W, np.float64)
    new, m, v = optim.adamw_step(p, g, zero, zero, 1, lr=0.1)
    np.testing.assert_allclose(np.asarray(new), p - 0.1 * np.sign(g), rtol=1e-6)
    assert new.dtype == nb.float64 and np.allclose(np.asarray(m), 0.1 * g) and np.allclose(np.asarray(v), 0.001 * g * g)
    np.testing.assert_allclose(np.asarray(optim.sgd_step(p, g, lr=0.1)[0]), p - 0.1 * g, rtol=1e-12)


def test_states_whose_tensors_began_as_one():
    net = nn.Linear(2, 1, key=0)
    opt = optim.AdamW(net, 0.1)
    zero = nb.zeros((2, 1))
    opt.state["m"]["weight"] = opt.state["v"]["weight"] = zero
    opt.load_state_dict({**opt.state_dict(), "m.weight": np.ones((2, 1), np.float32), "v.weight": nb.full((2, 1), 2.0)})
    assert opt.state["m"]["weight"].tolist() == [[1.0], [1.0]] and opt.state["v"]["weight"].tolist() == [[2.0], [2.0]]
    assert zero.tolist() == [[0.0], [0.0]]


def test_norms_of_float64_gradients_are_computed_in_float64():
    for size in (1e-30, 1e30, 1e150):
        x = np.array([3 * size, 4 * size])
        norm = optim.global_norm({"a": x, "b": np.zeros(2, np.float32)})
        assert norm.dtype == nb.float64 and abs(norm.item() / size - 5) < 1e-12
        clipped, before = optim.clip_by_global_norm({"a": x, "b": np.ones(1, np.float16)}, size)
        assert before.dtype == nb.float64 and clipped["a"].dtype == nb.float64 and clipped["b"].dtype == nb.float16
        if size > 1:  # the 1 of "b" does not count
            np.testing.assert_allclose(np.asarray(clipped["a"]), [0.6 * size, 0.8 * size])
    clipped, _ = optim.clip_by_global_norm({"a": np.array([1e30, 1.0])}, 1.0)
    np.testing.assert_allclose(np.asarray(clipped["a"]), [1.0, 1e-30])
    assert optim.global_norm({"a": np.ones(4, np.float16)}).dtype == nb.float32
