"""What errors say: the caller's names, the places of leaves, both types; and what functions say of themselves."""

import collections
import logging
import warnings

import numpy as np
import pytest

import nabla as nb
from nabla import nn


def said(make, error=Exception):
    with pytest.raises(error) as e:
        make()
    return str(e.value)


def test_shapes_that_do_not_broadcast_are_the_users():
    text = said(lambda: nb.ones((2, 3)) + nb.ones((4,)), nb.Error)
    assert "add: shapes [2,3] and [4] do not broadcast: 3 and 4 in the last dimension" in text
    assert "broadcast_in_dim" not in text and "nabla_run.h" not in text
    text = said(lambda: nb.ones((2, 5, 3)) * nb.ones((4, 3)), nb.Error)
    assert "mul: shapes [2,5,3] and [4,3] do not broadcast: 5 and 4 in dimension 2 from the end" in text
    text = said(lambda: nb.broadcast_to(nb.ones((3,)), (2, 4)), nb.Error)
    assert "broadcast_to: f32[3] does not broadcast to the shape (2, 4)" in text


def test_the_argument_is_named():
    x = nb.ones((1, 4, 4, 2))
    assert "max_pool2d: kernel_size values must be > 0, got 0" in said(lambda: nb.max_pool2d(x, kernel_size=0))
    assert "avg_pool2d: stride values must be > 0, got (1, 0)" in said(
        lambda: nb.avg_pool2d(x, kernel_size=2, stride=(1, 0)))
    assert "conv2d: dilation values must be > 0" in said(lambda: nb.conv2d(x, nb.ones((2, 2, 2, 1)), dilation=0))
    assert "unfold: kernel_size values must be > 0" in said(lambda: nb.unfold(x, 0))
    assert "kernel_size values must be > 0" in said(lambda: nn.MaxPool2d(0)(x))
    assert "stride values must be > 0" in said(lambda: nn.Conv2d(2, 1, 2, stride=0, key=0)(x))
    text = said(lambda: nb.max_pool2d(x, kernel_size=0))
    assert "help(nabla.max_pool2d) says what it takes" in text and "nablac doc op" not in text
    assert "chunk: chunks is 0" in said(lambda: nb.chunk(x, 0))


def test_places_of_a_slice_are_known():
    x = nb.arange(8.0)
    text = said(lambda: nb.jit(lambda x, i: nb.slice_tensor(x, [i], [2]))(x, 3), TypeError)
    assert "slice_tensor of f32[8]: its start has a traced tensor" in text and "nabla.dynamic_slice takes" in text
    assert "its size has 1.5, expected ints" in said(lambda: nb.slice_tensor(x, [0], [1.5]), TypeError)
    assert nb.slice_tensor(x, [nb.asarray(2)], [np.int64(2)]).tolist() == [2, 3]


def test_a_layer_says_which_it_is_and_what_it_got():
    class Net(nn.Module):
        def __init__(self):
            self.blocks = [nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8)) for _ in range(2)]
            self.head = nn.Linear(16, 2)

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    net = Net()
    for call in (lambda: net(nb.ones((3, 8))), lambda: nb.jit(lambda m, x: m(x))(net, nb.ones((3, 8)))):
        text = said(call, nb.Error)
        assert "contracted sizes differ: 8 vs 16" in text
        assert text.endswith("note: in Linear(16, 2, bias=True), `head` of Net, called with f32[3,8]\n")
        assert text.count("note: in ") == 1
    assert "note: in LayerNorm" in (text := said(lambda: net(nb.ones((3, 7))))) and "`blocks.0.0` of Net" in text
    assert said(lambda: net(), TypeError).endswith("note: in Net, called with nothing")
    text = said(lambda: nn.BatchNorm2d(16)(nb.ones((2, 16, 4, 4))))
    assert text.endswith("called with f32[2,16,4,4]") and "in BatchNorm(16" in text


def test_values_that_nobody_named_are_not_spoken_of():
    text = said(lambda: nb.ones((32, 5)) @ nb.ones((2, 3)), nb.Error)
    assert "contracted sizes differ: 5 vs 2" in text and "lhs: f32[32,5]   rhs: f32[2,3]" in text
    assert "eager" not in text and "%" not in text
    text = said(lambda: nb.jit(lambda x, y: x @ y)(nb.ones((32, 5)), nb.ones((2, 3))), nb.Error)
    assert "is a parameter of @fn" in text


