"""How a program is spread over ranks and memories: the options of `nablac compile` for that, from Python's."""

import math
import re

from ._core import DType, dtype_of, whole
from ._nabla import fail
from ._mesh import _LAYOUT, DeviceMesh, names_of, native_mesh, spec_of
from ._options import count, flag, limit

_PADDING = " allow_padding"  # after the words of a layout
_OPTION = 901  # the code of an option that is not possible
_MOST_MICROBATCHES = 1 << 20  # as of nablac --microbatches


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


def _microbatches(given):
    number = whole(given)
    if number is None:
        raise TypeError(f"microbatches is the number of parts of the batch, or None, got {given!r}")
    if not 1 <= number <= _MOST_MICROBATCHES:
        fail(_OPTION, f"microbatches: {number} is not in the range 1 to {_MOST_MICROBATCHES}",
             "give the number of parts of the batch, such as 4, or leave microbatches out")
    return number


def options(mesh=None, layouts=None, data_axes=(), zero=0, zero_axes=(), microbatches=None, grad_sync=None,
            auto_shard=False, reshard_after_forward=True, max_comm_bytes=None, deterministic=False, offload="none",
            remat_bytes=None, allow_padding=True, prefetch=None, reduce_dtype=None, allow_idle_axes=False,
            max_gather_bytes=None):
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
    if microbatches is not None:
        out["microbatches"] = str(_microbatches(microbatches))
    if grad_sync not in (None, "last", "each"):
        raise ValueError(f"grad_sync is \"last\" or \"each\", got {grad_sync!r}")
    if grad_sync is not None:
        if microbatches is None:
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
    if max_gather_bytes is not None:
        out["max-gather-bytes"] = limit(max_gather_bytes)
    return out


def layout_problem(spread, mesh, code, names, tensors):
    """What is wrong with the option layouts of nabla.jit, as the arguments of _nabla.fail; None if it is not the cause
    of an error of this code. `names`: of the arguments and of what the function closes over, which are `tensors`."""
    if "layouts" not in spread or code not in ("E0901", "E0210"):
        return None
    rules = []
    for rule in spread["layouts"].split(";"):
        pattern, _, words = rule.rpartition("=")
        words = [re.sub(r" p\d$", "", word) for word in words.removesuffix(_PADDING).split(",")]
        try:
            rules.append((pattern, re.compile(pattern), words))
        except re.error as e:
            return _OPTION, f"jit: layouts[{pattern!r}] is no regular expression: {e}", _RULE
    specs = [spec for spec in map(spec_of, tensors) if spec is not None]
    mesh = mesh or (specs[0].mesh if specs else None)
    if mesh is None:
        return _OPTION, "jit: layouts are over a mesh, and there is none", "give one: mesh={\"dp\": 2, \"tp\": 4}"
    firsts = [next((r for r in rules if r[1].fullmatch(name)), None) for name in names]
    for rule in rules:
        problem = _unused_rule(rule, firsts, names)
        if problem:
            return problem
    for name, rule, x in zip(names, firsts, tensors):
        why = rule and _misfit(rule[2], mesh, x)
        if why:
            return _LAYOUT, f"jit: layouts[{rule[0]!r}] of {name}, {x.type_str()}: {why}", _RULE
    return None


_RULE = "layouts is {regular expression of names: a word per dimension}, such as {\"fc1.w\": (None, \"tp\")}"


def _unused_rule(rule, firsts, names):
    if rule in firsts:
        return None
    pattern = rule[0]
    shadowed = next((n for n, name in enumerate(names) if rule[1].fullmatch(name)), None)
    if shadowed is None:
        known = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        return (_OPTION, f"jit: layouts[{pattern!r}] matches no argument",
                f"there are {known}" if names else "there are none")
    return (_OPTION, f"jit: layouts[{pattern!r}] is not used: layouts[{firsts[shadowed][0]!r}] is before it and "
            f"matches {names[shadowed]} too", "put it first, or leave it out")


def _misfit(words, mesh, x):
    """Why these words are no layout of a tensor, or None."""
    if len(words) != x.ndim and not (x.ndim == 0 and words == [""]):
        return f"{len(words)} {'word' if len(words) == 1 else 'words'} for {x.ndim} dimensions"
    axes = [axis for word in words if word not in ("", "?") for axis in word.split("+")]
    for axis in axes:
        if axis not in mesh.axis_names:
            return f"the mesh has no axis {axis!r}, it has {', '.join(mesh.axis_names)}"
        if axes.count(axis) > 1:
            return f"the axis {axis!r} is there twice"
    return None


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


def advice_on_state(arguments, result, donated):
    """Says which arguments stand for state, and names those that would if they were donated: they come back as results
    of the same tree. For errors of programs whose batch is cut."""
    forms = arguments.treedef.children[0].children
    donated = tuple(n % len(forms) for n in donated if -len(forms) <= n < len(forms))
    known = len(updates(arguments, result, donated))
    more = [n for n, form in enumerate(forms)
            if form.num_leaves and n not in donated and len(updates(arguments, result, (*donated, n))) > known]
    text = ("data_axes and microbatches cut every argument that does not stand for state: "
            "donate_argnums and layouts say which ones do")
    if not more:
        return text
    donate = f"donate_argnums={tuple(sorted({*donated, *more}))}"
    if len(more) == 1:
        return f"{text}; argument {more[0]} comes back as a result of the same tree: {donate} makes it state"
    which = ", ".join(map(str, more))
    return f"{text}; arguments {which} come back as results of the same tree: {donate} makes them state"


def _updated(arguments, result, argument, at):
    if argument is None or at is None:
        return False
    before, after = arguments.tensors[argument], result.tensors[at]
    known = [(a, b) for a, b in zip(before.shape, after.shape) if isinstance(a, int) and isinstance(b, int)]
    return before.dtype == after.dtype and before.ndim == after.ndim and all(a == b for a, b in known)
