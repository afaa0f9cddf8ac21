"""Layers, losses and optimisers against numbers of PyTorch (tests/parity_torch/make_goldens.py)."""

import os

import nabla as nb
import numpy as np
import pytest
from nabla import nn
from nabla.nn import conv as C
from nabla.nn import functional as F
from nabla.nn import optim

_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity_torch", "goldens.npz")
GOLDENS = dict(np.load(_FILE))


def case(name):
    return {k[len(name) + 1:]: nb.asarray(v) for k, v in GOLDENS.items() if k.startswith(name + "/")}


def close(got, want, tolerance=2e-5):
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=tolerance, atol=tolerance)


def weighed(out):
    ct = np.cos(np.arange(int(np.prod(out.shape)), dtype=np.float32)).reshape(out.shape)
    return nb._nabla.sum(nb._nabla.emit("mul", [out, nb.asarray(ct)], {})[0], [], False)


def check(name, f, tolerance=2e-5):
    """f of the case's inputs: value and gradients."""
    data = case(name)
    wrt = [k[2:] for k in data if k.startswith("d_")]
    inputs = {k: v for k, v in data.items() if k in wrt or k in ("y", "ids", "mask")}
    out, gradients = data["out"], {k: data["d_" + k] for k in wrt}
    got = f(**inputs)
    assert tuple(got.shape) == tuple(out.shape)
    close(got, out, tolerance)
    rest = {k: v for k, v in inputs.items() if k not in wrt}
    found = nb.grad(lambda w: weighed(f(**w, **rest)))({k: inputs[k] for k in wrt})
    for k in wrt:
        close(found[k], gradients[k], tolerance * 10)


LAYERS = {
    "linear": lambda x, w, b: F.linear(x, w, b),
    "layer_norm": lambda x, w, b: F.layer_norm(x, w, b),
    "layer_norm_2": lambda x, w, b: F.layer_norm(x, w, b, axis=(1, 2)),
    "rms_norm": lambda x, w: F.rms_norm(x, w),
    "group_norm": lambda x, w, b: F.group_norm(x, 2, w, b),
    "instance_norm": lambda x: F.instance_norm(x),
    "embedding": lambda ids, w: F.embedding(ids, w),
    "batch_norm": lambda x, w, b: F.batch_norm_train(x, w, b)[0],
    "bilinear": lambda x, y, w: F.bilinear(x, y, w),
    "conv1d": lambda x, w, b: C.conv1d(x, w, b, 2, 1),
    "conv2d": lambda x, w, b: C.conv2d(x, w, b, (2, 1), (1, 2), (1, 2), 2),
    "conv3d": lambda x, w, b: C.conv3d(x, w, b, padding=1),
    "conv_same": lambda x, w, b: C.conv2d(x, w, b, padding="same"),
    "conv_transpose1d": lambda x, w, b: C.conv_transpose_nd(x, w, b, 2, 1, 1),
    "conv_transpose2d": lambda x, w, b: C.conv_transpose_nd(x, w, b, (2, 3), 1, (1, 0)),
    "max_pool": lambda x: C.max_pool(x, 3, 2, 1),
    "max_pool_ceil": lambda x: C.max_pool(x, (2, 3), 2, ceil_mode=True),
    "avg_pool": lambda x: C.avg_pool(x, 3, 2, 1),
    "avg_pool_ceil": lambda x: C.avg_pool(x, 3, 2, 1, True, False),
    "adaptive": lambda x: C.adaptive_avg_pool(x, (3, 5)),
    "max_pool1d": lambda x: C.max_pool(x, 3),
    "mse": lambda x, y: F.mse_loss(x, y),
    "l1": lambda x, y: F.l1_loss(x, y),
    "huber": lambda x, y: F.huber_loss(x, y, 0.7),
    "bce": lambda x, y: F.binary_cross_entropy(F.sigmoid(x), y),
    "bce_logits": lambda x, y: F.binary_cross_entropy_with_logits(x, y),
    "bce_pos": lambda x, y: F.binary_cross_entropy_with_logits(x, y, 2.5),
    "kl": lambda x, y: F.kl_div_loss(F.log_softmax(x), F.softmax(y)),
    "ce": lambda x, y: F.cross_entropy_loss(x, y),
    "ce_smooth": lambda x, y: F.cross_entropy_loss(x, y, label_smoothing=0.1),
    "ce_ignore": lambda x, y: F.cross_entropy_loss(x, y, ignore_index=-100),
    "ce_weight": lambda x, y: F.cross_entropy_loss(x, y, ignore_index=-100, weight=[0.5, 1.0, 2.0, 1.5, 0.25],
                                                   label_smoothing=0.2),
    "ce_soft": lambda x, y: F.cross_entropy_loss(x, y),
    "cosine": lambda x, y: F.cosine_similarity(x, y),
    "sdpa": lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
    "sdpa_add": lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask),
    "sdpa_bool": lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask),
    "sdpa_causal": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "sdpa_groups": lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True),
}
for _name in ("relu", "gelu", "silu", "sigmoid", "tanh", "softplus", "log_sigmoid", "leaky_relu", "elu", "selu", "mish",
              "hard_sigmoid", "hard_swish", "hard_tanh", "relu6", "soft_sign", "softmax", "log_softmax", "glu"):
    LAYERS["act_" + _name] = getattr(F, _name)
LAYERS["act_gelu_tanh"] = lambda x: F.gelu(x, "tanh")
LAYERS["act_celu"] = lambda x: F.celu(x, 1.5)


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_function(name):
    f = LAYERS[name]
    check(name, (lambda x: f(x)) if name.startswith("act_") else f)