def test_what_python_wants_of_a_traced_value():
    def of(f):
        return said(lambda: nb.jit(f)(nb.ones(3)), nb.Error)

    def repeated(x):
        while nb.sum(x) < 10:
            x = x * 2

    text = of(lambda x: 1 if nb.sum(x) > 0 else 2)
    assert "bool() of a traced value, bool[]" in text and "nabla.where or nabla.cond" in text
    assert "nabla.while_loop" in of(repeated)
    for text in (of(lambda x: [0 for _ in range(nb.sum(x).astype("int32"))]), of(lambda x: [1, 2][nb.argmax(x)])):
        assert "a Python index of a traced value" in text and "nabla.fori_loop" in text and "static_argnums" in text
    assert "float() of a traced value, f32[]" in (text := of(lambda x: float(nb.sum(x)))) and "debug.print" in text
    assert "int() of a traced value" in of(lambda x: int(nb.sum(x)))
    assert "item() needs the elements of a traced value" in (text := of(lambda x: x.item())) and "return it" in text
    assert "of NumPy's functions use nabla's" in of(lambda x: np.sin(x))
    assert "E0707" in text and "do what the message says" not in text


def test_equal_sizes_of_two_names():
    f = nb.jit(lambda x, y: x + y, dynamic_dims={0: {0: ("n", 1, 10)}, 1: {0: ("m", 1, 10)}})
    text = said(lambda: f(nb.ones(4), nb.ones(4)), nb.Error)
    assert "declare the constraint n == m; sizes that are equal have one name in `dynamic_dims`" in text


def test_the_line_that_is_shown_is_that_of_the_file_now(tmp_path):
    import importlib
    import sys
    import time
    file = tmp_path / "lines_that_change.py"
    sys.path.insert(0, str(tmp_path))
    file.write_text("import nabla as nb\ndef f(): return nb.ones((2, 3)) @ nb.ones((2, 3))\n")
    module = importlib.import_module("lines_that_change")
    assert "def f(): return nb.ones((2, 3)) @ nb.ones((2, 3))" in said(module.f, nb.Error)
    file.write_text("import nabla as nb\ndef f(): return nb.ones((2, 3)) @ nb.ones((2, 3))  # and more\n")
    time.sleep(1.1)
    module = importlib.reload(module)
    assert "# and more" in said(module.f, nb.Error)


def test_objects_of_the_native_module_are_not_made_without_their_constructors():
    for cls in (nb.Tensor, nb.DType, nb._nabla.Dim, nb._nabla.Trace, nb._nabla.Function, nb._nabla.Program):
        with pytest.raises(TypeError):
            repr(cls.__new__(cls))
    assert nb.DType(int(nb.float32)) == nb.float32
    assert "no constructor" in said(nb.Tensor, TypeError)


def test_channels_first_given_to_a_convolution():
    for make in (lambda: nn.Conv2d(3, 8, 3, key=0)(nb.ones((1, 3, 32, 30))),
                 lambda: nb.conv2d(nb.ones((1, 3, 32, 30)), nb.ones((3, 3, 3, 8)))):
        text = said(make, nb.Error)
        assert "the input f32[1,3,32,30] (NHWC) has 30 channels, the filter f32[3,3,3,8] (HWIO) takes 3" in text
        assert ('dimension 1 has 3 channels: this looks like NCHW, permute it to NHWC, or call '
                'nabla.conv2d(..., input_layout="NCHW")') in text
    assert "(NWC) has 9 channels" in said(lambda: nb.conv1d(nb.ones((1, 5, 9)), nb.ones((3, 4, 2))))


def test_loops_name_the_leaf_and_both_types():
    text = said(lambda: nb.scan(lambda c, x: ({"a": c["a"], "b": {"w": c["b"]["w"].astype("int32")}}, x),
                                {"a": nb.ones(2), "b": {"w": nb.ones(3)}}, nb.ones((4,))), TypeError)
    assert "scan: `b.w` of the state comes as f32[3] and leaves as i32[3]" in text and "x.astype('float32')" in text
    text = said(lambda: nb.scan(lambda c, x: ((c[0],), x), (nb.ones(2), nb.ones(2)), nb.ones((4,))), TypeError)
    assert "scan: the state comes as (*, *) and leaves as (*): a tuple of 2 and a tuple of 1" in text
    text = said(lambda: nb.while_loop(lambda s: s["i"] < 3, lambda s: {"i": s["i"] + 1.0}, {"i": nb.asarray(0)}),
                TypeError)
    assert "while_loop: `i` of the state comes as i32[] and leaves as f32[]" in text
    text = said(lambda: nb.fori_loop(0, 3, lambda i, s: nb.ones(2), 1.0), TypeError)
    assert "comes as f32[] and leaves as f32[2]" in text
    text = said(lambda: nb.cond(nb.asarray(True), lambda: {"x": [nb.ones(2)]}, lambda: {"x": [nb.ones(3)]}), TypeError)
    assert "x.0 is f32[2] and f32[3]" in text
    text = said(lambda: nb.scan(lambda c, x: (c, x), 0.0, {"a": nb.ones(3), "b": nb.ones(4)}), ValueError)
    assert "xs.a is f32[3], xs.b is f32[4]" in text
    assert "the sequence xs.b is a scalar, f32[]" in said(lambda: nb.scan(lambda c, x: (c, x), 0.0, {"b": 1.0}))


