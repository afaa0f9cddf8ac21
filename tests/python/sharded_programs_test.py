"""Random programs of tensors under random layouts: values and gradients are those of one rank, without a compile and
compiled for the ranks."""

import os
import random

import nabla as nb
import numpy as np
import pytest
from nabla.core.sharding import P
from nabla.ops.communication import all_gather, pmean

MESHES = [nb.DeviceMesh("m", (2,), ("a",)), nb.DeviceMesh("m", (4,), ("a",)), nb.DeviceMesh("m", (2, 2), ("a", "b")),
          nb.DeviceMesh("m", (2, 4), ("a", "b"))]
SIZE = 8


def product(r, x, y):
    return x @ y * 0.2


def scanned(r, x, y):
    return nb.scan(lambda c, row: (nb.tanh(c + row), c * row), nb.zeros(SIZE), x + y)[1]


def branch(r, x, y):
    return nb.cond(nb.sum(y) > 0, lambda a: nb.sin(a), lambda a: a * 0.5, x)


def attended(r, x, y):
    q, k = x.reshape((1, 2, SIZE // 2, SIZE)), y.reshape((1, 2, SIZE // 2, SIZE))
    return nb.nn.functional.scaled_dot_product_attention(q, k, q, is_causal=r.random() < 0.5).reshape((SIZE, SIZE))


def taken(r, x, y):
    return nb.gather(x, nb.asarray([r.randrange(SIZE) for _ in range(SIZE)]), axis=r.randrange(2))


def spread(r, x, y):
    axis = r.randrange(2)
    return nb.broadcast_to(nb.sum(x, axis=axis, keepdims=True), (SIZE, SIZE)) * 0.3 + y


def mapped(r, x, y):
    axes = r.randrange(2), r.randrange(2)
    return nb.vmap(lambda a, b: nb.softmax(a * 2) + nb.max(b), in_axes=(axes[0], 0), out_axes=axes[1])(x, y)


def halves(r, x, y):
    axis = r.randrange(2)
    return nb.concatenate([nb.split(x, 2, axis)[1], nb.split(y, 2, axis)[0]], axis=axis)


STEPS = [product, scanned, branch, attended, taken, spread, mapped, halves,
         lambda r, x, y: nb.where(x > y, x, y * 0.5), lambda r, x, y: nb.relu(x) - nb.tanh(y),
         lambda r, x, y: x.T, lambda r, x, y: nb.softmax(x, axis=r.randrange(2)),
         lambda r, x, y: nb.cumsum(x, axis=r.randrange(2)) * 0.2, lambda r, x, y: nb.flip(x, r.randrange(2)),
         lambda r, x, y: nb.sort(x + 0.01 * y, axis=r.randrange(2)),
         lambda r, x, y: nb.remat(lambda a: nb.exp(-a * a) * a)(x),
         lambda r, x, y: nb.nn.functional.layer_norm(x, nb.ones(SIZE), y[0])]


def program(seed):
    def f(*inputs):
        r, values = random.Random(seed), list(inputs)
        for _ in range(r.randint(3, 7)):
            x, y = r.choice(values[-3:]), r.choice(values)
            values.append(r.choice(STEPS)(r, x, y))
        return nb.mean(values[-1] * values[-2] + values[-1])

    return f


def draw_spec(r, mesh):
    axes = list(mesh.axis_names)
    r.shuffle(axes)
    dims = [[], []]
    for a in axes:
        if r.random() < 0.7:
            dims[r.randrange(2)].append(a)
    return nb.P(*[tuple(d) if d else None for d in dims])


SEEDS = range(200 if os.environ.get("NABLA_TEST_ALL") else 12)


@pytest.mark.parametrize("seed", SEEDS)
def test_program(seed):
    r = random.Random(seed + 1000)
    mesh, rng = r.choice(MESHES), np.random.RandomState(seed)
    arrays = [nb.asarray(rng.randn(SIZE, SIZE).astype(np.float32)) for _ in range(2)]
    f = nb.value_and_grad(program(seed), argnums=(0, 1))
    want, gradients = f(*arrays)
    specs = [draw_spec(r, mesh) for _ in arrays]
    laid_out = [nb.shard(a, mesh, s) for a, s in zip(arrays, specs)]
    for how, g in (("eager", f), ("jit", nb.jit(f))):
        got, grads = g(*laid_out)
        what = f"{how}, layouts {specs} over {mesh}"
        assert np.allclose(got.item(), want.item(), rtol=2e-4, atol=1e-5), what
        for a, b, x in zip(grads, gradients, laid_out):
            assert np.allclose(a.numpy(), b.numpy(), rtol=2e-3, atol=2e-5), what
            assert a.sharding is not None, what


def test_fsdp_in_a_region_sends_the_parts_of_its_gradients():
    """The derivative of all_gather is a sum of which each rank keeps its own part: a reduce_scatter."""
    mesh = nb.DeviceMesh("one", (4,), ("dp",))

    def step(w, x):
        grad = nb.grad(lambda w: pmean(nb.mean((x @ all_gather(w, 0, "dp")) ** 2), "dp"))(w)
        return w - 0.1 * grad

    sharded = nb.jit(nb.shard_map(step, mesh=mesh, in_specs=(P("dp"), P("dp")), out_specs=P("dp")))
    w, x = nb.random.normal(nb.random.key(0), (16, 8)), nb.random.normal(nb.random.key(1), (8, 16))
    whole = w - 0.1 * nb.grad(lambda w: nb.mean((x @ w) ** 2))(w)
    assert nb.allclose(sharded(w, x), whole, rtol=1e-5, atol=1e-6).item()
    lines = str(sharded.inspect()).splitlines()
    kinds = [line.split()[2] for line in lines if " along {dp} of 4" in line]
    assert sorted(kinds) == ["all_gather", "reduce_scatter"]
