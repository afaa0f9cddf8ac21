"""The table of parity cases: what JAX's users write, and what they write here. Goldens are made by make_goldens.py."""

from recipe import B, Case, D, I, N, U

CASES = []
_group = ""


def _add(name, nabla, args, jax=None, grad=True, tol=1.0):
    CASES.append(Case(name, nabla, jax or nabla.replace("nb.", "jnp."), args, grad, tol, _group))


def _unary():
    real = {"x": D(2, 3)}
    for name in "exp expm1 sin cos tan sinh cosh tanh asinh atan exp2 cbrt abs square reciprocal erf erfc".split():
        jax = {"asinh": "jnp.arcsinh(x)", "atan": "jnp.arctan(x)", "erf": "jax.scipy.special.erf(x)",
               "erfc": "jax.scipy.special.erfc(x)"}.get(name)
        _add(name, f"nb.{name}(x)", real, jax)
    positive = {"x": U(0.2, 3, 2, 3)}
    for name in "log log2 log10 log1p sqrt".split():
        _add(name, f"nb.{name}(x)", positive)
    _add("rsqrt", "nb.rsqrt(x)", positive, "lax.rsqrt(x)")
    _add("lgamma", "nb.lgamma(x)", positive, "jax.scipy.special.gammaln(x)", tol=20)
    _add("digamma", "nb.digamma(x)", positive, "jax.scipy.special.digamma(x)", tol=20)
    _add("polygamma", "nb.polygamma(1, x)", positive, "jax.scipy.special.polygamma(1, x)", tol=50)
    _add("zeta", "nb.zeta(x, y)", {"x": U(2, 5, 2, 3), "y": U(1, 3, 2, 3)}, "jax.scipy.special.zeta(x, y)", grad=False,
         tol=50)
    _add("acosh", "nb.acosh(x)", {"x": U(1.5, 4, 2, 3)}, "jnp.arccosh(x)")
    unit = {"x": U(-0.9, 0.9, 2, 3)}
    for name in "asin acos atanh".split():
        _add(name, f"nb.{name}(x)", unit, f"jnp.arc{name[1:]}(x)")
    _add("erfinv", "nb.erfinv(x)", unit, "jax.scipy.special.erfinv(x)", tol=20)
    for name in "i0 i1 i0e i1e".split():
        _add(name, f"nb.{name}(x)", real, f"jax.scipy.special.{name}(x)", tol=50)
    _add("sinc", "nb.sinc(x)", real)
    for name in "sign floor ceil trunc".split():
        _add(name, f"nb.{name}(x)", real, grad=False)
    _add("round", "nb.round(x)", real, grad=False)
    _add("round_decimals", "nb.round(x, 1)", real, grad=False)
    _add("neg", "nb.neg(x)", real, "-x")
    _add("neg_operator", "-x", real)
    _add("positive", "nb.positive(x)", real)
    _add("logit", "nb.logit(x)", {"x": U(0.1, 0.9, 2, 3)}, "jax.scipy.special.logit(x)", tol=10)
    _add("deg2rad", "nb.deg2rad(x)", real)
    _add("rad2deg", "nb.rad2deg(x)", real)
    _add("exp10", "nb.exp10(x)", real, "10.0 ** x", tol=10)
    _add("clip", "nb.clip(x, -0.5, 0.7)", real)
    _add("clip_one", "nb.clip(x, None, 0.7)", real)
    special = "[float('nan'), float('inf'), -float('inf'), 1.0]"
    for name in "isnan isinf isfinite signbit".split():
        _add(name, f"nb.{name}(nb.array({special}))", {}, grad=False)
    _add("nan_to_num", f"nb.nan_to_num(nb.array({special}), nan=2.0, posinf=9.0, neginf=-9.0)", {}, grad=False)
    for name in "bitwise_not population_count".split():
        jax = "lax.population_count(x)" if name.startswith("pop") else "~x"
        _add(name, f"nb.{name}(x)", {"x": I(0, 99, 2, 3)}, jax, grad=False)
    _add("clz", "nb.clz(x)", {"x": I(0, 99, 2, 3)}, "lax.clz(x)", grad=False)
    _add("bitcast", "nb.bitcast(nb.cast(x, 'float32'), 'int32')", real,
         "lax.bitcast_convert_type(x.astype('float32'), 'int32')", grad=False)
    _add("cast_int", "x.astype('int32')", real, grad=False)
    _add("invert", "~x", {"x": B(2, 3)}, grad=False)


