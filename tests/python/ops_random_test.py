"""Random numbers: distributions, keys, and the global sequence."""

import math

import numpy as np
import pytest

import nabla as nb
from nabla import random

K = random.key(7)
N = 4000


def near(x, mean, std):
    x = x.numpy().astype(np.float64)
    assert abs(x.mean() - mean) < 5 * std / N ** 0.5 + 1e-3, x.mean()
    assert abs(x.std() - std) < 0.08 * std + 1e-3, x.std()


@pytest.mark.parametrize("draw, mean, std", [
    (lambda: random.uniform(K, (N,)), 0.5, 0.2887), (lambda: random.uniform(K, (N,), minval=-1, maxval=3), 1, 1.1547),
    (lambda: random.uniform(K, (N,), minval=nb.asarray(-1.0), maxval=3), 1, 1.1547),
    (lambda: random.normal(K, (N,)), 0, 1), (lambda: random.normal(K, (N,), mean=2, std=3), 2, 3),
    (lambda: random.normal(K, (N,), std=nb.asarray(2.0)), 0, 2), (lambda: random.bernoulli(K, 0.3, (N,)), 0.3, 0.4583),
    (lambda: random.bernoulli(K, nb.full((N,), 0.3)), 0.3, 0.4583), (lambda: random.randint(K, (N,), -2, 3), 0, 1.4142),
    (lambda: random.truncated_normal(K, -1, 1, (N,)), 0, 0.5396), (lambda: random.exponential(K, (N,)), 1, 1),
    (lambda: random.gumbel(K, (N,)), 0.5772, 1.2825), (lambda: random.laplace(K, (N,)), 0, 1.4142),
    (lambda: random.logistic(K, (N,)), 0, 1.8138), (lambda: random.rademacher(K, (N,)), 0, 1),
    (lambda: random.categorical(K, nb.log(nb.asarray([0.2, 0.5, 0.3])), shape=(N,)), 1.1, 0.7),
    (lambda: random.choice(K, 3, (N,), p=[0.2, 0.5, 0.3]), 1.1, 0.7), (lambda: random.choice(K, 5, (N,)), 2, 1.4142),
    (lambda: random.dropout(K, nb.ones(N), 0.25), 1, 0.5774),
    *[(lambda a=a: random.gamma(K, a, (N,)), a, a ** 0.5) for a in (0.2, 0.9, 1.0, 3.5, 40.0)],
    (lambda: random.gamma(K, nb.full((N,), 2.0)), 2, 1.4142), (lambda: random.beta(K, 2.0, 3.0, (N,)), 0.4, 0.2),
    (lambda: random.beta(K, 0.5, 0.5, (N,)), 0.5, 0.3536), (lambda: random.chisquare(K, 5, (N,)), 5, 3.1623),
    (lambda: random.t(K, 8.0, (N,)), 0, 1.1547), (lambda: random.dirichlet(K, [1.0, 2.0, 3.0], (N,))[:, 1], 1 / 3,
                                                  0.1782),
    *[(lambda m=m: random.poisson(K, m, (N,)), m, m ** 0.5) for m in (0.0, 0.3, 4.0, 9.9, 10.0, 60.0, 5000.0)],
    *[(lambda n=n, p=p: random.binomial(K, n, p, (N,)), n * p, (n * p * (1 - p)) ** 0.5) for n, p in (
        (0, 0.5), (7, 0.0), (7, 1.0), (1, 0.3), (5, 0.9), (19, 0.5), (40, 0.5), (1000, 0.01), (1000, 0.99),
        (10 ** 5, 0.4))],
    (lambda: random.multinomial(K, 50, [0.2, 0.5, 0.3], shape=(N,))[:, 1], 25, 3.5355),
    (lambda: random.multinomial(K, 50, [2.0, 5.0, 3.0], shape=(N,))[:, 2], 15, 3.2404),
    (lambda: random.lognormal(K, 0.5, (N,)), 1.1331, 0.6039), (lambda: random.pareto(K, 6.0, (N,)), 1.2, 0.2449),
    (lambda: random.weibull_min(K, 2.0, 3.0, (N,)), 1.786, 0.649),
    (lambda: random.rayleigh(K, 2.0, (N,)), 2.5066, 1.3103),
    (lambda: random.geometric(K, 0.3, (N,)), 3.3333, 2.7889),
    (lambda: random.dropout_mask(K, (N,), 0.25), 0.75, 0.433)],
    ids=str)
def test_distributions(draw, mean, std):
    near(draw(), mean, std)


