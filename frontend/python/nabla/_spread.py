"""How a program is spread over ranks and memories: the options of `nablac compile` for that, from Python's."""

import math

from ._core import DType, dtype_of, whole
from ._mesh import DeviceMesh, names_of, native_mesh
from ._options import count, flag, limit

_PADDING = " allow_padding"  # after the words of a layout


def names(what, axes):
    listed = [axes] if isinstance(axes, str) else axes
    if not hasattr(listed, "__iter__") or any(not isinstance(a, str) or not a for a in listed):
        raise TypeError(f"{what} are names of axes of the mesh, got {axes!r}")
    listed = list(listed)
    for a in listed:
        if listed.count(a) > 1:
            raise ValueError(f"{what} name {a} twice: {', '.join(listed)}")
    return ",".join(listed)


def _words(pattern, layout, allow_padding):
    def known(word):
        several = hasattr(word, "__iter__") and all(isinstance(a, str) for a in word)
        return word is None or isinstance(word, str) or several

    if not isinstance(pattern, str):
        raise TypeError(f"layouts: a pattern of names is a text, got {pattern!r}")
    if not isinstance(layout, str) and hasattr(layout, "__iter__"):
        layout = [tuple(word) if hasattr(word, "__next__") else word for word in layout]
    if isinstance(layout, str) or not hasattr(layout, "__iter__") or not all(known(word) for word in layout):
        raise TypeError(f"layouts[{pattern!r}] is a word per dimension, such as (None, \"tp\"), got {layout!r}")
    # Between rules stand semicolons, between words commas.
    for text in (pattern, *(a for word in layout for a in ([word] if isinstance(word, str) else word or ()))):
        if ";" in text or text is not pattern and set(text) & set(",="):
            raise ValueError(f"layouts[{pattern!r}]: {text!r} has one of `;`, `,` and `=`: a word names axes, as "
                             "(None, \"tp\") or ((\"dp\", \"tp\"), None) do")
    words = ["" if word is None else "+".join([word] if isinstance(word, str) else word) for word in layout]
    bare = [word.removesuffix(_PADDING) for word in words]
    padding = _PADDING if bare != words or allow_padding and any(words) else ""
    return f"{pattern}={','.join(bare)}{padding}"


def mesh_of(mesh, auto_shard):
    """Returns the DeviceMesh that jit's options `mesh` and `auto_shard` give, or None if neither is given."""
    if auto_shard is not None and not isinstance(auto_shard, DeviceMesh):
        raise TypeError(f"jit: auto_shard is a DeviceMesh, whose ranks share the work, got {auto_shard!r}")
    if mesh is None or isinstance(mesh, DeviceMesh):
        if mesh is not None and auto_shard is not None and mesh != auto_shard:
            raise ValueError(f"jit: auto_shard is mesh {auto_shard}, and mesh is {mesh}: give one of them")
        return mesh or auto_shard
    if not hasattr(mesh, "items") or auto_shard is not None:
        raise TypeError(f"jit: mesh is a DeviceMesh, or a dict of ranks by axis, such as {{\"dp\": 4}}, got {mesh!r}"
                        + (", beside auto_shard, which is one" if auto_shard is not None else ""))
    return DeviceMesh("ranks", tuple(mesh.values()), tuple(mesh))


def batch_parts(mesh, spread):
    """Returns the number of shards of a batch's first dimension, times the microbatches. `spread` is a result of
    `options`."""
    sizes = dict(zip(mesh.axis_names, mesh.shape)) if mesh is not None else {}
    cut = [sizes.get(axis, 1) for axis in spread.get("data-axes", "").split(",")]
    return math.prod(cut) * int(spread.get("microbatches", 1))


