"""Programs for `nablac`: named entry points over one state, written as .nir; and bundles, which run them.

    program = nb.export({"init": init, "step": step}, state=specs, args={"step": {"x": nb.spec((batch, 784))}})
    program.save("model.nir")
    bundle = nb.compile_bundle(program, "model.nbundle")
    bundle.run("step", x=x)
"""

import contextlib
import hashlib
import inspect
import json
import zipfile

from . import _nabla, _options, _spread, distributed
from ._core import Tensor, asarray, default_float, dtype_of
from ._mesh import ShardingSpec, exporting, is_mesh_and_layout, spec_for, spec_of
from ._trace import name_of, type_text
from .tree import is_array, tree_flatten, tree_structure


class Spec:
    """The type of an input or of a leaf of state: a shape, whose sizes may be symbols, a dtype, and how it is laid out
    over a mesh (a ShardingSpec or a pair such as (mesh, P("dp")); None: the compiler decides). memory: "host" for a
    leaf that programs for GPUs keep in the host's memory, and copy to the device where it is read and back where it is
    written."""

    __slots__ = ("shape", "dtype", "sharding", "memory")

    def __init__(self, shape=(), dtype=None, sharding=None, memory="device"):
        self.shape = tuple(shape)
        self.dtype = default_float() if dtype is None else dtype_of(dtype)
        if is_mesh_and_layout(sharding):
            sharding = spec_for(*sharding, len(self.shape), f"spec of {type_text(self.dtype, self.shape)}")
        if sharding is not None and not isinstance(sharding, ShardingSpec):
            raise TypeError("spec: sharding is a ShardingSpec or a pair such as (mesh, P(\"dp\")), "
                            f"got {sharding!r}")
        if sharding is not None and len(sharding.dim_specs) != len(self.shape):
            raise ValueError(f"spec: {sharding} is the layout of {len(sharding.dim_specs)} dimensions, and the shape "
                             f"is {self.shape}")
        self.sharding = sharding
        if memory not in ("device", "host"):
            raise ValueError(f"spec: memory is \"device\" or \"host\", got {memory!r}")
        self.memory = memory

    def __repr__(self):
        memory = f", memory={self.memory!r}" if self.memory != "device" else ""
        return f"spec({self.shape}, {self.dtype.name}" + (f", {self.sharding}" if self.sharding else "") + f"{memory})"

    def _layout(self):
        return self.sharding and self.sharding._layout(self.shape, pads=True)


def spec(shape=(), dtype=None, sharding=None, memory="device"):
    """A Spec; of a tensor or array: its type, and its layout where it has one."""
    if isinstance(shape, Tensor) or hasattr(shape, "__array__"):
        t = asarray(shape)
        return Spec(t.shape, t.dtype, spec_of(t) if sharding is None else sharding, memory)
    return Spec(shape, dtype, sharding, memory)


def symbol(name, min, max, multiple=1):
    """A size that is known only at run time: an integer in [min, max], a multiple of `multiple`. Symbols of one name
    are equal; they add and multiply: `2 * len + 1`. Raises ValueError for bounds that are no sizes."""
    _options.check_bounds(name, min, max, multiple)
    return _nabla.symbol(name, min, max, multiple)


def _paths(tree, prefix=""):
    """Names of the leaves by their place: "block.0.w"."""
    return [path or "value" for path in tree_structure(tree).leaf_paths(prefix)]


def _as_spec(x):
    return x if isinstance(x, Spec) else spec(x)


class ExportedProgram:
    """Entry points over one state, traced. `save` writes them for nablac; `text` is the IR."""

    def __init__(self, program, signatures):
        self._program, self._signatures = program, signatures

    def save(self, path):
        """Writes the module; the ending says which form: .nir, .nir.json or .nbl. Raises Error (E0803)."""
        self._program.save(_options.path("save", path))
        return self

    @property
    def text(self):
        """The IR as text."""
        from .compiled import IR
        return IR(self._program.text())

    def __repr__(self):
        return _described("ExportedProgram", self._signatures)


