"""More parity cases: linear algebra, Fourier transforms, transforms of functions, loops, types."""

from recipe import B, D, I, N, S, U, W


def linalg(add):
    def row(name, call, args, jax=None, **options):
        call = call.replace("la.", "nb.linalg.")
        add(name, call, args, jax, **{"tol": 20, **options})

    row("cholesky", "la.cholesky(x)", {"x": S(3, 3)}, "jnp.linalg.cholesky((x + x.T) / 2)", grad=False)
    row("cholesky_symmetric", "la.cholesky((x + x.T) / 2)", {"x": S(3, 3)}, "jnp.linalg.cholesky((x + x.T) / 2)",
        grad=False)
    row("cholesky_solve", "la.cholesky_solve(la.cholesky(x), y)", {"x": S(3, 3), "y": N(3)},
        "jnp.linalg.solve(x, y)", grad=False)
    row("solve", "la.solve(x, y)", {"x": W(3, 3), "y": N(3, 2)})
    row("solve_vector", "la.solve(x, y)", {"x": W(3, 3), "y": N(3)})
    row("solve_triangular", "la.solve_triangular(x, y, lower=True)", {"x": W(3, 3), "y": N(3, 2)},
        "jax.scipy.linalg.solve_triangular(x, y, lower=True)")
    row("solve_triangular_trans", "la.solve_triangular(x, y, trans=True)", {"x": W(3, 3), "y": N(3, 2)},
        "jax.scipy.linalg.solve_triangular(x, y, trans=1)")
    for name in "inv det pinv".split():
        row(name, f"la.{name}(x)", {"x": W(3, 3)})
    row("slogdet", "la.slogdet(x)[1]", {"x": W(3, 3)})
    row("lstsq", "la.lstsq(x, y)", {"x": W(4, 2), "y": N(4)}, "jnp.linalg.lstsq(x, y)[0]", grad=False)
    row("qr_r", "la.qr(x)[1] ** 2", {"x": W(4, 3)}, "jnp.linalg.qr(x)[1] ** 2")
    row("qr", "la.qr(x)[0] @ la.qr(x)[1]", {"x": W(4, 3)})
    row("svdvals", "la.svdvals(x)", {"x": W(3, 2)}, "jnp.linalg.svd(x, compute_uv=False)")
    row("svd", "(lambda u, s, v: (u * s) @ v)(*la.svd(x))", {"x": W(3, 2)}, "x")
    row("eigvalsh", "la.eigvalsh((x + x.T) / 2)", {"x": W(3, 3)}, "jnp.linalg.eigvalsh((x + x.T) / 2)")
    row("eigh", "(lambda w, v: (v * nb.sqrt(w)) @ v.T)(*la.eigh(x))", {"x": S(3, 3)},
        "(lambda w, v: (v * jnp.sqrt(w)) @ v.T)(*jnp.linalg.eigh(x))", grad=False)
    row("lu", "(lambda p, l, u: p @ l @ u)(*la.lu(x))", {"x": N(3, 3)}, "x")
    row("lu_u", "nb.abs(la.lu(x)[2])", {"x": N(3, 3)}, "jnp.abs(jax.scipy.linalg.lu(x)[2])")
    row("matrix_power", "la.matrix_power(x, 3)", {"x": N(3, 3)})
    row("matrix_power_inverse", "la.matrix_power(x, -2)", {"x": W(3, 3)})
    row("matrix_rank", "la.matrix_rank(x)", {"x": W(3, 3)}, grad=False)
    row("cond_number", "la.cond(x)", {"x": W(3, 3)}, grad=False)
    row("multi_dot", "la.multi_dot([x, y, z])", {"x": N(2, 3), "y": N(3, 4), "z": N(4, 2)})
    row("expm", "la.expm(x)", {"x": N(3, 3)}, "jax.scipy.linalg.expm(x)", tol=100)
    row("norm", "la.norm(x)", {"x": N(3, 2)})
    for order in ("1", "2", "float('inf')", "'nuc'", "'fro'"):
        row(f"norm_{order.strip(chr(39))[:5]}", f"la.norm(x, {order})", {"x": D(3, 2)})
    row("norm_axis", "la.norm(x, 3, axis=1, keepdims=True)", {"x": D(3, 2)})
    row("norm_of", "nb.norm_of(x, float('inf'), axis=1)", {"x": D(3, 2)}, "jnp.linalg.norm(x, jnp.inf, axis=1)")
    row("diagonal", "la.diagonal(x, -1)", {"x": N(3, 4)}, "jnp.diagonal(x, -1)")
    row("trace_linalg", "la.trace(x)", {"x": N(3, 4)}, "jnp.trace(x)")


