"""A case for each layer and loss of nabla.nn: functions from rows [..., WIDTH], of one to three leading sizes that may
be symbols. A layer gives a tensor, a loss a number."""

import nabla as nb
import numpy as np
from nabla import nn
from nabla.nn import functional as F

WIDTH = 8


def numbers(*shape, seed=0):
    return nb.asarray(np.random.RandomState(seed).uniform(-1, 1, shape).astype(np.float32))


WEIGHT = numbers(WIDTH, WIDTH, seed=7)


def lines(layer):
    """For layers of [N, L, C]."""
    def call(x):
        while x.ndim < 3:
            x = nb.expand_dims(x, 0)
        return layer(x) if x.ndim == 3 else layer(x[0])
    return call


def images(layer, dims=2):
    """For layers of [N, H, W, C] and [N, D, H, W, C]: rows of fewer dimensions become images with sizes of 1."""
    return lambda x: layer(nb.reshape(x, (*x.shape[:-1], *[1] * (dims + 2 - x.ndim), x.shape[-1])))


def boxes(*sizes, channels=1):
    """For layers whose spatial sizes are numbers: each row becomes an example of these sizes."""
    return lambda layer: lambda x: layer(nb.reshape(x, (-1, *sizes, channels)))


def flat(layer):
    """For layers of [N, C]."""
    return lambda x: layer(nb.reshape(x, (-1, WIDTH)))


def outputs(layer):
    """Of layers that return a state, too."""
    return lambda x: layer(x)[0]


def cell(layer):
    return flat(lambda x: layer(layer.init_state(x.shape[0]), x)[1])


def drawing(layer, key=5):
    """With random numbers of one key, so that two calls draw the same."""
    def call(x):
        with nn.rngs(key):
            return layer(x)
    return call


def fresh(layer):
    """Of layers that set their attributes when they are called: a copy for each call."""
    return lambda x: nb.tree_map(lambda leaf: leaf, layer)(x)


def cached(layer, capacity=64):
    """With an empty cache of keys and values, which the positions of the call go into."""
    return lines(lambda x: layer(x, cache=layer.init_cache(x.shape[0], capacity))[0])


def heads(attention):
    """F.scaled_dot_product_attention of two heads."""
    def call(x):
        y = nn.split_heads(x, 2)
        return nn.merge_heads(attention(y, y * 0.5, y))
    return lines(call)


def bands(x, dtype):
    """A mask over queries and keys of [N, L, C]: neighbours see each other; as bool, or as numbers to be added."""
    at = nb.cumsum(nb.ones_like(nb.stop_gradient(x[0, :, 0])), axis=0)
    near = nb.abs(nb.expand_dims(at, 1) - nb.expand_dims(at, 0)) < 2
    return near if dtype == "bool" else nb.where(near, 0.5, -2.0)


ACTIVATIONS = ["CELU", "ELU", "GELU", "GLU", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSoftmax", "Mish",
               "PReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softmax", "Softplus", "Softsign", "Tanh"]

