"""Golden numbers of PyTorch for tests/python/nn_torch_test.py: python make_goldens.py

Needs torch and numpy. Writes goldens.npz beside this file: float32 arrays "CASE/NAME", inputs, results and gradients.
The gradient is that of sum(result * cotangent), the cotangent being cos(0, 1, 2, ...) in the result's shape.
"""

import os

import numpy as np
import torch
import torch.nn.functional as F

OUT = {}
RNG = np.random.RandomState(7)


def draw(*shape):
    return torch.tensor(RNG.standard_normal(shape).astype(np.float32), requires_grad=True)


def cotangent(x):
    return torch.cos(torch.arange(x.numel(), dtype=torch.float32)).reshape(x.shape)


def keep(case, **arrays):
    for name, x in arrays.items():
        OUT[f"{case}/{name}"] = x.detach().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)


def record(case, f, **inputs):
    """Inputs, f of them, and the gradients of the floating ones."""
    out = f(**inputs)
    floating = {k: v for k, v in inputs.items() if v.requires_grad}
    grads = torch.autograd.grad((out * cotangent(out)).sum(), list(floating.values()), allow_unused=True)
    keep(case, out=out, **inputs)
    keep(case, **{f"d_{k}": torch.zeros_like(v) if g is None else g for (k, v), g in zip(floating.items(), grads)})


def last(x):
    return x.movedim(1, -1)


def first(x):
    return x.movedim(-1, 1)


def layers():
    record("linear", lambda x, w, b: x @ w + b, x=draw(2, 3, 5), w=draw(5, 4), b=draw(1, 4))
    record("layer_norm", lambda x, w, b: F.layer_norm(x, (6,), w, b), x=draw(3, 6), w=draw(6), b=draw(6))
    record("layer_norm_2", lambda x, w, b: F.layer_norm(x, (4, 6), w, b), x=draw(3, 4, 6), w=draw(4, 6), b=draw(4, 6))
    record("rms_norm", lambda x, w: F.rms_norm(x, (6,), w, 1e-6), x=draw(3, 6), w=draw(6))
    record("group_norm", lambda x, w, b: last(F.group_norm(first(x), 2, w, b)),
           x=draw(2, 3, 3, 4), w=draw(4), b=draw(4))
    record("instance_norm", lambda x: last(F.instance_norm(first(x))), x=draw(2, 3, 3, 4))
    table, ids = draw(6, 3), torch.tensor([[0, 2, 2], [5, 2, 0]])
    record("embedding", lambda ids, w: F.embedding(ids, w), ids=ids, w=table)
    mean, var = torch.zeros(4), torch.ones(4)
    x, w, b = draw(3, 5, 4), draw(4), draw(4)
    record("batch_norm", lambda x, w, b: last(F.batch_norm(first(x), mean, var, w, b, True, 0.1)), x=x, w=w, b=b)
    keep("batch_norm", running_mean=mean, running_var=var)
    record("batch_norm_eval", lambda x, w, b: last(F.batch_norm(first(x), mean, var, w, b, False)), x=x, w=w, b=b)
    record("bilinear", lambda x, y, w: torch.einsum("na,nb,abo->no", x, y, w),
           x=draw(3, 2), y=draw(3, 4), w=draw(2, 4, 5))


def activations():
    x = torch.tensor(np.linspace(-6, 6, 41).astype(np.float32) + 0.01, requires_grad=True)
    for name, f in {
            "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu,
            "sigmoid": torch.sigmoid, "tanh": torch.tanh, "softplus": F.softplus, "log_sigmoid": F.logsigmoid,
            "leaky_relu": F.leaky_relu, "elu": F.elu, "selu": F.selu, "celu": lambda x: F.celu(x, 1.5), "mish": F.mish,
            "hard_sigmoid": F.hardsigmoid, "hard_swish": F.hardswish, "hard_tanh": F.hardtanh, "relu6": F.relu6,
            "soft_sign": F.softsign, "softmax": lambda x: F.softmax(x, 0), "log_softmax": lambda x: F.log_softmax(x, 0),
    }.items():
        record(f"act_{name}", lambda x, f=f: f(x), x=x)
    record("act_glu", lambda x: F.glu(x, -1), x=draw(3, 6))


