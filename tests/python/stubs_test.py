"""_nabla.pyi, the types of the extension module for editors and type checkers, and the module itself name the same."""

import ast
import os

import nabla as nb
from nabla import _nabla

STUB = os.path.join(os.path.dirname(nb.__file__), "_nabla.pyi")


def parsed():
    with open(STUB, encoding="utf-8") as file:
        return ast.parse(file.read())


def names_in(body):
    out = set()
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            out.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            out.add(node.target.id)
    return {name for name in out if not name.startswith("_")}


def public(thing):
    return {name for name in thing if not name.startswith("_")}


def test_every_name_of_the_module_is_in_the_stub_and_the_other_way_round():
    assert public(dir(_nabla)) == names_in(parsed().body)


def test_so_is_every_member_of_its_classes():
    """Also of Tensor, whose methods come from _methods.py."""
    classes = {node.name: node for node in parsed().body if isinstance(node, ast.ClassDef)}
    for name, node in classes.items():
        has = public(vars(getattr(_nabla, name))) | ({"code"} if name == "Error" else set())
        assert has == names_in(node.body), name


def test_functions_take_as_many_arguments_as_the_stub_says():
    stubs = {node.name: node.args for node in parsed().body if isinstance(node, ast.FunctionDef)}
    for name, arguments in stubs.items():
        signature = getattr(_nabla, name).__doc__.split("\n")[0].split(") ->")[0].removeprefix(name + "(")
        depth = commas = 0
        for c in signature:
            depth += (c in "[(") - (c in "])")
            commas += c == "," and depth == 0
        assert len(arguments.posonlyargs + arguments.args) == (commas + 1 if signature else 0), name


def test_the_stub_is_a_part_of_the_package():
    assert os.path.exists(os.path.join(os.path.dirname(nb.__file__), "py.typed"))
