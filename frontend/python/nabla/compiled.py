"""Functions compiled to machine code, and what they look like before."""

import collections
import contextlib
import functools
import inspect
import math
import re
import threading
import time
import warnings
import weakref

from . import _dynamic, _nabla, _options, _pinned, _spread, _tracebacks, debug, distributed, profiling, recompiles
from ._core import Tensor, default_float
from ._dynamic import Dynamic
from ._mesh import logical_rules, spec_of
from ._trace import Arguments, example_types, name_of, names_of_captures, type_text
from ._trace import trace as trace_function
from .tree import Static, _registration, same, tree_flatten

_all = weakref.WeakSet()  # compiled functions
_disabled = False
CacheStats = collections.namedtuple("CacheStats", "hits misses hit_rate compile_seconds run_seconds size causes")


class _Executable:
    __slots__ = ("bundle", "entry", "captures", "result")

    def __init__(self, function, captures, result, target, threads, names, check_nan, spread, processes):
        self.bundle = _nabla.compile_function(function, target, threads, names, check_nan, spread, processes)
        self.entry = self.bundle.entry("main")
        self.captures = captures
        self.result = result

    def run(self, tensors):
        return self.bundle.run(self.entry, tensors + self.captures)


class Compiled:
    """A function of trees of tensors that is compiled for each form, dtype and shape of its arguments, once.

    Leaves that are neither tensors, numbers nor arrays, and arguments that `static_argnums` and `static_argnames`
    name, are part of the program: another value compiles again. Tensors that the function closed over when it was
    traced are handed to it at each call; a name that stands for another tensor later still means the old one. Where it
    is called while another function is traced, it becomes part of that one.
    """

    def __init__(self, fun, static_argnums=(), static_argnames=(), donate_argnums=(), dynamic_dims=None,
                 max_cache_size=64, target="", threads=0, check_nan=False, auto_shard=None, engine=None,
                 in_shardings=None, out_shardings=None, mesh=None, layouts=None, data_axes=(), zero=0,
                 microbatches=None, max_gather_bytes=None):
        functools.update_wrapper(self, fun, updated=())
        self._mesh = _spread.mesh_of(mesh, auto_shard)
        _pinned.check(in_shardings, out_shardings, "mesh" if auto_shard is None else "auto_shard", self._mesh)
        self._spread = _spread.options(layouts=layouts, data_axes=data_axes, zero=zero, microbatches=microbatches,
                                        max_gather_bytes=max_gather_bytes)
        self._in_shardings = in_shardings
        self._fun = fun if out_shardings is None else _pinned.with_laid_out_results(fun, out_shardings)
        self._batch_parts = _spread.batch_parts(self._mesh, self._spread)
        self._static = _options.places("static_argnums", () if static_argnums is None else static_argnums)
        self._static_names = _options.names("static_argnames", () if static_argnames is None else static_argnames)
        self._donated = _options.places("donate_argnums", () if donate_argnums is None else donate_argnums)
        both = set(self._static) & set(self._donated)
        if both:
            raise ValueError(f"argument {min(both)} is both static and donated")
        self._dynamic = _dynamic.table_of(dynamic_dims)
        self._dynamic_names = _dynamic.names_of(fun, self._dynamic)
        self._multiples = {}  # of dynamic sizes, by name: what layouts inside of the function want
        self._target, self._threads = _options.text("target", target) or "cpu:native", _options.threads(threads)
        self._check_nan = _options.flag("check_nan", check_nan)
        self._search = auto_shard is not None
        self._engine = engine if distributed._means_processes("jit", engine) else None
        self._max = _options.count("max_cache_size", max_cache_size, 1, "a number of forms to keep, from 1 on")
        self._cache = collections.OrderedDict()
        self._lock = threading.Lock()
        self._compiling = {}  # by key: the lock of the thread that compiles it
        self._hits = self._misses = 0
        self._compile_seconds = self._run_seconds = 0.0
        self._signatures, self._causes = [], []  # of what was compiled, and why it was
        self._notes = set()  # that were shown
        # What was called before is recognised without flattening it; functions traced under another default dtype are
        # others.
        self._known = _nabla.KnownCalls(_registration, same, name_of(fun))
        self._known_float = None
        _all.add(self)

    def __call__(self, *args, **kwargs):
        if self._known_float is default_float():
            out = self._known.call(args, kwargs)
            if out is not NotImplemented:
                return out
        return self._call(args, kwargs)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def _split(self, args, kwargs):
        if not self._static and not self._static_names:
            return self._fun, args, kwargs, ()
        static = [(i, args[i]) for i in self._static if -len(args) <= i < len(args)]
        static += [(k, kwargs[k]) for k in self._static_names if k in kwargs]
        if self._static_names:
            names = list(inspect.signature(self._fun).parameters)
            static += [(i, args[i]) for i, n in enumerate(names[:len(args)]) if n in self._static_names]
        positions = {i % len(args) for i, _ in static if isinstance(i, int)}
        free = [None if i in positions else a for i, a in enumerate(args)]
        named = {k: v for k, v in kwargs.items() if k not in self._static_names}
        fixed = {k: kwargs[k] for k in kwargs if k in self._static_names}

        def fun(*inside, **inner):
            inside = [args[i] if i in positions else a for i, a in enumerate(inside)]
            return self._fun(*inside, **inner, **fixed)

        functools.update_wrapper(fun, self._fun, updated=())
        return fun, free, named, tuple(static)

    def _arguments(self, free, named, static):
        """The leaves of a call, laid out as in_shardings says."""
        if both := self._dynamic_names & set(named):
            raise TypeError(f"jit: dynamic_dims gives arguments by their places, and {name_of(self._fun)} is called "
                            f"with {min(both)}=...: pass it by its place")
        arguments = Arguments(free, named)
        if self._in_shardings is not None:
            positions = {i % len(free) for i, _ in static if isinstance(i, int)}
            _pinned.lay_out_arguments(self._fun, self._in_shardings, free, named, positions, arguments)
        return arguments

    def _executable(self, fun, arguments, static):
        """What was compiled for arguments of this form, or is compiled now."""
        while True:
            try:
                return self._found_or_compiled(fun, arguments, static)
            except _nabla.Error as e:
                if not self._learns(getattr(e, "multiples", {})):
                    raise

    def _learns(self, wanted):
        """Whether layouts inside of the function want sizes to be other multiples than was known."""
        own = {d.name for rows in self._dynamic.values() for d in rows.values()}
        before = dict(self._multiples)
        for name in own & set(wanted):
            self._multiples[name] = math.lcm(before.get(name, 1), wanted[name])
        return self._multiples != before

    def _found_or_compiled(self, fun, arguments, static):
        key = self._key(arguments, static)
        executable = self._cached(key)
        if executable is not None:
            return executable
        with self._lock:
            compiling = self._compiling.setdefault(key, threading.RLock())
        try:
            with compiling:
                return self._cached(key) or self._compile(fun, arguments, key, static)
        finally:
            self._compiling.pop(key, None)

    def _cached(self, key):
        with self._lock:
            executable = self._cache.get(key)
            if executable is not None:
                self._cache.move_to_end(key)
                self._hits += 1
        return executable

    def _for(self, args, kwargs):
        """The executable for these arguments, and the tensors that it runs on."""
        if _nabla.is_tracing():
            raise RuntimeError(f"{name_of(self._fun)} is looked into while another function is traced")
        fun, free, named, static = self._split(args, kwargs)
        arguments = self._arguments(free, named, static)
        executable = self._executable(fun, arguments, static)
        return executable, arguments.tensors + executable.captures

    def _seen(self, args, kwargs):
        """The executable for these arguments; without any that which ran last."""
        if not args and not kwargs:
            with self._lock:
                kept = list(self._cache.values())
            known = [e for e in kept if e.bundle is self._known.last]
            if known or kept:
                return (known or kept)[-1]
            try:
                inspect.signature(self._fun).bind()
            except TypeError:
                why = f"{name_of(self._fun)} has not been called: call it, or give the arguments"
                raise TypeError(why) from None
        return self._for(args, kwargs)[0]

    def memory(self, *args, **kwargs):
        """The bytes that the function needs for these arguments: see profiling.Memory. Compiles where it has not.
        Without arguments: what the last call needed."""
        return profiling.memory_of(self._seen(args, kwargs).bundle)

    def inspect(self, *args, **kwargs):
        """What the function was compiled to for these arguments, as `nablac inspect` prints it, with a line per
        argument, per tensor that the function closes over, by its variable, and per result. Without arguments: for
        those of the last call."""
        report, ranks = self._seen(args, kwargs).bundle.report_and_ranks()
        text = _ENTRY.sub(_line_each, _nabla.report_text(report))
        return IR(f"{ranks}\nwhat one rank does:\n{text}" if ranks else text)

    def why(self, value, *args, **kwargs):
        """Explains the sharding of a value as `nablac why` does: it lists the shardings from which this one follows.
        `value` is an argument's name in `inspect` ("params.fc1.w"), or a name that `nablac opt` prints ("%12"). The
        explanation is for these arguments, or for those of the last call if there are none. Raises Error: E0107 for an
        unknown name, E0901 without a mesh.
        """
        if not isinstance(value, str):
            raise TypeError(f"why: a value goes by its name, got {value!r}")
        return IR(self._seen(args, kwargs).bundle.why(value))

    def profile(self, *args, runs=10, **kwargs):
        """Runs the function on these arguments and tells where the time goes: see profiling.Profile. Donated arguments
        stay as they are. The clocks between instructions take some tens of nanoseconds each."""
        executable, tensors = self._for(args, kwargs)
        profiled = executable.bundle.profiled(name_of(self._fun), self._threads, self._check_nan)
        return profiling.profile_of(profiled, tensors, runs)

    def _call(self, args, kwargs):
        if _disabled and self._in_shardings is None:
            return self._fun(*args, **kwargs)
        fun, free, named, static = self._split(args, kwargs)
        arguments = self._arguments(free, named, static)
        if _disabled:
            free, named = arguments.rebuild(arguments.tensors)
            return fun(*free, **named)
        if _nabla.is_tracing():
            f, result = trace_function(fun, example_types(arguments.tensors), arguments.rebuild, like=arguments.tensors)
            return result.rebuild(_nabla.call("call", f, arguments.tensors))
        for n in self._donated:
            if not -len(args) <= n < len(args):
                raise TypeError(f"jit: argument {n} of {name_of(self._fun)} is donated, and the call has "
                                f"{len(args)} by their places: donate_argnums names these")
        executable = self._executable(fun, arguments, static)
        begin = time.perf_counter()
        out = executable.result.rebuild(executable.run(arguments.tensors))
        self._run_seconds += time.perf_counter() - begin
        self._known.last = None
        self._remember(executable, args, free, named, static, arguments)
        for n in self._donated:
            for leaf in tree_flatten(args[n])[0]:
                if isinstance(leaf, Tensor):
                    leaf._donate(name_of(self._fun))
        return out

    def _key(self, arguments, static):
        if not self._dynamic:
            types = tuple(example_types(arguments.tensors))
        else:
            types = self._dynamic_types(arguments)
            types = tuple((d, tuple(s if isinstance(s, int) else repr(s) + repr(_nabla.symbols_of([s])) for s in shape))
                          for d, shape in types)
        others = tuple((i, Static(x)) for i, x in enumerate(arguments.others) if x is not None)
        layouts = tuple(_layout_key(t, bool(self._dynamic)) for t in arguments.tensors)
        values = [x for x in arguments.others if x is not None] + [v for _, v in static]
        static = tuple((i, Static(v)) for i, v in static)
        key = (arguments.treedef, types, tuple(arguments.weak), layouts, others, static, default_float(),
               debug.enabled(), logical_rules.get())
        try:
            hash(tuple(values))
        except TypeError:
            raise TypeError(f"{name_of(self._fun)}: a static argument or leaf cannot be hashed: {values!r}") from None
        return key

    def _dynamic_types(self, arguments):
        """The types with symbols where dimensions are dynamic."""
        return _dynamic.types_of(self._fun, self._dynamic, self._multiples, self._batch_parts, arguments)

    def _compile(self, fun, arguments, key, static):
        begin = time.perf_counter()
        types = self._dynamic_types(arguments) if self._dynamic else example_types(arguments.tensors)
        if self._mesh is not None:
            _nabla.enter_mesh(self._mesh._native)
        names = arguments.names(self._fun)
        f, result = trace_function(fun, types, arguments.rebuild, like=arguments.tensors, called=names)
        captures = f.captures
        _nabla.realize(captures)
        processes = self._processes()
        inputs = names + names_of_captures(self._fun, captures)
        spread = _nabla.JitSpread(self._mesh and self._mesh._native, self._search, self._spread,
                                  _spread.updates(arguments, result, self._donated))
        problem = None
        try:
            executable = _Executable(f, captures, result, self._target, self._threads, inputs, self._check_nan, spread,
                                     processes)
        except _nabla.Error as e:
            tensors = arguments.tensors + captures
            problem = _spread.layout_problem(self._spread, self._mesh, e.code, inputs, tensors)
            if problem is None:
                if self._batch_parts > 1 and e.code in ("E0207", "E0210"):
                    e.add_note(_spread.advice_on_state(arguments, result, self._donated))
                raise
        if problem is not None:
            _nabla.fail(*problem)
        for note in executable.bundle.notes:
            if note not in self._notes:
                self._notes.add(note)
                warnings.warn(f"{name_of(self._fun)}: {note}", CompilerNote, stacklevel=_tracebacks.user_level())
        if processes:
            with distributed._together():
                name = name_of(self._fun)
                shapes = zip(inputs, types + example_types(captures))
                takes = ", ".join(f"{where} {type_text(dtype, shape)}" for where, (dtype, shape) in shapes)
                digest = executable.bundle.sha256
                executable.bundle.agree(f"{name}({takes}), compiled to a bundle with SHA-256 {digest}", name)
        signature = recompiles.signature_of(arguments, names, types, static, default_float())
        with self._lock:
            self._misses += 1
            seconds = time.perf_counter() - begin
            self._compile_seconds += seconds
            self._causes.append(recompiles.cause_of(signature, self._signatures))
            self._signatures.append(signature)
            del self._signatures[:-self._max], self._causes[:-self._max]
            cause, count = self._causes[-1], self._misses
            self._cache[key] = executable
            while len(self._cache) > self._max:
                self._cache.popitem(last=False)
                self._known.clear()
        recompiles.tell(name_of(self._fun), cause, count, seconds)
        return executable

    def _processes(self):
        """Those that run a rank each; None: the ranks are threads of this process."""
        return distributed._joined("jit", self._engine) if self._engine else None

    def _remember(self, executable, args, free, named, static, arguments):
        if self._dynamic or executable.bundle.lays_out or any(_nabla.placement(t) for t in arguments.tensors):
            return
        if self._known_float is not default_float():
            self._known.clear()
            self._known_float = default_float()
        static = [(i % len(args) if isinstance(i, int) else i, v) for i, v in static]
        self._known.add(executable.bundle, executable.entry, executable.captures, tuple(free), named, arguments,
                        executable.result, static, [n % len(args) for n in self._donated])

    def __repr__(self):
        s = self.stats
        return (f"<nabla.jit of {name_of(self._fun)}({', '.join(Arguments.parameters(self._fun))}) for {self._target}: "
                f"{s.size} compiled, {s.misses + s.hits} calls>")

    @property
    def stats(self):
        """Calls that found a compiled function (hits), those that did not (misses), the time spent, how many forms are
        kept (size), and why each was compiled (causes)."""
        hits = self._hits + self._known.hits
        calls = hits + self._misses
        return CacheStats(hits, self._misses, hits / calls if calls else 0.0, self._compile_seconds,
                          self._run_seconds + self._known.seconds, len(self._cache), tuple(self._causes))

    def clear_cache(self):
        """Forgets every compiled function."""
        with self._lock:
            self._cache.clear()
            self._known.clear()