LAYERS = {
    "matmul": lambda: lambda x: x @ WEIGHT,
    "Linear": lambda: nn.Linear(WIDTH, WIDTH, key=1),
    "Bilinear": lambda: (lambda m: lambda x: m(x, x * 0.5))(nn.Bilinear(WIDTH, WIDTH, WIDTH, key=1)),
    "LayerNorm": lambda: nn.LayerNorm(WIDTH),
    "RMSNorm": lambda: nn.RMSNorm(WIDTH),
    "GroupNorm": lambda: images(nn.GroupNorm(2, WIDTH)),
    "InstanceNorm": lambda: boxes(2, 2, channels=2)(nn.InstanceNorm(2)),
    "instance_norm": lambda: boxes(4, channels=2)(lambda x: F.instance_norm(x, WEIGHT[0, :2], WEIGHT[1, :2])),
    "BatchNorm": lambda: fresh(nn.BatchNorm(WIDTH)),
    "SwiGLU": lambda: nn.SwiGLU(WIDTH, 12, key=1),
    "MLP": lambda: nn.MLP([WIDTH, 12, WIDTH], key=1),
    "MultiHeadAttention": lambda: lines(nn.MultiHeadAttention(WIDTH, 2, key=1)),
    "CausalAttention": lambda: lines(
        (lambda m: lambda x: m(x, is_causal=True))(nn.MultiHeadAttention(WIDTH, 2, key=1))),
    "GroupedQueryAttention": lambda: lines(nn.GroupedQueryAttention(WIDTH, 4, 2, key=1)),
    "TransformerEncoderLayer": lambda: lines(nn.TransformerEncoderLayer(WIDTH, 2, 16, 0.0, key=1)),
    "RotaryEmbedding": lambda: lines(nn.RotaryEmbedding()),
    "RNN": lambda: lines(outputs(nn.RNN(WIDTH, WIDTH, key=1))),
    "GRU": lambda: lines(outputs(nn.GRU(WIDTH, WIDTH, key=1))),
    "LSTM": lambda: lines(outputs(nn.LSTM(WIDTH, WIDTH, key=1))),
    "Conv1d": lambda: lines(nn.Conv1d(WIDTH, WIDTH, 3, padding=1, key=1)),
    "Conv2d": lambda: images(nn.Conv2d(WIDTH, WIDTH, 3, padding=1, key=1)),
    "AvgPool": lambda: boxes(4, 2)(nn.AvgPool2d(2, 1, padding=1, count_include_pad=False)),
    "log_sigmoid": lambda: F.log_sigmoid,
    "normalize": lambda: lambda x: F.normalize(x + 2),
    "mean_removed": lambda: lambda x: x - nb.mean(x, axis=0, keepdims=True),
    "cumsum": lambda: lambda x: nb.cumsum(x, axis=0) * 0.1,
    **{name: getattr(nn, name) for name in ACTIVATIONS},
    "Embedding": lambda: (lambda m: lambda x: m(labels(x)) * x + m.attend(x))(nn.Embedding(WIDTH, WIDTH, key=1)),
    "Identity": lambda: nn.Identity(),
    "Flatten": lambda: nn.Flatten(0, -2),
    "Sequential": lambda: nn.Sequential(nn.Linear(WIDTH, 12, key=1), nn.Tanh(), nn.Linear(12, WIDTH, key=2)),
    "StackedModuleList": lambda: nn.StackedModuleList([nn.Linear(WIDTH, WIDTH, key=i) for i in range(3)]),
    "Dropout": lambda: drawing(nn.Dropout(0.4)),
    "Dropout in eval": lambda: nn.Dropout(0.4).eval(),
    "dropout with a key": lambda: lambda x: F.dropout(x, 0.3, key=3),
    "BatchNorm in eval": lambda: nn.BatchNorm(WIDTH).eval(),
    "LayerNorm of two dimensions": lambda: boxes(2, channels=4)(nn.LayerNorm((2, 4))),
    "MultiHeadAttention with a cache": lambda: cached(nn.MultiHeadAttention(WIDTH, 2, key=1)),
    "GroupedQueryAttention with a cache": lambda: cached(nn.GroupedQueryAttention(WIDTH, 4, 2, window=3, key=1)),
    "GroupedQueryAttention with a window": lambda: lines(
        nn.GroupedQueryAttention(WIDTH, 2, 1, window=2, qk_norm=True, key=1)),
    "attention with a bool mask": lambda: heads(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, bands(q[0], "bool"))),
    "causal attention with an added mask": lambda: heads(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, bands(q[0], "float32"), is_causal=True)),
    "attention with dropout": lambda: heads(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.3, is_causal=True, rng=9)),
    "TransformerEncoderLayer with dropout": lambda: lines(
        drawing(nn.TransformerEncoderLayer(WIDTH, 2, 12, 0.2, key=1))),
    "TransformerDecoderLayer": lambda: lines((lambda m: lambda x: m(x, nb.tanh(x), is_causal=True))(
        nn.TransformerDecoderLayer(WIDTH, 2, 12, 0.0, key=1))),
    "interleaved RotaryEmbedding": lambda: lines(nn.RotaryEmbedding(interleaved=True)),
    "RNNCell": lambda: cell(nn.RNNCell(WIDTH, WIDTH, nonlinearity="relu", key=1)),
    "GRUCell": lambda: cell(nn.GRUCell(WIDTH, WIDTH, key=1)),
    "LSTMCell": lambda: cell(nn.LSTMCell(WIDTH, WIDTH, key=1)),
    "GRU both ways": lambda: lines(outputs(nn.GRU(WIDTH, 4, bidirectional=True, key=1))),
    "RNN with lengths": lambda: lines((lambda m: lambda x: m(x, lengths=nb.zeros_like(x[:, 0, 0]) + 2)[0])(
        nn.RNN(WIDTH, WIDTH, key=1))),
    "Conv2d of groups": lambda: images(nn.Conv2d(WIDTH, WIDTH, 3, padding=2, dilation=2, groups=2, key=1)),
    "Conv2d with strides": lambda: images(nn.Conv2d(WIDTH, WIDTH, 3, stride=2, padding=1, key=1)),
    "Conv2d of same size": lambda: boxes(4, 2)(nn.Conv2d(1, 2, 3, padding="same", key=1)),
    "Conv3d": lambda: images(nn.Conv3d(WIDTH, 4, 3, padding=1, key=1), 3),
    "ConvTranspose1d": lambda: lines(nn.ConvTranspose1d(WIDTH, 4, 3, padding=1, key=1)),
    "ConvTranspose2d": lambda: images(nn.ConvTranspose2d(WIDTH, 4, 3, stride=2, padding=1, output_padding=1, key=1)),
    "ConvTranspose3d": lambda: images(nn.ConvTranspose3d(WIDTH, 2, 2, stride=2, groups=2, key=1), 3),
    "AvgPool1d": lambda: boxes(8)(nn.AvgPool1d(3, 2, ceil_mode=True)),
    "AvgPool3d": lambda: boxes(2, 2, 2)(nn.AvgPool3d(2)),
    "MaxPool1d": lambda: boxes(4, channels=2)(nn.MaxPool1d(3, 1, padding=1)),
    "MaxPool2d": lambda: boxes(4, 2)(nn.MaxPool2d(2, ceil_mode=True)),
    "MaxPool3d": lambda: boxes(2, 2, 2)(nn.MaxPool3d(2, 1)),
    "AdaptiveAvgPool": lambda: boxes(4, 2)(nn.AdaptiveAvgPool((3, 1))),
    "global_avg_pool": lambda: boxes(2, 2, channels=2)(F.global_avg_pool),
    "one_hot": lambda: lambda x: F.one_hot(labels(x), WIDTH) * x,
}