def test_shapes_of_distributions():
    """Quantiles, of which moments say little."""
    n = 20000
    for a in (0.3, 1.0, 2.5):
        x = np.sort(random.gamma(K, a, (n,)).numpy())
        # The distribution function by its series, x^a e^-x sum of x^k / gamma(a + k + 1).
        for q in (0.1, 0.5, 0.9):
            at = float(x[int(q * n)])
            terms = [at ** (a + k) * math.exp(-at) / math.gamma(a + k + 1) for k in range(80)]
            assert abs(sum(terms) - q) < 0.015, (a, q)
    for m in (2.0, 25.0):
        x = random.poisson(K, m, (n,)).numpy()
        for k in (int(m) - 1, int(m), int(m + m ** 0.5)):
            want = math.exp(k * math.log(m) - m - math.lgamma(k + 1))
            assert abs((x == k).mean() - want) < 0.012, (m, k)
    for trials, p in ((12, 0.3), (60, 0.4), (60, 0.75)):
        x = random.binomial(K, trials, p, (n,)).numpy()
        for k in range(int(trials * p) - 3, int(trials * p) + 4):
            want = math.comb(trials, k) * p ** k * (1 - p) ** (trials - k)
            assert abs((x == k).mean() - want) < 0.012, (trials, p, k)
    assert abs(np.median(random.cauchy(K, (n,)).numpy())) < 0.05
    assert np.allclose(random.dirichlet(K, nb.ones((5, 4))).numpy().sum(-1), 1, atol=1e-6)


def test_draws_with_parameters_are_parts_of_programs():
    f = nb.jit(lambda key, a: (random.gamma(key, a), random.poisson(key, a * 8), random.beta(key, a, a)))
    a = nb.asarray([0.5, 2.0, 9.0])
    for one, other in zip(f(K, a), (random.gamma(K, a), random.poisson(K, a * 8), random.beta(K, a, a))):
        nb.testing.assert_allclose(one, other, rtol=1e-5)
    rows = nb.vmap(lambda k: random.gamma(k, 2.0))(random.split(K, 6))
    assert len(set(rows.tolist())) == 6 and nb.isnan(random.gamma(K, -1.0)).item()
    assert nb.grad(lambda v: nb.sum(random.gamma(K, v) * v))(a).tolist() == random.gamma(K, a).tolist()