def export(entries, state=None, args=None):
    """The functions `entries`, a dict from names, as one program.

    state: a tree of specs or tensors (their types alone count): the leaves keep their values between runs. A function
    with a parameter `state` gets them. It returns its outputs, or `(new_state, outputs)` with a state of the same form;
    one that has "init" for its name, or no parameter `state`, may return a state alone. Leaves that it does not use are
    not read, leaves that it hands back as they came are not written.
    args: {entry: {input: spec}} by the names of the function's other parameters, or {entry: [specs]} in their order. An
    input may be a tree of specs: its leaves are inputs of their own, "params.0.w".
    Outputs: a tensor ("out"), a tuple ("out0", ...) or a dict; of trees, the leaves by their places, as of inputs.
    Tensors that functions close over become constants.
    Raises Error with the user's line where a function is wrong.
    """
    program = _nabla.Program()
    specs, form = tree_flatten(state) if state is not None else ([], None)
    specs = [_as_spec(s) for s in specs]
    inputs = {name: _Inputs(name, f, (args or {}).get(name, {})) for name, f in entries.items()}
    unknown = set(args or {}) - set(entries)
    if unknown:
        raise ValueError(f"export: args names {', '.join(sorted(unknown))}, which is no entry of {', '.join(entries)}")
    declared = {}
    for i in inputs.values():
        for s in i.specs:
            for row in _nabla.symbols_of(s.shape):
                if declared.setdefault(row[0], row) != row:
                    raise ValueError(f"symbol {row[0]} stands for sizes in {list(declared[row[0]][1:3])} and "
                                     f"{list(row[1:3])}: give one range")
    for row in declared.values():
        program.symbol(*row)
    meshes = [s.sharding.mesh for s in specs + [s for i in inputs.values() for s in i.specs] if s.sharding]
    for mesh in meshes[1:]:
        if mesh != meshes[0]:
            raise ValueError(f"export: layouts over mesh {meshes[0]} and over mesh {mesh}: ranks of one program are "
                             "all of one mesh")
    if meshes:
        program.mesh(meshes[0]._native)
    names = _paths(state) if state is not None else []
    for i in inputs.values():
        for name, s in zip(i.names, i.specs):
            if s.memory != "device":
                raise ValueError(f"export: input {name} has memory {s.memory!r}, which is for leaves of the state: "
                                 "inputs are the caller's arrays")
    leaves = [program.state(name, s.dtype, s.shape, s._layout(), s.memory) for name, s in zip(names, specs)]
    signatures = {"state": {name: type_text(s.dtype, s.shape) for name, s in zip(names, specs)}}
    for name, f in entries.items():
        outputs = _add_entry(program, name, f, inputs[name], leaves, form)
        signatures[name] = ({n: type_text(s.dtype, s.shape) for n, s in zip(inputs[name].names, inputs[name].specs)},
                            outputs)
    return ExportedProgram(program, signatures)


def _described(what, signatures):
    """A line per entry with its inputs and outputs, and one for the state."""
    def listed(types):
        return ", ".join(f"{n}: {t}" for n, t in types.items())

    lines = [f"  {name}({listed(rows[0])}) -> {listed(rows[1]) or 'nothing'}"
             for name, rows in signatures.items() if name != "state"]
    return "\n".join([what] + lines + [f"  state: {listed(signatures['state']) or 'none'}"])