def _activations():
    real = {"x": D(2, 4)}
    for name in ("relu relu6 sigmoid silu softplus log_sigmoid leaky_relu elu selu celu mish hard_sigmoid hard_tanh "
                 "hard_swish soft_sign glu softmax log_softmax swish").split():
        _add(name, f"nb.{name}(x)", real, f"jax.nn.{name}(x)")
    _add("gelu", "nb.gelu(x)", real, "jax.nn.gelu(x, approximate=False)")
    _add("gelu_tanh", "nb.gelu(x, 'tanh')", real, "jax.nn.gelu(x, approximate=True)")
    _add("softmax_axis", "nb.softmax(x, axis=0)", real, "jax.nn.softmax(x, axis=0)")
    _add("softmax_axes", "nb.softmax(x, axis=(0, 1))", real, "jax.nn.softmax(x, axis=(0, 1))")
    _add("logsoftmax", "nb.logsoftmax(x, axis=0)", real, "jax.nn.log_softmax(x, axis=0)")


def _binary():
    two = {"x": D(2, 3), "y": U(0.5, 2, 3)}
    for name, sign in (("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/")):
        _add(name, f"nb.{name}(x, y)", two, f"x {sign} y")
        _add(f"{name}_operator", f"x {sign} y", two)
        _add(f"{name}_reflected", f"2.5 {sign} y", {"y": two["y"]})
    for name in "maximum minimum mod fmod arctan2 hypot logaddexp floor_divide remainder".split():
        _add(name, f"nb.{name}(x, y)", two, grad=name != "floor_divide")
    for name in "fmax fmin copysign".split():
        _add(name, f"nb.{name}(x, y)", two, grad=False)
    _add("pow", "nb.power(y, x)", two, tol=4)
    for n in (0, 1, 2, 3, 5, -2):
        _add(f"pow_{n}", f"x ** {n}", {"x": two["x"]}, tol=4)
    _add("pow_half", "y ** 0.5", {"y": two["y"]})
    _add("pow_reflected", "2.0 ** x", {"x": two["x"]})
    _add("mod_operator", "x % y", two)
    _add("floordiv_operator", "x // y", two, grad=False)
    ints = {"x": I(-9, 9, 2, 3), "y": I(1, 5, 3)}
    for name in "add sub mul floor_divide mod fmod maximum minimum gcd lcm bitwise_and bitwise_or bitwise_xor".split():
        jax = {"sub": "x - y", "mul": "x * y"}.get(name, f"jnp.{name}(x, y)")
        _add(f"int_{name}", f"nb.{name}(x, y)", ints, jax, grad=False)
    _add("int_div", "x / y", ints, grad=False)
    _add("int_pow", "x ** 3", {"x": I(-5, 5, 2, 3)}, grad=False)
    _add("left_shift", "nb.left_shift(x, y)", ints, grad=False)
    _add("right_shift", "nb.right_shift(x, y)", ints, grad=False)
    _add("shift_operators", "(x << y) >> 1", ints, grad=False)
    _add("divmod", "nb.divmod(x, y)", ints, grad=False)
    for name in "equal not_equal greater greater_equal less less_equal isclose".split():
        _add(name, f"nb.{name}(x, y)", ints, grad=False)
    for name in "logical_and logical_or logical_xor".split():
        _add(name, f"nb.{name}(x, y)", {"x": B(2, 3), "y": B(3)}, grad=False)
    _add("logical_not", "nb.logical_not(x)", ints, grad=False)
    _add("allclose", "nb.allclose(x, x)", {"x": N(3)}, grad=False)
    _add("array_equal", "nb.array_equal(x, x + 1)", ints, grad=False)
    _add("where", "nb.where(x > 0, x, y)", two)
    _add("where_scalar", "nb.where(x > 0, x, 0.0)", {"x": two["x"]})
    _add("select", "nb.select([x > 1, x > 0], [x, x * 2], -1.0)", {"x": two["x"]})
    _add("broadcast_arrays", "nb.broadcast_arrays(x, y)", two)


