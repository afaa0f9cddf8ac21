"""Programs for the Python library nabla-ml: its import paths, and the ways of its published examples."""

import collections
import importlib
import re

import pytest

import nabla as nb


def test_import_paths_lead_to_one_public_surface():
    for path in ("nabla.ops", "nabla.ops.communication", "nabla.transforms", "nabla.nn", "nabla.nn.functional",
                 "nabla.nn.optim", "nabla.nn.finetune", "nabla.core", "nabla.core.sharding", "nabla.core.sharding.spec",
                 "nabla.core.sharding.propagation", "nabla.config", "nabla.testing"):
        importlib.import_module(path)
    from nabla.core import Tensor, trace
    from nabla.core.sharding import DeviceMesh
    assert Tensor is nb.Tensor and trace is nb.trace and DeviceMesh is nb.DeviceMesh


def test_names_of_sharding_stand_in_annotations():
    def annotated(mesh: nb.DeviceMesh | None = None) -> "nb.P":
        return mesh

    assert annotated() is None and not isinstance(nb.ones(2), nb.DeviceMesh)
    assert nb.ones(2).sharding is None and nb.ones(2).global_shape == (2,)


def test_names_that_are_not_there_are_explained():
    from nabla import _hints
    for name, why in _hints.ABSENT.items():
        for module in (nb, nb.ops):
            with pytest.raises(AttributeError, match=f"has no attribute '{name}': {re.escape(why)}"):
                getattr(module, name)


def test_tensors_move_by_ops_too():
    mesh = nb.DeviceMesh("pod", (2,), ("dp",))
    spec = nb.core.sharding.ShardingSpec(mesh, ["dp"])
    for module in (nb, nb.ops, nb.ops.communication):
        assert module.transfer_to(nb.ones(4), sharding=spec).local_shape == (2,)
        assert module.to_device(nb.ones(4), nb.CPU()).shape == module.cpu(nb.ones(4)).shape == (4,)


def test_traces_print_as_the_ir():
    text = nb.trace(lambda x, y: nb.sin(x) * y, nb.ones(2), nb.ones(2))
    assert "sin(" in str(text) and repr(text) == str(text) and "\n" in repr(text)


def test_a_value_of_one_element_has_a_gradient():
    def f(x):
        return x ** 3 + 2.0 * x ** 2 - 5.0 * x + 3.0

    x = nb.asarray([2.0])
    value, g = nb.value_and_grad(f)(x)
    assert value.tolist() == [9.0] and g.tolist() == [15.0] and nb.grad(f)(x).tolist() == [15.0]
    (value, aux), g = nb.value_and_grad(lambda x: (f(x), x.shape), has_aux=True)(nb.asarray([[2.0]]))
    assert value.shape == (1, 1) and g.tolist() == [[15.0]]
    assert nb.grad(nb.grad(f))(x).tolist() == [16.0]
    with pytest.raises(nb.Error, match=r"f32\[2\]"):
        nb.grad(f)(nb.ones(2))


def test_layers_have_names():
    layers = collections.OrderedDict(up=nb.nn.Linear(2, 4, key=0), act=nb.nn.ReLU(), down=nb.nn.Linear(4, 1, key=1))
    model = nb.nn.Sequential(layers)
    assert model.up is layers["up"] and model[2] is layers["down"] and len(model) == 3 and model["act"] is model[1]
    assert [p for p, _ in model.named_parameters("net")] == [
        "net.up.weight", "net.up.bias", "net.down.weight", "net.down.bias"]
    assert model(nb.ones((3, 2))).shape == (3, 1)
    listed = nb.nn.Sequential(nb.nn.Linear(2, 2, key=0))
    assert getattr(listed, "0") is listed[0] and not hasattr(listed, "1")
    with pytest.raises(AttributeError, match="Sequential has no attribute 'left'"):
        model.left


def test_plain_tensors_are_buffers():
    class Model(nb.nn.Module):
        def __init__(self):
            super().__init__()
            self.positions = nb.ones((3,))
            self.w = nb.ones((3,)).requires_grad_()

    model = Model()
    assert [n for n, _ in model.named_parameters()] == ["w"] and [n for n, _ in model.named_buffers()] == ["positions"]
    # A state of the parameters alone leaves the others; one that has some of them must have all.
    model.load_state_dict({"w": nb.zeros((3,))})
    assert model.w.tolist() == [0.0] * 3 and model.positions.tolist() == [1.0] * 3
    with pytest.raises(ValueError, match="the state lacks w"):
        model.load_state_dict({"positions": nb.zeros((3,))})


