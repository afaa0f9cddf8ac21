"""Layouts of a transformer's parts over ranks, in steps that are written for one: tensor parallel as Megatron-LM
(Shoeybi et al., 2019), sequence parallel (Korthikanti et al., 2022), experts (Lepikhin et al., GShard, 2020).

Each prints what one rank exchanges in a step, and how far the loss is from one rank's. The ranks are threads of this
process, or with `mpirun -np 4 python3 parallel.py` processes, each of which runs this script.
"""

import re

import nabla as nb
import numpy as np
from nabla import distributed
from nabla.core.sharding import DeviceMesh
from nabla.core.sharding import PartitionSpec as P

TEXTS, LENGTH, WIDTH, HEADS, EXPERTS = 4, 16, 32, 4, 4


def draw(seed, **shapes):
    rng = np.random.RandomState(seed)
    return {k: nb.asarray((rng.randn(*s) * 0.2).astype(np.float32)) for k, s in shapes.items()}


def mlp(p, x):
    """Column parallel, then row parallel: the sum over ranks comes once, after the second product."""
    return nb.gelu(x @ p["up"]) @ p["down"]


def attention(p, x):
    """Heads lie along the ranks: q, k and v by columns, the output by rows."""
    def heads(w):
        return nb.einsum("btd,dhk->bhtk", x, w)

    q, k, v = heads(p["q"]), heads(p["k"]), heads(p["v"])
    out = nb.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return nb.einsum("bhtk,hkd->btd", out, p["out"])


def norm(x):
    return nb.nn.functional.layer_norm(x, nb.ones(WIDTH), nb.zeros(WIDTH))


def block(p, x):
    x = x + attention(p, norm(x))
    return x + mlp(p, norm(x))


def sequence_parallel(mesh):
    """The block with the texts cut along the ranks between its halves: norms and residuals on a share of them."""
    def between(x):
        return nb.shard(x, mesh, P(None, "tp"))

    def f(p, x):
        x = between(x)
        x = between(x + between(attention(p, norm(x))))
        return between(x + between(mlp(p, norm(x))))

    return f


def experts(p, x):
    """Every token to the expert that its router likes best; weights of experts lie along the ranks."""
    scores = nb.softmax(x @ p["router"], axis=-1)
    best = nb.argmax(scores, axis=-1)
    one_hot = nb.where(best[..., None] == nb.arange(EXPERTS, dtype="int64"), nb.max(scores, axis=-1)[..., None], 0.0)
    hidden = nb.relu(nb.einsum("btd,edf->ebtf", x, p["up"]))
    return nb.einsum("ebtf,efd,bte->btd", hidden, p["down"], one_hot)


def step_of(layer):
    def step(params, x):
        loss, grads = nb.value_and_grad(lambda p: nb.mean(layer(p, x) ** 2))(params)
        return loss, nb.tree_map(lambda p, g: p - 0.1 * g, params, grads)

    return step


MLP = {"up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
BLOCK = {**MLP, "q": (WIDTH, HEADS, 8), "k": (WIDTH, HEADS, 8), "v": (WIDTH, HEADS, 8), "out": (HEADS, 8, WIDTH)}
MOE = {"router": (WIDTH, EXPERTS), "up": (EXPERTS, WIDTH, 64), "down": (EXPERTS, 64, WIDTH)}
MEGATRON = {"up": P(None, "tp"), "down": P("tp"), "q": P(None, "tp"), "k": P(None, "tp"), "v": P(None, "tp"),
            "out": P("tp")}
TP, DP_TP, EP = (DeviceMesh("ranks", (4,), ("tp",)), DeviceMesh("ranks", (2, 2), ("dp", "tp")),
                 DeviceMesh("ranks", (4,), ("ep",)))
# Name: layer, shapes of its parameters, mesh, their layouts, and that of the batch.
PROGRAMS = {
    "MLP, tp=4": (mlp, MLP, TP, MEGATRON, P()),
    "MLP, dp=2, tp=2": (mlp, MLP, DP_TP, MEGATRON, P("dp")),
    "block, tp=4": (block, BLOCK, TP, MEGATRON, P()),
    "block, sequence parallel, tp=4": (sequence_parallel(TP), BLOCK, TP, MEGATRON, P()),
    "experts, ep=4": (experts, MOE, EP, {"up": P("ep"), "down": P("ep")}, P()),
}


def exchanged(compiled):
    """{op: (times, bytes)} of what one rank exchanges, from the compiler's report."""
    out, row = {}, r"^ *([\d.]+) (B|KB|MB)  (all_\w+|reduce_scatter|permute)"
    for size, unit, op in re.findall(row, compiled.inspect(), re.M):
        times, count = out.get(op, (0, 0))
        out[op] = (times + 1, count + float(size) * {"B": 1, "KB": 1e3, "MB": 1e6}[unit])
    return out


def run(name):
    """(loss on ranks, loss on one rank, what a rank exchanges)."""
    layer, shapes, mesh, layouts, of_batch = PROGRAMS[name]
    params, x = draw(0, **shapes), draw(1, x=(TEXTS, LENGTH, WIDTH))["x"]
    alone = nb.jit(step_of({"block, sequence parallel, tp=4": block}.get(name, layer)))(params, x)[0].item()
    laid_out = {k: nb.shard(v, mesh, layouts.get(k, P())) for k, v in params.items()}
    together = distributed.is_initialized() and distributed.world_size() > 1
    step = nb.jit(step_of(layer), engine="mpi" if together else "local")
    loss, updated = step(laid_out, nb.shard(x, mesh, of_batch))
    for k, v in updated.items():
        assert v.sharding == laid_out[k].sharding, f"{k} was {laid_out[k].sharding} and is {v.sharding}"
    return loss.item(), alone, exchanged(step)


def main():
    distributed.init()
    for name in PROGRAMS:
        loss, alone, counts = run(name)
        if not distributed.is_main_process():
            continue
        rows = ", ".join(f"{n} {op} ({b / 1e3:.1f} KB)" for op, (n, b) in sorted(counts.items()))
        print(f"{name + ':':32} loss {loss:.6f}, off by {abs(loss - alone):.1e}; {rows}")
    return loss


if __name__ == "__main__":
    main()
