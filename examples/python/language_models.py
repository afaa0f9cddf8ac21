"""Decoder-only language models in the manner of GPT-2, Llama 3 and Qwen 2, with caches for generation.

The classes are those models' structure; the sizes are arguments, so that a test takes small ones.
"""

import math

import nabla as nb
from nabla import nn
from nabla.nn import functional as F


def normal(std):
    return lambda shape, *, key, dtype=None: nn.init.normal(shape, std, key=key, dtype=dtype)


def keys_of(key, count):
    key = nb.random.key(key) if isinstance(key, int) else key
    return [nb.random.fold_in(key, i) for i in range(count)]


class Gpt2Block(nn.Module):
    """Attention and two dense layers with gelu, each after its LayerNorm."""

    def __init__(self, width, heads, layers, dropout, dtype, key):
        keys = keys_of(key, 3)
        self.norm1, self.norm2 = nn.LayerNorm(width, dtype=dtype), nn.LayerNorm(width, dtype=dtype)
        self.attention = nn.MultiHeadAttention(width, heads, dropout, dtype=dtype, key=keys[0], init=normal(0.02))
        # What adds to the residual stream starts smaller, by its depth (Radford et al., 2019).
        deep = normal(0.02 / math.sqrt(2 * layers))
        self.attention.out_proj = nn.Linear(width, width, dtype=dtype, key=nb.random.fold_in(keys[0], 9), init=deep)
        self.up = nn.Linear(width, 4 * width, dtype=dtype, key=keys[1], init=normal(0.02))
        self.down = nn.Linear(4 * width, width, dtype=dtype, key=keys[2], init=deep)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, cache=None):
        if cache is None:
            out = self.attention(self.norm1(x), is_causal=True)
        else:
            out, cache = self.attention(self.norm1(x), cache=cache)
        x = x + self.drop(out)
        x = x + self.drop(self.down(F.gelu(self.up(self.norm2(x)), "tanh")))
        return x if cache is None else (x, cache)


class Decoder(nn.Module):
    """What the models share: tokens [batch, positions] to logits [batch, positions, vocabulary]."""

    def embed(self, tokens, start):
        return self.embedding(tokens)

    def logits(self, x):
        return self.head(self.norm(x)) if self.head is not None else self.embedding.attend(self.norm(x))

    def forward(self, tokens, caches=None):
        """With caches, a list of KVCache: `(logits, new caches)` for tokens that follow what they hold."""
        x = self.embed(tokens, 0 if caches is None else caches[0].length)
        if caches is None:
            for block in self.blocks:
                x = block(x)
            return self.logits(x)
        new = []
        for block, cache in zip(self.blocks, caches):
            x, cache = block(x, cache)
            new.append(cache)
        return self.logits(x), new

    def init_caches(self, batch, capacity):
        return [block.attention.init_cache(batch, capacity) for block in self.blocks]


class Gpt2(Decoder):
    """GPT-2: learned positions, LayerNorm, gelu, tied embedding. The defaults are the smallest model's: 124M."""

    def __init__(self, vocabulary=50257, context=1024, width=768, heads=12, layers=12, dropout=0.0, dtype=None, key=0):
        keys = keys_of(key, layers + 2)
        self.embedding = nn.Embedding(vocabulary, width, dtype=dtype, key=keys[0], init=normal(0.02))
        self.positions = nn.Embedding(context, width, dtype=dtype, key=keys[1], init=normal(0.02))
        self.drop = nn.Dropout(dropout)
        self.blocks = [Gpt2Block(width, heads, layers, dropout, dtype, k) for k in keys[2:]]
        self.norm, self.head = nn.LayerNorm(width, dtype=dtype), None

    def embed(self, tokens, start):
        places = nb.arange(tokens.shape[1], dtype="int32") + start
        return self.drop(self.embedding(tokens) + self.positions(places))


