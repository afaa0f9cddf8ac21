"""custom_vjp, custom_jvp and custom_vmap with what their rules close over: constants, tensors, loops."""

import re

import numpy as np
import pytest

import nabla as nb
from nabla.core.sharding.propagation import OpShardingRuleTemplate

X = nb.asarray([0.5, -1.0, 2.0])
FACTOR = nb.asarray([2.0, 3.0, 4.0])
ARRAY = np.asarray([1.0, 10.0, 100.0], "float32")


def loop_of(x):
    """x + 1 + 1, by a loop that begins with a Python number."""
    return nb.fori_loop(0, 2, lambda i, s: s + 1.0, 0.0) + x


# What a rule multiplies by, and its value.
CONSTANTS = {
    "asarray": (lambda: nb.asarray(2.0), 2.0), "number": (lambda: 2.0, 2.0), "closed": (lambda: FACTOR, FACTOR),
    "numpy": (lambda: ARRAY, ARRAY), "list": (lambda: nb.asarray([1.0, 2.0, 3.0]), nb.asarray([1.0, 2.0, 3.0])),
    "computed": (lambda: nb.exp(nb.asarray(0.0)) + FACTOR, FACTOR + 1), "loop": (lambda: loop_of(1.0), 3.0),
    "scan": (lambda: nb.scan(lambda c, v: (c + v, None), 0.0, FACTOR)[0], 9.0),
    "cond": (lambda: nb.cond(nb.asarray(True), lambda: nb.asarray(5.0), lambda: nb.asarray(6.0)), 5.0),
}


def by_vjp(constant):
    @nb.custom_vjp
    def f(x):
        return x * constant()

    f.defvjp(lambda x: (x * constant(), x), lambda x, ct: (ct * constant() * 10 + 0 * x,))
    return f, 10


def by_jvp(constant):
    @nb.custom_jvp
    def f(x):
        return x * constant()

    @f.defjvp
    def rule(primals, tangents):
        return primals[0] * constant(), tangents[0] * constant() * 10

    return f, 10


def by_vmap(constant):
    @nb.custom_vmap
    def f(x):
        return x * constant()

    f.def_vmap(lambda x: x * constant())
    return f, 1


RULES = {"vjp": by_vjp, "jvp": by_jvp, "vmap": by_vmap}


def same(got, want):
    np.testing.assert_allclose(np.asarray(got), np.broadcast_to(np.asarray(want), got.shape), rtol=1e-6)


@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.parametrize("rule", RULES)
def test_constants(rule, constant):
    make, value = CONSTANTS[constant]
    f, scale = RULES[rule](make)
    value = nb.asarray(value)
    total = lambda x: nb.sum(f(x))  # noqa: E731
    rows = nb.stack([X, X * 2])
    same(f(X), X * value)
    same(nb.grad(total)(X), value * scale)
    same(nb.vmap(f)(rows), rows * value)
    same(nb.vmap(nb.grad(total))(rows), nb.broadcast_to(value * scale, (2, 3)))
    same(nb.grad(lambda r: nb.sum(nb.vmap(f)(r)))(rows), nb.broadcast_to(value * scale, (2, 3)))
    same(nb.jvp(f, (X,), (nb.ones(3),))[1], value * scale)
    same(nb.grad(nb.checkpoint(total))(X), value * scale)
    same(nb.scan(lambda c, x: (c + nb.grad(total)(x), None), nb.zeros(3), rows)[0], 2 * value * scale)
    # Twice: the tangent of the gradient is that of a constant.
    same(nb.jvp(nb.grad(total), (X,), (nb.ones(3),))[1], nb.zeros(3))


