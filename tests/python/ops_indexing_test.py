"""Reading and writing parts of tensors."""

import numpy as np
import pytest

import nabla as nb

A = np.arange(60, dtype=np.float32).reshape(3, 4, 5)


@pytest.mark.parametrize("index", [
    np.s_[0], np.s_[-1], np.s_[1, 2], np.s_[1, 2, 3], np.s_[...], np.s_[..., 0], np.s_[:, 1], np.s_[1:], np.s_[:-1],
    np.s_[::2], np.s_[::-1], np.s_[:, 3:0:-2], np.s_[:, 3::-3], np.s_[5:], np.s_[2:1], np.s_[None], np.s_[:, None, 1],
    np.s_[..., None], np.s_[1, ..., ::-2], np.s_[[0, 2]], np.s_[[0, 0, 1], [1, 1, 2]], np.s_[:, [0, 3, 3]],
    np.s_[[0, 1], :, [2, 3]], np.s_[0, :, [2, 3]], np.s_[1:, [0, 3], ::2], np.s_[[[0, 1], [1, 2]]], np.s_[[-1, -3]],
    np.s_[[True, False, True]], np.s_[A > 30], np.s_[:, np.array([True, False, True, True])],
    np.s_[[True, False, True], 1:], np.s_[None, [1, 2], ..., None], np.s_[[]], np.s_[np.int64(1)],
    np.s_[1, None, [0, 1]],
    np.s_[:, np.array([[0], [1]]), np.array([2, 3])]], ids=str)
def test_reading_and_writing(index):
    x, want = nb.asarray(A), A[index]
    got = x[index]
    assert tuple(got.shape) == want.shape
    np.testing.assert_array_equal(got.numpy(), want)
    for name in ("set", "add"):
        changed = A.copy()
        values = np.arange(want.size, dtype=np.float32).reshape(want.shape) + 100
        if name == "set":
            if len(np.unique(np.arange(60).reshape(3, 4, 5)[index])) < want.size:
                continue
            changed[index] = values
        else:
            np.add.at(changed, index, values)
        np.testing.assert_array_equal(getattr(x.at[index], name)(nb.asarray(values)).numpy(), changed)
    changed = A.copy()
    changed[index] = 7
    np.testing.assert_array_equal(x.at[index].set(7).numpy(), changed)


def test_repeated_places_accumulate():
    x = nb.zeros(3)
    assert x.at[[0, 0, 2]].add(1.0).tolist() == [2, 0, 1]
    assert nb.ones(3).at[[1, 1]].multiply(3.0).tolist() == [1, 9, 1]
    assert x.at[[1, 1]].max(nb.asarray([1.0, 5.0])).tolist() == [0, 5, 0]
    assert nb.ones(3).at[[1, 1]].min(nb.asarray([-1.0, 5.0])).tolist() == [1, -1, 1]
    assert nb.grad(lambda t: (t[nb.asarray([0, 0, 1])] * 2).sum())(nb.ones(2)).tolist() == [4, 2]


def test_other_writes():
    x = nb.asarray([1.0, 2.0, 4.0])
    assert x.at[1].divide(2).tolist() == [1, 1, 4]
    assert x.at[1:].subtract(1).tolist() == [1, 1, 3]
    assert x.at[1:].power(2).tolist() == [1, 4, 16]
    assert x.at[-1].apply(nb.sqrt).tolist() == [1, 2, 2]
    assert x.at[nb.asarray([0, 7])].get(mode="fill", fill_value=-1).tolist() == [1, -1]
    assert x.at[nb.asarray([0, 7])].set(9).tolist() == [9, 2, 4]
    assert x.at[nb.asarray([0, 7])].set(9, mode="clip").tolist() == [9, 2, 9]


def test_in_place():
    x = nb.zeros((2, 3))
    y = x
    x[0] = 1
    x[:, 1] = nb.asarray([5, 6])
    x[x > 5] = -1
    assert x.tolist() == [[1, 5, 1], [0, -1, 0]] and y is x
    z = x * 1
    x += 1
    x[0, 0] += 10
    assert x[0, 0].item() == 12 and z[0, 0].item() == 1
    w = nb.ones(2)
    w.requires_grad_()
    with pytest.raises(nb.Error, match="requires a gradient"):
        w[0] = 2


