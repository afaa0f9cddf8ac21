"""Computes the goldens of cases.py with JAX (pip install jax numpy), or writes docs/parity.md from the table.

    python3 tests/parity/make_goldens.py                # goldens_f32.npz and goldens_f64.npz beside this file: rows
                                                        # that changed; all of them with --all
    python3 tests/parity/make_goldens.py --write-docs   # docs/parity.md; needs neither JAX nor nabla
    python3 tests/parity/make_goldens.py --only NAME    # prints what JAX gives for one case
"""

import argparse
import json
import os
import sys
import zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from cases import CASES  # noqa: E402
from recipe import FLOATS, array, moved  # noqa: E402


def leaves(tree):
    """The arrays of nested lists, tuples and dicts, in the order of JAX's trees."""
    if tree is None:
        return []
    if isinstance(tree, dict):
        return [x for k in sorted(tree) for x in leaves(tree[k])]
    if isinstance(tree, (list, tuple)):
        return [x for t in tree for x in leaves(t)]
    return [tree]


def computed(case, dtype):
    """{"out": arrays, "vjp": ..., "jvp": ...} by JAX."""
    import jax
    import jax.numpy as jnp
    space = {"jax": jax, "jnp": jnp, "lax": jax.lax}
    args = {k: jnp.asarray(array(case, k, dtype)) for k in case.args}
    names = case.floating()

    def f(*floating):
        return [jnp.asarray(x) for x in leaves(eval(case.jax, {**space, **args, **dict(zip(names, floating))}))]

    primals = [args[k] for k in names]
    out = {"out": f(*primals)}
    if case.grad and names:
        value, pullback = jax.vjp(f, *primals)
        cts = [jnp.asarray(moved(case, f"ct{i}", v.shape, dtype)).astype(v.dtype)
               if jnp.issubdtype(v.dtype, jnp.floating) else np.zeros(v.shape, jax.dtypes.float0)
               for i, v in enumerate(value)]
        out["vjp"] = list(pullback(cts))
        tangents = [jnp.asarray(moved(case, f"t/{k}", v.shape, dtype)) for k, v in zip(names, primals)]
        out["jvp"] = [t for t, v in zip(jax.jvp(f, primals, tangents)[1], value)
                      if jnp.issubdtype(v.dtype, jnp.floating)]
    return {k: [np.asarray(x, np.float64) for x in v] for k, v in out.items()}


def fingerprint(case):
    """Changes when a golden must be computed again."""
    return zlib.crc32(repr((case.jax, case.grad, sorted(case.args.items()))).encode())


def make(anew):
    """Writes the goldens: all numbers in one row, and an index of shapes."""
    import jax
    jax.config.update("jax_enable_x64", True)
    for dtype in FLOATS:
        index, rows, old = {}, [], {} if anew else read(dtype)
        for case in CASES:
            found = old.get(case.name, {})
            if found.pop("key", None) != fingerprint(case):
                try:
                    found = computed(case, dtype)
                except Exception as e:
                    raise SystemExit(f"{case.name}: {case.jax}\n{type(e).__name__}: {e}")
            index[case.name] = {k: [list(x.shape) for x in v] for k, v in found.items()}
            index[case.name]["key"] = fingerprint(case)
            rows += [x.reshape(-1) for v in found.values() for x in v]
        data = np.concatenate(rows)
        data = data.astype(np.float32) if dtype == "f32" else data
        text = np.frombuffer(json.dumps(index, separators=(",", ":")).encode(), np.uint8)
        path = os.path.join(HERE, f"goldens_{dtype}.npz")
        np.savez_compressed(path, data=data, index=text)
        print(f"wrote {path}: {len(index)} cases, {data.size} numbers, {os.path.getsize(path) / 1000:.0f} KB")


def read(dtype):
    """{case: {"out": arrays, ..., "key": fingerprint}} from a golden file; nothing where there is none."""
    path = os.path.join(HERE, f"goldens_{dtype}.npz")
    if not os.path.exists(path):
        return {}
    with np.load(path) as f:
        data, index = f["data"].astype(np.float64), json.loads(f["index"].tobytes())
    out, at = {}, 0
    for name, parts in index.items():
        out[name] = {"key": parts.pop("key", None)}
        for part, shapes in parts.items():
            out[name][part] = []
            for shape in shapes:
                n = int(np.prod(shape))
                out[name][part].append(data[at:at + n].reshape(shape))
                at += n
    return out


def document():
    """The text of docs/parity.md."""
    from recipe import Case
    lines = ["# Parity with JAX", "",
             "What is compared with JAX, in f32 and f64, by `//tests/parity`: values, and where D stands also the "
             "derivatives "
             "of both modes. Written by `tests/parity/make_goldens.py --write-docs` from `tests/parity/cases.py`.", ""]
    group = None
    for case in CASES:
        assert isinstance(case, Case)
        if case.group != group:
            group = case.group
            count = sum(c.group == group for c in CASES)
            lines += ["", f"## {group} ({count} cases)", "", "| nabla | JAX | |", "|---|---|---|"]
        lines.append(f"| {_cell(case.nabla)} | {_cell(case.jax)} | {'D' if case.grad and case.floating() else ''} |")
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def _cell(code):
    return "`" + code.replace("|", "\\|") + "`"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only")
    options = parser.parse_args()
    if options.write_docs:
        path = os.path.join(HERE, "..", "..", "docs", "parity.md")
        with open(path, "w", encoding="utf-8") as f:
            f.write(document())
    elif options.only:
        import jax
        jax.config.update("jax_enable_x64", True)
        print(computed(next(c for c in CASES if c.name == options.only), "f64"))
    else:
        make(options.all)


if __name__ == "__main__":
    main()
