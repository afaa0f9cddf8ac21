"""Calls whose operand x has a dynamic dimension, for dynamic_sizes_test.py: f(x, n, m) of x [n, m]."""

import nabla as nb

KEY = nb.random.key(3)


def square(x):
    """A positive definite matrix [n, n]."""
    return x @ x.T + nb.eye(x.shape[0])


def row(x):
    return nb.sum(x, 1)


def pads(mode, axis):
    widths = ((2, 3), (0, 0)) if axis == 0 else ((0, 0), (2, 3))
    return lambda x, n, m: nb.pad(x, widths, mode)


def products(axis, exclusive, reverse):
    return lambda x, n, m: nb.cumprod(x, axis, exclusive=exclusive, reverse=reverse)


def window(name):
    return lambda x, n, m: getattr(nb, name)(n)


# New tensors whose sizes or elements are sizes.
CREATION = [
    ("linspace", lambda x, n, m: nb.linspace(0, 1, n)), ("linspace-0", lambda x, n, m: nb.linspace(0, 1, n - 1, False)),
    ("linspace-n", lambda x, n, m: nb.linspace(0, n, 5)), ("logspace", lambda x, n, m: nb.logspace(0, 1, n)),
    ("linspace-1", lambda x, n, m: nb.linspace(2, 3, n - 1)), ("geomspace", lambda x, n, m: nb.geomspace(1, 10, n)),
    ("geomspace-n", lambda x, n, m: nb.geomspace(1, n + 0 * m, 3)), ("full", lambda x, n, m: nb.full((m,), n)),
    ("asarray", lambda x, n, m: nb.asarray([n, m])), ("stack", lambda x, n, m: nb.stack([n, m])),
    ("one_hot", lambda x, n, m: nb.one_hot(nb.asarray([0, 1, 2]), n)), ("eye", lambda x, n, m: nb.eye(n, m, 1)),
    ("identity", lambda x, n, m: nb.identity(n)), ("tri", lambda x, n, m: nb.tri(n)),
    ("indices", lambda x, n, m: nb.indices((n, 2))), ("mgrid", lambda x, n, m: nb.mgrid[0:n, 0:2]),
    ("vander", lambda x, n, m: nb.vander(x[:, 0], n)), ("diag_indices", lambda x, n, m: nb.diag_indices(n)),
    ("fromfunction", lambda x, n, m: nb.fromfunction(lambda i, j: i + j, (n, m))),
    ("meshgrid", lambda x, n, m: nb.meshgrid(nb.arange(n), nb.arange(m))),
    ("hann_window", lambda x, n, m: nb.hann_window(n)), ("hann_window-1", lambda x, n, m: nb.hann_window(m, False)),
    *[(name, window(name)) for name in ("hanning", "hamming", "blackman", "bartlett")],
    ("kaiser", lambda x, n, m: nb.kaiser(n, 5.0)), ("hanning-1", lambda x, n, m: nb.hanning(n - 1)),
    ("fftfreq", lambda x, n, m: nb.fft.fftfreq(n)), ("rfftfreq", lambda x, n, m: nb.fft.rfftfreq(n, 0.5)),
    ("tril_indices", lambda x, n, m: nb.tril_indices(n)),
]

