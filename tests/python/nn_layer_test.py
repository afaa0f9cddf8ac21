"""Layers by their own properties: attention with caches, recurrence with lengths, wrong shapes, what losses count."""

import nabla as nb
import numpy as np
import pytest
from nabla import nn
from nabla.nn import functional as F


def random(*shape, seed=0):
    return nb.asarray(np.random.RandomState(seed).randn(*shape).astype(np.float32))


def close(a, b, tolerance=2e-5):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def rows(x, start, stop):
    return nb._nabla.slice_axis(x, 1, start, stop)


@pytest.mark.parametrize("options", [{}, {"window": 3}, {"qk_norm": True, "qkv_bias": True}, {"interleaved": True}])
def test_caches_give_what_the_whole_gives(options):
    layer = nn.GroupedQueryAttention(16, 4, 2, key=1, **options)
    x = random(2, 7, 16)
    whole = np.asarray(layer(x))
    out, cache = layer(rows(x, 0, 3), cache=layer.init_cache(2, 8))
    close(out, whole[:, :3])
    step = nb.jit(lambda layer, x, cache: layer(x, cache=cache))
    for i in range(3, 7):
        out, cache = step(layer, rows(x, i, i + 1), cache)
        close(out, whole[:, i:i + 1])
    assert cache.length.item() == 7 and step.stats.misses == 1
    assert tuple(cache.keys.shape) == (2, 2, 8, 4)


def test_multi_head_cache():
    layer = nn.MultiHeadAttention(8, 2, key=1)
    x = random(1, 5, 8)
    whole = np.asarray(layer(x, is_causal=True))
    out, cache = layer(rows(x, 0, 4), cache=layer.init_cache(1, 5))
    close(out, whole[:, :4])
    close(layer(rows(x, 4, 5), cache=cache)[0], whole[:, 4:])
    with pytest.raises(ValueError, match="3 heads"):
        nn.MultiHeadAttention(8, 3)


def added_attention(q, k, v, mask, **options):
    scores = np.asarray(nb.matmul(q, nb.swapaxes(k, -2, -1))) / np.sqrt(q.shape[-1]) + np.asarray(mask)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ np.asarray(v)


@pytest.mark.parametrize("shape", [(3, 5), (5,), (2, 4, 3, 5), (1, 4, 3, 1), (2, 1, 1, 5)], ids=str)
def test_attention_adds_a_mask_of_numbers_without_scores_in_memory(shape):
    q, k, v, mask = random(2, 4, 3, 8), random(2, 4, 5, 8, seed=1), random(2, 4, 5, 6, seed=2), random(*shape, seed=3)
    close(F.scaled_dot_product_attention(q, k, v, mask), added_attention(q, k, v, mask))
    text = str(nb.trace(F.scaled_dot_product_attention, q, k, v, mask))
    assert "attention(" in text and "dot_general" not in text
    half = [x.astype("bfloat16") for x in (q, k, v)]
    out = F.scaled_dot_product_attention(*half, mask)
    assert out.dtype == half[0].dtype
    np.testing.assert_allclose(np.asarray(out.astype("float32")), added_attention(q, k, v, mask), atol=0.05)


def test_attention_broadcasts_queries_to_a_mask_of_more_batches():
    q, k, v = random(1, 2, 3, 4), random(1, 2, 5, 4, seed=1), random(1, 2, 5, 4, seed=2)
    mask = random(6, 1, 3, 5, seed=3)
    close(F.scaled_dot_product_attention(q, k, v, mask), added_attention(q, k, v, mask))


def test_a_learned_mask_has_a_gradient():
    q, k, v = random(2, 4, 3, 8), random(2, 2, 5, 8, seed=1), random(2, 2, 5, 6, seed=2)
    mask = random(1, 4, 3, 5, seed=3)

    def loss(mask, attend):
        return nb.sum(attend(q, k, v, mask) ** 2)
    got = nb.grad(lambda b: loss(b, F.scaled_dot_product_attention))(mask)
    close(got, nb.grad(lambda b: loss(b, lambda q, k, v, b: F._additive(q, k, v, b, 0.0, False, None, None)))(mask))