def test_trees_name_the_place():
    text = said(lambda: nb.tree_map(lambda a, b: a, {"a": [1, 2], "b": 3}, {"a": [1, (2,)], "b": 3}), ValueError)
    assert text == "tree_map: trees of different form: at a.1 a leaf and a tuple of 1"
    text = said(lambda: nb.tree_map(lambda a, b: a, {"a": {"x": 1}}, {"a": {"y": 1, "x": 2}}), ValueError)
    assert text.endswith("at a a dict of 'x' and a dict of 'x', 'y'")
    assert said(lambda: nb.tree_map(lambda a, b: a, [1], None)).endswith("a list of 1 and None")


def test_sizes_at_run_time_name_the_callers_argument():
    @nb.jit
    def f(params, x):
        return x * params["w"]

    f = nb.jit(lambda params, x, y: x + y + params["w"][0],
               dynamic_dims={1: {0: ("b", 1, 8)}, 2: {0: ("b", 1, 8)}, 0: {0: ("n", 1, 4)}})
    w = {"w": nb.ones(2)}
    text = said(lambda: f(w, nb.ones((9,)), nb.ones((9,))), nb.Error)
    assert "jit: dimension 0 of argument `x` is b = 9, which is not in [1, 8]" in text
    assert "dynamic_dims gives b these bounds: pass a size within them, or change them" in text
    text = said(lambda: f(w, nb.ones((3,)), nb.ones((4,))), nb.Error)
    assert "jit: dimension 0 of argument `x` is b = 3, and dimension 0 of argument `y` is b = 4" in text
    assert "dynamic_dims names both b" in text and "nablac" not in text
    assert "argument `params.w`" in said(lambda: f({"w": nb.ones(5)}, nb.ones((3,)), nb.ones((3,))), nb.Error)
    layers = nb.jit(lambda m, x: m(x), dynamic_dims={1: {0: ("b", 1, 8)}})
    assert "argument `x`" in said(lambda: layers(nn.Linear(2, 2, key=0), nb.ones((9, 2))), nb.Error)


def test_layouts_of_jit_are_named_by_their_patterns():
    def refused(words, layout, **options):
        options = {"mesh": {"tp": 2}, **options}
        text = said(lambda: nb.jit(lambda w, x: x @ w, layouts=layout, **options)(nb.ones((4, 6)), nb.ones((8, 4))),
                    nb.Error)
        assert words in text and "allow_padding" not in text and "apply-strategy" not in text, text

    refused("jit: layouts['ww'] matches no argument", {"ww": (None, "tp")})
    refused("there are w, x", {"ww": (None, "tp")})
    refused("jit: layouts['w'] of w, f32[4,6]: 1 word for 2 dimensions", {"w": ("tp",)})
    refused("the mesh has no axis 'dp', it has tp", {"w": ("dp", None)})
    refused("the axis 'tp' is there twice", {"w": ("tp", "tp")})
    refused("layouts['w.*'] is not used: layouts['w'] is before it and matches w",
            {"w": (None, "tp"), "w.*": ("tp", None)})
    refused("layouts['['] is no regular expression", {"[": (None, "tp")})
    refused("layouts are over a mesh, and there is none", {"w": (None, "tp")}, mesh=None)


def test_containers_of_the_standard_library_are_trees():
    ordered = collections.OrderedDict(b=nb.ones(1), a=nb.ones(2))
    out = nb.jit(lambda d: d)(ordered)
    assert type(out) is collections.OrderedDict and list(out) == ["b", "a"] and out["a"].shape == (2,)
    default = collections.defaultdict(list, a=nb.ones(2), b=nb.asarray([3.0]))
    g = nb.grad(lambda d: nb.sum(d["a"]) * d["b"][0])(default)
    assert type(g) is collections.defaultdict and g["a"].tolist() == [3.0, 3.0] and g["new"] == []
    assert nb.tree_structure(ordered) != nb.tree_structure(dict(ordered))
    program = nb.export({"f": lambda p: p["b"] * 2}, args={"f": {"p": collections.OrderedDict(b=nb.spec((1,)))}})
    assert "p.b" in program.text
    step = nb.jit(lambda d: {k: v + 1 for k, v in d.items()})
    assert step(default)["b"].tolist() == [4.0] and step(default)["b"].tolist() == [4.0] and step.stats.misses == 1


