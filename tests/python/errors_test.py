"""What wrong programs are told: values, the user's line, what to do."""

import os
import re
import subprocess
import sys

import pytest

import nabla as nb

X = nb.asarray([1.0, 2.0, 3.0])


def text_of(f):
    with pytest.raises(nb.Error) as e:
        f()
    return str(e.value), e.value.code


def test_shapes_that_do_not_fit_name_both_and_the_line():
    text, code = text_of(lambda: X + nb.ones((4,)))  # the line
    assert code == "E0203" and "[3]" in text and "[4]" in text
    assert "errors_test.py:" in text and "# the line" in text


def test_a_branch_on_data_names_the_line_and_what_to_use():
    def f(x):
        if nb.sum(x) > 0:  # decided by data
            return nb.sum(x)
        return -nb.sum(x)

    for g in (nb.grad(f), nb.jit(f), nb.vmap(f)):
        text, code = text_of(lambda g=g: g(nb.ones((2, 3)) if g is not g else X if g is not None else X))
        assert code == "E0707" and "# decided by data" in text and "nabla.cond" in text and "nabla.where" in text


def test_numbers_of_traced_values_are_refused():
    for ask in (lambda x: float(x), lambda x: int(x), lambda x: x.item(), lambda x: x.tolist(), lambda x: x.numpy()):
        text, code = text_of(lambda ask=ask: nb.jit(lambda x: x * ask(nb.sum(x)))(X))
        assert code == "E0707" and "while its function is traced" in text


def test_numbers_that_do_not_fit_are_refused():
    with pytest.raises(OverflowError, match="1099511627776 does not fit into int32"):
        nb.asarray([1]) + 2**40
    assert (nb.asarray([1], dtype="int64") + 2**40).tolist() == [2**40 + 1]
    assert (nb.asarray([1], dtype="uint8") + 255).tolist() == [0]


def test_tensors_larger_than_the_memory_are_an_error():
    text, code = text_of(lambda: nb.zeros((10**7, 10**7)).realize())
    assert code == "E0804" and "f32[10000000,10000000]" in text and "errors_test.py:" in text


def test_a_leaked_tracer_is_named():
    kept = []

    def leaky(x):
        kept.append(x)
        return nb.sum(x)

    nb.grad(leaky)(X)
    text, code = text_of(lambda: kept[0] + 1.0)
    assert code == "E0707" and "a value of function `leaky` is used in" in text and "let `leaky` return it" in text


def test_operands_of_other_kinds():
    with pytest.raises(TypeError, match="str"):
        X + "a"
    with pytest.raises(TypeError, match="function"):
        nb.sum(lambda: 0)
    with pytest.raises(TypeError, match="returns a set"):
        nb.jit(lambda x: {1})(X)
    with pytest.raises(ValueError, match="different lengths"):
        nb.asarray([[1.0], [1.0, 2.0]])
    with pytest.raises(TypeError, match="is no element type"):
        nb.zeros((2,), dtype="float99")


def test_an_axis_that_is_not_there():
    text, code = text_of(lambda: nb.sum(X, axis=2))
    assert code == "E0204" and "2" in text and "errors_test.py:" in text


def test_errors_inside_of_compiled_functions_show_the_inner_line():
    def f(x):
        y = x * 2.0
        return y @ nb.ones((4, 4))  # does not fit

    text, _ = text_of(lambda: nb.jit(f)(X))
    assert "# does not fit" in text


def test_a_failed_value_does_not_stop_the_others():
    a, b = X * 2.0, X * 3.0
    with pytest.raises(nb.Error):
        (a + nb.ones((2,))).tolist()
    assert a.tolist() == [2.0, 4.0, 6.0] and b.tolist() == [3.0, 6.0, 9.0]


def test_traces_after_a_failure_start_anew():
    for _ in range(3):
        with pytest.raises(RuntimeError):
            nb.jit(lambda x: (_ for _ in ()).throw(RuntimeError("mine")))(X)
    assert (X + 1.0).tolist() == [2.0, 3.0, 4.0]


@pytest.mark.parametrize("code, last", [
    ("def g(x): return x @ nb.ones((7, 2))\nnb.jit(g)(nb.ones((4, 3)))", "E0203"),
    ("def g(x): return {}['key']\nnb.grad(g)(1.0)", "KeyError"),
    ("def g(x): raise AttributeError('mine')\nnb.vmap(g)(nb.ones(2))", "mine"),
    ("nb.reshape(nb.ones(3), 2)", "E0203"),
    ("def g(): nb.asarray('text')\nimport threading as t\nt.Thread(target=g).start()", "TypeError")])
def test_tracebacks_end_at_the_users_line(code, last):
    def printed(**environment):
        run = subprocess.run([sys.executable, "-c", "import nabla as nb\n" + code], capture_output=True, text=True,
                             env={**os.environ, **environment})
        return run.stderr

    files = re.findall(r'File "(.*?)"', printed())
    own = os.path.dirname(nb.__file__) + os.sep
    assert files and files[-1] == "<string>" and not [f for f in files if f.startswith(own)]
    assert last in printed()
    assert [f for f in re.findall(r'File "(.*?)"', printed(NABLA_FULL_TRACEBACKS="1")) if f.startswith(own)]
