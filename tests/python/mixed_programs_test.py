"""Random programs of mixed dtypes, three ways: eager, compiled by jit, and as entries of a bundle.

Casts, bitcasts, integer and index arithmetic, floats of all widths, special values. What rounding may change is kept
apart: such values are bounded, and meet no comparison, cast to integers or bitcast. A jit of many programs is one
compilation; the target mixed_programs_nightly draws thousands.
"""

import os

import nabla as nb
import numpy as np
import pytest

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
SIZE = {"bool": 1, "bfloat16": 2, **{d: np.dtype(d).itemsize for d in INTS}, "float16": 2, "float32": 4, "float64": 8}
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
ROUNDED, VALUES, BITS = 0, 1, 2  # within an error; exact but for signs of zeros; exact
LARGEST = 8.0
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, np.inf, -np.inf, np.nan, 1e-8, 1e-40, 65504.0, 65520.0, 3.3e38, 1e300,
           -128.5, 255.5, 2.0**31, -(2.0**31), 2.0**32, 2.0**63, -(2.0**63), 2.0**64, 16777217.0, 2049.0, 257.0]
MANY = os.environ.get("NABLA_TEST_ALL") == "1"


class Program:
    """A list of steps: what to do with the values so far, drawn once and replayed by `run`."""

    def __init__(self, seed, steps):
        self.rng = np.random.RandomState(seed)
        self.shape = (1 + self.rng.randint(3), 1 + self.rng.randint(37))
        self.dtypes = [self.one(INTS if self.rng.randint(3) else FLOATS) for _ in range(4)]
        self.values = [(d, BITS, 0.0) for d in self.dtypes]  # (dtype, trust, error)
        self.steps = []
        while len(self.steps) < steps:
            self.draw()
        self.outputs = list(range(max(0, len(self.values) - 5), len(self.values)))

    def one(self, options):
        return options[self.rng.randint(len(options))]

    def find(self, fits):
        recent = [i for i in range(max(0, len(self.values) - 12), len(self.values)) if fits(*self.values[i])]
        return self.one(recent) if recent else None

    def add(self, f, dtype, trust, error=0.0):
        if error < 1:
            self.steps.append(f)
            self.values.append((dtype, trust, error))

    def like(self, i, least):
        dtype = self.values[i][0]
        other = self.find(lambda d, t, e: d == dtype and t >= least)
        return i if other is None else other

    def rounded(self, f, dtype, error):
        self.add(lambda v: nb.clip(f(v), -LARGEST, LARGEST), dtype, ROUNDED, error + 16 * LARGEST * EPSILON[dtype])

    def draw(self):
        kind = self.rng.randint(9)
        if kind <= 1:
            self.cast()
        elif kind == 2:
            self.bits()
        elif kind == 3:
            self.integers()
        elif kind == 4:
            i = self.find(lambda d, t, e: t)
            k, op = self.like(i, VALUES), self.one([nb.eq, nb.ne, nb.lt, nb.le, nb.gt, nb.ge])
            self.add(lambda v: op(v[i], v[k]), "bool", BITS)
        elif kind == 5:
            p, a = self.find(lambda d, t, e: t), self.find(lambda d, t, e: True)
            b = self.like(a, ROUNDED)
            (d, t, e), (_, u, g) = self.values[a], self.values[b]
            self.add(lambda v: nb.where(nb.cast(v[p], "bool"), v[a], v[b]), d, min(t, u), max(e, g))
        elif kind == 6:
            self.positions()
        else:
            self.floats()

    def cast(self):
        i = self.find(lambda d, t, e: True)
        d, t, e = self.values[i]
        to = self.one(FLOATS) if not t else self.one(INTS if self.rng.randint(3) else [*FLOATS, "bool"])
        self.add(lambda v: nb.cast(v[i], to), to, t, e + (0 if t else 16 * LARGEST * EPSILON[to]))

    def bits(self):
        i = self.find(lambda d, t, e: t == BITS and d != "bool")
        if i is None:
            return
        d = self.values[i][0]
        to = self.one([o for o in INTS + FLOATS if SIZE[o] == SIZE[d]])
        # The payload of a NaN is nobody's promise.
        clean = (lambda x: nb.where(nb.isnan(x), nb.ones_like(x), x)) if d in FLOATS else (lambda x: x)
        self.add(lambda v: nb.bitcast(clean(v[i]), to), to, BITS)

    def integers(self):
        i = self.find(lambda d, t, e: d in INTS)
        if i is None:
            return
        d, k = self.values[i][0], self.like(i, VALUES)
        op = self.one([nb.add, nb.sub, nb.mul, nb.floor_divide, nb.mod, nb.bitwise_and, nb.bitwise_or, nb.bitwise_xor,
                       nb.maximum, nb.minimum, lambda x, y: nb.abs(x) + y, lambda x, y: nb.sign(x) * y,
                       lambda x, y: nb.bitwise_and(x, 6) + y, lambda x, y: x // 3 + y,
                       lambda x, y: -x - y * 5, lambda x, y: nb.clz(x) + nb.population_count(y),
                       lambda x, y: nb.left_shift(x, y % 9), lambda x, y: nb.right_shift(x, y % 9)])
        self.add(lambda v: nb.cast(op(v[i], v[k]), d), d, BITS)

    def positions(self):
        i = self.find(lambda d, t, e: t and d != "bool")
        if i is None:
            return
        d, axis = self.values[i][0], int(self.rng.randint(2))
        some = self.rng.randint(3)
        if some == 0:
            shape, to = self.shape, self.one(INTS)
            self.add(lambda v: nb.cast(nb.broadcast_to(nb.arange(shape[1]), shape), to), to, BITS)
        elif some == 1:
            to = self.one(["int32", "int64"])
            place = lambda x: nb.cast(nb.expand_dims(nb.argmax(x, axis=axis), axis), to)  # noqa: E731
            self.add(lambda v: nb.broadcast_to(place(v[i]), v[i].shape), to, BITS)
        elif d in INTS:
            at = self.find(lambda d, t, e: d in INTS)
            n = self.shape[axis]
            self.add(lambda v: nb.take_along_axis(v[i], nb.cast(v[at] % min(n, 100), "int32"), axis), d, BITS)

    def floats(self):
        i = self.find(lambda d, t, e: d in FLOATS)
        if i is None:
            return
        d, t, e = self.values[i]
        if t and self.rng.randint(2):
            op, to = self.one([(nb.negative, d), (nb.abs, d), (nb.floor, d), (nb.ceil, d), (nb.trunc, d), (nb.round, d),
                               (nb.isnan, "bool"), (nb.isinf, "bool"), (nb.isfinite, "bool"), (nb.sign, d)])
            return self.add(lambda v: op(v[i]), to, t)
        if t == BITS and self.rng.randint(2):
            k = self.like(i, BITS)
            names = ["add", "sub", "mul", "div", "pow", "atan2", "hypot", "logaddexp", "copysign"]
            functions = ["exp", "log", "sqrt", "rsqrt", "expm1", "log1p", "cbrt", "sin", "cos", "tanh", "erf", "sinh",
                         "asinh", "atan", "exp2", "log2"]
            if self.rng.randint(2) and self.values[k][1] == BITS:
                op = getattr(nb, self.one(names))
                return self.rounded(lambda v: op(v[i], v[k]), d, 0)
            op = getattr(nb, self.one(functions))
            return self.rounded(lambda v: op(v[i]), d, 0)
        k = self.like(i, ROUNDED)
        g = self.values[k][2]

        def tame(x):
            return nb.clip(x, -LARGEST, LARGEST)

        which = self.rng.randint(5)
        if which == 0:
            self.rounded(lambda v: tame(v[i]) + tame(v[k]), d, e + g)
        elif which == 1:
            self.rounded(lambda v: tame(v[i]) * tame(v[k]), d, LARGEST * (e + g))
        elif which == 2:
            self.rounded(lambda v: nb.maximum(tame(v[i]), tame(v[k])), d, e + g)
        elif which == 3:
            op = self.one([nb.tanh, nb.sin, nb.cos, nb.erf, nb.sigmoid, nb.atan])
            self.rounded(lambda v: op(tame(v[i])), d, e)
        else:
            self.rounded(lambda v: tame(v[i]) - tame(v[k]), d, e + g)

    def run(self, *inputs):
        values = list(inputs)
        for step in self.steps:
            values.append(step(values))
        return [values[i] for i in self.outputs]

    def inputs(self, seed):
        rng = np.random.RandomState(seed)
        out = []
        for d in self.dtypes:
            n = self.shape[0] * self.shape[1]
            if d in INTS:
                bits = rng.randint(-(2**63), 2**63 - 1, n, dtype=np.int64) >> rng.randint(0, 63, n)
                small = rng.randint(-4, 5, n)
                x = np.where(rng.randint(0, 3, n) == 0, small, bits).astype(d)
                out.append(nb.asarray(x.reshape(self.shape)))
            else:
                x = np.where(rng.randint(0, 3, n) == 0, rng.choice(SPECIAL, n), rng.uniform(-4, 4, n))
                out.append(nb.cast(nb.asarray(x.reshape(self.shape)), d))
        return out

    def differences(self, want, got):
        for i, a, b in zip(self.outputs, want, got):
            _, trust, error = self.values[i]
            assert a.dtype == b.dtype and a.shape == b.shape
            if str(a.dtype) == "bfloat16":
                a, b = nb.cast(a, "float32"), nb.cast(b, "float32")
            a, b = np.asarray(a), np.asarray(b)
            if a.dtype.kind != "f":
                bad = a != b
            else:
                a, b = a.astype(np.float64), b.astype(np.float64)
                with np.errstate(invalid="ignore"):
                    bad = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= 2 * error))
                if trust == BITS:
                    bad |= (a == 0) & (np.signbit(a) != np.signbit(b))
            if bad.any():
                at = np.argwhere(bad)[0]
                yield f"value {i}: {a[tuple(at)]} and {b[tuple(at)]} at {at.tolist()}, error {error}"