def test_binomial_and_multinomial_draws():
    x = random.binomial(K, nb.asarray([3, 100]), nb.asarray([[0.5], [0.1]]))
    assert x.shape == (2, 2) and x.dtype == nb.float32 and np.all(x.numpy() == np.round(x.numpy()))
    assert random.binomial(K, 3, 0.5, dtype="float64").dtype == nb.float64
    wrong = random.binomial(K, nb.asarray([-1.0, 3.0, 3.0, 3.0, 2.5, float("inf")]),
                            nb.asarray([0.5, 1.5, -0.1, float("nan"), 0.5, 0.5]))
    assert nb.all(nb.isnan(wrong)).item()
    rows = random.multinomial(K, nb.asarray([5.0, 5.0, 2.5]), nb.asarray([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    assert nb.isnan(rows).tolist() == [[True, True], [False, False], [True, True]] and rows[1].tolist() == [0.0, 5.0]
    counts = random.multinomial(K, 1000, [0.1, 0.0, 0.6, 0.3, 0.0], shape=(50,)).numpy()
    assert counts.shape == (50, 5) and set(counts.sum(-1)) == {1000.0} and not counts[:, [1, 4]].any()
    assert (counts >= 0).all() and len({tuple(c) for c in counts}) == 50
    rows = random.multinomial(K, nb.asarray([5, 7]), nb.asarray([[1.0, 0.0], [0.0, 2.0]]))
    assert rows.tolist() == [[5.0, 0.0], [0.0, 7.0]]
    f = nb.jit(lambda key, n, p: (random.binomial(key, n, p), random.multinomial(key, n, nb.stack([p, 1 - p], -1))))
    n, p = nb.asarray([5.0, 50.0, 500.0]), nb.asarray([0.3, 0.7, 0.2])
    for one, other in zip(f(K, n, p), (random.binomial(K, n, p), random.multinomial(K, n, nb.stack([p, 1 - p], -1)))):
        assert one.tolist() == other.tolist()
    assert nb.grad(lambda p: nb.sum(random.binomial(K, n, p) * p))(p).tolist() == random.binomial(K, n, p).tolist()
    assert len(set(nb.vmap(lambda k: random.binomial(k, 1000, 0.5))(random.split(K, 6)).tolist())) > 3
    assert random.multinomial(K, 3, nb.zeros((2, 0))).shape == (2, 0)
    with pytest.raises(nb.Error, match=r"multinomial: the probabilities are f32\[\]"):
        random.multinomial(K, 3, 0.5)


@pytest.mark.parametrize("draw", [
    lambda a: random.binomial(K, a, 0.5, shape=(2,)), lambda a: random.poisson(K, a, shape=(2,)),
    lambda a: random.gamma(K, a, shape=(2,)), lambda a: random.pareto(K, a, shape=(2,)),
    lambda a: random.multinomial(K, a, [0.5, 0.5], shape=(2,)),
], ids=["binomial", "poisson", "gamma", "pareto", "multinomial"])
def test_parameters_that_do_not_fit_the_shape(draw, request):
    name = request.node.callspec.id
    with pytest.raises(nb.Error, match=rf"E0203.*: {name}: a parameter f32\[3\] does not broadcast to the shape \[2\]"):
        draw(nb.asarray([1.0, 2.0, 3.0]))


def test_keys():
    assert random.key(5).tolist() == [0, 5] and random.key(1 << 40).tolist() == [256, 0]
    children = random.split(K, 20)
    assert children.shape == (20, 2) and len({tuple(k) for k in children.tolist()}) == 20
    assert children[:3].tolist() == random.split(K, 3).tolist()
    draws = [random.uniform(k, (3,)).tolist() for k in children]
    assert len({tuple(d) for d in draws}) == 20
    assert random.uniform(K, (3,)).tolist() == random.uniform(K, (3,)).tolist()
    assert random.fold_in(K, 3).tolist() == random.fold_in(K, nb.asarray(3)).tolist() != random.fold_in(K, 4).tolist()
    with pytest.raises(TypeError, match="nabla.random.key"):
        random.normal(nb.asarray([1, 2]))


def test_in_transforms():
    draws = nb.vmap(lambda k: random.normal(k, (2,)))(random.split(K, 3))
    assert draws.shape == (3, 2) and len({v for row in draws.tolist() for v in row}) == 6
    f = nb.jit(lambda k, x: random.dropout(k, x, 0.5))
    a, b = [f(k, nb.ones(100)).tolist() for k in random.split(K)]
    assert a != b and a == random.dropout(random.split(K)[0], nb.ones(100), 0.5).tolist()


def test_orders():
    assert sorted(random.permutation(K, 50).tolist()) == list(range(50))
    rows = random.permutation(K, nb.asarray([[1, 2], [3, 4], [5, 6]]))
    assert sorted(rows.tolist()) == [[1, 2], [3, 4], [5, 6]]
    assert len(set(random.choice(K, 9, (9,), replace=False).tolist())) == 9
    assert random.choice(K, nb.asarray([[1.0], [2.0]]), (3,)).shape == (3, 1)
    q = random.orthogonal(K, 4).numpy()
    np.testing.assert_allclose(q @ q.T, np.eye(4), atol=1e-5)
    assert random.multivariate_normal(K, [0.0, 1.0], [[1.0, 0.5], [0.5, 1.0]], (5,)).shape == (5, 2)
    assert random.bits(K, (2,), "uint64").dtype == nb.dtype_of("uint64")


def test_global_sequence():
    nb.seed(3)
    first = [nb.uniform((4,)).tolist() for _ in range(3)]
    assert len({tuple(d) for d in first}) == 3
    state = random.get_state()
    again = nb.normal((2, 2)).tolist()
    random.set_state(state)
    assert nb.gaussian((2, 2)).tolist() == again
    nb.seed(3)
    assert [nb.uniform((4,)).tolist() for _ in range(3)] == first
    assert nb.uniform((100,), 2.0, 3.0).min().item() >= 2 and nb.randn(2, 3).shape == (2, 3)
    with pytest.raises(nb.Error, match="same at every call"):
        nb.jit(lambda x: x + nb.uniform((2,)))(nb.ones(2))


def test_orders_of_nothing():
    for shape, axis in (((0, 3), 0), ((3, 0), 1), ((3, 0), 0), ((0,), 0)):
        assert random.permutation(K, nb.zeros(shape), axis).shape == shape
        for replace in (True, False):
            assert random.choice(K, nb.zeros(shape), (0,), replace, axis=axis).shape[axis] == 0
    assert random.choice(K, 0, (0, 2)).shape == (0, 2)
