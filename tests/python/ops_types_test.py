"""Promotion: the table of JAX with 64-bit types (jax.numpy.promote_types), and numbers, which are weak."""

import pytest

import nabla as nb

NAMES = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 bfloat16 float16 float32 float64".split()
SHORT = {name[0] + name.lstrip("abcdefghijklmnopqrstuvwxyz"): name for name in NAMES if name != "bfloat16"}
SHORT |= {"b": "bool", "bf": "bfloat16"}
# A row per dtype, in the order of NAMES. -: uint64 beside signed integers becomes the default floating dtype.
TABLE = """
b   u8  u16 u32 u64 i8  i16 i32 i64 bf  f16 f32 f64
u8  u8  u16 u32 u64 i16 i16 i32 i64 bf  f16 f32 f64
u16 u16 u16 u32 u64 i32 i32 i32 i64 bf  f16 f32 f64
u32 u32 u32 u32 u64 i64 i64 i64 i64 bf  f16 f32 f64
u64 u64 u64 u64 u64 -   -   -   -   bf  f16 f32 f64
i8  i16 i32 i64 -   i8  i16 i32 i64 bf  f16 f32 f64
i16 i16 i32 i64 -   i16 i16 i32 i64 bf  f16 f32 f64
i32 i32 i32 i64 -   i32 i32 i32 i64 bf  f16 f32 f64
i64 i64 i64 i64 -   i64 i64 i64 i64 bf  f16 f32 f64
bf  bf  bf  bf  bf  bf  bf  bf  bf  bf  f32 f32 f64
f16 f16 f16 f16 f16 f16 f16 f16 f16 f32 f16 f32 f64
f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f64
f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64
""".split()


@pytest.mark.parametrize("i", range(13), ids=NAMES)
def test_two_dtypes(i):
    for j, other in enumerate(NAMES):
        want = TABLE[13 * i + j]
        want = nb.float32 if want == "-" else nb.dtype_of(SHORT[want])
        assert nb.promote_types(NAMES[i], other) == want, (NAMES[i], other)
        x, y = nb.ones(2, NAMES[i]), nb.ones(2, other)
        assert (x * y).dtype == want and nb.where(nb.asarray(True), x, y).dtype == want
        assert nb.concatenate([x, y]).dtype == want and nb.maximum(x, y).dtype == want
        assert (x == y).dtype == nb.bool_ and (x * y).tolist() == [1, 1]


@pytest.mark.parametrize("name", NAMES)
def test_numbers(name):
    x = nb.ones(2, name)
    dtype = x.dtype
    assert (x + True).dtype == dtype and (x * 2).dtype == (nb.int32 if name == "bool" else dtype)
    assert (x * 2.5).dtype == (dtype if dtype.is_float() else nb.float32)
    assert (x / 2).dtype == (dtype if dtype.is_float() else nb.float32)
    assert (x > 0.5).tolist() == [True, True] and nb.maximum(x, 0).dtype == (x * 2).dtype
    assert nb.exp(x).dtype == (dtype if dtype.is_float() else nb.float32)
    assert nb.sum(x).dtype == {"bool": nb.int32, "int8": nb.int32, "int16": nb.int32, "uint8": nb.uint32,
                               "uint16": nb.uint32}.get(name, dtype)
    assert nb.cumsum(x).tolist() == [1, 2] and nb.mean(x).dtype == (dtype if dtype.is_float() else nb.float32)
    assert x.astype("float64").dtype == nb.float64 and x.astype(int).dtype == nb.int32


def test_defaults_of_values():
    assert nb.asarray(1).dtype == nb.int32 and nb.asarray(1.0).dtype == nb.float32
    assert nb.asarray(True).dtype == nb.bool_
    assert nb.asarray([1, 2.5]).dtype == nb.float32 and nb.asarray([True, 2]).dtype == nb.int32
    assert nb.arange(3).dtype == nb.int32 and nb.arange(3.0).dtype == nb.float32 and nb.zeros(2).dtype == nb.float32
    assert nb.argmax(nb.ones(3)).dtype == nb.int64 and nb.argsort(nb.ones(3)).dtype == nb.int32
    assert nb.full(2, 7).dtype == nb.int32 and nb.full_like(nb.ones(2), 7).dtype == nb.float32
    assert nb.result_type(nb.ones(1, "int8"), 1.5) == nb.float32 and nb.result_type(1, True) == nb.int32


def test_uint64_with_signed_is_the_default_dtype_of_the_moment():
    for dtype in (nb.float64, nb.float32, nb.float64):
        with nb.default_dtype(dtype):
            assert nb.promote_types("uint64", "int8") == nb.promote_types("int64", "uint64") == dtype