def fft(add):
    def row(name, call, args, jax, **options):
        add(name, call.replace("ft.", "nb.fft."), args, jax, **{"tol": 10, **options})

    pair = {"x": N(2, 6), "y": N(2, 6)}
    both = "(lambda z: (z.real, z.imag))(jnp.fft.{}(x + 1j * y{}))"
    for name in "fft ifft".split():
        row(name, f"ft.{name}((x, y))", pair, both.format(name, ""))
        row(name + "_n", f"ft.{name}((x, y), 5, 0)", pair, both.format(name, ", 5, 0"))
        row(name + "_ortho", f"ft.{name}((x, y), norm='ortho')", pair, both.format(name, ", norm='ortho'"))
        row(name + "2", f"ft.{name}2((x, y))", pair, both.format(name + "2", ""))
        row(name + "n", f"ft.{name}n((x, y))", pair, both.format(name + "n", ""))
    real = "(lambda z: (z.real, z.imag))(jnp.fft.{}(x{}))"
    row("rfft", "ft.rfft(x)", {"x": N(2, 6)}, real.format("rfft", ""))
    row("rfft_odd", "ft.rfft(x, 5)", {"x": N(2, 6)}, real.format("rfft", ", 5"))
    row("rfft2", "ft.rfft2(x)", {"x": N(3, 4)}, real.format("rfft2", ""))
    row("irfft", "ft.irfft((x, y))", {"x": N(2, 4), "y": N(2, 4)}, "jnp.fft.irfft(x + 1j * y)")
    row("irfft_odd", "ft.irfft((x, y), 7)", {"x": N(2, 4), "y": N(2, 4)}, "jnp.fft.irfft(x + 1j * y, 7)")
    row("irfft2", "ft.irfft2(ft.rfft2(x))", {"x": N(3, 4)}, "jnp.fft.irfft2(jnp.fft.rfft2(x))")
    row("fftfreq", "ft.fftfreq(7, 0.5)", {}, "jnp.fft.fftfreq(7, 0.5)", grad=False)
    row("rfftfreq", "ft.rfftfreq(7, 0.5)", {}, "jnp.fft.rfftfreq(7, 0.5)", grad=False)
    row("fftshift", "ft.fftshift(x)", {"x": N(3, 4)}, "jnp.fft.fftshift(x)")
    row("ifftshift", "ft.ifftshift(x, 1)", {"x": N(3, 5)}, "jnp.fft.ifftshift(x, 1)")
    row("complex_abs", "ft.fft((x, y)).abs()", pair, "jnp.abs(jnp.fft.fft(x + 1j * y))")
    row("complex_product", "ft.fft((x, y)) * ft.as_complex((y, x)).conj()", pair,
        "(lambda z: (z.real, z.imag))(jnp.fft.fft(x + 1j * y) * jnp.conj(y + 1j * x))")


