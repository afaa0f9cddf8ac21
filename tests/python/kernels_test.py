"""Kernels of the user's in C++: compiled, computed by their reference, differentiated, batched, and wrong."""

import math

import numpy as np
import pytest

import nabla as nb

SWISH = """
  #include <math.h>
  void swish(const T* x, T* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] / (1 + exp(-x[i]));
  }"""
X = nb.asarray([-1.0, 0.5, 2.0])


def swish_of(x):
    return x / (1 + np.exp(-x))


def plain():
    return nb.cpp_kernel("swish", "T[n] -> T[n]", SWISH)


def full():
    return plain().reference(lambda x: x * nb.sigmoid(x)).factors("n->n")


def error_of(f):
    with pytest.raises(nb.Error) as e:
        f()
    return str(e.value), e.value.code


def test_compiled_functions_run_the_source():
    np.testing.assert_allclose(nb.jit(plain())(X), swish_of(np.asarray(X)), rtol=1e-6)
    wide = nb.jit(plain())(nb.asarray(X, "float64"))
    assert wide.dtype == nb.float64
    np.testing.assert_allclose(wide, swish_of(np.asarray(X, "float64")), rtol=1e-12)


def test_without_a_compiler_the_reference_is_computed():
    # One that computes something else shows which of the two ran.
    kernel = plain().reference(lambda x: x + 1)
    np.testing.assert_allclose(kernel(X), np.asarray(X) + 1)
    np.testing.assert_allclose(nb.jit(kernel)(X), swish_of(np.asarray(X)), rtol=1e-6)
    text, code = error_of(lambda: plain()(X))
    assert code == "E0304" and "`swish` has no reference" in text and "nabla.jit" in text and "kernels_test.py" in text


def test_the_derivative_is_that_of_the_reference():
    x = np.asarray(X)
    s = 1 / (1 + np.exp(-x))
    slope = s * (1 + x * (1 - s))
    for compiled in (False, True):
        f = nb.grad(lambda x: nb.sum(full()(x)))
        np.testing.assert_allclose((nb.jit(f) if compiled else f)(X), slope, rtol=1e-5)
    tangent = nb.jvp(full(), (X,), (nb.ones((3,)),))[1]
    np.testing.assert_allclose(tangent, slope, rtol=1e-5)


def test_the_derivative_may_be_given():
    kernel = full().vjp(lambda x, y, ct: 10 * ct)
    np.testing.assert_allclose(nb.grad(lambda x: nb.sum(kernel(x)))(X), [10, 10, 10])
    two = nb.cpp_kernel("muladd", "f32[n], f32[n] -> f32[n], f32[n]", """
      void muladd(const float* a, const float* b, float* product, float* sum, int64_t n) {
        for (int64_t i = 0; i < n; ++i) product[i] = a[i] * b[i], sum[i] = a[i] + b[i];
      }""").vjp(lambda a, b, product, sum, cp, cs: (cp * b + cs, cp * a + cs))
    a, b = nb.jit(nb.grad(lambda a, b: nb.sum(two(a, b)[0] + 2 * two(a, b)[1]), (0, 1)))(X, 3 * X)
    np.testing.assert_allclose(a, 3 * np.asarray(X) + 2)
    np.testing.assert_allclose(b, np.asarray(X) + 2)


def test_without_any_rule_the_derivative_is_an_error():
    text, code = error_of(lambda: nb.jit(nb.grad(lambda x: nb.sum(plain()(x))))(X))
    assert code == "E0301" and "neither a `vjp` nor a `reference`" in text


def test_batches():
    rows = nb.stack([X, 2 * X])
    np.testing.assert_allclose(nb.jit(nb.vmap(full()))(rows), swish_of(np.asarray(rows)), rtol=1e-6)
    np.testing.assert_allclose(nb.vmap(full())(rows), swish_of(np.asarray(rows)), rtol=1e-6)
    counted = nb.cpp_kernel("counted", "f32[n] -> f32[n]", """
      void counted(const float* x, float* y, int64_t batch, int64_t n) {
        for (int64_t i = 0; i < batch * n; ++i) y[i] = x[i] + batch;
      }""").batching("leading")
    np.testing.assert_allclose(nb.jit(nb.vmap(counted))(rows), np.asarray(rows) + 2)
    np.testing.assert_allclose(nb.jit(counted)(X), np.asarray(X) + 1)
    with pytest.raises(ValueError, match="sequential"):
        counted.batching("trailing")


def test_sizes_that_are_known_at_run_time():
    f = nb.jit(full(), dynamic_dims={0: {0: ("n", 1, 100)}})
    for n in (3, 7, 100):
        x = np.linspace(-1, 1, n, dtype="float32")
        np.testing.assert_allclose(f(x), swish_of(x), rtol=1e-5)
    assert f.stats.misses == 1


def test_source_that_does_not_compile_is_shown_at_its_line():
    kernel = nb.cpp_kernel("wrong", "T[n] -> T[n]", """
      void wrong(const T* x, T* y, int64_t n) {
        y[0] = x[0] +;  // the mistake
      }""")
    line = next(i for i, text in enumerate(open(__file__), 1) if "// the mistake" in text)
    text, code = error_of(lambda: nb.jit(kernel)(X))
    assert code == "E0504" and "`wrong` does not compile: expected primary-expression" in text
    assert f"kernels_test.py:{line}:" in text and "y[0] = x[0] +;" in text