def test_four_bits_of_any_size():
    from nabla.nn import finetune as ft
    w = nb.random.normal(nb.random.key(0), (7, 5))
    q = ft.quantize_nf4(w, block_size=8)
    back = ft.dequantize_nf4(q)
    assert back.shape == (7, 5) and q.codes.shape == (20,) and nb.max(nb.abs(back - w)).item() < 0.5
    adapter = ft.init_lora_adapter(w, 2, key=0)
    x = nb.ones((2, 7))
    out = ft.qlora_linear(x, q, adapter, alpha=2.0, compute_dtype=nb.bfloat16)
    assert out.dtype == nb.bfloat16
    nb.testing.assert_allclose(ft.qlora_linear(x, q, adapter), x @ back)


def test_execution_policies():
    class Lazy(nb.nn.Module):
        def forward(self, x):
            return x + 1.0

    assert not Lazy()(nb.ones(2)).is_realized
    Lazy.set_execution_policy(auto_realize_toplevel_forward=True)
    assert Lazy()(nb.ones(2)).is_realized and Lazy.get_execution_policy()["auto_realize_toplevel_forward"]
    assert not nb.nn.Module.get_execution_policy()["auto_realize_toplevel_forward"]
    optimizer = nb.nn.optim.AdamW(nb.nn.Linear(2, 1, key=0), lr=1e-2)
    assert (optimizer.lr, optimizer.beta1, optimizer.beta2) == (1e-2, 0.9, 0.999)
    with pytest.raises(AttributeError, match="AdamW has no nesterov"):
        optimizer.nesterov


def test_defaults_are_those_of_its_programs():
    assert [p.shape[0] for p in nb.chunk(nb.arange(10), 3)] == [4, 3, 3]
    assert [p.tolist() for p in nb.chunk(nb.arange(2), 3)] == [[0], [1], []]
    x = nb.reshape(nb.arange(6), (1, 2, 3, 1))
    assert nb.squeeze(x).shape == (2, 3, 1) and x.squeeze().shape == (2, 3) and nb.squeeze(x, None).shape == (2, 3)
    with pytest.raises(nb.Error, match=r"squeeze: axis 0 of i32\[2,1\] has the size 2, not 1"):
        nb.squeeze(nb.reshape(nb.arange(2), (2, 1)))
    rows = nb.reshape(nb.arange(6), (3, 2))
    assert nb.take(rows, nb.asarray([2, 0])).tolist() == [[4, 5], [0, 1]]
    assert nb.take(rows, nb.asarray([2, 0]), None).tolist() == [2, 0]
    assert rows.take(nb.asarray([1])).tolist() == [[2, 3]]


def test_the_third_argument_of_grad_is_create_graph():
    f = lambda x: x ** 3  # noqa: E731
    x = nb.asarray(2.0)
    assert nb.grad(lambda v: nb.grad(f, 0, True)(v))(x).item() == 12.0
    assert nb.grad(lambda v: nb.grad(f, 0, False)(v))(x).item() == 0.0
    assert nb.value_and_grad(f, 0, True, False)(x)[1].item() == 12.0
    (value, aux), g = nb.value_and_grad(lambda v: (f(v), "aux"), has_aux=True)(x)
    assert (value.item(), aux, g.item()) == (8.0, "aux", 12.0)
    with pytest.raises(TypeError, match="has_aux=True is for more than that"):
        nb.grad(lambda v: (f(v), v), 0, True)(x)


def test_transforms_decorate():
    @nb.vmap(in_axes=(0, None))
    def scaled(row, factor):
        """What it does."""
        return nb.sum(row) * factor

    assert scaled(nb.ones((3, 2)), 2.0).tolist() == [4.0] * 3 and scaled.__doc__ == "What it does."

    @nb.vmap(in_axes=1, out_axes=0)
    def columns(column):
        return column * 2

    assert columns(nb.ones((2, 3))).shape == (3, 2)