def test_in_place_in_traces():
    def f(x, v):
        y = x * 2
        y[0] = v
        x[1:] = y[1:] * 3
        y[-1] += x[1]
        return nb.sum(y * x)

    x, v = nb.asarray([1.0, 2.0, 3.0]), nb.asarray(5.0)

    def pure(x, v):
        y = (x * 2).at[0].set(v)
        x = x.at[1:].set(y[1:] * 3)
        return nb.sum(y.at[-1].add(x[1]) * x)

    assert nb.jit(f)(x, v).item() == pure(x, v).item() == nb.checkpoint(f)(x, v).item()
    for mine, other in zip(nb.grad(f, (0, 1))(x, v), nb.grad(pure, (0, 1))(x, v)):
        assert mine.tolist() == other.tolist()
    assert nb.vmap(nb.grad(f))(nb.stack([x, x]), nb.stack([v, v])).tolist() == [nb.grad(pure)(x, v).tolist()] * 2
    assert nb.jvp(f, (x, v), (nb.ones(3), nb.ones(())))[1].item() == nb.jvp(pure, (x, v),
                                                                            (nb.ones(3), nb.ones(())))[1].item()
    assert x.tolist() == [1.0, 2.0, 3.0]  # what a transform hands in are other tensors

    def loop(x):
        out = nb.zeros((3,))
        def body(i, s):
            s[i] = x[i] * 2
            return s
        out = nb.fori_loop(0, 3, body, out)
        made = nb.asarray([0.0, 0.0])
        made[0] = out[1]
        return nb.sum(out) + made[0]

    assert nb.jit(loop)(x).item() == loop(x).item() == 16.0 and nb.grad(loop)(x).tolist() == [2.0, 4.0, 2.0]


def test_tensors_of_outside_are_not_written_in_traces():
    held = nb.zeros((2,))

    def write(v):
        held[0] = v
        return v

    for run, x in ((nb.grad(write), nb.asarray(1.0)), (nb.jit(write), nb.asarray(1.0)),
                   (nb.vmap(write), nb.ones((2,)))):
        with pytest.raises(nb.Error, match=r"a write into f32\[2\], which a traced function does not own"):
            run(x)
    assert held.tolist() == [0.0, 0.0]

    def inner_writes_outer(x):
        def body(i, s):
            x[0] = s
            return s
        return nb.fori_loop(0, 2, body, 1.0) + x[0]

    with pytest.raises(nb.Error, match=r"y = x\.clone\(\)"):
        nb.jit(inner_writes_outer)(nb.ones(2))


def test_state_that_is_written_in_place_is_kept(tmp_path):
    def step(state, x):
        state["w"][0] = x
        return state, {"sum": nb.sum(state["w"])}

    program = nb.export({"init": lambda: {"w": nb.zeros((3,)), "b": nb.ones((1,))}, "step": step},
                        state={"w": nb.spec((3,)), "b": nb.spec((1,))}, args={"step": {"x": nb.spec(())}})
    bundle = nb.compile_bundle(program, tmp_path / "p.nbundle")
    bundle.run("init")
    assert bundle.run("step", x=4.0)["sum"].item() == 4.0 and bundle.get_state("w").tolist() == [4.0, 0.0, 0.0]
    assert bundle.get_state("b").tolist() == [1.0]


def test_computed_indices():
    f = nb.jit(lambda x, i: (x[i], x.at[i].set(0.0), x[i:i + 1] if isinstance(i, int) else x[1:]))
    x = nb.asarray([1.0, 2.0, 3.0])
    a, b, _ = f(x, nb.asarray(-1))
    assert a.item() == 3 and b.tolist() == [1, 2, 0]
    assert nb.vmap(lambda v, i: v[i])(nb.asarray([[1, 2], [3, 4]]), nb.asarray([1, 0])).tolist() == [2, 3]


