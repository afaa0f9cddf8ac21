"""Devices, defaults and settings."""

import pytest

import nabla as nb


def test_defaults():
    with nb.default_dtype("float64"):
        assert nb.zeros(2).dtype == nb.float64 == nb.asarray(1.5).dtype == nb.asarray([1.5]).dtype
        assert (nb.ones(2, "int32") / 2).dtype == nb.float64
        with nb.defaults(dtype="bfloat16", device="cpu"):
            assert nb.ones(2).dtype == nb.bfloat16
    assert nb.zeros(2).dtype == nb.float32
    with nb.defaults_like(nb.ones(1, "float16")):
        assert nb.linspace(0, 1, 3).dtype == nb.float16
    with nb.default_device(nb.CPU()) as device:
        assert device == nb.CPU() and repr(device) == "CPU()"


def test_devices():
    x = nb.ones(2)
    assert nb.to_device(x, "cpu") is x and nb.cpu({"a": x})["a"] is x and nb.transfer_to(x, nb.CPU()) is x
    assert nb.grad(lambda v: nb.transfer_to(v, nb.CPU()).sum())(x).tolist() == [1, 1]
    with pytest.raises(TypeError, match="a device and a sharding"):
        nb.transfer_to(x, nb.CPU(), sharding=object())
    with pytest.raises(TypeError, match="no device"):
        nb.to_device(x, 3)
    with pytest.raises(ValueError):
        nb.CPU(1)
    count = nb.devices.accelerator_count()
    with pytest.raises(nb.Error, match="GPU"):
        nb.Accelerator(count)
    with pytest.raises(nb.Error):
        nb.gpu(x)
    with pytest.raises(nb.Error):
        x.cuda()


def test_dtypes():
    for name in ("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
                 "bfloat16", "float32", "float64"):
        assert nb.ones(2, getattr(nb, name)).dtype == getattr(nb, name)
    assert nb.dtype_of("f32") == nb.float32 and nb.dtype_of(float) == nb.float32 and nb.dtype_of(int) == nb.int32


def test_config():
    assert nb.config.TRACING is False and nb.config.default_dtype == nb.float32 and nb.config.default_device == nb.CPU()
    seen = []
    nb.vmap(lambda v: seen.append(nb.config.is_tracing()) or v)(nb.ones(2))
    assert seen == [True]
    assert nb.config.EAGER_MAX_GRAPH is False and nb.config.VERIFY_EAGER_SHAPES is True
    nb.config.EAGER_MAX_GRAPH = False
    for change in (lambda: setattr(nb.config, "EAGER_MAX_GRAPH", True), lambda: nb.config.set_eager_max_graph(True),
                   lambda: nb.config.set_verify_eager_shapes(False)):
        with pytest.warns(RuntimeWarning, match="changes nothing"):
            change()
    assert nb.config.EAGER_MAX_GRAPH is False
    with pytest.raises(AttributeError, match="it has"):
        nb.config.nothing
