"""A program of a user's, which mypy checks in strict mode: no value and no call of it is Any. //tests/python:types_test
has mypy read it; it runs, too."""

import sys
from typing import TYPE_CHECKING, Any

import nabla as nb
from nabla import nn

if sys.version_info >= (3, 11):
    from typing import assert_type
elif TYPE_CHECKING:
    from typing_extensions import assert_type
else:
    def assert_type(value: Any, kind: Any) -> Any:
        return value


# ---- Tensors, ops, indexing

x = nb.asarray([[1.0, 2.0], [3.0, 4.0]])
assert_type(x, nb.Tensor)
assert_type(x @ x.T + 1, nb.Tensor)
assert_type(2 * x, nb.Tensor)
assert_type(x > 1, nb.Tensor)
assert_type(x[0, ..., None], nb.Tensor)
assert_type(x.at[0, 1].set(5.0), nb.Tensor)
assert_type(x.sum(axis=(0, 1)).item(), float)
assert_type(x.dtype, nb.DType)
assert_type(x.ndim, int)
assert_type(x.dim(), int)
assert_type(nb.mean(x, axis=(0, 1)), nb.Tensor)
assert_type(nb.einsum("ij,jk->ik", x, x), nb.Tensor)
assert_type(nb.top_k(x, 1), tuple[nb.Tensor, nb.Tensor])
assert_type(nb.split(x, 2), list[nb.Tensor])
assert_type(nb.linalg.eigh(x @ x.T), tuple[nb.Tensor, nb.Tensor])
assert_type(nb.linalg.qr(x), tuple[nb.Tensor, nb.Tensor])
assert_type(nb.linalg.svd(x, compute_uv=False), nb.Tensor)
assert_type(nb.fft.rfft(x).abs(), nb.Tensor)
assert_type(nb.float32, nb.DType)
assert_type(nb.finfo("float32").eps, float)
assert_type(nb.mgrid[0:2, 0:3], nb.Tensor)
assert_type(nb.tree.map(lambda v: v * 2, {"a": x}), dict[str, nb.Tensor])
assert_type(nb.realize((x, x)), tuple[nb.Tensor, nb.Tensor])

key = nb.random.key(0)
assert_type(key, nb.Tensor)
assert_type(nb.random.normal(key, (2, 3)), nb.Tensor)
first, second = nb.random.split(key)
assert_type(first, nb.Tensor)


# ---- Transforms

Params = dict[str, nb.Tensor]


def loss(p: Params, x: nb.Tensor) -> nb.Tensor:
    return nb.sum((x @ p["w"]) ** 2)


def with_aux(p: Params, x: nb.Tensor) -> tuple[nb.Tensor, nb.Tensor]:
    value = loss(p, x)
    return value, value * 2


def cube(v: nb.Tensor) -> nb.Tensor:
    return nb.sum(v ** 3)


p: Params = {"w": nb.ones((2,))}
v = nb.asarray([1.0, 2.0])
assert_type(nb.grad(loss)(p, x), Params)
assert_type(nb.value_and_grad(loss)(p, x), tuple[nb.Tensor, Params])
assert_type(nb.grad(with_aux, has_aux=True)(p, x), tuple[Params, nb.Tensor])
assert_type(nb.grad(cube)(v), nb.Tensor)
assert_type(nb.hessian(cube)(v), nb.Tensor)
assert_type(nb.vmap(cube)(x), nb.Tensor)
assert_type(nb.vmap(nb.grad(cube))(x), nb.Tensor)
assert_type(nb.jvp(cube, (v,), (v,)), tuple[nb.Tensor, nb.Tensor])
assert_type(nb.vjp(cube, v)[0], nb.Tensor)
assert_type(nb.eval_shape(cube, v).dtype, nb.DType)
assert_type(nb.stop_gradient(p), Params)
assert_type(nb.checkpoint(cube)(v), nb.Tensor)
# Lambdas, whose arguments nothing says.
nb.grad(lambda w: nb.sum(w * w))(v)
assert_type(nb.value_and_grad(lambda p: nb.sum(p["w"] * 2))(p)[0], nb.Tensor)
nb.tree.map(lambda a, b: a - b, p, p)
nb.scan(lambda total, x: (total + x, total), 0.0, v)