def _products():
    m = {"x": N(3, 4), "y": N(4, 2)}
    _add("matmul", "nb.matmul(x, y)", m)
    _add("matmul_operator", "x @ y", m)
    _add("matmul_batch", "nb.matmul(x, y)", {"x": N(2, 1, 3, 4), "y": N(3, 4, 2)})
    _add("matmul_vectors", "nb.matmul(x, y)", {"x": N(4), "y": N(4)})
    _add("matmul_matrix_vector", "nb.matmul(x, y)", {"x": N(3, 4), "y": N(4)})
    _add("matmul_vector_matrix", "nb.matmul(x, y)", {"x": N(3), "y": N(3, 4)})
    _add("dot", "nb.dot(x, y)", m)
    _add("dot_deep", "nb.dot(x, y)", {"x": N(2, 3), "y": N(2, 3, 4)})
    _add("vdot", "nb.vdot(x, y)", {"x": N(2, 3), "y": N(2, 3)})
    _add("inner", "nb.inner(x, y)", {"x": N(2, 3), "y": N(4, 3)})
    _add("outer", "nb.outer(x, y)", {"x": N(3), "y": N(2)})
    _add("kron", "nb.kron(x, y)", {"x": N(2, 2), "y": N(2, 3)})
    _add("cross", "nb.cross(x, y)", {"x": N(2, 3), "y": N(2, 3)})
    _add("tensordot", "nb.tensordot(x, y, 2)", {"x": N(2, 3, 4), "y": N(3, 4, 2)})
    _add("tensordot_axes", "nb.tensordot(x, y, ([0, 1], [1, 0]))", {"x": N(2, 3, 4), "y": N(3, 2, 5)})
    _add("dot_general", "nb.dot_general(x, y, (([2], [1]), ([0], [0])))", {"x": N(2, 3, 4), "y": N(2, 4, 5)},
         "lax.dot_general(x, y, (([2], [1]), ([0], [0])))")
    for i, spec in enumerate(("ij,jk->ik", "bij,bjk->bik", "ii", "ii->i", "ij->", "i,j", "...ij,...j->...i")):
        shapes = {"ij,jk->ik": [N(2, 3), N(3, 4)], "bij,bjk->bik": [N(2, 2, 3), N(2, 3, 4)], "ii": [N(3, 3)],
                  "ii->i": [N(3, 3)], "ij->": [N(2, 3)], "i,j": [N(2), N(3)], "...ij,...j->...i": [N(2, 3, 4), N(2, 4)]}
        args = dict(zip("xy", shapes[spec]))
        _add(f"einsum_{i}", f"nb.einsum('{spec}', {', '.join(args)})", args)


def _reductions():
    x = {"x": D(2, 3, 4)}
    for name in "sum mean max min prod var std".split():
        for suffix, options in (("", ""), ("_axis", ", axis=1"), ("_axes", ", axis=(0, -1), keepdims=True")):
            _add(name + suffix, f"nb.{name}(x{options})", x, tol=4)
    _add("var_ddof", "nb.var(x, axis=1, ddof=1)", x)
    _add("std_ddof", "nb.std(x, axis=-1, ddof=1)", x)
    _add("prod_zero", "nb.prod(nb.array([1.0, 0.0, 3.0]) * x)", {"x": U(1, 2, 3)})
    for suffix, options in (("", ""), ("_axis", ", axis=1"), ("_axes", ", axis=(0, 2), keepdims=True")):
        _add("logsumexp" + suffix, f"nb.logsumexp(x{options})", x, f"jax.scipy.special.logsumexp(x{options})")
    for name in "all any".split():
        _add(name, f"nb.{name}(x, axis=0)", {"x": B(2, 3)}, grad=False)
        _add(name + "_all", f"nb.{name}(x)", {"x": I(0, 2, 2, 3)}, grad=False)
    _add("count_nonzero", "nb.count_nonzero(x, axis=0)", {"x": I(0, 2, 2, 3)}, grad=False)
    for name in "argmax argmin".split():
        _add(name, f"nb.{name}(x, axis=-1)", x, grad=False)
        _add(name + "_none", f"nb.{name}(x, axis=None)", x, grad=False)
        _add(name + "_keep", f"nb.{name}(x, axis=0, keepdims=True)", x, grad=False)
    for name in "cumsum cumprod".split():
        _add(name, f"nb.{name}(x, axis=1)", x, tol=4)
        _add(name + "_all", f"nb.{name}(x, axis=None)", {"x": D(2, 3)}, tol=4)
    for name in "cumsum cumprod cummax cummin".split():
        _add(name + "_reverse", f"nb.{name}(x, axis=1, reverse=True)", x, f"lax.{name}(x, axis=1, reverse=True)", tol=4)
    _add("cumsum_exclusive", "nb.cumsum(x, axis=2, exclusive=True)", x, "jnp.cumsum(x, axis=2) - x", tol=4)
    _add("cumsum_exclusive_reverse", "nb.cumsum(x, axis=2, exclusive=True, reverse=True)", x,
         "lax.cumsum(x, axis=2, reverse=True) - x", tol=4)
    for name in "cummax cummin cumlogsumexp".split():
        _add(name, f"nb.{name}(x, axis=1)", x, f"lax.{name}(x, axis=1)")
    _add("diff", "nb.diff(x, n=2)", x)
    _add("median", "nb.median(x, axis=2)", x)
    _add("quantile", "nb.quantile(x, 0.3, axis=1)", x)
    _add("average", "nb.average(x, axis=1, weights=nb.array([1.0, 2.0, 3.0]))", x)
    _add("sum_bool", "nb.sum(x)", {"x": B(7)}, grad=False)
    _add("sum_int", "nb.sum(x, axis=0)", {"x": I(-9, 9, 3, 4)}, grad=False)
    _add("mean_int", "nb.mean(x)", {"x": I(-9, 9, 3, 4)}, "jnp.mean(x.astype('float64'))", grad=False)
    _add("max_int", "nb.max(x, axis=1)", {"x": I(-9, 9, 3, 4)}, grad=False)
    _add("minmax", "list(nb.minmax(x).values())", x, "[jnp.min(x), jnp.max(x)]")


