"""A mistake of Nabla's own in a process of Python: an Error that says where the module that shows it is."""

import os
import re
import subprocess
import sys

import nabla as nb
import pytest
from nabla._trace import Arguments, example_types, trace


def function():
    arguments = Arguments((nb.ones((3,)),), {})
    return trace(lambda x: nb.sin(x) * 2, example_types(arguments.tensors), arguments.rebuild)[0]


def test_a_failed_check_is_an_error_with_a_reproducer(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with pytest.raises(nb.Error, match="internal check failed") as caught:
        nb._nabla.fail_check(function())
    text = str(caught.value)
    assert "asked for" in text and "while: fail_check on @" in text
    assert "this is a bug in Nabla, not in your program" in text
    path = re.search(r"is in (\S+\.nbl); run: nablac compile \1", text).group(1)
    assert path.startswith(str(tmp_path))
    written = open(path).read()
    assert written.startswith("// nablac compile") and "sin" in written
    assert nb.sum(nb.ones((4,))).item() == 4  # the process goes on


def test_where_no_file_can_be_written_the_error_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    with pytest.raises(nb.Error, match="no reproducer could be written"):
        nb._nabla.fail_check(function())


def test_the_process_ends_well_after_a_failed_check(tmp_path):
    script = (
        "import nabla as nb, failed_checks_test as t\n"
        "try: nb._nabla.fail_check(t.function())\n"
        "except nb.Error: print('caught')\n"
    )
    environment = dict(os.environ, TMPDIR=str(tmp_path),
                       PYTHONPATH=os.environ["PYTHONPATH"] + ":" + os.path.dirname(__file__))
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "caught\n"), done.stderr