def test_attention_of_few_and_many_dimensions():
    q, k, v = random(5, 4), random(7, 4, seed=1), random(7, 3, seed=2)
    scores = np.asarray(q) @ np.asarray(k).T / 2
    p = np.exp(scores - scores.max(1, keepdims=True))
    want = p / p.sum(1, keepdims=True) @ np.asarray(v)
    close(F.scaled_dot_product_attention(q, k, v), want)
    five = [nb._nabla.broadcast_to(x, [2, 1, 3, *x.shape]) for x in (q, k, v)]
    close(np.asarray(F.scaled_dot_product_attention(*five))[1, 0, 2], want)
    mask = nb.asarray(np.arange(7) < 0)
    assert not np.asarray(F.scaled_dot_product_attention(q, k, v, nb._nabla.broadcast_to(mask, [5, 7]))).any()
    # All but the heads are one batch to a mask of as many dimensions.
    masks = random(2, 1, 1, 5, 7, seed=3)
    for masks in (masks, masks > 0):
        got = np.asarray(F.scaled_dot_product_attention(*five, masks))
        close(got[1, 0, 2], F.scaled_dot_product_attention(q, k, v, masks[1, 0, 0]))
    dropped = [np.asarray(F.scaled_dot_product_attention(q, k, v, dropout_p=0.5, rng=i)) for i in (1, 1, 2)]
    assert (dropped[0] == dropped[1]).all() and (dropped[0] != dropped[2]).any()
    close(F.scaled_dot_product_attention(q, k, v, dropout_p=0.5, training=False), want)


def test_rope_turns_pairs():
    x = random(3, 4)
    out, angle = np.asarray(F.rope(x)), np.arange(3)[:, None] * np.array([1.0, 0.01])
    a, b = np.asarray(x)[:, :2], np.asarray(x)[:, 2:]
    want = np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], 1)
    close(out, want)


@pytest.mark.parametrize("cls", [nn.RNN, nn.GRU, nn.LSTM])
def test_lengths(cls):
    net = cls(3, 4, bidirectional=True, key=2)
    x = random(2, 5, 3)
    out, states = net(x, lengths=nb.asarray([5, 3]))
    short, last = net(nb._nabla.slice_axis(rows(x, 0, 3), 0, 1, 2))
    close(np.asarray(out)[1, :3], np.asarray(short)[0])
    assert not np.asarray(out)[1, 3:].any()
    pick = (lambda s: s[0]) if cls is nn.LSTM else (lambda s: s)
    for way in range(2):
        close(np.asarray(pick(states[0][way]))[1], np.asarray(pick(last[0][way]))[0])
    cell = net.cells[0][0]
    state, y = cell(cell.init_state(2), nb._nabla.squeeze(rows(x, 0, 1), [1]))
    close(y, np.asarray(net(x)[0])[:, 0, :4])


def test_cross_entropy_counts_every_position():
    logits = random(2, 3, 5)
    labels = np.array([[0, 1, 2], [3, 4, 0]])
    hot = np.eye(5, dtype=np.float32)[labels]
    x = np.asarray(logits)
    log_p = x - np.log(np.exp(x).sum(-1, keepdims=True))
    want = -(hot * log_p).sum() / 6
    close(F.cross_entropy_loss(logits, nb.asarray(labels)), want)
    close(F.cross_entropy_loss(logits, nb.asarray(hot)), want)
    close(F.cross_entropy_loss(nb._nabla.moveaxis(logits, -1, 1), nb.asarray(labels), axis=1), want)
    close(F.cross_entropy_loss(logits, nb.asarray(labels), reduction="sum"), want * 6)
    assert tuple(F.cross_entropy_loss(logits, nb.asarray(labels), reduction="none").shape) == (2, 3)
    with pytest.raises(ValueError, match="labels"):
        F.cross_entropy_loss(logits, nb.asarray([0, 1]))
    with pytest.raises(ValueError, match="reduction"):
        F.mse_loss(logits, logits, reduction="average")
    with pytest.raises(ValueError, match="differ in shape"):
        F.mse_loss(logits, nb.asarray(labels))


