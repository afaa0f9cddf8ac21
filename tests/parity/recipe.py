"""How the arguments, tangents and cotangents of parity cases are made: the same numbers on every machine."""

import zlib
from dataclasses import dataclass, field

import numpy as np

FLOATS = {"f32": np.float32, "f64": np.float64}


@dataclass(frozen=True)
class Arg:
    """kind: how elements are drawn; a, b: its parameters."""

    kind: str
    shape: tuple
    a: float = 0.0
    b: float = 1.0


def N(*shape):
    """Normal."""
    return Arg("normal", shape)


def U(a, b, *shape):
    """Uniform in [a, b)."""
    return Arg("uniform", shape, a, b)


def D(*shape):
    """Different numbers between -2 and 2, none of them 0, in random order."""
    return Arg("distinct", shape)


def I(a, b, *shape):  # noqa: E743
    """Integers in [a, b): int32."""
    return Arg("int", shape, a, b)


def B(*shape):
    """bool."""
    return Arg("bool", shape)


def S(*shape):
    """Symmetric positive definite matrices."""
    return Arg("spd", shape)


def W(*shape):
    """Matrices with a strong diagonal."""
    return Arg("diagonal", shape)


@dataclass(frozen=True)
class Case:
    """One row: the expression of nabla (`nb`), that of JAX (by default the same with jnp), the arguments, and whether
    derivatives are compared. tol: times the tolerance of the dtype."""

    name: str
    nabla: str
    jax: str
    args: dict = field(hash=False)
    grad: bool = True
    tol: float = 1.0
    group: str = ""

    def floating(self):
        """The arguments that have derivatives."""
        return [k for k, a in self.args.items() if a.kind not in ("int", "bool")]


def _rng(text):
    return np.random.RandomState(zlib.crc32(text.encode()))


def array(case, name, dtype):
    """An argument of a case."""
    arg, rng = case.args[name], _rng(f"{case.name}/{name}")
    n = int(np.prod(arg.shape))
    if arg.kind == "int":
        return rng.randint(int(arg.a), int(arg.b), arg.shape).astype(np.int32)
    if arg.kind == "bool":
        return rng.randint(0, 2, arg.shape).astype(bool)
    if arg.kind == "normal":
        x = rng.randn(*arg.shape)
    elif arg.kind == "uniform":
        x = rng.uniform(arg.a, arg.b, arg.shape)
    elif arg.kind == "distinct":
        x = (np.linspace(-2, 2, n) + 2.0 / (3 * n))[rng.permutation(n)].reshape(arg.shape)
    elif arg.kind == "spd":
        x = rng.randn(*arg.shape)
        x = x @ np.swapaxes(x, -1, -2) + 2 * np.eye(arg.shape[-1])
    else:
        x = rng.randn(*arg.shape) + 4 * np.eye(arg.shape[-2], arg.shape[-1])
    # Both precisions begin with the same numbers.
    return np.asarray(x, np.float32).astype(FLOATS[dtype])


def moved(case, what, shape, dtype):
    """A tangent or cotangent."""
    return np.asarray(_rng(f"{case.name}/{what}").randn(*shape), np.float32).astype(FLOATS[dtype])
