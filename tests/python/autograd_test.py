"""backward() and .grad."""

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


def test_not_inside_of_traces():
    w = leaf([1.0])
    with pytest.raises(nb.Error, match="use nabla.grad"):
        nb.jit(lambda x: (nb.sum(x * w).backward(), x)[1])(nb.asarray([1.0]))