def test_triplet():
    d = case("triplet")
    x, y, z = (nb.asarray(GOLDENS[f"triplet/{k}"]) for k in "xyz")
    close(F.triplet_margin_loss(x, y, z), d["out"], 1e-4)


def test_batch_norm_layer():
    d = case("batch_norm")
    layer = nn.BatchNorm(4)
    layer.weight, layer.bias = d["w"], d["b"]
    close(layer(d["x"]), d["out"])
    close(layer.running_mean, d["running_mean"])
    close(layer.running_var, d["running_var"])
    e = case("batch_norm_eval")
    layer.weight, layer.bias = e["w"], e["b"]
    close(layer.eval()(e["x"]), e["out"])


def _attention(layer, d, prefix):
    weights = np.split(np.asarray(d[prefix + "_in_proj_weight"]), 3)
    biases = np.split(np.asarray(d[prefix + "_in_proj_bias"]), 3)
    for proj, w, b in zip((layer.q_proj, layer.k_proj, layer.v_proj), weights, biases):
        proj.weight, proj.bias = nb.asarray(w.T.copy()), nb.asarray(b)
    layer.out_proj.weight = nb.asarray(np.asarray(d[prefix + "_out_proj_weight"]).T.copy())
    layer.out_proj.bias = d[prefix + "_out_proj_bias"]


def _filled(layer, d, norms):
    for name in ("linear1", "linear2"):
        linear = getattr(layer, name)
        linear.weight = nb.asarray(np.asarray(d[name + "_weight"]).T.copy())
        linear.bias = d[name + "_bias"]
    for name in norms:
        norm = getattr(layer, name)
        norm.weight, norm.bias = d[name + "_weight"], d[name + "_bias"]
    return layer


def test_encoder_layer():
    d = case("encoder")
    layer = _filled(nn.TransformerEncoderLayer(8, 2, 16, 0.0), d, ("norm1", "norm2"))
    _attention(layer.self_attn, d, "self_attn")
    close(layer(d["x"]), d["out"])
    close(nb.grad(lambda x: weighed(layer(x)))(d["x"]), d["d_x"], 1e-4)


def test_decoder_layer():
    d = case("decoder")
    layer = _filled(nn.TransformerDecoderLayer(8, 2, 16, 0.0), d, ("norm1", "norm2", "norm3"))
    _attention(layer.self_attn, d, "self_attn")
    _attention(layer.cross_attn, d, "multihead_attn")
    close(layer(d["x"], d["y"], is_causal=True), d["out"])


@pytest.mark.parametrize("name", ["rnn", "gru", "lstm"])
def test_recurrent(name):
    d = case(name)
    net = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[name](3, 5, 2, bidirectional=True)
    for layer in range(2):
        for way, tail in enumerate(("", "_reverse")):
            cell = net.cells[layer][way]
            for kind in ("ih", "hh"):
                w = np.asarray(d[f"weight_{kind}_l{layer}{tail}"])
                setattr(cell, f"weight_{kind}", nb.asarray(w.T.copy()))
                setattr(cell, f"bias_{kind}", d[f"bias_{kind}_l{layer}{tail}"])
    out, states = net(d["x"])
    close(out, d["out"])
    last = [s[0] if name == "lstm" else s for layer in states for s in layer]
    close(np.stack([np.asarray(s) for s in last]), d["last"])
    close(nb.grad(lambda x: weighed(net(x)[0]))(d["x"]), d["d_x"], 1e-4)


OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, 0.1),
    "sgd_wd": lambda p: optim.SGD(p, 0.1, 0.9, 0.01),
    "nesterov": lambda p: optim.SGD(p, 0.1, 0.9, 0.01, True),
    "adam": lambda p: optim.Adam(p, 0.05, weight_decay=0.1),
    "adamw": lambda p: optim.AdamW(p, 0.05, (0.8, 0.95), weight_decay=0.1),
    "rmsprop": lambda p: optim.RMSProp(p, 0.02, momentum=0.5, weight_decay=0.01),
    "adagrad": lambda p: optim.Adagrad(p, 0.1, weight_decay=0.01),
}


def _loss(p, target):
    emit = nb._nabla.emit
    waves = nb._nabla.sum(emit("sin", [p], {})[0], [], False)
    return emit("add", [F.mse_loss(p, target), emit("mul", [waves, 0.1], {})[0]], {})[0]


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_optimizer(name):
    start, target = (nb.asarray(GOLDENS[f"optim/{k}"]) for k in ("start", "target"))
    optimizer, losses, p = OPTIMIZERS[name]({"w": start}), [], {"w": start}
    for _ in range(6):
        loss, gradient = nb.value_and_grad(lambda p: _loss(p["w"], target))(p)
        losses.append(loss.item())
        p = optimizer.step(gradient)
    close(losses, GOLDENS[f"optim_{name}/losses"])
    close(p["w"], GOLDENS[f"optim_{name}/end"])
    assert optimizer.step_count == 6


def test_clip():
    start = nb.asarray(GOLDENS["optim/start"])
    gradient = {"w": nb._nabla.emit("mul", [nb._nabla.square(start), 3.0], {})[0]}
    clipped, norm = optim.clip_by_global_norm(gradient, 0.5)
    close(norm, GOLDENS["clip/norm"])
    close(clipped["w"], GOLDENS["clip/clipped"], 1e-4)