# Sizes as numbers.
NUMBERS = [
    ("abs", lambda x, n, m: nb.asarray(abs(n - 4))), ("minimum", lambda x, n, m: nb.minimum(n, m)),
    ("maximum", lambda x, n, m: nb.maximum(n, 3)), ("min", lambda x, n, m: nb.arange(min(n, 20))),
    ("max", lambda x, n, m: nb.arange(max(n, 1))), ("less", lambda x, n, m: nb.asarray([n < 4, n <= 40, n > 0.5])),
    ("true", lambda x, n, m: x if n and m > 0 else -x), ("result", lambda x, n, m: (n, m)),
    ("sqrt", lambda x, n, m: nb.sqrt(n) * x), ("where", lambda x, n, m: nb.where(x > 0, n, 0)),
    ("clip", lambda x, n, m: nb.clip(x, 0, n)), ("size", lambda x, n, m: nb.size(x)),
    ("fori_loop", lambda x, n, m: nb.fori_loop(0, n, lambda i, s: s + 1.0, 0.0)),
    ("cond", lambda x, n, m: nb.cond(n > 3, lambda v: v, lambda v: -v, x)),
    ("squeeze", lambda x, n, m: nb.squeeze(x[None], None)), ("full_like", lambda x, n, m: nb.full_like(x, n)),
    ("range", lambda x, n, m: x * sum(range(n))), ("int", lambda x, n, m: x * int(n)),
    ("float", lambda x, n, m: x / float(n)), ("if", lambda x, n, m: x if n + m > 9 else -x),
]