ABOVE = """
  void above(const float* x, float* y, int64_t n) {
    y[0] = unknown_name;
  }"""


def test_source_above_the_call_is_found_too():
    line = next(i for i, text in enumerate(open(__file__), 1) if "= unknown_name" in text)
    text, code = error_of(lambda: nb.jit(nb.cpp_kernel("above", "f32[n] -> f32[n]", ABOVE))(X))
    assert code == "E0504" and "unknown_name" in text and f"kernels_test.py:{line}:" in text


def test_source_that_is_made_is_said_to_be_the_calls():
    source = "void " + "made(const float* x, float* y, int64_t n) { y[0] = " + "; }"
    text, code = error_of(lambda: nb.jit(nb.cpp_kernel("made", "f32[n] -> f32[n]", source))(X))
    assert code == "E0504" and "kernels_test.py:" in text


def test_operands_that_do_not_fit_the_signature():
    text, code = error_of(lambda: nb.jit(full())(nb.ones((2, 2))))
    assert code == "E0203" and "kernels_test.py" in text
    assert error_of(lambda: nb.jit(plain())(X, X))[1] == "E0201"
    assert "signature" in error_of(lambda: nb.jit(nb.cpp_kernel("f", "T[n -> T[n]", "void f() {}"))(X))[0]


def test_rules_that_are_no_functions_of_tensors():
    with pytest.raises(TypeError, match="reference of swish is a function"):
        plain().reference(3)
    with pytest.raises(TypeError, match="returns a str"):
        plain().reference(lambda x: "x")(X)
    with pytest.raises(TypeError, match="source is text"):
        nb.cpp_kernel("f", "T[n] -> T[n]", None)


def test_cuda_source_does_no_harm_on_the_cpu():
    kernel = full().cuda("""
      __device__ void swish(const T* x, T* y, int64_t n) {
        const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
        if (i < n) y[i] = x[i] / (1 + exp(-x[i]));
      }""", blocks="ceildiv(n, 256)")
    np.testing.assert_allclose(nb.jit(kernel)(X), swish_of(np.asarray(X)), rtol=1e-6)
    only = nb.cuda_kernel("only", "f32[n] -> f32[n]", "__device__ void only(const float* x, float* y, int64_t n) {}")
    assert error_of(lambda: nb.jit(only)(X))[1] == "E0403"


def test_programs_hold_kernels(tmp_path):
    program = nb.export({"f": lambda x: full()(x)}, args={"f": {"x": nb.spec((3,))}})
    out = nb.compile_bundle(program, tmp_path / "f.nbundle").run("f", X)
    np.testing.assert_allclose(out["out"], swish_of(np.asarray(X)), rtol=1e-6)


def source_file(folder, text):
    path = folder / "kernel.cc"
    path.write_text(text)
    return path


def test_a_file_of_source(tmp_path):
    path = source_file(tmp_path, """
void add_one(const float* x, float* y) {
  for (int i = 0; i < 3; ++i) y[i] = x[i] + 1;
}
void moments(const double* x, double* mean, int32_t* count) {
  *mean = (x[0] + x[1]) / 2;
  *count = 2;
}
""")
    out = nb.jit(lambda x: nb.call_custom_kernel("add_one", path, x, nb.spec((3,))))(X)
    np.testing.assert_allclose(out, np.asarray(X) + 1)
    both = nb.jit(lambda x: nb.call_custom_kernel("moments", str(path), [x], [((), "float64"), ((), nb.int32)]))(
        nb.asarray([1.0, 2.0], "float64"))
    assert [t.item() for t in both] == [1.5, 2] and isinstance(both, list)

    def f(x):
        y = nb.call_custom_kernel("add_one", path, x, x, reference=lambda x: x + 1, vjp=lambda x, y, ct: ct)
        return nb.sum(x * y)

    np.testing.assert_allclose(nb.grad(f)(X), 2 * np.asarray(X) + 1)
    assert math.isclose(nb.jit(f)(X).item(), f(X).item(), rel_tol=1e-6)


def test_a_file_of_wrong_source(tmp_path):
    path = source_file(tmp_path, "\n\nvoid f(const float* x, float* y) {\n  y[0] = nothing;\n}\n")
    text, code = error_of(lambda: nb.jit(lambda x: nb.call_custom_kernel("f", path, x, nb.spec((3,))))(X))
    assert code == "E0504" and f"{path}:4:" in text and "nothing" in text
    with pytest.raises(OSError):
        nb.call_custom_kernel("f", tmp_path / "absent.cc", X, nb.spec((3,)))
    with pytest.raises(TypeError, match="no type"):
        nb.call_custom_kernel("f", path, X, "f32")
    with pytest.raises(ValueError, match="no name"):
        nb.call_custom_kernel("f()", path, X, X)
    text, code = error_of(lambda: nb.call_custom_kernel("f", path, X, X))
    assert code == "E0304"


def test_what_a_compiler_traced_is_not_part_of_what_is_computed_now():
    nb.jit(nb.grad(lambda x: nb.sum(full()(x))), dynamic_dims={0: {0: ("n", 1, 100)}})(X)
    np.testing.assert_allclose(nb.grad(lambda x: nb.sum(x * x))(X), 2 * np.asarray(X))
