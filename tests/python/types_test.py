"""The types of the package: stubs beside its modules name what these name, with the same arguments and defaults, and
mypy accepts a program of a user's in strict mode, in which no value is Any."""

import ast
import importlib
import inspect
import os
import pkgutil
import subprocess
import types

import pytest

import nabla as nb

HOME = os.path.dirname(os.path.abspath(nb.__file__))
HERE = os.path.dirname(os.path.abspath(__file__))
MYPY = "/usr/bin/mypy"

# Functions and methods whose results nobody can name: trees of other forms, states, what a user's function returns.
ANY = {
    "nabla.compiled.Compiled.__get__", "nabla.kernels.Kernel.__call__", "nabla.kernels.call_custom_kernel",
    "nabla.nn.containers.Sequential.__getitem__", "nabla.nn.containers._Container.__getattr__",
    "nabla.nn.finetune.lora.tree_lora_delta", "nabla.ops.base.Operation.__call__", "nabla.nn.module.Module.forward",
    "nabla.nn.optim.stateful.Optimizer.lr",
    "nabla.nn.optim.stateful.Optimizer.__getattr__", "nabla.nn.optim.stateful.Optimizer.step",
    "nabla.recompiles.signature_of", "nabla.transforms.jacobians.hvp", "nabla.transforms.shapes.eval_shape",
    "nabla.tree.PyTreeDef.unflatten", "nabla.tree.transpose", "nabla.tree.tree_unflatten",
}

# In types they are functions: a module takes the marks off, so that its attributes are tensors.
MARKS = {"nabla.nn.module.Parameter", "nabla.nn.module.Buffer"}


def modules():
    """The modules that programs may name, and those whose names `nabla` itself has."""
    found = ["nabla"] + [m.name for m in pkgutil.walk_packages(nb.__path__, "nabla.")]
    found = [m for m in found if not any(p.startswith("_") for p in m.split(".")[1:])]
    return found + ["nabla._core", "nabla._methods"]


def source_of(name):
    return importlib.import_module(name).__file__


def parsed(name):
    path = source_of(name) + "i"
    assert os.path.exists(path), f"{name} has no stub: {os.path.relpath(path, HOME)} is missing"
    with open(path, encoding="utf-8") as file:
        return ast.parse(file.read())


WITH_STUBS = [m for m in modules() if m != "nabla.typing"]  # whose own annotations are its types


def absolute(name, node):
    """The module that an import in module `name` is from."""
    parts = name.split(".")
    if not source_of(name).endswith("__init__.py"):
        parts = parts[:-1]
    parts = parts[:len(parts) - (node.level - 1)]
    return ".".join(parts + ([node.module] if node.module else []))


def names_of(name):
    """What a stub makes public: as type checkers read it, `import x as x` and stars hand on."""
    if name == "nabla._nabla":
        return set()
    out = set()
    for node in parsed(name).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            out.add(node.name)
        elif isinstance(node, ast.Assign):
            out |= {t.id for t in node.targets}
        elif isinstance(node, ast.AnnAssign):
            out.add(node.target.id)
        elif isinstance(node, ast.ImportFrom) and node.level:
            if node.names[0].name == "*":
                out |= names_of(absolute(name, node))
            else:
                out |= {a.name for a in node.names if a.asname == a.name}
                out |= {a.asname for a in node.names if a.asname and a.asname != a.name}
    return {n for n in out if not n.startswith("_") or n == "__version__"}


def public(module):
    if module is nb:
        return set(dir(nb))
    if module.__name__ in ("nabla.nn", "nabla.nn.optim", "nabla.nn.finetune", "nabla.ops", "nabla.transforms"):
        return {n for n in vars(module) if not n.startswith("_")}
    if hasattr(module, "__all__"):
        return set(module.__all__)
    here = module.__name__
    return {n for n, x in vars(module).items() if not n.startswith("_") and not isinstance(x, types.ModuleType)
            and str(getattr(x, "__module__", "")).startswith(here)}


@pytest.mark.parametrize("name", WITH_STUBS)
def test_names(name):
    module, stub = importlib.import_module(name), names_of(name)
    wanted = public(module)
    assert not wanted - stub, f"the stub of {name} lacks {sorted(wanted - stub)}"
    more = {n for n in stub - wanted if not hasattr(module, n)}
    assert not more, f"the stub of {name} names {sorted(more)}, which are not there"
    if hasattr(module, "__all__") and name != "nabla.config":  # whose settings are attributes
        assert stub <= wanted | {n for n in stub if isinstance(getattr(module, n), types.ModuleType)}, stub - wanted


def overloads(body):
    """{name: [definitions]} of functions, in a module or class."""
    out = {}
    for node in body:
        if isinstance(node, ast.FunctionDef) and not any("setter" in ast.unparse(d) for d in node.decorator_list):
            out.setdefault(node.name, []).append(node)
    return out


def literal(node):
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ...


def is_spec(annotation):
    """Whether it is that of a ParamSpec: P.args or P.kwargs."""
    return isinstance(annotation, ast.Attribute) and annotation.attr in ("args", "kwargs")