class CompilerNote(UserWarning):
    """A note of the compiler on a function for several ranks, for example that every rank gathers a tensor."""


_ENTRY = re.compile(r"^entry main\((.*)\) -> (.*)$", re.MULTILINE)


def _line_each(entry):
    """The entry's line of a report, and below it a line per input and result."""
    inputs, results = [list(filter(None, text.split(", "))) for text in entry.groups()]
    rows = [("closure", x.removeprefix("closure ")) if x.startswith("closure ") else ("argument", x) for x in inputs]
    return "\n".join([entry[0]] + [f"  {kind:10} {row}" for kind, row in rows + [("result", y) for y in results]])


def _padded(x):
    """Whether the shards of a tensor differ in size, so that smaller ones are padded."""
    spec = spec_of(x)
    return any(n % d.get_total_shards(spec.mesh) for n, d in zip(x.shape, spec.dim_specs))


def _layout_key(x, dynamic):
    """What a compiled function depends on of a tensor's layout; None: it has none. `dynamic`: the function has dynamic
    sizes. Without these, it does not matter that shards may be padded if all shards are equal: a result of shape [6]
    over two ranks has the key of an argument that was sharded to three elements each."""
    placement = _nabla.placement(x)
    if placement is None:
        return None
    mesh, layout = placement
    padded = layout.allow_padding and (dynamic or _padded(x))
    return mesh.name, tuple(mesh.axes), repr(layout).removesuffix(" allow_padding"), padded