def _views():
    x = {"x": N(2, 3, 4)}
    for name, call in (
            ("reshape", "nb.reshape(x, (3, -1))"), ("transpose", "nb.transpose(x)"),
            ("transpose_axes", "nb.transpose(x, (1, 2, 0))"), ("swapaxes", "nb.swapaxes(x, 0, 2)"),
            ("moveaxis", "nb.moveaxis(x, 0, -1)"), ("moveaxis_two", "nb.moveaxis(x, (0, 1), (2, 0))"),
            ("flip", "nb.flip(x, 1)"), ("flip_all", "nb.flip(x)"), ("rot90", "nb.rot90(x)"),
            ("rot90_3", "nb.rot90(x, 3)"),
            ("roll", "nb.roll(x, 2, 1)"), ("roll_all", "nb.roll(x, -5)"), ("roll_axes", "nb.roll(x, (1, 2), (0, 2))"),
            ("broadcast_to", "nb.broadcast_to(x, (2, 2, 3, 4))"), ("expand_dims", "nb.expand_dims(x, (0, 2))"),
            ("squeeze", "nb.squeeze(x[:1])"), ("ravel", "nb.ravel(x)"), ("tile", "nb.tile(x, (2, 1, 1, 2))"),
            ("repeat", "nb.repeat(x, 2, axis=1)"), ("repeat_all", "nb.repeat(x, 2)"),
            ("repeat_each", "nb.repeat(x, nb.array([1, 0, 2]), axis=1)"),
            ("split", "nb.split(x, 2, axis=2)"), ("split_at", "nb.split(x, [1, 2], axis=1)"),
            ("array_split", "nb.array_split(x, 3, axis=2)"), ("triu", "nb.triu(x, 1)"), ("tril", "nb.tril(x, -1)"),
            ("diagonal_axes", "nb.diagonal(x[0], 1)"), ("atleast_3d", "nb.atleast_3d(x[0])"),
            ("atleast_2d", "nb.atleast_2d(x[0, 0])"), ("atleast_1d", "nb.atleast_1d(x[0, 0, 0])"),
            ("fliplr", "nb.fliplr(x)"), ("flipud", "nb.flipud(x)"), ("matrix_transpose", "nb.matrix_transpose(x)"),
            ("T", "x.T"), ("mT", "x.mT"), ("pad", "nb.pad(x, ((1, 0), (0, 2), (1, 1)))"),
            ("pad_int", "nb.pad(x, 1)"), ("pad_edge", "nb.pad(x, 2, mode='edge')"),
            ("pad_reflect", "nb.pad(x[:, :, :3], ((1, 1), (2, 1), (2, 2)), mode='reflect')"),
            ("pad_symmetric", "nb.pad(x, ((3, 2), (1, 1), (5, 2)), mode='symmetric')"),
            ("pad_wrap", "nb.pad(x, ((3, 2), (1, 1), (5, 2)), mode='wrap')")):
        _add(name, call, x, call.replace("nb.", "jnp.").replace("2]), axis=1)", "2]), axis=1, total_repeat_length=3)"))
    _add("pad_value", "nb.pad(x, 1, value=3.0)", x, "jnp.pad(x, 1, constant_values=3.0)")
    _add("flatten", "nb.flatten(x, 1)", x, "x.reshape(2, 12)")
    _add("unsqueeze", "nb.unsqueeze(x, -1)", x, "x[..., None]")
    _add("permute", "nb.permute(x, (2, 0, 1))", x, "jnp.transpose(x, (2, 0, 1))")
    _add("swap_axes", "nb.swap_axes(x)", x, "jnp.swapaxes(x, -1, -2)")
    _add("split_sizes", "nb.split_sizes(x, (1, 3), 2)", x, "[x[..., :1], x[..., 1:]]")
    _add("chunk", "nb.chunk(x, 2, 1)", x, "[x[:, :2], x[:, 2:]]")
    _add("unbind", "nb.unbind(x, 1)", x, "[x[:, 0], x[:, 1], x[:, 2]]")
    _add("slice_tensor", "nb.slice_tensor(x, (0, 1, 1), (2, 2, -1))", x, "x[:, 1:3, 1:]")
    _add("expand", "nb.expand(x[:, :1], -1, 3, -1)", x, "jnp.broadcast_to(x[:, :1], (2, 3, 4))")
    _add("as_interleaved_complex", "nb.as_interleaved_complex(x)", x, "x.reshape(2, 3, 2, 2)")
    _add("view_as_real_interleaved", "nb.view_as_real_interleaved(x)", {"x": N(2, 3, 2)}, "x.reshape(2, 6)")
    _add("rebind", "nb.rebind(x, (2, None, 4))", x, "x")
    two = {"x": N(2, 3), "y": N(2, 3)}
    for name in "concatenate stack hstack vstack dstack column_stack".split():
        _add(name, f"nb.{name}([x, y])", two)
    _add("concatenate_axis", "nb.concatenate([x, y], axis=-1)", two)
    _add("concatenate_none", "nb.concatenate([x, y], axis=None)", two)
    _add("stack_axis", "nb.stack([x, y], axis=-1)", two)
    _add("append", "nb.append(x, y, axis=0)", two)
    _add("meshgrid", "nb.meshgrid(x, y)", {"x": N(2), "y": N(3)})
    _add("meshgrid_ij", "nb.meshgrid(x, y, indexing='ij')", {"x": N(2), "y": N(3)})
    _add("slice_update", "nb.slice_update(x, y, (1, 0), (1, 3))", {"x": N(2, 3), "y": N(1, 3)}, "x.at[1:2].set(y)")
    _add("dynamic_slice", "nb.dynamic_slice(x, (i[0], i[0] * 0 + 1), (2, 2))", {"x": N(4, 3), "i": I(0, 3, 1)},
         "lax.dynamic_slice(x, (i[0], i[0] * 0 + 1), (2, 2))")
    _add("dynamic_update_slice", "nb.dynamic_update_slice(x, y, (i[0], i[0] * 0 + 1))",
         {"x": N(4, 3), "y": N(2, 2), "i": I(0, 3, 1)}, "lax.dynamic_update_slice(x, y, (i[0], i[0] * 0 + 1))")