class LlamaBlock(nn.Module):
    """Grouped-query attention with rotary positions, and SwiGLU, each after its RMSNorm."""

    def __init__(self, width, heads, kv_heads, inner, rope_base, qkv_bias, dtype, key):
        keys = keys_of(key, 2)
        self.norm1, self.norm2 = nn.RMSNorm(width, 1e-5, dtype=dtype), nn.RMSNorm(width, 1e-5, dtype=dtype)
        self.attention = nn.GroupedQueryAttention(width, heads, kv_heads, rope_base=rope_base, qkv_bias=qkv_bias,
                                                  dtype=dtype, key=keys[0], init=normal(0.02))
        self.mlp = nn.SwiGLU(width, inner, dtype=dtype, key=keys[1], init=normal(0.02))

    def forward(self, x, cache=None):
        out = self.attention(self.norm1(x), cache=cache)
        out, cache = out if cache is not None else (out, None)
        x = x + out
        x = x + self.mlp(self.norm2(x))
        return x if cache is None else (x, cache)


class Llama3(Decoder):
    """Llama 3; the defaults are the 8B model's."""

    def __init__(self, vocabulary=128256, width=4096, heads=32, kv_heads=8, layers=32, inner=14336, rope_base=5e5,
                 qkv_bias=False, tied=False, dtype=None, key=0):
        keys = keys_of(key, layers + 2)
        self.embedding = nn.Embedding(vocabulary, width, dtype=dtype, key=keys[0], init=normal(0.02))
        self.blocks = [LlamaBlock(width, heads, kv_heads, inner, rope_base, qkv_bias, dtype, k) for k in keys[2:]]
        self.norm = nn.RMSNorm(width, 1e-5, dtype=dtype)
        self.head = None if tied else nn.Linear(width, vocabulary, False, dtype=dtype, key=keys[1], init=normal(0.02))


class Qwen2(Llama3):
    """Qwen 2: Llama's structure with biases on queries, keys and values; the defaults are the 0.5B model's."""

    def __init__(self, vocabulary=151936, width=896, heads=14, kv_heads=2, layers=24, inner=4864, rope_base=1e6,
                 tied=True, dtype=None, key=0):
        super().__init__(vocabulary, width, heads, kv_heads, layers, inner, rope_base, True, tied, dtype, key)


def next_token_loss(model, tokens):
    """The cross-entropy of each token of [batch, positions + 1] after those before it."""
    return nn.cross_entropy_loss(model(tokens[:, :-1]), tokens[:, 1:])


def train_step(optimizer, max_norm=1.0):
    """A compiled step: (model, state, tokens, key) -> (model, state, loss, norm of the gradients)."""
    @nb.jit
    def step(model, state, tokens, key):
        with nn.rngs(key):
            loss, gradients = nn.value_and_grad(next_token_loss)(model, tokens)
        gradients, norm = nn.optim.clip_by_global_norm(gradients, max_norm)
        model, state = optimizer.update(model, gradients, state)
        return model, state, loss, norm
    return step


def pick(logits, key, temperature=0.0, top_k=None):
    """The next tokens [batch] from logits [batch, vocabulary]: the likeliest, or drawn."""
    if temperature == 0:
        return nb.argmax(logits, axis=-1).astype("int32")
    logits = logits / temperature
    if top_k is not None:
        least = nb.top_k(logits, top_k)[0][:, -1:]
        logits = nb.where(logits < least, -1e30, logits)
    return nb.random.categorical(key, logits).astype("int32")


class Generator:
    """Continues tokens through caches: one compiled function for the prompt's length, one for every later token."""

    def __init__(self, model, capacity, temperature=0.0, top_k=None):
        self.model, self.capacity = model.clone().eval(), capacity

        @nb.jit
        def advance(model, tokens, caches, key):
            logits, caches = model(tokens, caches)
            return pick(logits[:, -1], key, temperature, top_k), caches

        self.advance = advance

    def __call__(self, prompt, count, seed=0):
        """prompt [batch, positions] and `count` more tokens: [batch, count] as lists."""
        prompt = nb.asarray(prompt, "int32")
        batch, length = prompt.shape
        if length + count > self.capacity:
            raise ValueError(f"{length} + {count} tokens are more than the capacity {self.capacity}")
        caches, tokens, out = self.model.init_caches(batch, self.capacity), prompt, []
        for i in range(count):
            key = nb.random.fold_in(nb.random.key(seed), i)
            new, caches = self.advance(self.model, tokens, caches, key)
            out.append(new.tolist())
            tokens = nb.reshape(new, (batch, 1))
        return [list(row) for row in zip(*out)]
