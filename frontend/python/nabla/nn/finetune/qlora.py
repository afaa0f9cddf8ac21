"""Weights in four bits and adapters beside them (Dettmers et al., "QLoRA", 2023).

NF4 codes are packed two to a byte, with a float32 scale per block of neighbours in row-major order: 4.5 bits a weight
for blocks of 64.
"""

import collections
import math

from ... import _nabla
from ..._core import asarray, astype
from ...tree import register_pytree_node
from .. import _math as m
from ..layers import Linear
from ..module import Buffer, Module, Parameter
from .lora import LoRALinear, apply_lora, init_lora_adapter, replace_linear

# Quantiles of the normal distribution scaled to [-1, 1], with an exact zero.
NF4_CODEBOOK = (-1.0, -0.6961928, -0.5250731, -0.3949175, -0.2844414, -0.1847734, -0.0910500, 0.0, 0.0795803, 0.1609302,
                0.2461123, 0.3379152, 0.4407098, 0.5626170, 0.7229568, 1.0)

NF4Weight = collections.namedtuple("NF4Weight", "codes scales shape")
NF4Weight.__doc__ = """Packed codes uint8 [n / 2], float32 scales [n / block], and the shape of the weight, a tuple.
As a pytree its leaves are codes and scales."""
register_pytree_node(NF4Weight, lambda w: ([w.codes, w.scales], w.shape), lambda shape, xs: NF4Weight(*xs, shape))


def quantize_nf4(weight, block_size=64):
    """An NF4Weight of a floating tensor, in blocks of `block_size` neighbours, an even number: the last is filled up
    with zeros. Raises Error (E0203) otherwise."""
    weight = asarray(weight)
    shape, count = tuple(weight.shape), weight.numel()
    if block_size > 0 and count % block_size:
        flat = _nabla.emit("reshape", [weight], {"shape": [count]})[0]
        weight = _nabla.emit("pad", [flat, asarray(0.0, weight.dtype)], {
            "low": [0], "high": [-count % block_size], "interior": [0]})[0]
    codes, scales = _nabla.quantize_nf4(weight, block_size)
    return NF4Weight(codes, scales, shape)


def dequantize_nf4(qweight, dtype=None):
    """The float32 (or `dtype`) tensor that an NF4Weight stands for."""
    codes, scales = asarray(qweight.codes), asarray(qweight.scales)
    count, stored = math.prod(qweight.shape), 2 * codes.numel()
    out = _nabla.dequantize_nf4(codes, scales, [stored])
    if stored > count:
        out = _nabla.emit("slice", [out], {"starts": [0], "limits": [count], "strides": [1]})[0]
    out = _nabla.emit("reshape", [out], {"shape": [int(s) for s in qweight.shape]})[0]
    return out if dtype is None else astype(out, dtype)


def nf4_linear(x, weight, bias=None):
    """x [..., in] times an NF4Weight [in, out], plus bias. Derivatives go to x and the bias alone."""
    x = asarray(x)
    out = m.matmul(x, m.op("stop_gradient", dequantize_nf4(weight, x.dtype)))
    return out if bias is None else m.add(out, bias)


def qlora_linear(x, qweight, adapter, alpha=1.0, *, compute_dtype=None):
    """x times an NF4Weight plus (alpha / rank) (x A) B, computed in `compute_dtype`, by default that of x."""
    x = asarray(x) if compute_dtype is None else astype(x, compute_dtype)
    low = m.matmul(m.matmul(x, astype(adapter["A"], x.dtype)), astype(adapter["B"], x.dtype))
    return m.add(nf4_linear(x, qweight), m.mul(low, alpha / int(adapter["A"].shape[1])))


class NF4Linear(Module):
    """A Linear with its weight in four bits: buffers codes and scales, and a frozen bias."""

    def __init__(self, linear, block_size=64):
        q = quantize_nf4(linear.weight, block_size)
        self.in_features, self.out_features, self.block_size = linear.in_features, linear.out_features, block_size
        self.codes, self.scales = Buffer(q.codes), Buffer(q.scales)
        self.bias = None if linear.bias is None else Parameter(linear.bias, trainable=False)

    def quantized(self):
        """The NF4Weight."""
        return NF4Weight(self.codes, self.scales, (self.in_features, self.out_features))

    def forward(self, x):
        return nf4_linear(x, self.quantized(), self.bias)

    def extra_repr(self):
        return f"{self.in_features}, {self.out_features}, block_size={self.block_size}"


class QLoRALinear(Module):
    """An NF4Linear and an adapter: parameters lora_A and lora_B. alpha None stands for rank: a factor of 1."""

    def __init__(self, linear, rank=8, alpha=None, *, block_size=64, init_std=0.01, key=None):
        adapter = init_lora_adapter(linear.weight, rank, init_std, key=key)
        self.base = NF4Linear(linear, block_size)
        self.rank, self.alpha = rank, float(rank if alpha is None else alpha)
        self.lora_A, self.lora_B = Parameter(adapter["A"]), Parameter(adapter["B"])

    def forward(self, x):
        low = m.matmul(m.matmul(x, self.lora_A), self.lora_B)
        return m.add(self.base(x), m.mul(low, self.alpha / self.rank))

    def extra_repr(self):
        return f"rank={self.rank}, alpha={self.alpha}"


def apply_qlora(model, rank=8, alpha=None, selector="parameters", *, block_size=64, init_std=0.01, key=None):
    """As apply_lora, with the weights of the layers that get adapters in four bits."""
    model = apply_lora(model, rank, alpha, selector, init_std=init_std, key=key)

    def quantized(value):
        linear = Linear.__new__(Linear)
        for name in ("in_features", "out_features", "weight", "bias"):
            setattr(linear, name, getattr(value, name))
        out = QLoRALinear(linear, value.rank, value.alpha, block_size=block_size, key=0)
        out.lora_A, out.lora_B = value.lora_A, value.lora_B
        return out

    return _replace_lora(model, quantized)


def _replace_lora(model, f):
    from .lora import _swapped
    if isinstance(model, LoRALinear):
        return f(model)
    new = {id(x): f(x) for x in model.modules() if isinstance(x, LoRALinear)}
    for module in model.modules():
        for name, value in list(module.__dict__.items()):
            if name != "_kinds":
                object.__setattr__(module, name, _swapped(value, new))
    return model


def quantize_linear(model, selector="parameters", block_size=64):
    """Puts an NF4Linear in the place of each Linear whose weight the selector names. Returns the model."""
    return replace_linear(model, lambda path, linear: NF4Linear(linear, block_size), selector)


__all__ = ["NF4Linear", "NF4Weight", "NF4_CODEBOOK", "QLoRALinear", "apply_qlora", "dequantize_nf4", "nf4_linear",
           "qlora_linear", "quantize_linear", "quantize_nf4"]
