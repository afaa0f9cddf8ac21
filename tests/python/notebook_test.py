"""examples/python/tour.ipynb: its cells run, in order, as Jupyter would run them; no outputs are stored."""

import ast
import json

import pytest

NOTEBOOK = "examples/python/tour.ipynb"


@pytest.fixture(scope="module")
def cells():
    with open(NOTEBOOK, encoding="utf-8") as file:
        return json.load(file)["cells"]


def code_of(cell):
    return "".join(cell["source"])


def run(cells):
    """The names that are left. A last expression is shown, as text and, where it can, as HTML."""
    names = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        if cell["cell_type"] != "code":
            continue
        body = ast.parse(code_of(cell), f"{NOTEBOOK} cell {number}").body
        shown = body.pop() if isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), f"{NOTEBOOK} cell {number}", "exec"), names)
        if shown is not None:
            value = eval(compile(ast.Expression(shown.value), f"{NOTEBOOK} cell {number}", "eval"), names)
            repr(value)
            if hasattr(value, "_repr_html_"):
                assert value._repr_html_().startswith("<")
    return names


def test_its_cells_run_and_models_learn(cells):
    names = run(cells)
    assert names["losses"][-1] < 0.01 < names["losses"][0]
    assert names["each"].shape == (5, 2)
    assert names["out"]["loss"].item() < 1e-3
    assert abs(names["root"](2.0).item() - 2 ** 0.5) < 1e-6
    assert names["step"].stats.misses == 1


def test_nothing_is_stored_that_running_makes(cells):
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
            assert len(code_of(cell).splitlines()) <= 30
    assert len({cell["id"] for cell in cells}) == len(cells)