def _creation():
    for name, call in (("zeros", "nb.zeros((2, 3))"), ("ones", "nb.ones(3)"), ("full", "nb.full((2, 2), 7)"),
                       ("arange", "nb.arange(5)"), ("arange_step", "nb.arange(1, 8, 3)"),
                       ("arange_float", "nb.arange(0.0, 1.0, 0.25)"), ("linspace", "nb.linspace(0, 1, 5)"),
                       ("linspace_open", "nb.linspace(0, 1, 5, endpoint=False)"), ("logspace", "nb.logspace(0, 2, 3)"),
                       ("geomspace", "nb.geomspace(1, 8, 4)"), ("empty", "nb.empty(2)"), ("eye", "nb.eye(3)"),
                       ("eye_k", "nb.eye(3, 4, 1)"),
                       ("identity", "nb.identity(2)"), ("tri", "nb.tri(3, 4, 1)")):
        _add(name, call, {}, "jnp.zeros(2)" if name == "empty" else None, grad=False, tol=4)
    _add("iota", "nb.iota((2, 3), 1)", {}, "lax.broadcasted_iota('int32', (2, 3), 1)", grad=False)
    _add("hann_window", "nb.hann_window(6, False)", {}, "jnp.hanning(6)", grad=False, tol=4)
    for name in "zeros_like ones_like empty_like".split():
        _add(name, f"nb.{name}(x)", {"x": N(2, 3)}, "jnp.zeros_like(x)" if name[0] == "e" else None, grad=False)
    _add("full_like", "nb.full_like(x, 2)", {"x": N(2)}, grad=False)
    _add("diag", "nb.diag(x)", {"x": N(3)})
    _add("diag_k", "nb.diag(x, -1)", {"x": N(3)})
    _add("diag_of", "nb.diag(x, 1)", {"x": N(3, 4)})
    _add("diag_embed", "nb.diag_embed(x)", {"x": N(2, 3)}, "x[..., None] * jnp.eye(3, dtype=x.dtype)")
    _add("trace_of", "nb.trace_of(x)", {"x": N(3, 3)}, "jnp.trace(x)")
    _add("vander", "nb.vander(x, 3)", {"x": U(0.5, 2, 4)})
    _add("one_hot", "nb.one_hot(x, 4)", {"x": I(0, 5, 3)}, "jax.nn.one_hot(x, 4)", grad=False)
    _add("one_hot_axis", "nb.one_hot(x, 4, axis=0)", {"x": I(0, 5, 3)}, "jax.nn.one_hot(x, 4, axis=0)", grad=False)
    _add("band_part", "nb.band_part(x, 1, 0)", {"x": N(4, 4)}, "jnp.triu(jnp.tril(x), -1)")