def test_matrices_without_elements():
    empty = nb.zeros((2, 0, 0))
    assert nb.linalg.inv(empty).shape == (2, 0, 0) and nb.linalg.solve(empty, nb.zeros((2, 0, 3))).shape == (2, 0, 3)
    assert nb.linalg.solve(nb.zeros((0, 0)), nb.zeros((0,))).shape == (0,) and nb.linalg.det(empty).tolist() == [1, 1]
    assert nb.linalg.solve(nb.eye(2), nb.zeros((2, 0))).shape == (2, 0)
    assert np.isnan(nb.median(nb.zeros((0,))).item()) and np.isnan(nb.median(nb.zeros((3, 0)), axis=1).numpy()).all()
    assert nb.median(nb.zeros((3, 0)), axis=0).shape == (0,)


def test_ids_and_starts_below_zero_count_as_in_jax():
    assert nb.segment_sum(nb.ones(4), nb.asarray([0, -1, 1, 7]), 3).tolist() == [1.0, 1.0, 0.0]
    assert nb.dynamic_slice(nb.arange(5), [-2], [2]).tolist() == [3, 4]
    assert nb.dynamic_slice(nb.arange(5), [nb.asarray(-3)], [2]).tolist() == [2, 3]
    assert nb.dynamic_slice(nb.arange(5), [-9], [2]).tolist() == [0, 1]
    assert nb.dynamic_update_slice(nb.arange(5), [9, 9], [-2]).tolist() == [0, 1, 2, 9, 9]
    assert nb.jit(lambda x, i: nb.dynamic_slice(x, [i], [2]))(nb.arange(5), -2).tolist() == [3, 4]


# ---- Recompiles


@pytest.fixture
def log(caplog):
    nb.config.log_compiles = True
    caplog.set_level(logging.WARNING, logger="nabla")
    yield caplog
    nb.config.log_compiles = False


def test_each_compile_is_said_with_its_cause(log):
    @nb.jit
    def scale(params, x, mode="up"):
        return params["w"] * x

    w = {"w": nb.ones(2)}
    scale(w, nb.ones(2)), scale(w, nb.ones(2)), scale(w, nb.ones((3, 2)))
    scale(w, nb.ones((3, 2)).astype("float16")), scale({"w": nb.ones(2), "b": 1.0}, nb.ones(2)),
    scale(w, nb.ones(2), "down")
    scale.clear_cache()
    scale(w, nb.ones(2))
    text = [r.getMessage() for r in log.records]
    assert len(text) == scale.stats.misses == len(scale.stats.causes) == 6
    assert text[0].startswith("scale compiled in ") and text[0].endswith("(1 so far): it is called for the first time")
    assert text[1].endswith("(2 so far): x changed from f32[2] to f32[3,2]")
    assert text[2].endswith("x changed from f32[3,2] to f16[3,2]")
    assert "params.b is new, a Python float" in text[3]
    assert "'down'" in text[4]
    assert text[5].endswith("it was forgotten since: by clear_cache(), or for max_cache_size other forms")
    assert scale.stats.causes[1] == "x changed from f32[2] to f32[3,2]"


def test_static_arguments_and_defaults_are_causes():
    f = nb.jit(lambda x, n: x * n, static_argnums=1)
    f(nb.ones(1), 2), f(nb.ones(1), 3)
    with nb.default_dtype("float64"):
        f(nb.ones(1, dtype="float32"), 3)
    assert f.stats.causes[1:] == ("static argument 1 changed from 2 to 3",
                                  "the default dtype changed from float32 to float64")