@pytest.mark.parametrize("rule", RULES)
def test_compiled(rule):
    for constant in ("asarray", "numpy", "loop", "closed"):
        make, value = CONSTANTS[constant]
        f, scale = RULES[rule](make)
        value = nb.asarray(value)

        def whole(x):
            return f(x), nb.grad(lambda v: nb.sum(f(v)))(x), nb.vmap(f)(nb.stack([x, x]))

        out, gradient, both = nb.jit(whole)(X)
        same(out, X * value), same(gradient, value * scale), same(both, nb.stack([X * value, X * value]))


@pytest.mark.parametrize("rule", RULES)
def test_traced_values_of_enclosing_functions_are_constants(rule):
    def loss(x, k):
        f, _ = RULES[rule](lambda: k)
        return nb.sum(f(x))

    scale = RULES[rule](lambda: 1.0)[1]
    by_x, by_k = nb.grad(loss, argnums=(0, 1))(X, FACTOR)
    same(by_x, FACTOR * scale)
    same(by_k, X if rule == "vmap" else nb.zeros(3))  # a custom derivative has none by what it closes over
    rows = nb.stack([FACTOR, FACTOR * 2])
    same(nb.vmap(loss, in_axes=(None, 0))(X, rows), nb.sum(X * rows, axis=1))
    same(nb.vmap(nb.grad(loss), in_axes=(None, 0))(X, rows), rows * scale)
    same(nb.jit(nb.vmap(nb.grad(loss), in_axes=(0, None)))(nb.stack([X, X]), FACTOR),
         nb.stack([FACTOR, FACTOR]) * scale)
    same(nb.fori_loop(0, 3, lambda i, k: nb.grad(loss)(X, k), FACTOR), FACTOR * scale ** 3)


def test_the_batch_rule_runs_with_its_constants():
    """The rule adds 100, so that one sees which of the two ran."""
    @nb.custom_vmap
    def f(x):
        return x * FACTOR[0]

    f.def_vmap(lambda x: x * FACTOR[0] + nb.asarray(100.0))
    assert f(nb.asarray(1.0)).item() == 2.0 and nb.vmap(f)(X).tolist() == [101.0, 98.0, 104.0]
    assert nb.jit(nb.vmap(f))(X).tolist() == [101.0, 98.0, 104.0]
    assert nb.vmap(nb.vmap(f))(nb.stack([X, X]))[1].tolist() == [101.0, 98.0, 104.0]


def test_rules_see_trees_and_other_rules():
    inner, _ = by_vjp(lambda: nb.asarray(3.0))

    @nb.custom_vjp
    def outer(p):
        return inner(p["a"]) + p["b"] * nb.asarray(2.0)

    outer.defvjp(lambda p: (outer(p), {"kept": p["a"], "step": 7}),
                 lambda r, ct: ({"a": ct * nb.asarray(r["step"], "float32") + 0 * r["kept"], "b": inner(ct)},))
    g = nb.grad(lambda p: nb.sum(outer(p)))({"a": X, "b": X})
    same(g["a"], 7.0), same(g["b"], 3.0)


# ---- Ops as classes


class Cube(nb.UnaryOperation):
    """x^3, with ten times its derivative, so that tests see whose it is."""

    @property
    def name(self):
        return "cube10"

    def kernel(self, args, kwargs):
        return [args[0] * args[0] * args[0]]

    def _derivative(self, primals, output):
        return 30.0 * primals * primals


class Scaled(nb.BinaryOperation):
    def kernel(self, args, kwargs):
        return args[0] * args[1] * kwargs.get("by", 1.0)

    def vjp_rule(self, primals, cotangents, outputs, kwargs):
        return [cotangents[0] * primals[1] * kwargs.get("by", 1.0), None]


class Largest(nb.ReduceOperation):
    def kernel(self, args, kwargs):
        assert kwargs["axis"] == (1,) and kwargs["keepdims"] is False
        return [nb.max(args[0], axis=kwargs["axis"])]


