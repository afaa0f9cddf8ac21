"""Attention layers, caches of keys and values, and transformer layers.

Everything is [batch, positions, features]. Caches are plain trees: a layer takes one and returns the next, so that a
generation step compiles under `nb.jit`.
"""

import collections

from .. import _nabla
from .._core import DType, asarray, default_float, dtype_of
from . import _math as m
from . import functional as F
from .layers import Dropout, LayerNorm, Linear, RMSNorm, _keys
from .module import Module

KVCache = collections.namedtuple("KVCache", "keys values length")
KVCache.__doc__ = """Keys and values [batch, heads, capacity, features] seen so far, and how many: an int32 scalar."""


def init_cache(batch, heads, capacity, features, dtype=None):
    """An empty KVCache for up to `capacity` positions."""
    dtype = default_float() if dtype is None else dtype_of(dtype)
    shape = (batch, heads, capacity, features)
    return KVCache(m.zeros(shape, dtype), m.zeros(shape, dtype), asarray(0, DType.int32))


def append_cache(cache, keys, values):
    """The cache with `keys` and `values` [batch, heads, new, features] after what it holds.

    In a compiled function that gets the cache donated only the new positions are written. The caller keeps count: what
    goes beyond the capacity is moved back so that it fits, over older positions.
    """
    count = keys.shape[2]
    new_keys = _nabla.cache_append(cache.keys, m.cast(keys, cache.keys.dtype), cache.length, 2)
    new_values = _nabla.cache_append(cache.values, m.cast(values, cache.values.dtype), cache.length, 2)
    return KVCache(new_keys, new_values, m.add(cache.length, m.size(count)))


def cache_mask(position, queries, capacity, window=None):
    """bool [1, 1, queries, capacity]: the query at position + i sees keys up to itself, the last `window` of them."""
    last = m.reshape(m.positions(position, queries), queries, 1)
    key = m.emit("iota", [], {"shape": [queries, capacity], "axis": 1, "dtype": DType.int32})[0]
    mask = m.op("le", *m.promoted(key, last))
    if window is not None:
        mask = m.op("and", mask, m.op("gt", *m.promoted(key, m.sub(last, window))))
    return m.reshape(mask, 1, 1, queries, capacity)


def _window_mask(count, window):
    return m.op("and", m.lower_mask(count, count), m.op("not", m.lower_mask(count, count, -window)))