def _indexing():
    x = {"x": N(4, 3, 5)}
    for i, index in enumerate((
            "1", "-1", "1, 2", "..., 0", "1:3", "::2", "::-1", "3:0:-2", "1:, None, ::2", "None", ":, -2:, 1:-1",
            "A([0, 0, 3])", "A([-1, 2]), A([0, 1])", ":, A([1, 0])", ":, A([1, 0]), A([2, 4])",
            "A([1, 0]), :, A([2, 4])",
            "0, :, A([2, 4])", "A([[0, 1], [2, 3]])", "A([True, False, True, True])", "1:3, A([2, 0]), ::2",
            "None, A([1]), ..., None")):
        _add(f"index_{i}", f"x[{index.replace('A', 'nb.array')}]", x)
    for i, index in enumerate(("0", "1:3", "..., 1", "::2, 1", "A([0, 0, 3])", ":, A([1, 0]), A([2, 4])",
                               "1, ..., A([0, 0])", "1:3, :, A([0, 0, 2])", "::-1")):
        for how in "set add multiply".split():
            _add(f"at_{how}_{i}", f"x.at[{index.replace('A', 'nb.array')}].{how}(y)", {"x": x["x"], "y": N()}, tol=4,
                 grad=how != "multiply" or "A" not in index)
    for name in "min max divide subtract".split():
        _add(f"at_{name}", f"x.at[nb.array([2, 0, 3])].{name}(y)", {"x": D(4, 3), "y": U(0.5, 0.6, 3)},
             f"x.at[jnp.array([2, 0, 3])].{name}(y{', unique_indices=True' if name == 'divide' else ''})")
    _add("at_power", "x.at[1].power(2.0)", {"x": U(0.5, 2, 3)})
    _add("at_apply", "x.at[1:].apply(nb.sin)", {"x": N(3)}, "x.at[1:].set(jnp.sin(x[1:]))")
    _add("at_mask", "x.at[x > 0].set(0.0)", {"x": D(2, 3)})
    _add("at_get_fill", "x.at[nb.array([0, 9])].get(mode='fill', fill_value=0.0)", {"x": N(3)})
    _add("take", "nb.take(x, i, axis=1)", {"x": N(2, 4), "i": I(-4, 4, 2, 3)})
    _add("take_all", "nb.take(x, i, None)", {"x": N(2, 4), "i": I(0, 8, 3)}, "jnp.take(x, i)")
    _add("gather", "nb.gather(x, i, 1)", {"x": N(2, 4), "i": I(0, 4, 3)}, "jnp.take(x, i, axis=1)")
    _add("take_along_axis", "nb.take_along_axis(x, i, axis=1)", {"x": N(2, 4), "i": I(-4, 4, 2, 3)})
    _add("put_along_axis", "nb.put_along_axis(x, i, 7.0, axis=1)", {"x": N(2, 4), "i": I(0, 4, 2, 1)},
         "jnp.put_along_axis(x, i, 7.0, axis=1, inplace=False)")
    _add("add_along_axis", "nb.add_along_axis(x, i, y, axis=1)", {"x": N(2, 4), "i": I(0, 4, 2, 3), "y": N(2, 3)},
         "x.at[jnp.arange(2)[:, None], i].add(y)")
    _add("scatter", "nb.scatter(x, nb.array([3, 1]), y)", {"x": N(4, 2), "y": N(2, 2)},
         "x.at[jnp.array([3, 1])].set(y)")
    for name, at in (("scatter_add", "add"), ("scatter_mul", "multiply")):
        _add(name, f"nb.{name}(x, i, y, axis=1)", {"x": N(2, 4), "i": I(0, 4, 3), "y": N(2, 3)}, f"x.at[:, i].{at}(y)",
             grad=name == "scatter_add", tol=4)
    for name, at in (("scatter_min", "min"), ("scatter_max", "max")):
        _add(name, f"nb.{name}(x, nb.array([3, 1, 0]), y, axis=1)", {"x": D(2, 4), "y": U(-0.1, 0.1, 2, 3)},
             f"x.at[:, jnp.array([3, 1, 0])].{at}(y)")
    _add("gather_nd", "nb.gather_nd(x, i)", {"x": N(3, 4, 2), "i": I(0, 3, 5, 2)}, "x[i[:, 0], i[:, 1]]")
    _add("scatter_nd", "nb.scatter_nd(x, nb.array([[0, 1], [2, 3]]), y)", {"x": N(3, 4), "y": N(2)},
         "x.at[jnp.array([0, 2]), jnp.array([1, 3])].set(y)")
    _add("scatter_nd_add", "nb.scatter_nd_add(x, i, y)", {"x": N(3, 4), "i": I(0, 3, 5, 2), "y": N(5)},
         "x.at[i[:, 0], i[:, 1]].add(y)")
    _add("segment_sum", "nb.segment_sum(x, i, 3)", {"x": N(6, 2), "i": I(0, 3, 6)}, "jax.ops.segment_sum(x, i, 3)")
    for name in "sort argsort".split():
        for suffix, options in (("", ""), ("_axis", ", axis=0"), ("_down", ", descending=True")):
            _add(name + suffix, f"nb.{name}(x{options})", {"x": D(3, 4)}, grad=name == "sort")
    _add("lexsort", "nb.lexsort([x, y])", {"x": I(0, 9, 6), "y": I(0, 2, 6)}, grad=False)
    _add("top_k", "nb.top_k(x, 2)", {"x": D(3, 4)}, "list(lax.top_k(x, 2))")
    for side in ("left", "right"):
        _add(f"searchsorted_{side}", f"nb.searchsorted(nb.sort(x), y, side='{side}')",
             {"x": I(0, 9, 8), "y": I(0, 9, 5)},
             grad=False)
    _add("digitize", "nb.digitize(x, nb.array([-1.0, 0.0, 1.0]))", {"x": D(6)}, grad=False)
    _add("bincount", "nb.bincount(x, length=5)", {"x": I(0, 7, 9)}, grad=False)
    _add("histogram", "nb.histogram(x, 4)", {"x": D(9)}, grad=False, tol=4)
    _add("unique", "nb.unique(x)", {"x": I(0, 4, 9)}, grad=False)
    _add("nonzero", "nb.nonzero(x)", {"x": I(0, 2, 3, 4)}, "jnp.argwhere(x)", grad=False)
    _add("nonzero_size", "nb.nonzero(x, size=4, fill_value=-1)", {"x": I(0, 2, 5)},
         "jnp.argwhere(x, size=4, fill_value=-1)", grad=False)
    _add("masked_select", "nb.masked_select(x, x > 0)", {"x": D(3, 4)}, "x[x > 0]", grad=False)
    _add("masked_select_size", "nb.masked_select(x, x > 0, 3)", {"x": D(3, 4)}, "x[x > 0][:3]")
    _add("compress", "nb.compress(nb.array([True, False, True]), x, axis=0)", {"x": N(3, 2)})
    _add("masked_scatter", "nb.masked_scatter(x, x > 0, y)", {"x": D(2, 3), "y": N(6)},
         "jnp.where(x > 0, y[jnp.maximum(jnp.cumsum((x > 0).ravel()) - 1, 0)].reshape(2, 3), x)")