def convolutions():
    def conv(f, order, **options):
        def run(x, w, b):
            return last(f(first(x), w.permute(*order), b, **options))
        return run

    record("conv1d", conv(F.conv1d, (2, 1, 0), stride=2, padding=1), x=draw(2, 7, 3), w=draw(3, 3, 4), b=draw(4))
    record("conv2d", conv(F.conv2d, (3, 2, 0, 1), stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2),
           x=draw(2, 6, 7, 4), w=draw(3, 2, 2, 6), b=draw(6))
    record("conv3d", conv(F.conv3d, (4, 3, 0, 1, 2), padding=1),
           x=draw(1, 3, 4, 3, 2), w=draw(2, 3, 2, 2, 3), b=draw(3))
    record("conv_same", conv(F.conv2d, (3, 2, 0, 1), padding="same"), x=draw(1, 5, 6, 2), w=draw(4, 3, 2, 3), b=draw(3))
    record("conv_transpose1d", conv(F.conv_transpose1d, (2, 1, 0), stride=2, padding=1, output_padding=1),
           x=draw(2, 4, 3), w=draw(3, 5, 3), b=draw(5))
    record("conv_transpose2d", conv(F.conv_transpose2d, (3, 2, 0, 1), stride=(2, 3), padding=1, output_padding=(1, 0)),
           x=draw(2, 3, 4, 3), w=draw(3, 3, 5, 3), b=draw(5))
    x = draw(2, 7, 8, 3)
    record("max_pool", lambda x: last(F.max_pool2d(first(x), 3, 2, 1)), x=x)
    record("max_pool_ceil", lambda x: last(F.max_pool2d(first(x), (2, 3), 2, 0, 1, True)), x=x)
    record("avg_pool", lambda x: last(F.avg_pool2d(first(x), 3, 2, 1)), x=x)
    record("avg_pool_ceil", lambda x: last(F.avg_pool2d(first(x), 3, 2, 1, True, False)), x=x)
    record("adaptive", lambda x: last(F.adaptive_avg_pool2d(first(x), (3, 5))), x=x)
    record("max_pool1d", lambda x: last(F.max_pool1d(first(x), 3)), x=draw(2, 9, 2))


def losses():
    x, y = draw(4, 5), draw(4, 5).detach()
    unit = torch.rand(4, 5, generator=torch.Generator().manual_seed(1))
    labels = torch.tensor([[0, 2, 4], [1, -100, 3]])
    logits, weight = draw(2, 3, 5), torch.tensor([0.5, 1.0, 2.0, 1.5, 0.25])
    record("mse", lambda x, y: F.mse_loss(x, y), x=x, y=y)
    record("l1", lambda x, y: F.l1_loss(x, y), x=x, y=y)
    record("huber", lambda x, y: F.huber_loss(x, y, delta=0.7), x=x, y=y)
    record("bce", lambda x, y: F.binary_cross_entropy(torch.sigmoid(x), y), x=x, y=unit)
    record("bce_logits", lambda x, y: F.binary_cross_entropy_with_logits(x, y), x=x, y=unit)
    record("bce_pos", lambda x, y: F.binary_cross_entropy_with_logits(x, y, pos_weight=torch.tensor(2.5)), x=x, y=unit)
    record("kl", lambda x, y: F.kl_div(F.log_softmax(x, -1), F.softmax(y, -1), reduction="batchmean"), x=x, y=y)
    whole = labels.clamp(min=0)
    record("ce", lambda x, y: F.cross_entropy(first(x), y), x=logits, y=whole)
    record("ce_smooth", lambda x, y: F.cross_entropy(first(x), y, label_smoothing=0.1), x=logits, y=whole)
    record("ce_ignore", lambda x, y: F.cross_entropy(first(x), y), x=logits, y=labels)
    record("ce_weight", lambda x, y: F.cross_entropy(first(x), y, weight, label_smoothing=0.2), x=logits, y=labels)
    record("ce_soft", lambda x, y: F.cross_entropy(first(x), first(y)), x=logits,
           y=F.softmax(draw(2, 3, 5), -1).detach())
    record("cosine", lambda x, y: F.cosine_similarity(x, y, -1), x=x, y=y)
    record("triplet", lambda x, y, z: F.triplet_margin_loss(x, y, z), x=x, y=y, z=draw(4, 5).detach())