def labels(x):
    return nb.cast(nb.argmax(nb.stop_gradient(x), axis=-1), "int32")


def signs(x):
    """1 and -1, one per row."""
    return nb.where(nb.stop_gradient(x[..., 0]) > 0, 1.0, -1.0)


LOSSES = {
    "squares": lambda x: nb.sum(x * x),
    "mse_loss": lambda x: F.mse_loss(x, nb.zeros_like(x) + 0.3),
    "l1_loss": lambda x: F.l1_loss(x * x, nb.zeros_like(x) - 1),
    "huber_loss": lambda x: F.huber_loss(x, nb.zeros_like(x) + 0.1),
    "binary_cross_entropy": lambda x: F.binary_cross_entropy(nb.sigmoid(x), nb.zeros_like(x) + 0.25),
    "binary_cross_entropy_with_logits": lambda x: F.binary_cross_entropy_with_logits(x, nb.zeros_like(x) + 0.25),
    "cross_entropy_loss": lambda x: F.cross_entropy_loss(x, labels(x)),
    "smooth_cross_entropy": lambda x: F.cross_entropy_loss(x, labels(x), label_smoothing=0.1),
    "nll_loss": lambda x: F.nll_loss(nb.log_softmax(x, axis=-1), labels(x)),
    "kl_div_loss": lambda x: F.kl_div_loss(nb.log_softmax(x, axis=-1), nb.stop_gradient(nb.softmax(x * 2, axis=-1))),
    "cosine_similarity": lambda x: nb.sum(F.cosine_similarity(x, nb.zeros_like(x) + 1)),
    "hinge_loss": lambda x: F.hinge_loss(x * 0.1, nb.zeros_like(x) + 1),
    "cosine_embedding_loss": lambda x: F.cosine_embedding_loss(x, nb.zeros_like(x) + WEIGHT[0], signs(x), 0.1),
    "triplet_margin_loss": lambda x: F.triplet_margin_loss(x, nb.zeros_like(x) + WEIGHT[0],
                                                           nb.zeros_like(x) + WEIGHT[1], 2.0),
    "soft cross_entropy_loss": lambda x: F.cross_entropy_loss(x, F.softmax(nb.stop_gradient(x)), reduction="sum"),
    "cross_entropy_loss with weights": lambda x: F.cross_entropy_loss(
        x, labels(x), weight=nb.arange(1, WIDTH + 1), ignore_index=3),
    "logits with pos_weight": lambda x: F.binary_cross_entropy_with_logits(
        x, nb.zeros_like(x) + 0.25, pos_weight=3.0, reduction="none").sum(),
}


def program(layer, loss):
    """From ids: of the table's rows the value, the gradient, and the gradient's own along a direction."""
    def run(ids, table):
        def value(e):
            return loss(layer(e[ids]))
        def slope(e):
            return nb.sum(nb.grad(value)(e) * WEIGHT[:5])
        return value(table), nb.grad(value)(table), nb.grad(slope)(table)
    return run


def sizes(symbols, run):
    return ((3, 4, 2), (2, 3, 5))[run][:symbols]


def arguments(symbols, run):
    ids = np.random.RandomState(run).randint(0, 5, sizes(symbols, run)).astype(np.int32)
    return nb.asarray(ids), numbers(5, WIDTH, seed=3)
