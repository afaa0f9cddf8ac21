"""Memory: views that stay valid, copies that are copies, numbers as dtypes take them, sizes beyond all memory."""

import copy
import gc

import numpy as np
import pytest

import nabla as nb
from nabla import nn


def test_views_outlive_donation_and_writes():
    for size in (3, 5_000_000):
        x = nb.arange(size, dtype="float32") + 1
        view, array = memoryview(x), np.asarray(memoryview(x))
        kept = np.frombuffer(x, "float32")
        nb.jit(lambda v: v * 2, donate_argnums=0)(x)
        del x
        gc.collect()
        other = [nb.full((size,), 9.0).realize() for _ in range(3)]  # would lie in memory that came free
        assert view[0] == 1.0 and array[-1] == size and kept[-1] == size and len(other) == 3
    x = nb.asarray([1.0, 2.0])
    view = memoryview(x)
    x[0] = 5.0
    assert view.tolist() == [1.0, 2.0] and memoryview(x).tolist() == [5.0, 2.0]
    assert view.readonly and view.format == "f" and view.shape == (2,) and view.strides == (4,)
    with pytest.raises(BufferError, match="bf16 has no NumPy element type"):
        memoryview(nb.ones(2, dtype="bfloat16"))
    released = memoryview(nb.ones(2))
    released.release()
    assert memoryview(nb.asarray([[1, 2], [3, 4]], "int8")).tobytes() == b"\x01\x02\x03\x04"


@pytest.mark.parametrize("tracked", [False, True])
def test_copies_are_copies(tracked):
    leaf = nb.ones(1).requires_grad_() if tracked else None  # while it lives, copies are ops that derivatives pass
    source = np.ones(3, "float32")
    shared = nb.from_dlpack(source)
    for make in (copy.copy, copy.deepcopy, nb.array, nb.copy, nb.constant, nb.Tensor.clone, nb.Tensor.copy):
        x = nb.asarray([1.0, 2.0])
        y = make(x)
        x[0] = 7.0
        assert y.tolist() == [1.0, 2.0], make
        y[1] = 8.0
        assert x.tolist() == [7.0, 2.0], make
        z = make(shared)
        source[0] += 1
        assert z.tolist() == [source[0] - 1, 1, 1], make
    assert nb.asarray(shared) is shared
    pending = nb.ones(2) + 1
    y = copy.deepcopy(pending)
    pending[0] = 5.0
    assert y.tolist() == [2.0, 2.0]
    tree = {"a": [nb.ones(2)]}
    snapshot = copy.deepcopy(tree)
    tree["a"][0][0] = 3.0
    assert snapshot["a"][0].tolist() == [1.0, 1.0]
    assert leaf is None or leaf.requires_grad


def test_copies_keep_gradients():
    w = nb.asarray([1.0, 2.0]).requires_grad_()
    nb.sum(w * w).backward()
    other = copy.deepcopy(w)
    assert other.requires_grad and other.grad.tolist() == [2.0, 4.0] and other.grad is not w.grad
    nb.sum(w).backward()
    assert w.grad.tolist() == [3.0, 5.0] and other.grad.tolist() == [2.0, 4.0]
    nb.sum(other * 3).backward()
    assert other.grad.tolist() == [5.0, 7.0] and w.grad.tolist() == [3.0, 5.0]
    w.grad = None
    nb.sum(nb.array(w) * w.clone()).backward()  # copies lie on the way of a derivative
    assert w.grad.tolist() == [2.0, 4.0]
    assert nb.grad(lambda v: nb.sum(nb.array(v) ** 2))(nb.asarray([3.0])).tolist() == [6.0]


def test_states_of_modules_are_snapshots():
    model = nn.Linear(2, 2, key=0)
    before, other, deep = model.state_dict(), model.clone(), copy.deepcopy(model)
    weight = before["weight"].tolist()
    model.weight[0] = 100.0
    optimizer = nn.optim.SGD(model, lr=1.0)
    optimizer.step({"weight": nb.ones((2, 2)), "bias": nb.ones((1, 2))})
    assert before["weight"].tolist() == weight == other.weight.tolist() == deep.weight.tolist()
    assert model.weight.tolist() != weight
    model.load_state_dict(before)
    assert model.weight.tolist() == weight


@pytest.mark.parametrize("value, dtype", [
    (3e9, "int32"), (-3e9, "int32"), (300.7, "uint8"), (-1.5, "uint8"), (0.5, "bool"), (0.0, "bool"),
    (float("nan"), "bool"),
    (255, "uint8"), (2 ** 63, "uint64"), (-2 ** 63, "int64"),
    (7, "float16"), (1e30, "float16"), (2 ** 53 + 1, "float64"), (True, "int8"), (2, "bool"), (float("inf"), "int16")])
def test_numbers_become_what_astype_makes_of_them(value, dtype):
    wide = "float64" if isinstance(value, float) else "uint64" if value >= 2 ** 63 else "int64"
    want = nb.asarray(np.asarray([value], wide)).astype(dtype).tolist()
    for made in (nb.asarray([value], dtype), nb.asarray(value, dtype).reshape(1), nb.full((1,), value, dtype),
                 nb.constant([value], dtype), nb.full_like(nb.zeros(1), value, dtype),
                 nb.DType.__members__[dtype]([value])):
        assert made.tolist() == want or want != want, (made, want)