def attention():
    q, k, v = draw(2, 4, 5, 6), draw(2, 4, 7, 6), draw(2, 4, 7, 3)
    record("sdpa", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), q=q, k=k, v=v)
    mask = draw(5, 7).detach()
    record("sdpa_add", lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask), q=q, k=k, v=v, mask=mask)
    record("sdpa_bool", lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask),
           q=q, k=k, v=v, mask=mask > -1)
    s, t = draw(2, 4, 5, 6), draw(2, 2, 5, 6)
    record("sdpa_causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), q=s,
           k=draw(2, 4, 5, 6), v=draw(2, 4, 5, 6))
    record("sdpa_groups", lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=True),
           q=s, k=t)
    torch.manual_seed(3)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, 0.0, F.gelu, batch_first=True, norm_first=True)
    x = draw(2, 5, 8)
    record("encoder", lambda x: layer(x), x=x)
    keep("encoder", **{n.replace(".", "_"): p for n, p in layer.named_parameters()})
    decoder = torch.nn.TransformerDecoderLayer(8, 2, 16, 0.0, F.gelu, batch_first=True, norm_first=True)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(5)
    record("decoder", lambda x, y: decoder(x, y, tgt_mask=mask), x=x, y=draw(2, 3, 8))
    keep("decoder", **{n.replace(".", "_"): p for n, p in decoder.named_parameters()})


def recurrent():
    torch.manual_seed(4)
    x = draw(2, 4, 3)
    for name, cls in {"rnn": torch.nn.RNN, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}.items():
        net = cls(3, 5, 2, batch_first=True, bidirectional=True)
        record(name, lambda x: net(x)[0], x=x)
        last_state = net(x)[1]
        keep(name, last=last_state[0] if name == "lstm" else last_state, **dict(net.named_parameters()))


def optimizers():
    start, target = draw(4, 3), draw(4, 3).detach()
    keep("optim", start=start, target=target)
    for name, make in {
            "sgd": lambda p: torch.optim.SGD(p, 0.1),
            "sgd_wd": lambda p: torch.optim.SGD(p, 0.1, 0.9, weight_decay=0.01),
            "nesterov": lambda p: torch.optim.SGD(p, 0.1, 0.9, nesterov=True, weight_decay=0.01),
            "adam": lambda p: torch.optim.Adam(p, 0.05, weight_decay=0.1),
            "adamw": lambda p: torch.optim.AdamW(p, 0.05, (0.8, 0.95), weight_decay=0.1),
            "rmsprop": lambda p: torch.optim.RMSprop(p, 0.02, momentum=0.5, weight_decay=0.01),
            "adagrad": lambda p: torch.optim.Adagrad(p, 0.1, weight_decay=0.01),
    }.items():
        p = start.detach().clone().requires_grad_()
        optimizer, losses = make([p]), []
        for _ in range(6):
            optimizer.zero_grad()
            loss = ((p - target) ** 2).mean() + torch.sin(p).sum() * 0.1
            loss.backward()
            losses.append(loss.item())
            optimizer.step()
        keep(f"optim_{name}", end=p, losses=np.asarray(losses, np.float32))
    p = start.detach().clone().requires_grad_()
    (p ** 3).sum().backward()
    norm = torch.nn.utils.clip_grad_norm_([p], 0.5)
    keep("clip", norm=norm, clipped=p.grad)


def main():
    for part in (layers, activations, convolutions, losses, attention, recurrent, optimizers):
        part()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "goldens.npz")
    np.savez_compressed(path, **OUT)
    print(f"{len(OUT)} arrays, {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