def test_masks_in_traces():
    x = nb.asarray([1.0, -2.0, 3.0])
    assert nb.jit(lambda v: v.at[v < 0].set(0.0))(x).tolist() == [1, 0, 3]
    assert nb.jit(lambda v: v.at[v < 0].add(1.0))(x).tolist() == [1, -1, 3]
    with pytest.raises(nb.Error, match="masked_select"):
        nb.jit(lambda v: v[v < 0])(x)
    with pytest.raises(nb.Error, match="known only at run time"):
        nb.jit(lambda v: v.at[v < 0].set(nb.ones(1)))(nb.ones((3, 2))[:, 0] * 1.0).realize()
    keep = nb.asarray([True, False, True])
    assert nb.jit(lambda v: v[keep])(x).tolist() == [1, 3]


@pytest.mark.parametrize("index, error", [
    (np.s_[3], IndexError), (np.s_[0, 0, 0, 0], IndexError), (np.s_[..., ...], IndexError), (np.s_[1.5], IndexError),
    (np.s_[[0.5]], IndexError), (np.s_[True], IndexError), (np.s_[::0], ValueError), (np.s_["a"], Exception),
    (np.s_[np.array([True, False])], IndexError), (np.s_[[0, 1], [0, 1, 2]], ValueError)], ids=str)
def test_errors(index, error):
    with pytest.raises(error):
        nb.asarray(A)[index]


def test_values_that_do_not_fit():
    with pytest.raises(ValueError, match="sizes differ"):
        nb.zeros((2, 3)).at[0].set(nb.ones(2))
    with pytest.raises(TypeError):
        nb.zeros(3, "int32").at[0].divide(2)


def test_shapes_that_depend_on_elements():
    x = nb.asarray([3, 0, 3, 1])
    assert nb.bincount(x).tolist() == [1, 1, 0, 2] and nb.nonzero(x).tolist() == [[0], [2], [3]]
    assert nb.unique(x).tolist() == [0, 1, 3] and nb.unique(x, size=5).tolist() == [0, 1, 3, 0, 0]
    assert nb.jit(lambda v: nb.bincount(v, length=3))(x).tolist() == [1, 1, 0]
    assert nb.jit(lambda v: nb.nonzero(v, size=2))(x).tolist() == [[0], [2]]
    for f in (nb.bincount, nb.nonzero, nb.unique, lambda v: nb.histogram(v, 2)):
        with pytest.raises(nb.Error, match="needs a"):
            nb.jit(f)(x)


N = 2**31 + 11


@pytest.mark.parametrize("f", [
    lambda x: x.at[-1].set(9), lambda x: x.at[N - 2].add(9), lambda x: x.at[N - 2:].set(9),
    lambda x: x.at[N - 3::2].add(9), lambda x: x.at[None, -1].set(9), lambda x: x.at[nb.asarray([-1])].set(9),
    lambda x: x[None].at[nb.asarray([0]), -1].set(9), lambda x: x[None].at[nb.asarray([0]), -2:].set(9),
    lambda x: nb.dynamic_slice(x, [N - 3], [3]), lambda x: nb.dynamic_slice(x[None], [nb.asarray(0), -3], [1, 3]),
    lambda x: nb.dynamic_update_slice(x, nb.ones(2, "uint8"), [-2]), lambda x: nb.take(x, nb.asarray([-1])),
    lambda x: nb.slice_update(x, nb.ones(2, "uint8"), [N - 2]), lambda x: nb.put(x, [-1], 3),
    lambda x: nb.put_along_axis(x, nb.asarray([-1]), nb.asarray([3], "uint8"), 0),
    lambda x: nb.take_along_axis(x, nb.asarray([-1]), 0)])
def test_places_beyond_int32_are_int64(f):
    one = nb.asarray(1, "uint8")
    text = str(nb.trace(lambda s: f(nb.broadcast_to(s, (N,))), one))
    # The last op that reads or writes has an index operand. Its name is defined as int64 above.
    line = [v for v in text.splitlines() if any(op in v for op in ("dynamic_", "gather(", "scatter_"))][-1]
    first = 1 if "dynamic_slice" in line or "gather" in line else 2
    names = line.split("(")[1].split(")")[0].split(", ")
    places = names[first:] if "dynamic_" in line else [names[1]]
    for name in places:
        assert f"{name}: i64" in text or [v for v in text.splitlines() if v.strip().startswith(f"{name} = ")
                                          and ": i64" in v], text