def test_shapes_of_convolutions():
    x = random(2, 8, 8, 3)
    assert tuple(nn.Conv2d(3, 5, 3, 2, "same")(x).shape) == (2, 4, 4, 5)
    assert tuple(nn.Conv2d(3, 6, (3, 1), groups=3)(x).shape) == (2, 6, 8, 6)
    assert tuple(nn.ConvTranspose2d(3, 4, 4, 2, 1)(x).shape) == (2, 16, 16, 4)
    assert tuple(nn.Conv1d(3, 5, 3)(random(2, 8, 3)).shape) == (2, 6, 5)
    assert tuple(nn.Conv3d(1, 2, 2)(random(1, 3, 3, 3, 1)).shape) == (1, 2, 2, 2, 2)
    assert tuple(nn.MaxPool2d(2)(x).shape) == (2, 4, 4, 3) and tuple(nn.AvgPool2d(2)(x).shape) == (2, 4, 4, 3)
    close(nn.conv.global_avg_pool(x), np.asarray(x).mean((1, 2)))
    with pytest.raises(ValueError, match="groups"):
        nn.Conv2d(3, 4, 3, groups=2)
    with pytest.raises(ValueError, match="padding"):
        nn.Conv2d(3, 4, 3, padding="full")(x)


def test_transpose_is_the_transpose():
    w, x, y = random(3, 3, 2, 4), random(1, 7, 7, 2, seed=1), random(1, 4, 4, 4, seed=2)
    out = nn.conv.conv_nd(x, w, stride=2, padding=1)
    back = nn.conv.conv_transpose_nd(y, w, stride=2, padding=1)
    assert tuple(out.shape) == tuple(y.shape) and tuple(back.shape) == tuple(x.shape)
    close((np.asarray(out) * np.asarray(y)).sum(), (np.asarray(back) * np.asarray(x)).sum(), 1e-4)


def test_other_dtypes():
    for dtype, tolerance in (("float64", 1e-12), ("bfloat16", 0.1), ("float16", 0.02)):
        net = nn.Sequential(nn.Linear(3, 4, dtype=dtype, key=1), nn.LayerNorm(4, dtype=dtype), nn.GELU())
        x = nb.astype(random(2, 3), dtype)
        out = net(x)
        assert out.dtype == nb.dtype_of(dtype)
        wide = net.clone().astype("float64")(nb.astype(x, "float64"))
        close(nb.astype(out, "float64"), wide, tolerance)
    assert nn.Linear(2, 2).astype("bfloat16").weight.dtype == nb.bfloat16


def test_layers_say_what_is_wrong():
    with pytest.raises(ValueError, match="LayerNorm"):
        nn.LayerNorm(4)(random(2, 3))
    with pytest.raises(ValueError, match="BatchNorm of 4 channels"):
        nn.BatchNorm(4)(random(2, 3))
    with pytest.raises(ValueError, match="p = 2"):
        nn.Dropout(2)
    with pytest.raises(ValueError, match="LSTM"):
        nn.LSTM(3, 4)(random(2, 3, 5))
    with pytest.raises(nb.Error, match="nn_layer_test.py"):
        nn.Linear(3, 4)(random(2, 5))
    with pytest.raises(NotImplementedError, match="no forward"):
        nn.Module()(1)


def test_other_layers():
    x = random(3, 6)
    assert tuple(nn.SwiGLU(6, 8)(x).shape) == (3, 6)
    assert tuple(nn.Flatten()(random(2, 3, 4)).shape) == (2, 12)
    close(nn.PReLU()(x), np.where(np.asarray(x) > 0, np.asarray(x), 0.25 * np.asarray(x)))
    close(nn.GLU()(x), np.asarray(x)[:, :3] / (1 + np.exp(-np.asarray(x)[:, 3:])))
    close(F.normalize(x), np.asarray(x) / np.linalg.norm(np.asarray(x), axis=1, keepdims=True))
    assert repr(nn.LeakyReLU(0.2)) == "LeakyReLU(negative_slope=0.2)"
    layer = nn.Bilinear(6, 6, 2, bias=False, key=1)
    close(layer(x, x), np.einsum("na,nb,abo->no", np.asarray(x), np.asarray(x), np.asarray(layer.weight)), 1e-4)
    close(nn.RotaryEmbedding()(x), F.rope(x))


