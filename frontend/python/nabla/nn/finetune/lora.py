"""Low-rank adapters of linear layers (Hu et al., "LoRA", 2021).

An adapter of a weight [in, out] is {"A": [in, rank], "B": [rank, out]}: the change is (alpha / rank) A B. It is never
formed where it need not be: x goes through A and then B.
"""

from ..._core import asarray, dtype_of
from .. import _math as m
from .. import init
from ..layers import Linear
from ..module import Module, Parameter
from ..rng import fold_in, key_of, next_key
from ..selectors import select


def _rank(adapter):
    return int(adapter["A"].shape[1])


def init_lora_adapter(weight, rank, init_std=0.01, dtype=None, *, key=None):
    """{"A": normal with standard deviation init_std, "B": zeros}: the layer begins unchanged. Raises ValueError."""
    weight = asarray(weight)
    if weight.ndim != 2:
        raise ValueError(f"init_lora_adapter: the weight is {weight.type_str()}, expected [in, out]")
    if rank < 1:
        raise ValueError(f"init_lora_adapter: rank {rank}, expected 1 or more")
    dtype = weight.dtype if dtype is None else dtype_of(dtype)
    a = init.normal((weight.shape[0], rank), init_std, key=key, dtype=dtype)
    return {"A": a, "B": m.zeros((rank, weight.shape[1]), dtype)}


def lora_delta(adapter, alpha=1.0):
    """(alpha / rank) A B, [in, out]."""
    return m.mul(m.matmul(adapter["A"], adapter["B"]), alpha / _rank(adapter))


def lora_linear(x, frozen_weight, adapter, alpha=1.0):
    """x [..., in] times the weight, which gets no derivative, plus (alpha / rank) (x A) B."""
    frozen = m.op("stop_gradient", frozen_weight)
    low = m.matmul(m.matmul(x, adapter["A"]), adapter["B"])
    return m.add(m.matmul(x, frozen), m.mul(low, alpha / _rank(adapter)))


def merge_lora_weight(frozen_weight, adapter, alpha=1.0):
    """weight + (alpha / rank) A B."""
    return m.add(frozen_weight, lora_delta(adapter, alpha))


def unmerge_lora_weight(merged_weight, adapter, alpha=1.0):
    """weight - (alpha / rank) A B."""
    return m.sub(merged_weight, lora_delta(adapter, alpha))


def _is_adapter(x):
    return isinstance(x, dict) and set(x) == {"A", "B"}


def tree_lora_delta(adapters, alpha=1.0, *, is_leaf=None):
    """A tree of adapters as the tree of their changes."""
    from ...tree import tree_map
    return tree_map(lambda x: lora_delta(x, alpha) if _is_adapter(x) else x, adapters,
                    is_leaf=lambda x: _is_adapter(x) or (is_leaf is not None and is_leaf(x)))


class LoRALinear(Module):
    """A Linear whose weight and bias are frozen, and an adapter: parameters lora_A and lora_B.

    alpha None stands for rank: a factor of 1. `merge` puts the change into the weight, `unmerge` takes it out again.
    """

    def __init__(self, linear, rank=8, alpha=None, *, dropout=0.0, init_std=0.01, key=None):
        adapter = init_lora_adapter(linear.weight, rank, init_std, key=key)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.rank, self.alpha = rank, float(rank if alpha is None else alpha)
        self.weight = Parameter(linear.weight, trainable=False)
        self.bias = None if linear.bias is None else Parameter(linear.bias, trainable=False)
        self.lora_A, self.lora_B = Parameter(adapter["A"]), Parameter(adapter["B"])
        self.dropout, self.merged = float(dropout), False

    def adapter(self):
        """{"A", "B"}."""
        return {"A": self.lora_A, "B": self.lora_B}

    def base(self, x):
        """What the frozen layer gives."""
        out = m.matmul(x, m.op("stop_gradient", self.weight))
        return out if self.bias is None else m.add(out, self.bias)

    def forward(self, x):
        from ..functional import dropout
        out = self.base(x)
        if self.merged:
            return out
        low = m.matmul(m.matmul(dropout(x, self.dropout, self.training), self.lora_A), self.lora_B)
        return m.add(out, m.mul(low, self.alpha / self.rank))

    def merge(self):
        """Puts the adapter into the weight. Returns self."""
        if not self.merged:
            self.weight = merge_lora_weight(self.weight, self.adapter(), self.alpha)
            self.merged = True
        return self

    def unmerge(self):
        """Takes `merge` back. Returns self."""
        if self.merged:
            self.weight = unmerge_lora_weight(self.weight, self.adapter(), self.alpha)
            self.merged = False
        return self

    def extra_repr(self):
        return f"{self.in_features}, {self.out_features}, rank={self.rank}, alpha={self.alpha}"


def replace_linear(model, f, selector="parameters"):
    """Replaces each Linear whose weight the selector names by `f(path, linear)`, in all places. Returns the model."""
    chosen = select(selector).paths(model)
    layers = [(path, x) for path, x in model.named_modules()
              if type(x) is Linear and (f"{path}.weight" if path else "weight") in chosen]
    new = {id(x): f(path, x) for path, x in layers}
    if id(model) in new:
        return new[id(model)]
    for module in model.modules():
        for name, value in list(module.__dict__.items()):
            if name != "_kinds":
                object.__setattr__(module, name, _swapped(value, new))
    return model


def _swapped(value, new):
    if id(value) in new:
        return new[id(value)]
    if type(value) is list:
        value[:] = [_swapped(v, new) for v in value]
    elif type(value) is tuple:
        return tuple(_swapped(v, new) for v in value)
    elif type(value) is dict:
        for k in value:
            value[k] = _swapped(value[k], new)
    return value


def apply_lora(model, rank=8, alpha=None, selector="parameters", *, dropout=0.0, init_std=0.01, key=None):
    """Freezes the model and puts a LoRALinear in the place of each Linear whose weight the selector names.

    Returns the model (another one when it is a Linear itself). Raises ValueError when nothing is selected.
    """
    from ..selectors import freeze
    key = next_key() if key is None else key_of(key)
    freeze(model)
    count = [0]

    def adapted(path, linear):
        count[0] += 1
        return LoRALinear(linear, rank, alpha, dropout=dropout, init_std=init_std, key=fold_in(key, count[0]))

    model = replace_linear(model, adapted, selector)
    if not count[0]:
        raise ValueError(f"apply_lora: {selector!r} names the weight of no Linear")
    return model


def merge_lora(model):
    """Merges every adapter of a model into its weight. Returns the model."""
    return model.apply(lambda x: x.merge() if isinstance(x, LoRALinear) else None)


def unmerge_lora(model):
    """Takes merge_lora back. Returns the model."""
    return model.apply(lambda x: x.unmerge() if isinstance(x, LoRALinear) else None)


def lora_state_dict(model):
    """`{path: tensor}` of the adapters alone."""
    return {p: x for p, x in model.state_dict().items() if p.split(".")[-1] in ("lora_A", "lora_B")}


__all__ = ["LoRALinear", "apply_lora", "init_lora_adapter", "lora_delta", "lora_linear", "lora_state_dict",
           "merge_lora", "merge_lora_weight", "replace_linear", "tree_lora_delta", "unmerge_lora",
           "unmerge_lora_weight"]
