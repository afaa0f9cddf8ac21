"""The pages of docs/ on Python and what README.md says of it: every block runs, in order, in one session per page,
and prints what stands after its `# ->`. `...` there stands for anything, such as times. The names of nabla in tables
of the pages for those who know another library exist."""

import contextlib
import io
import os
import re

import pytest

import nabla as nb
from nabla import _hints

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
_SAID = re.compile(r"# -> ?(.*)$")


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def blocks_of(path):
    """`(line, text)` of each block; Bazel's BUILD files are no Python."""
    text = text_of(path)
    return [(text.count("\n", 0, m.start()) + 2, m[1]) for m in _BLOCK.finditer(text) if "cc_binary(" not in m[1]]


def said_in(block):
    return [m[1].rstrip() for line in block.splitlines() if (m := _SAID.search(line))]


def pattern_of(said):
    return ".*".join(re.escape(part) for part in said.split("..."))


def run_page(path, folder):
    """Differences between what the page says and what it prints."""
    names, wrong = {"__name__": "page"}, []
    path = os.path.abspath(path)
    before = os.getcwd()
    os.chdir(folder)
    try:
        for line, block in blocks_of(path):
            # Lines of errors, and of kernels' sources, are those of the page.
            code = compile("\n" * (line - 1) + block, path, "exec")
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(code, names)
            printed = [text.rstrip() for text in out.getvalue().splitlines() if text.strip()]
            said = said_in(block)
            if len(printed) != len(said) or not all(re.fullmatch(pattern_of(s.strip()), p.strip())
                                                    for s, p in zip(said, printed)):
                wrong.append(f"block at line {line} prints\n  " + "\n  ".join(printed) + "\nand says\n  " +
                             "\n  ".join(said))
    finally:
        os.chdir(before)
    return wrong


@pytest.fixture
def fresh():
    yield
    nb.seed(0)


# Per page how many blocks it has.
PAGES = {"python.md": 20, "python-debugging.md": 7, "python-practice.md": 10, "python-sharding.md": 10,
         "from-pytorch.md": 5, "from-jax.md": 6}


@pytest.mark.parametrize("page", PAGES)
def test_the_page(page, tmp_path, fresh):
    assert len(blocks_of("docs/" + page)) == PAGES[page]
    wrong = run_page("docs/" + page, tmp_path)
    assert not wrong, "\n\n".join(wrong)


def test_the_readme(tmp_path, fresh):
    assert len(blocks_of("README.md")) == 1
    wrong = run_page("README.md", tmp_path)
    assert not wrong, "\n\n".join(wrong)
    code, printed = re.search(r"^\$ python3 -c '(.*)'\n(.*)$", text_of("README.md"), re.M).groups()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, {})
    assert out.getvalue().strip() == printed


def test_what_is_said_is_compared(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)  # -> 1\nprint('a 12 s')\n# -> a ... s\n```\n\n"
                    "```python\nprint(2)  # -> 3\n```\n")
    wrong = run_page(str(page), tmp_path)
    assert len(wrong) == 1 and "line 8 prints\n  2\nand says\n  3" in wrong[0]
    page.write_text("```python\nprint(1)\n```\n")
    assert run_page(str(page), tmp_path)


def missing_names(text):
    """Dotted names after `nb.` and `nn.` that do not exist."""
    missing = []
    for name in sorted(set(re.findall(r"\b(?:nb|nn)(?:\.\w+)+", text))):
        thing = {"nb": nb, "nn": nb.nn}[name.split(".")[0]]
        for part in name.split(".")[1:]:
            if not hasattr(thing, part):
                missing.append(name)
                break
            thing = getattr(thing, part)
    return missing


def table_columns(text):
    """The last column of every table with two columns or more, row by row."""
    rows = [line.strip()[1:-1].split("|") for line in text.splitlines() if line.startswith("|")]
    return [row[-1] for row in rows if set(row[-1].strip()) != {"-"}]


def test_names_of_the_guide_exist():
    """Those after `nb.`, in blocks and in the text."""
    text = text_of("docs/python.md")
    assert not missing_names(" ".join(re.findall(r"\bnb(?:\.\w+)+", text)))
    assert "nb.zeros" in text


@pytest.mark.parametrize("page", ["from-pytorch.md", "from-jax.md"])
def test_names_in_tables_for_those_who_come_from_elsewhere_exist(page):
    ours = table_columns(text_of("docs/" + page))
    assert len(ours) > 35 and not missing_names("\n".join(ours))
    # A row of names has one of ours.
    names = ours[ours.index(" Nabla ", ours.index(" Nabla ") + 1) + 1:]
    assert len(names) > 20
    for row in names:
        assert re.search(r"`(nb|nn)\.", row), row


def test_a_name_of_pytorchs_that_we_do_not_have_says_what_it_is_here():
    names = text_of("docs/from-pytorch.md").partition("## Names")[2]
    rows = [row for row in names.splitlines() if row.startswith("| `")]
    nn = nb.nn
    ours = (nb, nb.Tensor, nn, nn.functional, nn.Module, nn.optim, nn.optim.schedules, nb.linalg, nb.random)
    hinted = set()
    for row in rows:
        for name in re.findall(r"`([^`(]+)[^`]*`", row.split("|")[1]):
            owner, _, last = name.rpartition(".")
            if owner == "x" or any(hasattr(place, last) for place in ours):
                continue
            assert last in _hints.NAMES, f"{name} has no hint"
            hinted.add(last)
            said = re.escape(f"no attribute {last!r}: it is {_hints.NAMES[last]} here")
            for module in (nb, nn, nn.functional, nn.optim):
                with pytest.raises(AttributeError, match=said):
                    getattr(module, last)
    assert len(hinted) > 15
    assert not missing_names(" ".join(_hints.NAMES.values()))
    with pytest.raises(AttributeError, match="module 'nabla' has no attribute 'concatenation'$"):
        nb.concatenation  # noqa: B018


def test_a_name_that_does_not_exist_is_found():
    assert missing_names("| `torch.cat` | `nb.concatenate`, `nb.concatenated`, `nn.Linear.weights` |") == [
        "nb.concatenated", "nn.Linear.weights"]