def parameters(node, method):
    """[(name, kind, default)] of a definition in a stub; a default `...` stands for any."""
    a = node.args
    positional = [(p, inspect.Parameter.POSITIONAL_ONLY) for p in a.posonlyargs]
    positional += [(p, inspect.Parameter.POSITIONAL_OR_KEYWORD) for p in a.args]
    empty = inspect.Parameter.empty
    defaults = [empty] * (len(positional) - len(a.defaults)) + [literal(d) for d in a.defaults]
    out = [(p.arg, kind, d) for (p, kind), d in zip(positional, defaults)]
    if method:
        out = out[1:]
    if a.vararg and not is_spec(a.vararg.annotation):
        out.append((a.vararg.arg, inspect.Parameter.VAR_POSITIONAL, empty))
    out += [(p.arg, inspect.Parameter.KEYWORD_ONLY, empty if d is None else literal(d))
            for p, d in zip(a.kwonlyargs, a.kw_defaults)]
    if a.kwarg and not is_spec(a.kwarg.annotation):
        out.append((a.kwarg.arg, inspect.Parameter.VAR_KEYWORD, empty))
    return out, bool(a.vararg and is_spec(a.vararg.annotation))


def same_default(stub, runtime):
    if stub is ... or stub is inspect.Parameter.empty or runtime is inspect.Parameter.empty:
        return stub is runtime or stub is ...
    if isinstance(runtime, (bool, int, float, str, tuple, type(None))):
        return stub == runtime and type(stub) is type(runtime)
    return False  # what a stub cannot write is `...` there


def check_signature(where, nodes, function, method):
    real = list(inspect.signature(function).parameters.values())[1 if method else 0:]
    for node in nodes:
        stub, spec = parameters(node, method)
        have = [p for p in real if not (spec and p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD))]
        assert [p.name for p in have] == [name for name, _, _ in stub], (
            f"{where} takes {[p.name for p in have]}, its stub says {[n for n, _, _ in stub]}")
        for p, (name, kind, default) in zip(have, stub):
            if len(nodes) == 1:
                assert p.kind == kind, f"{where}: {name} is {p.kind.description}, in the stub {kind.description}"
                assert same_default(default, p.default), f"{where}: {name} is {p.default!r}, in the stub {default!r}"
            else:
                assert kind in (p.kind, p.KEYWORD_ONLY), f"{where}: {name} is {p.kind.description} in no overload"
                assert default is p.empty or same_default(default, p.default), (
                    f"{where}: {name} is {p.default!r}, in an overload {default!r}")


def check_annotations(where, nodes, method):
    for node in nodes:
        a = node.args
        bound = method and not any(ast.unparse(d) == "staticmethod" for d in node.decorator_list)
        given = (a.posonlyargs + a.args)[1 if bound else 0:] + a.kwonlyargs
        given += [p for p in (a.vararg, a.kwarg) if p]
        for p in given:
            assert p.annotation is not None, f"{where}: {p.arg} has no type"
        assert node.returns is not None, f"{where} has no type of its result"
        assert where in ANY or ast.unparse(node.returns) != "Any", f"{where} returns Any"


@pytest.mark.parametrize("name", WITH_STUBS)
def test_arguments(name):
    module = importlib.import_module(name)
    body = parsed(name).body
    for function, nodes in overloads(body).items():
        where = f"{name}.{function}"
        check_annotations(where, nodes, False)
        if not function.startswith("_") and not isinstance(getattr(module, function), types.BuiltinFunctionType):
            check_signature(where, nodes, getattr(module, function), False)
            assert inspect.isfunction(getattr(module, function)) or where in MARKS, f"{where} is no function"
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and not node.targets[0].id.startswith("_"):
            alias, target = node.targets[0].id, node.value.id
            assert getattr(module, alias) is getattr(module, target), f"{name}.{alias} is not {target}"


def class_definitions(name):
    return {node.name: node for node in parsed(name).body if isinstance(node, ast.ClassDef)}


def members(nodes, node):
    """Members of a class in a stub and of its bases in the same stub."""
    out = {}
    for base in node.bases:
        base = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(base, ast.Name) and base.id in nodes:
            out.update(members(nodes, nodes[base.id]))
    for part in node.body:
        if isinstance(part, ast.AnnAssign):
            out[part.target.id] = part
    out.update(overloads(node.body))
    return out