def transforms(add):
    def row(name, call, args, jax=None, **options):
        if jax is None:
            jax = call
            for own in ("grad", "value_and_grad", "vjp", "jvp", "vmap", "jacfwd", "jacrev", "hessian", "checkpoint",
                        "linearize"):
                jax = jax.replace(f"nb.{own}(", f"jax.{own}(")
            for own in ("cond", "switch", "while_loop", "fori_loop", "scan", "associative_scan", "stop_gradient"):
                jax = jax.replace(f"nb.{own}(", f"lax.{own}(")
            jax = jax.replace("nb.", "jnp.")
        add(name, call, args, jax, **{"tol": 10, **options})

    x, two = {"x": N(3)}, {"x": N(3), "y": N(3)}
    row("grad", "nb.grad(lambda v: nb.sum(nb.sin(v) * v))(x)", x)
    row("grad_argnums", "nb.grad(lambda v, w: nb.sum(v * nb.exp(w)), argnums=(0, 1))(x, y)", two)
    row("grad_tree", "nb.grad(lambda p: nb.sum(p['a'] * p['b'][0] ** 2))({'a': x, 'b': [y]})", two)
    row("grad_aux", "nb.grad(lambda v: (nb.sum(v ** 3), v * 2), has_aux=True)(x)", x)
    row("value_and_grad", "nb.value_and_grad(lambda v: nb.sum(nb.tanh(v)))(x)", x)
    row("grad_grad", "nb.grad(lambda v: nb.grad(nb.sin)(v) * v)(x[0])", x)
    row("vjp", "(lambda out, back: (out, back(out)))(*nb.vjp(lambda v, w: v * nb.sin(w), x, y))", two)
    row("jvp", "nb.jvp(lambda v, w: v * nb.sin(w), (x, y), (y, x))", two)
    row("jvp_of_grad", "nb.jvp(nb.grad(lambda v: nb.sum(v ** 3)), (x,), (y,))", two)
    row("linearize", "(lambda out, f: (out, f(y)))(*nb.linearize(nb.sin, x))", two)
    row("jacfwd", "nb.jacfwd(lambda v: nb.outer(v, v[:2]))(x)", x)
    row("jacrev", "nb.jacrev(lambda v: nb.outer(v, v[:2]))(x)", x)
    row("hessian", "nb.hessian(lambda v: nb.sum(v ** 3) * v[0])(x)", x)
    row("hvp", "nb.hvp(lambda v: nb.sum(v ** 4), (x,), (y,))", two, "12 * x ** 2 * y")
    row("vmap", "nb.vmap(lambda v: nb.sum(v ** 2))(x)", {"x": N(4, 3)})
    row("vmap_axes", "nb.vmap(lambda v, w: v @ w, in_axes=(1, None), out_axes=1)(x, y)", {"x": N(3, 4), "y": N(3, 2)})
    row("vmap_vmap", "nb.vmap(nb.vmap(lambda v, w: v * nb.cos(w), (0, None)), (None, 0))(x, y)", two)
    row("vmap_grad", "nb.vmap(nb.grad(lambda v: nb.sum(v ** 3)))(x)", {"x": N(4, 3)})
    row("grad_vmap", "nb.grad(lambda v: nb.sum(nb.vmap(nb.sin)(v) ** 2))(x)", x)
    row("vmap_gather", "nb.vmap(lambda v, j: v[j])(x, i)", {"x": N(4, 5), "i": I(0, 5, 4)})
    row("vmap_scatter_add", "nb.vmap(lambda v, j, w: v.at[j].add(w))(x, i, y)",
        {"x": N(2, 5), "i": I(0, 5, 2, 3), "y": N(2, 3)})
    row("vmap_sort", "nb.vmap(lambda v: nb.sort(v))(x)", {"x": D(3, 4)})
    row("vmap_solve", "nb.vmap(nb.linalg.solve)(x, y)", {"x": W(2, 3, 3), "y": N(2, 3)}, tol=50)
    row("checkpoint", "nb.grad(nb.checkpoint(lambda v: nb.sum(nb.sin(nb.sin(v)))))(x)", x)
    row("stop_gradient", "nb.grad(lambda v: nb.sum(v * nb.stop_gradient(v)))(x)", x)
    row("cond", "nb.cond(x[0] > 0, lambda v: v * 2, lambda v: nb.sin(v), x)", x)
    row("cond_grad", "nb.grad(lambda v: nb.sum(nb.cond(v[0] < 9, lambda w: w ** 2, lambda w: w, v)))(x)", x)
    row("switch", "nb.switch(i[0], [lambda v: v, lambda v: v * 2, lambda v: -v], x)", {"x": N(3), "i": I(0, 3, 1)})
    row("while_loop", "nb.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 1.5), (0, x))[1]", x, grad=False)
    row("fori_loop", "nb.fori_loop(0, 5, lambda k, v: v * 1.1 + k, x)", x)
    row("scan", "nb.scan(lambda c, v: (c + v, c * v), nb.zeros_like(x[0]), x)", {"x": N(5, 3)})
    row("scan_reverse", "nb.scan(lambda c, v: (c * 0.5 + v, c), nb.zeros_like(x[0]), x, reverse=True)", {"x": N(5, 3)})
    row("scan_grad", "nb.grad(lambda v: nb.sum(nb.scan(lambda c, w: (nb.sin(c) + w, None), 0 * v[0], v)[0]))(x)",
        {"x": N(5, 3)})
    row("associative_scan", "nb.associative_scan(nb.add, x)", {"x": N(5, 3)})
    row("associative_scan_reverse", "nb.associative_scan(lambda a, b: a * b, x, reverse=True)", {"x": N(5, 3)})


def types(add):
    for i, call in enumerate((
            "x + 1.5", "x + 2", "b + b", "b * x", "b & (x > 0)", "x // 2", "x % 3", "-x", "abs(x)", "x ** 2", "x > 0",
            "nb.where(b, x, 0)", "nb.maximum(x, 1)", "nb.sum(b, axis=0)", "nb.cumsum(b, axis=0)",
            "x.astype('uint8') + x.astype('int8')", "x.astype('int16') * x.astype('float16')",
            "x.astype('bfloat16') + x.astype('float16')", "x.astype('uint32') + x.astype('int32')",
            "nb.concatenate([x, b])", "nb.stack([x, x * 0.5])", "x @ x.T", "b @ b.T", "nb.mean(x.astype('bfloat16'))")):
        add(f"types_{i}", call, {"x": I(-5, 6, 2, 3), "b": B(2, 3)}, grad=False)
    add("types_int_to_float", "nb.sqrt(nb.abs(x))", {"x": I(-5, 6, 2, 3)}, "jnp.sqrt(jnp.abs(x).astype('float64'))",
        grad=False)
    for dtype in ("float16", "bfloat16"):
        for name, call in (("add", "x + y"), ("mul", "x * y"), ("matmul", "x @ y.T"), ("softmax", "nb.softmax(x)"),
                           ("sum", "nb.sum(x)"), ("exp", "nb.exp(x)"), ("norm", "(x - nb.mean(x)) / nb.std(x)")):
            whole = f"(lambda x, y: {call})(x.astype('{dtype}'), y.astype('{dtype}')).astype('float32')"
            jax = whole.replace("nb.softmax(", "jax.nn.softmax(").replace("nb.", "jnp.")
            add(f"{dtype}_{name}", whole, {"x": U(-1, 1, 2, 3), "y": U(0.5, 1, 2, 3)}, jax, grad=False)


GROUPS = [("Linear algebra", linalg), ("Fourier transforms", fft), ("Transforms and loops", transforms),
          ("Types", types)]