def test_ranges_of_large_numbers():
    assert nb.arange(2 ** 31, 2 ** 31 + 3, dtype="int64").tolist() == [2 ** 31, 2 ** 31 + 1, 2 ** 31 + 2]
    assert nb.arange(2 ** 31 - 1, 2 ** 31 + 1, dtype="int32").tolist() == [2 ** 31 - 1, -2 ** 31]
    assert nb.arange(250, 260, 3, dtype="uint8").tolist() == [250, 253, 0, 3]
    assert nb.arange(2 ** 60, 2 ** 60 + 2, dtype="int64").tolist() == [2 ** 60, 2 ** 60 + 1]
    assert nb.arange(0.5, 3, 0.5, dtype="int32").tolist() == [0, 1, 1, 2, 2]
    assert nb.arange(5, 0, -2).tolist() == [5, 3, 1] and nb.arange(3, 1).tolist() == []
    for make in (lambda: nb.arange(2 ** 31, 2 ** 31 + 3), lambda: nb.asarray([2 ** 31]),
                 lambda: nb.full((1,), 2 ** 31)):
        with pytest.raises(ValueError, match=f"{2 ** 31} does not fit into int32.*give a dtype"):
            make()
    with pytest.raises(ValueError, match="does not fit into 64 bits"):
        nb.asarray([2 ** 64], "int64")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_numbers_outside_of_a_given_dtype_are_refused(dtype):
    bits, low = 8 * nb.DType.__members__[dtype].itemsize, dtype[0] == "i"
    first, last = (-2 ** (bits - 1), 2 ** (bits - 1) - 1) if low else (0, 2 ** bits - 1)
    for make in (lambda n: nb.asarray([n], dtype), lambda n: nb.asarray(n, dtype), lambda n: nb.full((1,), n, dtype)):
        assert [make(n).tolist() in (n, [n]) for n in (first, last)] == [True, True]
        for n in (first - 1, last + 1):
            with pytest.raises((OverflowError, ValueError), match=f"{n} does not fit into"):
                make(n)


@pytest.mark.parametrize("make", [
    lambda: nb.realize(nb.zeros((2 ** 31, 2 ** 31))), lambda: repr(nb.zeros((2 ** 62, 4))),
    lambda: nb.tile(nb.ones(3), 2 ** 60),
    lambda: nb.repeat(nb.ones(3), 2 ** 61), lambda: nb.broadcast_to(nb.ones(1), (2 ** 50,)),
    lambda: nb.ones((2 ** 25, 1)) *
    nb.ones((2 ** 25,)), lambda: nb.jit(lambda x: nb.tile(x, 2 ** 60))(nb.ones(3)), lambda: nb.eye(2 ** 30, 2 ** 30)])
def test_sizes_beyond_all_memory_are_errors(make):
    with pytest.raises(nb.Error,
                       match=r"\d+\] may have more than 281474976710656 elements: its size is up to .* bytes") as e:
        make()
    assert e.value.code == "E0106" and "damaged" not in str(e.value) and "memory_test.py" in str(e.value)


def test_more_than_the_machine_has_is_an_error():
    with pytest.raises(nb.Error, match=r"no memory for tensors computed here; the largest is f32\[1099511627776\], "
                                       r"4398046511104 bytes"):
        nb.realize(nb.zeros((2 ** 40,)))
    assert nb.ones(3).sum().item() == 3


def test_arrays_without_elements_come_in():
    for shape in ((3, 0), (0,), (0, 4, 2)):
        assert nb.from_dlpack(np.ones(shape, "float32")).shape == shape
        assert nb.from_dlpack(nb.zeros(shape)).shape == shape and np.asarray(nb.zeros(shape)).shape == shape


def test_dlpack_copies_and_other_devices():
    class Asked:
        """Another library, which asks for a tensor as it pleases."""

        def __init__(self, x, **options):
            self.x, self.options = x, options

        def __dlpack__(self, **kwargs):
            return self.x.__dlpack__(**self.options)

        def __dlpack_device__(self):
            return self.x.__dlpack_device__()

    x = nb.asarray([1.0, 2.0])
    shared = np.from_dlpack(Asked(x))
    for options in ({}, {"copy": None}, {"copy": False}, {"dl_device": (1, 0)}, {"stream": None},
                    {"dl_device": None, "max_version": (1, 0)}):
        assert np.shares_memory(np.from_dlpack(Asked(x, **options)), shared)
    own = np.from_dlpack(Asked(x, copy=True))
    assert not np.shares_memory(own, shared) and own.tolist() == [1.0, 2.0]
    for device in ((2, 0), (1, 1), (13, 0)):
        with pytest.raises(BufferError, match="is not moved to"):
            x.__dlpack__(dl_device=device)
    with pytest.raises(TypeError):
        x.__dlpack__(copies=True)


# Ints without a tensor beside them become int32 tensors.
@pytest.mark.parametrize("f", [
    lambda n: nb.add(n, 1), lambda n: nb.maximum(n, 1), lambda n: nb.equal(n, 0), lambda n: nb.where(True, n, 1),
    lambda n: nb.stack([n, 1]), lambda n: nb.clip(n, 0, 5), lambda n: nb.zeros(2, dtype="int32").at[0].set(n),
    lambda n: nb.select([nb.asarray(True)], [n], 0)])
@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: nb.jit(f, static_argnums=0)], ids=["eager", "jit"])
def test_ints_beyond_int32_do_not_wrap(wrap, f):
    for n in (2**31, 2**32, 2**40, -2**31 - 1):
        with pytest.raises((OverflowError, ValueError), match=f"{n} does not fit into int32"):
            wrap(f)(n)