@pytest.mark.parametrize("name", WITH_STUBS)
def test_members_of_classes(name):
    module, nodes = importlib.import_module(name), class_definitions(name)
    for title, node in nodes.items():
        for part, definitions in overloads(node.body).items():
            check_annotations(f"{name}.{title}.{part}", definitions, True)
        if title.startswith("_") or not hasattr(module, title):
            continue
        cls, stub = getattr(module, title), members(nodes, node)
        assert isinstance(cls, type), f"{name}.{title} is no class"
        own = {k: v for base in cls.__mro__ if base.__module__ == cls.__module__ for k, v in vars(base).items()
               if not k.startswith("_") and isinstance(v, (types.FunctionType, property, classmethod, staticmethod))}
        assert not set(own) - set(stub), f"the stub of {name}.{title} lacks {sorted(set(own) - set(stub))}"
        for part, definition in stub.items():
            where = f"{name}.{title}.{part}"
            value = inspect.getattr_static(cls, part, None)
            if isinstance(definition, ast.AnnAssign):
                continue
            assert value is not None, f"{where} is not there"
            if isinstance(value, property):
                assert ast.unparse(definition[0].decorator_list[0]) == "property", f"{where} is a property"
            elif isinstance(value, types.FunctionType):
                # Calls of a layer whose result depends on an argument are those of its forward.
                layer = part == "__call__" and len(definition) > 1 and hasattr(cls, "forward")
                check_signature(where, definition, cls.forward if layer else value, True)
            elif isinstance(value, (classmethod, staticmethod)):
                check_signature(where, definition, value.__func__, isinstance(value, classmethod))


def test_methods_of_tensors():
    """The stub of the extension module has those that _methods.py attaches."""
    with open(os.path.join(HOME, "_nabla.pyi"), encoding="utf-8") as file:
        body = ast.parse(file.read()).body
    node = next(n for n in body if isinstance(n, ast.ClassDef) and n.name == "Tensor")
    checked = 0
    for name, definitions in overloads(node.body).items():
        value = inspect.getattr_static(nb.Tensor, name)
        static = isinstance(value, staticmethod)
        value = value.__func__ if static else value
        if isinstance(value, types.FunctionType) and not name.startswith("__"):
            check_signature(f"Tensor.{name}", definitions, value, not static)
            checked += 1
        if isinstance(value, property):
            assert ast.unparse(definitions[0].decorator_list[0]) == "property", name
    assert checked > 100


def test_differences_are_found():
    def function(x, axis=None, *, keepdims=False):
        pass

    def stub(text):
        return [ast.parse(text).body[0]]

    for right in ("x: int, axis: int = None, *, keepdims: bool = False", "x, axis=..., *, keepdims=..."):
        check_signature("f", stub(f"def f({right}) -> int: ..."), function, False)
    for wrong in ("x, axis=None", "x, dim=None, *, keepdims=False", "x, axis=0, *, keepdims=False",
                  "x, axis=None, keepdims=False", "x, axis, *, keepdims=False"):
        with pytest.raises(AssertionError):
            check_signature("f", stub(f"def f({wrong}): ..."), function, False)
    with pytest.raises(AssertionError, match="x has no type"):
        check_annotations("f", stub("def f(x) -> int: ..."), False)
    with pytest.raises(AssertionError, match="returns Any"):
        check_annotations("f", stub("def f(x: int) -> Any: ..."), False)


# ---- What a type checker says


def mypy(folder, *files):
    assert os.access(MYPY, os.X_OK), f"there is no {MYPY}, which tools/setup.sh installs: apt-get install mypy"
    # mypy reads a package from a path of its own: the package's folder alone, without what Bazel puts beside it.
    path = os.path.join(folder, "path")
    if not os.path.exists(path):
        os.makedirs(path)
        os.symlink(HOME, os.path.join(path, "nabla"))
    env = {**os.environ, "MYPYPATH": path, "PYTHONPATH": ""}
    out = subprocess.run([MYPY, "--strict", "--cache-dir", os.path.join(folder, "cache"), *files], env=env, cwd=folder,
                         capture_output=True, text=True, check=False)
    return out.stdout + out.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("mypy"))


def test_mypy_accepts_a_program_in_strict_mode(folder):
    said = mypy(folder, os.path.join(HERE, "typed_program.py"))
    assert said.startswith("Success: no issues found in 1 source file"), said


def test_mypy_accepts_every_stub_in_strict_mode(folder):
    program = os.path.join(folder, "everything.py")
    with open(program, "w", encoding="utf-8") as file:
        file.write("".join(f"import {name}\n" for name in WITH_STUBS + ["nabla.typing", "nabla._nabla"]))
    said = mypy(folder, program)
    assert said.startswith("Success: no issues found in 1 source file"), said


def test_mypy_refuses_what_is_wrong(folder):
    program = os.path.join(folder, "wrong.py")
    with open(program, "w", encoding="utf-8") as file:
        file.write("import nabla as nb\n\n"
                   "x = nb.zeros((2,))\n"
                   "nb.summ(x)\n"
                   "nb.sum(x, dim=0)\n"
                   "x.shape.append(1)\n"
                   "nb.nn.Linear(2)\n"
                   "nb.grad(3)(x)\n"
                   "y: int = nb.exp(x)\n")
    said = mypy(folder, program)
    assert [line for line in range(1, 10) if f"wrong.py:{line}: error" in said] == [4, 5, 6, 7, 8, 9], said


def test_the_program_runs(folder, capsys):
    with open(os.path.join(HERE, "typed_program.py"), encoding="utf-8") as file:
        exec(compile(file.read(), "typed_program.py", "exec"), {"__name__": "typed_program"})
    assert "x [[1, 2], [3, 4]]" in capsys.readouterr().out
    nb.seed(0)
