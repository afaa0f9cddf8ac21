"""Types of nabla.nn.attention, which //tests/python:types_test holds to the module."""

from typing import NamedTuple, overload
from .._nabla import Tensor
from ..typing import ArrayLike, DTypeLike, Initializer
from .layers import Dropout, LayerNorm, Linear, RMSNorm
from .module import Module

class KVCache(NamedTuple):
    keys: Tensor
    values: Tensor
    length: Tensor

def init_cache(batch: int, heads: int, capacity: int, features: int, dtype: DTypeLike | None = None) -> KVCache: ...
def append_cache(cache: KVCache, keys: ArrayLike, values: ArrayLike) -> KVCache: ...
def cache_mask(position: ArrayLike, queries: int, capacity: int, window: int | None = None) -> Tensor: ...
def split_heads(x: ArrayLike, heads: int) -> Tensor: ...
def merge_heads(x: ArrayLike) -> Tensor: ...

class MultiHeadAttention(Module):
    d_model: int
    num_heads: int
    dropout: float
    q_proj: Linear
    k_proj: Linear
    v_proj: Linear
    out_proj: Linear
    def __init__(
        self, d_model: int, num_heads: int, dropout: float = 0.0, bias: bool = True, *, dtype: DTypeLike | None = None,
        key: int | Tensor | None = None, init: Initializer | None = None
    ) -> None: ...
    @overload
    def forward(
        self, query: ArrayLike, key: ArrayLike | None = None, value: ArrayLike | None = None,
        attn_mask: ArrayLike | None = None, is_causal: bool = False, cache: None = None
    ) -> Tensor: ...
    @overload
    def forward(
        self, query: ArrayLike, key: ArrayLike | None = None, value: ArrayLike | None = None,
        attn_mask: ArrayLike | None = None, is_causal: bool = False, *, cache: KVCache
    ) -> tuple[Tensor, KVCache]: ...
    @overload
    def __call__(
        self, query: ArrayLike, key: ArrayLike | None = None, value: ArrayLike | None = None,
        attn_mask: ArrayLike | None = None, is_causal: bool = False, cache: None = None
    ) -> Tensor: ...
    @overload
    def __call__(
        self, query: ArrayLike, key: ArrayLike | None = None, value: ArrayLike | None = None,
        attn_mask: ArrayLike | None = None, is_causal: bool = False, *, cache: KVCache
    ) -> tuple[Tensor, KVCache]: ...
    def init_cache(self, batch: int, capacity: int, dtype: DTypeLike | None = None) -> KVCache: ...
    def extra_repr(self) -> str: ...

class GroupedQueryAttention(Module):
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope_base: float
    rope_scale: float
    interleaved: bool
    window: int | None
    dropout: float
    q_proj: Linear
    k_proj: Linear
    v_proj: Linear
    out_proj: Linear
    q_norm: RMSNorm | None
    k_norm: RMSNorm | None
    def __init__(
        self, d_model: int, num_heads: int, num_kv_heads: int, *, head_dim: int | None = None,
        rope_base: float = 10000.0, rope_scale: float = 1.0, interleaved: bool = False, bias: bool = False,
        qkv_bias: bool | None = None, window: int | None = None, dropout: float = 0.0, qk_norm: bool = False,
        dtype: DTypeLike | None = None, key: int | Tensor | None = None, init: Initializer | None = None
    ) -> None: ...
    @overload
    def forward(self, x: ArrayLike, cache: None = None) -> Tensor: ...
    @overload
    def forward(self, x: ArrayLike, *, cache: KVCache) -> tuple[Tensor, KVCache]: ...
    @overload
    def __call__(self, x: ArrayLike, cache: None = None) -> Tensor: ...
    @overload
    def __call__(self, x: ArrayLike, *, cache: KVCache) -> tuple[Tensor, KVCache]: ...
    def init_cache(self, batch: int, capacity: int, dtype: DTypeLike | None = None) -> KVCache: ...
    def extra_repr(self) -> str: ...

class TransformerEncoderLayer(Module):
    self_attn: MultiHeadAttention
    linear1: Linear
    linear2: Linear
    norm1: LayerNorm
    norm2: LayerNorm
    dropout1: Dropout
    dropout2: Dropout
    def __init__(
        self, d_model: int, num_heads: int, dim_feedforward: int = 2048, dropout: float = 0.1, *,
        dtype: DTypeLike | None = None, key: int | Tensor | None = None
    ) -> None: ...
    @overload
    def forward(
        self, src: ArrayLike, src_mask: ArrayLike | None = None, is_causal: bool = False, cache: None = None
    ) -> Tensor: ...
    @overload
    def forward(
        self, src: ArrayLike, src_mask: ArrayLike | None = None, is_causal: bool = False, *, cache: KVCache
    ) -> tuple[Tensor, KVCache]: ...
    @overload
    def __call__(
        self, src: ArrayLike, src_mask: ArrayLike | None = None, is_causal: bool = False, cache: None = None
    ) -> Tensor: ...
    @overload
    def __call__(
        self, src: ArrayLike, src_mask: ArrayLike | None = None, is_causal: bool = False, *, cache: KVCache
    ) -> tuple[Tensor, KVCache]: ...

class TransformerDecoderLayer(Module):
    self_attn: MultiHeadAttention
    cross_attn: MultiHeadAttention
    linear1: Linear
    linear2: Linear
    norm1: LayerNorm
    norm2: LayerNorm
    norm3: LayerNorm
    dropout1: Dropout
    dropout2: Dropout
    dropout3: Dropout
    def __init__(
        self, d_model: int, num_heads: int, dim_feedforward: int = 2048, dropout: float = 0.1, *,
        dtype: DTypeLike | None = None, key: int | Tensor | None = None
    ) -> None: ...
    def forward(
        self, tgt: ArrayLike, memory: ArrayLike, tgt_mask: ArrayLike | None = None,
        memory_mask: ArrayLike | None = None, is_causal: bool = False
    ) -> Tensor: ...

class RotaryEmbedding(Module):
    base: float
    scale: float
    interleaved: bool
    def __init__(self, base: float = 10000.0, scale: float = 1.0, interleaved: bool = False) -> None: ...
    def forward(self, x: ArrayLike, positions: ArrayLike | None = None) -> Tensor: ...