COUNT = 40


@pytest.mark.parametrize("seed", range(60 if MANY else 3))
def test_eager_jit_and_bundle_agree(seed, tmp_path):
    programs = [Program(1000 * seed + i, 5 + i % 12) for i in range(COUNT)]
    compiled = nb.jit(lambda inputs: [p.run(*x) for p, x in zip(programs, inputs)])
    exported = nb.export({f"p{i}": p.run for i, p in enumerate(named(programs))},
                         args={f"p{i}": {f"x{k}": nb.spec(p.shape, d) for k, d in enumerate(p.dtypes)}
                               for i, p in enumerate(programs)})
    bundle = nb.compile_bundle(exported, tmp_path / "programs.nbundle")
    wrong = []
    for run in range(3):
        inputs = [p.inputs(100 * run + i) for i, p in enumerate(programs)]
        whole = compiled(inputs)
        for i, p in enumerate(programs):
            eager = p.run(*inputs[i])
            stored = list(bundle.run(f"p{i}", *inputs[i]).values())
            for name, got in (("jit", whole[i]), ("bundle", stored)):
                for text in p.differences(eager, got):
                    wrong.append(f"seed {seed}, program {i}, eager and {name}: {text}\n{nb.trace(p.run, *inputs[i])}")
    assert not wrong, "\n".join(wrong[:3])


class Named:
    """A program whose inputs have names, as an exported function's have."""

    def __init__(self, program):
        def run(x0, x1, x2, x3):
            return tuple(program.run(x0, x1, x2, x3))
        self.run = run


def named(programs):
    return [Named(p) for p in programs]
