"""docs/python.md, docs/python-debugging.md and what README.md says of Python: every block runs, in order, in one
session, and prints what stands after its `# ->`. `...` there stands for anything, such as times."""

import contextlib
import io
import os
import re

import pytest

import nabla as nb

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


def test_the_guide(tmp_path, fresh):
    assert len(blocks_of("docs/python.md")) == 17
    wrong = run_page("docs/python.md", tmp_path)
    assert not wrong, "\n\n".join(wrong)


def test_the_page_on_debugging(tmp_path, fresh):
    assert len(blocks_of("docs/python-debugging.md")) == 7
    wrong = run_page("docs/python-debugging.md", tmp_path)
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


def test_names_of_the_guide_exist():
    """Those after `nb.`, in blocks and in the text."""
    text = text_of("docs/python.md")
    for name in set(re.findall(r"\bnb((?:\.\w+)+)", text)):
        thing = nb
        for part in name[1:].split("."):
            assert hasattr(thing, part), f"docs/python.md names nb{name}, which does not exist"
            thing = getattr(thing, part)
    assert "nb.zeros" in text