def test_batches_of_any_size():
    attention = nn.TransformerEncoderLayer(16, 4, 32, 0.0, key=1)
    f = nb.jit(lambda m, x: m(x, is_causal=True), dynamic_dims={1: {0: "batch", 1: "length"}})
    for batch, length in ((3, 5), (4, 6), (1, 2)):
        x = random(batch, length, 16)
        close(f(attention, x), attention(x, is_causal=True), 1e-4)
    assert f.stats.misses == 1
    convolution = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1, key=1), nn.BatchNorm(4), nn.ReLU(), nn.MaxPool2d(2))

    def both(model, x):
        return model(x), model

    g = nb.jit(both, dynamic_dims={1: {0: "batch"}})
    for batch in (2, 5):
        x = random(batch, 4, 4, 1)
        out, model = g(convolution, x)
        want = convolution.clone()
        for layer in want:
            layer.train()
        copy = nb.tree_map(lambda t: t, want)
        close(out, copy(x), 1e-4)
        close(model[1].running_var, copy[1].running_var, 1e-4)
    assert g.stats.misses == 1
    h = nb.jit(F.cross_entropy_loss, dynamic_dims={0: {0: "n"}, 1: {0: "n"}})
    for n in (3, 4):
        logits, labels = random(n, 5), nb.asarray(np.arange(n))
        close(h(logits, labels), F.cross_entropy_loss(logits, labels))


def test_training_in_bfloat16():
    net = nn.MLP([8, 16, 1], key=1).astype("bfloat16")
    optimizer, x = nn.optim.adamw(1e-2), nb.astype(random(8, 8), "bfloat16")

    @nb.jit
    def step(model, state):
        loss, gradients = nn.value_and_grad(lambda m: nb.mean(m(x) ** 2))(model)
        model, state = optimizer.update(model, gradients, state)
        return model, state, loss

    state, losses = optimizer.init(net), []
    for _ in range(5):
        net, state, loss = step(net, state)
        losses.append(loss.item())
    assert losses[-1] < losses[0] and net.layers[0].weight.dtype == nb.bfloat16


def test_layers_in_other_transforms():
    layer, x = nn.TransformerEncoderLayer(16, 4, 32, 0.0, key=1), random(3, 5, 16)
    assert np.abs(np.asarray(nb.autocast(lambda m, x: m(x))(layer, x)) - np.asarray(layer(x))).max() < 0.1
    plain = nb.grad(lambda m: nb.sum(m(x) ** 2))(layer)
    again = nb.grad(lambda m: nb.sum(nb.checkpoint(lambda m, x: m(x))(m, x) ** 2))(layer)
    close(again.linear1.weight, plain.linear1.weight, 1e-3)
    each = nb.vmap(lambda x: nb.grad(lambda m: nb.sum(m(nb.unsqueeze(x, 0)) ** 2))(layer))(x)
    close(np.asarray(each.linear1.weight).sum(0), plain.linear1.weight, 1e-3)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64"])
def test_lengths_of_narrow_integers(dtype):
    x = nb.ones((2, 300, 2))
    net = nn.RNN(2, 3, key=0)
    out, last = net(x, lengths=np.array([100, 5], dtype))
    want, states = net(x, lengths=np.array([100, 5], np.int32))
    np.testing.assert_array_equal(np.asarray(out), np.asarray(want))
    assert not np.asarray(out)[0, 100:].any() and np.asarray(out)[0, 99].any()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32"])
@pytest.mark.parametrize("method", ["nearest", "linear", "cubic"])
def test_images_of_integers_are_rounded_and_clipped(method, dtype):
    info = np.iinfo(dtype)
    image = np.random.RandomState(1).choice([info.min, info.max, 0, 7, info.max - 1], (1, 5, 6, 2)).astype(dtype)
    exact = np.asarray(nb.resize(image.astype(np.float64), (7, 4), method))
    got = nb.resize(image, (7, 4), method)
    assert got.dtype == nb.dtype_of(dtype)
    want = np.clip(exact, info.min, info.max)
    assert np.abs(np.asarray(got).astype(np.float64) - want).max() <= 0.51


def test_means_over_parts_of_integers():
    image = np.arange(32, dtype=np.uint8).reshape(1, 4, 8, 1) * 7
    want = nb.adaptive_avg_pool(image.astype(np.float32), (3, 3))
    np.testing.assert_allclose(np.asarray(nb.adaptive_avg_pool(image, (3, 3))), np.asarray(want))
