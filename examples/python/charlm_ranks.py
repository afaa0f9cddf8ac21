"""The language model of charlm.py on several ranks: the step says nothing of them, and options of the compile lay the
batch and, by ZeRO-3, the parameters and the optimizer's state over them (Rajbhandari et al., 2020). The ranks are
threads of one process, or with `mpirun -np 2 python3 charlm_ranks.py` processes, each of which runs this script."""

import argparse
import json
import os
import tempfile

import nabla as nb
import numpy as np
from charlm import BATCH, CONTEXT, batches, texts
from language_models import Gpt2, next_token_loss
from nabla import distributed, nn


def program(model, optimizer, context):
    """Entries init and step over the state of a model and its optimizer."""
    def start(model):
        return {"model": model, "optimizer": optimizer.init(model)}

    def step(state, tokens):
        loss, gradients = nn.value_and_grad(next_token_loss)(state["model"], tokens)
        gradients, _ = nn.optim.clip_by_global_norm(gradients, 1.0)
        model, slots = optimizer.update(state["model"], gradients, state["optimizer"])
        return {"model": model, "optimizer": slots}, {"loss": loss}

    return nb.export({"init": lambda: start(model), "step": step}, state=start(model),
                     args={"step": {"tokens": nb.spec((BATCH, context + 1), "int32")}})


def main(steps=1500, ranks=2, zero=3, width=128, layers=4, heads=4, context=CONTEXT, rate=2e-3):
    distributed.init()
    model = Gpt2(256, context, width, heads, layers, key=0)
    optimizer = nn.optim.adamw(nn.optim.schedules.cosine(rate, steps, min(50, steps), rate / 10), (0.9, 0.99),
                               weight_decay=0.1)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "charlm.nbundle")
        report = json.loads(nb.compile_bundle(program(model, optimizer, context), path, mesh={"dp": ranks},
                                              data_axes="dp", zero=zero, load=False))
        bundle = nb.load_bundle(path)
    step = next(e for e in report["entries"] if e["name"] == "step")
    sent = sum(c["sent_bytes"] * c["times"] for c in step.get("collectives", []))
    if distributed.is_main_process():
        print(f"{ranks} ranks, zero={zero}: {report['state_bytes']} bytes of state and {sent} sent per step by each")
    bundle.run("init")
    losses = []
    for i, tokens in zip(range(steps), batches(texts()[0], np.random.RandomState(0), context=context)):
        losses.append(bundle.run("step", tokens=tokens)["loss"].item())
        if distributed.is_main_process() and (i % 100 == 0 or i + 1 == steps):
            print(f"step {i + 1}: loss {losses[-1]:.4f}")
    return {"losses": losses, "state_bytes": report["state_bytes"], "sent_bytes": sent}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--zero", type=int, default=3, choices=[0, 1, 2, 3])
    args = parser.parse_args()
    main(args.steps, args.ranks, args.zero)