def split_heads(x, heads):
    """[batch, positions, heads * features] as [batch, heads, positions, features]."""
    batch, count, width = x.shape
    return m.transpose(m.reshape(x, [batch, count, heads, int(width) // heads]), 0, 2, 1, 3)


def merge_heads(x):
    """The inverse of split_heads."""
    batch, heads, count, features = x.shape
    return m.reshape(m.transpose(x, 0, 2, 1, 3), [batch, count, heads * features])


class MultiHeadAttention(Module):
    """Attention of several heads: queries, keys and values [batch, positions, d_model], projected and put together.

    The mask is bool (true: may be seen) or added to the scores, broadcast to [batch, heads, queries, keys]. Linear maps
    are q_proj, k_proj, v_proj and out_proj, normal with standard deviation sqrt(2 / (in + out)). Raises ValueError when
    the heads do not divide d_model.
    """

    def __init__(self, d_model, num_heads, dropout=0.0, bias=True, *, dtype=None, key=None, init=None):
        if num_heads < 1 or d_model % num_heads:
            raise ValueError(f"MultiHeadAttention: {num_heads} heads do not divide {d_model} features")
        self.d_model, self.num_heads, self.dropout = d_model, num_heads, float(dropout)
        keys, init = _keys(key, 4), init or F.xavier_normal
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            Linear(d_model, d_model, bias, dtype=dtype, key=k, init=init) for k in keys)

    def forward(self, query, key=None, value=None, attn_mask=None, is_causal=False, cache=None):
        """With a KVCache: `(out, new cache)`; new keys go after the cache's, and each query sees up to itself. Beyond
        the capacity the oldest positions are lost, as append_cache says: the caller keeps count."""
        key = query if key is None else key
        value = key if value is None else value
        q = split_heads(self.q_proj(query), self.num_heads)
        k = split_heads(self.k_proj(key), self.num_heads)
        v = split_heads(self.v_proj(value), self.num_heads)
        if cache is None:
            out = F.scaled_dot_product_attention(q, k, v, attn_mask, self.dropout, is_causal, self.training)
            return self.out_proj(merge_heads(out))
        if attn_mask is not None:
            raise ValueError("MultiHeadAttention: with a cache the mask follows from positions: leave attn_mask out")
        mask = cache_mask(cache.length, q.shape[2], cache.keys.shape[2])
        cache = append_cache(cache, k, v)
        out = F.scaled_dot_product_attention(q, cache.keys, cache.values, mask, self.dropout, False, self.training)
        return self.out_proj(merge_heads(out)), cache

    def init_cache(self, batch, capacity, dtype=None):
        """An empty KVCache of this layer."""
        dtype = self.k_proj.weight.dtype if dtype is None else dtype
        return init_cache(batch, self.num_heads, capacity, self.d_model // self.num_heads, dtype)

    def extra_repr(self):
        return f"{self.d_model}, heads={self.num_heads}, dropout={self.dropout}"


class GroupedQueryAttention(Module):
    """Causal self-attention with fewer heads of keys than of queries and rotary positions, as in Llama and Qwen.

    `window` limits how many keys, the query's own among them, a query sees. With a KVCache: `(out, new cache)`; beyond
    its capacity the oldest positions are lost, as append_cache says: the caller keeps count.
    Source: Ainslie et al., 2023; Su et al., 2021.
    """

    def __init__(self, d_model, num_heads, num_kv_heads, *, head_dim=None, rope_base=10000.0, rope_scale=1.0,
                 interleaved=False, bias=False, qkv_bias=None, window=None, dropout=0.0, qk_norm=False, dtype=None,
                 key=None, init=None):
        if num_kv_heads < 1 or num_heads % num_kv_heads:
            raise ValueError(f"GroupedQueryAttention: {num_kv_heads} heads of keys do not divide {num_heads} heads")
        if head_dim is None and d_model % num_heads:
            raise ValueError(f"GroupedQueryAttention: {num_heads} heads do not divide {d_model} features")
        self.num_heads, self.num_kv_heads, self.head_dim = num_heads, num_kv_heads, head_dim or d_model // num_heads
        self.rope_base, self.rope_scale, self.interleaved = float(rope_base), float(rope_scale), interleaved
        self.window, self.dropout = window, float(dropout)
        keys, init = _keys(key, 4), init or F.xavier_normal
        wide, narrow = num_heads * self.head_dim, num_kv_heads * self.head_dim
        qkv_bias = bias if qkv_bias is None else qkv_bias
        self.q_proj = Linear(d_model, wide, qkv_bias, dtype=dtype, key=keys[0], init=init)
        self.k_proj = Linear(d_model, narrow, qkv_bias, dtype=dtype, key=keys[1], init=init)
        self.v_proj = Linear(d_model, narrow, qkv_bias, dtype=dtype, key=keys[2], init=init)
        self.out_proj = Linear(wide, d_model, bias, dtype=dtype, key=keys[3], init=init)
        self.q_norm = RMSNorm(self.head_dim, dtype=dtype) if qk_norm else None
        self.k_norm = RMSNorm(self.head_dim, dtype=dtype) if qk_norm else None

    def forward(self, x, cache=None):
        q = split_heads(self.q_proj(x), self.num_heads)
        k = split_heads(self.k_proj(x), self.num_kv_heads)
        v = split_heads(self.v_proj(x), self.num_kv_heads)
        if self.q_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        count = x.shape[1]
        start = 0 if cache is None else cache.length
        positions = m.iota(count) if cache is None else m.positions(start, count)
        q, k = (F.rope(y, positions, self.rope_base, self.rope_scale, self.interleaved) for y in (q, k))
        rate = self.dropout
        if cache is None:
            mask = None if self.window is None else _window_mask(count, self.window)
            out = F.scaled_dot_product_attention(q, k, v, mask, rate, True, self.training)
            return self.out_proj(merge_heads(out))
        mask = cache_mask(start, count, cache.keys.shape[2], self.window)
        cache = append_cache(cache, k, v)
        out = F.scaled_dot_product_attention(q, cache.keys, cache.values, mask, rate, False, self.training)
        return self.out_proj(merge_heads(out)), cache

    def init_cache(self, batch, capacity, dtype=None):
        """An empty KVCache of this layer."""
        dtype = self.k_proj.weight.dtype if dtype is None else dtype
        return init_cache(batch, self.num_kv_heads, capacity, self.head_dim, dtype)

    def extra_repr(self):
        return f"heads={self.num_heads}, kv_heads={self.num_kv_heads}, head_dim={self.head_dim}, window={self.window}"


class TransformerEncoderLayer(Module):
    """h = x + attention(norm1(x)); h + linear2(gelu(linear1(norm2(h)))), with dropout on both summands."""

    def __init__(self, d_model, num_heads, dim_feedforward=2048, dropout=0.1, *, dtype=None, key=None):
        keys = _keys(key, 3)
        self.self_attn = MultiHeadAttention(d_model, num_heads, dropout, dtype=dtype, key=keys[0])
        self.linear1 = Linear(d_model, dim_feedforward, dtype=dtype, key=keys[1])
        self.linear2 = Linear(dim_feedforward, d_model, dtype=dtype, key=keys[2])
        self.norm1, self.norm2 = LayerNorm(d_model, dtype=dtype), LayerNorm(d_model, dtype=dtype)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)

    def forward(self, src, src_mask=None, is_causal=False, cache=None):
        """src [batch, positions, d_model]. With a KVCache: `(out, new cache)`."""
        out = self.self_attn(self.norm1(src), attn_mask=src_mask, is_causal=is_causal, cache=cache)
        out, cache = out if cache is not None else (out, None)
        src = m.add(src, self.dropout1(out))
        src = m.add(src, self.dropout2(self.linear2(F.gelu(self.linear1(self.norm2(src))))))
        return src if cache is None else (src, cache)


class TransformerDecoderLayer(Module):
    """Self-attention, attention to `memory`, and two dense layers, each after its norm and added to what came in."""

    def __init__(self, d_model, num_heads, dim_feedforward=2048, dropout=0.1, *, dtype=None, key=None):
        keys = _keys(key, 4)
        self.self_attn = MultiHeadAttention(d_model, num_heads, dropout, dtype=dtype, key=keys[0])
        self.cross_attn = MultiHeadAttention(d_model, num_heads, dropout, dtype=dtype, key=keys[1])
        self.linear1 = Linear(d_model, dim_feedforward, dtype=dtype, key=keys[2])
        self.linear2 = Linear(dim_feedforward, d_model, dtype=dtype, key=keys[3])
        self.norm1, self.norm2, self.norm3 = (LayerNorm(d_model, dtype=dtype) for _ in range(3))
        self.dropout1, self.dropout2, self.dropout3 = (Dropout(dropout) for _ in range(3))

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, is_causal=False):
        """tgt [batch, positions, d_model], memory [batch, keys, d_model]."""
        out = self.self_attn(self.norm1(tgt), attn_mask=tgt_mask, is_causal=is_causal)
        tgt = m.add(tgt, self.dropout1(out))
        tgt = m.add(tgt, self.dropout2(self.cross_attn(self.norm2(tgt), memory, memory, attn_mask=memory_mask)))
        return m.add(tgt, self.dropout3(self.linear2(F.gelu(self.linear1(self.norm3(tgt))))))


class RotaryEmbedding(Module):
    """F.rope with its options: turns pairs of features of x [..., positions, features] by their positions."""

    def __init__(self, base=10000.0, scale=1.0, interleaved=False):
        self.base, self.scale, self.interleaved = float(base), float(scale), interleaved

    def forward(self, x, positions=None):
        return F.rope(x, positions, self.base, self.scale, self.interleaved)


__all__ = ["GroupedQueryAttention", "KVCache", "MultiHeadAttention", "RotaryEmbedding", "TransformerDecoderLayer",
           "TransformerEncoderLayer", "append_cache", "cache_mask", "init_cache", "merge_heads", "split_heads"]