def _forget_known_calls():
    """Every next call of a compiled function is looked up anew: what it depends on has changed."""
    for compiled in list(_all):
        compiled._known.clear()


@contextlib.contextmanager
def disable_jit():
    """Within the context, compiled functions run as they are written, op by op, so that a debugger steps through them
    and tensors have elements."""
    global _disabled
    before, _disabled = _disabled, True
    _forget_known_calls()
    try:
        yield
    finally:
        _disabled = before


def jit(fun=None, static_argnums=(), static_argnames=(), donate_argnums=(), dynamic_dims=None, max_cache_size=64,
        target="", threads=0, check_nan=False, auto_shard=None, engine=None, in_shardings=None, out_shardings=None,
        mesh=None, layouts=None, data_axes=(), zero=0, microbatches=None, max_gather_bytes=None):
    """`fun` compiled: see Compiled.

    donate_argnums: the memory of these arguments' tensors is free after the call; using them then is an Error.
    dynamic_dims: {argument: {dimension: name, (name, min, max) or Dynamic(...)}}: sizes that may change without
    compiling again; where layouts of arguments, or layouts and collectives inside of `fun`, cut them, they are
    multiples of the parts, and other sizes are E0210.
    target: what to compile for, as `nablac --target`; by default this CPU. threads: 0 is all. check_nan: the first op
    that makes NaN or infinity is an Error (E0708) with its line and the ranges of its operands; slow, since every op
    has a kernel of its own and all results are read. auto_shard: a DeviceMesh, whose ranks share the work as the
    compiler finds quickest (`nablac compile --auto-shard`); layouts of arguments and inside of `fun` stay, and are
    E0210 over another mesh. engine: where the ranks of a program for several run: threads of this process, or with
    "mpi" a process each, those that `nabla.distributed.init` has joined; all of them make the same calls in the same
    order, with the same whole arrays, and get whole results (E0614 where the program is not for as many ranks, or not
    the same on all).
    in_shardings, out_shardings: how arguments and results are laid out over a mesh: a layout, or a tree of them that
    begins as that of the positional arguments which are not static, or of the results; one stands for all that is
    below its place. A layout is a ShardingSpec, or a pair such as (mesh, P("dp")); None leaves tensors as they are. An
    argument that lies otherwise is moved before the call: another layout of it compiles nothing anew, and is no error.
    mesh: a DeviceMesh, or ranks by axis ({"dp": 4}); by default the mesh of the layouts. data_axes, layouts, zero,
    microbatches, max_gather_bytes: as in compile_bundle. A jitted function has no state. Instead, these arguments are
    treated as state: arguments that `fun` differentiates with respect to, donated arguments that come back as results
    of the same tree, arguments that a pattern of `layouts` names ("params.fc1.w"), and tensors that `fun` closes over.
    All other arguments are the batch, whose first dimension is sharded over data_axes. Arguments and results are
    global arrays.
    Notes of the compiler on a function for several ranks are warnings (CompilerNote). Each is shown once.
    Raises TypeError for what is no layout and arguments passed by name, ValueError for trees that do not fit, Error
    (E0210) for layouts of another number of dimensions and of two meshes.
    Raises Error with the user's line where the program is wrong.
    """
    if fun is None:
        return functools.partial(jit, static_argnums=static_argnums, static_argnames=static_argnames,
                                 donate_argnums=donate_argnums, dynamic_dims=dynamic_dims,
                                 max_cache_size=max_cache_size, target=target, threads=threads, check_nan=check_nan,
                                 auto_shard=auto_shard, engine=engine, in_shardings=in_shardings,
                                 out_shardings=out_shardings, mesh=mesh, layouts=layouts, data_axes=data_axes,
                                 zero=zero, microbatches=microbatches, max_gather_bytes=max_gather_bytes)
    if not callable(fun):
        raise TypeError(f"jit takes a function, got {type(fun).__name__}")
    return Compiled(fun, static_argnums, static_argnames, donate_argnums, dynamic_dims, max_cache_size, target, threads,
                    check_nan, auto_shard, engine, in_shardings, out_shardings, mesh, layouts, data_axes, zero,
                    microbatches, max_gather_bytes)