def test_the_eighth_compile_of_a_function_warns():
    f = nb.jit(lambda x: x + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(1, 8):
            f(nb.ones(n))
    with pytest.warns(RuntimeWarning, match=r"compiled 8 times, now because x changed from f32\[7\] to f32\[8\].*"
                                            r"dynamic_dims.*log_compiles"):
        f(nb.ones(8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(nb.ones(9))


def test_the_environment_has_compiles_said(monkeypatch):
    from nabla import recompiles
    for value, wanted in (("1", True), ("0", False), ("", False), ("true", True)):
        monkeypatch.setenv("NABLA_LOG_COMPILES", value)
        assert recompiles.from_environment() is wanted
    assert nb.config.log_compiles is False


def test_texts_of_programs(tmp_path):
    f = nb.jit(lambda params, x: x)
    assert repr(f) == "<nabla.jit of fn(params, x) for cpu:native: 0 compiled, 0 calls>"
    f(1.0, nb.ones(2)), f(1.0, nb.ones(2))
    assert repr(f).endswith("1 compiled, 2 calls>")
    program = nb.export({"init": lambda: {"w": nb.zeros((2,))},
                         "step": lambda state, x: ({"w": state["w"] + x}, {"sum": nb.sum(x)})},
                        state={"w": nb.spec((2,))}, args={"step": {"x": nb.spec((2,))}})
    assert repr(program).splitlines()[0] == "ExportedProgram" and "  init() -> nothing" in repr(program)
    assert repr(program).splitlines()[2:] == ["  step(x: f32[2]) -> sum: f32[]", "  state: w: f32[2]"]
    program = nb.export({"f": lambda x: {"y": x * 2}}, args={"f": {"x": nb.spec((nb.symbol("b", 1, 4), 2))}})
    assert repr(program) == "ExportedProgram\n  f(x: f32[b,2]) -> y: f32[b,2]\n  state: none"
    bundle = nb.compile_bundle(program, tmp_path / "f.nbundle")
    assert repr(bundle).splitlines()[0].startswith(f"Bundle {tmp_path / 'f.nbundle'} for ")
    assert "  f(x: f32[b,2]) -> y: f32[b,2]" in repr(bundle)


def test_what_python_shows():
    names = dir(nb)
    assert {"nn", "grad", "jit", "float32", "linalg", "tree", "interp", "__version__"} <= set(names)
    assert not {"_nabla", "autograd", "compiled", "kernels", "recompiles", "_methods"} & set(names)
    for name in ("adamw", "sgd", "adam", "rmsprop", "adagrad", "lion", "adafactor"):
        text = getattr(nn.optim, name).__doc__
        assert "lr: the learning rate" in text and "wrt: which tensors" in text and "Raises ValueError" in text, name
    text = nn.optim.adamw.__doc__
    assert "p -= lr (m_hat / (sqrt(v_hat) + eps) + weight_decay p)" in text and "Loshchilov" in text
    assert "(b1, b2)" in text and "weight_decay: " in text and "Returns a Transform" in text


@pytest.mark.parametrize("f", [lambda x: nb.take(x, nb.asarray([0]), 0),
                               lambda x: nb.take_along_axis(x, nb.argsort(x, 0), 0)], ids=["take", "along"])
def test_sizes_that_may_be_0_are_told(f):
    def export(least):
        nb.export({"f": lambda x: {"y": f(x)}}, args={"f": {"x": nb.spec((nb.symbol("n", least, 16), 4))}})

    export(1)
    text = "(?s)slices of size 1 do not always fit dimension 0 of size n.*larger lower bound"
    with pytest.raises(nb.Error, match=text):
        export(0)


def test_sort_of_a_size_that_may_be_0(tmp_path):
    x = nb.spec((nb.symbol("n", 0, 16), 2))
    program = nb.export({"f": lambda x: {"y": nb.sort(x, axis=0)}}, args={"f": {"x": x}})
    bundle = nb.compile_bundle(program, tmp_path / "sort.nbundle")
    for x in (np.zeros((0, 2), np.float32), np.float32([[3, 1], [1, 2], [2, 0]])):
        np.testing.assert_array_equal(np.asarray(bundle.run("f", x=nb.asarray(x))["y"]), np.sort(x, 0))


def test_unique_of_a_symbolic_length():
    f = nb.jit(lambda x: nb.unique(x, size=4), dynamic_dims={0: {0: ("n", 1, 16)}})
    for x in ([3.0, 1.0, 3.0], [2.0], [5.0, 4.0, 3.0, 2.0, 1.0, 1.0]):
        assert f(nb.asarray(x)).tolist() == nb.unique(nb.asarray(x), size=4).tolist()


@pytest.mark.parametrize("call", [
    lambda: nb.random.randn(2**63), lambda: nb.ones((2**64,)), lambda: nb.hann_window({}),
], ids=["randn", "ones", "hann_window"])
def test_sizes_that_are_none_are_told_in_words(call):
    with pytest.raises((TypeError, ValueError, OverflowError, nb.Error)) as raised:
        call()
    assert "C++" not in str(raised.value) and "std::" not in str(raised.value), raised.value


def test_arrays_of_the_other_byte_order():
    with pytest.raises(TypeError, match="newbyteorder"):
        nb.asarray(np.ones(2, ">f4"))