class _Inputs:
    """The inputs of an entry: the leaves of what its parameters take, with names and specs."""

    def __init__(self, entry, f, given):
        signature = inspect.signature(f).parameters
        parameters = [n for n, p in signature.items()
                      if n != "state" and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        if not isinstance(given, dict):
            if len(given) > len(parameters):
                raise ValueError(f"export: entry {entry} takes {len(parameters)} inputs, args gives {len(given)}")
            given = dict(zip(parameters, given))
        takes_any = any(p.kind == p.VAR_KEYWORD for p in signature.values())
        unknown = [k for k in given if k not in parameters]
        if unknown and not takes_any:
            raise ValueError(f"export: entry {entry} has no parameter {unknown[0]}; "
                             f"it has {', '.join(parameters) or 'none'}")
        _need_all(entry, f, signature, list(given))
        self.parameters = [p for p in parameters if p in given] + unknown
        self.names, self.specs, self.forms = [], [], []
        for p in self.parameters:
            tree = given[p]
            if _is_shape(tree):
                tree = Spec(tree)
            leaves, form = tree_flatten(tree)
            self.forms.append(form)
            self.names += _paths(tree, p)
            self.specs += [_as_spec(leaf) for leaf in leaves]

    def rebuild(self, values):
        """What the function gets, by parameter."""
        values = iter(values)
        return {p: form.unflatten([next(values) for _ in range(form.num_leaves)])
                for p, form in zip(self.parameters, self.forms)}


def _need_all(entry, f, signature, given):
    """Raises ValueError where a parameter of an entry's function gets nothing."""
    left = [n for n, p in signature.items() if n != "state" and n not in given and p.default is p.empty
            and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if not left:
        return
    code = getattr(inspect.unwrap(f), "__code__", None)
    where = f"\n  --> {code.co_filename}:{code.co_firstlineno}" if code else ""
    state = "" if "state" in signature else "; the state goes to the parameter that is named `state`"
    raise ValueError(f"export: entry {entry}, {name_of(f)}({', '.join(signature)}), gets no {left[0]}: args gives it "
                     f"{', '.join(given) or 'nothing'}. args={{\"{entry}\": {{\"{left[0]}\": nb.spec(...)}}}} makes it "
                     f"an input{state}{where}")


def _is_shape(x):
    return isinstance(x, (list, tuple)) and not hasattr(x, "_fields") and all(
        isinstance(s, (int, _nabla.Dim)) for s in x)


def _add_entry(program, name, f, inputs, leaves, form):
    takes_state = "state" in inspect.signature(f).parameters

    def body(*values):
        given = inputs.rebuild(values)
        old = None
        if takes_state:
            if form is None:
                raise ValueError(f"export: entry {name} takes a state, and export was given none")
            old = [leaf.get() for leaf in leaves]
            given["state"] = form.unflatten([x._copied() for x in old])  # the function may write into its own
        result = f(**given)
        new, outputs = _split_result(name, result, form, takes_state)
        if new is not None:
            for leaf, before, after in zip(leaves, old or [None] * len(leaves), tree_flatten(new)[0]):
                if not (isinstance(after, Tensor) and before is not None and after._same(before)):
                    leaf.set(asarray(after))
        rows = _named_outputs(name, outputs)
        made.update((n, o.type_str()) for n, o in rows)
        return rows

    made = {}
    token = exporting.set(True)
    try:
        program.entry(name, [(n, s.dtype, s.shape, s._layout()) for n, s in zip(inputs.names, inputs.specs)], body)
    finally:
        exporting.reset(token)
    return made


def _split_result(name, result, form, takes_state):
    if form is not None:
        if isinstance(result, tuple) and len(result) == 2 and tree_structure(result[0]) == form:
            return result
        if not takes_state and tree_structure(result) == form:
            return result, None
        if takes_state and tree_structure(result) == form and form.num_leaves > 1:
            return result, None
    return None, result


def _named_outputs(entry, outputs):
    if outputs is None:
        return []
    if isinstance(outputs, dict):
        parts = outputs
    elif isinstance(outputs, (tuple, list)):
        parts = {f"out{i}": o for i, o in enumerate(outputs)}
    else:
        parts = {"out": outputs}
    rows = [row for name, o in parts.items() for row in zip(_paths(o, str(name)), tree_flatten(o)[0])]
    for k, o in rows:
        if not is_array(o):
            raise TypeError(f"export: output {k} of entry {entry} is a {type(o).__name__}, not a tensor")
    return [(k, asarray(o)) for k, o in rows]


class Bundle:
    """A compiled program, ready to run: its entries, and the state that they share. One thread at a time runs it.

    Where each process of a launcher runs one rank of it, all of them call `run`, `get_state` and `save_state` in the
    same order, with whole arrays, of which each reads its rank's part; results are whole in every process.
    """

    def __init__(self, native, path, ranks=""):
        self._native, self.path, self._ranks = native, path, ranks
        self._together = distributed._together if native.spread else contextlib.nullcontext
        self._entries = {n: native.entry(n) for n in native.entry_names()}
        self._leaves = {row[0]: i for i, row in enumerate(native.state())}

    def __repr__(self):
        rows = {n: (e["inputs"], e["outputs"]) for n, e in self.entries.items()}
        return _described(f"Bundle {self.path} for {self.target}{self._ranks}", {**rows, "state": self.state})

    @property
    def entries(self):
        """Per entry: its inputs and outputs with their types."""
        return {n: {"inputs": {r[0]: r[3] for r in self._native.inputs(i)},
                    "outputs": {r[0]: r[3] for r in self._native.outputs(i)}} for n, i in self._entries.items()}

    def run(self, entry, *args, **inputs):
        """Runs an entry. Returns a dict of its outputs; the state stays in the bundle.

        Raises Error: E0603 for an unknown entry, E0702 and E0703 for arrays that do not fit, E0705 for state without a
        value.
        """
        index = self._native.entry(_options.text("run: entry", entry))
        rows = self._native.inputs(index)
        names = [r[0] for r in rows]
        # A tree's leaves are inputs of their own: "params.0.w" of `params`.
        heads = list(dict.fromkeys(n.split(".")[0] for n in names))
        if len(args) > len(heads):
            raise TypeError(f"entry {entry} takes {len(heads)} inputs, got {len(args)}")
        given = {}
        for k, v in [*zip(heads, args), *inputs.items()]:
            parts = {k: v} if k in names or k not in heads else dict(zip(_paths(v, k), tree_flatten(v)[0]))
            for name, part in parts.items():
                if name not in names or name in given:
                    raise TypeError(f"entry {entry} has no input {name} left; its inputs are "
                                    f"{', '.join(names) or 'none'}")
                given[name] = part
        missing = [n for n in names if n not in given]
        if missing:
            raise TypeError(f"entry {entry} lacks its input {missing[0]}")
        # Numbers and lists take the input's dtype; arrays must have it.
        values = [asarray(given[r[0]], None if hasattr(given[r[0]], "dtype") else r[1]) for r in rows]
        with self._together():
            out = self._native.run(index, values)
        return dict(zip([r[0] for r in self._native.outputs(index)], out))

    @property
    def state(self):
        """The names of the leaves of state with their types."""
        return {r[0]: r[3] for r in self._native.state()}

    def _leaf(self, name):
        if name not in self._leaves:
            raise KeyError(f"{self.path} has no state leaf {name}; it has {', '.join(self._leaves) or 'none'}")
        return self._leaves[name]

    def get_state(self, name):
        """The value of a leaf. Raises Error (E0705) where it has none."""
        with self._together():
            return self._native.state_get(self._leaf(name))

    def set_state(self, name, value):
        """Sets a leaf to a tensor of its type."""
        self._native.state_set(self._leaf(name), asarray(value))

    def load_state(self, path):
        """Reads all leaves from a safetensors file; all or nothing (E0706)."""
        self._native.load_state(_options.path("load_state", path))

    def save_state(self, path):
        """Writes all leaves to a safetensors file; of several processes, that of rank 0 writes it."""
        path = _options.path("save_state", path)
        with self._together():
            self._native.save_state(path)

    def load_weights(self, path, maps=(), partial=False):
        """Loads a .safetensors or .npz file into leaves by rows "PATTERN=TARGET"; returns lines that say what was
        loaded."""
        path, maps = _options.path("load_weights", path), _options.texts("maps", maps)
        return self._native.load_weights(path, maps, _options.flag("partial", partial))

    @property
    def target(self):
        """What it was compiled for."""
        return self._native.target

    @property
    def arena_bytes(self):
        """Memory that all runs share."""
        return self._native.arena_bytes


def compile_bundle(program, path, target="cpu", library=True, max_bytes=None, load=True, tf32=False, tuning=None,
                   buckets=(), specialize=(), mesh=None, layouts=None, data_axes=(), zero=0, zero_axes=(),
                   microbatches=None, grad_sync=None, auto_shard=False, reshard_after_forward=True, max_comm_bytes=None,
                   deterministic=False, offload="none", remat_bytes=None, allow_padding=True, prefetch=None,
                   reduce_dtype=None, allow_idle_axes=False, max_gather_bytes=None):
    """Compiles a program into a bundle file, as `nablac compile` does, and loads it.

    target: one or several, "cpu,sm_90a"; a GPU's is compiled on any machine, and "sm_90a:H200" predicts the times of an
    H200. load: False returns the report's JSON instead, as where the bundle cannot run here (E0605, E0606). library:
    False generates every kernel. max_bytes, such as "256MiB": E0402 where the arena would be larger. tf32: GPUs may
    round the factors of float32 products. tuning: a file that `nablac tune` wrote. buckets, specialize: lists of sizes
    such as "batch=8,64", as nablac's options.

    Ranks: mesh, {"dp": 4, "tp": 2} or a DeviceMesh, makes a program for eight, which a loaded bundle runs on threads,
    with whole arrays in and out. data_axes: those along which inputs are cut in their first dimension. zero: 1 or 2
    shares the optimizer's state along zero_axes (all data axes), 3 the parameters too; parameters are leaves of the
    state with respect to which grad is taken. layouts: {pattern of names of leaves: a word per dimension}, such as
    {"fc1.w": (None, "tp")}; "?" leaves a dimension open. Axes that do not divide a size cut it unevenly: the last parts
    are padded, which the report says, or E0210 with allow_padding=False. An axis over which nothing is sharded is E0901
    unless allow_idle_axes=True: its ranks would all compute the same.
    microbatches: parts of the batch that ranks compute one after the other. grad_sync: "last" or "each" of them
    exchanges gradients, by default "each" with zero 2 and 3. reduce_dtype: ranks combine sums of float16
    and bfloat16 in float32 and round them once, as one device does; "bfloat16" or "float16" rounds the shares of sums
    of that type before they are exchanged, in half the bytes. auto_shard: chooses what these leave open
    by the time that ranks would take, as `nablac compile --auto-shard` does (Zheng et al., 2022), among layouts whose
    memory on a rank keeps within max_bytes. E0602 where the solver CBC is needed and missing. reshard_after_forward:
    False keeps parameters of zero=3 that were gathered on the way forward. prefetch: how many gathers of parameters are
    under way ahead of their use, in a loop in the same trip, 0 for none; by default as their times say.
    max_comm_bytes, such as "64MiB": E0402 where a rank sends more in a run of an entry. deterministic: the same bits
    on any mesh, with any microbatches and threads.

    max_gather_bytes: the largest value that every rank may get whole for an op that cannot be sharded [16 MiB]; a
    larger one is E0402.
    remat_bytes, such as "64MiB": values that lie idle are computed again where an entry would need more memory; E0402
    where that is not enough.

    offload: state that programs for GPUs keep in the host's memory, beside leaves whose specs say so: "opt" the
    optimizer's, "params" the parameters, or "all". max_bytes counts the device's memory alone. E0901 where no target is
    a GPU, and where the program has no such leaf.
    """
    if not isinstance(program, ExportedProgram):
        raise TypeError(f"compile_bundle takes what nabla.export returned, got {type(program).__name__}")
    path, load = _options.path("compile_bundle", path), _options.flag("load", load)
    buckets, specialize = _options.sizes("buckets", buckets), _options.sizes("specialize", specialize)
    spread = _spread.options(mesh, layouts, data_axes, zero, zero_axes, microbatches, grad_sync, auto_shard,
                             reshard_after_forward, max_comm_bytes, deterministic, offload, remat_bytes, allow_padding,
                             prefetch, reduce_dtype, allow_idle_axes, max_gather_bytes)
    report = program._program.compile(path, _options.text("target", target), _options.flag("library", library),
                                      _options.limit(max_bytes), _options.flag("tf32", tf32),
                                      "" if tuning is None else _options.path("tuning", tuning), buckets, specialize,
                                      spread)
    if not load:
        return report
    try:
        return load_bundle(path)
    except _nabla.Error as e:
        if e.code in ("E0605", "E0606"):
            e.add_note(f"{path} is written, for {target}; compile_bundle(..., load=False) does not load it")
        raise


def _ranks_of(path):
    """", 4 ranks of mesh pod (dp=2, tp=2)" of a bundle for several ranks; of any other nothing."""
    with zipfile.ZipFile(path) as bundle:
        ranks = json.loads(bundle.read("manifest.json")).get("ranks", {"count": 1, "meshes": []})
    meshes = []
    for m in ranks["meshes"]:
        axes = ", ".join(f"{axis}={size}" for axis, size in m["axes"].items())
        meshes.append(f"{m['name']} ({axes})")
    return f", {ranks['count']} ranks of mesh {', '.join(meshes)}" if ranks["count"] > 1 else ""


def load_bundle(path, threads=0, target="", check_nan=False, rank_class="", engine=None):
    """Opens a bundle that nablac or compile_bundle wrote. Nothing is compiled.

    threads: 0 is all. target: the program for it, by default the first that runs here. check_nan: stop at the first
    instruction that makes NaN or infinity (E0708). rank_class: of a bundle for several ranks, run one rank
    of this class alone. engine: where all ranks of one run: "local", a thread of this process each, on whole arrays;
    "mpi" or "nccl", as `nabla.distributed.init` was told: this process runs its rank and the others theirs; or None: so
    where `nabla.distributed.init` has found several processes, else local.
    Raises Error (E0801, E0105, E06xx; E0614 where the processes are not as many as the ranks, or have other bundles).
    """
    path, rank_class = _options.path("load_bundle", path), _options.text("rank_class", rank_class)
    threads, check_nan = _options.threads(threads), _options.flag("check_nan", check_nan)
    each = distributed._means_processes("load_bundle", engine)
    if each and rank_class:
        raise ValueError(f"load_bundle: rank_class {rank_class!r} is one rank alone, "
                         f"and engine=\"{engine}\" all of them")
    if each:
        processes = distributed._joined("load_bundle", engine)
    else:
        processes = distributed._processes if engine is None and not rank_class else None
        if processes and processes.ranks == 1:
            processes = None
    native = _nabla.Bundle.open(path, threads, _options.text("target", target), check_nan, rank_class, processes, each)
    if not native.spread:
        return Bundle(native, path, f", one rank of class {rank_class}" if rank_class else _ranks_of(path))
    with distributed._together(), open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
        native.agree(f"load_bundle of a bundle with SHA-256 {digest}", path)
    return Bundle(native, path, f"{_ranks_of(path)}, of which this process runs rank {processes.rank}")


__all__ = ["Bundle", "ExportedProgram", "Spec", "compile_bundle", "export", "load_bundle", "spec", "symbol"]
