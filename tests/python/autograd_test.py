"""backward() and .grad."""

import resource

import pytest

import nabla as nb


def leaf(values):
    return nb.asarray(values).requires_grad_()


def test_gradients_accumulate():
    w = leaf([1.0, 2.0])
    nb.sum(w * w).backward()
    assert w.grad.tolist() == [2.0, 4.0]
    nb.sum(w * 3.0).backward()
    assert w.grad.tolist() == [5.0, 7.0]


def test_the_graph_survives_looking_at_values():
    w = leaf([1.0, 2.0])
    y = nb.sum(w * w)
    assert y.item() == 5.0 and str(y)
    z = y * 2.0
    assert z.item() == 10.0
    z.backward()
    assert w.grad.tolist() == [4.0, 8.0]


def test_a_graph_is_gone_after_backward_unless_retained():
    w = leaf([1.0, 2.0])
    y = nb.sum(w * w)
    y.backward(retain_graph=True)
    y.backward()
    assert w.grad.tolist() == [4.0, 8.0]
    with pytest.raises(nb.Error, match="retain_graph"):
        y.backward()


def test_cotangents_and_several_outputs():
    w, v = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    nb.backward([w * v, nb.sum(w)], [nb.asarray([1.0, 10.0]), None])
    assert w.grad.tolist() == [4.0, 41.0] and v.grad.tolist() == [1.0, 20.0]
    with pytest.raises(ValueError, match=r"backward\(\) of f32\[2\] needs a cotangent"):
        (w * v).backward()


def test_only_what_requires_gradients_gets_them():
    w, x = leaf([1.0]), nb.asarray([5.0])
    nb.sum(w * x).backward()
    assert x.grad is None and w.grad.tolist() == [5.0]
    with pytest.raises(nb.Error, match="requires gradients"):
        nb.sum(x * 2.0).backward()
    with pytest.raises(nb.Error, match=r"i32\[1\]"):
        nb.asarray([1]).requires_grad_()


def test_training_by_hand():
    w = leaf([0.0])
    for _ in range(50):
        loss = nb.sum((w - 3.0) ** 2)
        loss.backward()
        w = leaf((w - 0.1 * w.grad).tolist())
    assert abs(w.item() - 3.0) < 1e-3


def test_modules_get_gradients_as_soon_as_they_are_called():
    model = nb.nn.Sequential(nb.nn.Linear(3, 4, key=0), nb.nn.Linear(4, 1, key=1))
    model.scale = nb.ones((1,))  # a buffer
    assert all(p.requires_grad for p in model.parameters()) and not model.scale.requires_grad
    x = nb.ones((2, 3))
    want = nb.grad(lambda m: nb.sum(m(x) ** 2))(model)
    nb.sum(model(x) ** 2).backward()
    for p, g in zip(model.parameters(), want.parameters()):
        nb.testing.assert_allclose(p.grad, g)
    assert model.scale.grad is None
    optimizer = nb.nn.optim.SGD(model, lr=0.01)
    losses = []
    for _ in range(5):
        model.zero_grad()
        loss = nb.sum(model(x) ** 2)
        loss.backward()
        model = optimizer.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]


def test_without_gradients_nothing_is_kept():
    w = leaf([1.0, 2.0])
    y = nb.sum(w * w)
    with nb.no_grad():
        z = y * 2.0
        other = nb.sum(w * 3.0)
        assert z.item() == 10.0
    with pytest.raises(nb.Error, match="requires gradients"):
        other.backward()
    y.backward()  # looking at it there took nothing away
    assert w.grad.tolist() == [2.0, 4.0]

    @nb.no_grad()
    def doubled(x):
        return x * 2.0

    with pytest.raises(nb.Error, match="requires gradients"):
        nb.sum(doubled(w)).backward()
    with pytest.raises(nb.Error, match="stop_gradient"):
        nb.jit(lambda x: doubled(x))(nb.ones(2))


def test_a_graph_that_nobody_holds_is_forgotten():
    w = leaf([1.0] * 100_000)
    (w * 1.0).realize()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(500):
        (w * float(i)).realize()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 50, f"{grown} MiB more; all results together are 190"
    # What is still held keeps its graph.
    kept = nb.sum(w * w)
    for _ in range(3):
        nb.sum(w * 2.0).item()
    kept.backward()
    assert w.grad.tolist() == [2.0] * 100_000


def test_not_inside_of_traces():
    w = leaf([1.0])
    with pytest.raises(nb.Error, match="use nabla.grad"):
        nb.jit(lambda x: (nb.sum(x * w).backward(), x)[1])(nb.asarray([1.0]))