def _windows():
    image = {"x": N(2, 6, 5, 4), "w": N(3, 2, 4, 3)}
    dims = "('NHWC', 'HWIO', 'NHWC')"

    def conv(name, call, jax, args=image):
        _add(name, call, args, jax, tol=10)

    conv("conv2d", "nb.conv2d(x, w)", f"lax.conv_general_dilated(x, w, (1, 1), 'VALID', dimension_numbers={dims})")
    conv("conv2d_stride", "nb.conv2d(x, w, stride=2, padding=1)",
         f"lax.conv_general_dilated(x, w, (2, 2), [(1, 1), (1, 1)], dimension_numbers={dims})")
    conv("conv2d_dilation", "nb.conv2d(x, w, stride=(1, 2), dilation=2, padding=(1, 2, 0, 3))",
         f"lax.conv_general_dilated(x, w, (1, 2), [(1, 2), (0, 3)], rhs_dilation=(2, 2), dimension_numbers={dims})")
    conv("conv2d_same", "nb.conv2d(x, w, stride=2, padding='same')",
         f"lax.conv_general_dilated(x, w, (2, 2), 'SAME', dimension_numbers={dims})")
    conv("conv2d_groups", "nb.conv2d(x, w, groups=2)",
         f"lax.conv_general_dilated(x, w, (1, 1), 'VALID', feature_group_count=2, dimension_numbers={dims})",
         {"x": N(2, 4, 4, 4), "w": N(2, 2, 2, 6)})
    conv("conv2d_bias_nchw", "nb.conv2d(x, w, bias=b, input_layout='NCHW', filter_layout='OIHW')",
         "lax.conv_general_dilated(x, w, (1, 1), 'VALID') + b[:, None, None]",
         {"x": N(1, 2, 4, 4), "w": N(3, 2, 2, 2), "b": N(3)})
    conv("conv1d", "nb.conv1d(x, w, padding=1)",
         "lax.conv_general_dilated(x, w, (1,), [(1, 1)], dimension_numbers=('NWC', 'WIO', 'NWC'))",
         {"x": N(2, 6, 3), "w": N(3, 3, 2)})
    conv("conv3d", "nb.conv3d(x, w)",
         "lax.conv_general_dilated(x, w, (1, 1, 1), 'VALID', dimension_numbers=('NDHWC', 'DHWIO', 'NDHWC'))",
         {"x": N(1, 3, 4, 3, 2), "w": N(2, 2, 2, 2, 2)})
    conv("conv2d_transpose", "nb.conv2d_transpose(x, w, stride=2, padding=1)",
         "lax.conv_general_dilated(x, jnp.flip(w, (0, 1)).swapaxes(2, 3), (1, 1), [(1, 1), (1, 1)], lhs_dilation=(2, "
         f"2), dimension_numbers={dims})", {"x": N(1, 3, 3, 2), "w": N(3, 3, 4, 2)})
    conv("conv1d_transpose", "nb.conv1d_transpose(x, w, stride=2, output_paddings=1)",
         "lax.conv_general_dilated(x, jnp.flip(w, 0).swapaxes(1, 2), (1,), [(2, 3)], lhs_dilation=(2,), "
         "dimension_numbers=('NWC', 'WIO', 'NWC'))", {"x": N(1, 4, 2), "w": N(3, 3, 2)})
    conv("conv3d_transpose", "nb.conv3d_transpose(x, w)",
         "lax.conv_general_dilated(x, jnp.flip(w, (0, 1, 2)).swapaxes(3, 4), (1, 1, 1), [(1, 1)] * 3, "
         "dimension_numbers=('NDHWC', 'DHWIO', 'NDHWC'))", {"x": N(1, 2, 2, 2, 2), "w": N(2, 2, 2, 3, 2)})
    pool = {"x": D(1, 5, 6, 2)}
    window = "(1, 2, 3, 1), (1, 2, 2, 1)"
    _add("max_pool2d", "nb.max_pool2d(x, kernel_size=(2, 3), stride=2)", pool,
         f"lax.reduce_window(x, -jnp.inf, lax.max, {window}, 'VALID')")
    _add("max_pool2d_padding", "nb.max_pool2d(x, kernel_size=(2, 3), stride=2, padding=1)", pool,
         f"lax.reduce_window(x, -jnp.inf, lax.max, {window}, [(0, 0), (1, 1), (1, 1), (0, 0)])")
    _add("avg_pool2d", "nb.avg_pool2d(x, kernel_size=(2, 3), stride=2)", pool,
         f"lax.reduce_window(x, 0.0, lax.add, {window}, 'VALID') / 6")
    _add("avg_pool2d_count", "nb.avg_pool2d(x, kernel_size=(2, 3), stride=2, padding=1, count_include_pad=False)", pool,
         f"lax.reduce_window(x, 0.0, lax.add, {window}, [(0, 0), (1, 1), (1, 1), (0, 0)]) / lax.reduce_window("
         f"jnp.ones_like(x), 0.0, lax.add, {window}, [(0, 0), (1, 1), (1, 1), (0, 0)])")
    for name, how, start, over in (("max", "lax.max", "-jnp.inf", ""), ("avg", "lax.add", "0.0", " / 2")):
        _add(f"{name}_pool1d", f"nb.{name}_pool1d(x, kernel_size=2)", {"x": D(1, 6, 2)},
             f"lax.reduce_window(x, {start}, {how}, (1, 2, 1), (1, 2, 1), 'VALID'){over}")
        _add(f"{name}_pool3d", f"nb.{name}_pool3d(x, kernel_size=(2, 1, 1))", {"x": D(1, 4, 2, 2, 1)},
             f"lax.reduce_window(x, {start}, {how}, (1, 2, 1, 1, 1), (1, 2, 1, 1, 1), 'VALID'){over}")
    _add("adaptive_avg_pool", "nb.adaptive_avg_pool(x, (5, 2))", pool, "x.reshape(1, 5, 2, 3, 2).mean(3)")
    _add("adaptive_max_pool", "nb.adaptive_max_pool(x, (5, 2))", pool, "x.reshape(1, 5, 2, 3, 2).max(3)")
    _add("unfold", "nb.unfold(x, (2, 3), stride=2, padding=1)", pool,
         "jnp.moveaxis(lax.conv_general_dilated_patches(x, (2, 3), (2, 2), [(1, 1), (1, 1)], dimension_numbers="
         f"{dims}).reshape(1, 3, 3, 2, 2, 3), 3, -1)")
    _add("fold", "nb.fold(nb.unfold(x, 2), (5, 6))", pool,
         "x * (lambda a, b: a[:, None] * b)(jnp.array([1, 2, 2, 2, 1]), jnp.array([1, 2, 2, 2, 2, 1]))[..., None]")
    for method in ("nearest", "linear"):
        _add(f"resize_{method}", f"nb.resize(x, (10, 9), '{method}')", pool,
             f"jax.image.resize(x, (1, 10, 9, 2), '{method}')",
             tol=10)


for _group, _make in (("Elementwise", _unary), ("Activations", _activations), ("Two operands", _binary),
                      ("Products", _products), ("Reductions and running reductions", _reductions), ("Shapes", _views),
                      ("Creation", _creation), ("Indexing, order, selection", _indexing), ("Windows", _windows)):
    _make()
import cases_more  # noqa: E402

for _group, _make in cases_more.GROUPS:
    _make(_add)