class Tripled(nb.Operation):
    """Its rules give their only tensor itself."""

    def kernel(self, args, kwargs):
        return args[0] * 3

    def vjp_rule(self, primals, cotangents, outputs, kwargs):
        return cotangents[0] * 30 if kwargs.get("right", True) else None

    def jvp_rule(self, primals, tangents, outputs, kwargs):
        return tangents[0] * 30


class Shifted(nb.CollectiveOperation):
    def kernel(self, args, kwargs):
        return [nb.ops.communication.ppermute(args[0], [(0, 1), (1, 0)])]


def test_op_class_has_its_derivative_in_both_modes():
    cube, x = Cube(), nb.asarray([1.0, 2.0])
    assert cube([x], {})[0].tolist() == [1, 8] and cube(x).tolist() == [1, 8]
    for f in (nb.grad(lambda v: nb.sum(cube(v))), nb.jit(nb.grad(lambda v: nb.sum(cube(v))))):
        assert f(x).tolist() == [30, 120]
    assert nb.jvp(cube, (x,), (nb.ones(2),))[1].tolist() == [30, 120]
    assert nb.jacfwd(cube)(x).tolist() == [[30, 0], [0, 120]] and nb.vmap(cube)(x).tolist() == [1, 8]
    assert "cube10" in str(nb.trace(cube, x))


def test_op_class_broadcasts_and_counts_dimensions():
    out = Scaled()([nb.ones((2, 3)), nb.asarray([1.0, 2.0, 3.0])], {"by": 2.0})[0]
    assert out.tolist() == [[2, 4, 6], [2, 4, 6]]
    grads = nb.grad(lambda a, b: nb.sum(Scaled()(a, b)), argnums=(0, 1))(nb.ones(2), nb.asarray([3.0, 4.0]))
    assert grads[0].tolist() == [3, 4] and grads[1].tolist() == [0, 0]
    assert Largest()(nb.asarray([[1.0, 3.0], [2.0, 0.0]]), axis=-1).tolist() == [3, 2]
    assert nb.grad(lambda x: nb.sum(Largest()(x, axis=-1)))(nb.asarray([[1.0, 3.0]])).tolist() == [[0, 1]]


def test_op_class_of_ranks():
    mesh = nb.DeviceMesh("pair", (2,), ("r",))
    x = nb.shard(nb.asarray([1.0, 2.0, 3.0, 4.0]), mesh, nb.P("r"))
    assert Shifted()(x).tolist() == [3, 4, 1, 2]
    weights = nb.asarray([1.0, 2.0, 3.0, 4.0])
    assert nb.grad(lambda v: nb.sum(Shifted()(v) * weights))(x).tolist() == [3, 4, 1, 2]


@pytest.mark.parametrize("shape", [(1,), (3,), (1, 3)])
def test_rules_of_op_classes_may_give_their_only_tensor(shape):
    x = nb.ones(shape)
    assert nb.allclose(nb.grad(lambda v: nb.sum(Tripled()(v)))(x), nb.full(shape, 30.0)).item()
    assert nb.allclose(nb.jvp(Tripled(), (x,), (x,))[1], nb.full(shape, 30.0)).item()


class Running(nb.Operation):
    """Sums from the front, whose layout the ops do not find along rows: the rule says it."""

    def kernel(self, args, kwargs):
        return [nb.cumsum(args[0], axis=0) + args[1], nb.sum(args[0], axis=1)]

    def sharding_rule(self, input_shapes, output_shapes, **kwargs):
        assert input_shapes == [(4, 8), (8,)] and output_shapes == [(4, 8), (4,)] and kwargs == {"kept": True}
        rule = OpShardingRuleTemplate.parse("n d, d -> n d, n", input_shapes)
        return rule.instantiate(input_shapes, output_shapes)