def options(mesh=None, layouts=None, data_axes=(), zero=0, zero_axes=(), microbatches=0, grad_sync=None,
            auto_shard=False, reshard_after_forward=True, max_comm_bytes=None, deterministic=False, offload="none",
            remat_bytes=None, allow_padding=True, prefetch=None, reduce_dtype=None, allow_idle_axes=False):
    """The options of `nablac compile` that these are, as texts; see compile_bundle."""
    out = {}
    if mesh is not None:
        if isinstance(mesh, DeviceMesh):
            mesh = dict(zip(mesh.axis_names, mesh.shape))
        if not hasattr(mesh, "items"):
            raise TypeError(f"mesh is a dict of ranks by axis, such as {{\"dp\": 4}}, got {mesh!r}")
        sizes = {axis: whole(size) for axis, size in dict(mesh).items()}
        for axis, size in sizes.items():
            if size is None or size < 1:
                raise ValueError(f"mesh: axis {axis} has {mesh[axis]!r} ranks, expected a number from 1 on")
        native_mesh("ranks", names_of(list(mesh), "mesh"), sizes.values())
        out["mesh"] = ",".join(f"{axis}={size}" for axis, size in sizes.items())
    if layouts:
        if not hasattr(layouts, "items"):
            raise TypeError("layouts is a dict of words by pattern, such as {\"fc1.w\": (None, \"tp\")}, "
                            f"got {layouts!r}")
        out["layouts"] = ";".join(_words(pattern, layout, allow_padding)
                                  for pattern, layout in dict(layouts).items())
    if data_axes:
        out["data-axes"] = names("data_axes", data_axes)
    if whole(zero) not in (0, 1, 2, 3):
        raise ValueError(f"zero is 0, 1, 2 or 3, got {zero!r}")
    flag("allow_padding", allow_padding), flag("deterministic", deterministic)
    if zero:
        out["zero"] = str(int(zero))
    if zero_axes:
        out["zero-axes"] = names("zero_axes", zero_axes)
    if parts := count("microbatches", microbatches, 0, "a number from 1 on, or 0 for none"):
        out["microbatches"] = str(parts)
    if grad_sync not in (None, "last", "each"):
        raise ValueError(f"grad_sync is \"last\" or \"each\", got {grad_sync!r}")
    if grad_sync is not None:
        if not microbatches:
            raise ValueError("grad_sync says when microbatches exchange their gradients, and there are none")
        out["grad-sync"] = grad_sync
    if reduce_dtype is not None:
        try:
            known = {DType.float32: "f32", DType.bfloat16: "bf16", DType.float16: "f16"}.get(dtype_of(reduce_dtype))
        except (TypeError, ValueError):
            known = None
        if known is None:
            raise ValueError(f"reduce_dtype is float32, bfloat16, float16 or None, got {reduce_dtype!r}")
        out["reduce-dtype"] = known
    if flag("allow_idle_axes", allow_idle_axes):
        out["idle-axes"] = "note"
    if flag("auto_shard", auto_shard):
        out["auto-shard"] = "true"
    if not flag("reshard_after_forward", reshard_after_forward):
        out["reshard-after-forward"] = "false"
    if prefetch is not None:
        what = "how many gathers of parameters start ahead of their use"
        out["prefetch"] = str(count("prefetch", prefetch, 0, what))
    if max_comm_bytes is not None:
        out["max-comm-bytes"] = limit(max_comm_bytes)
    if deterministic:
        out["deterministic"] = "true"
    if not isinstance(offload, str) or offload not in ("none", "opt", "params", "all"):
        raise ValueError(f"offload is \"none\", \"opt\", \"params\" or \"all\", got {offload!r}")
    if offload != "none":
        out["offload"] = offload
    if remat_bytes is not None:
        out["remat-bytes"] = limit(remat_bytes)
    return out


def updates(arguments, result, donated):
    """Returns `(argument, result)` pairs: the indices of a donated argument's tensors and of the results that are
    their new values. A result, or one element of it, matches a donated argument of the same tree, dtypes and shapes. No
    result is matched twice."""
    forms = arguments.treedef.children[0].children
    first = [sum(f.num_leaves for f in forms[:n]) for n in range(len(forms) + 1)]
    whole = result.treedef
    parts, start = [], 0
    for child in whole.children:
        parts.append((start, child))
        start += child.num_leaves
    parts.append((0, whole))
    tensor_at = {place: i for i, place in enumerate(arguments.places)}
    result_at = {place: i for i, place in enumerate(result.places)}
    out, taken = [], set()
    for n in donated:
        if not -len(forms) <= n < len(forms):
            continue
        n %= len(forms)
        for start, form in parts:
            pairs = [(tensor_at.get(first[n] + i), result_at.get(start + i)) for i in range(form.num_leaves)]
            pairs = [(a, r) for a, r in pairs if a is not None or r is not None]
            results = {r for _, r in pairs}
            same = form == forms[n] and all(_updated(arguments, result, a, r) for a, r in pairs)
            if same and not taken & results:
                taken |= results
                out += pairs
                break
    return out


def _updated(arguments, result, argument, at):
    if argument is None or at is None:
        return False
    before, after = arguments.tensors[argument], result.tensors[at]
    known = [(a, b) for a, b in zip(before.shape, after.shape) if isinstance(a, int) and isinstance(b, int)]
    return before.dtype == after.dtype and before.ndim == after.ndim and all(a == b for a, b in known)
