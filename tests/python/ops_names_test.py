"""The names and the parameters that users of the Python library nabla-ml, NumPy and JAX write."""

import inspect

import pytest

import nabla as nb

# Module: functions with the parameters they have at least, in this order; after * by name only.
NAMES = {
    "nabla.ops.binary": "add(x, y) sub(x, y) mul(x, y) div(x, y) mod(x, y) pow(x, y) matmul(x, y) outer(x, y)",
    "nabla.ops.comparison": "equal(x, y) not_equal(x, y) greater(x, y) greater_equal(x, y) less(x, y) less_equal(x, y) "
                            "logical_and(x, y) logical_or(x, y) logical_xor(x, y) logical_not(x)",
    "nabla.ops.unary": "relu(x) sigmoid(x) tanh(x) exp(x) neg(x) abs(x) log(x) sqrt(x) rsqrt(x) log1p(x) sin(x) cos(x) "
                       "acos(x) atanh(x) erf(x) silu(x) gelu(x) softmax(x, axis) logsoftmax(x, axis) floor(x) trunc(x) "
                       "round(x) is_inf(x) is_nan(x) cast(x, dtype)",
    "nabla.ops.reduction": "reduce_sum(x, axis, keepdims) sum(x, axis, keepdims) mean(x, axis, keepdims) "
                           "reduce_max(x, axis, keepdims) max(x, axis, keepdims) reduce_min(x, axis, keepdims) "
                           "min(x, axis, keepdims) argmax(x, axis, keepdims) argmin(x, axis, keepdims) "
                           "cumsum(x, axis, exclusive, reverse) reduce_sum_physical(x, axis, keepdims) "
                           "mean_physical(x, axis, keepdims) reduce_max_physical(x, axis, keepdims)",
    "nabla.ops.multi_output": "split(x, num_splits, axis) chunk(x, chunks, axis) unbind(x, axis) minmax(x)",
    "nabla.ops.view": "unsqueeze(x, axis) squeeze(x, axis) swap_axes(x, axis1, axis2) transpose(x) "
                      "moveaxis(x, source, destination) permute(x) flip(x, axis) broadcast_to(x, shape) reshape(x) "
                      "flatten(x) "
                      "slice_tensor(x, start, size) slice_update(x, update, start, size) slice_update_inplace(x) "
                      "concatenate(tensors, axis) stack(tensors, axis) pad(x, paddings, mode, value) rebind(x, shape) "
                      "as_interleaved_complex(x) view_as_real_interleaved(x)",
    "nabla.ops.gathering": "gather(x, indices, axis) take(x, indices, axis) scatter(x, indices, updates, axis)",
    "nabla.ops.control_flow": "where(condition, x, y) cond(pred, true_fn, false_fn) while_loop(cond_fn, body_fn, "
                              "init_val) scan(f, init, xs, length, reverse)",
    "nabla.ops.creation": "constant(value, dtype, device) full(shape, value, dtype, device) zeros(shape, dtype, "
                          "device) ones(shape, dtype, device) arange(start, stop, step) uniform(shape, low, high) "
                          "gaussian(shape, mean, std) normal(shape, mean, std) hann_window(window_length, periodic) "
                          "zeros_like(x) ones_like(x) full_like(x, value) triu(x, k) tril(x, k)",
    "nabla.ops.convolution": "conv2d(x, filter, *stride, *dilation, *padding, *groups, *bias) "
                             "conv2d_transpose(x, filter, *stride, *dilation, *padding, *output_paddings)",
    "nabla.ops.pooling": "avg_pool2d(x, *kernel_size, *stride, *padding) "
                         "max_pool2d(x, *kernel_size, *stride, *padding, *dilation)",
    "nabla.ops.communication": "shard(x, mesh, dim_specs, replicated_axes) reshard(x, mesh) "
                               "all_gather(sharded_tensor, axis) gather_all_axes(sharded_tensor) "
                               "all_reduce(sharded_tensor, reduce_op, reduce_axes) pmean(sharded_tensor, axis_name) "
                               "reduce_scatter(sharded_tensor, axis) ppermute(sharded_tensor, permutation) "
                               "all_to_all(sharded_tensor, split_axis, concat_axis, tiled) "
                               "distributed_broadcast(x, mesh) axis_index(mesh, axis_name)",
    "nabla.transforms": "shard_map(func, mesh, in_specs, out_specs, auto_sharding, debug)",
    "nabla.devices": "to_device(x, device) transfer_to(x, device, sharding) cpu(x) gpu(x) accelerator(x, id) "
                     "default_device(device) defaults(dtype, device) defaults_like(x)",
}
NUMPY = """
abs absolute add all allclose any append arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin
argsort argwhere array array_equal array_split asarray atleast_1d average bincount bitwise_and bitwise_not bitwise_or
bitwise_xor broadcast_arrays broadcast_shapes broadcast_to cbrt ceil clip column_stack compress concatenate copysign
cos cosh count_nonzero cross cumprod cumsum deg2rad degrees diag diagonal diff digitize divide divmod dot dstack
einsum empty empty_like equal exp exp2 expand_dims expm1 eye fabs fix flip fliplr flipud floor floor_divide fmax fmin
fmod full full_like gcd geomspace greater greater_equal histogram hstack hypot identity inner invert isclose isfinite
isinf isnan kron lcm left_shift less less_equal lexsort linspace log log10 log1p log2 logaddexp logical_and
logical_not logical_or logical_xor logspace matmul max maximum mean median meshgrid min minimum mod moveaxis multiply
nan_to_num negative nonzero not_equal ones ones_like outer pad positive power prod put_along_axis quantile rad2deg
radians ravel reciprocal remainder repeat reshape right_shift rint roll rot90 round searchsorted select sign signbit
sin sinc sinh sort split sqrt square squeeze stack std subtract sum swapaxes take take_along_axis tan tanh tensordot
tile transpose tri tril triu true_divide trunc unique vander var vdot vstack where zeros zeros_like
""".split()


def _rows():
    for module, text in NAMES.items():
        for part in text.replace(") ", ")\n").splitlines():
            name, _, parameters = part.strip().rstrip(")").partition("(")
            yield module, name, [p for p in parameters.split(", ") if p]


@pytest.mark.parametrize("module, name, parameters", list(_rows()), ids=lambda v: v if isinstance(v, str) else "")
def test_signature(module, name, parameters):
    space = nb
    for part in module.split(".")[1:]:
        space = getattr(space, part)
    function = getattr(space, name)
    have = inspect.signature(function).parameters
    assert list(have)[:len([p for p in parameters if p[0] != "*"])] == [p for p in parameters if p[0] != "*"]
    for p in parameters:
        if p[0] == "*":
            assert have[p[1:]].kind == inspect.Parameter.KEYWORD_ONLY
    if not name.endswith("_physical"):
        assert getattr(nb, name) is not None


def test_numpy_names():
    assert [name for name in NUMPY if not hasattr(nb, name)] == []
    assert nb.pow is nb.power and nb.random.uniform is not nb.uniform