def cell(h: nb.Tensor, x: nb.Tensor) -> tuple[nb.Tensor, nb.Tensor]:
    return h + x, h


def halved(state: tuple[nb.Tensor, nb.Tensor]) -> tuple[nb.Tensor, nb.Tensor]:
    return state[0] / 2, state[1] + 1


assert_type(nb.scan(cell, nb.zeros((2,)), x), tuple[nb.Tensor, nb.Tensor])
assert_type(nb.while_loop(lambda s: s[0] > 1, halved, (nb.asarray(8.0), 0))[1].item(), float)
assert_type(nb.cond(v[0] > 0, cube, cube, v), nb.Tensor)


@nb.custom_vjp
def straight_through(x: nb.Tensor) -> nb.Tensor:
    return nb.round(x)


straight_through.defvjp(lambda x: (nb.round(x), None), lambda residuals, ct: (ct,))
assert_type(straight_through(v), nb.Tensor)


# ---- Compiled functions

@nb.jit
def step(p: Params, x: nb.Tensor) -> tuple[Params, nb.Tensor]:
    value, g = nb.value_and_grad(loss)(p, x)
    return {k: p[k] - 0.01 * g[k] for k in p}, value


@nb.jit(donate_argnums=0, dynamic_dims={0: {0: ("rows", 1, 8)}})
def scaled(x: nb.Tensor) -> nb.Tensor:
    return x * 2


assert_type(step(p, x), tuple[Params, nb.Tensor])
assert_type(step.stats.misses, int)
assert_type(step.memory(p, x).arena, int)
assert_type(step.profile(p, x, runs=1).rows[0].seconds, float)
assert_type(scaled(nb.ones((3, 2))), nb.Tensor)


# ---- Modules and optimizers

class Net(nn.Module):
    def __init__(self, key: nb.Tensor) -> None:
        first, last = nb.random.split(key)
        self.layers = [nn.Linear(2, 8, key=first), nn.Linear(8, 1, key=last)]
        self.norm = nn.LayerNorm(8)
        self.scale = nn.Parameter([1.0])
        self.seen = nn.Buffer([0])

    def forward(self, x: nb.Tensor, train: bool = False) -> nb.Tensor:
        hidden = self.norm(nb.tanh(self.layers[0](x)))
        self.seen = self.seen + 1
        return self.layers[1](hidden) * self.scale


model = Net(key)
assert_type(model(x), nb.Tensor)
assert_type(model.layers[0].weight, nb.Tensor)
assert_type(model.eval(), Net)
assert_type(model.state_dict(), dict[str, nb.Tensor])
assert_type(nn.freeze(model, "layers.0.*"), Net)
nn.unfreeze(model)
attention = nn.MultiHeadAttention(8, 2)
assert_type(attention(nb.ones((1, 3, 8))), nb.Tensor)
assert_type(nn.LSTM(2, 4)(nb.ones((1, 3, 2)))[0], nb.Tensor)


def model_loss(m: Net, x: nb.Tensor) -> nb.Tensor:
    return nn.mse_loss(m(x), nb.zeros((2, 1)))


assert_type(nn.value_and_grad(model_loss)(model, x), tuple[nb.Tensor, dict[str, nb.Tensor]])
adamw = nn.optim.adamw(nn.optim.schedules.cosine(1e-2, total=10))
state = adamw.init(model)


@nb.jit
def train(model: Net, state: dict[str, Any], x: nb.Tensor) -> tuple[Net, dict[str, Any], nb.Tensor]:
    value, gradients = nn.value_and_grad(model_loss)(model, x)
    gradients, norm = nn.optim.clip_by_global_norm(gradients, 1.0)
    assert_type(norm, nb.Tensor)
    model, state = adamw.update(model, gradients, state)
    return model, state, value


model, state, value = train(model, state, x)
assert_type(value.item(), float)
optimizer = nn.optim.AdamW(model, lr=1e-2)
with nb.default_dtype("float64"), nn.rngs(key):
    assert_type(nb.zeros((2,)), nb.Tensor)


# ---- Programs

program = nb.export({"main": lambda x: x * 2}, args={"main": {"x": nb.spec((nb.symbol("batch", 1, 8), 2))}})
assert_type(program, nb.ExportedProgram)
assert_type(program.text, nb.IR)
nb.debug.print("x {}", x)