def test_op_class_lays_its_results_out_by_a_rule():
    mesh = nb.DeviceMesh("pod", (2, 2), ("dp", "tp"))
    values = np.arange(32, dtype=np.float32).reshape(4, 8)
    x, b = nb.shard(nb.asarray(values), mesh, nb.P("dp", "tp")), nb.shard(nb.ones(8), mesh, nb.P("tp"))
    for f in (Running(), nb.jit(lambda x, b: Running()(x, b, kept=True))):
        a, s = f(x, b, kept=True) if isinstance(f, Running) else f(x, b)
        assert np.allclose(a.numpy(), values.cumsum(0) + 1) and np.allclose(s.numpy(), values.sum(1))
        assert repr(a.sharding) == "sharding<@pod, [{dp}, {tp}]>" and repr(s.sharding) == "sharding<@pod, [{dp}]>"
    # Derivatives and batches of what is laid out by a rule.
    loss = lambda x, b: nb.sum(Running()(x, b, kept=True)[0] ** 2)
    got, want = nb.grad(loss)(x, b), nb.grad(loss)(nb.asarray(values), nb.ones(8))
    assert np.allclose(got.numpy(), want.numpy())
    many = nb.stack([nb.asarray(values)] * 3)
    each = nb.vmap(lambda v: Running()(v, b, kept=True)[0])(many)
    assert np.allclose(each.numpy(), np.stack([values.cumsum(0) + 1] * 3))
    assert np.allclose(nb.jvp(lambda v: Running()(v, b, kept=True)[0], (x,), (x,))[1].numpy(), values.cumsum(0))


def test_rules_of_layouts_say_what_is_wrong_with_them():
    x = nb.ones((4, 8))
    by = nb.ops.communication.shard_by_rule
    assert by([x, x], [x], "a b -> a b, a b")[1].tolist() == x.tolist()
    for rule, text in (("a b", "one -> was expected"), ("a -> a b", "1 words for operand 0, which is f32"),
                       ("a b -> b a", "dimension 0 of the result has 4 elements, and its factors make 8"),
                       ("a b, c -> a b", "2 tensors before the arrow for 1 operands"),
                       ("a b -> a a", "`a` stands twice in `a a`: a tensor has a factor once"),
                       ("a b -> a (b", "has no )"), ("a b -> a; b", "a name, 1, ... or (names) was expected at `; b`")):
        with pytest.raises(nb.Error, match=re.escape(text)) as e:
            by(x, [x], rule)
        assert e.value.code == "E0204"
    with pytest.raises(ValueError, match=r'rule "a b -> a b, a" says 2 results, there are 1'):
        by(x, [x], "a b -> a b, a")
    with pytest.raises(ValueError, match=r'rule "a, b -> a" says 2 operands, there are 1'):
        OpShardingRuleTemplate.parse("a, b -> a").instantiate([(4,)], [(4,)])
    with pytest.raises(TypeError, match="a rule of layouts is a text, .* got 3"):
        by(x, [x], 3)
    with pytest.raises(TypeError, match="Bad.sharding_rule would not be called: kernel gets parts"):
        type("Bad", (nb.CollectiveOperation,), {"sharding_rule": lambda *a: None})


def test_op_class_says_what_is_wrong_with_it():
    with pytest.raises(TypeError, match="Tripled.vjp_rule gives None, expected a list of tensors"):
        nb.grad(lambda v: nb.sum(Tripled()(v, right=False)))(nb.ones(3))
    with pytest.raises(TypeError, match="Bad.compute_physical_shape would not be called: shapes and dtypes follow"):
        type("Bad", (nb.Operation,), {"compute_physical_shape": lambda *a: None})
    with pytest.raises(NotImplementedError, match="Operation has no kernel"):
        nb.Operation()(nb.ones(2))
    with pytest.raises(TypeError, match="Scaled takes two tensors, got 1"):
        Scaled()(nb.ones(2))
    with pytest.raises(ValueError, match="E0204.*Largest: axis 2 of a tensor with"):
        Largest()(nb.ones((2, 2)), axis=2)
    with pytest.raises(ValueError, match="Shifted of .* laid out over no mesh"):
        Shifted()(nb.ones(4))