# Other shapes and orders.
SHAPES = [
    ("repeat", lambda x, n, m: nb.repeat(x, n, axis=1)), ("repeat-all", lambda x, n, m: nb.repeat(x, m)),
    ("tile", lambda x, n, m: nb.tile(x, n)), ("tile-2", lambda x, n, m: nb.tile(x, (m, 2))),
    ("roll-n", lambda x, n, m: nb.roll(x, n, axis=1)), ("roll-half", lambda x, n, m: nb.roll(x, n // 2, axis=0)),
    ("roll-7", lambda x, n, m: nb.roll(x, (7, -7), axis=(0, 1))), ("roll-all", lambda x, n, m: nb.roll(x, -m)),
    ("fftshift", lambda x, n, m: nb.fft.fftshift(x)), ("ifftshift", lambda x, n, m: nb.fft.ifftshift(x)),
    ("trace_of", lambda x, n, m: nb.trace_of(x)), ("linalg.trace", lambda x, n, m: nb.linalg.trace(square(x))),
    ("diagonal", lambda x, n, m: nb.diagonal(square(x))), ("diagonal-1", lambda x, n, m: nb.diagonal(square(x), 1)),
    ("diagonal-2", lambda x, n, m: nb.diagonal(square(x), -2)), ("diag", lambda x, n, m: nb.diag(row(x), 1)),
    ("diagonal-x", lambda x, n, m: nb.diagonal(x)), ("diagflat", lambda x, n, m: nb.diagflat(x)),
    ("fill_diagonal", lambda x, n, m: nb.fill_diagonal(square(x), 3.0)),
    ("split", lambda x, n, m: nb.split(nb.concatenate([x, x]), 2)), ("split-3", lambda x, n, m: nb.split(x[:, :3], 3)),
    ("split-at", lambda x, n, m: nb.split(x, [1, 2], 1)),
    ("split_sizes", lambda x, n, m: nb.split_sizes(x, [1, n - 1])),
    ("array_split", lambda x, n, m: nb.array_split(x, 3)), ("chunk", lambda x, n, m: nb.chunk(x, 2, 1)),
    ("vsplit", lambda x, n, m: nb.vsplit(x, 2)), ("unstack", lambda x, n, m: nb.unstack(x, 0)),
    *[(f"pad-{mode}-{axis}", pads(mode, axis)) for mode in ("edge", "reflect", "wrap", "symmetric") for axis in (0, 1)],
    ("pad-n", lambda x, n, m: nb.pad(x, ((0, n), (m, 0)))), ("pad-edge", lambda x, n, m: nb.pad(x, (n, m), "edge")),
    ("insert", lambda x, n, m: nb.insert(x, 1, 5.0, axis=0)),
    ("insert-2", lambda x, n, m: nb.insert(x, [0, 2], 5.0, 1)),
    ("insert-end", lambda x, n, m: nb.insert(x, -1, x[:1], axis=0)),
    ("insert-list", lambda x, n, m: nb.insert(x[:, 0], [1, 0, 1], [1.0, 2.0, 3.0])),
    ("insert-ends", lambda x, n, m: nb.insert(x[:, 0], [0, -1], [1.0, 2.0])),
    ("delete", lambda x, n, m: nb.delete(x, 1, axis=0)), ("delete-end", lambda x, n, m: nb.delete(x, -1, axis=1)),
    ("delete-list", lambda x, n, m: nb.delete(x, [1, 1, 0], axis=0)),
    ("delete-2", lambda x, n, m: nb.delete(x, [0, -1], 1)),
    ("delete-far", lambda x, n, m: nb.delete(x, [1, -1], axis=0)),
    ("delete-slice", lambda x, n, m: nb.delete(x, slice(0, 2), axis=0)), ("rot90", lambda x, n, m: nb.rot90(x)),
    ("put", lambda x, n, m: nb.put(x, nb.arange(n), [7.0, 8.0])),
    ("place", lambda x, n, m: nb.place(x, x > 0, [1.0, 2.0])),
    ("unravel_index", lambda x, n, m: nb.unravel_index(nb.asarray([0, 3]), (n, m))),
    ("ravel_multi_index", lambda x, n, m: nb.ravel_multi_index(([0, 9], [1, 7]), (n, m), "wrap")),
    ("at-last", lambda x, n, m: x.at[n - 1].set(0.0)), ("at-far", lambda x, n, m: x.at[4].set(0.0)),
    ("index-far", lambda x, n, m: x[4]), ("step", lambda x, n, m: x[::2, ::2]),
]

# Sums, running results, order and statistics.
STATISTICS = [
    ("median", lambda x, n, m: nb.median(x, 0)), ("median-1", lambda x, n, m: nb.median(x, 1, keepdims=True)),
    ("quantile", lambda x, n, m: nb.quantile(x, [0.1, 0.5, 1.0], axis=0)),
    ("percentile", lambda x, n, m: nb.percentile(x, 3)),
    ("nanmedian", lambda x, n, m: nb.nanmedian(nb.where(x > 1, nb.nan, x), 0)),
    ("nanpercentile", lambda x, n, m: nb.nanpercentile(x, [20, 40], axis=1)),
    *[(f"cumprod-{a}{e}{r}", products(a, e, r)) for a in (0, 1) for e in (0, 1) for r in (0, 1)],
    ("cumlogsumexp", lambda x, n, m: nb.cumlogsumexp(x, 0)), ("cummax", lambda x, n, m: nb.cummax(x, 0)),
    ("cumlogsumexp-r", lambda x, n, m: nb.cumlogsumexp(x, 1, reverse=True)),
    ("associative_scan", lambda x, n, m: nb.associative_scan(lambda p, q: p + q, x, reverse=True)),
    ("associative_scan-2", lambda x, n, m: nb.associative_scan(
        lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (x, x), axis=1)),
    ("diff", lambda x, n, m: nb.diff(x, 2, axis=0)), ("ediff1d", lambda x, n, m: nb.ediff1d(x)),
    ("average", lambda x, n, m: nb.average(x, 0, nb.arange(n) + 1.0)),
    ("average-x", lambda x, n, m: nb.average(x, 1, x * x)),
    ("cov", lambda x, n, m: nb.cov(x)), ("cov-columns", lambda x, n, m: nb.cov(x, rowvar=False)),
    ("cov-weights", lambda x, n, m: nb.cov(x, aweights=nb.arange(m) + 1)), ("corrcoef", lambda x, n, m: nb.corrcoef(x)),
    ("segment_sum", lambda x, n, m: nb.segment_sum(x, nb.arange(n) % 2, m)),
    ("bincount", lambda x, n, m: nb.bincount(nb.asarray([0, 1, 1, 2]), length=n)),
    ("histogram", lambda x, n, m: nb.histogram(x, 4, range=(-1, 1))),
    ("histogram-0", lambda x, n, m: nb.histogram(x, 4)),
    ("searchsorted", lambda x, n, m: nb.searchsorted(nb.sort(x[:, 0]), x)),
    ("searchsorted-r", lambda x, n, m: nb.searchsorted(nb.sort(x, 1), x, side="right")),
    ("digitize", lambda x, n, m: nb.digitize(x, nb.sort(x[:, 1]))),
    ("isin", lambda x, n, m: nb.isin(x // 1, x[:2] // 1)),
    ("union1d", lambda x, n, m: nb.union1d(x // 1, x[:2] // 1, size=n * 2)),
    ("intersect1d", lambda x, n, m: nb.intersect1d(x // 1, x[:2] // 1, size=4, fill_value=9)),
    ("setdiff1d", lambda x, n, m: nb.setdiff1d(x // 1, x[:2] // 1, size=5)), ("unique-0", lambda x, n, m: nb.unique(x)),
    ("unique_all", lambda x, n, m: nb.unique_all(x // 1, size=5)),
    ("unique_counts", lambda x, n, m: nb.unique_counts(x // 1, size=n)),
    ("nonzero", lambda x, n, m: nb.nonzero(x > 0, size=n)),
    ("compress", lambda x, n, m: nb.compress(x[:, 0] > 0, x, 0, 3)),
    ("masked_select", lambda x, n, m: nb.masked_select(x, x > 0, size=m)),
    ("flatnonzero", lambda x, n, m: nb.flatnonzero(x > 0, size=5)), ("top_k", lambda x, n, m: nb.top_k(x, n, axis=0)),
    ("packbits", lambda x, n, m: nb.packbits(x > 0, 0)), ("packbits-all", lambda x, n, m: nb.packbits(x > 0)),
    ("array_equal", lambda x, n, m: nb.array_equal(nb.ones((n, m)), nb.ones((5, 4)))),
    ("array_equal-x", lambda x, n, m: nb.array_equal(x, x)),
    ("array_equiv", lambda x, n, m: nb.array_equiv(x, x[None])),
    ("array_equiv-1", lambda x, n, m: nb.array_equiv(nb.ones((n, m)), nb.ones((5, 1)))),
]

# Signals, polynomials, matrices and random numbers.
OTHERS = [
    ("interp", lambda x, n, m: nb.interp(x, nb.arange(n) * 1.0, x[:, 0])),
    ("interp-period", lambda x, n, m: nb.interp(x, nb.arange(n) * 1.0, x[:, 0], period=2.5)),
    ("trapezoid", lambda x, n, m: nb.trapezoid(x, nb.arange(m) * 2.0)),
    ("unwrap", lambda x, n, m: nb.unwrap(x * 4, axis=0)),
    ("gradient", lambda x, n, m: nb.gradient(x, 2.0, nb.cumsum(nb.arange(m) + 1.0))),
    ("gradient-2", lambda x, n, m: nb.gradient(x, edge_order=2)),
    ("convolve", lambda x, n, m: nb.convolve(row(x), nb.asarray([1.0, 2.0, 3.0]))),
    ("convolve-same", lambda x, n, m: nb.convolve(row(x), nb.asarray([1.0, 2.0]), "same")),
    ("convolve-n", lambda x, n, m: nb.convolve(row(x), x[:, 0])),
    ("convolve-3", lambda x, n, m: nb.convolve(row(x), nb.asarray([1.0, 2.0, 3.0]), "valid")),
    ("correlate", lambda x, n, m: nb.correlate(nb.asarray([1.0, 2.0]), row(x), "full")),
    ("correlate-n", lambda x, n, m: nb.correlate(nb.concatenate([x[:, 1], x[:, 0]]), x[:, 0])),
    ("polyval", lambda x, n, m: nb.polyval(x[:, 0], x * 0.3)), ("polyint", lambda x, n, m: nb.polyint(x[:, 0], 2)),
    ("polyadd", lambda x, n, m: nb.polyadd(x[:, 0], nb.asarray([1.0, 2.0]))),
    ("polymul", lambda x, n, m: nb.polymul(x[:, 0], nb.asarray([1.0, 2.0]))),
    ("polyder", lambda x, n, m: nb.polyder(x[:, 0], 2)),
    ("polyfit", lambda x, n, m: nb.polyfit(nb.arange(n) * 1.0, x[:, 0], 1)), ("poly", lambda x, n, m: nb.poly(x[:, 0])),
    ("polydiv", lambda x, n, m: nb.polydiv(x[:, 0], nb.asarray([1.0, 2.0]))),
    ("linalg.solve", lambda x, n, m: nb.linalg.solve(square(x), x)),
    ("linalg.inv", lambda x, n, m: nb.linalg.inv(square(x))),
    ("linalg.det", lambda x, n, m: nb.linalg.det(square(x))), ("linalg.pinv", lambda x, n, m: nb.linalg.pinv(x)),
    ("linalg.lu", lambda x, n, m: nb.linalg.lu(square(x))),
    ("linalg.expm", lambda x, n, m: nb.linalg.expm(square(x) * 0.1)),
    ("linalg.matrix_power", lambda x, n, m: nb.linalg.matrix_power(square(x) * 0.1, 0)),
    ("linalg.matrix_rank", lambda x, n, m: nb.linalg.matrix_rank(x)),
    ("linalg.svdvals", lambda x, n, m: nb.linalg.svdvals(x)),
    ("linalg.multi_dot", lambda x, n, m: nb.linalg.multi_dot([x, x.T, x])),
    ("fft.fft", lambda x, n, m: nb.fft.fft(x, axis=0)), ("fft.fft-4", lambda x, n, m: nb.fft.fft(x, 4, axis=0)),
    ("unfold", lambda x, n, m: nb.unfold(x[None, :, :, None], (2, 2))),
    ("adaptive_avg_pool", lambda x, n, m: nb.adaptive_avg_pool(x[None, :, :, None], (2, 2))),
    ("resize", lambda x, n, m: nb.resize(x[None, :, :, None], (3, 3))),
    ("randint", lambda x, n, m: nb.random.randint(KEY, (4,), 0, n)),
    ("randint-n", lambda x, n, m: nb.random.randint(KEY, n, -m, n)),
    ("permutation", lambda x, n, m: nb.random.permutation(KEY, n)),
    ("shuffle", lambda x, n, m: nb.random.shuffle(KEY, x, 1)),
    ("choice", lambda x, n, m: nb.random.choice(KEY, n, (3,))),
    ("choice-x", lambda x, n, m: nb.random.choice(KEY, x, (3,))),
    ("choice-few", lambda x, n, m: nb.random.choice(KEY, x, (2,), replace=False)),
    ("choice-many", lambda x, n, m: nb.random.choice(KEY, x, (6,), replace=False)),
    ("choice-p", lambda x, n, m: nb.random.choice(KEY, n, (3,), p=nb.full(n, 0.1))),
    ("fold_in", lambda x, n, m: nb.random.fold_in(KEY, n)), ("normal", lambda x, n, m: nb.random.normal(KEY, (n, m))),
    ("gamma", lambda x, n, m: nb.random.gamma(KEY, 2.0, (n,))),
    ("multinomial", lambda x, n, m: nb.random.multinomial(KEY, 5, x * x)),
]

OWN = CREATION + NUMBERS + SHAPES + STATISTICS + OTHERS

# Also their gradients of sums of squares by x.
SMOOTH = {
    "average-x", "associative_scan-2", "array_split", "convolve", "convolve-n", "correlate-n", "corrcoef", "cov",
    "cumlogsumexp", "cumprod-000", "cumprod-111", "delete-list", "diagonal-1", "diff", "ediff1d", "fftshift",
    "gradient", "insert", "interp", "linalg.multi_dot", "median", "nanmedian", "pad-edge", "pad-reflect-0", "polyval",
    "polyint", "quantile", "repeat", "roll-7", "split-at", "tile", "trace_of", "trapezoid",
}