def compile(fun=None, fullgraph=False, max_cache_size=64, dynamic_dims=None, **options):
    """As jit, under the name and with the arguments of eager libraries.

    A function is always compiled as a whole, so that `fullgraph` changes nothing: both values mean the same.
    """
    if fun is None:
        return functools.partial(compile, fullgraph=fullgraph, max_cache_size=max_cache_size, dynamic_dims=dynamic_dims,
                                 **options)
    return jit(fun, max_cache_size=max_cache_size, dynamic_dims=dynamic_dims, **options)


class IR(str):
    """Text of the IR, as which it shows itself. Notebooks show it in colours, with names that lead to where they are
    made."""

    def __repr__(self):
        return str(self)

    def _repr_html_(self):
        from ._printing import ir_html
        return ir_html(self)


def make_ir(fun, stage="traced"):
    """A function of the same arguments that gives the IR of `fun` on them, with shapes, dtypes and transforms.

    stage: "traced" as it was written, "flat" after the transforms were taken apart and the graph was simplified;
        composites such as attention are whole there. "sharded" is that with the layouts of all values over a mesh; a
        comment says over which axes ranks have only shares of a result, whose sum they take later.
    """
    if stage not in ("traced", "flat", "sharded"):
        raise ValueError(f"make_ir: stage is 'traced', 'flat' or 'sharded', got {stage!r}")
    return _ir_of(fun, lambda f: stage)


def _ir_of(fun, stage_of):
    @functools.wraps(fun)
    def made(*args, **kwargs):
        arguments = Arguments(args, kwargs)
        f, _ = trace_function(fun, example_types(arguments.tensors), arguments.rebuild, like=arguments.tensors)
        stage = stage_of(f)
        return IR(f.text() if stage == "traced" else _nabla.simplified_text(f, stage == "sharded"))

    return made


def trace(fun, *args, **kwargs):
    """The IR of `fun` on these arguments, which prints as text: `print(nb.trace(f, x))`. As it was written; over a mesh
    at stage "sharded" of make_ir."""
    return _ir_of(fun, lambda f: "sharded" if f.has_mesh else "traced")(*args, **kwargs)


def _clear_caches():
    """Forgets what every compiled function has compiled."""
    for compiled in list(_all):
        compiled.clear_cache()


__all__ = ["CacheStats", "Compiled", "CompilerNote", "Dynamic", "IR", "compile", "disable_jit", "jit", "make_ir",
           "trace"]
